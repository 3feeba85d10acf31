"""A run: annotations that can be reopened, corrected and fitted again.

The folder of a run holds its manifest, ``.features`` (the bags of each file), ``.run`` (the labels it was made with,
and for each fit in force its model and annotations), ``corrections.csv``, and what is written for people. `Run` joins
three objects: `RunFolder` (manifest, lock, fits), `RunCorrections` and `write_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import load
from bagwise.app.formats import Annotations, check_formats, compare_marks, read_marks
from bagwise.app.labels.sites import Site, in_field, site_problems
from bagwise.app.media.files import Problem
from bagwise.app.media.media_types import check_media_type
from bagwise.app.media.recipe import RECIPE
from bagwise.app.report.summary import AnnotateResult, Reliability
from bagwise.app.runs._create import create_run
from bagwise.app.runs._write import write_run
from bagwise.app.runs.corrections import (
    ABSENT,
    CONFIRMED,
    LABEL,
    NOISE,
    PRESENT,
    Correction,
    RunCorrections,
    check_correction,
    some_of,
)
from bagwise.app.runs.featurize import Progress
from bagwise.app.runs.find import (
    KEPT,
    NOVEL,
    Found,
    find_labels,
    finding_rows,
    keep_for_precision,
    said_reliability,
    with_said,
)
from bagwise.app.runs.fit import fit_supervised
from bagwise.app.runs.folder import (
    NAME,
    STATE,
    WRITING,
    RunFolder,
    Version,
    check_run,
    lock_run,
    open_manifest,
    unlock_run,
)
from bagwise.app.runs.label_issues import N_ISSUES, label_issues
from bagwise.app.runs.learner import learner_inside, settings_of
from bagwise.app.runs.material import TABLE, Material, Source, read_supervision, reopen_material
from bagwise.app.runs.options import RunOptions
from bagwise.app.runs.remarks import hard_labels, label_remarks, never_given, unexplained_labels
from bagwise.app.runs.supervision import Supervision, join_supervision, put_together
from bagwise.calibration import CalibratedAnnotator
from bagwise.core.dataset import as_column
from bagwise.core.exceptions import InputError, in_words
from bagwise.pipeline import bag_tags, final_step
from bagwise.solvers.result import Callback


@dataclass(frozen=True)
class Refit:
    """What a refit did: the number of the version, instances whose label changed, and what is wrong."""

    version: int
    changed: int
    problems: list[Problem]


class NotWrittenError(InputError):
    """What was asked for is done and kept, but the files for people could not be written and are older than the run."""


class Run:
    """Annotations of the files of a folder or of the bags of a table, with the model that made them.

    Made by `bagwise annotate` or `Run.create`, opened with `Run.open`. While it is open no other process can write to
    it; `close`, or the end of a ``with`` block, lets go.

    Attributes
    ----------
    path : Path
    media_type : MediaType
    manifest : dict
        What ``manifest.json`` says.
    material : Material
        The bags and what was said of them when the run was made.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bagwise import Run, write_dataset
    >>> from bagwise.datasets import make_gaussian_bags
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_dataset(make_gaussian_bags(n_bags=40, random_state=0), folder / "made.csv")
    >>> run = Run.create(folder / "made.csv", folder / "run", page=False)
    >>> row = run.annotations()[0]
    >>> run.correct([(row["bag"], row["instance"], row["label"])])  # confirmed
    >>> [correction["action"] for correction in Run.open(folder / "run").corrections()]
    ['confirmed']
    """

    def __init__(self, path: Path, manifest: dict[str, Any], material: Material, lock: Path):
        self.path = path
        self.material = material
        self.media_type = check_media_type(manifest["identity"]["medium"])
        dataset = material.dataset
        self._number = {name: i for i, name in enumerate(dataset.bag_names)}
        self._sizes = dict(zip(dataset.bag_names, dataset.bags.sizes.tolist(), strict=True))
        self._kept = RunFolder(path, manifest, lock, dataset.bags.n_instances)
        self._corrections = RunCorrections(path, self._sizes)
        self._unwritten: list[Problem] = []
        self._forget()
        self._kept.leave_fits(self._corrections.calls)

    def _forget(self) -> None:
        """Work out again, when it is asked for, what follows from the corrections and the fit in force."""
        self._supervision: Supervision | None = None
        self._found: Found | None = None

    @property
    def manifest(self) -> dict[str, Any]:
        """What ``manifest.json`` says."""
        return self._kept.manifest

    # -- opening and closing ------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: str | Path, *, media: str | Path | None = None, lent: bool = False) -> Run:
        """Open the run in a folder.

        Parameters
        ----------
        path : folder of the run
        media : path or None
            Where its media (or its table) are now, if they were moved.
        lent : bool
            Whether the process that has the run open started this one to work on it, as a review does for a refit. It
            may go on to correct, and calls `reload` when this one is done.
        """
        return cls._open(Path(path), media=media, lent=lent, finish=not lent)

    @classmethod
    def _open(cls, path: Path, *, media: str | Path | None = None, lent: bool = False, finish: bool) -> Run:
        """Open a run; nothing is written before its files were checked, and where it is not to be finished not then."""
        check_run(path, open_manifest(path))
        lock = path.resolve() if lent else lock_run(path)
        try:
            manifest = open_manifest(path)  # as it is now that nobody else writes
            media_type = check_media_type(manifest["identity"]["medium"])
            settings = media_type.make_settings(manifest["identity"]["settings"])
            embedded = manifest["identity"].get("embedded")
            run = cls(
                path, manifest, reopen_material(path, media_type, settings, read_supervision(path), embedded), lock
            )
            check_formats(manifest["options"]["formats"], media_type)
            if media is not None:
                run.manifest["media"] = str(Path(media).resolve())
            if finish:
                run._catch_up()
        except BaseException:
            unlock_run(lock)
            raise
        return run

    @classmethod
    def create(
        cls,
        source: str | Path,
        out: str | Path,
        *,
        progress: Progress | None = None,
        say: Callable[[str], None] | None = None,
        **options: Any,
    ) -> Run:
        """Annotate a folder of media or a file of bags.

        The options are the fields of `bagwise.app.runs.options.RunOptions`; for the others see `create_run`.
        """
        return create_run(cls, Path(source), Path(out), RunOptions(**options), progress, say)

    def _catch_up(self) -> None:
        """Do what was left undone when the run was in use last; a run on a full disk can be opened all the same."""
        with suppress(OSError):  # what is not set aside is named among the problems too, and does not count either
            self._corrections.log.set_aside()
        self._settle()
        if self.manifest["status"] == WRITING:
            try:
                self.write()
            except OSError as error:
                text = f"The files for people in {self.path} are older than the run and could not be written: "
                self._unwritten = [(self.path.name, text + in_words(error))]

    def reload(self) -> None:
        """Take over what a process to which the run was lent has written."""
        self._kept.check_open()
        self._kept.reload()
        self._forget()
        self._kept.leave_fits(self._corrections.calls)

    @property
    def lock_descriptors(self) -> tuple[int, ...]:
        """What a process to which the run is lent must inherit: nobody else opens the run then while that one lives."""
        return self._kept.lock_descriptors

    def close(self) -> None:
        """Let other processes have the run."""
        self._kept.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_kept"):
            self.close()

    def __repr__(self) -> str:
        return f"<Run: {self.path}, {len(self._sizes)} bags, version {self.version}>"

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of the fit that the annotations come from; 0 is that of `bagwise annotate`."""
        return self._kept.number

    @property
    def media(self) -> Path:
        """Where the media or the table are, or were when the run was made."""
        return Path(self.manifest.get("media") or self.manifest["identity"]["folder"])

    @property
    def folder(self) -> Path:
        """The folder in which the files that `annotations` names lie."""
        return self.media.parent if self.media_type.name == TABLE else self.media

    @property
    def labels(self) -> list[str]:
        """All labels of the run, those that were added by corrections too."""
        return sorted({*self._kept.version.found.classes, *self.supervision().dataset.class_names})

    @property
    def problems(self) -> list[Problem]:
        """Files, rows, labels and corrections that could not be used or that look wrong: name and message."""
        moved = [] if self.media.exists() else [(str(self.media), _moved(self.media))]
        own = [*self.material.problems, *self._kept.version.problems, *self._corrections.problems, *self._unwritten]
        table = self._sites
        if table is not None:
            names = [file["file"] for file in self.material.files]
            own += site_problems([Site(**site) for site in table["sites"]], names, table["table"])
        return [*moved, *own]

    @property
    def _sites(self) -> dict[str, Any] | None:
        """The table of sites that the run was made with: its path, and what stood in it."""
        return self.manifest["options"].get("sites")

    def annotations(self) -> list[dict[str, Any]]:
        """What is known of every instance: one dict each, with the stable key "bag" and "instance".

        Also "file", places, "label" ("" for noise that a person named, and in bags without labels), "probability" (of
        the label), "runner_up", "noise" (probability of belonging to no label), "mode", and "checked": whether a person
        said so; "novel", whether it is out of the distribution of the training set, where the model can
        tell; "kept", whether it is in the set that is kept for a precision, where one was asked for. What was corrected
        since the last refit is in it; what follows from that comes with the next.
        """
        found = self.found()
        rows = finding_rows(self.material.dataset, found)
        for row, checked in zip(rows, found.checked.tolist(), strict=True):
            row["checked"] = checked
        if self.precision is not None:
            kept = keep_for_precision(found, self.precision, self.manifest["options"]["max_noise"])
            for row, is_kept in zip(rows, kept.tolist(), strict=True):
                row[KEPT] = is_kept
        return rows

    @property
    def precision(self) -> float | None:
        """The precision that was asked for; None where none was, or where the model gives no probabilities any more."""
        asked = self.manifest["options"].get("precision")
        return None if self._kept.version.found.probability is None else asked

    def corrections(self) -> list[dict[str, Any]]:
        """What people said and nobody took back: one dict each, see `bagwise.app.runs.corrections.Correction`."""
        return [asdict(correction) for correction in self._corrections.in_force]

    @property
    def n_corrections(self) -> int:
        """How many things people said and nobody took back."""
        return len(self._corrections.in_force)

    def found(self) -> Found:
        """The findings as columns, with what was corrected since the last refit."""
        if self._found is None:
            version = self._kept.version
            is_new = self._corrections.calls == version.calls
            self._found = version.found if is_new else with_said(version.found, self.supervision())
        return self._found

    def supervision(self) -> Supervision:
        """The bags with all that was said of them."""
        if self._supervision is None:
            self._supervision = self._supervision_with([])
        return self._supervision

    def _supervision_with(self, more: Sequence[Correction]) -> Supervision:
        """The bags with all that was said of them, and with what is about to be."""
        material = self.material
        return put_together(material.dataset, material.sets, material.known, [*self._corrections.in_force, *more])

    def model(self) -> Any:
        """The fitted model in force."""
        return self._kept.model

    def label_issues(self, n: int = N_ISSUES) -> list[dict[str, Any]]:
        """Labels that may be missing or spurious, at most `n` of each kind; see `bagwise.app.runs.label_issues`."""
        return label_issues(self.model(), self.supervision(), n)

    def result(self) -> AnnotateResult:
        """Annotations and all that the page and the command line tell of them."""
        supervision, found, options = self.supervision(), self.found(), self.manifest["options"]
        unexplained = unexplained_labels(supervision, found)
        plain = Annotations(
            media_type=self.media_type,
            rows=self.annotations(),
            files=self.material.files,
            classes=[str(name) for name in found.classes],
            about=self.manifest["about"],
            folder=self.folder,
            max_noise=options["max_noise"],
            extra=(*(() if found.novel is None else (NOVEL,)), *(() if self.precision is None else (KEPT,))),
            unread=self.material.unread,
            names={label: (pair[0], pair[1]) for label, pair in options.get("names", {}).items()},
            served_from=Path(options["label_studio_root"]) if options.get("label_studio_root") else None,
        )
        annotations = in_field(plain, () if self._sites is None else self._sites["sites"])
        problems, learned = self.problems, not self.manifest["options"]["trained"] or self.version > 0
        return AnnotateResult(
            annotations=annotations,
            problems=problems + never_given(annotations, unexplained, problems, hard_labels(supervision).indistinct),
            unexplained=unexplained,
            outputs=[self.path / name for name in self.manifest.get("outputs", [])] + [self.path / NAME],
            form=self.material.form,
            n_reused=self.material.n_reused,
            label_sets=dict(zip(map(str, supervision.dataset.bag_names), supervision.dataset.label_sets, strict=True)),
            remarks=label_remarks(supervision, self.media_type) if learned else [],
            choice=self.manifest.get("choice", {}),
            dataset=self.material.dataset,
        )

    def _reliability(self) -> Reliability:
        """How far probabilities can be believed."""
        first, final = self._kept.first_version().found, final_step(self.model())
        bags = final.reliability() if isinstance(final, CalibratedAnnotator) else None
        return Reliability(bags is not None, bags, said_reliability(first, self.found()), self.precision)

    # -- corrections --------------------------------------------------------------------------------------------------

    def correct(self, corrections: Iterable[Any], *, absent: Iterable[tuple[str, str]] = (), by: str = "") -> None:
        """Say what instances really are; on disk (``corrections.csv``) when this returns.

        Parameters
        ----------
        corrections : list of (bag, instance, label)
            The label may be one that the bag does not list, or that is new to the run; "" says that the instance is
            noise; the label that was found confirms it. (bag, None, label) says that the bag carries the label.
        absent : list of (bag, label)
            Labels that bags do not carry, as `reject` says of one.
        by : str
            Who says so.

        Raises
        ------
        InputError
            If any of them is impossible; nothing is written then.
        """
        found, offsets = self.found(), self.material.dataset.bags.offsets
        entries = []
        checked = [check_correction(given, self._sizes) for given in corrections]
        self._check_unchanged({bag for bag, _, _ in checked})
        for bag, instance, label in checked:
            if instance is None:
                entries.append(Correction(bag, None, label, PRESENT, by=by))
                continue
            code = found.label[offsets[self._number[bag]] + instance]
            before = found.classes[code] if code >= 0 else ""
            action = CONFIRMED if label == before else LABEL if label else NOISE
            entries.append(Correction(bag, instance, label, action, before, by))
        rejected = list(absent)
        if rejected:
            supervision = self._supervision_with(entries) if entries else self.supervision()
            entries += [self._absent(supervision, bag, label, by) for bag, label in rejected]
        self._append(entries)

    def reject(self, bag: str, label: str, *, by: str = "") -> None:
        """Say that a bag does not carry a label; instances that a person named so are unknown again.

        Of a label that the bag does not list either, it says that nobody forgot it: `label_issues` asks no more.
        """
        self.correct([], absent=[(bag, label)], by=by)

    def _absent(self, supervision: Supervision, bag: str, label: str, by: str) -> Correction:
        bag, _, label = check_correction((bag, None, label), self._sizes)
        listed = supervision.dataset.label_sets[self._number[bag]]
        if listed is None or label not in {*self.labels, *supervision.dataset.class_names}:
            has = f"it lists {some_of(sorted(listed))}" if listed else "it lists no label"
            raise InputError(f"The bag {bag!r} does not list {label!r}; {has}. Nothing was taken away.")
        return Correction(bag, None, label, ABSENT, before=label if label in listed else "", by=by)

    def compare(self, path: str | Path, format: str | None = None) -> tuple[list[tuple[str, int, str]], list[Problem]]:
        """What somebody put right elsewhere: corrections for `correct`, and marks that fit no instance.

        Parameters
        ----------
        path : file or folder
            Annotations in a format that bagwise writes, edited in Raven, Audacity, Label Studio or by hand.
        format : str or None
            A name of `bagwise.app.formats.FORMATS`; None finds it out.
        """
        annotations = self.result().annotations
        return compare_marks(annotations, read_marks(path, annotations, format))

    def undo(self, *, write: bool = True) -> list[dict[str, Any]]:
        """Take back the last call of `correct` or `reject` that counts, and give what it said.

        Where a refit knew it, the model and the annotations from before that refit are there again. `write` says
        whether what is written for people follows at once; if not, the next `write` or `open` does it.

        Raises
        ------
        NotWrittenError
            If they were taken back, but what is for people could not be written.
        """
        self._kept.check_open()
        taken = self._corrections.undo()
        self._forget()
        if self._settle() and write:
            self._write_for_people("They were taken back")
        return [asdict(correction) for correction in taken]

    def _settle(self) -> bool:
        """Go back to the fit before what was taken back; gives whether what is written for people still knows it.

        ``corrections.csv`` alone says what counts, so the manifest may follow when the run is opened next.
        """
        went_back, calls = self._kept.leave_fits(self._corrections.calls), self._corrections.calls
        self._found = None
        if not went_back and set(calls).issuperset(self.manifest.get("written", [])):
            return False
        with suppress(OSError):
            self._kept.commit(self._kept.versions)
        return True

    def _append(self, entries: Sequence[Correction]) -> None:
        self._kept.check_open()
        if entries:
            self._corrections.append(entries)
            self._forget()

    def _check_unchanged(self, bags: Iterable[str]) -> None:
        """Refuse to speak of instances that may be others in the file by now; a file that is gone is no news."""
        names = {self.file_of(bag): bag for bag in bags}
        for name, bag in names.items():
            if not (self.folder / name).exists():
                continue
            if self._source(name).key(name) != self.material.entries[name]:
                raise InputError(
                    f"{self.folder / name} changed since it was annotated, so the instances of {bag!r} may be others "
                    "now; run the bagwise annotate that made the run once more. Nothing was written."
                )

    def file_of(self, bag: str) -> str:
        """The file, relative to `folder`, that a bag comes from."""
        if self.media_type.name == TABLE:
            return self.material.files[0]["file"]
        dataset = self.material.dataset
        assert dataset.locations is not None
        return str(dataset.locations["file"][dataset.bags.offsets[self._number[bag]]])

    def _source(self, name: str) -> Source:
        identity = self.manifest["identity"]
        settings = self.media_type.make_settings(identity["settings"])
        return Source(
            self.media,
            self.media_type,
            settings,
            [name],
            identity.get("options", {}),
            embedded=identity.get("embedded"),
        )

    # -- fitting again ------------------------------------------------------------------------------------------------

    def refit(
        self,
        callback: Callback | None = None,
        *,
        progress: Progress | None = None,
        page: bool | None = None,
        write: bool = True,
    ) -> Refit:
        """Learn again with all corrections, from the last weights on, and write everything again.

        Corrections enter as known instances and corrected label sets. The model before is kept: `undo` goes back to it.

        Parameters
        ----------
        callback : callable or None
            Called after every iteration with its number and the objective.
        progress : callable or None
            Called with what is done, how much and of how much.
        page : bool or None
            Whether the page is written; None as when the run was made.
        write : bool
            Whether what is for people is written at once; if not, the next `write` or `open` does it.

        Raises
        ------
        NotWrittenError
            If the model is learned and kept, but what is for people could not be written.
        """
        self._kept.check_open()
        calls, before = self._corrections.calls, self._kept.version
        if calls == before.calls:
            if write:
                self.write(progress=progress, page=page)
            return Refit(self.version, 0, self.problems)
        supervision = self.supervision()
        model = load(self._kept.model_path)
        problems = self._fit(model, supervision, callback)
        found = find_labels(model, supervision)
        number = max(version["number"] for version in self._kept.versions) + 1
        self.add_version(model, Version(number, calls, found, problems))
        if write:
            self._write_for_people("The model was learned and is kept", progress=progress, page=page)
        changed = _names(before.found) != _names(found)
        return Refit(number, int(np.sum(changed)), self.problems)

    def _fit(self, model: Any, supervision: Supervision, callback: Callback | None) -> list[Problem]:
        """Fit the model again, starting from its weights where it can."""
        final, recipe = learner_inside(model), getattr(model, RECIPE)
        warm = bag_tags(model).warm_start and not final.get_params()["warm_start"]
        if warm:
            final.set_params(warm_start=True)
        problems = fit_supervised(
            model, self._with_training_run(supervision), checkpoint=self.path / STATE / "fit", callback=callback
        )
        if warm:
            final.set_params(warm_start=False)
        setattr(model, RECIPE, recipe)
        return problems

    def _with_training_run(self, supervision: Supervision, seen: tuple[Path, ...] = ()) -> Supervision:
        """Where the model was trained by another run, the bags of that run too: it must not forget them."""
        if not self.manifest["options"]["trained"]:
            return supervision
        folder = Path(self.manifest["identity"]["model"]).parent
        seen = (*seen, self.path.resolve())
        try:
            if folder.resolve() in seen:
                raise InputError(f"{folder} names itself as the run that trained its model.")
            other = Run._open(folder, finish=False)  # it is read, and written only by who opens it for itself
        except InputError as error:
            raise InputError(
                "The model of this run was trained by another one, whose bags are needed to learn again, and that one "
                f"cannot be opened: {error}"
            ) from error
        with other:
            return join_supervision(other._with_training_run(other.supervision(), seen), supervision)

    def add_version(self, model: Any, version: Version) -> None:
        """Keep model and annotations of a fit, then make them the run's."""
        recipe = getattr(model, RECIPE)
        about = {"model": recipe["model"], **settings_of(model), "feature_names": recipe["feature_names"]}
        self._kept.add(model, about, version)
        self._found = None

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(
        self, formats: Sequence[str] | None = None, *, progress: Progress | None = None, page: bool | None = None
    ) -> AnnotateResult:
        """Write annotations, model and page for people, as they are now.

        Parameters
        ----------
        formats : list of str or None
            Instead of those that the run was made with.
        progress : callable or None
        page : bool or None
            Whether the page is written; None as when the run was made.
        """
        self._kept.check_open()
        options = self.manifest["options"]
        result = replace(
            self.result(),
            label_issues=label_issues(self.model(), self.supervision(), N_ISSUES),
            reliability=self._reliability(),
        )
        written = write_run(
            self._kept,
            result,
            options["formats"] if formats is None else check_formats(formats, self.media_type),
            self.media,
            page=options["page"] if page is None else page,
            calls=self._corrections.calls,
            progress=progress,
        )
        self._unwritten = []
        return written

    def _write_for_people(self, done: str, **options: Any) -> None:
        """Write what follows from something that is done and kept."""
        try:
            self.write(**options)
        except OSError as error:
            raise NotWrittenError(
                f"{done}, but the files for people in {self.path} are older now and could not be written "
                f"({in_words(error)}); they are written when the run is opened next."
            ) from error


def _names(found: Found) -> np.ndarray:
    """(m,) label of each instance, "" where there is none."""
    return as_column([*found.classes, ""])[found.label]


def _moved(path: Path) -> str:
    return (
        f"{path} is not there any more: annotations can be read, corrected and learned from, but nothing can be shown "
        "or played. Say where it is now (--media)."
    )
