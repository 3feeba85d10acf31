"""The engine for .tflite files, as BirdNET comes: read and checked as ONNX files are, and run by LiteRT."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.networks._messages import KINDS, one_line
from bagwise.app.networks._tflite import TfliteError, TfliteFile
from bagwise.core.checks import memory_limit
from bagwise.core.exceptions import FormatError, InputError, MemoryLimitError


def import_litert() -> Any:
    """The class that runs .tflite files."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise ImportError(
            f"Networks in .tflite files, such as BirdNET, need ai-edge-litert, and {error}; pip install "
            "'bagwise[birdnet]', with Python 3.13 or older, or use the network as ONNX file."
        ) from error
    return Interpreter


class LiteRtModel:
    """The network of the bytes of a .tflite file, checked unless they are trusted, ready to run."""

    def __init__(self, content: bytes, path: Path, n_rows: int, *, trusted: bool = False):
        self._path = path
        try:
            self._file = TfliteFile(content)
            if not trusted:
                _check(self._file, path, n_rows)
            self._open(self._file.outputs)
        except (TfliteError, RuntimeError, ValueError) as error:
            raise FormatError(
                f"{path}: it is damaged, cut off, or no .tflite file that LiteRT can load ({one_line(error)}); copy it "
                "again."
            ) from error

    def _open(self, outputs: Sequence[int]) -> None:
        """Load it so that it gives these tensors: what is no output is not kept while it runs."""
        self._interpreter = import_litert()(model_content=self._file.with_outputs(outputs), num_threads=1)
        self._given = dict[str, tuple[int, ...]]()
        self._outputs = list(outputs)

    def about(self) -> dict[str, Any]:
        """Its inputs and outputs, each with name, kind of numbers and sizes, and the names of what is inside of it."""
        file = self._file
        return {
            "inputs": [file.tensors[i] for i in file.inputs],
            "outputs": [file.tensors[i] for i in file.outputs],
            "inner": [file.tensors[i].name for i in file.made if i not in file.outputs],
            "notes": {},
        }

    def run(self, given: Mapping[str, np.ndarray], outputs: Sequence[str]) -> list[np.ndarray]:
        """The outputs, or inner tensors, of these names."""
        wanted = [self._file.index(name) for name in outputs]
        if None in wanted:
            name = outputs[wanted.index(None)]
            raise InputError(f"{self._path}: the network has no output and no inner tensor {name!r}; choose another.")
        numbers = [i for i in wanted if i is not None]
        try:
            if not set(numbers) <= set(self._outputs):
                self._open(numbers)
            found = self._invoke(given, numbers)
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"{self._path}: the network cannot be run ({one_line(error)}); export it again."
            ) from error
        for name, array in zip(outputs, found, strict=True):
            if array.dtype.name not in KINDS:
                raise InputError(f"{self._path}: the output {name!r} is of {array.dtype}, no numbers; choose another.")
        return found

    def _invoke(self, given: Mapping[str, np.ndarray], outputs: Sequence[int]) -> list[np.ndarray]:
        by_name = {self._file.tensors[i].name: i for i in self._file.inputs}
        shapes = {name: array.shape for name, array in given.items()}
        if shapes != self._given:  # memory is laid out for one number of instances
            self._given = {}
            for name, shape in shapes.items():
                self._interpreter.resize_tensor_input(by_name[name], shape)
            self._interpreter.allocate_tensors()
            self._given = shapes
        for name, array in given.items():
            self._interpreter.set_tensor(by_name[name], array)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(i) for i in outputs]


def _check(file: TfliteFile, path: Path, n_rows: int) -> None:
    """Refuse what no network that only computes needs; `n_rows` stands for sizes that are left open."""
    if file.own_operators:
        raise FormatError(
            f"{path}: it needs the operator {file.own_operators[0]!r}, which is not part of LiteRT, and operators of "
            "others are not run; convert the network with those of TensorFlow Lite alone."
        )
    if file.elsewhere:
        raise TfliteError("its numbers lie beyond its end")
    for tensor in file.tensors:
        n_bytes = np.dtype(tensor.kind).itemsize if tensor.kind in KINDS else 1
        n_bytes *= math.prod(n_rows if n is None else n for n in tensor.shape)
        if n_bytes > memory_limit():
            raise MemoryLimitError(
                f"{path}: the array {tensor.name!r} of the network has {n_bytes / 2**30:.1f} GiB, and the limit is "
                f"{memory_limit() / 2**30:.1f} GiB; use another network."
            )
