"""Networks as those see them who use them: what they are given and give, each in a process of its own that is started,
asked, and ended when it takes more time or memory than it may.

Limits are sent with each request and set by the process itself (`_child.py`) before it does anything; time is watched
from here. The process ends when its pipes are closed, so it outlives nobody.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.networks._messages import (
    KINDS,
    LOAD,
    OUT_OF_MEMORY,
    RUN,
    SHARE_OF_OUTPUT,
    EndedError,
    MessageError,
    read_message,
    write_message,
)
from bagwise.core.checks import MEMORY_VARIABLE, check_allocation, memory_limit, memory_setting
from bagwise.core.exceptions import BagwiseError, FormatError, InputError, MemoryLimitError

LOAD_SECONDS, RUN_SECONDS = 120.0, 600.0  # seconds after which loading, and a run of some instances, is ended
LARGEST_FILE = 2**31 - 1  # bytes of one message of protobuf
FLOOR = 2**30  # bytes that a network may take, however small it and its input are,
PER_FILE, PER_INPUT = 8, 64  # and so many times the size of its file and of what it is given at once
ENDING = 10.0  # seconds within which a process that has closed its pipes ends
DONE = {LOAD: "loaded", RUN: "run"}
CURES = {
    LOAD: "use another network",
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


@dataclass(frozen=True)
class Port:
    """An input or output of a network: its name, kind of numbers, and size along each axis, None where it is open."""

    name: str
    kind: str
    shape: tuple[int | None, ...]

    @property
    def dtype(self) -> Any:
        return KINDS[self.kind]

    def __str__(self) -> str:
        return f"{self.name!r} ({' x '.join('?' if n is None else str(n) for n in self.shape) or 'one number'})"


class Network:
    """A network that was checked, ready to run in its process.

    Not for several threads at a time, nor for a process that was forked from this one: see `alive`.

    Parameters
    ----------
    content : the bytes of an ONNX or .tflite file
    path : where they come from, for messages
    n_rows : instances that will be run at a time
    trusted : bool
        Whether the same bytes were checked before; what the file says about itself (`notes`) is not read again then.

    Attributes
    ----------
    inputs, outputs : list of Port
    inner : list of str
        Names of what is computed on the way, which `run` gives as well; not of trusted bytes.
    notes : dict
        What the file says about itself: its metadata, name to text.
    close : function that ends its process

    Raises
    ------
    FormatError
        It is no file of a network, or one that is damaged or refused.
    MemoryLimitError
        An array of it would be larger than the memory, or loading it takes too much.
    InputError
        It was not loaded in time, or crashes what loads it.
    """

    def __init__(self, content: bytes, path: Path, n_rows: int, *, trusted: bool = False):
        self.path = path
        self._size = len(content)
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self.close = weakref.finalize(self, _end, self._process, self._owner)
        try:
            head = {"do": LOAD, "n_rows": n_rows, "trusted": trusted}
            about, _ = self._ask(head, [np.frombuffer(content, dtype=np.uint8)], LOAD_SECONDS)
            self._describe(about)
        except BaseException:
            self.close()
            raise

    def _describe(self, about: Mapping[str, Any]) -> None:
        """Take what the process says of the network."""
        try:
            self.inputs = [_port(given) for given in about["inputs"]]
            self.outputs = [_port(given) for given in about["outputs"]]
            self.inner = [str(name) for name in about["inner"]]
            self.notes = {str(name): str(text) for name, text in about["notes"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._nonsense(error) from error
        for port in self.inputs:
            if port.kind not in KINDS:
                raise InputError(
                    f"{self.path}: the network takes {port.name!r} of {port.kind}, which is not known; export it again."
                )
            n_bytes = math.prod(n or 1 for n in port.shape) * port.dtype.itemsize
            check_allocation(n_bytes, f"{self.path}: the input {port} of the network", "use another network")

    @property
    def alive(self) -> bool:
        """Whether it can be run from here: its process was not ended, and we were not forked."""
        return os.getpid() == self._owner and self.close.alive and self._process.poll() is None

    def run(self, given: Mapping[str, np.ndarray], output: str, seconds: float | None = None) -> np.ndarray:
        """The output, or inner tensor, of that name; ended with an error after so many seconds."""
        return self.run_all(given, [output], seconds)[0]

    def run_all(
        self, given: Mapping[str, np.ndarray], outputs: Sequence[str], seconds: float | None = None
    ) -> list[np.ndarray]:
        """Several outputs of the same instances at once."""
        head = {"do": RUN, "outputs": list(outputs), "inputs": list(given)}
        _, found = self._ask(head, list(given.values()), seconds or RUN_SECONDS)
        if len(found) != len(outputs):
            raise InputError(
                f"{self.path}: the network gives {len(found)} arrays for {len(outputs)} output(s); use another network."
            )
        return found

    def _ask(
        self, head: Mapping[str, Any], arrays: Sequence[np.ndarray], seconds: float
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        """What the process answers; ended with an error after so many seconds, and when it takes too much."""
        do, stdin, stdout = head["do"], self._process.stdin, self._process.stdout
        memory = self._memory(sum(array.nbytes for array in arrays) if do == RUN else 0)
        assert stdin is not None
        assert stdout is not None
        late = threading.Event()
        watch = threading.Timer(seconds, self._stop, [late])
        watch.daemon = True
        watch.start()
        broken: Exception | None = None
        try:
            write_message(stdin, {**head, "path": str(self.path), "seconds": seconds, "memory": memory}, arrays)
            answer, found = read_message(stdout, memory / SHARE_OF_OUTPUT)
        except (MessageError, OSError, ValueError) as error:  # ValueError: its pipes are closed
            broken = error
        except BaseException:  # interrupted: what it answers later would be taken for another answer
            self.close()
            raise
        finally:
            watch.cancel()
            watch.join()
        if late.is_set():
            self.close()
            raise self._failed(f"it was not done after {seconds:g} s, and its process was ended", do)
        if broken is not None:
            raise self._ended(broken, memory, do) from broken
        if "error" not in answer:
            return answer, found
        if answer["error"] == MemoryError.__name__:
            self.close()  # what it has taken so far would leave the next file less
            raise self._too_large(memory, do)
        raise ERRORS.get(str(answer["error"]), InputError)(str(answer.get("message"))[:2000])

    def _memory(self, n_bytes: int) -> int:
        """Bytes that it may take beyond what it takes without a network, when it is given so many."""
        setting = memory_setting()
        if setting is not None:
            return setting
        return min(memory_limit(), FLOOR + PER_FILE * self._size + PER_INPUT * n_bytes)

    def _stop(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _ended(self, error: Exception, memory: int, do: str) -> BagwiseError:
        """Why there is no answer."""
        if isinstance(error, MessageError) and not isinstance(error, EndedError):
            self.close()
            return self._nonsense(error)
        with contextlib.suppress(subprocess.TimeoutExpired):  # who has closed its pipes is about to end
            self._process.wait(ENDING)
        self.close()
        code = self._process.returncode
        if code == OUT_OF_MEMORY:
            return self._too_large(memory, do)
        if code == -getattr(signal, "SIGXCPU", 0):
            return self._failed("it took more time of the processor than it may", do)
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            why = f"its process crashed ({name}), or the system ended it, as it does when memory is short"
            return self._failed(why, do)
        return self._failed(f"its process ended by itself (code {code})", do)

    def _failed(self, why: str, do: str) -> InputError:
        return InputError(f"{self.path}: the network cannot be {DONE[do]}: {why}; {CURES[do]}.")

    def _too_large(self, memory: int, do: str) -> MemoryLimitError:
        return MemoryLimitError(
            f"{self.path}: the network cannot be {DONE[do]} within {memory / 2**30:.2f} GiB of memory; raise "
            f"{MEMORY_VARIABLE}, {CURES[do]}."
        )

    def _nonsense(self, error: Exception) -> InputError:
        return InputError(
            f"{self.path}: the process of the network answers what cannot be understood ({error}); do not use it."
        )


def _port(given: Any) -> Port:
    name, kind, shape = given
    if type(name) is not str or type(kind) is not str or any(n is not None and type(n) is not int for n in shape):
        raise TypeError(f"input or output {str(given)[:100]}")
    return Port(name, kind, tuple(shape))


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


def read_network_file(path: Path) -> bytes:
    """The bytes of an ONNX or .tflite file, where it is not larger than any can be."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give the .onnx or .tflite file of a network (--embed).")
    size = path.stat().st_size
    if size == 0:
        raise FormatError(f"{path}: the file is empty (0 bytes); copy it again.")
    if size > LARGEST_FILE:
        raise FormatError(f"{path}: it has {size} bytes, and a network has less than 2 GiB; use a smaller network.")
    check_allocation(size, f"The network {path}", "use a smaller one")
    return path.read_bytes()


def content_fingerprint(*contents: bytes) -> str:
    """A name for contents that differs whenever one of them does."""
    digest = hashlib.blake2b(digest_size=16)
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def named(ports: Iterable[Port]) -> str:
    """Inputs or outputs in words."""
    return ", ".join(map(str, ports))


def one_of(ports: Sequence[Port], path: Path, what: str) -> Port:
    """The only one of some ports."""
    if len(ports) != 1:
        raise InputError(f"{path}: the network has {len(ports)} inputs ({named(ports)}), and {what} need one.")
    return ports[0]
