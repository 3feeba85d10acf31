"""Texts: a bag is a document, an instance is a passage of it."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.media._text_input import TextInput
from bagwise.app.media.documents import EXTENSIONS, document_text, read_words
from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import LabelStudio, MediaType, Row
from bagwise.app.media.pictures import WIDTH, CloseUp, Picture
from bagwise.app.media.settings import Settings, choice, number
from bagwise.core.bags import offsets_of
from bagwise.core.checks import memory_limit
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.files import UTF8

ENGLISH, NONE = "english", "none"
OTHER_LANGUAGES = (
    *("arabic", "armenian", "basque", "catalan", "danish", "dutch", "finnish", "french", "german", "greek", "hindi"),
    *("hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese", "romanian"),
    *("russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish"),
)
"""Those of snowballstemmer since 2.2."""
ALGORITHMS = {ENGLISH: "porter"}  # Porter's of 1980, as in the papers; Snowball's "english" is its successor
SHORTEST = 3  # letters: Porter's own program leaves "is" and "as" alone
PLACES = ("start", "end")
FEW_TERMS = 10
BYTES_OF_A_TERM = 24_000  # that a fit needs at most: thirty vectors of weights, of a hundred labels, of eight bytes
PICTURE_LENGTH = 20_000  # characters that one picture shows
LONGEST_PASSAGE = 400  # characters of a passage by itself
AUTO = "auto"
_APOSTROPHES = "['\\u2019]"
_WORD = re.compile(rf"[^\W\d_]+(?:{_APOSTROPHES}[^\W\d_]+)*")


@dataclass(frozen=True)
class TextSettings(Settings):
    """How documents become passages.

    Attributes
    ----------
    window, step : int
        Words of a passage, and words from the start of one to the start of the next.
    min_documents : int
        Terms that occur in fewer documents are not counted.
    keep : float
        Share of these terms that is counted, those that occur in most documents.
    language : str
        Whose endings are taken off: one of those of snowballstemmer, or "none".
    stop_words : {"auto", "english", "none"}
        Whether words such as "the" are left out: where the language is English, always, or never.
    stems : bool
        Whether endings are taken off.

    Examples
    --------
    >>> from bagwise.app.media import TextSettings
    >>> TextSettings(window=20, step=10).stop_words
    'auto'
    >>> TextSettings(window=20)
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: step=25 is larger than window=20, so words between passages would be lost; lower
    it.
    """

    window: int = number(50, 1, 1_000_000)
    step: int = number(25, 1, 1_000_000)
    min_documents: int = number(2, 1, 1_000_000)
    keep: float = number(1.0, 1e-6, 1)
    language: str = choice(ENGLISH, *OTHER_LANGUAGES, NONE)
    stop_words: str = choice(AUTO, ENGLISH, NONE)
    stems: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step > self.window:
            raise InputError(
                f"step={self.step} is larger than window={self.window}, so words between passages would be lost; "
                "lower it."
            )


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    """The function that gives the stem of a lower-case word; "none" leaves words as they are.

    Examples
    --------
    >>> from bagwise.app.media.text import _stemmer
    >>> [_stemmer("english")(word) for word in ("caresses", "ponies", "relational", "is")]
    ['caress', 'poni', 'relat', 'is']
    """
    if language == NONE:
        return str
    try:
        import snowballstemmer
    except ImportError as error:
        raise InputError(
            f"Stems of {language} need snowballstemmer; pip install 'bagwise[text]', or keep the words as they are "
            "(--media-set stems=false)."
        ) from error
    stem = snowballstemmer.stemmer(ALGORITHMS.get(language, language)).stemWord
    return lru_cache(maxsize=65_536)(lambda word: word if language == ENGLISH and len(word) < SHORTEST else stem(word))


def _terms_of(words: Sequence[str], settings: TextSettings) -> list[str]:
    """The term of each word: lower case, stemmed; "" for stop words."""
    stopped: frozenset[str] = frozenset()
    if settings.stop_words == ENGLISH or (settings.stop_words == AUTO and settings.language == ENGLISH):
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        stopped = ENGLISH_STOP_WORDS
    stem = _stemmer(settings.language if settings.stems else NONE)
    known: dict[str, str] = {}  # most words of a text come again
    terms = []
    for word in words:
        term = known.get(word)
        if term is None:
            lower = word.lower()
            plain = lower if lower.isalpha() else re.sub(_APOSTROPHES, "", lower)
            term = known[word] = "" if lower in stopped else stem(plain)
        terms.append(term)
    return terms


@dataclass(frozen=True)
class _Passages:
    """The passages of a text: (p,) starts and ends in characters, (p, v) CSR counts of its own terms, and these."""

    starts: np.ndarray
    ends: np.ndarray
    counts: Any
    terms: list[str]


def passages(text: str, settings: TextSettings) -> _Passages:
    """All passages of a text; the last reaches its end."""
    words = list(_WORD.finditer(text))
    own = _terms_of([match.group() for match in words], settings)
    terms = sorted(set(own) - {""})
    first = np.arange(0, max(len(words) - settings.window, 0) + settings.step, settings.step)
    first = first[first < len(words)]
    stop = np.minimum(first + settings.window, len(words))
    within = [np.arange(a, b) for a, b in zip(first, stop, strict=True)]
    words_of = _ones(np.concatenate(within or [first]), stop - first, len(words))
    counts = (words_of @ _chosen(own, terms)).astype(np.float32)
    counts.sort_indices()
    starts = np.array([words[i].start() for i in first], dtype=np.int64)
    ends = np.array([words[i - 1].end() for i in stop], dtype=np.int64)
    return _Passages(starts, ends, counts, terms)


def _ones(columns: np.ndarray, sizes: np.ndarray, n_columns: int) -> Any:
    """A CSR matrix of ones: in each row so many, in these columns."""
    offsets = offsets_of(sizes)
    return sp.csr_matrix((np.ones(len(columns)), columns, offsets), shape=(len(sizes), n_columns))


def _chosen(own: Sequence[str], terms: Sequence[str]) -> Any:
    """(n, v) CSR matrix with a one where a word or term of a document is one of the terms."""
    column = {term: j for j, term in enumerate(terms)}
    found = np.array([column.get(term, -1) for term in own], dtype=np.int64)
    return _ones(found[found >= 0], found >= 0, len(terms))


def _read_passages(path: str | Path, name: str, settings: TextSettings) -> FileBags:
    """The passages of one document, with counts of the document's own terms."""
    document = read_words(path)
    found = passages(document.text, settings)
    n, problems = len(found.starts), list[str]()
    if not n:
        problems = ["it holds no words."]
    elif not found.terms:
        n, problems = 0, ["all of its words are stop words; leave it out, or set stop_words=none."]
    return FileBags(
        bag_names=[name],
        sizes=[n],
        features=found.counts[:n],
        locations={"start": found.starts[:n], "end": found.ends[:n]},
        info={"characters": len(document.text), "read_as": document.read_as},
        problems=problems,
        feature_names=found.terms,
    )


def _describe_passages(path: str | Path, name: str, places: Sequence[Row], settings: TextSettings) -> FileBags:
    """Passages that a person marked: the words of which any letter lies in one."""
    text = read_words(path).text
    words = list(_WORD.finditer(text))
    own = _terms_of([match.group() for match in words], settings)
    terms = sorted(set(own) - {""})
    first, last, starts, ends = [], [], [], []
    for place in places:
        start, end = round(place["start"]), round(place["end"])
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"A passage from {start} to {end} lies outside of {name}, which has {len(text)} characters, or its end "
                "does not come after its start."
            )
        inside = [i for i, match in enumerate(words) if match.end() > start and match.start() < end]
        if not any(own[i] for i in inside):
            raise InputError(f"There is no word from {start} to {end} of {name} that counts; mark more of it.")
        first.append(inside[0])
        last.append(inside[-1] + 1)
        starts.append(start)
        ends.append(end)
    within = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    words_of = _ones(within, np.subtract(last, first), len(words))
    counts = (words_of @ _chosen(own, terms)).astype(np.float32)
    counts.sort_indices()
    return FileBags(
        bag_names=[name] * len(places),
        sizes=[1] * len(places),
        features=counts,
        locations={"start": np.array(starts, dtype=np.int64), "end": np.array(ends, dtype=np.int64)},
        info={},
        feature_names=terms,
    )


def _choose_terms(files: Sequence[FileBags], settings: TextSettings) -> list[str]:
    """The terms that are counted, in alphabetical order: those of `min_documents` documents, of them the share `keep`.

    More than a fit has memory for are not: those stay that occur in most documents, ties to the first letters.
    """
    documents: Counter[str] = Counter(term for file in files for term in file.feature_names or [])
    if not documents:
        raise InputError(
            "There are no terms in any document; check the files, or keep all words (--media-set stop_words=none)."
        )
    terms = [term for term, n in documents.items() if n >= settings.min_documents]
    size = min(math.ceil(settings.keep * len(terms)), memory_limit() // BYTES_OF_A_TERM)
    if not terms:
        raise InputError(
            f"None of the {len(documents)} terms occurs in {settings.min_documents} documents; count all of them "
            "(--media-set min_documents=1)."
        )
    if size < min(FEW_TERMS, len(documents)):
        warnings.warn(
            f"Of {len(documents)} terms only {size} are counted (min_documents={settings.min_documents}, "
            f"keep={settings.keep:g}), too few to distinguish passages; count more with min_documents=1 and keep=1.",
            UserWarning,
            stacklevel=2,
        )
    if size < len(terms):
        terms = sorted(terms, key=lambda term: (-documents[term], term))[:size]
    return sorted(terms)


def _count_matrix(files: Sequence[FileBags], terms: Sequence[str]) -> Any:
    """(m, v) CSR counts of the chosen terms in all passages."""
    matrix = sp.vstack([file.features @ _chosen(file.feature_names or [], terms) for file in files], format="csr")
    matrix.sort_indices()
    return matrix


def _notes(files: Sequence[Row]) -> list[str]:
    """Which documents are no plain UTF-8, and what they were read as."""
    kinds: dict[str, list[str]] = {}
    for file in files:
        kinds.setdefault(file.get("read_as", UTF8), []).append(file["file"])
    kinds.pop(UTF8, None)
    return [
        f"{len(names)} of {len(files)} texts read as {kind}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}."
        for kind, names in sorted(kinds.items())
    ]


def _draw_text(path: Path, name: str, rows: Sequence[Row], settings: TextSettings, start: float) -> Picture:
    """Pieces of a part of the text, each under the most probable of the passages that cover it."""
    text = document_text(path)
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


def _close_ups(path: Path, rows: Sequence[Row], settings: TextSettings) -> Iterator[CloseUp]:
    """The words of each passage, shortened."""
    text = document_text(path)
    for row in rows:
        passage = text[row["start"] : row["end"]].strip()
        yield CloseUp(text=passage if len(passage) <= LONGEST_PASSAGE else f"{passage[:LONGEST_PASSAGE]} …")


def _place_in_words(row: Row) -> str:
    return f"{row['start']} to {row['end']} characters"


def _picture_length(settings: TextSettings) -> float:
    return float(PICTURE_LENGTH)


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "text": text[row["start"] : row["end"]]}


TEXT = MediaType(
    name="text",
    title="Texts, annotated",
    instances="passages",
    settings=TextSettings,
    bags="texts",
    finer="label shorter texts, such as sections in files of their own",
    better="give more labelled texts or a network (--embed): docs/embeddings.md",
    extensions=EXTENSIONS,
    read=_read_passages,
    describe=_describe_passages,
    feature_names=_choose_terms,
    features=_count_matrix,
    places=PLACES,
    whole=True,
    place_in_words=_place_in_words,
    formats=("csv", "parquet", "spans", "label-studio"),
    label_studio=LabelStudio("text", "labels", "Text", "Labels", value=_mark_value, holds_text=True),
    drawings="Passages",
    draw=_draw_text,
    picture_length=_picture_length,
    close_ups=_close_ups,
    shown_as="text",
    notes=_notes,
    embed=TextInput,
)


def featurize_texts(paths: Sequence[str | Path], settings: TextSettings | None = None) -> BagDataset:
    """Passages of documents as counts of terms, sparse.

    Parameters
    ----------
    paths : list of paths
        Files of text, HTML, RST, PDF or docx, one per document.
    settings : TextSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in characters; `feature_names` are the terms.

    References
    ----------
    Zhang and Zhou, M3MIML, 2008, section 4.1.

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise.app.media import TextSettings, featurize_texts
    >>> path = os.path.join(tempfile.mkdtemp(), "a.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("wrens sing at dawn and robins sing at dusk")
    >>> passages = featurize_texts([path], TextSettings(window=5, step=4, min_documents=1))
    >>> passages.bags.sizes.tolist(), "robin" in passages.feature_names
    ([2], True)
    """
    return TEXT.featurize(paths, settings)
