"""The state of a long fit in a folder, so that an interrupted fit can go on and end where it would have ended.

A folder holds ``checkpoint.json``, which says what fit it belongs to, and either ``state.bagwise`` (the arrays of the
last finished iteration) or ``evaluations-*.npy`` (values and gradients that the solver has asked for so far). Every
file appears complete or not at all, so the folder is sound whenever the process is killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from bagwise._version import __version__
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.archive import parse_array, read_archive, write_archive
from bagwise.io.files import TORN, atomic_write

IDENTITY, STATE = "checkpoint.json", "state.bagwise"
_EVALUATIONS = "evaluations-{:06d}.npy"

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


def array_fingerprint(*arrays: Any) -> str:
    """A short text that differs where any of the arrays do."""
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def identity_of(model: Any, data: Any) -> dict[str, Any]:
    """What makes two fits the same: data, by plain values that differ where it does, settings, versions."""
    settings = {key: value for key, value in model.get_params(deep=True).items() if not key.endswith("verbose")}
    return {
        "data": data,
        "steps": {key: str(value) for key, value in sorted(settings.items())},
        "versions": {"bagwise": __version__, "numpy": np.__version__, "scipy": scipy.__version__},
    }


class Checkpoint:
    """Keeps the state of one fit in a folder.

    Parameters
    ----------
    folder : str or path
        Made if it is not there.
    identity : mapping of plain data
        What fit this is: data, settings, versions. A folder of another fit is an error.
    interval : float, default=10.0
        Seconds between two writings; 0 writes whenever there is something new.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any], interval: float = 10.0):
        self.folder = Path(folder)
        self.interval = interval
        self._last = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The checkpoint folder {folder} cannot be made ({error.strerror}); choose another."
            ) from error
        text = json.dumps(identity, sort_keys=True, default=str)
        path = self.folder / IDENTITY
        if path.is_file():
            if path.read_bytes() != text.encode():
                raise InputError(
                    f"The checkpoint in {folder} belongs to another fit (other data, settings or versions); give an "
                    "empty folder, or remove it."
                )
        else:
            self.forget(self.folder)  # what is left of a fit whose name is gone: nobody knows of which
            self.folder.mkdir(exist_ok=True)
            with atomic_write(path, "w") as file:
                file.write(text)

    def clear(self) -> None:
        """Remove what was kept, after the fit is done; the folder goes too if nothing else is in it."""
        self.forget(self.folder)

    @staticmethod
    def forget(folder: str | os.PathLike[str]) -> None:
        """Remove what any fit kept in a folder, and the folder if nothing else is in it."""
        folder = Path(folder)
        torn = [path for path in folder.glob(".*.tmp") if TORN.fullmatch(path.name)]
        # first that by which another fit would take the rest for its own, should not all of it go
        for path in [folder / IDENTITY, folder / STATE, *folder.glob("evaluations-*.npy"), *torn]:
            path.unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._last < self.interval:
            return False
        self._last = now
        return True

    # -- solvers whose whole state is known ---------------------------------------------------------------------------

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays that were kept last, or None."""
        path = self.folder / STATE
        if not path.is_file():
            return None
        with path.open("rb") as file:
            try:
                names, arrays = read_archive(file)
                return {name: arrays[i] for i, name in enumerate(names)}
            except Exception as error:  # whatever damage brings up in zip, JSON or numpy
                raise FormatError(f"{path} is damaged ({error}); remove the folder and start again.") from error

    def save(self, **arrays: Any) -> None:
        """Keep these arrays, if the last writing is long enough ago."""
        if self._is_due():
            with atomic_write(self.folder / STATE) as file:
                write_archive(file, list(arrays), [np.asarray(array) for array in arrays.values()])

    # -- solvers that keep their state to themselves ------------------------------------------------------------------

    def remember(self, objective: Objective) -> Objective:
        """The objective with a memory: what was evaluated before the interruption is given again, not computed.

        A deterministic solver that gets the same values and gradients takes the same path, to the last bit.
        """
        known = self._known_evaluations()
        n_known, position = len(known), 0
        fresh: list[np.ndarray] = []
        n_files = len(list(self.folder.glob("evaluations-*.npy")))

        def remembered(weights: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal position, n_files
            position += 1
            if position <= n_known:
                row = known[position - 1]
                if len(row) != 1 + weights.size:
                    raise FormatError(
                        f"The checkpoint in {self.folder} is of another shape; remove it and start again."
                    )
                return float(row[0]), row[1:].reshape(weights.shape).copy()
            value, gradient = objective(weights)
            fresh.append(np.concatenate([[value], np.ravel(gradient)]))
            if self._is_due():
                with atomic_write(self.folder / _EVALUATIONS.format(n_files)) as file:
                    np.save(file, np.array(fresh), allow_pickle=False)
                n_files += 1
                fresh.clear()
            return value, gradient

        return remembered

    def _known_evaluations(self) -> list[np.ndarray]:
        rows: list[np.ndarray] = []
        for i in range(len(list(self.folder.glob("evaluations-*.npy")))):
            path = self.folder / _EVALUATIONS.format(i)
            try:
                block = parse_array(path.read_bytes(), path.name)
                if block.ndim != 2 or block.dtype != np.float64:
                    raise FormatError("it holds another kind of numbers")
            except (OSError, FormatError) as error:
                raise FormatError(f"{path} is damaged ({error}); remove the folder and start again.") from error
            rows.extend(block)
        return rows
