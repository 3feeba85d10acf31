"""The process that a network runs in: started, asked, and ended when it takes more time or memory than it may.

Limits are sent with each request and set by the process itself (`child.py`) before it does anything; time is watched
from here. The process ends when its pipes are closed, so it outlives nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.networks._messages import EndedError, MessageError, read_message, write_message
from bagwise.core.checks import MEMORY_VARIABLE, memory_limit, memory_setting
from bagwise.core.exceptions import BagwiseError, FormatError, InputError, MemoryLimitError

OUT_OF_MEMORY = 3  # exit code of a process that ends itself for want of memory
FLOOR = 2**30  # bytes that a network may take, however small it and its input are,
PER_FILE, PER_INPUT = 8, 64  # and so many times the size of its file and of what it is given at once
ENDING = 10.0  # seconds within which a process that has closed its pipes ends
SHARE_OF_OUTPUT = 4  # an output takes a fourth of that at most
LOADED, RUN = "loaded", "run"  # what a process is asked for, in messages
CURES = {
    LOADED: "use another network",
    RUN: "use another network, or fewer instances at a time (--embed-set batch=1)",
}
ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (BagwiseError, FormatError, ImportError, InputError, MemoryLimitError)
}
START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from bagwise.app.networks._child import serve
serve()
"""


class NetworkProcess:
    """A process that holds one network.

    Not for several threads at a time, nor for a process that was forked from this one: see `alive`.
    """

    def __init__(self, path: Path, size: int):
        self.path = path
        self._size = size  # bytes of the file of the network
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self.close = weakref.finalize(self, _end, self._process, self._owner)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked from here."""
        return os.getpid() == self._owner and self.close.alive and self._process.poll() is None

    def ask(
        self, head: Mapping[str, Any], arrays: Sequence[np.ndarray], seconds: float, doing: str
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        """What the process answers; ended with an error after so many seconds, and when it takes too much.

        `doing` is `LOADED` or `RUN`.
        """
        memory = self._memory(sum(array.nbytes for array in arrays) if doing == RUN else 0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()
        watch = threading.Timer(seconds, self._stop, [late])
        watch.daemon = True
        watch.start()
        broken: Exception | None = None
        try:
            write_message(self._process.stdin, {**head, "seconds": seconds, "memory": memory}, arrays)
            answer, found = read_message(self._process.stdout, memory / SHARE_OF_OUTPUT)
        except (MessageError, OSError, ValueError) as error:  # ValueError: its pipes are closed
            broken = error
        except BaseException:  # interrupted: what it answers later would be taken for another answer
            self.close()
            raise
        finally:
            watch.cancel()
            watch.join()
        if late.is_set():
            raise self._late(seconds, doing)
        if broken is not None:
            raise self._ended(broken, memory, doing) from broken
        if "error" in answer:
            raise self._reported(answer, memory, doing)
        return answer, found

    def _memory(self, n_bytes: int) -> int:
        """Bytes that it may take beyond what it takes without a network, when it is given so many."""
        setting = memory_setting()
        if setting is not None:
            return setting
        return min(memory_limit(), FLOOR + PER_FILE * self._size + PER_INPUT * n_bytes)

    def _stop(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _late(self, seconds: float, doing: str) -> InputError:
        self.close()
        return InputError(
            f"{self.path}: the network cannot be {doing}: it was not done after {seconds:g} s, and its process was "
            f"ended; {CURES[doing]}."
        )

    def _reported(self, answer: Mapping[str, Any], memory: int, doing: str) -> Exception:
        """The error that the process reports."""
        kind, message = str(answer["error"]), str(answer.get("message"))[:2000]
        if kind == MemoryError.__name__:
            self.close()  # what it has taken so far would leave the next file less
            return self._too_large(memory, doing)
        return ERRORS.get(kind, InputError)(message)

    def _too_large(self, memory: int, doing: str) -> MemoryLimitError:
        return MemoryLimitError(
            f"{self.path}: the network cannot be {doing} within {memory / 2**30:.2f} GiB of memory; "
            f"raise {MEMORY_VARIABLE}, {CURES[doing]}."
        )

    def _ended(self, error: Exception, memory: int, doing: str) -> BagwiseError:
        """Why there is no answer."""
        if isinstance(error, MessageError) and not isinstance(error, EndedError):
            self.close()
            return InputError(
                f"{self.path}: the process of the network answers what cannot be understood ({error}); do not use it."
            )
        with contextlib.suppress(subprocess.TimeoutExpired):  # who has closed its pipes is about to end
            self._process.wait(ENDING)
        self.close()
        code = self._process.returncode
        if code == OUT_OF_MEMORY:
            return self._too_large(memory, doing)
        if code == -getattr(signal, "SIGXCPU", 0):
            why = "it took more time of the processor than it may"
        elif code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            why = f"its process crashed ({name}), or the system ended it, as it does when memory is short"
        else:
            why = f"its process ended by itself (code {code})"
        return InputError(f"{self.path}: the network cannot be {doing}: {why}; {CURES[doing]}.")


def _command() -> list[str]:
    """What starts the process: with our own path, and nothing of the folder that it is started in (-P)."""
    return [sys.executable, "-P", "-c", START, json.dumps([place for place in sys.path if isinstance(place, str)])]


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # we were forked: it is not ours
        return
    process.kill()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):  # what was not written yet
            stream.close()
    process.wait()
