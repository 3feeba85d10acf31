"""The learners whose label sets of bags are set beside each other: all of the catalogue's, and the baselines."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from bagwise.catalog import CATALOG
from benchmarks.papers.bag_baselines import BASELINES

TOLD_INSTANCES = ("lr-supervised", "svm-supervised")  # they are told the label of every instance, the others are not
NEEDS = {"ored-network": "torch", "ored-mix": "torch"}  # left out where the library is not there
OF_SOUND = ("ored-patch",)  # they take features of another kind

BAG_LEARNERS: dict[str, Callable[..., Any]] = {
    **{
        name: model
        for name, model in CATALOG.items()
        if name not in (*TOLD_INSTANCES, *OF_SOUND) and (name not in NEEDS or find_spec(NEEDS[name]))
    },
    **BASELINES,
}
