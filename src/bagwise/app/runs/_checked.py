"""What the files of a run may hold: checked before anything is taken from them, since they may be somebody else's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import parts_of

MOST = 10**9  # of whole numbers: versions, calls, instances


def _name(value: Any) -> str | None:
    """A name of a file in the run, or in the folder of its media."""
    try:
        parts_of(value)
    except (TypeError, InputError) as error:
        return f"is none: {error}"
    return None


def _path(value: Any) -> str | None:
    """A path, of media or of a model."""
    return None if isinstance(value, str) and "\0" not in value else "is no path"


def _number(value: Any) -> str | None:
    return None if type(value) in (int, float) else "is no number"


def _count(value: Any) -> str | None:
    """A whole number that is not negative."""
    return None if type(value) is int and 0 <= value <= MOST else f"is no whole number from 0 to {MOST}"


def _pair(value: Any) -> str | None:
    return None if isinstance(value, list) and [*map(type, value)] == [str, str] else "is no pair of texts"


def _labelled(value: Any) -> str | None:
    """An instance whose label is known: bag, number in it, label."""
    is_one = isinstance(value, list) and [*map(type, value)] == [str, int, str]
    return None if is_one else "is no bag with a number and a label"


def _site(value: Any) -> str | None:
    """A row of the table of sites."""
    keys = {"site", "latitude", "longitude", "time_zone"}
    return None if isinstance(value, dict) and value.keys() == keys else f"is no site, which has {sorted(keys)}"


_ANY = ""  # stands for all keys of a mapping
MANIFEST = {
    "identity": {
        "folder": _path, "medium": str, "settings": dict, "model": _path, "options?": dict,
        "embedded?": {"name": str, "size": _count, "join": bool},
    },
    "status": str, "media?": _path, "outputs?": [_name], "prints?": {_ANY: str},
    "versions?": [{"number": _count, "calls": [_count]}], "written?": [_count],
    "options?": {
        "formats": [str], "page": bool, "trained": bool, "max_noise": _number, "precision?": (None, _number),
        "names?": {_ANY: _pair}, "label_studio_root?": (None, _path), "sites?": {"table": str, "sites": [_site]},
    },
    "about?": {"model": str, "settings": dict}, "choice?": dict,
}  # fmt: skip
"""What a manifest says; a mark behind a key says that it may be missing, as it is until the run was fitted."""
FITTED = ("versions", "options", "about")
SUPERVISION = {
    "sets": {_ANY: [str]}, "known": [_labelled], "whole": [str], "files": [{"file": _name}], "entries": {_ANY: str},
    "feature_names": (None, [str]), "form": str, "problems": [_pair], "prints": {_ANY: str},
    "unread?": [{"file": _name, "seconds": (None, _number)}],
}  # fmt: skip


def read_checked(file: Path) -> Any:
    """What a JSON file holds, if it can be written again.

    Raises
    ------
    OSError, ValueError
        If it cannot be read, or holds what is no JSON.
    """
    text = file.read_text(encoding="utf-8")
    try:
        document = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if "\\ud" in text.lower():  # half a character can only be written so
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds {text}, which is no number")
    return value


def check(document: Any, form: Any, file: Path) -> None:
    """Refuse a document of another form; the error says where, what came and what was expected."""
    problem = _misfit(document, form, "it")
    if problem is not None:
        raise FormatError(f"{file} is damaged: {problem}; run the bagwise annotate that made the run once more.")


def _misfit(value: Any, form: Any, where: str) -> str | None:
    """Why a value is of another form, None if it is not.

    A form is a type, None, a function that says what is wrong, a list or mapping of forms, or a tuple of several forms.
    """
    if isinstance(form, tuple):
        problems = [_misfit(value, one, where) for one in form]
        return None if None in problems else problems[-1]
    if form is None:
        return None if value is None else f"{where} is {_short(value)}, expected nothing"
    if isinstance(form, type):
        return None if type(value) is form else f"{where} is {_short(value)}, expected {form.__name__}"
    if callable(form):
        problem = form(value)
        return None if problem is None else f"{where}, {_short(value)}, {problem}"
    if not isinstance(value, type(form)):
        return f"{where} is {_short(value)}, expected {type(form).__name__}"
    if isinstance(form, list):
        members = ((one, form[0], f"{where}[{i}]") for i, one in enumerate(value))
    else:
        missing = next((key for key in form if key and not key.endswith("?") and key not in value), None)
        if missing is not None:
            return f"{where} has no {missing!r}"
        members = ((one, of, f"{where}[{key!r}]") for key, one in value.items() if (of := _of(form, key)) is not None)
    return next((problem for one, of, place in members if (problem := _misfit(one, of, place)) is not None), None)


def _of(form: Mapping[str, Any], key: str) -> Any:
    """What the value of a key must be; None where anything may stand."""
    return form.get(key) or form.get(f"{key}?") or form.get(_ANY)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
