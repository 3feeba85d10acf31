"""Random samples of what was annotated, kept in the run: their answers alone tell how often labels are right.

Answers in an order that was chosen to help say nothing of that, since the hard ones come first.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.io.files import atomic_write
from bagwise.review.errors import MissingError, RequestError
from bagwise.review.snapshot import Snapshot
from bagwise.review.statistics import share_row
from bagwise.workflow.manifest import STATE

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


def read_samples(path: Path) -> list[Sample]:
    """The samples of a run; none where the file is missing or damaged."""
    try:
        rows = json.loads((path / STATE / FILE).read_text(encoding="utf-8"))["samples"]
        return [
            Sample(**{**row, "instances": [(str(bag), int(i), str(label)) for bag, i, label in row["instances"]]})
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def write_samples(path: Path, samples: list[Sample]) -> None:
    with atomic_write(path / STATE / FILE, "w") as file:
        file.write(json.dumps({"samples": [asdict(sample) for sample in samples]}, ensure_ascii=False) + "\n")


def draw_sample(now: Snapshot, label: Any, n: Any, seed: Any, max_noise: float, number: int) -> Sample:
    """Instances that stand in every format (they have a label and are not noise), each as likely as any other."""
    if label is not None and (not isinstance(label, str) or label not in now.labels):
        raise RequestError(f"The run has no label {str(label)[:80]!r}; name one of its labels, or null for all.")
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST:
        raise RequestError(f'"n" is {str(n)[:40]}; expected a whole number from 1 to {MOST}.')
    seed = secrets.randbits(32) if seed is None else seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**53:
        raise RequestError(f'"seed" is {str(seed)[:40]}; expected a whole number.')
    shown = now.codes >= 0 if label is None else now.codes == now.labels.index(label)
    if now.found.noise is not None:
        shown &= now.found.noise <= max_noise
    rows = np.flatnonzero(shown)
    if not len(rows):
        raise MissingError("There is no instance to draw: none was given that label.")
    drawn = np.random.default_rng(seed).permutation(rows)[:n]
    marks = [now.mark(i) for i in drawn.tolist()]
    return Sample(
        f"s{number}", label, seed, now.version, datetime.now(UTC).isoformat(timespec="seconds"),
        [(mark["bag"], mark["instance"], str(mark["label"])) for mark in marks],
    )  # fmt: skip


def sample_rows(sample: Sample, now: Snapshot) -> np.ndarray:
    """Rows of the instances of a sample, in the order in which they were drawn."""
    return np.array([now.places.row(bag, i) for bag, i, _ in sample.instances], dtype=np.int64)


def sample_share(sample: Sample, now: Snapshot) -> dict[str, Any]:
    """How many were answered, and how many of these bear the label that they had when the sample was drawn."""
    rows = sample_rows(sample, now)
    given = np.array([label for *_, label in sample.instances], dtype=object)
    answered = now.found.checked[rows]
    confirmed = answered & (now.names[rows] == given)
    return {
        "id": sample.id, "label": sample.label, "n": len(rows), "version": sample.version, "time": sample.time,
        **share_row(int(confirmed.sum()), int(answered.sum())),
    }  # fmt: skip
