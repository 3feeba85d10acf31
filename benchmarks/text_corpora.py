"""Documents whose passages are known: blocks of several topics, cut from texts that every installation carries.

A topic is a source of words: the docstrings of a package, a chapter of Python's manual, a licence. A document is a few
blocks of different topics one after the other, so that its labels are its topics and each of its words has one. No
block is used twice.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BLOCK = (40, 160)  # words of a block, least and most
TOPICS_OF_A_DOCUMENT = (2, 4)
MOST_WORDS = 12_000  # of a topic that are used
PACKAGES = ("numpy", "scipy", "sklearn", "matplotlib", "jinja2", "click", "PIL", "joblib", "numba", "narwhals")
LIBRARY = (
    "asyncio",
    "email",
    "unittest",
    "tkinter",
    "xml",
    "multiprocessing",
    "importlib",
    "http",
    "logging",
    "idlelib",
)
CHAPTERS = (
    "compound", "formatstrings", "string-methods", "typesseq", "debugger", "typesmapping", "customization",
    "attribute-access", "assignment", "comparisons", "execmodel", "import",
)  # fmt: skip
LICENCES = ("Apache-2.0", "Artistic", "CC0-1.0", "GFDL-1.3", "GPL-2", "GPL-3", "LGPL-2.1", "MPL-2.0")
LICENCE_FOLDER = Path("/usr/share/common-licenses")  # of every Debian


@dataclass(frozen=True)
class Document:
    """A text, its labels, and for each block where it ends, in characters, and its topic."""

    text: str
    ends: list[int]
    topics: list[str]

    def topic_of(self, start: int, end: int) -> str:
        """The topic of most characters of a passage."""
        first = [0, *self.ends[:-1]]
        shared = [min(end, last) - max(start, begin) for begin, last in zip(first, self.ends, strict=True)]
        return self.topics[int(np.argmax(shared))]


def make_documents(
    topics: Mapping[str, list[str]], block: tuple[int, int] = BLOCK, most: int | None = None, seed: int = 0
) -> list[Document]:
    """Documents of words by topic, until fewer topics than a document needs have words left, or there are enough."""
    rng = np.random.default_rng(seed)
    used = dict.fromkeys(topics, 0)
    documents = []
    while True:
        left = [name for name, words in topics.items() if len(words) - used[name] >= block[1]]
        n = int(rng.integers(*TOPICS_OF_A_DOCUMENT, endpoint=True))
        if len(left) < max(TOPICS_OF_A_DOCUMENT) or len(documents) == most:
            return documents
        text, ends = "", list[int]()
        chosen = [left[i] for i in rng.choice(len(left), n, replace=False)]
        for name in chosen:
            size = int(rng.integers(*block, endpoint=True))
            text += " ".join(topics[name][used[name] : used[name] + size]) + "\n"
            used[name] += size
            ends.append(len(text))
        documents.append(Document(text, ends, chosen))


def package_words() -> dict[str, list[str]]:
    """Docstrings of packages that the project needs."""
    return _docstrings(PACKAGES)


def library_words() -> dict[str, list[str]]:
    """Docstrings of packages of Python's own library."""
    return _docstrings(LIBRARY)


def manual_words() -> dict[str, list[str]]:
    """Chapters of Python's manual, as `help` shows them."""
    from pydoc_data.topics import topics

    return {name: topics[name].split()[:MOST_WORDS] for name in CHAPTERS if name in topics}


def licence_words() -> dict[str, list[str]]:
    """Licences that Debian keeps."""
    found = {name: LICENCE_FOLDER / name for name in LICENCES}
    return {name: path.read_text(encoding="utf-8").split() for name, path in found.items() if path.is_file()}


def made_words(
    n_words: int = MOST_WORDS, n_topics: int = 10, vocabulary: int = 3000, seed: int = 0
) -> dict[str, list[str]]:
    """Words drawn from a common vocabulary and from that of each topic, in equal parts, both by Zipf's law."""
    rng = np.random.default_rng(seed)
    spelled = _made_vocabulary(vocabulary, rng)
    common = 1.0 / np.arange(1, vocabulary + 1)
    found = {}
    for i in range(n_topics):
        own = common[rng.permutation(vocabulary)]
        found[f"topic {i}"] = [
            spelled[j] for j in rng.choice(vocabulary, n_words, p=(common + own) / (2 * common.sum()))
        ]
    return found


CORPORA: dict[str, Callable[[], dict[str, list[str]]]] = {
    "packages": package_words,
    "library": library_words,
    "manual": manual_words,
    "licences": licence_words,
    "made": made_words,
}


def _made_vocabulary(n: int, rng: np.random.Generator) -> list[str]:
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < n:
        words["".join(rng.choice(syllables, rng.integers(2, 5)))] = None
    return list(words)


def _docstrings(names: tuple[str, ...]) -> dict[str, list[str]]:
    found = {name: _words_of_package(name) for name in names}
    return {name: words for name, words in found.items() if len(words) >= BLOCK[1]}


def _words_of_package(name: str) -> list[str]:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return []
    words: list[str] = []
    for path in sorted(Path(spec.submodule_search_locations[0]).rglob("*.py")):
        if re.search(r"tests?|vendor|extern|compat|lib2to3", path.as_posix().split(name, 1)[1]):
            continue
        for text in _docstrings_of(path):
            words += text.split()
        if len(words) >= MOST_WORDS:
            break
    return words[:MOST_WORDS]


def _docstrings_of(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text


def write_corpus(documents: list[Document], folder: Path) -> Path:
    """The documents as text files, and a table of their labels beside the folder; gives the table."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["file,labels"]
    for i, document in enumerate(documents):
        name = f"{i:05d}.txt"
        (folder / name).write_text(document.text, encoding="utf-8")
        lines.append(f"{name},{';'.join(sorted(document.topics))}")
    table = folder.with_suffix(".csv")
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table
