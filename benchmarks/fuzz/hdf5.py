"""HDF5 files, where h5py is installed (`make fuzz` has it): cells of patients (AnnData) and features of slides."""

from __future__ import annotations

import faulthandler
import importlib.util
import io
import os
import random
import resource
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

from bagwise.core.exceptions import FormatError
from bagwise.io.data import _hdf5
from bagwise.io.data.formats import read_dataset
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import LARGEST, TOKENS, mutate

FORMS = [{}, {"libver": "latest"}]  # the latter keeps checksums of its headings
SECONDS = 3.0  # of the processor, for a first try
COLUMNS = {"bag": "patient", "labels": "state", "instance_label": "kind"}


def _made(fill: Any, **options: Any) -> bytes:
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w", **options) as file:
        fill(file)
    return buffer.getvalue()


def _cells(make: Any, file: Any) -> None:
    """Six cells of three patients, as AnnData lays them out."""
    import h5py

    text, X = h5py.string_dtype(), make(np.arange(18.0).reshape(6, 3) % 5)
    obs, var = file.create_group("obs"), file.create_group("var")
    obs.attrs["_index"] = var.attrs["_index"] = "_index"
    obs.create_dataset("_index", data=[f"cell{i}" for i in range(6)], dtype=text)
    var.create_dataset("_index", data=["x", "y", "z"], dtype=text)
    patient = obs.create_group("patient")
    patient.create_dataset("categories", data=["p1", "p2", "p3"], dtype=text)
    patient.create_dataset("codes", data=np.array([1, 0, 1, 0, 2, 1], dtype=np.int8))
    obs.create_dataset("state", data=["ill;old", "ill", "ill;old", "ill", "", "ill;old"], dtype=text)
    obs.create_dataset("kind", data=["T", "B", "", "T", "B", "B"], dtype=text)
    if sp.issparse(X):
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = f"{X.format}_matrix", X.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(X, name))
    else:
        file.create_dataset("X", data=X, chunks=(3, 3), compression="gzip", shuffle=True)


def _slide(batch: bool, file: Any) -> None:
    features = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    file.create_dataset("features", data=features[None] if batch else features, chunks=True, fletcher32=True)
    coords = file.create_dataset("coords", data=np.arange(10).reshape(5, 2))
    coords.attrs["patch_size_level0"] = 512.0


def try_first(paths: list[Path], options: dict[str, str] | None = None) -> None:
    """As the reader tries a file in a process of its own, in a copy of this one, which takes milliseconds."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        with suppress(Exception):
            _hdf5._read_slide(paths[0]) if options is None else _hdf5._read_h5ad(paths[0], **options)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise FormatError(f"{paths[0]}: the HDF5 library crashed over it, or took too long")


def _read(path: Path, **options: Any) -> None:
    with mock.patch.object(_hdf5, "_try_first", try_first):
        read_dataset(path, **options)


def cells(folder: Path) -> Ready:
    """Matrices of all forms."""
    makers = [partial(_cells, make) for make in (np.asarray, sp.csr_matrix, sp.csc_matrix)]
    seeds = [_made(fill, **options) for fill in makers for options in FORMS]
    return Ready(seeds, partial(_read, **COLUMNS))


def slides(folder: Path) -> Ready:
    """Slides of CLAM and TRIDENT."""
    return Ready([_made(partial(_slide, batch), **form) for batch in (False, True) for form in FORMS], _read)


def change_hdf5(raw: bytes, rng: random.Random) -> bytes:
    """One or two arrays, attributes or links are others; then, half of the time, bytes too."""
    import h5py

    buffer = io.BytesIO(raw)
    with h5py.File(buffer, "r+") as file:
        for _ in range(rng.choice((1, 1, 2))):
            with suppress(Exception):  # what h5py itself does not write
                _change(file, rng)
    changed = buffer.getvalue()
    return mutate(changed, raw, WORDS, rng) if rng.random() < 0.5 else changed[:LARGEST]


def _change(file: Any, rng: random.Random) -> None:
    import h5py

    names: list[str] = []
    file.visit(names.append)
    if not names:
        return
    name, other = rng.choice(names), rng.choice(names)
    kind = rng.randrange(7)
    if kind == 0:
        del file[name]
    elif kind == 1 and isinstance(file[name], h5py.Dataset):
        found = file[name]
        values: Any = rng.choice(
            [-1, 0, 1, 2**31 - 1, 2**62, 1e308, np.nan, np.inf, "", "p1", "\ud800", "x" * 9000, b"\xff"]
        )
        found[rng.choice([..., 0, -1])] = values
    elif kind == 2:
        link = rng.choice([h5py.SoftLink(f"/{other}"), h5py.ExternalLink("other.h5", "/X"), file[other]])
        del file[name]
        file[name] = link
    elif kind == 3:
        _array(file, name, rng)
    elif kind == 4 and len(file[name].attrs):
        attrs = file[name].attrs
        attrs[rng.choice(list(attrs))] = rng.choice(VALUES)
    elif kind == 5:
        file.move(name, rng.choice(["obs/it", "X/it", "codes", "var/_index", "features", "it"]) + rng.choice(["", "2"]))
    else:
        file[name].attrs[rng.choice(["_index", "encoding-type", "shape", "patch_size"])] = rng.choice(VALUES)


def _array(file: Any, name: str, rng: random.Random) -> None:
    """Another array in place of one, of any type, also with more points than the file has bytes."""
    import h5py

    del file[name]
    shape = rng.choice([(), (0,), (1,), (6,), (6, 3), (1, 5, 4), (2**20, 2**10), (2**40,), (2**31, 2**31)])
    dtype = rng.choice(DTYPES)
    if dtype is None:
        file[name] = h5py.Empty("f8")
        return
    if isinstance(dtype, str) and dtype in ("vlen", "text", "enum", "ref"):
        dtype = {
            "vlen": h5py.vlen_dtype(np.float64), "text": h5py.string_dtype(rng.choice(["utf-8", "ascii"])),
            "enum": h5py.enum_dtype({"a": 0, "b": 1}), "ref": h5py.ref_dtype,
        }[dtype]  # fmt: skip
    chunks = rng.choice([{}, {"chunks": True, "compression": rng.choice(["gzip", "lzf"])}]) if np.prod(shape) else {}
    if np.prod(shape, dtype=float) > 2**20:
        chunks = {"chunks": (1 << 10,) + (1,) * (len(shape) - 1)}
    file.create_dataset(name, shape, dtype, **(chunks if shape else {}))


DTYPES: list[Any] = [
    "f8", "f2", ">i4", "u1", "?", "c16", "S3", "V5", [("a", "f4"), ("b", "i8")], "vlen", "text", "enum", "ref",
    "(3,)f4", None,
]  # fmt: skip
VALUES: list[Any] = [
    0, -1, 2**62, np.nan, "", "_index", "csr_matrix", "csc_matrix", "patient", "X", "../x", "a\0b", [6, 3],
    [2**40, 3], [-6, 3], [6], [0.5, 3.5], ["a"], np.zeros(0), b"\xff\xfe",
]  # fmt: skip
WORDS = [
    *TOKENS["binary"], b"\x89HDF\r\n\x1a\n", b"OHDR", b"OCHK", b"FRHP", b"BTHD", b"TREE", b"HEAP", b"SNOD", b"GCOL",
    b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80",
]  # fmt: skip
KINDS = []
if importlib.util.find_spec("h5py") is not None:
    KINDS = [
        Kind("h5ad", cells, (".h5ad",), WORDS, change_hdf5),
        Kind("slide-h5", slides, (".h5",), WORDS, change_hdf5),
    ]
