"""What other installed packages bring: learners, media types and formats, found by their entry points."""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points
from typing import Any, TypeVar

LEARNERS, MEDIA_TYPES = "bagwise.learners", "bagwise.media_types"
DATA_FORMATS, ANNOTATION_FORMATS = "bagwise.data_formats", "bagwise.annotation_formats"

T = TypeVar("T")


def add_installed(own: dict[str, T], group: str, kind: Any = None) -> None:
    """Add to `own` what entry points of the group bring, by their names.

    What cannot be imported, is of another kind (functions where that is None), or bears a name that is taken, is left
    out with a warning: a package that somebody else installed never keeps bagwise from working.
    """
    for point in entry_points(group=group):
        where = f"{point.value!r} of the entry points {group!r}"
        problem = f"the name {point.name!r} is taken" if point.name in own else ""
        try:
            thing = None if problem else point.load()
        except Exception as error:  # whatever a package raises when it is imported
            problem = f"it cannot be imported ({type(error).__name__}: {error})"
        else:
            if not (problem or (callable(thing) if kind is None else isinstance(thing, kind))):
                problem = f"it is {type(thing).__name__}, no {'function' if kind is None else kind.__name__}"
        if problem:
            package = point.dist.name if point.dist is not None else "its package"
            warnings.warn(
                f"{where} is not used: {problem}; update {package}, or uninstall it.", UserWarning, stacklevel=2
            )
        else:
            own[point.name] = thing  # type: ignore[assignment]
