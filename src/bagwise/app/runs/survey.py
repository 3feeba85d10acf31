"""The survey of a run: instances drawn at random for a person to name, and counts of labels with intervals from it.

What the model said when a sample was drawn is kept with it, since a model that has learned from the answers is no
witness of them. Instances that people had named before are counted and not drawn; those named later for other reasons
count as if nobody had: in an order chosen to help, the hard ones come first. Recordings that came later are drawn from
in the next draw, which makes strata of their own for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from bagwise.app.formats import Annotations
from bagwise.app.labels.sites import in_field
from bagwise.app.report.field import by_the_hour
from bagwise.app.runs.folder import STATE
from bagwise.app.runs.layout import BOX, MOVED, REMOVED, RunLayout
from bagwise.app.runs.predictions import predict_probabilities
from bagwise.calibration import (
    Totals,
    allocate_answers,
    draw_rows,
    estimate_totals,
    expected_totals,
    score_strata,
)
from bagwise.calibration.totals import LEAST
from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import ListOf, Number, Record, Text, TupleOf
from bagwise.io.archive import read_archive, write_archive
from bagwise.io.files import atomic_write, inside
from bagwise.pipeline import classes_of

Run = Any
"""`bagwise.app.runs.run.Run`, which stands on this."""

FILE = "survey.bagwise"
KNOWN = -1  # stratum of what was known before anything was drawn
BY = ("file", "site", "hour", "date")
SAMPLE, MODEL = "sample", "model"  # what figures are based on
_DOCUMENT = Record(
    {
        "labels": ListOf(Text(), empty=True),
        "bags": ListOf(TupleOf(Text(), Text(), Number(0, 10**9, whole=True)), empty=True),
        "edits": ListOf(TupleOf(Text(), Number(0, 2**31, whole=True), ListOf(Number(), empty=True)), empty=True),
    }
)


@dataclass(frozen=True, eq=False)
class Survey:
    """What was drawn, of what.

    Attributes
    ----------
    labels : list of str
    bags : list of [name, text, size]
        The text changes when others are found in the bag.
    edits : list of [bag, number, place]
        The boxes that people had drawn, moved and, without a place, removed.
    proba : (m, c) array
        What the model said of the instances of these bags, one bag after the other, before they were drawn from.
    strata : (m,) array of int
    drawn : array of int
        In the order in which they are to be answered.
    """

    labels: list[str]
    bags: list[list[Any]]
    edits: list[list[Any]]
    proba: np.ndarray
    strata: np.ndarray
    drawn: np.ndarray


@dataclass(frozen=True, eq=False)
class _Frame:
    """The survey by the instances of the run as it is now; strata are `KNOWN` where nothing is drawn from."""

    labels: list[str]
    proba: np.ndarray
    strata: np.ndarray
    drawn: np.ndarray
    new: np.ndarray
    """(m,) whether the instance came after the last draw, and nobody named it."""


def _read(run: Run) -> Survey | None:
    path = inside(run.path, f"{STATE}/{FILE}")
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        labels, bags, edits = document["labels"], document["bags"], document.get("edits", [])
        proba, strata, drawn = (arrays[i] for i in range(3))
        if problem := _DOCUMENT.problem({"labels": labels, "bags": bags, "edits": edits}, {}):
            raise ValueError(problem)
        names, m = [name for name, *_ in bags], len(strata)
        fits = proba.shape == (m, len(labels)) and proba.dtype == np.float32 and len(drawn) == len(np.unique(drawn))
        fits &= all(array.ndim == 1 and array.dtype.kind == "i" for array in (strata, drawn))
        fits &= len(set(labels)) == len(labels) and len(set(names)) == len(names)
        fits &= sum(size for *_, size in bags) == m and not np.any((strata < KNOWN) | (strata >= m))
        if not fits or not np.all((proba >= 0) & (proba <= 1)) or np.any((drawn < 0) | (drawn >= m)):
            raise ValueError("its parts do not fit together")
        if np.any(strata[drawn] < 0):
            raise ValueError("it names as drawn what was known before")
        return Survey(labels, bags, edits, proba, strata, drawn)
    except Exception as error:
        raise FormatError(f"{path} is damaged ({error}); move it away and draw a new sample.") from error


def _write(run: Run, survey: Survey) -> None:
    document = {"labels": survey.labels, "bags": survey.bags, "edits": survey.edits}
    with atomic_write(inside(run.path, f"{STATE}/{FILE}")) as file:
        write_archive(file, document, [survey.proba, survey.strata, survey.drawn])


def _frame(run: Run) -> _Frame | None:
    """The survey as far as instances are still what they were; None where nothing was drawn."""
    survey = _read(run)
    if survey is None:
        return None
    prints, checked, m = run.boxes.found.prints(), run.supervision().checked, run.material.dataset.bags.n_instances
    before = RunLayout(run.boxes.sizes, run.boxes.rooms)
    for bag, number, place in survey.edits:  # those of a bag that is another by now may not fit it
        action = (MOVED if number < before.sizes.get(bag, 0) else BOX) if place else REMOVED
        before.take(action, (bag, number), tuple(place))
    was = run.layout.rows_in(before)
    then = before.rows().bag
    now = np.full(len(then), -1)
    now[was[was >= 0]] = np.flatnonzero(was >= 0)
    order = {bag: i for i, bag in enumerate(before.rooms or before.sizes)}
    row_of, begin = np.full(len(survey.strata), -1), 0
    for bag, text, size in survey.bags:
        if bag in order and prints.get(bag, "") == text:
            first, last = np.searchsorted(then, [order[bag], order[bag] + 1])
            if last - first == size:
                row_of[begin : begin + size] = now[first:last]
        begin += size
    there = np.flatnonzero(row_of >= 0)
    check_allocation(4 * m * len(survey.labels), "What the model said of the sample", "move .run/survey.bagwise away")
    proba, strata = np.zeros((m, len(survey.labels)), np.float32), np.full(m, KNOWN)
    proba[row_of[there]], strata[row_of[there]] = survey.proba[there], survey.strata[there]
    drawn = row_of[survey.drawn]
    return _Frame(survey.labels, proba, strata, drawn[drawn >= 0], (strata == KNOWN) & ~checked)


def draw(run: Run, n: int, seed: int | None = None) -> int:
    """Draw so many more instances for a person to name; gives how many are drawn in all.

    They are drawn where answers narrow the intervals most, of instances that nobody has named. Answers to an earlier
    sample stay in force.
    """
    if n < 1:
        raise InputError(f"n is {n}; draw at least one instance.")
    supervision, model = run.supervision(), run.model()
    dataset, frame = run.material.dataset, _frame(run)
    classes = [str(name) for name in classes_of(model) or []]
    if frame is None:
        m = dataset.bags.n_instances
        none = np.zeros((m, len(classes)), dtype=np.float32)
        frame = _Frame(classes, none, np.full(m, KNOWN), np.zeros(0, dtype=np.int64), ~supervision.checked)
    new = np.flatnonzero(frame.new)
    proba, strata = _with_columns(frame.proba, frame.labels, labels := _joined(frame.labels, classes)), frame.strata
    if len(new):
        now = _with_columns(predict_probabilities(model, supervision), classes, labels)
        proba[new] = np.clip(now[new], 0.0, 1.0)
        strata = strata.copy()
        strata[new] = score_strata(proba[new], n) + strata.max() + 1
    asked = np.flatnonzero(strata >= 0)
    if len(asked) == len(frame.drawn):
        raise InputError("Every instance was drawn or named already, so there is nothing left to draw.")
    codes = np.unique(strata[asked], return_inverse=True)[1]
    place = np.searchsorted(asked, frame.drawn)
    wanted = allocate_answers(proba[asked], codes, min(len(frame.drawn) + n, len(asked)))
    wanted = np.maximum(wanted, np.bincount(codes[place], minlength=len(wanted)))
    drawn = asked[draw_rows(codes, wanted, place, np.random.default_rng(seed))]
    prints, layout = run.boxes.found.prints(), run.layout
    sizes = zip(dataset.bag_names, dataset.bags.sizes.tolist(), strict=True)
    bags = [[bag, prints.get(bag, ""), size] for bag, size in sizes]
    edits = [[*key, list(place)] for key, place in layout.changed.items()] + [[*key, []] for key in layout.gone]
    kept = np.full(len(strata), KNOWN)
    kept[asked] = codes
    _write(run, Survey(labels, bags, edits, proba, kept, np.concatenate([frame.drawn, drawn])))
    return len(frame.drawn) + len(drawn)


def _joined(labels: Sequence[str], more: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*labels, *more]))


def _with_columns(proba: np.ndarray, names: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """The columns of these labels; a label that there is no column of has probability zero."""
    number = {name: c for c, name in enumerate(names)}
    wide = np.hstack([proba, np.zeros((len(proba), 1), proba.dtype)])
    return wide[:, [number.get(name, -1) for name in labels]]


def drawn_rows(run: Run) -> np.ndarray:
    """Rows of the instances that were drawn, in the order in which to answer; none where nothing was."""
    frame = _frame(run)
    return np.zeros(0, dtype=np.int64) if frame is None else frame.drawn


# ---------------------------------------------------------------------------------------------------------------------
# Counts


def estimate(run: Run, by: str | None = None) -> list[dict[str, Any]]:
    """Counts of every label, in all or by group, see `Run.estimate`."""
    if by not in (None, *BY):
        raise InputError(f"by is {by!r}; use {', '.join(map(repr, BY))}, or nothing for the whole run.")
    supervision, frame, labels = run.supervision(), _frame(run), run.labels
    names, groups = _groups(run, by)
    known = _truth(supervision, labels)
    totals, basis = None, MODEL
    if frame is not None:
        totals = _by_sample(frame, _with_columns(frame.proba, frame.labels, labels), supervision, known, groups, names)
    if totals is None:
        model = run.model()
        proba = predict_probabilities(model, supervision)
        proba = np.clip(_with_columns(proba, [str(c) for c in classes_of(model) or []], labels), 0, 1)
        proba[supervision.checked] = known[supervision.checked]
        totals = expected_totals(proba.astype(np.float64), groups, len(names))
        drawn = np.zeros(0, dtype=np.int64) if frame is None else frame.drawn[supervision.checked[frame.drawn]]
        totals = replace(totals, n_reviewed=np.bincount(groups[drawn], minlength=len(names)))
    else:
        basis = SAMPLE
    return [
        {
            "label": label,
            **({} if by is None else {by: name}),
            "count": round(float(totals.count[g, c]), 2),
            "low": round(float(totals.low[g, c]), 2),
            "high": round(float(totals.high[g, c]), 2),
            "n_reviewed": int(totals.n_reviewed[g]),
            "basis": basis,
            "more": None if np.isinf(totals.more[g, c]) else int(totals.more[g, c]),
        }
        for c, label in enumerate(labels)
        for g, name in enumerate(names)
    ]


def hourly_activity(run: Run) -> list[dict[str, Any]]:
    """Counts by hour with intervals; empty where no sample was answered, or no file tells when it was recorded."""
    try:
        rows = estimate(run, "hour") if _read(run) is not None else []
    except InputError:  # a damaged sample too: whoever asks for counts is told
        return []
    return [row for row in rows if row["basis"] == SAMPLE and row["hour"] != ""]


def _truth(supervision: Any, labels: Sequence[str]) -> np.ndarray:
    """(m, c) whether a person says that the instance carries the label."""
    column = {str(name): c for c, name in enumerate(labels)}
    code = np.array([column[str(name)] for name in supervision.dataset.class_names] + [-1])
    known = code[supervision.known]
    carried = known[:, None] == np.arange(len(labels))
    carried[supervision.also[:, 0], code[supervision.also[:, 1]]] = True
    return carried


def _by_sample(
    frame: _Frame, proba: np.ndarray, supervision: Any, known: np.ndarray, groups: np.ndarray, names: Sequence[Any]
) -> Totals | None:
    """From the answers to the sample; None while there are too few for an interval.

    Instances that were skipped, drawn before the last one that was answered, are counted once as carrying no label
    and once as carrying each: they may be the hard ones.
    """
    checked = supervision.checked
    is_answered = checked[frame.drawn]
    last = int(np.flatnonzero(is_answered)[-1]) + 1 if is_answered.any() else 0
    rows = frame.drawn[:last]
    skipped = ~checked[rows]
    inside = np.flatnonzero(frame.strata >= 0)
    strata = np.unique(frame.strata[inside], return_inverse=True)[1]
    place, n_groups = np.searchsorted(inside, rows), len(names)
    answered = np.bincount(strata[place], minlength=strata.max() + 1 if len(strata) else 0)
    if np.any(answered < np.minimum(np.bincount(strata), LEAST)) or skipped.sum() > 0.5 * len(rows):
        return None
    exact = np.flatnonzero((frame.strata == KNOWN) & ~frame.new)
    certain = np.stack([np.bincount(groups[exact], column, n_groups) for column in known[exact].T], axis=1)
    later = np.bincount(groups[frame.new], minlength=n_groups)[:, None]
    if not len(inside):
        nobody = np.zeros(n_groups, dtype=np.int64)
        return Totals(certain, certain, certain + later, nobody, np.zeros(certain.shape))
    ends = []
    for guess in {False, bool(skipped.any())}:
        truth = known[rows] | (guess & skipped)[:, None]
        ends.append(estimate_totals(proba[inside].astype(np.float64), strata, place, truth, groups[inside], n_groups))
    low, high = ends[0], ends[-1]
    return Totals(
        certain + (low.count + high.count) / 2,
        certain + low.low,
        certain + high.high + later,
        np.bincount(groups[rows[~skipped]], minlength=n_groups),
        low.more,
    )


def _groups(run: Run, by: str | None) -> tuple[list[Any], np.ndarray]:
    """The groups, and the number of that of each instance; files and hours without any instance are groups too."""
    dataset = run.material.dataset
    m, places = dataset.bags.n_instances, dataset.locations or {}
    if by is None:
        return [None], np.zeros(m, dtype=np.int64)
    if run.source.is_table:
        raise InputError(f"The bags of a table belong to no file, so nothing can be counted by {by}; leave it out.")
    sites = () if run.sites is None else run.sites["sites"]
    files = in_field(Annotations(run.media_type, [], run.material.files, []), sites).files
    if by in ("file", "site"):
        if by not in files[0]:
            raise InputError(
                "No file belongs to a site: neither do names tell a time, before which the site stands, nor was the "
                "run made with a table of sites (--sites)."
            )
        of_file = {file["file"]: file[by] for file in files}
        keys = [of_file[name] for name in places["file"].tolist()]
        names = [file["file"] for file in files] if by == "file" else sorted(set(of_file.values()))
    else:
        begins = {file["file"]: datetime.fromisoformat(file["recorded"]) for file in files if "recorded" in file}
        if not begins:
            raise InputError(
                f"No file tells when it was recorded, so nothing can be counted by {by}; names such as "
                "SITE_20240501_053000.wav do."
            )
        starts = places["start"].tolist() if run.media_type.timed else [0.0] * m
        whens = [
            begins[name] + timedelta(seconds=float(start)) if name in begins else None
            for name, start in zip(places["file"].tolist(), starts, strict=True)
        ]
        keys = ["" if when is None else _unit(when, by) for when in whens]
        seconds = {file["file"]: file.get("seconds", 0.0) for file in files}
        recorded = {_unit(when, by) for name in begins for when, _ in by_the_hour(begins[name], seconds[name])}
        names = [*sorted(recorded | {key for key in keys if key != ""}), *([""] if "" in keys else [])]
    number = {name: g for g, name in enumerate(names)}
    return names, np.array([number[key] for key in keys], dtype=np.int64)


def _unit(when: datetime, by: str) -> Any:
    return when.hour if by == "hour" else when.date().isoformat()
