"""What Label Studio needs to know of a medium."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, Any]


def _start_and_end(value: Facts, file: Facts) -> dict[str, Any]:
    return {"start": value["start"], "end": value["end"]}


def _no_details(row: Facts, file: Facts) -> dict[str, Any]:
    return {}


def _every_file(file: Facts) -> bool:
    return True


@dataclass(frozen=True)
class LabelStudio:
    """How a medium is shown and marked in Label Studio.

    Attributes
    ----------
    key : str
        Key of the data of a task.
    kind : str
        Kind of the results.
    tag, labels : str
        Tags of the object and of its labels in the interface.
    value : function of a row, its file and the file's text that gives the value of a result, without the label
    place : function of such a value and the file that gives the columns of the place
    details : function of a row and its file that gives what else a result says
    show : function of the key and the first file that gives the lines of the interface, where one tag does not do
    holds_text : bool
        Whether a task holds the text itself and not the name of the file.
    joined : bool
        Whether neighbouring instances of one label are marked as one interval.
    shows : function of a file
        Whether Label Studio can show it; others have no task.
    """

    key: str
    kind: str
    tag: str
    labels: str
    value: Callable[[Facts, Facts, str], dict[str, Any]]
    place: Callable[[Facts, Facts], dict[str, Any]] = _start_and_end
    details: Callable[[Facts, Facts], dict[str, Any]] = _no_details
    show: Callable[[str, Facts], list[str]] | None = None
    holds_text: bool = False
    joined: bool = False
    shows: Callable[[Facts], bool] = _every_file
