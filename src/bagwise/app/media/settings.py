"""Settings of the media types: checked when made, from text or from values of their own kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from bagwise.core.exceptions import InputError


@dataclass(frozen=True)
class Settings:
    """What the settings of all media types share; a media type without any uses this class itself.

    A subclass is a frozen dataclass whose fields have defaults, and says in `choices` and `ranges` what they may be.

    Attributes
    ----------
    choices : dict of name to tuple of str
        What a setting that is text may be.
    ranges : dict of name to (low, high)
        Where a number must lie; None is allowed where it is the default.
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        for name, choices in self.choices.items():
            if getattr(self, name) not in choices:
                listed = ", ".join(map(repr, choices))
                raise InputError(f"The setting {name!r} is {getattr(self, name)!r}; use one of {listed}.")
        for name, (low, high) in self.ranges.items():
            self.check_range(name, low, high)

    def check_range(self, name: str, low: float, high: float) -> None:
        """Refuse a setting that is no number within the bounds, nor None where that is its default."""
        value = getattr(self, name)
        if value is None and getattr(type(self), name) is None:
            return
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
        return cls(**{name: coerce_value(name, value, known[name]) for name, value in values.items()})


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def coerce_value(name: str, value: Any, default: Any) -> Any:
    """The value of a setting, given as text or as a value, of the kind of its default; if that is None, a number or
    None."""
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
