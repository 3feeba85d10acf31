"""What a network itself says of the labels of a run: its list of classes, and their scores as log-odds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from bagwise.app.media._network_input import NetworkInput
from bagwise.app.networks import Network, named
from bagwise.core.exceptions import InputError

NONE = "none"  # in place of a list: scores are not used
LIST = re.compile(r"label|class|species", re.IGNORECASE)  # in the name of a file that is a list
PARTS = re.compile(r"[_,;\t\n]")  # between scientific name, English name and code
LARGEST_LIST = 10_000_000  # bytes


def match_labels(labels: Iterable[str], classes: Sequence[str]) -> dict[str, int]:
    """The class of a network's list that each label names, of those that name one.

    A class is called what its line says, or a part of it: ``Turdus merula_Eurasian Blackbird`` is both names, and a
    table has columns; of several lists, each has a line for it. Case, accents, blanks and punctuation do not matter.
    What two classes are called names neither.
    """
    found: dict[str, set[int]] = {}
    for i, lines in enumerate(classes):
        for name in [*lines.split("\n"), *PARTS.split(lines)]:
            found.setdefault(_plain(name), set()).add(i)
    fitting = {label: found.get(_plain(label), set()) for label in labels if _plain(label)}
    return {label: next(iter(own)) for label, own in fitting.items() if len(own) == 1}


def _plain(name: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", name).casefold() if letter.isalnum())


def find_classes(inputs: NetworkInput, network: Network) -> tuple[str, list[str]]:
    """The output that scores classes, and what each is called in all lists that fit; "" and none where there are none.

    Lists are looked for in the folder of the network and one below it; those of other languages name the same classes.
    """
    folder, given = network.path.parent, inputs.classes
    if given == NONE:
        return "", []
    files = [folder / given] if given else [path for path in _texts(folder) if LIST.search(path.name)]
    lists = [_lines(path) for path in files]
    for port in network.outputs:
        n = port.shape[-1] if 0 < len(port.shape) <= 2 else None
        fitting = [lines[-n:] for lines in lists if n and len(lines) in (n, n + 1)]  # a table may have a heading
        if fitting and inputs.scores in ("", port.name):
            return port.name, ["\n".join(names) for names in zip(*fitting, strict=True)]
    if given or inputs.scores:
        sizes = ", ".join(str(len(lines)) for lines in lists) or "no"
        raise InputError(
            f"{network.path}: the list of its classes ({given or 'in its folder'}) has {sizes} lines, and no output "
            f"{inputs.scores!r} a score for each; its outputs are {named(network.outputs)}. Change 'classes' or "
            "'scores'."
        )
    return "", []


def _texts(folder: Path) -> list[Path]:
    found = [path for pattern in ("*", "*/*") for path in folder.glob(pattern)]
    return sorted(path for path in found if path.suffix.lower() in (".txt", ".csv"))


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give the list of the network's classes ('classes').")
    if path.stat().st_size > LARGEST_LIST:
        return []
    return path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()
