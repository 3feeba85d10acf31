"""What is worked out once per model, in the background: the order of active learning, label issues, novel groups."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bagwise.app.review._snapshot import Snapshot
from bagwise.app.runs.corrections import ABSENT, PRESENT
from bagwise.app.runs.discover import novel_groups
from bagwise.app.runs.layout import RunLayout
from bagwise.app.runs.predictions import (
    DIGITS,
    DISPUTED,
    SPURIOUS,
    acquisition_order,
    has_rates,
    label_issues,
    predict_probabilities,
)
from bagwise.app.runs.supervision import Supervision
from bagwise.core.exceptions import InputError
from bagwise.pipeline import classes_of

WAIT = 1.0  # seconds that a request waits for the result


class BackgroundTask:
    """Work on one fit of the model, done in a thread of its own.

    Parameters
    ----------
    fit : hashable
        Which fit; the number of a version is used again after an undo.
    work : function of this task that gives the result
    notify : callable
        Called when it is done, if somebody waited in vain.

    Attributes
    ----------
    result : what `work` gave; None before, and where it failed
    layout : RunLayout or None
        Which instances there were when it began; `work` says so.
    """

    def __init__(self, fit: Hashable, work: Callable[[BackgroundTask], Any], notify: Callable[[], None]):
        self.fit = fit
        self.layout: RunLayout | None = None
        self._work, self._notify = work, notify
        self.result: Any = None
        self._done = threading.Event()
        self._is_late = False
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self) -> bool:
        """Whether it is done, after waiting a little."""
        is_done = self._done.wait(WAIT)
        if not is_done:
            self._is_late = True
        return is_done

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except Exception:  # the page works without: whatever it is, the terminal shows it
            traceback.print_exc()
        finally:
            self._done.set()
        if self._is_late:
            self._notify()


def rank_rows(model: Any, supervision: Supervision) -> np.ndarray:
    """(m,) all rows in the order of active learning; those that are answered already come last."""
    m = supervision.dataset.bags.n_instances
    first = acquisition_order(model, supervision, m)
    rest = np.ones(m, dtype=bool)
    rest[first] = False
    return np.concatenate([first, np.flatnonzero(rest)])


MOST_ISSUES = 100  # of each kind


def find_label_issues(
    model: Any, supervision: Supervision, disputed: Sequence[Mapping[str, Any]]
) -> tuple[bool, list[dict[str, Any]]]:
    """Whether the model has rates of missing and spurious labels, without which there are none of these; the issues.

    Labels on which observers disagree come first, and are not asked for a second time.
    """
    found = _with_instances(disputed[:MOST_ISSUES], model, supervision)
    asked = {(row["bag"], row["label"]) for row in found}
    others = label_issues(model, supervision, MOST_ISSUES)
    return has_rates(model), [*found, *(row for row in others if (row["bag"], row["label"]) not in asked)]


def _with_instances(
    disputed: Sequence[Mapping[str, Any]], model: Any, supervision: Supervision
) -> list[dict[str, Any]]:
    """Disputed labels with the instance that most probably carries each."""
    dataset, classes = supervision.dataset, {str(name): c for c, name in enumerate(classes_of(model) or [])}
    number = {str(name): b for b, name in enumerate(dataset.bag_names)}
    known = [row for row in disputed if row["label"] in classes and row["bag"] in number]
    proba = predict_probabilities(model, supervision) if known else np.empty((0, 0))
    rows = []
    for row in known:
        first, last = dataset.bags.offsets[number[row["bag"]] :][:2]
        best = first + int(proba[first:last, classes[row["label"]]].argmax())
        place = {"instance": int(dataset.positions[best])}
        chance = {"instance_probability": round(float(proba[best, classes[row["label"]]]), DIGITS)}
        rows.append({"kind": DISPUTED, **row, **place, **chance})
    return rows


def find_novel_groups(model: Any, supervision: Supervision) -> tuple[list[dict[str, Any]], str]:
    """Groups of instances that belong to no listed label; or why none can be looked for."""
    try:
        return novel_groups(model, supervision), ""
    except InputError as error:
        return [], str(error)


def show_novel_groups(groups: Iterable[Mapping[str, Any]], now: Snapshot) -> list[dict[str, Any]]:
    """The groups with the rows of their instances that nobody has named since."""
    found = []
    for group in groups:
        rows = [now.places.row(*key) for key in group["members"] if now.places.has(*key)]
        left = np.array([row for row in rows if not now.found.checked[row]], dtype=np.int64)
        if len(left):
            found.append({**group, "instances": len(left), "members": now.rows(left)})
    return found


def show_label_issues(
    issues: Sequence[Mapping[str, Any]], now: Snapshot, corrections: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rows with the place of their instance, and the answer given since: "present", "absent" or None.

    The answer may be one for the bag, or the label of an instance, which puts the label into its bag; the last one
    counts, as it does in the label sets.
    """
    answered = {(one["bag"], one["label"]) for one in corrections if one["action"] in (PRESENT, ABSENT)}
    places = now.places
    issues = [row for row in issues if places.has(row["bag"], row["instance"])]
    rows: list[dict[str, Any]] = []
    where = now.rows(np.array([places.row(row["bag"], row["instance"]) for row in issues], dtype=np.int64))
    for row, place in zip(issues, where, strict=True):
        bag = places.number[row["bag"]]
        is_listed = row["label"] in (now.listed(bag) or ())
        is_settled = (
            (row["bag"], row["label"]) in answered
            or (row["kind"] != DISPUTED and is_listed != (row["kind"] == SPURIOUS))
            or row["label"] in now.named(bag)
        )
        shown: dict[str, Any] = {key: place[key] for key in ("file", "place", "start", "end") if key in place}
        rows.append({**row, **shown, "said": (PRESENT if is_listed else ABSENT) if is_settled else None})
    return rows
