"""How often labels are right: random samples kept in the run, agreement with the model, Wilson intervals.

Only the answers to a random sample give an unbiased share: in an order chosen to help, the hard instances come first.
"""

from __future__ import annotations

import json
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.review._errors import MissingError, RequestError
from bagwise.app.review._snapshot import Snapshot
from bagwise.app.runs.corrections import ALSO, CONFIRMED, LABEL, NOISE
from bagwise.app.runs.folder import STATE
from bagwise.app.runs.label_sets import BETWEEN
from bagwise.app.runs.layout import EDITS
from bagwise.core.fitted import Either, ListOf, Number, Record, Text, TupleOf
from bagwise.io.files import atomic_write
from bagwise.metrics import wilson_interval

WINDOW = 50  # answers over which the agreement is averaged
MOST_POINTS = 200  # of its curve


def share_row(confirmed: int, answered: int) -> dict[str, Any]:
    """Counts, share and interval; the share is None where nobody answered."""
    share = confirmed / answered if answered else None
    low, high = wilson_interval(share or 0.0, answered)
    return {"confirmed": confirmed, "answered": answered, "share": share, "low": float(low), "high": float(high)}


def first_answers(corrections: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first answer on each instance, with all labels that it "said"; later ones correct the person.

    The label that comes with a box that was drawn or changed in the same call answers nothing that the model said.
    """
    first: dict[tuple[str, int], dict[str, Any]] = {}
    edited: dict[tuple[str, int], int] = {}  # the call that drew or changed an instance last
    for correction in corrections:
        key = correction["bag"], correction["instance"]
        if correction["action"] in EDITS:
            edited[key] = correction["call"]
        elif correction["action"] in (CONFIRMED, LABEL, NOISE) and key not in first:
            is_drawn = key in edited and edited[key] == correction["call"]
            first[key] = {**correction, "said": {correction["label"]}, "drawn": is_drawn}
        elif correction["action"] == ALSO and key in first and first[key]["call"] == correction["call"]:
            first[key]["said"].add(correction["label"])
    return [answer for answer in first.values() if not answer["drawn"]]


def agreement_curve(answers: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Number of answers, and the share of the last 50 of them that agreed with the model."""
    agreed = [answer["action"] == CONFIRMED for answer in answers]
    sums = [0, *accumulate(agreed)]
    step = max(1, math.ceil(len(agreed) / MOST_POINTS))
    ends = sorted({*range(step, len(agreed) + 1, step), *([len(agreed)] if agreed else [])})
    return [(end, (sums[end] - sums[max(0, end - WINDOW)]) / min(end, WINDOW)) for end in ends]


def label_shares(answers: Iterable[Mapping[str, Any]], labels: Iterable[str]) -> list[dict[str, Any]]:
    """For each label how many of the answers to instances that were given it confirmed it."""
    names = list(dict.fromkeys(labels))
    counts = Counter(
        (label, label in answer["said"])
        for answer in answers
        for label in ([answer["before"]] if answer["before"] in names else answer["before"].split(BETWEEN))
    )
    return [
        {"label": label, **share_row(counts[label, True], counts[label, True] + counts[label, False])}
        for label in names
    ]


FILE = "samples.json"
MOST = 10_000  # instances of a sample
MOST_SAMPLES = 1000


@dataclass(frozen=True)
class Sample:
    """One sample.

    Attributes
    ----------
    id : str
    label : str or None
        The label that its instances were given; None for a sample over all labels.
    seed, version : int
    time : str
    instances : list of (bag, instance, label)
        With the label that they were given when the sample was drawn.
    """

    id: str
    label: str | None
    seed: int
    version: int
    time: str
    instances: list[tuple[str, int, str]]


_COUNT = Number(0, 2**53, whole=True)
_SAMPLE = {"id": Text(), "label": Either(None, Text()), "seed": _COUNT, "version": _COUNT, "time": Text()}
_INSTANCES = ListOf(TupleOf(Text(), _COUNT, Text()))
_DOCUMENT = Record({"samples": ListOf(Record(_SAMPLE | {"instances": _INSTANCES}), empty=True)})


def read_samples(path: Path) -> list[Sample]:
    """The samples of a run; none where the file is missing or damaged."""
    try:
        document = json.loads((path / STATE / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    if _DOCUMENT.problem(document, {}):
        return []
    return [Sample(**{**row, "instances": [*map(tuple, row["instances"])]}) for row in document["samples"]]


def write_samples(path: Path, samples: list[Sample]) -> None:
    with atomic_write(path / STATE / FILE, "w") as file:
        file.write(json.dumps({"samples": [asdict(sample) for sample in samples]}, ensure_ascii=False) + "\n")


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Refuse what is no whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(f'"{name}" is {str(value)[:40]}; expected a whole number from {least} to {most}.')


def draw_sample(now: Snapshot, label: Any, n: Any, seed: Any, number: int) -> Sample:
    """A sample of the instances with a label that are not background, each as likely as any other."""
    if label is not None and (not isinstance(label, str) or label not in now.labels):
        raise RequestError(f"The run has no label {str(label)[:80]!r}; name one of its labels, or null for all.")
    check_whole("n", n, 1, MOST)
    seed = secrets.randbits(32) if seed is None else seed
    check_whole("seed", seed, 0, 2**53)
    shown = ~now.background if label is None else now.carries(label) & ~now.background
    drawn = np.random.default_rng(seed).permutation(np.flatnonzero(shown))[:n]
    if not len(drawn):
        raise MissingError("There is no instance to draw: none was given that label.")
    given = now.rows(drawn, "bag", "instance", "label")
    instances = [(row["bag"], row["instance"], row["label"] if label is None else label) for row in given]
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return Sample(f"s{number}", label, seed, now.version, time, instances)


def sample_rows(sample: Sample, now: Snapshot) -> np.ndarray:
    """Rows of the instances of a sample, in the order in which they were drawn."""
    return np.array([now.places.row(bag, i) for bag, i, _ in _left(sample, now)], dtype=np.int64)


def _left(sample: Sample, now: Snapshot) -> list[tuple[str, int, str]]:
    """Those of its instances that nobody removed."""
    return [one for one in sample.instances if now.places.has(*one[:2])]


def sample_share(sample: Sample, now: Snapshot) -> dict[str, Any]:
    """How many were answered, and how many of these bear the label that they had when the sample was drawn."""
    rows = sample_rows(sample, now)
    given = [label for *_, label in _left(sample, now)]
    answered = now.found.checked[rows]
    confirmed = answered & np.array(
        [label in now.found.labels_of(row) for row, label in zip(rows.tolist(), given, strict=True)], dtype=bool
    )
    facts = {key: getattr(sample, key) for key in ("id", "label", "version", "time")}
    return {**facts, "n": len(rows), **share_row(int(confirmed.sum()), int(answered.sum()))}
