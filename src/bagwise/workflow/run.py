"""A run: annotations that can be reopened, corrected and fitted again.

The folder of a run holds its manifest, ``.features`` (the bags of each file), ``.run`` (what was said when it was made,
and for each fit in force its model and findings), ``corrections.csv``, and what is written for people. The manifest is
replaced in one step, so that a run is always that of some moment, whenever the process is killed: what it names is
complete, and what was half written for people is written again when the run is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.dataset import as_column
from bagwise.exceptions import InputError
from bagwise.featurize.media import check_medium
from bagwise.io import load, save
from bagwise.io.annotations import Annotations, check_formats, read_marks, write_formats
from bagwise.io.annotations.compare import compare_marks
from bagwise.io.files import atomic_write
from bagwise.pipeline import bag_tags, final_step
from bagwise.report.field import write_field_tables
from bagwise.report.page import write_page
from bagwise.report.result import AnnotateResult, Problem
from bagwise.report.trust import Trust
from bagwise.solvers.result import Callback
from bagwise.workflow.corrections import (
    ABSENT,
    CONFIRMED,
    FILE,
    LABEL,
    NOISE,
    PRESENT,
    Correction,
    CorrectionLog,
    calls_of,
    check_correction,
    misfit,
    some_of,
)
from bagwise.workflow.create import create_run
from bagwise.workflow.doubtful import N_DOUBTFUL, doubtful_labels
from bagwise.workflow.featurize import Progress
from bagwise.workflow.find import (
    KEPT,
    UNLIKE,
    Found,
    find_labels,
    finding_rows,
    keep_for_precision,
    said_reliability,
    with_said,
)
from bagwise.workflow.fit import fit_told
from bagwise.workflow.learner import RECIPE, settings_of
from bagwise.workflow.manifest import (
    FINISHED,
    NAME,
    STATE,
    WRITING,
    finish_run,
    lock_descriptors,
    lock_run,
    open_manifest,
    unlock_run,
    write_manifest,
)
from bagwise.workflow.material import TABLE, Material, Source, read_told, reopen_material
from bagwise.workflow.remarks import hard_labels, label_remarks
from bagwise.workflow.sites import Site, in_field, site_problems
from bagwise.workflow.told import Told, join_told, put_together
from bagwise.workflow.unexplained import never_given, unexplained_labels
from bagwise.workflow.version import MODEL_FILE, Version, forget_versions, read_version, version_folder, write_version

PAGE = "report.html"


@dataclass(frozen=True)
class Refit:
    """What a refit did: the number of the version, instances whose label changed, and what is wrong."""

    version: int
    changed: int
    problems: list[Problem]


class Run:
    """Annotations of the files of a folder or of the bags of a table, with the model that made them.

    Made by `bagwise annotate` or `Run.create`, opened with `Run.open`. While it is open no other process can write to
    it; `close`, or the end of a ``with`` block, lets go.

    Attributes
    ----------
    path : Path
    medium : Medium
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
        self.manifest = manifest
        self.material = material
        self.medium = check_medium(manifest["identity"]["medium"])
        self._lock: Path | None = lock
        self._log = CorrectionLog(path / FILE)
        self._n_reused = material.n_reused
        dataset = material.dataset
        self._number = {name: i for i, name in enumerate(dataset.bag_names)}
        self._sizes = dict(zip(dataset.bag_names, dataset.bags.sizes.tolist(), strict=True))
        self._version: Version | None = None
        self._forget()

    def _forget(self) -> None:
        """Work out again, when it is asked for, what follows from the corrections."""
        self._fitting: tuple[list[Correction], list[Problem]] | None = None
        self._told: Told | None = None
        self._found: Found | None = None

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
        path = Path(path)
        open_manifest(path)
        lock = path.resolve() if lent else lock_run(path)
        try:
            manifest = open_manifest(path)  # as it is now that nobody else writes
            medium = check_medium(manifest["identity"]["medium"])
            settings = medium.kept_settings(manifest["identity"]["settings"])
            embedded = manifest["identity"].get("embedded")
            run = cls(path, manifest, reopen_material(path, medium, settings, read_told(path), embedded), lock)
            if media is not None:
                run.manifest["media"] = str(Path(media).resolve())
            if manifest["status"] == WRITING and not lent:
                run.write()
        except BaseException:
            unlock_run(lock)
            raise
        return run

    @classmethod
    def create(cls, source: str | Path, out: str | Path, **options: Any) -> Run:
        """Annotate a folder of media or a file of bags; `bagwise.workflow.create.create_run` tells all options."""
        return create_run(cls, Path(source), Path(out), **options)

    def reload(self) -> None:
        """Take over what a process to which the run was lent has written."""
        self._check_open()
        media = self.manifest.get("media")
        self.manifest = open_manifest(self.path) | ({} if media is None else {"media": media})
        self._version = None  # another fit may bear the number of one that was taken back
        self._forget()

    @property
    def lock_descriptors(self) -> tuple[int, ...]:
        """What a process to which the run is lent must inherit: nobody else opens the run then while that one lives."""
        return () if self._lock is None else lock_descriptors(self._lock)

    def close(self) -> None:
        """Let other processes have the run."""
        if self._lock is not None:
            unlock_run(self._lock)
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<Run: {self.path}, {len(self._sizes)} bags, version {self.version}>"

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of the fit that the annotations come from; 0 is that of `bagwise annotate`."""
        return self.manifest["versions"][-1]["number"]

    @property
    def media(self) -> Path:
        """Where the media or the table are, or were when the run was made."""
        return Path(self.manifest.get("media") or self.manifest["identity"]["folder"])

    @property
    def folder(self) -> Path:
        """The folder in which the files that `annotations` names lie."""
        return self.media.parent if self.medium.name == TABLE else self.media

    @property
    def labels(self) -> list[str]:
        """All labels of the run, those that were added by corrections too."""
        return sorted({*self._current().found.classes, *self.told().dataset.class_names})

    @property
    def problems(self) -> list[Problem]:
        """Files, rows, labels and corrections that could not be used or that look wrong: name and message."""
        moved = [] if self.media.exists() else [(str(self.media), _moved(self.media))]
        own = [*self.material.problems, *self._current().problems, *self._corrections()[1]]
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
        said so; "unlike", whether it is unlike anything in training, where the model can tell; "kept", whether it is in
        the set of which a precision was promised, where one was asked for. What was corrected since the last refit is
        in it; what follows from that comes with the next.
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
        asked = self.manifest["options"].get("precision")  # not there in runs of earlier versions
        return None if self._current().found.probability is None else asked

    def corrections(self) -> list[dict[str, Any]]:
        """What people said and nobody took back: one dict each, see `bagwise.workflow.corrections.Correction`."""
        return [asdict(correction) for correction in self._corrections()[0]]

    @property
    def n_corrections(self) -> int:
        """How many things people said and nobody took back."""
        return len(self._corrections()[0])

    def found(self) -> Found:
        """The findings as columns, with what was corrected since the last refit."""
        if self._found is None:
            version = self._current()
            is_new = calls_of(self._corrections()[0]) == version.calls
            self._found = version.found if is_new else with_said(version.found, self.told())
        return self._found

    def told(self) -> Told:
        """The bags with all that was said of them."""
        if self._told is None:
            material = self.material
            self._told = put_together(material.dataset, material.sets, material.known, self._corrections()[0])
        return self._told

    def doubtful_labels(self, n: int = N_DOUBTFUL) -> list[dict[str, Any]]:
        """Labels that somebody may have forgotten or made up, at most `n` of each kind; see `workflow.doubtful`."""
        return doubtful_labels(load(version_folder(self.path, self.version) / MODEL_FILE), self.told(), n)

    def result(self) -> AnnotateResult:
        """Annotations and all that the page and the command line tell of them."""
        told, found, options = self.told(), self.found(), self.manifest["options"]
        unexplained = unexplained_labels(told, found)
        plain = Annotations(
            medium=self.medium,
            rows=self.annotations(),
            files=self.material.files,
            classes=[str(name) for name in found.classes],
            about=self.manifest["about"],
            folder=self.folder,
            max_noise=options["max_noise"],
            extra=(*(() if found.unlike is None else (UNLIKE,)), *(() if self.precision is None else (KEPT,))),
            unread=self.material.unread,
            names={label: (pair[0], pair[1]) for label, pair in options.get("names", {}).items()},
            served_from=Path(options["label_studio_root"]) if options.get("label_studio_root") else None,
        )
        annotations = in_field(plain, () if self._sites is None else self._sites["sites"])
        problems, learned = self.problems, not self.manifest["options"]["trained"] or self.version > 0
        return AnnotateResult(
            annotations=annotations,
            problems=problems + never_given(annotations, unexplained, problems, hard_labels(told).untold),
            unexplained=unexplained,
            outputs=[self.path / name for name in self.manifest.get("outputs", [])] + [self.path / NAME],
            form=self.material.form,
            n_reused=self._n_reused,
            label_sets=dict(zip(map(str, told.dataset.bag_names), told.dataset.label_sets, strict=True)),
            remarks=label_remarks(told, self.medium) if learned else [],
            choice=self.manifest.get("choice", {}),
            dataset=self.material.dataset,
        )

    def _trust(self, model: Any) -> Trust:
        """How far probabilities can be believed."""
        first = read_version(
            self.path, self.manifest["versions"][0]["number"], self.material.dataset.bags.n_instances
        ).found
        final = final_step(model)
        return Trust(
            hasattr(final, "temperature_"), getattr(final, "bag_reliability_", None),
            said_reliability(first, self.found()), self.precision,
        )  # fmt: skip

    def _current(self) -> Version:
        if self._version is None or self._version.number != self.version:
            self._version = read_version(self.path, self.version, self.material.dataset.bags.n_instances)
        return self._version

    def _corrections(self) -> tuple[list[Correction], list[Problem]]:
        """The corrections that count, and what is wrong with those that do not fit the run."""
        if self._fitting is None:
            fitting, problems = [], []
            for correction in self._log.in_force():
                problem = misfit(correction.bag, correction.instance, self._sizes)
                if problem is None:
                    fitting.append(correction)
                    continue
                row = self._log.rows.get(correction.call)
                where = f"{self._log.path}, row {row}" if row else f"{self._log.path}, call {correction.call}"
                problems.append((correction.bag, f"{where}: {problem} It is not used; mend or remove the row."))
            self._fitting = fitting, problems
        return self._fitting

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
        self._append([*entries, *(self._absent(bag, label, by) for bag, label in absent)])

    def reject(self, bag: str, label: str, *, by: str = "") -> None:
        """Say that a bag does not carry a label; instances that a person named so are unknown again.

        Of a label that the bag does not list either, it says that nobody forgot it: `doubtful_labels` asks no more.
        """
        self.correct([], absent=[(bag, label)], by=by)

    def _absent(self, bag: str, label: str, by: str) -> Correction:
        bag, _, label = check_correction((bag, None, label), self._sizes)
        listed = self.told().dataset.label_sets[self._number[bag]]
        if listed is None or label not in self.labels:
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
            A name of `bagwise.io.annotations.FORMATS`; None finds it out.
        """
        annotations = self.result().annotations
        return compare_marks(annotations, read_marks(path, annotations, format))

    def undo(self, *, write: bool = True) -> list[dict[str, Any]]:
        """Take back the last call of `correct` or `reject` that counts, and give what it said.

        Where a refit knew it, the model and the annotations from before that refit are there again. `write` says
        whether what is written for people follows at once; if not, the next `write` or `open` does it.
        """
        self._check_open()
        taken = self._log.undo()
        self._forget()
        calls = set(calls_of(self._corrections()[0]))
        versions = list(self.manifest["versions"])
        while len(versions) > 1 and not calls.issuperset(versions[-1]["calls"]):
            versions.pop()
        if len(versions) < len(self.manifest["versions"]):
            self._commit(versions)
        if not calls.issuperset(self.manifest["written"]):  # what is written for people knows it
            if write:
                self.write()
            else:
                self._commit(versions)
        return [asdict(correction) for correction in taken]

    def _append(self, entries: Sequence[Correction]) -> None:
        self._check_open()
        if entries:
            self._log.append(entries)
            self._forget()

    def _check_open(self) -> None:
        if self._lock is None:
            raise InputError(f"The run in {self.path} was closed; open it again with Run.open.")

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
        if self.medium.name == TABLE:
            return self.material.files[0]["file"]
        dataset = self.material.dataset
        assert dataset.locations is not None
        return str(dataset.locations["file"][dataset.bags.offsets[self._number[bag]]])

    def _source(self, name: str) -> Source:
        identity = self.manifest["identity"]
        settings = self.medium.kept_settings(identity["settings"])
        return Source(
            self.media, self.medium, settings, [name], identity.get("options", {}), embedded=identity.get("embedded")
        )

    # -- fitting again ------------------------------------------------------------------------------------------------

    def refit(
        self, callback: Callback | None = None, *, progress: Progress | None = None, page: bool | None = None,
        write: bool = True,
    ) -> Refit:  # fmt: skip
        """Learn again with all corrections, from the last weights on, and write everything anew.

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
        """
        self._check_open()
        calls, before = calls_of(self._corrections()[0]), self._current()
        if calls == before.calls:
            if write:
                self.write(progress=progress, page=page)
            return Refit(self.version, 0, self.problems)
        told = self.told()
        model = load(version_folder(self.path, self.version) / MODEL_FILE)
        problems = self._fit(model, told, callback)
        found = find_labels(model, told)
        number = max(version["number"] for version in self.manifest["versions"]) + 1
        self.add_version(model, Version(number, calls, found, problems))
        if write:
            self.write(progress=progress, page=page)
        changed = _names(before.found) != _names(found)
        return Refit(number, int(np.sum(changed)), self.problems)

    def _fit(self, model: Any, told: Told, callback: Callback | None) -> list[Problem]:
        """Fit the model again, starting from its weights where it can."""
        final, recipe = final_step(model), getattr(model, RECIPE)
        warm = bag_tags(model).warm_start and not final.get_params()["warm_start"]
        if warm:
            final.set_params(warm_start=True)
        problems = fit_told(
            model, self._with_training_run(told), checkpoint=self.path / STATE / "fit", callback=callback
        )
        if warm:
            final.set_params(warm_start=False)
        setattr(model, RECIPE, recipe)
        return problems

    def _with_training_run(self, told: Told) -> Told:
        """Where the model was trained by another run, the bags of that run too: it must not forget them."""
        if not self.manifest["options"]["trained"]:
            return told
        folder = Path(self.manifest["identity"]["model"]).parent
        try:
            other = Run.open(folder)
        except InputError as error:
            raise InputError(
                "The model of this run was trained by another one, whose bags are needed to learn again, and that one "
                f"cannot be opened: {error}"
            ) from error
        with other:
            return join_told(other._with_training_run(other.told()), told)

    def add_version(self, model: Any, version: Version) -> None:
        """Keep model and findings of a fit, then make them the run's."""
        folder = version_folder(self.path, version.number)
        folder.mkdir(parents=True, exist_ok=True)
        recipe = getattr(model, RECIPE)
        about = {"model": recipe["model"], **settings_of(model), "feature_names": recipe["feature_names"]}
        save(model, folder / MODEL_FILE, about)
        write_version(self.path, version)
        self._version = version
        entry = {"number": version.number, "calls": version.calls}
        self._commit([*self.manifest.get("versions", []), entry])

    def _commit(self, versions: list[dict[str, Any]]) -> None:
        """From here on the run is that of the last of these versions, whatever happens."""
        self.manifest = {**self.manifest, "versions": versions, "status": WRITING}
        write_manifest(self.path, self.manifest)
        forget_versions(self.path, [version["number"] for version in versions])
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
        self._check_open()
        options = self.manifest["options"]
        names = options["formats"] if formats is None else check_formats(formats, self.medium)
        result = self.result()
        outputs, problems = self._write_formats(result.annotations, names)
        outputs += write_field_tables(result.annotations, self.path)
        model = load(version_folder(self.path, self.version) / MODEL_FILE)
        result = replace(
            result, problems=result.problems + problems, doubtful=doubtful_labels(model, self.told(), N_DOUBTFUL),
            trust=self._trust(model),
        )  # fmt: skip
        if not options["trained"] or self.version > 0:
            with atomic_write(self.path / MODEL_FILE) as file:
                file.write((version_folder(self.path, self.version) / MODEL_FILE).read_bytes())
            outputs.append(self.path / MODEL_FILE)
        if options["page"] if page is None else page:
            outputs += write_page(result, self.path / PAGE, progress or (lambda what, done, total: None))
        annotations = result.annotations
        self.manifest = {
            **self.manifest,
            "written": calls_of(self._corrections()[0]),
            "max_noise": annotations.max_noise,
            "classes": annotations.classes,
            "files": annotations.files,
            "instances": len(annotations.rows),
            "problems": [{"name": name, "message": message} for name, message in result.problems],
            "unexplained": [{"bag": name, "labels": labels} for name, labels in result.unexplained],
            "remarks": result.remarks,
            "outputs": [path.relative_to(self.path).as_posix() for path in outputs],
            "status": FINISHED,
        }
        finish_run(self.path, self.manifest)
        return replace(result, outputs=[*outputs, self.path / NAME])

    def _write_formats(self, annotations: Annotations, names: Sequence[str]) -> tuple[list[Path], list[Problem]]:
        """Write the formats; one that needs media which are gone stays as it was, and is named."""
        outputs: list[Path] = []
        problems: list[Problem] = []
        for name in names:
            try:
                outputs += write_formats(annotations, self.path, [name])
            except (OSError, InputError) as error:
                if self.media.exists():
                    raise
                old = [self.path / path for path in self.manifest.get("outputs", []) if path.startswith(name)]
                outputs += [path for path in old if path.exists()]
                problems.append((name, f"{name} was not written anew, since the media are gone: {error}"))
        return outputs, problems


def _names(found: Found) -> np.ndarray:
    """(m,) label of each instance, "" where there is none."""
    return as_column([*found.classes, ""])[found.label]


def _moved(path: Path) -> str:
    return (
        f"{path} is not there any more: annotations can be read, corrected and learned from, but nothing can be shown "
        "or played. Say where it is now (--media)."
    )
