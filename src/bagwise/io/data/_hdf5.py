"""HDF5: AnnData (``.h5ad``: patients are bags, cells instances), and features of slides (``.h5``) with their places."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.checks import check_allocation, memory_limit
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BagwiseError, FormatError
from bagwise.io.data._long import group_rows
from bagwise.io.files import PathLike, damaged

LIST_MARK = ";"  # between several labels of a patient
PLACES = ("left", "top", "width", "height")
SIZES = ("patch_size_level0", "patch_size")  # of a patch in points of the full slide; TRIDENT's, CLAM's


SECONDS = 10.0  # of the processor for a file, and one more per MiB
START = (
    "import json, sys\n"
    "places, *given = json.loads(sys.stdin.read())\n"
    "sys.path[:] = places\n"
    "from bagwise.io.data._hdf5 import _serve\n"
    "_serve(*given)\n"
)


def _try_first(paths: Sequence[PathLike], options: dict[str, str] | None = None) -> None:
    """Read files in a process of its own: what ends libhdf5 or keeps it busy for good does so there, and is refused.

    No signal reaches libhdf5 while it is at work, so that nothing in this process could end it.
    """
    places = [place for place in sys.path if isinstance(place, str)]
    seconds = [SECONDS + Path(path).stat().st_size / 2**20 for path in paths]
    given = json.dumps([places, [str(path) for path in paths], seconds, options])
    with subprocess.Popen(
        [sys.executable, "-P", "-c", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            done, _ = process.communicate(given.encode(), timeout=60.0 + 20 * sum(seconds))
        except BaseException as error:  # also Ctrl-C
            process.kill()
            done, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
    if process.returncode != 0:
        path = paths[min(done.count(b"."), len(paths) - 1)]
        raise FormatError(
            f"{path}: it is damaged: the HDF5 library crashed over it, or needed too much memory or time "
            f"(the process that tried it ended with {process.returncode}); copy or export it again."
        )


def _serve(paths: list[str], seconds: list[float], options: dict[str, str] | None) -> None:
    """In that process: a file after the other, and a dot for each, whether it can be read or is refused."""
    try:
        import resource
    except ImportError:  # Windows
        resource = None  # type: ignore[assignment]
    if resource is not None and sys.platform == "linux":
        before = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most, hard = before + 2 * memory_limit(), resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    for path, longest in zip(paths, seconds, strict=True):
        if resource is not None:
            most, hard = int(time.process_time() + longest) + 1, resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (most if hard < 0 else min(most, hard), hard))
        with suppress(BagwiseError):  # said once more, to those who asked
            _read_slide(path) if options is None else _read_h5ad(path, **options)
        sys.stdout.write(".")
        sys.stdout.flush()


@contextmanager
def _opened(path: PathLike) -> Iterator[Any]:
    """The open file; whatever h5py and a damaged file bring up is an error that names it."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"Reading HDF5 needs h5py, and {error}; pip install 'bagwise[hdf5]'.") from error
    with damaged(path, "HDF5 of this layout", "copy or export it again"), h5py.File(path, "r") as file:
        yield file


def _member(path: PathLike, group: Any, name: str) -> Any:
    """What a group holds under a name, if it lies in this file: no other one is opened."""
    import h5py

    link = group.get(name, getlink=True)
    if link is None:
        raise FormatError(f"{path}: there is no {name!r} in it; it has {', '.join(sorted(group)[:8]) or 'nothing'}.")
    if not isinstance(link, h5py.HardLink):
        raise FormatError(f"{path}: its {name!r} lies in another place, and no links are followed; copy it in.")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise FormatError(f"{path}: the numbers of {name!r} lie in other files, which are not opened; copy them in.")
    return found


def _group(path: PathLike, file: Any, name: str) -> Any:
    import h5py

    found = _member(path, file, name)
    if not isinstance(found, h5py.Group):  # an array can claim more rows than anybody can go through
        raise FormatError(f"{path}: {name!r} is an array; expected a group of columns, as AnnData writes it.")
    return found


def _numbers(path: PathLike, group: Any, name: str, n_axes: int, kinds: str = "fiub") -> np.ndarray:
    """An array of numbers, whose size is looked at before anything is read."""
    found = _member(path, group, name)
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape is None or dtype is None or dtype.kind not in kinds or len(shape) != n_axes:
        raise FormatError(f"{path}: {name!r} is {shape} of {dtype}; expected numbers along {n_axes} axes.")
    check_allocation(found.size * max(dtype.itemsize, 8), f"{path}: {name!r}, {shape}", "use a part of the data")
    return found[()]


def _texts(path: PathLike, group: Any, name: str) -> list[str]:
    """A column of text, numbers, or AnnData's categories."""
    import h5py

    found = _member(path, group, name)
    if isinstance(found, h5py.Group):
        codes, values = _numbers(path, found, "codes", 1, "i"), _texts(path, found, "categories")
        if len(codes) and not -1 <= codes.min() <= codes.max() < len(values):
            raise FormatError(f"{path}: {name!r} has codes of categories that are not there; export it again.")
        return [values[code] if code >= 0 else "" for code in codes]
    if found.dtype.kind in "fiub":
        return [str(value) for value in _numbers(path, group, name, 1)]
    if len(found.shape) != 1 or h5py.check_string_dtype(found.dtype) is None:
        raise FormatError(f"{path}: {name!r} is {found.shape} of {found.dtype}; expected a column of text.")
    what, n = f"{path}: {name!r}, {found.shape}", found.size
    check_allocation(max(100, found.dtype.itemsize) * n, what, "use a part of the data")
    texts: list[str] = []
    n_bytes, step = 0, max(16, min(2**28 // (Path(path).stat().st_size + 1), 4096))
    for start in range(0, n, step):  # all rows may point at one text, which fills the file
        texts += map(str, found.asstr()[start : start + step])
        n_bytes += sum(map(len, texts[start:]))
        check_allocation(n_bytes, what, "use a part of the data")
    return texts


def read_h5ad(
    path: PathLike, bag: str | None = None, labels: str | None = None, instance_label: str | None = None
) -> tuple[BagDataset, str]:
    """An AnnData file: cells are instances, and a column of ``obs`` says whose they are.

    Parameters
    ----------
    path : str or path
    bag : str
        The column that names the bag, such as the patient.
    labels : str or None
        The column with the labels of the bag, several with semicolons between; "" where nobody labelled it.
    instance_label : str or None
        The column with the label of each cell, "" where it is not known.
    """
    options = {"bag": bag, "labels": labels, "instance_label": instance_label}
    _try_first([path], {key: value for key, value in options.items() if value is not None})
    return _read_h5ad(path, **options)


def _read_h5ad(
    path: PathLike, bag: str | None = None, labels: str | None = None, instance_label: str | None = None
) -> tuple[BagDataset, str]:
    with _opened(path) as file:
        obs, var = _group(path, file, "obs"), _group(path, file, "var")
        columns = sorted(name for name in obs if name != obs.attrs.get("_index"))
        if bag is None:
            raise FormatError(f"{path}: say which column names the bag (--bag); there are {', '.join(columns)[:300]}.")
        owners = _texts(path, obs, bag)
        given = None if labels is None else _texts(path, obs, labels)
        known = None if instance_label is None else _texts(path, obs, instance_label)
        X = _matrix(path, file)
        names = _texts(path, var, str(var.attrs.get("_index", "_index")))
        cells = _texts(path, obs, str(obs.attrs.get("_index", "_index")))
    lengths = {len(owners), len(cells), *(len(column) for column in (given, known) if column is not None)}
    if lengths != {X.shape[0]} or len(names) != X.shape[1]:
        raise FormatError(f"{path}: X is {X.shape}, and its columns are of other lengths; export it again.")
    values, codes = np.unique(owners, return_inverse=True)
    order, offsets, _ = group_rows(codes)
    firsts = order[offsets[:-1]]
    sets = None
    if given is not None:
        sets = [{part.strip() for part in given[i].split(LIST_MARK) if part.strip()} for i in firsts]
        for b, (start, stop) in enumerate(pairwise(offsets)):
            if len({given[i] for i in order[start:stop]}) > 1:
                raise FormatError(f"{path}: the cells of {values[codes[firsts[b]]]!r} have different {labels!r}.")
    labelled = None if sets is None or all(sets) else np.array([bool(found) for found in sets])
    classes = sorted({label for found in sets or () for label in found} | {label for label in known or () if label})
    index = {label: i for i, label in enumerate(classes)}
    Y = None if sets is None else np.array([[label in found for label in classes] for found in sets], dtype=np.uint8)
    own = None if known is None else Bags(np.array([index.get(known[i], -1) for i in order]), offsets)
    dataset = BagDataset(
        Bags(X[order], offsets),
        Y,
        classes,
        own,
        bag_names=[str(values[codes[i]]) for i in firsts],
        feature_names=names,
        locations={"cell": np.array(cells, dtype=object)[order]},
        name=Path(path).stem,
        **({} if labelled is None else {"labelled": labelled}),
    )
    return dataset, f"AnnData, {X.shape[0]} cells of {len(values)} bags by {bag!r}, {len(names)} features"


def _matrix(path: PathLike, file: Any) -> Any:
    """X, dense or as compressed rows."""
    import h5py

    found = _member(path, file, "X")
    if isinstance(found, h5py.Dataset):
        return _numbers(path, file, "X", 2).astype(np.float64, copy=False)
    kind = {"csr_matrix": sp.csr_matrix, "csc_matrix": sp.csc_matrix}.get(str(found.attrs.get("encoding-type")))
    if kind is None:
        raise FormatError(f"{path}: X is of the encoding {found.attrs.get('encoding-type')!r}; expected a matrix.")
    data, indices, indptr = (_numbers(path, found, name, 1) for name in ("data", "indices", "indptr"))
    shape = tuple(int(n) for n in found.attrs["shape"])
    matrix = kind((data.astype(np.float64), indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.tocsr()


def read_slide(path: PathLike) -> tuple[BagDataset, str]:
    """A slide as TRIDENT and CLAM write it: ``features``, one row per patch, and ``coords``, its place; one bag."""
    _try_first([path])
    return _read_slide(path)


def _read_slide(path: PathLike) -> tuple[BagDataset, str]:
    with _opened(path) as file:
        name = "features"
        features = _numbers(path, file, name, len(getattr(_member(path, file, name), "shape", ())) or 2)
        features = features[0] if features.ndim == 3 and len(features) == 1 else features  # one slide in a batch
        coords, about = _numbers(path, file, "coords", 2), _member(path, file, "coords").attrs
        size = next((float(about[key]) for key in SIZES if key in about), 0.0)
    if features.ndim != 2 or coords.shape != (len(features), 2) or not len(features):
        raise FormatError(f"{path}: features are {features.shape} and coords {coords.shape}; expected a row per patch.")
    columns = [coords[:, 0], coords[:, 1], *(np.full(len(coords), size) for _ in range(2))]
    places = dict(zip(PLACES, (column.astype(np.float64) for column in columns), strict=True))
    bags = Bags(features.astype(np.float64, copy=False), offsets_of([len(features)]))
    stem = Path(path).stem
    return BagDataset(bags, bag_names=[stem], locations=places, name=stem), f"a slide of {len(features)} patches"


def load_slides(folder: PathLike) -> BagDataset:
    """The slides of a folder, each a bag of patches named by its file, with the places of the patches.

    Parameters
    ----------
    folder : str or path
        With ``.h5`` files that hold ``features`` and ``coords``, as TRIDENT and CLAM write them.

    Examples
    --------
    >>> import tempfile
    >>> from bagwise.datasets import load_slides
    >>> slides = load_slides("features")  # doctest: +SKIP
    >>> load_slides(tempfile.mkdtemp())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.FormatError: ...: there is no .h5 file in it; give the folder with the features of slides.
    """
    paths = sorted(Path(folder).glob("*.h5"))
    if not paths:
        raise FormatError(f"{folder}: there is no .h5 file in it; give the folder with the features of slides.")
    _try_first(paths)
    slides = [_read_slide(path)[0] for path in paths]
    for path, slide in zip(paths, slides, strict=True):
        if slide.bags.n_features != slides[0].bags.n_features:
            raise FormatError(
                f"{path}: its patches have {slide.bags.n_features} features, and those of {paths[0].name} "
                f"{slides[0].bags.n_features}; put slides of one encoder into a folder."
            )
    places = {key: np.concatenate([(slide.locations or {})[key] for slide in slides]) for key in PLACES}
    bags = Bags(
        np.concatenate([slide.bags.instances for slide in slides]), offsets_of([len(s.bags.instances) for s in slides])
    )
    return BagDataset(bags, bag_names=[slide.name for slide in slides], locations=places, name=Path(folder).name)
