"""Linear heads as files that other programs run: ONNX and .tflite."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.networks._tflite import MAGIC
from bagwise.io.files import atomic_write
from bagwise.preprocessing import LinearHead

FEATURES, PROBABILITIES, SCORES = "features", "probabilities", "scores"
OPSET, IR_VERSION = 13, 8  # of 2021, so that older runtimes load it too


def _parts(head: LinearHead) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(c, k) matrices that pick the probability of each class, and what is left of one; each with its constant last.

    Taking p from one would lose what is left of it where p is near one.
    """
    k, share = len(head.weights), head.uniform
    own = np.eye(head.n_classes, k)
    picks = np.column_stack([(1.0 - share) * own, np.full(head.n_classes, share / k)])
    rests = np.column_stack([(1.0 - share) * (1.0 - own), np.full(head.n_classes, share - share / k)])
    return head.weights, picks, rests


# ---------------------------------------------------------------------------------------------------------------------
# ONNX


def write_onnx(head: LinearHead, path: Path, about: Mapping[str, str]) -> None:
    """A network from ``features`` to ``probabilities``, both of 32 bits; in between it computes with 64, as bagwise."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"Writing .onnx needs onnx, and {error}; pip install 'bagwise[onnx]'.") from error
    make, (weights, picks, _) = onnx.helper, _parts(head)
    double, single = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
    arrays: list[Any] = []

    def linear(given: str, matrix: np.ndarray, gives: str) -> Any:
        names = [f"{gives}_weights", f"{gives}_constants"]
        for name, values in zip(names, (matrix[:, :-1].T, matrix[:, -1]), strict=True):
            arrays.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float64), name))
        return make.make_node("Gemm", [given, *names], [gives])

    nodes = [make.make_node("Cast", [FEATURES], ["x"], to=double), linear("x", weights, SCORES)]
    if head.link == "sigmoid":
        nodes.append(make.make_node("Sigmoid", [SCORES], ["p"]))
    else:
        nodes += [make.make_node("Softmax", [SCORES], ["all"], axis=1), linear("all", picks, "p")]
    nodes.append(make.make_node("Cast", ["p"], [PROBABILITIES], to=single))
    ports = [
        make.make_tensor_value_info(name, single, ["instances", size])
        for name, size in ((FEATURES, weights.shape[1] - 1), (PROBABILITIES, head.n_classes))
    ]
    graph = make.make_graph(nodes, "bagwise", ports[:1], ports[1:], arrays)
    opset = [make.make_opsetid("", OPSET)]
    model = make.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="bagwise")
    make.set_model_props(model, {f"bagwise.{key}": value for key, value in about.items()})
    onnx.checker.check_model(model)
    with atomic_write(path) as file:
        file.write(model.SerializeToString())


# ---------------------------------------------------------------------------------------------------------------------
# .tflite


FULLY_CONNECTED, SOFTMAX, LOG, SUB = 9, 25, 73, 41  # operators of LiteRT
OPTIONS: dict[int, tuple[int, dict[int, Any]]] = {  # number of the kind of their options, and what they hold
    FULLY_CONNECTED: (8, {}),
    SOFTMAX: (9, {0: np.float32(1.0)}),
    LOG: (0, {}),
    SUB: (28, {}),
}
LEAST = 1e-30  # under a logarithm


def write_tflite(head: LinearHead, path: Path, about: Mapping[str, str]) -> None:
    """A network from features to log-odds, of which BirdNET-Analyzer takes the sigmoid."""
    weights, picks, rests = _parts(head)
    builder = _Network(weights.shape[1] - 1)
    scores = builder.linear(0, weights)
    if head.link == "softmax":
        shares = builder.add(SOFTMAX, [scores], len(weights))
        pair = [
            builder.add(LOG, [builder.linear(shares, matrix + LEAST * _last(matrix))], head.n_classes)
            for matrix in (picks, rests)
        ]
        scores = builder.add(SUB, pair, head.n_classes)
    with atomic_write(path) as file:
        file.write(builder.file(scores, about))


def _last(matrix: np.ndarray) -> np.ndarray:
    return np.eye(matrix.shape[1])[-1]


class _Network:
    """Tensors and operators of a network whose input is tensor 0, (n, size)."""

    def __init__(self, size: int):
        self._buffers: list[dict[int, Any]] = [{}]  # the first is empty
        self._tensors: list[dict[int, Any]] = []
        self._operators: list[dict[int, Any]] = []
        self._tensor("features", [-1, size])

    def _tensor(self, name: str, shape: list[int], buffer: int = 0) -> int:
        sizes = np.array(shape, dtype="<i4")
        self._tensors.append({0: np.abs(sizes), 2: np.uint32(buffer), 3: name, 7: sizes})
        return len(self._tensors) - 1

    def _constant(self, array: np.ndarray) -> int:
        values = np.ascontiguousarray(array, dtype="<f4")
        self._buffers.append({0: values.ravel().view(np.uint8)})
        return self._tensor(f"constant_{len(self._buffers)}", list(values.shape), len(self._buffers) - 1)

    def add(self, operator: int, given: list[int], size: int) -> int:
        made, (kind, options) = self._tensor(f"made_{len(self._operators)}", [-1, size]), OPTIONS[operator]
        ports = {1: np.array(given, dtype="<i4"), 2: np.array([made], dtype="<i4")}
        chosen = {3: np.uint8(kind), 4: options} if kind else {}
        self._operators.append({0: np.uint32(list(OPTIONS).index(operator)), **ports, **chosen})
        return made

    def linear(self, given: int, matrix: np.ndarray) -> int:
        ports = [given, self._constant(matrix[:, :-1]), self._constant(matrix[:, -1])]
        return self.add(FULLY_CONNECTED, ports, len(matrix))

    def file(self, output: int, about: Mapping[str, str]) -> bytes:
        codes = [{0: np.int8(n), 2: np.int32(1), 3: np.int32(n)} for n in OPTIONS]
        ports = {1: np.zeros(1, dtype="<i4"), 2: np.array([output], dtype="<i4")}
        self._buffers.append({0: np.frombuffer(json.dumps(dict(about), ensure_ascii=False).encode(), dtype=np.uint8)})
        model = {
            0: np.uint32(3),
            1: codes,
            2: [{0: self._tensors, **ports, 3: self._operators, 4: "main"}],
            3: "; ".join(filter(None, ["made by bagwise", about.get("licence")])),
            4: self._buffers,
            6: [{0: "bagwise", 1: np.uint32(len(self._buffers) - 1)}],
        }
        content = bytearray(struct.pack("<I4s", 0, MAGIC))
        struct.pack_into("<I", content, 0, _append(content, model))
        return bytes(content)


def _append(content: bytearray, value: Any) -> int:
    """Put a table (a dict by number of the field), a list of tables, a text or an array at the end of a flatbuffer.

    Gives where it begins. Numbers of a table stand in it; what is longer follows, and its distance stands there.
    """
    content += bytes(-(len(content) + 4) % 16)  # arrays of a network begin at a multiple of 16
    place = len(content)
    if isinstance(value, str):
        content += struct.pack("<I", len(value.encode())) + value.encode() + b"\0"
    elif isinstance(value, np.ndarray):
        content += struct.pack("<I", len(value)) + value.tobytes()
    elif isinstance(value, list):
        content += struct.pack("<I", len(value)) + bytes(4 * len(value))
        _fill(content, place, value)
    else:
        slots = dict(zip(value, range(4, 4 + 4 * len(value), 4), strict=True))
        fields = [slots.get(field, 0) for field in range(max(value, default=-1) + 1)]
        content += struct.pack(f"<i{4 * len(value)}x", 0)
        struct.pack_into("<i", content, place, place - len(content))  # the list of its fields comes behind it
        content += struct.pack(f"<{len(fields) + 2}H", 4 + 2 * len(fields), 4 + 4 * len(value), *fields)
        _fill(content, place, value.values())
    return place


def _fill(content: bytearray, place: int, values: Iterable[Any]) -> None:
    """Put values into the slots behind the first four bytes at a place: numbers, and distances to all else."""
    for slot, item in enumerate(values, 1):
        at = place + 4 * slot
        if isinstance(item, np.generic):
            content[at : at + item.nbytes] = item.tobytes()
        else:
            struct.pack_into("<I", content, at, _append(content, item) - at)
