"""Settings of a learner given as name=value, checked against its signature."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

WORDS = {"true": True, "false": False, "none": None, "null": None}


def set_option(command: Any) -> Any:
    """The option --set."""
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE",
        help="A setting of the learner, such as l2=0.1, or of a step before it as step__name=value; may be repeated.",
    )(command)  # fmt: skip


def apply_settings(model: Any, settings: Iterable[str], seed: int | None = None, jobs: int | None = None) -> Any:
    """The model with these settings; also its seeds and numbers of jobs, where it has any."""
    from bagwise.exceptions import InputError
    from bagwise.pipeline import final_step, fit_parameters

    everything = model.get_params(deep=True)
    for key in everything:
        holder, _, last = key.rpartition("__")
        is_ours = type(everything.get(holder, model)).__module__.startswith("bagwise.")
        if seed is not None and last == "random_state":
            model.set_params(**{key: seed})
        if jobs is not None and last == "n_jobs" and is_ours:  # scikit-learn's mostly do nothing, and say so
            model.set_params(**{key: jobs})
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, not {setting!r}.")
        final = final_step(model)
        own = final.get_params(deep=True)
        key = next(iter(fit_parameters(model, **{name: None}))) if name in own else name
        if key not in everything:
            (probe,) = fit_parameters(model, x=None)
            nested = [key for key in everything if "__" in key and not key.startswith(probe[:-1] or " ")]
            hint = f"; and before it {', '.join(sorted(nested)[:6])}, ..." if nested else ""
            raise InputError(f"{type(final).__name__} has no setting {name!r}; it has {', '.join(sorted(own))}{hint}.")
        model.set_params(**{key: parse_value(name, text, everything[key])})
    return model


def _is_step(value: Any) -> bool:
    return hasattr(value, "get_params")


def parse_value(name: str, text: str, default: Any) -> Any:
    """The value of a setting, of the same kind as its default."""
    from bagwise.exceptions import InputError

    value: Any = text
    if text.casefold() in WORDS:
        value = WORDS[text.casefold()]
    else:
        try:
            value = json.loads(text)
        except ValueError:
            value = text
    kinds: dict[type, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"), int: ((int,), "a whole number"), float: ((int, float), "a number"),
        str: ((str,), "a word"),
    }  # fmt: skip
    if type(default) in kinds and value is not None:
        allowed, expected = kinds[type(default)]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise InputError(f"The setting {name!r} must be {expected}, got {text!r}.")
    if isinstance(value, (list, dict)) or _is_step(default):
        raise InputError(f"The setting {name!r} cannot be given on the command line; use Python for it.")
    return value
