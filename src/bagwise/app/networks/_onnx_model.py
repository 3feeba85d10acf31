"""The engine for ONNX files, which are data: read, checked before anything of them runs, and run on the processor.

A file may come from anywhere. What it could do beyond arithmetic is refused by name: tensors that lie in other files,
operators of its own, graphs that go in a circle, arrays larger than the memory. The checked bytes themselves are what
runs, so that nothing can be put in their place afterwards. What only shows while it is loaded or run is bounded by the
limits of the process that this runs in (`bagwise.app.networks._child`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.networks._messages import KINDS, one_line
from bagwise.core.checks import memory_limit
from bagwise.core.exceptions import BagwiseError, FormatError, InputError, MemoryLimitError

DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")  # operators that onnxruntime itself brings
SMALL = 100_000  # bytes of an array that sizes of others may follow from
LONGEST_NOTE = 1000  # characters of what a file says about itself that may be a setting
_KINDS = {"float": "float32", "double": "float64"}  # what numpy calls numbers, where that is another name
_NO_ROOM = re.compile(r"bad.?alloc|allocate memory")  # what onnxruntime says when it gets none


def import_onnx() -> tuple[Any, Any]:
    """onnx and onnxruntime; a process imports them before it counts the memory of its network."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"Networks need onnx and onnxruntime, and {error}; pip install 'bagwise[onnx]'.") from error
    return onnx, onnxruntime


class OnnxModel:
    """The network of the bytes of a file, checked unless they are trusted, ready to run so many instances at a time."""

    def __init__(self, content: bytes, path: Path, n_rows: int, *, trusted: bool = False):
        onnx, _ = import_onnx()
        self._path, self._content, self._notes, self._inner = path, content, dict[str, str](), list[str]()
        with _as_damaged(path):
            if not trusted:
                model = onnx.load_model_from_string(content)
                if not model.graph.node or not model.graph.output:
                    raise _damaged(path, "it holds no network")
                self._notes = {note.key: note.value for note in model.metadata_props if len(note.value) <= LONGEST_NOTE}
                self._inner = [name for node in model.graph.node for name in node.output if name]
                _check_graph(onnx, model, path, n_rows)
                del model
            self._open(content)

    def _open(self, content: bytes) -> None:
        _, runtime = import_onnx()
        options, self._options = runtime.SessionOptions(), runtime.RunOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # files are read side by side
        options.log_severity_level = self._options.log_severity_level = 4
        # without a fallback it is tried once, and nothing printed
        providers = ["CPUExecutionProvider"]
        self._session = runtime.InferenceSession(content, options, providers=providers, enable_fallback=0)

    def about(self) -> dict[str, Any]:
        """Its inputs and outputs, each with name, kind of numbers and sizes, the names of what is inside of it, and
        what the file says about itself."""
        outputs = [_port(given) for given in self._session.get_outputs()]
        names = {name for name, _, _ in outputs}
        return {
            "inputs": [_port(given) for given in self._session.get_inputs()],
            "outputs": outputs,
            "inner": [name for name in self._inner if name not in names],
            "notes": self._notes,
        }

    def run(self, given: Mapping[str, np.ndarray], outputs: Sequence[str]) -> list[np.ndarray]:
        """The outputs, or inner tensors, of these names."""
        try:
            there = {given.name for given in self._session.get_outputs()}
            if not there.issuperset(outputs):
                self._open(self._giving([name for name in outputs if name not in there]))
            arrays = [np.asarray(array) for array in self._session.run(list(outputs), dict(given), self._options)]
        except Exception as error:  # onnxruntime's errors share no class
            _check_room(error)
            raise InputError(
                f"{self._path}: the network cannot be run ({one_line(error)}); export it again."
            ) from error
        for name, array in zip(outputs, arrays, strict=True):
            if array.dtype.name not in KINDS:
                raise InputError(f"{self._path}: the output {name!r} is of {array.dtype}, no numbers; choose another.")
        return arrays

    def _giving(self, inner: Sequence[str]) -> bytes:
        """The same network, whose outputs are these inner tensors too."""
        onnx, _ = import_onnx()
        model = onnx.load_model_from_string(self._content)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
        self._content = model.SerializeToString()
        return self._content


def _port(given: Any) -> list[Any]:
    """Name, kind of numbers as numpy calls it where it has it, and the size along each axis, None where it is open."""
    sizes = [n if isinstance(n, int) and n > 0 else None for n in given.shape]
    kind = given.type.removeprefix("tensor(").removesuffix(")")
    return [given.name, _KINDS.get(kind, kind), sizes]


def _check_room(error: Exception) -> None:
    """Raise a MemoryError where an error is for want of memory: onnxruntime says so in words alone."""
    if isinstance(error, MemoryError) or _NO_ROOM.search(str(error)):
        raise MemoryError(one_line(error)) from error


@contextmanager
def _as_damaged(path: Path) -> Iterator[None]:
    """Whatever onnx, onnxruntime and protobuf say of a file, whose errors share no class, as one that names it."""
    try:
        yield
    except BagwiseError:
        raise
    except Exception as error:
        _check_room(error)
        raise _damaged(path, one_line(error)) from error


def _damaged(path: Path, why: str) -> FormatError:
    return FormatError(
        f"{path}: it is damaged, cut off, or no ONNX file that onnxruntime can load ({why}); copy or export it again."
    )


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


def _check_graph(onnx: Any, model: Any, path: Path, n_rows: int) -> None:
    """Refuse what no network that only computes needs; `n_rows` stands for sizes that are left open.

    The model loses its large arrays on the way.
    """
    if len(model.functions):
        raise FormatError(
            f"{path}: it brings operators of its own ({model.functions[0].name!r}), which are not run; write them out "
            "with onnx.inliner.inline_local_functions."
        )
    for graph in _graphs(model.graph):
        for tensor in _tensors(graph):
            _check_tensor(onnx, tensor, path)
        for node in graph.node:
            if node.domain not in DOMAINS:
                raise FormatError(
                    f"{path}: it needs the operator {node.op_type!r} of {node.domain!r}, which is not part of ONNX, "
                    "and operators of others are not run; export the network with those of ONNX alone."
                )
    _check_order(model.graph, set(), path)
    _check_sizes(onnx, model, path, n_rows)


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and all that its nodes hold."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _held(attribute, "g", "graphs"):
                yield from _graphs(inner)


def _held(attribute: Any, one: str, several: str) -> list[Any]:
    """The graphs or arrays of an attribute, which has one, several or none."""
    return [*([getattr(attribute, one)] if attribute.HasField(one) else []), *getattr(attribute, several)]


def _tensors(graph: Any) -> Iterator[Any]:
    """All arrays that a graph holds, those of its nodes' attributes too."""

    sparse = list(graph.sparse_initializer)
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from _held(attribute, "t", "tensors")
            sparse += _held(attribute, "sparse_tensor", "sparse_tensors")
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)


def _check_tensor(onnx: Any, tensor: Any, path: Path) -> None:
    """Refuse an array that lies elsewhere, or that claims to be larger than what is there of it."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or len(tensor.external_data):
        where = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        raise FormatError(
            f"{path}: its array {tensor.name!r} lies in another file ({where!r}), and no other file is opened; save "
            "the network as one file (onnx.save_model with save_as_external_data=False)."
        )
    count = math.prod(tensor.dims)
    stored = len(tensor.raw_data) or 8 * sum(
        len(getattr(tensor, name)) for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    )
    least = 0.5 if tensor.raw_data else 1.0  # bytes of a number: some are of four bits
    if any(n < 0 for n in tensor.dims) or (not tensor.string_data and count * least > stored):
        size = " x ".join(map(str, tensor.dims))
        raise _damaged(path, f"its array {tensor.name!r} claims {size} numbers and {stored} bytes of it are there")


def _check_order(graph: Any, outside: set[str], path: Path) -> None:
    """Refuse a graph whose nodes need what only comes after them: it goes in a circle, or is cut off."""
    known = outside | {given.name for given in (*graph.input, *graph.initializer)} | {""}
    known |= {sparse.values.name for sparse in graph.sparse_initializer}
    made = {name for node in graph.node for name in node.output}
    for node in graph.node:
        missing = next((name for name in node.input if name not in known), None)
        if missing is not None:
            why = "goes in a circle, or is not in order" if missing in made else "is not whole"
            raise FormatError(
                f"{path}: the network {why}: the node {node.name or node.op_type!r} needs {missing!r}, which "
                f"{'comes of what follows it' if missing in made else 'nothing gives'}; export it again."
            )
        for attribute in node.attribute:
            for inner in _held(attribute, "g", "graphs"):
                _check_order(inner, known, path)
        known.update(node.output)


def _check_sizes(onnx: Any, model: Any, path: Path, n_rows: int) -> None:
    """Refuse arrays on the way that no memory holds, as far as their sizes follow from the file."""
    for tensor in model.graph.initializer:  # of weights the sizes are enough, and they would be copied
        if len(tensor.raw_data) > SMALL:
            tensor.ClearField("raw_data")
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for graph in _graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            shape = _shape(value.type.tensor_type)
            n_bytes = _bytes_of(onnx, value.type.tensor_type.elem_type) * math.prod(n or n_rows for n in shape)
            if n_bytes > memory_limit():
                raise MemoryLimitError(
                    f"{path}: the array {value.name!r} of the network has {' x '.join(str(n or '?') for n in shape)} "
                    f"numbers, {n_bytes / 2**30:.1f} GiB, and the limit is {memory_limit() / 2**30:.1f} GiB; use "
                    "another network."
                )


def _shape(kind: Any) -> list[int]:
    """Size along each axis, 0 where it is open."""
    return [max(axis.dim_value, 0) if axis.HasField("dim_value") else 0 for axis in kind.shape.dim]


def _bytes_of(onnx: Any, kind: int) -> int:
    try:
        return max(1, onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)
    except (KeyError, ValueError):
        return 1
