"""One run under review: what the page reads and writes, in plain Python, safe to be called from many threads."""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import load
from bagwise.app.formats import Annotations, Edits, formats_of, write_formats
from bagwise.app.media.files import Problem
from bagwise.app.report.summary import class_colours
from bagwise.app.review._boxes import edit_box
from bagwise.app.review._errors import ConflictError, MissingError, RequestError
from bagwise.app.review._media import MediaStore
from bagwise.app.review._refit import REFIT, WRITE, RefitProcess
from bagwise.app.review._samples import (
    MOST,
    MOST_SAMPLES,
    agreement_curve,
    check_whole,
    draw_sample,
    first_answers,
    label_shares,
    read_samples,
    sample_rows,
    sample_share,
    write_samples,
)
from bagwise.app.review._show import show_instance
from bagwise.app.review._snapshot import Places, Snapshot, search_files
from bagwise.app.review._tasks import (
    BackgroundTask,
    find_label_issues,
    find_novel_groups,
    rank_rows,
    show_label_issues,
    show_novel_groups,
)
from bagwise.app.runs import Run
from bagwise.app.runs.corrections import ABSENT, CONFIRMED, LABEL, NOISE, PRESENT
from bagwise.app.runs.folder import MODEL_FILE, STATE, WRITING, open_manifest, version_folder
from bagwise.app.runs.supervision import Supervision
from bagwise.app.runs.survey import drawn_rows
from bagwise.core.exceptions import InputError
from bagwise.io.files import atomic_write, inside, open_folder
from bagwise.io.tables import write_csv

REVIEWER = "reviewer.json"
SURVEY = "survey"  # the sample from which counts are estimated
FOLDER, CONFIRMED_TABLE = "export", "confirmed.csv"
MOST_ROWS = 10_000  # of one answer
MOST_CHANGES = 1000  # that are listed after a refit
LONGEST_NAME = 200  # of a reviewer
RUNNING, FAILED = "running", "failed"
IDLE: dict[str, Any] = {"state": "idle", "fraction": 0.0, "changed": 0, "error": None, "writing": False}
SETTLE = 3.0  # seconds after an undo before the output files are written again: people undo several things in a row
PATIENCE = 5.0  # seconds for that at the end


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
        self._task_lock = threading.Lock()
        self._tasks: dict[str, BackgroundTask] = {}  # worked out once per model
        self.revision = 1
        self._snapshot: Snapshot | None = None
        self._summary: dict[str, Any] = {}
        self._before: tuple[Any, ...] = (None,)  # version, labels before and after its refit
        self._material = run.material
        self.places = self._find_places()
        self.media = MediaStore(run)
        self.by = _read_reviewer(run.path)
        self._samples = read_samples(run.path)
        self._export_lock = threading.Lock()
        self._exported: list[Path] = []
        self._learner = RefitProcess(run, self._hear)
        self._refit: dict[str, Any] = dict(IDLE)
        self._later: threading.Timer | None = None
        self._learner.start()

    def _find_places(self) -> Places:
        material = self._material
        return Places(material.dataset, self.run.media_type, [file["file"] for file in material.files])

    # -- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The annotations as they are now."""
        with self._lock:
            if self._snapshot is None or self._snapshot.revision != self.revision:
                run, (before, after) = self.run, self._last_refit()
                self._snapshot = Snapshot(
                    self.revision,
                    run.version,
                    self.places,
                    run.predictions(),
                    run.labels,
                    run.supervision().dataset,
                    before,
                    after,
                    self._rank,
                    run.n_corrections,
                    run.manifest["options"]["max_noise"],
                )
            return self._snapshot

    def summary(self) -> dict[str, Any]:
        """What the run is, with its labels and counts."""
        now = self.snapshot()
        with self._lock:
            if self._summary.get("revision") != now.revision:
                self._summary = self._summarize(now)
            return self._summary | {"by": self.by, "refit": self.refit_state()}

    def _summarize(self, now: Snapshot) -> dict[str, Any]:
        media_type, run = self.run.media_type, self.run
        n_labels, colours = len(now.labels), class_colours(now.labels)
        row, code, _ = now.entries
        given = np.bincount(code, minlength=n_labels).tolist()
        looked = np.bincount(code[now.found.checked[row]], minlength=n_labels).tolist()
        noise = np.bincount(code[now.background[row] & ~now.found.checked[row]], minlength=n_labels).tolist()
        return {
            "name": run.path.resolve().name,
            "medium": media_type.name,
            "title": media_type.title,
            "expected": run.expected(),
            "instances": media_type.instances,
            "labels": [
                {
                    "name": name,
                    **colours[name]._asdict(),
                    "instances": given[i],
                    "checked": looked[i],
                    "background": noise[i],
                }
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
            "label_sets": run.label_sets,
            "kinds": {
                "play": media_type.shown_as == "sound",
                "picture": media_type.shown_as in ("sound", "image", "series"),
            },
            "boxes": {
                "draw": run.boxes.can_draw and run.media.exists(),
                "remove": not run.source.is_table,
            },
            "problems": [message if name in message else f"{name}: {message}" for name, message in run.problems],
        }

    def instances(self, limit: int = 100, offset: int = 0, **choice: Any) -> dict[str, Any]:
        """A page of the instances that fit, see `Snapshot.choose`."""
        now = self.snapshot()
        chosen = now.choose(**choice)
        rows = now.rows(chosen[offset : offset + min(limit, MOST_ROWS)])
        return {"total": len(chosen), "revision": now.revision, "instances": rows}

    def annotations(self) -> Annotations:
        """All that is known of all instances, for other programs."""
        with self._lock:
            return self.run.result().annotations

    def sample_rows(self, number: str) -> np.ndarray:
        """Rows of the instances of a sample, as they were drawn."""
        if number == SURVEY:
            with self._lock:
                return drawn_rows(self.run)
        for sample in self._samples:
            if sample.id == number:
                return sample_rows(sample, self.snapshot())
        raise MissingError(f"There is no sample {number[:40]!r}.")

    def files(self, search: str = "", limit: int = 100, offset: int = 0) -> dict[str, Any]:
        """A page of the files with all their instances."""
        found = search_files(self.snapshot(), self.run.material.files, search, limit, offset)
        if self.media.media_type.shown_as == "sound":
            for file in found["files"]:
                with suppress(MissingError):  # its boxes are shown even so
                    file["band"] = self.media.band(file["file"])
        return found

    def history(self) -> dict[str, Any]:
        """What the last refit changed, how often the reviewer agreed, and how often labels are right."""
        now = self.snapshot()
        with self._lock:
            answers, samples = first_answers(self.run.corrections()), list(self._samples)
        changed = np.zeros(0, dtype=np.int64)
        if now.before is not None and now.after is not None:
            changed = np.flatnonzero(now.before != now.after)
            changed = changed[np.argsort(now.found.checked[changed], kind="stable")]  # first what followed by itself
        keys = ("bag", "instance", "place", "probability", "checked")
        rows = [{key: row[key] for key in keys} for row in now.rows(changed[:MOST_CHANGES])]
        return {
            "revision": now.revision,
            "version": now.version,
            "total": len(changed),
            "changes": [
                {**row, "before": now.before[i], "after": now.after[i]}  # type: ignore[index]
                for row, i in zip(rows, changed.tolist(), strict=False)
            ],
            "agreement": agreement_curve(answers),
            "labels": label_shares(answers, now.labels),
            "samples": [sample_share(sample, now) for sample in samples],
        }

    def show(self, bag: str, instance: int, start: float | None = None, end: float | None = None) -> dict[str, Any]:
        """What to show around an instance."""
        now = self.snapshot()
        return show_instance(now, self.media, now.places.row(bag, instance), start, end)

    def _last_refit(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Labels before and after the last refit; read once per version."""
        run, versions = self.run, self.run.manifest["versions"][-2:]
        if self._before[0] != run.version:
            names = [run.labels_at(version) for version in versions]
            if len(names) > 1:  # a box that came since is no change
                names[0] = np.where([name is None for name in names[0]], names[1], names[0])
            self._before = (run.version, *(names if len(names) > 1 else (None, None)))
        return self._before[1], self._before[2]

    def _rank(self) -> np.ndarray:
        """Rows by how much an answer helps, worked out once per model: an order that moves while one works does not.

        Where that takes too long, the least certain come first, and a new revision tells when it is done.
        """
        now = self.snapshot()
        work = self._task("ranking", rank_rows)
        if not work.wait() or work.result is None:
            return now.order("least-sure")
        with self._lock:
            layout = self.run.layout
        assert work.layout is not None
        ranked = work.result
        if not work.layout.same_as(layout):
            rows = layout.rows_in(work.layout)  # boxes that came since come first
            ranked = np.argsort(np.where(rows < 0, -1, np.argsort(work.result)[rows]), kind="stable")
        # another box may have come since this snapshot
        return ranked if len(ranked) == len(now.found.label) else now.order("least-sure")

    def label_issues(self) -> dict[str, Any]:
        """Labels that are probably missing or spurious, by the model as it is, and the answers given since.

        They are worked out once per model, so that the list stays while one goes through it.
        """
        now = self.snapshot()
        with self._lock:
            observers = self.run.observers()
        work = self._task("label issues", self._find_label_issues)
        is_done = work.wait()
        has_rates, issues = (work.result if is_done else None) or (False, [])
        with self._lock:
            corrections = self.run.corrections()
        return {
            "revision": now.revision,
            "version": now.version,
            "is_done": is_done,
            "failed": is_done and work.result is None,
            "has_rates": has_rates,
            "observers": observers,
            "labels": show_label_issues(issues, now, corrections),
        }

    def novel_groups(self) -> dict[str, Any]:
        """Groups of instances that belong to no listed label; worked out once per model, like the label issues."""
        now, work = self.snapshot(), self._task("novel groups", find_novel_groups)
        is_done = work.wait()
        groups, why = (work.result if is_done else None) or ([], "")
        return {
            "revision": now.revision,
            "version": now.version,
            "is_done": is_done,
            "failed": is_done and work.result is None,
            "why": why,
            "groups": show_novel_groups(groups, now),
        }

    def _find_label_issues(self, model: Any, supervision: Supervision) -> tuple[bool, list[dict[str, Any]]]:
        with self._lock:
            disputed = self.run.disputed_labels()
        return find_label_issues(model, supervision, disputed)

    def _task(self, what: str, work: Callable[[Any, Supervision], Any]) -> BackgroundTask:
        """What `work` makes of the model and the supervision as they are, begun once per fit."""
        with self._lock:
            fit = (self.run.version, *self.run.manifest["versions"][-1]["calls"])
        with self._task_lock:
            if what not in self._tasks or self._tasks[what].fit != fit:

                def begin(task: BackgroundTask) -> Any:  # in a thread of its own, which holds no other lock
                    with self._lock:
                        task.layout, known = self.run.layout, self._model_and_supervision()
                    return work(*known)

                self._tasks[what] = BackgroundTask(fit, begin, self._notify)
            return self._tasks[what]

    def _model_and_supervision(self) -> tuple[Any, Supervision]:
        with self._lock:
            return load(version_folder(self.run.path, self.run.version) / MODEL_FILE), self.run.supervision()

    def _notify(self) -> None:
        with self._lock:
            self._changed()

    # -- answers -------------------------------------------------------------------------------------------------------

    def correct(self, corrections: Sequence[Mapping[str, Any]], by: str | None = None) -> dict[str, Any]:
        """Put corrections on disk; in force when this returns."""
        given, absent = _split(corrections)
        name = self.by if by is None else _check_name(by)
        with self._lock:
            found = self.run.predictions()
            self.run.correct(given, absent=absent, by=name)
            self._changed()
            rows = [(self.run.row_of(bag, i), label) for bag, i, label in given if i is not None]
            said = [(row, {label} if isinstance(label, str) else {*label}) for row, label in rows]
            agreed = sum({*found.labels_of(row)} == labels - {""} for row, labels in said)
            return {"revision": self.revision, "corrections": self.run.n_corrections, "agreed": agreed}

    def take_edits(self, edits: Edits, by: str) -> list[Problem]:
        """Take over what was put right in another program, boxes too, in one step of undo; gives what could not be."""
        with self._lock:
            problems = self.run.take_edits(edits, by=by)
            self._changed()
            return problems

    def edit_box(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Draw, split, merge, move or remove an instance; on disk and in force when this returns."""
        with self._lock:
            keys = edit_box(self.run, body, self.by)
            self._changed()
            return {"revision": self.revision, "corrections": self.run.n_corrections, "key": keys[0], "keys": keys}

    def would_undo(self) -> dict[str, Any]:
        """What `undo` would take back: answers, and whether a retraining with them."""
        with self._lock:
            return self.run.would_undo()

    def undo(self) -> dict[str, Any]:
        """Take back the last call of `correct`; the output files follow a little later."""
        with self._lock:
            if self._refit["state"] == RUNNING:
                raise ConflictError("The model is being retrained; wait until it is done, or cancel it, and undo then.")
            self._stop_writing()
            taken = self.run.undo(write=False)
            self._changed()
            if self.run.manifest["status"] == WRITING:
                self._write_later()
            return {"taken": taken, "revision": self.revision}

    def draw_sample(self, label: Any = None, n: Any = 100, seed: Any = None) -> dict[str, Any]:
        """Draw a random sample and keep it."""
        now = self.snapshot()
        with self._lock:
            if len(self._samples) >= MOST_SAMPLES:
                raise RequestError(f"There are {MOST_SAMPLES} samples already.")
            sample = draw_sample(now, label, n, seed, len(self._samples) + 1)
            write_samples(self.run.path, [*self._samples, sample])
            self._samples.append(sample)
            self._changed()
        return {"id": sample.id, "n": len(sample.instances)}

    def estimate(self, by: str | None = None) -> dict[str, Any]:
        """Counts of every label with intervals, see `Run.estimate`, and how much of the sample is answered."""
        with self._lock:
            rows, drawn = self.run.estimate(by), drawn_rows(self.run)
            answered = int(self.run.supervision().checked[drawn].sum())
        return {"id": SURVEY, "n": len(drawn), "answered": answered, "counts": rows}

    def draw_survey(self, n: Any = 60, seed: Any = None) -> dict[str, Any]:
        """Draw more instances for the counts; the sample is `SURVEY` to `instances`."""
        check_whole("n", n, 1, MOST)
        if seed is not None:
            check_whole("seed", seed, 0, 2**53)
        with self._lock:
            left = self.run.draw_sample(n, seed)
            self._changed()
        return {"id": SURVEY, "n": len(left)}

    def export(self, confirmed_only: Any = False) -> dict[str, Any]:
        """Write all formats, with the reviewer of each instance, to the folder ``export`` of the run."""
        if not isinstance(confirmed_only, bool):
            raise RequestError('"confirmed_only" must be true or false.')
        with self._lock:
            annotations = with_reviewers(self.run.result().annotations, self.run.corrections())
        path = self.run.path
        with self._export_lock:
            outputs, problems = write_export(annotations, path, formats_of(self.run.media_type), confirmed_only)
            self._exported = outputs
        return {
            "folder": FOLDER,
            "files": [output.relative_to(path).as_posix() for output in outputs],
            "problems": [message for _, message in problems],
        }

    def zip_export(self) -> bytes:
        """What was exported last, as one file."""
        with self._export_lock:
            if not self._exported:
                raise MissingError("Nothing was exported yet; export first.")
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
                for output in self._exported:
                    file.write(output, output.relative_to(self.run.path / FOLDER))
            return stream.getvalue()

    def name_reviewer(self, by: str) -> dict[str, Any]:
        """Keep the name of the reviewer."""
        name = _check_name(by)
        with self._lock:
            with atomic_write(self.run.path / STATE / REVIEWER, "w") as file:
                file.write(json.dumps({"by": name}, ensure_ascii=False) + "\n")
            self.by = name
        return {"by": name}

    def _changed(self) -> None:
        self.revision += 1
        self._snapshot = None
        if self.run.material is not self._material:
            self._material, self._before = self.run.material, (None,)
            self.places = self._find_places()

    # -- retraining -----------------------------------------------------------------------------------------------

    def refit_state(self) -> dict[str, Any]:
        """How far retraining is; "changed" and "version" are those of the last refit that ended well."""
        with self._lock:
            return self._refit | {"version": self.run.version}

    def start_refit(self) -> dict[str, Any]:
        """Begin to retrain with all corrections; corrections made meanwhile are kept for the next time."""
        with self._lock:
            if self._refit["state"] == RUNNING:
                raise ConflictError("The model is being retrained already; wait until it is done, or cancel it.")
            self._stop_writing()
            self._refit = IDLE | {"state": RUNNING, "changed": self._refit["changed"]}
            self._learner.ask(REFIT)
            return self.refit_state()

    def cancel_refit(self) -> dict[str, Any]:
        """Stop retraining; the model stays as it was."""
        with self._lock:
            if self._refit["state"] == RUNNING:
                self._learner.stop()
                self._refit = dict(IDLE)
                self._taken_over()  # it may have ended just before it was stopped
                self._learner.start()
            return self.refit_state()

    def _hear(self, report: dict[str, Any], is_current: Callable[[], bool]) -> None:
        """A report of the process that retrains."""
        with self._lock:
            if not is_current():
                return
            refit = self._refit
            if "fraction" in report:
                self._refit = refit | {"fraction": report["fraction"]}
            elif "done" in report:
                self._refit = IDLE | {"fraction": 1.0, "changed": report["changed"], "writing": True}
                self._taken_over()
            elif "written" in report:
                self._refit = refit | {"writing": False}
                self.run.reload()
            elif refit["state"] == RUNNING or refit["writing"]:
                words = report.get("failed") or (
                    f"Retraining ended before it was done (code {report.get('ended')}); no correction "
                    "is lost. Try again."
                )
                self._refit = IDLE | {"state": FAILED, "error": words}
                self._taken_over()

    def _taken_over(self) -> None:
        self.run.reload()
        self._before = (None,)
        self._changed()

    def _stop_writing(self) -> None:
        """Keep the other process from writing what is about to be outdated."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._refit["writing"]:
            self._learner.stop()
            self._learner.start()
            self._refit = self._refit | {"writing": False}
            self.run.reload()

    def _write_later(self) -> None:
        self._later = threading.Timer(SETTLE, self._write)
        self._later.daemon = True
        self._later.start()

    def _write(self) -> None:
        with self._lock:
            if self._later is not None and self._refit["state"] != RUNNING:
                self._later = None
                self._refit = self._refit | {"writing": True}
                self._learner.ask(WRITE)

    # -- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Let others have the run; gives whether the output files are as new as the run."""
        deadline = time.monotonic() + PATIENCE
        with self._lock:
            if self._later is not None:
                self._later.cancel()
                self._write()
        while self.refit_state()["writing"] and time.monotonic() < deadline:
            time.sleep(0.05)
        with self._lock:
            self._learner.stop()
            is_written = open_manifest(self.run.path)["status"] != WRITING
            self.run.close()
            return is_written


def _split(corrections: Any) -> tuple[list[tuple[str, int | None, Any]], list[tuple[str, str]]]:
    """Labels of instances (all of one's in a list) and bags, and labels that bags do not have."""
    if not isinstance(corrections, list) or not corrections:
        raise RequestError('"corrections" must be a list with at least one of {"bag", "instance", "label"}.')
    given: list[tuple[str, int | None, Any]] = []
    absent: list[tuple[str, str]] = []
    for correction in corrections:
        if not isinstance(correction, Mapping):
            raise RequestError(f'A correction is {{"bag", "instance", "label"}}, not {str(correction)[:80]!r}.')
        labels = correction.get("labels")
        if labels is not None:
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise RequestError(f'"labels" must be a list of text; got {str(labels)[:80]!r}.')
            correction = {**correction, "label": ""}
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
            given.append((correction["bag"], instance, correction["label"] if labels is None else labels))
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


def with_reviewers(annotations: Annotations, corrections: Iterable[Mapping[str, Any]]) -> Annotations:
    """The annotations with columns ``checked`` and ``by`` in the long tables."""
    by: dict[tuple[str, int], str] = {}
    for correction in corrections:
        if correction["action"] in (CONFIRMED, LABEL, NOISE):
            by[correction["bag"], correction["instance"]] = correction["by"]
    rows = [row | {"by": by.get((row["bag"], row["instance"]), "")} for row in annotations.rows]
    return replace(annotations, rows=rows, extra=(*annotations.extra, "checked", "by"))


def write_export(
    annotations: Annotations, run: Path, formats: Iterable[str], confirmed_only: bool
) -> tuple[list[Path], list[Problem]]:
    """Write the formats and the table of what a person confirmed or corrected to the folder ``export`` of the run.

    Gives the files, and what went wrong.
    """
    confirmed = replace(annotations, rows=[row for row in annotations.rows if row["checked"]])
    folder = inside(run, FOLDER)
    folder.mkdir(exist_ok=True)
    outputs: list[Path] = []
    problems: list[Problem] = []
    for name in formats:
        try:
            outputs += write_formats(confirmed if confirmed_only else annotations, folder, [name])
        except (OSError, InputError, ImportError) as error:
            problems.append((name, f"{name} was not written: {error}"))
    outputs.append(open_folder(folder, CONFIRMED_TABLE))
    write_csv(confirmed.rows, outputs[-1], confirmed.columns)
    return outputs, problems
