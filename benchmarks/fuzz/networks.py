"""Files of networks: what bagwise itself reads of them, and what their process does with them.

The process is kept from one input to the next, as long as no input ends it, since a new one takes most of a second.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from bagwise.app.networks import _network
from bagwise.app.networks._network import LOAD, Network
from bagwise.app.networks._tflite import TfliteError, TfliteFile
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import TOKENS

TESTS = Path(__file__).parents[2] / "tests"
ROWS = 4
SECONDS = 10.0  # for loading and for a run: what takes longer is ended, and that is a refusal
MOST_LOADS = 500  # by one process
LARGEST = 1 << 20  # numbers that an input of a network is given


def _examples(name: str) -> Any:
    """The module of small networks that the tests have."""
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _made(folder: Path, ending: str, makers: list[Callable[[Path], Path]]) -> list[bytes]:
    return [make(folder / f"net{ending}").read_bytes() for make in makers]


def tflite_files(folder: Path) -> Ready:
    """Flatbuffers, read and edited by bagwise alone."""
    nets = _examples("tflite_examples")
    makers = [nets.sound_network, partial(nets.sound_network, rows=1), *(make for make, _ in nets.HOSTILE.values())]

    def read(path: Path) -> None:
        file = TfliteFile(path.read_bytes())
        named = [file.index(tensor.name) for tensor in file.tensors]
        assert all(
            i is None or file.tensors[i].name == tensor.name for i, tensor in zip(named, file.tensors, strict=True)
        )
        assert all(file.own_operators)
        assert isinstance(file.elsewhere, bool)
        again = TfliteFile(file.with_outputs(file.made))
        assert again.outputs == file.made or file.made == file.outputs

    return Ready(_made(folder, ".tflite", makers), read)


def served(module: str, ending: str, names: list[str], folder: Path) -> Ready:
    """Networks that are loaded and run by their process."""
    nets = _examples(module)
    held: list[Network] = []
    loads = 0

    def load(path: Path, content: bytes) -> Network:
        nonlocal loads
        loads += 1
        if not held or not held[0].alive or loads % MOST_LOADS == 0:
            close()
            held.append(Network(content, path, ROWS))
            return held[0]
        network = held[0]
        network.path, network._size = path, len(content)
        head = {"do": LOAD, "n_rows": ROWS, "trusted": False}
        network._describe(network._ask(head, [np.frombuffer(content, np.uint8)], SECONDS)[0])
        return network

    def read(path: Path) -> None:
        with mock.patch.object(_network, "LOAD_SECONDS", SECONDS):
            network = load(path, path.read_bytes())
        shapes = {port.name: tuple(ROWS if n is None else n for n in port.shape) for port in network.inputs}
        if sum(int(np.prod(shape, dtype=float)) for shape in shapes.values()) <= LARGEST:
            given = {port.name: np.zeros(shapes[port.name], port.dtype) for port in network.inputs}
            network.run_all(given, [port.name for port in network.outputs], SECONDS)

    def close() -> None:
        while held:
            held.pop().close()

    return Ready(_made(folder, ending, [getattr(nets, name) for name in names]), read, close)


WORDS = [*TOKENS["binary"], b"TFL3", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x04\0\0\0", b"\x0c\0"]
KINDS = [
    Kind("tflite", tflite_files, (".tflite",), WORDS, errors=(TfliteError,), names_file=False),
    Kind(
        "network-onnx",
        partial(served, "onnx_examples", ".onnx", ["sound_network", "picture_network", "two_sizes_of_vectors"]),
        (".onnx",),
        [*TOKENS["binary"], b"Reshape", b"Conv", b"ConstantOfShape", b"ai.onnx.ml", b"\x08\xff\xff\xff\xff\x0f"],
    ),
]
if importlib.util.find_spec("ai_edge_litert") is not None:
    KINDS.append(
        Kind("network-tflite", partial(served, "tflite_examples", ".tflite", ["sound_network"]), (".tflite",), WORDS)
    )
