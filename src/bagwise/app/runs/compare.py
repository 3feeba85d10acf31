"""Two runs compared: what is named otherwise, and how well they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.metrics import cohen_kappa_score

from bagwise.app.formats import Annotations, match_instances
from bagwise.app.runs.label_sets import BETWEEN
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
        pairs = self.pairs
        if len({label for pair in pairs for label in pair}) < 2:
            return None
        return float(cohen_kappa_score(*zip(*pairs, strict=True)))

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
        kinds = {(True, False): "only first", (False, True): "only second"}
        rows = [
            {
                **{key: "" if value is None else value for key, value in row.items()},
                "kind": kinds.get((row["first_label"] is not None, row["second_label"] is not None))
                or ("same" if row["first_label"] == row["second_label"] else "changed"),
            }
            for row in self.rows
        ]
        write_csv(rows, path, [*(self.rows[0] if self.rows else ()), "kind"])


def compare_annotations(first: Annotations, second: Annotations) -> _Comparison:
    """What two annotations of the same media say; instances are found by file and overlap, of tables by their bag.

    A label counts only where the instance is not taken for background (each run by its own bound).
    """
    if first.media_type.name != second.media_type.name:
        raise InputError(
            f"The runs are of two media types, {first.media_type.name} and {second.media_type.name}; compare two of "
            "one type."
        )
    group = "file" if first.media_type.places else "bag"
    places = list(first.media_type.places) if group == "file" else ["instance"]
    first, second = map(_one_row_each, (first, second))
    own, other = _by(first, group), _by(second, group)
    common = sorted(own.keys() & other.keys())
    if not common:
        raise InputError(
            f"The runs have no {group} in common ({_some(own)} in the first, {_some(other)} in the second); compare "
            "runs over the same material."
        )
    rows: list[dict[str, Any]] = []
    for name in common:
        one, two = own[name], other[name]
        if group == "file":
            pairs = match_instances(one, two, places)
        else:
            where = {row["instance"]: j for j, row in enumerate(two)}
            pairs = [(i, where[row["instance"]]) for i, row in enumerate(one) if row["instance"] in where]
        both: list[tuple[Any, Any]] = [(one[i], two[j]) for i, j in pairs]
        both += [(one[i], None) for i in {*range(len(one))} - {i for i, _ in pairs}]
        both += [(None, two[j]) for j in {*range(len(two))} - {j for _, j in pairs}]
        found = []
        for a, b in both:
            place: dict[str, Any] = a or b or {}
            row = {key: place[key] for key in (group, *places)}
            for which, whose, said in ((FIRST, first, a), (SECOND, second, b)):
                label = None if said is None else str(said["label"]) if whose.is_shown(said) else ""
                row |= {f"{which}_label": label, f"{which}_probability": said and said["probability"]}
            found.append(row)
        rows += sorted(found, key=lambda row: [row[key] for key in ("start", "left", "instance") if key in row])
    labels = sorted({*map(str, first.classes), *map(str, second.classes)})
    return _Comparison(rows, labels, sorted(own.keys() - other.keys()), sorted(other.keys() - own.keys()))


def _one_row_each(annotations: Annotations) -> Annotations:
    """With the labels of an instance that carries several as one text."""
    rows = []
    for own in annotations.by_instance() if annotations.label_sets else ():
        shown = [row for row in own if annotations.is_shown(row)] or own[:1]
        rows.append({**shown[0], "label": BETWEEN.join(sorted(row["label"] for row in shown))})
    if not rows:
        return annotations
    return replace(
        annotations, rows=rows, classes=sorted({*annotations.classes, *(row["label"] for row in rows)} - {""})
    )


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
