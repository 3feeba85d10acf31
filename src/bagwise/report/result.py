"""What a run of annotation gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bagwise.dataset import BagDataset
from bagwise.featurize.medium import Medium
from bagwise.io.annotations.annotations import Annotations
from bagwise.report.trust import Trust

Problem = tuple[str, str]
"""Name of a file, bag or row, and what is wrong with it."""


@dataclass(frozen=True)
class AnnotateResult:
    """What a run gave.

    Attributes
    ----------
    annotations : Annotations
    problems : list of (name, message)
        Files and rows that could not be used or that look wrong; the rest was done.
    unexplained : list of (bag, labels)
        Labels of a bag that none of its instances was given.
    outputs : list of paths
    form : str
        How the table of labels was understood.
    n_reused : int
        Files that an earlier run had finished.
    label_sets : dict
        Bag name to its labels, None where nobody labelled it.
    doubtful : list of dict
        Labels that somebody may have forgotten or made up, see `bagwise.workflow.doubtful`.
    trust : Trust or None
        How far probabilities can be believed.
    remarks : list of str
        What is worth knowing and no problem: labels that cannot be told apart.
    choice : dict
        How the model was chosen, see `bagwise.workflow.choose`; empty where it was named.
    dataset : BagDataset or None
        The features that the model saw, from which it follows what is typical of a label.
    """

    annotations: Annotations[Medium]
    problems: list[Problem]
    unexplained: list[tuple[str, list[str]]]
    outputs: list[Path]
    form: str
    n_reused: int
    label_sets: dict[str, set[str] | None] = field(default_factory=dict)
    doubtful: list[dict[str, Any]] = field(default_factory=list)
    trust: Trust | None = None
    remarks: list[str] = field(default_factory=list)
    choice: dict[str, Any] = field(default_factory=dict)
    dataset: BagDataset | None = None
