"""From media or a table of bags to annotations that can be reopened, corrected and fitted again."""

from bagwise.report.result import AnnotateResult
from bagwise.workflow.run import Refit, Run

__all__ = ["AnnotateResult", "Refit", "Run"]
