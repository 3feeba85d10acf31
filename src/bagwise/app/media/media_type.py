"""A media type: recordings, images, texts, time series, each with everything that is particular to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media._network_input import NetworkInput
from bagwise.app.media.files import FileBags, assemble, stack_rows
from bagwise.app.media.pictures import CloseUp, Picture
from bagwise.app.media.settings import Settings
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError, one_file

Row = Mapping[str, Any]


def _always(*arguments: Any) -> bool:
    return True


def _no_items(*arguments: Any) -> list[Any]:
    return []


def _no_facts(*arguments: Any) -> dict[str, Any]:
    return {}


def _without_pieces(settings: Any) -> float:
    return np.inf


def _columns_in_words(row: Row) -> str:
    return f"instance {row['instance']} of {row['bag']}"


def _start_and_end(value: Row, file: Row) -> dict[str, Any]:
    return {"start": value["start"], "end": value["end"]}


def _stack_features(files: Sequence[FileBags], names: Sequence[str]) -> Any:
    """The features of all files below each other, whose columns `names` are the same in every file."""
    parts = [file.features for file in files if file.features.shape[0]]
    return stack_rows(parts) if parts else np.empty((0, len(names)))


def _common_feature_names(files: Sequence[FileBags], settings: Any = None) -> list[str]:
    """The names of the features, which must be those of every file."""
    for file in files:
        if file.feature_names != files[0].feature_names:
            raise FormatError(
                f"{file.bag_names[0]}: its columns differ from those of {files[0].bag_names[0]}; "
                "give every file the same columns in the same order."
            )
    return list(files[0].feature_names or [])


@dataclass(frozen=True)
class LabelStudio:
    """How a media type is shown and marked in Label Studio.

    Attributes
    ----------
    key : str
        Key of the data of a task.
    kind : str
        Kind of the results.
    tag, labels : str
        Tags of the object and of its labels in the interface.
    value : function of a row, its file and the file's text that gives the value of a result, without the label
    place : function of such a value and the file that gives the columns of the place
    details : function of a row and its file that gives what else a result says
    show : function of the key and the first file that gives the lines of the interface, where one tag does not do
    holds_text : bool
        Whether a task holds the text itself and not the name of the file.
    shows : function of a file
        Whether Label Studio can show it; others have no task.
    """

    key: str
    kind: str
    tag: str
    labels: str
    value: Callable[[Row, Row, str], dict[str, Any]]
    place: Callable[[Row, Row], dict[str, Any]] = _start_and_end
    details: Callable[[Row, Row], dict[str, Any]] = _no_facts
    show: Callable[[str, Row], list[str]] | None = None
    holds_text: bool = False
    shows: Callable[[Row], bool] = _always


@dataclass(frozen=True)
class Parts:
    """How a long file is read in parts, each of which can be kept as soon as it is done.

    Attributes
    ----------
    cut : function of the open file and settings that gives first and last second of each part, one where it is short
    read : function of the open file, a part and settings that gives what is found in the part
    join : function of the open file, its name, what was found in all parts, and settings that gives its `FileBags`
    """

    cut: Callable[[Any, Any], list[tuple[float, float]]]
    read: Callable[[Any, tuple[float, float], Any], FileBags]
    join: Callable[[Any, str, Sequence[FileBags], Any], FileBags]


@dataclass(frozen=True)
class Scales:
    """At which resolutions the instances of a media type can be looked for.

    Attributes
    ----------
    measure : function of an open file that gives its length, in what progress is counted in, and its rate
    settings : function of the settings, the names of those that were given, and the rates of some files
        Gives settings from fine to coarse, and the numbers of those to begin with, the default first. There is nothing
        to choose where that is one.
    in_words : function of settings
        What differs between them.
    long : function of settings
        Seconds from which on an instance is so long that several may have run together.
    hold : function of an open file and a number of bytes
        Gives what is read as that file is, but lies in memory, and its bytes; None and 0 where these would be more.
    """

    measure: Callable[[Any], tuple[float, float]]
    settings: Callable[[Any, Collection[str], Sequence[float]], tuple[list[Any], list[int]]]
    in_words: Callable[[Any], str]
    long: Callable[[Any], float]
    hold: Callable[[Any, int], tuple[Any, int]]


@dataclass(frozen=True, repr=False)
class MediaType:
    """Everything that is particular to a media type: settings, readers, formats, pictures, words.

    Only the first four and `read` are needed for a new media type; the defaults of the others are those of one that
    has nothing of the kind.

    Attributes
    ----------
    name : str
    title : str
        What stands above the page of a run.
    instances : str
        What its instances are called, in the plural.
    settings : class of the settings
    bags : str
        What labels are given to, in the plural.
    finer : str
        How to label less at a time, so that labels can be distinguished.
    better : str
        What to do where names are hardly better than guesses.
    too_few : str
        Why a bag may hold fewer instances than labels, and what to try.
    extensions : tuple of str
        Endings of its files, in lower case with the dot.
    unreadable : mapping
        Endings of files that are of this media type but cannot be read, and why and what to do.
    open : function of path that gives a context with the open file, or the path itself
        What `read`, `parts`, `draw`, `close_ups` and `cut_sound` are given, so that a file is opened once for all that
        is done with it. Callers use `opened`.
    read : function of the open file, its name and settings that gives its `FileBags`; None where there are no files
    parts : Parts or None
        How long files are read in parts, where they may take long.
    describe : function of the open file, its name, places and settings, or None where people cannot draw instances
        Gives a `FileBags` with one bag of one instance per place, named as the bag that it belongs to. Places are
        mappings of `places` to numbers; low and high may be None.
    read_boxes : function of the open file, its name, places and settings that gives its `FileBags`, or None
        Its bags where instances are not looked for, but a detector or a person drew them.
    scales : Scales or None
        At which resolutions instances can be looked for, where a set can choose.
    belongs : function of path and settings
        Whether a file with a fitting ending is one of the media itself.
    companions : function of path, name and settings
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
        Names of the formats of annotations, see `bagwise.app.formats.FORMATS`.
    label_studio : LabelStudio or None
    drawings : str
        What the page calls what `draw` gives.
    draw : function of file, name, rows, settings and start that gives a `Picture`; None where there is nothing to see
    picture_length : function of the settings
        How much of a file one picture shows, in units of ``start``; infinity for all of it.
    joined : bool
        Whether neighbouring instances of one label are one interval to people: `draw` is then given all instances of a
        file, those that are not shown without a label.
    pieces_have_names : bool
        Whether the bags of one file have names (behind an @) by which people know them.
    close_ups : function of file, rows and settings that gives a `CloseUp` of each row of a file, or None
    cut_sound : function of file, start, end and settings that gives a short sound to play (FLAC), or None
    close_up_span : function of a row and the seconds of its file
        What is played of one instance, where there is sound.
    stages : function of the open file, folder, settings, start and number of pieces, or None
        Draws the stages of a file into the folder; gives lines of text that say what was found and written.
    shown_as : {"sound", "image", "text", "series", ""}
        What the review page shows and plays it as; "" where there is nothing to see or hear.
    dated : bool
        Whether the info of a file may have the time of recording.
    notes : function of the facts of all files that gives sentences for people
        What was read otherwise than a person may expect, and is no problem.
    embed : class of `NetworkInput` or None
        How its instances are given to networks that were trained elsewhere.
    joins : bool
        Whether its own features stay next to vectors of networks where nothing else is said.
    """

    name: str
    title: str
    instances: str
    settings: type[Settings]
    bags: str = "bags"
    finer: str = "label smaller bags"
    better: str = "give more labelled bags, or features that tell labels apart"
    too_few: str = ""
    extensions: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    open: Callable[[Path], AbstractContextManager[Any]] = nullcontext
    read: Callable[[Any, str, Any], FileBags] | None = None
    parts: Parts | None = None
    describe: Callable[[Any, str, Sequence[Row], Any], FileBags] | None = None
    read_boxes: Callable[[Any, str, Sequence[Row], Any], FileBags] | None = None
    scales: Scales | None = None
    belongs: Callable[[Path, Any], bool] = _always
    companions: Callable[[Path, str, Any], Sequence[Path]] = _no_items
    feature_names: Callable[[Sequence[FileBags], Any], list[str]] = _common_feature_names
    features: Callable[[Sequence[FileBags], Sequence[str]], Any] = _stack_features
    check_files: Callable[[Mapping[str, FileBags], Sequence[str] | None], dict[str, str]] = _no_facts
    places: tuple[str, ...] = ()
    whole: bool = False
    place_in_words: Callable[[Row], str] = _columns_in_words
    formats: tuple[str, ...] = ("csv", "parquet")
    label_studio: LabelStudio | None = None
    drawings: str = "Pictures"
    draw: Callable[[Any, str, Sequence[Row], Any, float], Picture] | None = None
    picture_length: Callable[[Any], float] = _without_pieces
    joined: bool = False
    pieces_have_names: bool = False
    close_ups: Callable[[Any, Sequence[Row], Any], Iterator[CloseUp]] | None = None
    cut_sound: Callable[[Any, float, float, Any], bytes] | None = None
    close_up_span: Callable[[Row, float], tuple[float, float]] | None = None
    stages: Callable[[Any, Path, Any, float, int], Iterator[str]] | None = None
    shown_as: str = ""
    dated: bool = False
    notes: Callable[[Sequence[Row]], list[str]] = _no_items
    embed: type[NetworkInput] | None = None
    joins: bool = False

    def __repr__(self) -> str:
        return f"MediaType({self.name!r})"

    @property
    def timed(self) -> bool:
        """Whether places are seconds, and the info of a file has its length in seconds."""
        return "start" in self.places and not self.whole

    def is_alone(self, path: Path) -> bool:
        """Whether one file of this media type can be annotated by itself: its pieces are the bags."""
        return self.pieces_have_names or (self.read is not None and path.suffix.lower() in self.extensions)

    def make_settings(self, values: Mapping[str, Any] | Settings | None = None) -> Any:
        """Settings of this media type from values by name (text, or of their own kind), checked; else the default."""
        if isinstance(values, self.settings):
            return values
        if isinstance(values, Settings):
            raise InputError(
                f"The settings are {type(values).__name__}, but {self.name} takes {self.settings.__name__}; pass "
                "these, or a dict of names and values."
            )
        return self.settings.from_text(values or {})

    @contextmanager
    def opened(self, path: Path, held: Any = None) -> Iterator[Any]:
        """An open file, or what is `held` of it; whatever a library raises while it is used is an error naming it."""
        with one_file(path), nullcontext(held) if held is not None else self.open(path) as file:
            yield file

    def read_file(self, path: str | Path, name: str, settings: Any) -> FileBags:
        """The bags of one file."""
        if self.read is None:
            raise InputError(f"The media type {self.name!r} has no files to read.")
        with self.opened(Path(path)) as file:
            return self.read(file, name, settings)

    def featurize(self, paths: Sequence[str | Path], values: Mapping[str, Any] | Settings | None = None) -> BagDataset:
        """The bags of some files as one data set without labels, named by their places below their common folder."""
        settings = self.make_settings(values)
        full = [Path(path).resolve() for path in paths]
        if not full:
            raise InputError("There are no files; pass at least one.")
        folder = os.path.commonpath([path.parent for path in full])
        by_name: dict[str, FileBags] = {}
        for path, real in zip(paths, full, strict=True):
            name = real.relative_to(folder).as_posix()
            if name in by_name:
                raise InputError(f"The file {name} is given twice; give each file once.")
            by_name[name] = self.read_file(path, name, settings)
        files = list(by_name.values())
        names = self.feature_names(files, settings)
        return assemble(by_name, self.features(files, names), list(names), self.name)
