"""The process of a network, from within: it sets its own limits, then does what it is asked, one thing at a time.

Requests and answers are messages (`bagwise.app.networks._messages`) on the pipes that it was started with:

    {"do": "load", "n_rows": number, "trusted": flag} and the file  ->  inputs, outputs, inner, notes
    {"do": "run", "outputs": [name, ...], "inputs": [name, ...]} and an array for each input  ->  the outputs

each with "path", and "seconds" and "memory", which bound it. An error is {"error": its class, "message": text}.

What the engine (`OnnxModel`, `LiteRtModel`) raises is an error of ours or a MemoryError.
"""

from __future__ import annotations

import math
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

from bagwise.app.networks._litert_model import LiteRtModel, import_litert
from bagwise.app.networks._messages import (
    LOAD,
    OUT_OF_MEMORY,
    SHARE_OF_OUTPUT,
    MessageError,
    read_message,
    write_message,
)
from bagwise.app.networks._onnx_model import OnnxModel, import_onnx
from bagwise.app.networks._tflite import MAGIC
from bagwise.core.exceptions import BagwiseError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

UNKNOWN = 2**30  # bytes that a process may have mapped without a network, where the system does not say
MOST_INNER, LONGEST_NAME = 5000, 200  # inner tensors that are named: a vector is near the end
EVERY = 0.02  # seconds between two looks at the memory

Request = tuple[dict[str, Any], list[np.ndarray]]


def serve() -> None:
    """Answer requests until the parent process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=[sys.stdin.buffer, requests], daemon=True).start()
    worker = _Worker()
    while True:
        head, arrays = requests.get()
        try:
            write_message(answers, *worker.do(head, arrays))
        except (BagwiseError, ImportError, MemoryError) as error:
            write_message(answers, {"error": type(error).__name__, "message": str(error)})
        except MessageError as error:
            write_message(
                answers, {"error": "FormatError", "message": f"{head['path']}: {error}; use another network."}
            )


def _receive(stream: IO[bytes], requests: queue.SimpleQueue[Request]) -> None:
    """Take requests; end the process, whatever it is doing, when there can be no more."""
    code = 0
    try:
        while True:
            requests.put(read_message(stream, math.inf))
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)


class _Worker:
    _network: OnnxModel | LiteRtModel
    _limits: _Limits

    def do(self, head: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        if head["do"] == LOAD:
            return self._load(head, arrays.pop()), []
        self._limits.set(head["memory"], head["seconds"])
        found = self._network.run(dict(zip(head["inputs"], arrays, strict=True)), head["outputs"])
        n_bytes = sum(array.nbytes for array in found)
        if n_bytes > head["memory"] / SHARE_OF_OUTPUT:
            raise MemoryError(f"outputs of {n_bytes} bytes")
        return {}, found

    def _load(self, head: dict[str, Any], file: np.ndarray) -> dict[str, Any]:
        is_tflite = file[4:8].tobytes() == MAGIC
        _ = import_litert() if is_tflite else import_onnx()
        self._limits = _Limits()  # what the libraries take is not the network's
        self._limits.set(head["memory"], head["seconds"])
        engine = LiteRtModel if is_tflite else OnnxModel
        self._network = engine(file.tobytes(), Path(head["path"]), head["n_rows"], trusted=head["trusted"])
        about = self._network.about()
        return about | {"inner": [name for name in about["inner"][-MOST_INNER:] if len(name) <= LONGEST_NAME]}


class _Limits:
    """Bounds of this process, from what it has taken so far on."""

    def __init__(self) -> None:
        self._before, self._resident = _mapped(), _peak()
        self._memory = 0
        if sys.platform == "darwin":  # which takes a limit, and does not keep it
            self.watch()

    def set(self, memory: int, seconds: float) -> None:
        """Allow so much memory, never less than before, and so many more seconds of the processor."""
        self._memory = max(self._memory, memory)
        if resource is None:
            return
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds) + 1)
        if sys.platform != "darwin":
            _lower(resource.RLIMIT_AS, self._before + self._memory)

    def watch(self) -> None:
        """End the process when it has taken more than it may, as far as that is seen every now and then."""
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while _peak() - self._resident <= self._memory or not self._memory:
            time.sleep(EVERY)
        os._exit(OUT_OF_MEMORY)


def _lower(which: int, soft: int) -> None:
    """Set a limit that may be raised again, but for one that is there already."""
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _mapped() -> int:
    """Bytes of the addresses that this process has."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return UNKNOWN


def _peak() -> int:
    """The most bytes of memory that this process had, 0 where it is not known."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
