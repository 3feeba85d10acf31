"""From media or a table of bags to annotations that can be reopened, corrected and fitted again."""

from typing import TYPE_CHECKING, Any

from bagwise.app.runs.options import RunOptions

if TYPE_CHECKING:
    from bagwise.app.report.summary import AnnotateResult
    from bagwise.app.runs.run import Refit, Run

__all__ = ["AnnotateResult", "Refit", "Run", "RunOptions"]


def __getattr__(name: str) -> Any:
    """Runs are imported when they are asked for: the command line needs the options alone to print its help."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bagwise.app.report.summary import AnnotateResult
    from bagwise.app.runs.run import Refit, Run

    return {"AnnotateResult": AnnotateResult, "Refit": Refit, "Run": Run}[name]
