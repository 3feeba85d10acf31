"""All file formats of bags: which there are, which one a file is in, and reading and writing them by name."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.plugins import DATA_FORMATS, add_installed
from bagwise.io.data._arff import read_arff, write_arff
from bagwise.io.data._csv import (
    CONFORMATION,
    MUSK,
    read_csv,
    read_miml_csv,
    read_musk,
    write_bags_csv,
    write_miml_csv,
    write_musk,
)
from bagwise.io.data._hdf5 import read_h5ad, read_slide
from bagwise.io.data._long import BAG_NAME, has_names, has_unlabelled, with_labels
from bagwise.io.data._mat import BAGS, FEATURES, mat_variables, read_benchmark, read_lamda, write_benchmark, write_lamda
from bagwise.io.data._mat import CLASS as _MAT_CLASS
from bagwise.io.data._npz import read_npz, write_npz
from bagwise.io.data._parquet_write import write_parquet
from bagwise.io.data.parquet import ParquetBags, is_nested_file, read_parquet
from bagwise.io.files import PathLike, check_readable, printable
from bagwise.io.labels import LabelTable, read_labels

INSTANCE_LABELS, LOCATIONS, FEATURE_NAMES = "instance labels", "locations", "feature names"
BAG_NAMES, SAME_NAMES, CLASS_NAMES = "bag names", "several bags of one name", "class names"
UNLABELLED = "which bags are unlabelled"
EVERYTHING = frozenset({INSTANCE_LABELS, LOCATIONS, FEATURE_NAMES, BAG_NAMES, SAME_NAMES, CLASS_NAMES, UNLABELLED})


@dataclass(frozen=True)
class DataFormat:
    """A file format.

    Attributes
    ----------
    about : str
        What it is, a few words.
    extension : str
        Of files that are written; the first of the endings by which it is known.
    read : function of path and options, gives data set and how it was understood
    write : function of data set and path; that of parquet and CSV also takes pieces of one
    holds : frozenset
        What it can keep beyond features and labels.
    options : tuple of str
        Names of the options of `read`.
    """

    about: str
    extension: str
    read: Callable[..., tuple[BagDataset, str]]
    write: Callable[..., None]
    holds: frozenset[str]
    options: tuple[str, ...] = ()


def _not_written(dataset: BagDataset, path: PathLike) -> None:
    raise InputError(f"{path}: this format is read only; write parquet.")


_COLUMNS = ("bag", "labels", "instance_label", "features")
FORMATS: dict[str, DataFormat] = {
    "npz": DataFormat("numpy arrays in a zip", ".npz", read_npz, write_npz, EVERYTHING - {LOCATIONS}),
    "parquet": DataFormat("parquet, a row per instance", ".parquet", read_parquet, write_parquet, EVERYTHING, _COLUMNS),
    "parquet-nested": DataFormat(
        "parquet, a row per bag",
        ".parquet",
        read_parquet,
        partial(write_parquet, nested=True),
        EVERYTHING - {LOCATIONS},
        ("bag", "labels", "instance_label"),
    ),
    "csv": DataFormat(
        "CSV, a row per instance", ".csv", read_csv, write_bags_csv, EVERYTHING, (*_COLUMNS, "separator")
    ),
    "arff": DataFormat(
        "multi-instance ARFF with an XML of label names",
        ".arff",
        read_arff,
        write_arff,
        frozenset({FEATURE_NAMES, BAG_NAMES, CLASS_NAMES}),
        ("xml",),
    ),
    "miml-csv": DataFormat(
        "CSV of mimllearning",
        ".csv",
        read_miml_csv,
        write_miml_csv,
        frozenset({FEATURE_NAMES, BAG_NAMES, CLASS_NAMES}),
    ),
    "lamda-mat": DataFormat(
        "LAMDA's .mat (bags, targets)",
        ".mat",
        read_lamda,
        write_lamda,
        frozenset({FEATURE_NAMES, BAG_NAMES, SAME_NAMES, CLASS_NAMES}),
    ),
    "mil-mat": DataFormat(
        "benchmark .mat (features, labels, bag_ids)",
        ".mat",
        read_benchmark,
        write_benchmark,
        frozenset({FEATURE_NAMES, INSTANCE_LABELS}),
    ),
    "musk": DataFormat("musk .data, one class", ".data", read_musk, write_musk, frozenset({BAG_NAMES})),
}
add_installed(FORMATS, DATA_FORMATS, DataFormat)

READ_ONLY: dict[str, DataFormat] = {  # read like any other, and written by the tools that they come from
    "h5ad": DataFormat("AnnData", ".h5ad", read_h5ad, _not_written, frozenset(), ("bag", "labels", "instance_label")),
    "slide-h5": DataFormat("features of a slide", ".h5", read_slide, _not_written, frozenset()),
}

PARQUET = ("parquet", "parquet-nested")
_FIXED_CLASS = {"mil-mat": [_MAT_CLASS], "musk": [MUSK]}
_BY_EXTENSION = {
    ".npz": ("npz",),
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".csv": ("csv", "miml-csv"),
    ".tsv": ("csv",),
    ".txt": ("csv", "miml-csv", "musk"),
    ".arff": ("arff",),
    ".mat": ("lamda-mat", "mil-mat"),
    ".data": ("musk",),
}
_BROUGHT = {format.extension: (name,) for name, format in FORMATS.items() if format.extension not in _BY_EXTENSION}
_BROUGHT |= {format.extension: (name,) for name, format in READ_ONLY.items()}
_BY_EXTENSION |= _BROUGHT
_TEXT_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:%[^\n]*\n\s*)*@relation", re.IGNORECASE)


def guess_format(path: PathLike) -> str:
    """The format of a file, from its first bytes and its name.

    Raises
    ------
    FormatError
        If the content is of no known format, or contradicts the ending of the name.
    """
    path = check_readable(path)
    found = _by_content(path)
    ending = path.suffix.casefold()
    if found not in _BY_EXTENSION.get(ending, (found,)):
        raise FormatError(
            f"{path}: it is named {ending} but its content looks like {find_format(found).about}; rename it, or name "
            f"the format {found!r}."
        )
    return found


def _by_content(path: Path) -> str:
    if path.suffix.casefold() in _BROUGHT:
        return _BROUGHT[path.suffix.casefold()][0]
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet-nested" if is_nested_file(path) else "parquet"
    if start.startswith(b"PK") or path.suffix.casefold() == ".npz":
        return "npz"
    if start.startswith((b"MATLAB", b"\x89HDF")) or path.suffix.casefold() == ".mat":
        names = mat_variables(path)
        if BAGS not in names and FEATURES not in names:
            raise FormatError(
                f"{path}: its variables are {', '.join(names)[:200] or 'none'}; expected bags and targets, or "
                "features, labels and bag_ids."
            )
        return "lamda-mat" if BAGS in names else "mil-mat"
    if _TEXT_START.match(start) or path.suffix.casefold() == ".arff":
        return "arff"
    lines = start.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if re.fullmatch(rb"[0-9]{1,6},*\s*", lines[0]):
        return "miml-csv"
    if path.suffix.casefold() == ".data" or re.fullmatch(rb"[^,]+,[^,]+(,-?[0-9.]+){2,},[01]\.?\s*", lines[0]):
        return "musk"
    if path.suffix.casefold() in (".parquet", ".pq"):
        raise FormatError(f"{path}: it does not begin as a parquet file; it is damaged, or another kind of file.")
    return "csv"


def read_dataset(
    path: PathLike,
    format: str | None = None,
    *,
    labels_from: Any = None,
    missing_labels: str = "error",
    **options: Any,
) -> BagDataset:
    """Read bags from a file of any format.

    Parameters
    ----------
    path : str or path
    format : str or None
        A name of `FORMATS`; None finds it out from name and content.
    labels_from : str, path, LabelTable or None
        A table of bag labels, or what `bagwise.io.labels.read_labels` read of one; matched by the names of the bags.
    missing_labels : {"error", "unlabelled"}
        What a bag is that has no row in the table of labels.
    **options
        Of the format's reader, such as ``bag="recording"`` for tables.

    Returns
    -------
    BagDataset

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.io.data.formats import read_dataset, write_dataset
    >>> path = os.path.join(tempfile.mkdtemp(), "made.csv")
    >>> data = make_gaussian_bags(n_bags=5, random_state=0)
    >>> write_dataset(data, path)
    >>> read_dataset(path).bags == data.bags
    True
    """
    return read_described(path, format, labels_from=labels_from, missing_labels=missing_labels, **options)[0]


def read_described(
    path: PathLike,
    format: str | None = None,
    *,
    labels_from: Any = None,
    missing_labels: str = "error",
    **options: Any,
) -> tuple[BagDataset, str]:
    """As `read_dataset`, and a sentence that says which format it was and how it was understood."""
    name, chosen = _format_of(path, format, options)
    try:
        dataset, understood = chosen.read(path, **options)
    except FormatError:
        raise
    except InputError as error:  # of Bags and BagDataset, which know no file
        raise FormatError(f"{path}: {error}") from error
    if dataset.name != printable(dataset.name):
        dataset = replace(dataset, name=printable(dataset.name))
    understood = f"{name}: {understood}"
    if labels_from is not None:
        table = labels_from if isinstance(labels_from, LabelTable) else read_labels(labels_from)
        for _, problem in table.problems:
            warnings.warn(problem, UserWarning, stacklevel=3)
        dataset = with_labels(dataset, table, path, table.path, missing_labels)
        understood = f"{understood}; labels from {table.path}: {table.form}"
    return dataset, understood


def _format_of(path: PathLike, format: str | None, options: dict[str, Any]) -> tuple[str, DataFormat]:
    """The format of a file that is there, by its name where that is given, and found to have the options."""
    check_readable(path)
    name = guess_format(path) if format is None else format
    chosen = find_format(name)
    unknown = [option for option in options if option not in chosen.options]
    if unknown:
        known = f"has {', '.join(chosen.options)}" if chosen.options else "has none"
        raise InputError(f"The format {name!r} has no option {unknown[0]!r}; it {known}.")
    return name, chosen


def write_dataset(dataset: BagDataset, path: PathLike, format: str | None = None) -> None:
    """Write bags to a file; it appears complete or not at all.

    Parameters
    ----------
    dataset : BagDataset
    path : str or path
    format : str or None
        A name of `FORMATS`; by default the one of the ending of `path`.

    Warns
    -----
    UserWarning
        If the format cannot keep something that the data set has; docs/formats says what each keeps.

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise import read_table, write_dataset
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=5, random_state=0)
    >>> path = os.path.join(tempfile.mkdtemp(), "made.parquet")
    >>> write_dataset(data, path)
    >>> sorted(os.listdir(os.path.dirname(path)))
    ['made.parquet']
    """
    name = format_for_writing(path) if format is None else format
    chosen = find_format(name)
    lost = _has(dataset) - chosen.holds
    if name == "mil-mat" and all(isinstance(bag, int) for bag in dataset.bag_names):
        lost.discard(BAG_NAMES)
    if dataset.class_names in (_FIXED_CLASS.get(name), [0]):
        lost.discard(CLASS_NAMES)
    if name == "musk" and set(dataset.locations or ()) <= {CONFORMATION}:
        lost.discard(LOCATIONS)
    chosen.write(dataset, path)
    if lost:
        warnings.warn(
            f"{path}: the format {name!r} does not keep {', '.join(sorted(lost))}.", UserWarning, stacklevel=2
        )


def _has(dataset: BagDataset) -> set[str]:
    names = dataset.bag_names
    present = {
        INSTANCE_LABELS: dataset.instance_labels is not None,
        LOCATIONS: dataset.locations is not None,
        FEATURE_NAMES: dataset.feature_names is not None,
        BAG_NAMES: has_names(dataset),
        CLASS_NAMES: bool(dataset.class_names),
        SAME_NAMES: len(set(names)) < len(names),
        UNLABELLED: has_unlabelled(dataset),
    }
    return {what for what, is_there in present.items() if is_there}


def format_for_writing(path: PathLike) -> str:
    """The format that goes with the ending of a name."""
    ending = Path(path).suffix.casefold()
    if ending not in _BY_EXTENSION:
        raise InputError(
            f"The ending {ending!r} of {path} tells no format; use one of {', '.join(_BY_EXTENSION)}, or name the "
            f"format: {', '.join(FORMATS)}."
        )
    return _BY_EXTENSION[ending][0]


def find_format(name: str) -> DataFormat:
    """The format of this name."""
    everything = {**FORMATS, **READ_ONLY}
    if name not in everything:
        raise InputError(f"There is no format {name!r}; the formats are {', '.join(everything)}.")
    return everything[name]


def iter_dataset(
    path: PathLike,
    format: str | None = None,
    *,
    labels_from: Any = None,
    with_labels: bool = True,
    **options: Any,
) -> tuple[Iterator[BagDataset], str]:
    """A file as a series of data sets of whole bags, and how it was understood.

    Parquet comes in parts; other formats, and files whose labels stand in a second table, in one piece.
    """
    name, _ = _format_of(path, format, options)
    if name in PARQUET and labels_from is None:
        source = ParquetBags(path, with_labels=with_labels, **options)
        return source.iter_bags(), f"{name}: {source.understood()}"
    dataset, understood = read_described(path, name, labels_from=labels_from, **options)
    return iter([dataset]), understood


def convert_file(
    source: PathLike,
    target: PathLike,
    source_format: str | None = None,
    target_format: str | None = None,
    **options: Any,
) -> str:
    """Write the bags of one file to another; gives how the first was understood.

    Between parquet files, and from parquet to CSV, bags go through the memory in pieces.
    """
    to = format_for_writing(target) if target_format is None else target_format
    writer = find_format(to)
    check_readable(source)
    name = guess_format(source) if source_format is None else source_format
    if name in PARQUET and to in (*PARQUET, "csv") and "labels_from" not in options:
        pieces, understood = iter_dataset(source, name, **options)
        writer.write(pieces, target, numbered=BAG_NAME in ParquetBags(source).headings)
        return understood
    dataset, understood = read_described(source, name, **options)
    write_dataset(dataset, target, to)
    return understood


def select_features(dataset: BagDataset, names: Sequence[str] | None, source: Any) -> BagDataset:
    """The data set with the features that a model was trained on, found by name where both have names."""
    if names is None or dataset.feature_names is None or list(names) == dataset.feature_names:
        return dataset
    position = {name: i for i, name in enumerate(dataset.feature_names)}
    missing = [name for name in names if name not in position]
    if missing:
        if not set(position) & set(names):  # names of another kind: the number of features decides
            return dataset
        raise FormatError(
            f"{source}: it has no feature {missing[0]!r}, on which the model was trained ({len(missing)} missing); "
            "add it, or train again."
        )
    columns = [position[name] for name in names]
    return replace(
        dataset, bags=Bags(dataset.bags.instances[:, columns], dataset.bags.offsets), feature_names=list(names)
    )
