"""The learners whose label sets of bags are set beside each other: all of the catalogue's, and the baselines."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from bagwise.catalog import CATALOG, make_model
from benchmarks.papers.bag_baselines import BASELINES

TOLD_INSTANCES = ("lr-supervised", "svm-supervised")  # they get the label of every instance, the others are not
NETWORKS = ("ored-network", "ored-mix", "bag-stack-network")  # with torch; on BAGWISE_DEVICE, or on a processor
OF_THE_PAPERS = [name for name in CATALOG if name.startswith("k-") or name.endswith(("-last", "-linear"))]
OF_SOUND = ("ored-patch",)  # they take features of another kind

BAG_LEARNERS: dict[str, Callable[..., Any]] = {
    **{
        name: model
        for name, model in CATALOG.items()
        if name not in (*TOLD_INSTANCES, *NETWORKS, *OF_SOUND, *OF_THE_PAPERS)
    },
    **{name: partial(make_model, name, device=os.environ.get("BAGWISE_DEVICE")) for name in NETWORKS},
    **BASELINES,
}


def can_run(name: str) -> bool:
    """Whether the library that a learner needs is there."""
    return name not in NETWORKS or find_spec("torch") is not None
