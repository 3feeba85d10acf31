"""In which order the instances of a run are best shown to a person."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.annotation import query_order
from bagwise.pipeline import final_step
from bagwise.workflow.told import Told


def ask_order(model: Any, told: Told, n: int) -> np.ndarray:
    """`query_order` for the model of a run: rows of at most `n` instances that nobody named yet.

    What was named since the last fit counts. An instance of a label that is new to the model is none of its classes,
    and so is to it what noise is.
    """
    dataset = told.dataset.recode(final_step(model).classes_.tolist(), unknown="drop")
    known = dataset.instance_labels
    strange = told.known >= 0 if known is None else (told.known >= 0) & (known.instances < 0)
    return query_order(model, dataset.bags, dataset.label_sets, known, n, noise=told.noise | strange)
