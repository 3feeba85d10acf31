"""Texts: a bag is a document, an instance is a passage of it."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.dataset import BagDataset
from bagwise.exceptions import InputError
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium, Row
from bagwise.featurize.pictures import WIDTH, CloseUp, Picture
from bagwise.featurize.settings import Settings
from bagwise.featurize.stemming import stem
from bagwise.featurize.text_input import TextInput
from bagwise.io.annotations.label_studio_facts import LabelStudio
from bagwise.io.text import read_text

EXTENSIONS = (".txt", ".md")
PLACES = ("start", "end")
FEW_TERMS = 10
PICTURE_LENGTH = 20_000  # characters that one picture shows
LONGEST_PASSAGE = 400  # characters of a passage by itself
_APOSTROPHES = "['\\u2019]"
_WORD = re.compile(rf"[^\W\d_]+(?:{_APOSTROPHES}[^\W\d_]+)*")


@dataclass(frozen=True)
class TextSettings(Settings):
    """How documents become passages.

    Attributes
    ----------
    window, step : int
        Words of a passage, and words from the start of one to the start of the next.
    keep : float
        Share of the terms that are kept, those that occur in most documents.
    stop_words : {"english", "none"}
        Whether words such as "the" are left out.
    stems : bool
        Whether English endings are taken off.
    """

    window: int = 50
    step: int = 25
    keep: float = 0.02
    stop_words: str = "english"
    stems: bool = True

    def __post_init__(self) -> None:
        self.check_ranges({"window": (1, 1_000_000), "step": (1, 1_000_000), "keep": (1e-6, 1)})
        if self.stop_words not in ("english", "none"):
            raise InputError(f"The setting 'stop_words' is {self.stop_words!r}; use 'english' or 'none'.")
        if self.step > self.window:
            raise InputError(
                f"step={self.step} is larger than window={self.window}, so words between passages would be lost; "
                "lower it."
            )


def terms_of(words: Sequence[str], settings: TextSettings) -> list[str]:
    """The terms that count among some words: lower case, without stop words, stemmed."""
    lower = [word.lower() for word in words]
    if settings.stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        lower = [word for word in lower if word not in ENGLISH_STOP_WORDS]
    lower = [re.sub(_APOSTROPHES, "", word) for word in lower]
    return [stem(word) for word in lower] if settings.stems else lower


def passages(text: str, settings: TextSettings) -> list[tuple[int, int, Counter[str]]]:
    """Start and end, in characters, and term counts of each passage; the last reaches the end of the text."""
    words = list(_WORD.finditer(text))
    starts = range(0, max(len(words) - settings.window, 0) + settings.step, settings.step)
    found = []
    for start in starts:
        piece = words[start : start + settings.window]
        if piece:
            counts = Counter(terms_of([match.group() for match in piece], settings))
            found.append((piece[0].start(), piece[-1].end(), counts))
    return found


def read_document(path: str | Path, name: str, settings: TextSettings) -> FileBags:
    """The passages of one document, with counts of the document's own terms."""
    text = read_text(path)
    found = passages(text, settings)
    problems = [] if found else ["it holds no words."]
    terms = sorted({term for *_, counts in found for term in counts})
    if found and not terms:
        found, problems = [], ["all of its words are stop words; leave it out, or set stop_words=none."]
    column = {term: j for j, term in enumerate(terms)}
    counts = sp.lil_matrix((len(found), len(terms)))
    for i, (*_, counter) in enumerate(found):
        for term, count in counter.items():
            counts[i, column[term]] = count
    return FileBags(
        bag_names=[name],
        sizes=[len(found)],
        features=counts.tocsr(),
        locations={key: np.array([passage[i] for passage in found], dtype=np.int64) for i, key in enumerate(PLACES)},
        info={"characters": len(text)},
        problems=problems,
        feature_names=terms,
    )


def choose_terms(files: Sequence[FileBags], keep: float) -> list[str]:
    """The share of the terms that occur in most documents, in alphabetical order; ties go to the first letters."""
    documents: Counter[str] = Counter(term for file in files for term in file.feature_names or [])
    if not documents:
        raise InputError(
            "There are no terms in any document; check the files, or keep all words (--medium-set stop_words=none)."
        )
    size = max(1, math.ceil(keep * len(documents)))
    if size < min(FEW_TERMS, len(documents)):
        warnings.warn(
            f"Of {len(documents)} terms only {size} are counted (keep={keep:g}), too few to tell passages apart; raise "
            f"keep, such as keep={min(1.0, round(2 * FEW_TERMS / len(documents), 2)):g}.",
            UserWarning,
            stacklevel=2,
        )
    ranked = sorted(documents, key=lambda term: (-documents[term], term))
    return sorted(ranked[:size])


def count_matrix(files: Sequence[FileBags], terms: Sequence[str]) -> Any:
    """(m, v) CSR counts of the chosen terms in all passages."""
    column = {term: j for j, term in enumerate(terms)}
    parts = []
    for file in files:
        pairs = [(j, column[term]) for j, term in enumerate(file.feature_names or []) if term in column]
        chooser = sp.csr_matrix(
            (np.ones(len(pairs)), ([j for j, _ in pairs], [k for _, k in pairs])),
            shape=(file.features.shape[1], len(terms)),
        )
        parts.append(file.features @ chooser)
    return sp.vstack(parts, format="csr")


def draw_text(path: Path, name: str, rows: Sequence[Row], settings: TextSettings, start: float) -> Picture:
    """Pieces of a part of the text, each under the most probable of the passages that cover it."""
    text = read_text(path)
    first, last = int(start), min(len(text), int(start) + PICTURE_LENGTH)
    inside = {row[key] for row in rows for key in ("start", "end") if first < row[key] < last}
    edges = sorted({first, last, *inside})
    pieces: list[dict[str, Any]] = []
    for left, right in pairwise(edges):
        covering = [row for row in rows if row["start"] <= left and row["end"] >= right]
        best = max(covering, key=lambda row: row["probability"] or 0.0) if covering else None
        label = best["label"] if best else ""
        if pieces and pieces[-1]["label"] == label:
            pieces[-1]["text"] += text[left:right]
        else:
            probability = best["probability"] if best else None
            pieces.append({"label": label, "probability": probability, "text": text[left:right]})
    title = f"{name}, characters {first} to {last} of {len(text)}" if last - first < len(text) else name
    return Picture(title=title, kind="text", width=WIDTH, height=0, regions=pieces)


def close_up_passages(path: Path, rows: Sequence[Row], settings: TextSettings) -> Iterator[CloseUp]:
    """The words of each passage, shortened."""
    text = read_text(path)
    for row in rows:
        passage = text[row["start"] : row["end"]].strip()
        yield CloseUp(text=passage if len(passage) <= LONGEST_PASSAGE else f"{passage[:LONGEST_PASSAGE]} …")


def place_in_words(row: Row) -> str:
    return f"{row['start']} to {row['end']} characters"


def _feature_names(files: Sequence[FileBags], settings: TextSettings) -> list[str]:
    return choose_terms(files, settings.keep)


def _picture_length(settings: TextSettings) -> float:
    return float(PICTURE_LENGTH)


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "text": text[row["start"] : row["end"]]}


TEXT = Medium(
    name="text",
    title="Texts, annotated",
    instances="passages",
    settings=TextSettings,
    bags="texts",
    finer="label shorter texts, such as sections in files of their own",
    extensions=EXTENSIONS,
    read=read_document,
    feature_names=_feature_names,
    features=count_matrix,
    places=PLACES,
    whole=True,
    place_in_words=place_in_words,
    formats=("csv", "parquet", "spans", "label-studio"),
    label_studio=LabelStudio("text", "labels", "Text", "Labels", value=_mark_value, holds_text=True),
    drawings="Passages",
    draw=draw_text,
    picture_length=_picture_length,
    close_ups=close_up_passages,
    shown_as="text",
    embed=TextInput,
)


def featurize_texts(paths: Sequence[str | Path], settings: TextSettings | None = None) -> BagDataset:
    """Passages of documents as counts of terms, sparse.

    Parameters
    ----------
    paths : list of paths
        UTF-8 text files, one a document.
    settings : TextSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in characters; `feature_names` are the terms.

    References
    ----------
    Zhang and Zhou, M3MIML, 2008, section 4.1.
    """
    return TEXT.featurize(paths, settings)
