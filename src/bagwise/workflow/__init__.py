"""From a folder of media and a table of labels to annotations, in steps that can be interrupted."""

from bagwise.workflow.annotate import annotate_media
from bagwise.workflow.result import AnnotateResult

__all__ = ["AnnotateResult", "annotate_media"]
