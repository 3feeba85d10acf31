"""What is made of one file, and how the files become one data set."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset, Places, as_column
from bagwise.core.exceptions import FormatError, InputError

Problem = tuple[str, str]
"""Name of a file, bag or row, and what is wrong with it."""

_ABSOLUTE = re.compile(r"/|~|[A-Za-z][A-Za-z+.-]*:")  # a full path of any machine, or an address
_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts in front of the name of an uploaded file


@dataclass(frozen=True)
class FileBags:
    """The bags of one file; a bag may be empty here, since a silent recording is a result too.

    Attributes
    ----------
    bag_names : list of str
    sizes : list of int
        Instances of each bag, zero where nothing was found.
    features : (m, d) array or CSR matrix
    locations : dict of (m,) arrays
        Where in the file each instance was, a column for each fact.
    info : dict
        What is known about the file: seconds and rate; width and height; characters.
    problems : list of str
        What is wrong with the file although it could be read.
    feature_names : list of str or None
        What the columns of `features` are called in this file; None where they are the same in every file.
    vectors : (m, e) array or None
        What a network that was trained elsewhere makes of each instance, where one is used.
    """

    bag_names: list[str]
    sizes: list[int]
    features: Any
    locations: Places
    info: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    feature_names: list[str] | None = None
    vectors: np.ndarray | None = None

    def as_one_bag(self, name: str) -> FileBags:
        """The same with all instances in one bag."""
        return replace(self, bag_names=[name], sizes=[sum(self.sizes)])


class FileNames:
    """Files of a folder, found by what people and tools call them.

    That is the path below the folder, the name of the file, or either without its ending; with slashes of any system,
    in other case, as a full path of any machine, or as the address of a file that was served or uploaded, as long as
    one file only fits.
    """

    def __init__(self, names: Iterable[str]):
        self.names = set(names)
        self._index: dict[str, set[str]] = {}
        for name in self.names:
            path = PurePosixPath(normal_name(name))
            for key in {str(path), path.name, str(path.with_suffix("")), path.stem}:
                self._index.setdefault(key, set()).add(name)
                self._index.setdefault(f"folded:{key.casefold()}", set()).add(name)

    def find(self, given: str) -> set[str]:
        """The files that may be meant."""
        for spelled in dict.fromkeys((given, unquote(given))):
            key = normal_name(spelled)
            if key in self.names:
                return {key}
            for option in _endings(key) if _ABSOLUTE.match(key) else (key,):
                for candidate in (option, f"folded:{option.casefold()}"):
                    if candidate in self._index:
                        return self._index[candidate]
        return set()

    def resolve(self, given: str) -> str:
        """The file that is meant; the name as it came where there is none or more than one."""
        found = self.find(given)
        return next(iter(found)) if len(found) == 1 else given


def normal_name(name: str) -> str:
    """One spelling: forward slashes, no leading ./, composed accents (some systems take them apart)."""
    return unicodedata.normalize("NFC", name.replace("\\", "/").removeprefix("./"))


def _endings(path: str) -> Iterator[str]:
    """A full path or address, what is left of it without the folders on the way, and the name of an uploaded file."""
    parts = [part for part in path.rpartition("?d=")[2].split("/") if part]
    yield from ("/".join(parts[i:]) for i in range(len(parts)))
    if parts:
        yield _UPLOADED.sub("", parts[-1], count=1)


def assemble(files: Mapping[str, FileBags], features: Any, feature_names: list[str] | None, name: str) -> BagDataset:
    """One data set of the bags that hold instances; bags without any are left out.

    Parameters
    ----------
    files : bags of each file by its name, which becomes the column ``file`` of the locations
    features : (m, d) array or CSR matrix of all instances
    feature_names : list of str or None
    name : what the data set is called
    """
    sizes = np.array([size for file in files.values() for size in file.sizes], dtype=np.int64)
    names = [bag for file in files.values() for bag in file.bag_names]
    kept = np.flatnonzero(sizes)
    if not len(kept):
        raise InputError(
            f"Nothing was found in any of the {len(files)} files, so there is no instance to learn from; "
            "lower the threshold or the smallest size of a region."
        )
    found = [file for file in files.values() if sum(file.sizes)]
    for key, file in files.items():
        if sum(file.sizes) and {*file.locations} != {*found[0].locations}:
            raise FormatError(
                f"{key}: its locations have other columns than those of other files; read all of them again."
            )
    # objects, so that one name of a file serves all of its instances
    owner = np.repeat(np.array(list(files), dtype=object), [sum(file.sizes) for file in files.values()])
    columns = {key: np.concatenate([as_column(file.locations[key]) for file in found]) for key in found[0].locations}
    return BagDataset(
        bags=Bags(features, offsets_of(sizes[kept])),
        bag_names=[names[i] for i in kept],
        feature_names=feature_names,
        locations={"file": owner, **columns},
        name=name,
    )


def stack_rows(parts: Sequence[Any]) -> Any:
    """Arrays or CSR matrices below each other."""
    return sp.vstack(parts, format="csr") if any(sp.issparse(part) for part in parts) else np.concatenate(parts)
