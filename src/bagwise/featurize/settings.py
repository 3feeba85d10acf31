"""Settings of the media: checked when made, from text or from values of their own kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any, Self

import numpy as np

from bagwise.exceptions import InputError


@dataclass(frozen=True)
class Settings:
    """What the settings of all media share; a medium without any uses this class itself."""

    def check_ranges(self, ranges: dict[str, tuple[float, float]]) -> None:
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not _is_number(value) or not low <= value <= high:
                bounds = f"from {low:g} to {high:g}" if high < np.inf else f"of {low:g} or more"
                raise InputError(f"The setting {name!r} is {value!r}; expected a number {bounds}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_text(cls, values: Mapping[str, Any]) -> Self:
        """Settings by name, each as text from a command line or as a value of its own kind."""
        known = {f.name: f.default for f in fields(cls)}
        for name in values:
            if name not in known:
                choice = f"the settings are {', '.join(known)}" if known else "there are none"
                raise InputError(f"There is no setting {name!r}; {choice}.")
        return cls(**{name: _parse(name, value, known[name]) for name, value in values.items()})


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _parse(name: str, value: Any, default: Any) -> Any:
    """A value of the kind of its default; where that is None, a number or None."""
    text = value.strip().lower() if isinstance(value, str) else None
    if isinstance(default, str):
        if text is None:
            raise InputError(f"The setting {name!r} takes text, not {value!r}.")
        return value
    if isinstance(default, bool):
        if text not in ("true", "false") and not isinstance(value, (bool, np.bool_)):
            raise InputError(f"The setting {name!r} takes true or false, not {value!r}.")
        return text == "true" if text is not None else bool(value)
    if default is None and (value is None or text == "none"):
        return None
    try:
        number = float(value) if text is not None or _is_number(value) else None
    except ValueError:
        number = None
    if number is None:
        raise InputError(f"The setting {name!r} takes a number, not {value!r}.")
    if isinstance(default, int):
        if not number.is_integer():
            raise InputError(f"The setting {name!r} takes a whole number, not {value!r}.")
        return int(number)
    return number
