"""A wrapper that calibrates any annotator, selection at a wanted precision, and novelty of instances."""

from bagwise.calibration.annotator import CalibratedAnnotator
from bagwise.calibration.precision import CalibratedPrecision, PrecisionModel, select_at_precision
from bagwise.core.fitted import savable

__all__ = ["CalibratedAnnotator", "CalibratedPrecision", "PrecisionModel", "select_at_precision"]

savable(CalibratedAnnotator)
