"""Texts: a bag is a document, an instance is a passage of it."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.bags import BagDataset
from bagwise.exceptions import InputError
from bagwise.featurize._result import FileBags, Settings, assemble, featurize_each
from bagwise.featurize.stemming import stem
from bagwise.io.text import read_text

EXTENSIONS = (".txt", ".md")
FEW_TERMS = 10
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
        locations=[{"file": name, "start": start, "end": end} for start, end, _ in found],
        info={"characters": len(text)},
        problems=problems,
        terms=terms,
    )


def choose_terms(files: Sequence[FileBags], keep: float) -> list[str]:
    """The share of the terms that occur in most documents, in alphabetical order; ties go to the first letters."""
    documents: Counter[str] = Counter(term for file in files for term in file.terms or [])
    if not documents:
        raise InputError("There are no terms in any document; check the files, or pass stop_words='none'.")
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
        pairs = [(j, column[term]) for j, term in enumerate(file.terms or []) if term in column]
        chooser = sp.csr_matrix(
            (np.ones(len(pairs)), ([j for j, _ in pairs], [k for _, k in pairs])),
            shape=(file.features.shape[1], len(terms)),
        )
        parts.append(file.features @ chooser)
    return sp.vstack(parts, format="csr")


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
    settings = settings or TextSettings()
    files = featurize_each(paths, lambda path, name: read_document(path, name, settings))
    terms = choose_terms(files, settings.keep)
    return assemble(files, count_matrix(files, terms), terms, "texts")
