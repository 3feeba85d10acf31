"""The errors and warnings that bagwise raises on purpose."""

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LEAVE_OUT = "Leave it out, or save it again; if other programs can open it, please report this as a bug of bagwise."
LONGEST = 200  # characters of what a library says


class BagwiseError(Exception):
    """Root of every error that bagwise raises on purpose.

    Examples
    --------
    >>> import bagwise
    >>> try:
    ...     bagwise.Bags([[1.0], [2.0]], [0, 3])
    ... except bagwise.BagwiseError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(BagwiseError, ValueError):
    """Data or a parameter that cannot be used; the message says what came, what was expected and the cure.

    Examples
    --------
    It is a `ValueError`, too:

    >>> from bagwise.catalog import make_model
    >>> try:
    ...     make_model("ored-forrest")
    ... except ValueError as error:
    ...     print(str(error).partition(",")[0])
    There is no model 'ored-forrest'; did you mean ored-forest
    """


class FormatError(InputError):
    """A file that is truncated, foreign or inconsistent; the message names the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise import FormatError, load
    >>> path = os.path.join(tempfile.mkdtemp(), "torn.bagwise")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(b"no model")
    >>> try:
    ...     load(path)
    ... except FormatError as error:
    ...     print("torn.bagwise" in str(error))
    True
    """


class MemoryLimitError(BagwiseError, MemoryError):
    """A request whose arrays would not fit; raised before anything is allocated.

    Examples
    --------
    >>> from bagwise.core.exceptions import BagwiseError, MemoryLimitError
    >>> issubclass(MemoryLimitError, BagwiseError), issubclass(MemoryLimitError, MemoryError)
    (True, True)
    """


class ApproximationWarning(UserWarning):
    """An exact computation was replaced by an approximation because its cost would explode.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bagwise.union import union_posterior
    >>> proba, Y = np.random.default_rng(0).dirichlet(np.ones(6), size=7), np.ones((1, 6), dtype=int)
    >>> with warnings.catch_warnings(record=True) as met:
    ...     warnings.simplefilter("always")
    ...     _ = union_posterior(proba, [0, 7], Y, max_exact_labels=2)
    >>> [warning.category.__name__ for warning in met]
    ['ApproximationWarning']
    """


class InfeasibleBagWarning(UserWarning):
    """Bags whose label set no assignment of labels to instances can produce.

    Examples
    --------
    One instance cannot carry two labels:

    >>> import warnings
    >>> from bagwise import ORedLogisticRegression
    >>> with warnings.catch_warnings(record=True) as met:
    ...     warnings.simplefilter("always")
    ...     _ = ORedLogisticRegression().fit([[[0.0]], [[1.0]], [[2.0]]], [{"wren", "tit"}, {"wren"}, {"tit"}])
    >>> [warning.category.__name__ for warning in met]
    ['InfeasibleBagWarning']
    """


class CalibrationWarning(UserWarning):
    """Probabilities that were to be calibrated and could not be.

    Examples
    --------
    >>> import warnings
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.calibration import CalibratedAnnotator
    >>> from bagwise.datasets import make_gaussian_bags
    >>> with warnings.catch_warnings(record=True) as met:
    ...     warnings.simplefilter("always")
    ...     _ = CalibratedAnnotator(ORedLogisticRegression()).fit(make_gaussian_bags(n_bags=5, random_state=0))
    >>> [warning.category.__name__ for warning in met]
    ['CalibrationWarning']
    """


def in_words(error: BaseException) -> str:
    """The message of an error; of one that the system raised, the file, the reason and a cure."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.filename is None:
        room = error.errno in (errno.ENOSPC, errno.EDQUOT) and error.strerror == os.strerror(error.errno)
        return f"{error.strerror}; free some, or write to another place." if room else error.strerror
    return f"{error.filename}: {error.strerror}; check the path and its permissions."


@contextmanager
def one_file(path: object, what: str = "it cannot be read", cure: str = LEAVE_OUT) -> Iterator[None]:
    """The net around what reads a file: whatever a library raises in it becomes a `FormatError` of that file.

    What the system says of a file (OSError) stays as it is, and so does what concerns all files: packages that are not
    there, warnings that were made errors, interrupts.
    """
    try:
        yield
    except (BagwiseError, ImportError, Warning):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a damaged file leads to a place that cannot be
            raise
        text = " ".join(str(error).split())[:LONGEST]
        raise FormatError(f"{path}: {what} ({type(error).__name__}{f': {text}' if text else ''}). {cure}") from error


class BackgroundShareWarning(UserWarning):
    """The expected share of background cannot be had in these bags.

    Examples
    --------
    >>> import warnings
    >>> from bagwise import ORedLogisticRegression
    >>> bags, labels = [[[0.0], [1.0]], [[5.0], [6.0]]], [{"wren", "tit"}, {"wren", "robin"}]
    >>> with warnings.catch_warnings(record=True) as met:
    ...     warnings.simplefilter("always")
    ...     _ = ORedLogisticRegression(background=True, background_share=0.9).fit(bags, labels)
    >>> {warning.category.__name__ for warning in met}
    {'BackgroundShareWarning'}
    """


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of bagwise that made the call, through however many of our own functions."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "bagwise":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
