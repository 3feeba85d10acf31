"""One run under review: what the page asks and says, in plain Python, safe to be called from many threads."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import InputError
from bagwise.io.files import atomic_write
from bagwise.report.summary import class_colours
from bagwise.review.errors import MissingError, RequestError
from bagwise.review.media import MediaStore
from bagwise.review.show import show_instance
from bagwise.review.snapshot import Choice, Places, Snapshot, label_names
from bagwise.workflow import Run
from bagwise.workflow.corrections import ABSENT, CONFIRMED, PRESENT
from bagwise.workflow.manifest import STATE
from bagwise.workflow.version import read_version

REVIEWER = "reviewer.json"
MOST_ROWS = 10_000  # of one answer
LONGEST_NAME = 200  # of a reviewer


class Review:
    """A run, how often it changed, and what was worked out from it.

    One lock keeps what changes the run in order. What is only read comes from a `Snapshot`, which stays as it is while
    others correct.

    Parameters
    ----------
    run : Run
        Open, and from now on used by nobody else.
    """

    def __init__(self, run: Run):
        self.run = run
        self._lock = threading.RLock()
        self._ranking_lock = threading.Lock()
        self._ranking: tuple[int, np.ndarray] | None = None
        self.revision = 1
        self._snapshot: Snapshot | None = None
        self._summary: tuple[int, dict[str, Any]] | None = None
        self._before: tuple[int, np.ndarray | None, np.ndarray | None] | None = None
        self.places = Places(run.material.dataset, run.medium, [file["file"] for file in run.material.files])
        self.media = MediaStore(run)
        self.by = _read_reviewer(run.path)

    # -- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The annotations as they are now."""
        with self._lock:
            if self._snapshot is None or self._snapshot.revision != self.revision:
                run, (before, after) = self.run, self._last_refit()
                self._snapshot = Snapshot(
                    self.revision, run.version, self.places, run.found(), run.labels, run.told().dataset.label_sets,
                    before, after, self._rank, len(run.corrections()),
                )  # fmt: skip
            return self._snapshot

    def summary(self) -> dict[str, Any]:
        """What the run is, with its labels and counts."""
        now = self.snapshot()
        with self._lock:
            if self._summary is None or self._summary[0] != now.revision:
                self._summary = now.revision, self._summarize(now)
            return self._summary[1] | {"by": self.by, "refit": self.refit_state()}

    def refit_state(self) -> dict[str, Any]:
        """How far the learning is."""
        return {"state": "idle", "fraction": 0.0, "changed": 0, "version": self.run.version, "error": None}

    def _summarize(self, now: Snapshot) -> dict[str, Any]:
        medium, run = self.run.medium, self.run
        n_labels, colours = len(now.labels), class_colours(now.labels)
        given = np.bincount(now.codes[now.codes >= 0], minlength=n_labels).tolist()
        looked = np.bincount(now.codes[(now.codes >= 0) & now.found.checked], minlength=n_labels).tolist()
        return {
            "name": run.path.resolve().name,
            "medium": medium.name,
            "title": medium.title,
            "instances": medium.instances,
            "labels": [
                {"name": name, "colour": colours[name], "instances": given[i], "checked": looked[i]}
                for i, name in enumerate(now.labels)
            ],
            "counts": {
                "instances": len(now.codes),
                "checked": int(now.found.checked.sum()),
                "bags": len(self.places.bag_names),
                "files": len(self.places.files),
            },
            "corrections": now.n_corrections,
            "version": now.version,
            "revision": now.revision,
            "has_media": run.media.exists(),
            "kinds": {"play": medium.name == "audio", "picture": medium.name in ("audio", "image", "series")},
            "problems": [message if name in message else f"{name}: {message}" for name, message in run.problems],
        }

    def instances(self, choice: Choice, limit: int = 100, offset: int = 0) -> dict[str, Any]:
        """A page of the instances that fit."""
        now = self.snapshot()
        chosen = now.choose(choice)
        rows = now.rows(chosen[offset : offset + min(limit, MOST_ROWS)])
        return {"total": len(chosen), "revision": now.revision, "instances": rows}

    def show(self, bag: str, instance: int, start: float | None = None, end: float | None = None) -> dict[str, Any]:
        """What to show around an instance."""
        now = self.snapshot()
        return show_instance(now, self.media, self.places.row(bag, instance), start, end)

    def _last_refit(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Labels before and after the last refit; read once a version."""
        run = self.run
        if self._before is None or self._before[0] != run.version:
            versions = run.manifest["versions"]
            before = after = None
            if len(versions) > 1:
                n = len(self.places.bag_of)
                before, after = (
                    label_names(read_version(run.path, version["number"], n).found) for version in versions[-2:]
                )
            self._before = run.version, before, after
        return self._before[1], self._before[2]

    def _rank(self) -> np.ndarray:
        """Rows by how much an answer helps, worked out once a model: an order that moves while one works does not."""
        with self._ranking_lock:
            now = self.snapshot()
            if self._ranking is None or self._ranking[0] != now.version:
                self._ranking = now.version, now.order("least-sure")
            return self._ranking[1]

    # -- saying -------------------------------------------------------------------------------------------------------

    def correct(self, corrections: Sequence[Mapping[str, Any]], by: str | None = None) -> dict[str, Any]:
        """Put corrections on disk; in force when this returns."""
        given, absent = _split(corrections)
        name = self.by if by is None else _check_name(by)
        with self._lock:
            self.run.correct(given, absent=absent, by=name)
            self._changed()
            kept = self.run.corrections()
            last = kept[-len(given) - len(absent) :]
            agreed = sum(correction["action"] == CONFIRMED for correction in last)
            return {"revision": self.revision, "corrections": len(kept), "agreed": agreed}

    def undo(self) -> dict[str, Any]:
        """Take back what was said last."""
        with self._lock:
            taken = self.run.undo(write=False)
            self._changed()
            return {"taken": taken, "revision": self.revision}

    def name_reviewer(self, by: str) -> dict[str, Any]:
        """Keep the name of who says so."""
        name = _check_name(by)
        with self._lock:
            with atomic_write(self.run.path / STATE / REVIEWER, "w") as file:
                file.write(json.dumps({"by": name}, ensure_ascii=False) + "\n")
            self.by = name
        return {"by": name}

    def _changed(self) -> None:
        self.revision += 1
        self._snapshot = None

    # -- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let others have the run."""
        with self._lock:
            self.run.close()


def _split(corrections: Any) -> tuple[list[tuple[str, int | None, str]], list[tuple[str, str]]]:
    """What instances and bags are, and labels that bags do not carry."""
    if not isinstance(corrections, list) or not corrections:
        raise RequestError('"corrections" must be a list with at least one of {"bag", "instance", "label"}.')
    given: list[tuple[str, int | None, str]] = []
    absent: list[tuple[str, str]] = []
    for correction in corrections:
        if not isinstance(correction, Mapping):
            raise RequestError(f'A correction is {{"bag", "instance", "label"}}, not {str(correction)[:80]!r}.')
        missing = [key for key in ("bag", "label") if not isinstance(correction.get(key), str)]
        if missing:
            raise RequestError(f"The {missing[0]} of a correction must be text; got {str(correction)[:80]}.")
        action, instance = correction.get("action"), correction.get("instance")
        if action not in (None, PRESENT, ABSENT) or (action is not None and instance is not None):
            raise RequestError(
                f'"action" is "present" or "absent" and speaks of a whole bag; got {str(action)[:40]!r}.'
            )
        if action == ABSENT:
            absent.append((correction["bag"], correction["label"]))
        else:
            given.append((correction["bag"], instance, correction["label"]))
    return given, absent


def _check_name(by: Any) -> str:
    if not isinstance(by, str) or len(by) > LONGEST_NAME or not by.isprintable():
        raise RequestError(f'"by" must be a name of at most {LONGEST_NAME} characters that can be shown.')
    return by.strip()


def _read_reviewer(path: Path) -> str:
    try:
        return _check_name(json.loads((path / STATE / REVIEWER).read_text(encoding="utf-8"))["by"])
    except (OSError, ValueError, KeyError, TypeError, InputError):  # nobody was asked, or the file was damaged
        return ""


__all__ = ["MissingError", "Review"]
