"""What is worked out once a model, beside what people do."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

WAIT = 1.0  # seconds that people wait

T = TypeVar("T")


class Beside(Generic[T]):
    """Something of one fit of the model, worked out in a thread of its own.

    Parameters
    ----------
    fit : hashable
        Which fit; versions have numbers that are given again after an undo.
    work : callable that gives it
    tell : callable
        Called when it is there, if somebody had to do without.

    Attributes
    ----------
    result : what `work` gave; None before, and where it failed
    """

    def __init__(self, fit: Hashable, work: Callable[[], T], tell: Callable[[], None]):
        self.fit = fit
        self._work, self._tell = work, tell
        self.result: T | None = None
        self._done = threading.Event()
        self._is_late = False
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self) -> bool:
        """Whether it is done, for as long as people wait."""
        is_done = self._done.wait(WAIT)
        if not is_done:
            self._is_late = True
        return is_done

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Exception:  # the page works without: whatever it is, the terminal shows it
            traceback.print_exc()
        finally:
            self._done.set()
        if self._is_late:
            self._tell()
