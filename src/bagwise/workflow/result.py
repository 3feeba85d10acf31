"""Old place of `bagwise.report.result`, for what still imports it."""

from bagwise.report.result import AnnotateResult, Problem

__all__ = ["AnnotateResult", "Problem"]
