"""Columns of a table of any library (pandas, polars, pyarrow, ...) as numpy arrays.

narwhals reads the tables of these libraries without importing one that is not there already. A table that it does not
know but that speaks Arrow (``__arrow_c_stream__``) is read by pyarrow, where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from bagwise.core.checks import import_pyarrow
from bagwise.core.exceptions import FormatError, InputError

Where = Callable[[int], str]
"""Names the place of a row, counted from 0, for messages: "birds.csv, row 17"."""

_NUMBERS = "biuf"
_NUMBER_TYPES = (bool, int, float, Decimal, np.number, np.bool_)


class Columns:
    """The columns of a table by name, each turned into numpy only when it is asked for.

    Parameters
    ----------
    table : table in memory of any library that narwhals knows, or object with ``__arrow_c_stream__``

    Attributes
    ----------
    names : list of str
    n_rows : int
    """

    def __init__(self, table: Any):
        self._frame = _as_frame(table)
        self.names = list(self._frame.columns)
        self.n_rows = len(self._frame)
        self._known = set(self.names)

    def values(self, name: str) -> np.ndarray:
        """Numbers as they are (missing ones NaN); text and lists as an array of objects, None where missing."""
        if name not in self._known:
            raise InputError(
                f"The table has 0 columns {name!r}, expected one; its columns are "
                f"{', '.join(map(repr, self.names[:8]))}."
            )
        column = self._frame.get_column(name)
        missing = column.is_null().to_numpy()
        if column.dtype.is_numeric() and not missing.any() and not column.dtype.is_decimal():
            return column.to_numpy()
        values = column.to_list()
        for row in np.flatnonzero(missing):
            values[row] = None
        return _plain_array(values, name)

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """(m, d) array of some columns, float32 where all of them are, else float64; each cell a finite number."""
        if not names or self.n_rows == 0:
            raise InputError(f"The table has {self.n_rows} rows and {len(names)} features; at least one is needed.")
        arrays = [self.values(name) for name in names]
        for name, array in zip(names, arrays, strict=True):
            if array.dtype.kind not in _NUMBERS:
                raise InputError(f"The column {name!r} holds no numbers; name the columns that are features.")
        single = all(array.dtype == np.float32 for array in arrays)
        X = np.stack(arrays, axis=1).astype(np.float32 if single else np.float64, copy=False)
        check_features(X, names, place_in_table)
        return X

    def keys(self, name: str) -> list[Any]:
        """The values of a column that names the bag of each row; a missing one is an error that names the row."""
        values = self.values(name).tolist()
        for row, value in enumerate(values):
            if is_missing(value):
                raise InputError(f"{place_in_table(row)}: the column {name!r} is empty; name the bag of every row.")
        return values


def place_in_table(row: int) -> str:
    """A row of a table in memory, for messages."""
    return f"The table, row {row}"


def is_missing(value: Any) -> bool:
    """Whether a value of a column is none: None, or NaN, the only one that differs from itself."""
    return value is None or (isinstance(value, float) and value != value)


def check_features(X: np.ndarray, feature_names: Sequence[str] | None, where: Where) -> None:
    """Refuse NaN and infinite features, naming row and column."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()) or np.isfinite(X).all():  # the sum of finite numbers may overflow, but seldom does
            return
    row, column = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
    heading = repr(feature_names[column]) if feature_names else str(column + 1)
    raise FormatError(f"{where(row)}: the feature {heading} is {X[row, column]}; fill in a number, or remove the row.")


def _as_frame(table: Any) -> Any:
    import narwhals as nw  # here, so that the command line starts without it

    try:
        frame = nw.from_native(table, eager_only=True, pass_through=True)
        if frame is table and hasattr(table, "__arrow_c_stream__"):
            arrow = import_pyarrow(f"Reading a {type(table).__name__}")
            frame = nw.from_native(arrow.table(table), eager_only=True)
    except (ValueError, TypeError) as error:  # narwhals' and pyarrow's own are both
        text = " ".join(str(error).split())
        raise InputError(
            f"The {type(table).__name__} cannot be read as a table: {text}; give every column a name of its own."
        ) from error
    if frame is table:
        raise InputError(
            f"A {type(table).__name__} is no table in memory, as those of pandas, polars and pyarrow are; pass one of "
            "these (collect a lazy one first), or use Bags.from_groups."
        )
    return frame


def _plain_array(values: list[Any], name: str) -> np.ndarray:
    """Numbers as an array of numbers, everything else as an array of objects."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and all(issubclass(kind, _NUMBER_TYPES) for kind in kinds):
        dtype = np.float64 if None in values or Decimal in kinds else None
        return np.array([np.nan if value is None else value for value in values], dtype=dtype)
    if len(kinds) > 1 and any(issubclass(kind, _NUMBER_TYPES) for kind in kinds):
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(
            f"The column {name!r} holds values of several kinds ({found}); give every column values of one kind."
        )
    return np.fromiter(values, dtype=object, count=len(values))
