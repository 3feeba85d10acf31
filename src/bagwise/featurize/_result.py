"""What a featurizer makes of one file, and how the files become one data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.bags import BagDataset, Bags, offsets_of
from bagwise.exceptions import FormatError, InputError


@dataclass(frozen=True)
class FileBags:
    """The bags of one file; a bag may be empty here, since a silent recording is a result too.

    Attributes
    ----------
    bag_names : list of str
    sizes : list of int
        Instances of each bag, zero where nothing was found.
    features : (m, d) array
        For texts the (m, v) counts of the file's own terms, as CSR; `terms` names the columns.
    locations : list of dict
        Where each instance was.
    info : dict
        What is known about the file: seconds and rate; width and height; characters.
    problems : list of str
        What is wrong with the file although it could be read.
    terms : list of str or None
    """

    bag_names: list[str]
    sizes: list[int]
    features: Any
    locations: list[dict[str, Any]]
    info: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    terms: list[str] | None = None


def relative_names(paths: Sequence[str | Path]) -> list[str]:
    """Names of files below their common folder, with forward slashes."""
    full = [Path(path).resolve() for path in paths]
    if not full:
        raise InputError("There are no files; pass at least one.")
    folder = full[0].parent
    while not all(path.is_relative_to(folder) for path in full):
        folder = folder.parent
    return [path.relative_to(folder).as_posix() for path in full]


def assemble(files: Sequence[FileBags], features: Any, feature_names: list[str], name: str) -> BagDataset:
    """One data set of the bags that hold instances; bags without any are left out.

    Parameters
    ----------
    files : the files in order
    features : (m, d) array or CSR matrix of all instances
    feature_names : list of str
    name : what the data set is called
    """
    sizes = np.array([size for file in files for size in file.sizes], dtype=np.int64)
    names = [bag for file in files for bag in file.bag_names]
    kept = np.flatnonzero(sizes)
    if not len(kept):
        raise InputError(
            f"Nothing was found in any of the {len(files)} files, so there is no instance to learn from; "
            "lower the threshold or the smallest size of a region."
        )
    return BagDataset(
        bags=Bags(features, offsets_of(sizes[kept])),
        bag_names=[names[i] for i in kept],
        feature_names=feature_names,
        locations=[location for file in files for location in file.locations],
        name=name,
    )


def stack_features(files: Sequence[FileBags]) -> Any:
    """The features of all files below each other."""
    parts = [file.features for file in files if file.features.shape[0]]
    if not parts:
        return np.empty((0, files[0].features.shape[1] if files else 0))
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def featurize_each(paths: Sequence[str | Path], read: Callable[[str | Path, str], FileBags]) -> list[FileBags]:
    """Read files one after the other; the first that cannot be read raises its error."""
    return [read(path, name) for path, name in zip(paths, relative_names(paths), strict=True)]


class Settings:
    """What the settings of all featurizers share: checks of numbers, and reading from text."""

    def check_ranges(self, ranges: dict[str, tuple[float, float]]) -> None:
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not low <= value <= high:
                bounds = f"from {low:g} to {high:g}" if high < np.inf else f"of {low:g} or more"
                raise InputError(f"The setting {name!r} is {value!r}; expected a number {bounds}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_text(cls, pairs: dict[str, str]) -> Any:
        """Settings from ``name=value`` pairs as they come from a command line."""
        known = {f.name: f.default for f in fields(cls)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for name, text in pairs.items():
            if name not in known:
                raise InputError(f"There is no setting {name!r}; the settings are {', '.join(known)}.")
            values[name] = _parse(name, text, known[name])
        return cls(**values)


def _parse(name: str, text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise InputError(f"The setting {name!r} takes true or false, not {text!r}.")
        return text.lower() == "true"
    if default is None and text.lower() == "none":
        return None
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"The setting {name!r} takes a number, not {text!r}.") from None
    if isinstance(default, int):
        if not number.is_integer():
            raise InputError(f"The setting {name!r} takes a whole number, not {text!r}.")
        return int(number)
    return number


def unreadable(path: str | Path, what: str, error: object, cure: str = "Leave it out, or save it anew.") -> FormatError:
    """The error for a file that cannot be used."""
    return FormatError(f"{path}: {what} ({error}). {cure}")
