"""What is worked out once a model, beside what people do."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

WAIT = 1.0  # seconds that people wait

T = TypeVar("T")


class Beside(Generic[T]):
    """Something of one version of the model, worked out in a thread of its own.

    Parameters
    ----------
    version : int
    work : callable that gives it
    tell : callable
        Called when it is there, if somebody had to do without.
    """

    def __init__(self, version: int, work: Callable[[], T], tell: Callable[[], None]):
        self.version = version
        self._work, self._tell = work, tell
        self._result: T | None = None
        self._done = threading.Event()
        self._is_late = False
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def result(self) -> T | None:
        """None where it takes longer than people wait, or where it could not be worked out."""
        if not self._done.wait(WAIT):
            self._is_late = True
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except Exception:  # the page works without: whatever it is, the terminal shows it
            traceback.print_exc()
        finally:
            self._done.set()
        if self._is_late:
            self._tell()
