"""The tables of a .tflite file, read as far as they are needed, and edited: a flatbuffer whose every offset is checked.

A flatbuffer is a tree of tables. A table begins with how far before it the list of its fields is; a field holds a
number, or how far behind it a vector, text or table is. Numbers are little-endian. Since nothing but such distances
joins the parts, a vector may be put at the end of the file, and whole files may be moved.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

MAGIC = b"TFL3"  # at the fifth byte
KINDS = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8", 10: "float64",
}  # fmt: skip
_CODES, _SUBGRAPHS, _BUFFERS = 1, 2, 4  # fields of the model
_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS = range(4)  # of a subgraph
_SHAPE, _TYPE, _BUFFER, _NAME, _SIGNATURE = 0, 1, 2, 3, 7  # of a tensor
_INDEX, _GIVEN, _MADE = range(3)  # of an operator
_CUSTOM = 1  # of an operator's code
_DATA, _START, _SIZE = range(3)  # of a buffer
_FURTHER = {_CODES, _SUBGRAPHS, _BUFFERS}


class TfliteError(Exception):
    """The bytes are no .tflite file, or a damaged one."""


class Tensor(NamedTuple):
    """Name, kind of numbers, and size along each axis, None where it is open."""

    name: str
    kind: str
    shape: tuple[int | None, ...]


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int):
        self._data, self._at = data, at
        self._fields = at - self._number("<i", at)
        self._n_bytes = self._number("<H", self._fields)

    def _number(self, kind: str, at: int) -> int:
        if at < 0:
            raise TfliteError("an offset leads out of it")
        try:
            return struct.unpack_from(kind, self._data, at)[0]
        except struct.error:
            raise TfliteError("an offset leads out of it") from None

    def place(self, field: int) -> int:
        """Where the value of a field is, 0 where it is not there."""
        entry = 4 + 2 * field
        offset = self._number("<H", self._fields + entry) if entry + 2 <= self._n_bytes else 0
        return self._at + offset if offset else 0

    def number(self, field: int, kind: str) -> int:
        """A number, 0 where it is not there."""
        place = self.place(field)
        return self._number(kind, place) if place else 0

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Where the entries of a vector begin, and how many there are, each of so many bytes."""
        place = self.place(field)
        if not place:
            return 0, 0
        start = place + self._number("<I", place)
        count = self._number("<I", start)
        if start + 4 + count * size > len(self._data):
            raise TfliteError("a list in it is longer than the file")
        return start + 4, count

    def ints(self, field: int) -> list[int]:
        start, count = self._vector(field, 4)
        return np.frombuffer(self._data, dtype="<i4", count=count, offset=start).tolist()

    def text(self, field: int) -> str:
        start, count = self._vector(field, 1)
        return bytes(self._data[start : start + count]).decode("utf-8", "replace")

    def length(self, field: int) -> int:
        return self._vector(field, 1)[1]

    def tables(self, field: int) -> list[_Table]:
        start, count = self._vector(field, 4)
        places = range(start, start + 4 * count, 4)
        return [_Table(self._data, place + self._number("<I", place)) for place in places]


class TfliteFile:
    """A .tflite file of one network.

    Attributes
    ----------
    content : bytes
    tensors : list of Tensor
    inputs, outputs : list of int
        Numbers of tensors.
    made : list of int
        Tensors that operators make, in order.
    """

    def __init__(self, content: bytes):
        if content[4:8] != MAGIC:
            raise TfliteError("it does not begin as a .tflite file does")
        self.content = content
        model = _Table(content, struct.unpack_from("<I", content)[0])
        graphs = model.tables(_SUBGRAPHS)
        if not graphs:
            raise TfliteError("it holds no network")
        self._model, self._graph = model, graphs[0]
        tables = self._graph.tables(_TENSORS)
        self.tensors = [_tensor(table) for table in tables]
        self.inputs, self.outputs = self._numbers(_INPUTS), self._numbers(_OUTPUTS)
        n_buffers = len(model.tables(_BUFFERS))
        if any(table.number(_BUFFER, "<I") >= n_buffers for table in tables):
            raise TfliteError("a tensor of it has numbers that are not there")
        self.made = list(self._made(len(model.tables(_CODES))))
        if not self.inputs or not self.outputs or not self.made:
            raise TfliteError("it holds no network")

    def _numbers(self, field: int, table: _Table | None = None) -> list[int]:
        """Tensors by number, each of which is there; -1 stands for none."""
        found = [i for i in (table or self._graph).ints(field) if i != -1]
        if not all(0 <= i < len(self.tensors) for i in found):
            raise TfliteError("it names a tensor that it has not")
        return found

    def _made(self, n_codes: int) -> Iterator[int]:
        for operator in self._graph.tables(_OPERATORS):
            if operator.number(_INDEX, "<I") >= n_codes:
                raise TfliteError("it names an operator that it has not")
            self._numbers(_GIVEN, operator)
            yield from self._numbers(_MADE, operator)

    @property
    def own_operators(self) -> list[str]:
        """Names of operators that are not part of LiteRT."""
        return [name for code in self._model.tables(_CODES) if (name := code.text(_CUSTOM))]

    @property
    def elsewhere(self) -> bool:
        """Whether numbers of a tensor lie beyond the flatbuffer, and where the file does not reach."""
        places = [(buffer.number(_START, "<Q"), buffer.number(_SIZE, "<Q")) for buffer in self._model.tables(_BUFFERS)]
        return any(start > 1 and start + size > len(self.content) for start, size in places)

    def index(self, name: str) -> int | None:
        """Number of the tensor of that name which the network makes or is given, None where there is none."""
        return next((i for i in [*self.outputs, *reversed(self.made)] if self.tensors[i].name == name), None)

    def with_outputs(self, outputs: Sequence[int]) -> bytes:
        """The same network, which gives these tensors: a list of them at the end, and the distance to it changed."""
        place = self._graph.place(_OUTPUTS)
        assert place, "the file has outputs"
        if list(outputs) == self.outputs:
            return self.content
        end = math.ceil(len(self.content) / 4) * 4
        if end - place >= 2**31:
            raise TfliteError("it is too large to be given another output")
        added = struct.pack(f"<I{len(outputs)}i", len(outputs), *outputs)
        edited = bytearray(self.content.ljust(end, b"\0") + added)
        struct.pack_into("<I", edited, place, end - place)
        return bytes(edited)


def _tensor(table: _Table) -> Tensor:
    shape, signature = table.ints(_SHAPE), table.ints(_SIGNATURE)
    sizes = signature if len(signature) == len(shape) else shape
    kind = table.number(_TYPE, "<b")
    return Tensor(table.text(_NAME), KINDS.get(kind, f"kind {kind}"), tuple(n if n >= 0 else None for n in sizes))
