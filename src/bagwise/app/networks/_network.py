"""Networks as those see them who use them: what they are given, what they give, and the way to their process."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.networks._messages import KINDS
from bagwise.app.networks._process import LOADED, RUN, NetworkProcess
from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError, InputError

LOAD_SECONDS, RUN_SECONDS = 120.0, 600.0  # seconds after which loading, and a run of some instances, is ended
LARGEST_FILE = 2**31 - 1  # bytes of one message of protobuf


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

    Attributes
    ----------
    path : path
    inputs, outputs : list of Port
    notes : dict
        What the file says about itself: its metadata, name to text.
    """

    def __init__(self, path: Path, process: NetworkProcess, about: Mapping[str, Any]):
        self.path = path
        self._process = process
        try:
            self.inputs = [_port(given) for given in about["inputs"]]
            self.outputs = [_port(given) for given in about["outputs"]]
            self.notes = {str(name): str(text) for name, text in about["notes"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}: the process of the network answers what cannot be understood ({error}); do not use it."
            ) from error
        for port in self.inputs:
            if port.kind not in KINDS:
                raise InputError(
                    f"{path}: the network takes {port.name!r} of {port.kind}, which is not known; export it again."
                )
            n_bytes = math.prod(n or 1 for n in port.shape) * port.dtype.itemsize
            check_allocation(n_bytes, f"{path}: the input {port} of the network", "use another network")

    @property
    def alive(self) -> bool:
        """Whether it can be run from here: its process was not ended, and we were not forked."""
        return self._process.alive

    def run(self, given: Mapping[str, np.ndarray], output: str, seconds: float | None = None) -> np.ndarray:
        """The output of that name; ended with an error after so many seconds."""
        head = {"do": "run", "path": str(self.path), "output": output, "inputs": list(given)}
        _, found = self._process.ask(head, list(given.values()), seconds or RUN_SECONDS, RUN)
        if len(found) != 1:
            raise InputError(f"{self.path}: the network gives {len(found)} arrays for one output; use another network.")
        return found[0]

    def close(self) -> None:
        """End its process."""
        self._process.close()


def _port(given: Any) -> Port:
    name, kind, shape = given
    if type(name) is not str or type(kind) is not str or any(n is not None and type(n) is not int for n in shape):
        raise TypeError(f"input or output {str(given)[:100]}")
    return Port(name, kind, tuple(shape))


def open_network(content: bytes, path: Path, n_rows: int, *, trusted: bool = False) -> Network:
    """The network of the bytes of an ONNX file; `trusted` where the same bytes were checked before.

    Parameters
    ----------
    content : the bytes
    path : where they come from, for messages
    n_rows : instances that will be run at a time
    trusted : bool
        What the file says about itself (`notes`) is not read again then.

    Raises
    ------
    FormatError
        It is no ONNX file, or one that is damaged or refused.
    MemoryLimitError
        An array of it would be larger than the memory, or loading it takes too much.
    InputError
        It was not loaded in time, or crashes what loads it.
    """
    process = NetworkProcess(path, len(content))
    try:
        head = {
            "do": "load",
            "path": str(path),
            "options": {"n_rows": n_rows, "trusted": trusted},
        }
        about, _ = process.ask(head, [np.frombuffer(content, dtype=np.uint8)], LOAD_SECONDS, LOADED)
        return Network(path, process, about)
    except BaseException:
        process.close()
        raise


def read_network_file(path: Path) -> bytes:
    """The bytes of an ONNX file, where it is not larger than any can be."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give the ONNX file of a network (--embed).")
    size = path.stat().st_size
    if size == 0:
        raise FormatError(f"{path}: the file is empty (0 bytes); copy it again.")
    if size > LARGEST_FILE:
        raise FormatError(f"{path}: it has {size} bytes, and an ONNX file has less than 2 GiB; use a smaller network.")
    check_allocation(size, f"The network {path}", "use a smaller one")
    return path.read_bytes()


def fingerprint_of(*contents: bytes) -> str:
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
