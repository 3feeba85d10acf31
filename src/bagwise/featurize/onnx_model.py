"""Networks of ONNX files, which are data: read, checked before anything of them runs, and run on the processor.

A file may come from anywhere. What it could do beyond arithmetic is refused by name: tensors that lie in other files,
operators of its own, graphs that go in a circle, arrays larger than the memory. The checked bytes themselves are what
runs, so that nothing can be put in their place afterwards.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import BagwiseError, FormatError, InputError, MemoryLimitError
from bagwise.memory import check_allocation, memory_limit

DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")  # operators that onnxruntime itself brings
TRIAL = 120.0  # seconds after which the first run of one instance is ended
SMALL = 100_000  # bytes of an array that sizes of others may follow from
LARGEST_FILE = 2**31 - 1  # bytes of one message of protobuf
_KINDS = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(int32)": np.int32, "tensor(int64)": np.int64,
}  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input or output of a network: its name, kind of numbers, and size along each axis, None where it is open."""

    name: str
    kind: str
    shape: tuple[int | None, ...]

    @property
    def dtype(self) -> Any:
        return _KINDS[self.kind]

    def __str__(self) -> str:
        return f"{self.name!r} ({' x '.join('?' if n is None else str(n) for n in self.shape) or 'one number'})"


class Network:
    """A network that was checked, ready to run.

    Attributes
    ----------
    inputs, outputs : list of Port
    notes : dict
        What the file says about itself: its metadata, name to text.
    """

    def __init__(self, path: Path, session: Any, notes: Mapping[str, str]):
        self.path = path
        self.notes = dict(notes)
        self.inputs = [_port(path, given, "takes") for given in session.get_inputs()]
        self.outputs = [_port(path, given, "gives", check=False) for given in session.get_outputs()]
        self._session = session

    def run(self, given: Mapping[str, np.ndarray], output: str, seconds: float | None = None) -> np.ndarray:
        """The output of that name; ended with an error after so many seconds."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        options.log_severity_level = 4
        watch = None
        if seconds is not None:
            watch = threading.Timer(seconds, setattr, [options, "terminate", True])
            watch.start()
        try:
            (found,) = self._session.run([output], dict(given), options)
        except Exception as error:  # onnxruntime's errors share no class
            late = watch is not None and watch.finished.is_set()
            said = f"it was not done after {seconds:g} s" if late else _short(error)
            raise InputError(f"{self.path}: the network cannot be run ({said}); export it again.") from error
        finally:
            if watch is not None:
                watch.cancel()
        return np.asarray(found)


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
        An array of it would be larger than the memory.
    """
    onnx, runtime = _import()
    notes: dict[str, str] = {}
    with _as_damaged(path):
        if not trusted:
            model = _parse(onnx, content, path)
            check_model(onnx, model, path, n_rows)
            notes = {note.key: note.value for note in model.metadata_props}
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # files are read side by side
        options.log_severity_level = 4
        session = runtime.InferenceSession(
            content,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # tried once, and nothing printed
        )
        return Network(path, session, notes)


@contextmanager
def _as_damaged(path: Path) -> Iterator[None]:
    """Whatever onnx, onnxruntime and protobuf say of a file, whose errors share no class, as one that names it."""
    try:
        yield
    except BagwiseError:
        raise
    except Exception as error:
        raise _damaged(path, _short(error)) from error


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


def _import() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"Networks need onnx and onnxruntime, and {error}; pip install 'bagwise[onnx]'.") from error
    return onnx, onnxruntime


def _parse(onnx: Any, content: bytes, path: Path) -> Any:
    model = onnx.load_model_from_string(content)
    if not model.graph.node or not model.graph.output:
        raise _damaged(path, "it holds no network")
    return model


def _damaged(path: Path, why: str) -> FormatError:
    return FormatError(
        f"{path}: it is damaged, cut off, or no ONNX file that onnxruntime can load ({why}); copy or export it again."
    )


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _port(path: Path, given: Any, does: str, check: bool = True) -> Port:
    port = Port(given.name, given.type, tuple(n if isinstance(n, int) and n > 0 else None for n in given.shape))
    if check and port.kind not in _KINDS:
        raise InputError(
            f"{path}: the network {does} {port.name!r} of {port.kind}, which is not known; export it again."
        )
    return port


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


def check_model(onnx: Any, model: Any, path: Path, n_rows: int) -> None:
    """Refuse what no network that only computes needs; `n_rows` stands for sizes that are left open.

    The model loses its large arrays on the way.
    """
    if len(model.functions):
        raise FormatError(
            f"{path}: it brings operators of its own ({model.functions[0].name!r}), which are not run; write them out "
            "with onnx.inliner.inline_local_functions."
        )
    for graph in _graphs(model.graph):
        for tensor in _tensors(onnx, graph):
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
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _tensors(onnx: Any, graph: Any) -> Iterator[Any]:
    """All arrays that a graph holds, those of its nodes' attributes too."""

    def parts(sparse: Any) -> tuple[Any, Any]:
        return sparse.values, sparse.indices

    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from parts(sparse)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors)
            for sparse in (
                *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                *attribute.sparse_tensors,
            ):
                yield from parts(sparse)


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
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
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


def named(ports: Iterable[Port]) -> str:
    """Inputs or outputs in words."""
    return ", ".join(map(str, ports))


def one_of(ports: Sequence[Port], path: Path, what: str) -> Port:
    """The only one of some ports."""
    if len(ports) != 1:
        raise InputError(f"{path}: the network has {len(ports)} inputs ({named(ports)}), and {what} need one.")
    return ports[0]
