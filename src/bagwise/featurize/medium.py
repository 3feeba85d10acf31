"""One kind of media, with everything that is particular to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.exceptions import InputError
from bagwise.featurize.files import FileBags, assemble, common_feature_names, read_each, stack_features
from bagwise.featurize.network_input import NetworkInput
from bagwise.featurize.pictures import CloseUp, Picture
from bagwise.featurize.settings import Settings
from bagwise.featurize.when import Recorded
from bagwise.io.annotations.label_studio_facts import LabelStudio

Row = Mapping[str, Any]


def _every_file(path: Path, settings: Any) -> bool:
    return True


def _nothing_beside(path: Path, name: str, settings: Any) -> list[Path]:
    return []


def _no_errors(files: Mapping[str, FileBags], expected: Sequence[str] | None) -> dict[str, str]:
    return {}


def _nothing_to_note(files: Sequence[Row]) -> list[str]:
    return []


def _without_pieces(settings: Any) -> float:
    return np.inf


def _columns_in_words(row: Row) -> str:
    return f"instance {row['instance']} of {row['bag']}"


@dataclass(frozen=True)
class Parts:
    """How a long file is read in parts, each of which can be kept as soon as it is done.

    Attributes
    ----------
    cut : function of path and settings that gives first and last second of each part, one where the file is short
    read : function of path, part and settings that gives what is found in a part
    join : function of path, name, what was found in all parts, and settings that gives the `FileBags` of the file
    """

    cut: Callable[[Path, Any], list[tuple[float, float]]]
    read: Callable[[Path, tuple[float, float], Any], FileBags]
    join: Callable[[Path, str, Sequence[FileBags], Any], FileBags]


@dataclass(frozen=True, repr=False)
class Medium:
    """All facts of a medium; whoever handles media asks this and nothing else.

    Only the first four and `read` are needed for a new medium; the defaults of the others are those of a medium that
    has nothing of the kind.

    Attributes
    ----------
    name : str
    title : str
        What stands above the page of a run.
    instances : str
        What its instances are called, in the plural.
    settings : class of the settings
    before : mapping
        What settings that were added later stand for in a run or model that was made before, by name.
    bags : str
        What labels are given to, in the plural.
    finer : str
        How to label less at a time, so that labels can be told apart.
    extensions : tuple of str
        Endings of its files, in lower case with the dot.
    unreadable : mapping
        Endings of files that are of this medium but cannot be read, and why and what to do.
    read : function of path, name and settings that gives the `FileBags` of a file; None where there are no files
    parts : Parts or None
        How long files are read in parts, where they may take long.
    belongs : function of path and settings
        Whether a file with a fitting ending is one of the media itself.
    beside : function of path, name and settings
        Further files that the bags of a file are made from, such as its mask.
    feature_names : function of the files and settings
        What the features of all files are called; for texts this is what is learned, and kept with the model.
    features : function of the files and the feature names that gives the features of all instances
    check_files : function of the files by name and the feature names of a trained model, or None
        The error of each file that does not go together with the others.
    places : tuple of str
        The columns that say where in its file an instance is. Those called start and end, low and high, left and
        width, top and height are intervals, so that marks made by hand are found by their overlap.
    whole : bool
        Whether places are whole numbers.
    place_in_words : function of a row of annotations
    formats : tuple of str
        Names of the formats of annotations, see `bagwise.io.annotations.FORMATS`.
    label_studio : LabelStudio or None
    drawings : str
        What the page calls what `draw` gives.
    draw : function of path, name, rows, settings and start that gives a `Picture`; None where there is nothing to see
    picture_length : function of the settings
        How much of a file one picture shows, in units of ``start``; infinity for all of it.
    joined : bool
        Whether neighbouring instances of one label are one interval to people: `draw` is then given all instances of a
        file, those that are not shown without a label.
    pieces_have_names : bool
        Whether the bags of one file have names (behind an @) by which people know them.
    close_ups : function of path, rows and settings that gives a `CloseUp` of each row of a file, or None
    cut_sound : function of path, start, end and settings that gives a short sound to play (FLAC), or None
    close_up_span : function of a row and the seconds of its file
        What is played of one instance, where there is sound.
    stages : function of path, folder, settings, start and number of pieces, or None
        Draws the stages of a file into the folder; gives lines of text that say what was found and written.
    shown_as : {"sound", "image", "text", "series", ""}
        What the review page shows and plays it as; "" where there is nothing to see or hear.
    timed : bool
        Whether the info of a file tells its seconds.
    recorded : function of path and name that gives when a file was recorded, or None where nothing tells it
        None where files of the medium tell no time at all.
    notes : function of the facts of all files that gives sentences for people
        What was read otherwise than a person may expect, and is no problem.
    embed : class of `NetworkInput` or None
        How its instances are given to networks that were trained elsewhere.
    """

    name: str
    title: str
    instances: str
    settings: type[Settings]
    before: Mapping[str, Any] = field(default_factory=dict)
    bags: str = "bags"
    finer: str = "label smaller bags"
    extensions: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Path, str, Any], FileBags] | None = None
    parts: Parts | None = None
    belongs: Callable[[Path, Any], bool] = _every_file
    beside: Callable[[Path, str, Any], Sequence[Path]] = _nothing_beside
    feature_names: Callable[[Sequence[FileBags], Any], list[str]] = common_feature_names
    features: Callable[[Sequence[FileBags], Sequence[str]], Any] = stack_features
    check_files: Callable[[Mapping[str, FileBags], Sequence[str] | None], dict[str, str]] = _no_errors
    places: tuple[str, ...] = ()
    whole: bool = False
    place_in_words: Callable[[Row], str] = _columns_in_words
    formats: tuple[str, ...] = ("csv", "parquet")
    label_studio: LabelStudio | None = None
    drawings: str = "Pictures"
    draw: Callable[[Path, str, Sequence[Row], Any, float], Picture] | None = None
    picture_length: Callable[[Any], float] = _without_pieces
    joined: bool = False
    pieces_have_names: bool = False
    close_ups: Callable[[Path, Sequence[Row], Any], Iterator[CloseUp]] | None = None
    cut_sound: Callable[[Path, float, float, Any], bytes] | None = None
    close_up_span: Callable[[Row, float], tuple[float, float]] | None = None
    stages: Callable[[Path, Path, Any, float, int], Iterator[str]] | None = None
    shown_as: str = ""
    timed: bool = False
    recorded: Callable[[Path, str], Recorded | None] | None = None
    notes: Callable[[Sequence[Row]], list[str]] = _nothing_to_note
    embed: type[NetworkInput] | None = None

    def __repr__(self) -> str:
        return f"Medium({self.name!r})"

    def make_settings(self, values: Mapping[str, Any] | Settings | None = None) -> Any:
        """Settings of this medium from some values by name (text, or of their own kind), checked; else the default."""
        if isinstance(values, self.settings):
            return values
        if isinstance(values, Settings):
            raise InputError(
                f"The settings are {type(values).__name__}, but {self.name} takes {self.settings.__name__}; pass "
                "these, or a dict of names and values."
            )
        return self.settings.from_text(values or {})

    def kept_settings(self, values: Mapping[str, Any]) -> Any:
        """Settings that a run or a model kept, perhaps of an earlier version that had fewer."""
        return self.make_settings({**self.before, **values})

    def featurize(self, paths: Sequence[str | Path], values: Mapping[str, Any] | Settings | None = None) -> BagDataset:
        """The bags of some files as one data set without labels."""
        settings, read = self.make_settings(values), self.read
        if read is None:
            raise InputError(f"The medium {self.name!r} has no files to read.")
        by_name = read_each(paths, lambda path, name: read(path, name, settings))
        files = list(by_name.values())
        names = self.feature_names(files, settings)
        return assemble(by_name, self.features(files, names), list(names), self.name)
