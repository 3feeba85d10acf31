"""Two runs compared: what is named otherwise, and how well they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bagwise.app.formats import Annotations, match_instances
from bagwise.core.exceptions import InputError
from bagwise.io.tables import write_csv

FIRST, SECOND = "first", "second"


@dataclass(frozen=True)
class _Comparison:
    """What two runs say of the same instances.

    Attributes
    ----------
    rows : list of dict
        For each instance of either run file (or bag and instance, where there are no files), its place, and label and
        probability in each of them: ``first_label``, ``first_probability``, ``second_label``, ``second_probability``. A
        label is "" for noise and None where that run has no such instance.
    labels : list of str
        All labels of both, sorted.
    only_first, only_second : list of str
        Files, or bags of a table, that only one of them has; their instances are not compared.
    """

    rows: list[dict[str, Any]]
    labels: list[str]
    only_first: list[str]
    only_second: list[str]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The labels of the instances that both runs have."""
        both = ((row["first_label"], row["second_label"]) for row in self.rows)
        return [(a, b) for a, b in both if a is not None and b is not None]

    @property
    def agreement(self) -> float | None:
        """Share of the instances that both have to which they give the same label; None where there are none."""
        pairs = self.pairs
        return sum(a == b for a, b in pairs) / len(pairs) if pairs else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of the same: 1 where they agree, 0 where as often as by chance; None where chance is all."""
        return cohen_kappa(self.pairs)

    def by_label(self) -> list[dict[str, Any]]:
        """For each label, and "" for noise: instances in each run, those that both give it, their share of both."""
        pairs = self.pairs
        first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
        both = Counter(a for a, b in pairs if a == b)
        return [
            {
                "label": label,
                FIRST: first[label],
                SECOND: second[label],
                "both": both[label],
                "agreement": both[label] / either if (either := first[label] + second[label] - both[label]) else None,
            }
            for label in (*self.labels, "")
        ]

    def changes(self) -> list[tuple[str, str, int]]:
        """Label in the first, label in the second, how many; the most frequent first."""
        counts = Counter((a, b) for a, b in self.pairs if a != b)
        return sorted(((a, b, n) for (a, b), n in counts.items()), key=lambda change: (-change[2], change[:2]))

    def write(self, path: Path) -> None:
        """The rows as CSV; ``kind`` says "same", "changed", "only first" or "only second"."""
        headings = [*(self.rows[0] if self.rows else ()), "kind"]
        write_csv([{**_blank(row), "kind": _kind(row)} for row in self.rows], path, headings)


def _blank(row: dict[str, Any]) -> dict[str, Any]:
    return {key: "" if value is None else value for key, value in row.items()}


def _kind(row: dict[str, Any]) -> str:
    if row["second_label"] is None:
        return "only first"
    if row["first_label"] is None:
        return "only second"
    return "same" if row["first_label"] == row["second_label"] else "changed"


def cohen_kappa(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Agreement beyond chance of pairs of labels; None without pairs and where both name one label only."""
    pairs = list(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    n = len(pairs)
    chance = sum(first[label] * second[label] for label in first)
    if not n or chance == n * n:
        return None
    return (n * sum(a == b for a, b in pairs) - chance) / (n * n - chance)


def compare_annotations(first: Annotations, second: Annotations) -> _Comparison:
    """What two annotations of the same media say; instances are found by file and overlap, of tables by their bag.

    A label counts only where the instance is not taken for noise (each run by its own bound).
    """
    if first.media_type.name != second.media_type.name:
        raise InputError(
            f"The runs are of two media types, {first.media_type.name} and {second.media_type.name}; compare two of "
            "one type."
        )
    group = "file" if first.media_type.places else "bag"
    key = ("start", "left", "instance")
    places = list(first.media_type.places) if group == "file" else ["instance"]
    own, other = _by(first, group), _by(second, group)
    if not own.keys() & other.keys():
        raise InputError(
            f"The runs have no {group} in common ({_some(own)} in the first, {_some(other)} in the second); compare "
            "runs over the same material."
        )
    rows: list[dict[str, Any]] = []
    for name in sorted(own.keys() & other.keys()):
        if group == "file":
            pairs = match_instances(own[name], other[name], places)
        else:
            where = {row["instance"]: j for j, row in enumerate(other[name])}
            pairs = [(i, where[row["instance"]]) for i, row in enumerate(own[name]) if row["instance"] in where]
        found = [_row(first, second, group, places, own[name][i], other[name][j]) for i, j in pairs]
        alone = {*range(len(own[name]))} - {i for i, _ in pairs}
        found += [_row(first, second, group, places, own[name][i], None) for i in alone]
        alone = {*range(len(other[name]))} - {j for _, j in pairs}
        found += [_row(first, second, group, places, None, other[name][j]) for j in alone]
        rows += sorted(found, key=lambda row: [row[k] for k in key if k in row])
    labels = sorted({*map(str, first.classes), *map(str, second.classes)})
    return _Comparison(rows, labels, sorted(own.keys() - other.keys()), sorted(other.keys() - own.keys()))


def _some(names: Iterable[str]) -> str:
    """The first names, shortened."""
    names = sorted(names)
    return ", ".join(map(repr, names[:2])) + (", ..." if len(names) > 2 else "") if names else "none"


def _by(annotations: Annotations, group: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if group == "file":
        found |= {str(file["file"]): [] for file in annotations.files}
    for row in annotations.rows:
        found[str(row[group])].append(row)
    return found


def _row(
    first: Annotations,
    second: Annotations,
    group: str,
    places: Sequence[str],
    a: dict[str, Any] | None,
    b: dict[str, Any] | None,
) -> dict[str, Any]:
    place = a or b or {}
    row = {group: place[group], **{key: place[key] for key in places}}
    for name, whose, said in ((FIRST, first, a), (SECOND, second, b)):
        label = None if said is None else str(said["label"]) if whose.is_shown(said) else ""
        row |= {f"{name}_label": label, f"{name}_probability": None if said is None else said["probability"]}
    return row
