"""Settings of the media types: checked when made, from text or from values of their own kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from typing import Any, Self

import numpy as np

from bagwise.core.exceptions import InputError


def choice(*names: str) -> Any:
    """A setting that is one of some texts, the first where nothing is said."""
    return field(default=names[0], metadata={"choices": names})


def number(default: float | None, low: float, high: float = np.inf) -> Any:
    """A setting that is a number from `low` to `high`, or None where that is the default."""
    return field(default=default, metadata={"range": (low, high)})


@dataclass(frozen=True)
class Settings:
    """What the settings of all media types share; a media type without any uses this class itself.

    A subclass is a frozen dataclass whose fields have defaults; what a field may be is said by `choice` and `number`.
    """

    def __post_init__(self) -> None:
        for setting in fields(self):
            value, choices = getattr(self, setting.name), setting.metadata.get("choices", ())
            if choices and value not in choices:
                listed = ", ".join(map(repr, choices))
                raise InputError(f"The setting {setting.name!r} is {value!r}; use one of {listed}.")
            if "range" in setting.metadata:
                self.check_range(setting.name, *setting.metadata["range"])

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
                there = f"the settings are {', '.join(known)}" if known else "there are none"
                raise InputError(f"There is no setting {name!r}; {there}.")
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
        found = float(value) if text is not None or _is_number(value) else None
    except ValueError:
        found = None
    if found is None:
        raise InputError(f"The setting {name!r} takes a number, not {value!r}.")
    if isinstance(default, int):
        if not found.is_integer():
            raise InputError(f"The setting {name!r} takes a whole number, not {value!r}.")
        return int(found)
    return found
