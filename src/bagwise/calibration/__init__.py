"""Calibration of annotators, selection at a precision, novelty, classes that nobody listed, totals with intervals."""

from bagwise.calibration._label_sets import CalibratedLabelSets
from bagwise.calibration._novel_classes import NovelClasses, NovelGroup
from bagwise.calibration._recalibration import CalibratedPrecision, PrecisionModel, select_at_precision
from bagwise.calibration.annotator import CalibratedAnnotator
from bagwise.calibration.novelty import Novelty
from bagwise.calibration.totals import (
    Totals,
    allocate_answers,
    draw_rows,
    estimate_totals,
    expected_totals,
    score_strata,
)
from bagwise.core.fitted import savable

__all__ = [
    "CalibratedAnnotator",
    "CalibratedLabelSets",
    "CalibratedPrecision",
    "NovelClasses",
    "NovelGroup",
    "Novelty",
    "PrecisionModel",
    "Totals",
    "allocate_answers",
    "draw_rows",
    "estimate_totals",
    "expected_totals",
    "score_strata",
    "select_at_precision",
]

savable(CalibratedAnnotator, CalibratedLabelSets)
