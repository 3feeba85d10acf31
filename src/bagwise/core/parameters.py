"""Checks of estimators' parameters, each with one error that says what came and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from bagwise.core.exceptions import BagwiseError, InputError


def check_choice(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """`value` must be one of the allowed."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise InputError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, allowed))}.")


def check_that(estimator: Any, name: str, test: Callable[[Any], bool], expected: str) -> None:
    """The named parameter must pass the test; a value of a type that the test cannot compare does not."""
    value = getattr(estimator, name)
    try:
        ok = test(value)
    except TypeError:
        ok = False
    if not ok:
        raise InputError(f"The {name!r} parameter of {type(estimator).__name__} must be {expected}. Got {value!r}.")


def check_positive(estimator: Any, *names: str) -> None:
    """The named parameters must be finite numbers above zero."""
    for name in names:
        check_that(estimator, name, is_positive, "a positive number")


def check_not_negative(estimator: Any, *names: str) -> None:
    """The named parameters must be finite numbers, zero or more."""
    for name in names:
        check_that(estimator, name, lambda value: value == 0 or is_positive(value), "zero or more")


def check_count(estimator: Any, *names: str) -> None:
    """The named parameters must be whole numbers of 1 or more."""
    for name in names:
        check_that(estimator, name, is_count, "a whole number, 1 or more")


def check_max_features(estimator: Any) -> None:
    """`max_features` must be what scikit-learn's trees take."""

    def fits(value: Any) -> bool:
        if value is None or isinstance(value, str):
            return value in (None, "sqrt", "log2")
        return is_count(value) or (not isinstance(value, Integral) and is_positive(value) and float(value) <= 1)

    check_that(estimator, "max_features", fits, "'sqrt', 'log2', a whole number, 1 or more, a share in (0, 1] or None")


def is_positive(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf


def is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def thread_limit(n_jobs: int | None) -> int | None:
    """Most threads that an estimator's `n_jobs` allows; None where it leaves that to the size of the work."""
    return None if n_jobs is None else effective_n_jobs(n_jobs)


@contextmanager
def in_our_words(problem: str, cure: str) -> Iterator[None]:
    """What an estimator that is not ours raises becomes an `InputError`: it knows neither of bags nor of files."""
    try:
        yield
    except BagwiseError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{problem}: {reason}. {cure}") from error
