"""The order in which answers help most, worked out beside what people do."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from bagwise.workflow.ask import ask_order
from bagwise.workflow.told import Told

WAIT = 1.0  # seconds that people wait for an order


def rank_rows(model: Any, told: Told) -> np.ndarray:
    """(m,) all rows; those that somebody answered already come last."""
    m = told.dataset.bags.n_instances
    first = ask_order(model, told, m)
    rest = np.ones(m, dtype=bool)
    rest[first] = False
    return np.concatenate([first, np.flatnonzero(rest)])


class Ranking:
    """The order of one version, worked out in a thread of its own.

    Parameters
    ----------
    version : int
    get : callable that gives model and all that was said
    tell : callable
        Called when the order is there, if somebody had to do without.
    """

    def __init__(self, version: int, get: Callable[[], tuple[Any, Told]], tell: Callable[[], None]):
        self.version = version
        self._get, self._tell = get, tell
        self._rows: np.ndarray | None = None
        self._done = threading.Event()
        self._is_late = False
        threading.Thread(target=self._work, daemon=True).start()

    def rows(self) -> np.ndarray | None:
        """The order; None where it takes longer than people wait, or where it could not be worked out."""
        if not self._done.wait(WAIT):
            self._is_late = True
        return self._rows

    def _work(self) -> None:
        try:
            self._rows = rank_rows(*self._get())
        except Exception:  # the page works without an order: whatever it is, the terminal shows it
            traceback.print_exc()
        finally:
            self._done.set()
        if self._is_late:
            self._tell()
