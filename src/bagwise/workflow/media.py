"""The kinds of media by name: which files, which settings, how a file is read, what is learned from all of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bagwise.exceptions import InputError
from bagwise.featurize import audio, audio_file, image, image_file, series, text
from bagwise.featurize._result import FileBags, stack_features
from bagwise.featurize.syllables import FEATURE_NAMES


@dataclass(frozen=True)
class Medium:
    """One kind of media.

    Attributes
    ----------
    extensions : tuple of str
    settings : class of the settings
    read : function of path, name and settings that gives the bags of a file
    feature_names : function of the files and settings
        What the features of all files are called; for texts this is what is learned, and kept with the model.
    features : function of the files and the feature names
    belongs : function of path and settings
        Whether a file with a fitting extension is one of the media itself.
    """

    extensions: tuple[str, ...]
    settings: Any
    read: Callable[[Path, str, Any], FileBags]
    feature_names: Callable[[Sequence[FileBags], Any], list[str]]
    features: Callable[[Sequence[FileBags], list[str]], Any]
    belongs: Callable[[Path, Any], bool] = lambda path, settings: True


MEDIA = {
    "audio": Medium(
        audio_file.EXTENSIONS,
        audio.AudioSettings,
        audio.read_audio,
        lambda files, settings: FEATURE_NAMES,
        lambda files, names: stack_features(files),
    ),
    "image": Medium(
        image_file.EXTENSIONS,
        image.ImageSettings,
        image.read_picture,
        lambda files, settings: settings.feature_names,
        lambda files, names: stack_features(files),
        lambda path, settings: not image.is_mask(path, settings),
    ),
    "text": Medium(
        text.EXTENSIONS,
        text.TextSettings,
        text.read_document,
        lambda files, settings: text.choose_terms(files, settings.keep),
        text.count_matrix,
    ),
    "series": Medium(
        series.EXTENSIONS,
        series.SeriesSettings,
        series.read_stretches,
        lambda files, settings: series.common_channels(files),
        lambda files, names: stack_features(files),
    ),
}


def check_medium(name: str) -> Medium:
    """The medium of that name."""
    if name not in MEDIA:
        raise InputError(f"There is no medium {name!r}; use one of {', '.join(MEDIA)}.")
    return MEDIA[name]


def guess_medium(folder: Path, exclude: Iterable[Path] = ()) -> str:
    """The medium of most files of a folder."""
    endings = Counter(path.suffix.lower() for path in _walk(folder, exclude))
    counts = {name: sum(endings[ending] for ending in medium.extensions) for name, medium in MEDIA.items()}
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        known = ", ".join(ending for medium in MEDIA.values() for ending in medium.extensions)
        raise InputError(f"There is no file in {folder} that can be annotated; expected files ending in {known}.")
    return best


def find_files(folder: Path, medium: Medium, settings: Any, exclude: Iterable[Path] = ()) -> list[str]:
    """Names, relative to the folder and sorted, of the media in it and in the folders below."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in _walk(folder, exclude)
        if path.suffix.lower() in medium.extensions and medium.belongs(path, settings)
    )
    if not names:
        raise InputError(f"There is no file in {folder} that ends in {', '.join(medium.extensions)}.")
    return names


def _walk(folder: Path, exclude: Iterable[Path]) -> list[Path]:
    """All files but hidden ones and those in (or at) the paths to leave out."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the media.")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InputError(f"The folder {folder} may not be read; change its permissions.")
    left_out = [path.resolve() for path in exclude]
    found = []
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and not any(path.resolve().is_relative_to(other) for other in left_out):
            found.append(path)
    return found
