"""A run: annotations that can be reopened, corrected and fitted again.

The folder of a run holds its manifest, ``.features`` (the bags of each file), ``.run`` (the labels it was made with,
and for each fit in force its model and predictions), ``corrections.csv``, and what is written for people. `Run` joins
`RunFolder` (manifest, lock, fits), `Material` (bags and given labels) and `CorrectionLog`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import load
from bagwise.app.formats import (
    Annotations,
    Edits,
    check_formats,
    compare_marks,
    find_edits,
    formats_of,
    read_marks,
    write_formats,
)
from bagwise.app.formats.names import read_names
from bagwise.app.labels.sites import Site, check_sites, in_field, read_sites, site_problems
from bagwise.app.labels.tables import Selections
from bagwise.app.media.embedding import Embedding
from bagwise.app.media.files import Problem
from bagwise.app.media.recipe import RECIPE
from bagwise.app.report.facts import remarks_on_labels, remarks_on_lengths
from bagwise.app.report.field import write_field_tables
from bagwise.app.report.page import check_page_can_be_made, write_page
from bagwise.app.report.summary import AnnotateResult, Reliability, expected_in_words
from bagwise.app.runs import boxes
from bagwise.app.runs._features import Progress, Source, value_fingerprint
from bagwise.app.runs._material import (
    Material,
    find_source,
    holds,
    holds_windows,
    in_windows,
    read_label_table,
    read_material,
    reopen_material,
    reopen_source,
)
from bagwise.app.runs._observed import ObserverRates
from bagwise.app.runs._scale import choose_scale
from bagwise.app.runs.choose import WINDOWS, network_in_words, network_row
from bagwise.app.runs.corrections import (
    ABSENT,
    ALSO,
    FILE,
    OUTDATED,
    PRESENT,
    Correction,
    CorrectionLog,
    check_correction,
)
from bagwise.app.runs.discover import novel_groups
from bagwise.app.runs.folder import (
    MODEL_FILE,
    NAME,
    STATE,
    UNFINISHED,
    WRITING,
    RunFolder,
    Version,
)
from bagwise.app.runs.label_sets import check_label_set, label_set_entries, row_per_label
from bagwise.app.runs.layout import RunLayout, row_finder, some_of
from bagwise.app.runs.learner import (
    CALIBRATED,
    about_model,
    check_model,
    fit_supervised,
    learn,
    learn_of_observers,
    learner_inside,
    load_trained,
    may_carry_several,
    settings_of,
)
from bagwise.app.runs.options import DEFAULT_MODEL, NOISE_SHARE, RunOptions
from bagwise.app.runs.predictions import (
    KEPT,
    MOST_NOISE,
    N_ISSUES,
    NOVEL,
    Predictions,
    label_issues,
    never_given,
    predict_labels,
    unexplained_labels,
)
from bagwise.app.runs.supervision import Supervision, hard_labels
from bagwise.app.runs.survey import draw, drawn_rows, estimate, hourly_activity
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError, in_words
from bagwise.io.files import atomic_write, file_fingerprint, inside, open_ended
from bagwise.pipeline import bag_tags, classes_of, final_step
from bagwise.solvers.result import Callback

PAGE = "report.html"


@dataclass(frozen=True)
class Refit:
    """What a refit did: the number of the version, instances whose label changed, and what is wrong.

    Examples
    --------
    >>> from bagwise.app.runs import Refit
    >>> Refit(version=1, changed=12, problems=[])
    Refit(version=1, changed=12, problems=[])
    """

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
        The bags, with the boxes that people drew, and the labels that were given when the run was made.
    boxes : Boxes
        What is known of these boxes.
    source : Source
        Where the bags come from and how they are read.
    media : Path
        Where the media or the table are, or were when the run was made.
    folder : Path
        The folder in which the files that `annotations` names lie.

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

    def __init__(self, folder: RunFolder, material: Material):
        self.path = folder.path
        self.source = reopen_source(folder.manifest)
        self.media_type, self.media, self.folder = self.source.media_type, self.source.path, self.source.folder
        self.boxes = boxes.Boxes(folder.path, self.source, material)
        self._sizes = self.boxes.sizes
        self._folder = folder
        folder.count = lambda calls: len(self._corrections.layout_at(calls).rows().bag)
        self._corrections = CorrectionLog(open_ended(folder.path, FILE), self._sizes, self.boxes.rooms)
        self._numbered: tuple[list[str], dict[str, int]] = [], {}
        self._aligned: tuple[Version, RunLayout, list[Correction], Predictions] | None = None
        self._unwritten: list[Problem] = []
        self._forget()
        folder.leave_fits(self._corrections.calls)

    def _forget(self) -> None:
        """Work out again, when it is asked for, what follows from the corrections and the fit in force."""
        self._supervision: Supervision | None = None
        self._predictions: Predictions | None = None

    @property
    def layout(self) -> RunLayout:
        """Which instances there are."""
        return self._corrections.layout

    @property
    def material(self) -> Material:
        """The bags, with the boxes that people drew, and the labels that were given when the run was made."""
        return self.boxes.material(self.layout)

    @property
    def _number(self) -> dict[str, int]:
        names = self.material.dataset.bag_names
        if self._numbered[0] is not names:
            self._numbered = names, {name: i for i, name in enumerate(names)}
        return self._numbered[1]

    def row_of(self, bag: str, instance: int) -> int:
        """The row, among all instances, of one that there is."""
        row = row_finder(self.material.dataset)(self._number[bag], instance)
        assert row is not None
        return row

    @property
    def manifest(self) -> dict[str, Any]:
        """What ``manifest.json`` says."""
        return self._folder.manifest

    # -- making -------------------------------------------------------------------------------------------------------

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
        """Annotate all media of a folder, or all bags of a file, and make a run of it.

        Parameters
        ----------
        source : path
            A folder of recordings, pictures, texts or series (folders below it are searched too), or a file of bags.
        out : path
            Folder for the results. If it holds the same run, unfinished or not, what is done is not done again;
            corrections that were made in it stay.
        progress : callable or None
            Called with what is done, how much and of how much.
        say : callable or None
            Called before the fit with each remark on the labels: those that cannot be distinguished.
        **options
            The fields of `bagwise.app.runs.options.RunOptions`.
        """
        place, asked = Path(out), RunOptions(**options)
        step, say = progress or (lambda what, done, total: None), say or (lambda text: None)
        trained = None if asked.model is None else load_trained(asked.model)
        recipe = None if trained is None else getattr(trained, RECIPE)
        table = read_label_table(asked)
        check_model(asked, trained, has_known=isinstance(table, Selections))
        _check_places(Path(source), place, None if trained is None else Path(str(asked.model)))
        if trained is None and asked.labels is None and not Path(source).is_file():
            raise InputError("There is nothing to learn from: give labels (--labels), or a trained model (--model).")
        found = find_source(Path(source), asked, exclude=[place], labels=table, trained=recipe)
        if asked.model is None:
            choose = holds_windows(found) and not (asked.learner or asked.select)
            asked = replace(asked, model=WINDOWS if choose else DEFAULT_MODEL)
        if asked.cluster is not None and found.is_table:
            raise InputError(f"--cluster reads media, and {source} is a file of bags; leave it out.")
        if asked.page:
            check_page_can_be_made()
        if asked.model == DEFAULT_MODEL and asked.noise_share <= NOISE_SHARE and in_windows(found):
            say(
                f"Windows without a call are background, and a share of {asked.noise_share:g} of all windows is "
                "expected to be that; in most recordings it is more: say how much (--noise-share 0.6)."
            )
        if licence := (found.embedded or {}).get("licence"):
            say(f"Vectors of {licence}.")
        kept = {**_writing_options(asked, found), "trained": trained is not None}
        folder = RunFolder(place)
        try:
            before = folder.earlier()
            if isinstance(found.vectors, Embedding):
                vectors = found.vectors.as_before(before.get("identity", {}).get("embedded"))
                found = replace(found, vectors=vectors, embedded=vectors.about)
            resolution, n_read = before.get("resolution", {}), 0
            if resolution.get("asked") == found.settings.to_dict():  # as it was chosen when the run was begun
                found = replace(found, settings=found.media_type.make_settings(before["identity"]["settings"]))
            identity = _identity(asked, found)
            if before.get("identity") != identity:
                resolution = {}
            old = folder.start(identity, asked.overwrite)
            if not resolution and trained is None and not found.is_table and not old.get("versions"):
                settings, resolution, n_read = choose_scale(found, place, table, asked, step)
                found = replace(found, settings=settings)
                identity = _identity(asked, found)
                folder.write({"identity": identity, "resolution": resolution, "status": UNFINISHED})
            several = may_carry_several(asked, trained)
            material = read_material(found, place, table, asked, step, several=several)
            material = replace(material, n_reused=max(0, material.n_reused - n_read))  # before this command
            material = _without_useless(material, kept["formats"], trained)
            _outdate_corrections(folder, material)
            for note in found.media_type.notes(material.files):
                say(note)
            supervision = material.supervision()
            if trained is None:
                hard = hard_labels(supervision.dataset, supervision.known)
                remarks = remarks_on_labels(hard, found.media_type) + _remarks_on_lengths(found, material)
                for remark in remarks + _remarks_on_network(supervision.dataset):
                    say(remark)
            model_print = None if trained is None else file_fingerprint(str(asked.model))
            manifest = {
                "identity": identity,
                **({"resolution": resolution} if resolution else {}),
                "options": kept,
                "fitted": value_fingerprint(
                    [material.to_dict(), identity, asked.noise_share, asked.folds, model_print]
                ),
                "outputs": old.get("outputs", []),
                "prints": old.get("prints", {}),
            }
            if old.get("fitted") == manifest["fitted"] and old.get("versions"):
                same = {name: old[name] for name in ("versions", "about", "selected", "choice") if name in old}
                folder.manifest = manifest | same
                run = cls(folder, material)
                _limit_noise(kept, run.model())
            else:
                folder.write({**manifest, "status": UNFINISHED})
                model, problems, how, rates = trained, list[Problem](), dict[str, Any](), None
                step("learning", 0, 0)
                if model is None:
                    _check_labelled(supervision, material.problems)
                    model, problems, how, rates = learn(asked, material, place / STATE / "fit", found, step)
                step("learning", 1, 1)
                folder.write_supervision(material.to_dict())
                folder.manifest = {**folder.manifest, **how, "about": about_model(model)}
                run = cls(folder, material)
                first = predict_labels(model, material.supervision(rates=rates))
                if trained is None:
                    getattr(model, RECIPE)["max_noise"] = first.noise_limit(asked.noise_share)
                _limit_noise(kept, model)  # from the next line on the run can be opened
                run.add_version(model, Version(0, [], first, problems, rates))
            if run.n_corrections:
                run.refit(progress=step)  # corrections come after the first fit
            else:
                run.write(progress=step)
            return run
        except BaseException:
            folder.close()
            raise

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
        folder = RunFolder.open(path, lent=lent)
        try:
            if media is not None:
                folder.manifest["media"] = str(Path(media).resolve())
            run = cls(folder, reopen_material(path, reopen_source(folder.manifest), folder.read_supervision()))
            check_formats(run.manifest["options"]["formats"], run.media_type)
            if finish:
                run._catch_up()
        except BaseException:
            folder.close()
            raise
        return run

    def _catch_up(self) -> None:
        """Do what was left undone when the run was in use last; a run on a full disk can be opened all the same."""
        with suppress(OSError):  # what is not set aside is named among the problems too, and does not count either
            self._corrections.set_aside()
        self._settle()
        if self.manifest["status"] == WRITING:
            try:
                self.write()
            except OSError as error:
                text = f"The files for people in {self.path} are older than the run and could not be written: "
                self._unwritten = [(self.path.name, text + in_words(error))]

    def reload(self) -> None:
        """Take over what a process to which the run was lent has written."""
        self._folder.check_open()
        self._folder.reload()
        self._forget()
        self._folder.leave_fits(self._corrections.calls)

    @property
    def lock_descriptors(self) -> tuple[int, ...]:
        """What a process to which the run is lent must inherit: nobody else opens the run then while that one lives."""
        return self._folder.lock_descriptors

    def close(self) -> None:
        """Let other processes have the run."""
        self._folder.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_folder"):
            self.close()

    def __repr__(self) -> str:
        return f"<Run: {self.path}, {len(self._sizes)} bags, version {self.version}>"

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of the fit that the annotations come from; 0 is that of `bagwise annotate`."""
        return self._folder.number

    @property
    def labels(self) -> list[str]:
        """All labels of the run, those that were added by corrections too."""
        return sorted({*self._folder.version.predictions.classes, *self.supervision().dataset.class_names})

    @property
    def problems(self) -> list[Problem]:
        """Files, rows, labels and corrections that could not be used or that look wrong: name and message."""
        moved = [] if self.media.exists() else [(str(self.media), _moved(self.media))]
        own = [*self.material.problems, *self._folder.version.problems, *self._corrections.problems, *self._unwritten]
        table = self.sites
        if table is not None:
            names = [file["file"] for file in self.material.files]
            own += site_problems([Site(**site) for site in table["sites"]], names, table["table"])
        return [*moved, *own]

    @property
    def sites(self) -> dict[str, Any] | None:
        """The table of sites that the run was made with: its path, and what stood in it."""
        return self.manifest["options"].get("sites")

    def annotations(self) -> list[dict[str, Any]]:
        """What is known of every instance: one dict each, with the stable key "bag" and "instance".

        Also "file", places, "label" ("" for noise that a person named, and in bags without labels), "probability" (of
        the label), "runner_up", "noise" (probability of belonging to no label), "mode", and "checked": whether a person
        said so; "novel", whether it is out of the distribution of the training set, where the model can
        tell; "kept", whether it is in the set that is kept for a precision, where one was asked for. Where instances
        carry any number of labels, "label" is the most probable one ("" where there is none), and "labels" lists all of
        them, each a dict with "label", "probability" and, where a precision was asked for, "kept". What was corrected
        since the last refit is in it; what follows from that comes with the next.
        """
        predictions = self.predictions()
        columns = predictions.columns(self.material.dataset) | {"checked": predictions.checked.tolist()}
        row, label, probability = predictions.entries()
        of_label = {"label": predictions.names(label).tolist(), "probability": probability.tolist()}
        if self.precision is not None:
            of_label[KEPT] = predictions.kept(self.precision, self.manifest["options"]["max_noise"]).tolist()
            columns[KEPT] = np.array(of_label[KEPT])[np.searchsorted(row, np.arange(len(predictions.label)))].tolist()
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        for one in rows if predictions.further is not None else ():
            one["labels"] = []
        if predictions.further is not None:
            for i, *cells in zip(row.tolist(), *of_label.values(), strict=True):
                if cells[0]:
                    rows[i]["labels"].append(dict(zip(of_label, cells, strict=True)))
        return rows

    @property
    def precision(self) -> float | None:
        """The precision that was asked for; None where none was, or where the model gives no probabilities any more."""
        asked = self.manifest["options"].get("precision")
        return None if self._folder.version.predictions.probability is None else asked

    @property
    def label_sets(self) -> bool:
        """Whether the model gives instances any number of labels."""
        return self._folder.version.predictions.further is not None

    def corrections(self) -> list[dict[str, Any]]:
        """What people said and nobody took back: one dict each, see `bagwise.app.runs.corrections.Correction`."""
        return [asdict(correction) for correction in self._corrections.in_force()]

    @property
    def n_corrections(self) -> int:
        """How many things people said and nobody took back."""
        said = self._corrections.in_force()
        first = {(one.call, one.bag, one.instance) for one in said if one.action != ALSO}
        at_least = {(one.call, one.bag, one.instance) for one in said} - first
        return sum(one.action != ALSO for one in said) + len(at_least)

    def predictions(self) -> Predictions:
        """What was predicted, as columns, with what was corrected since the last refit."""
        if self._predictions is None:
            version, predictions = self._folder.version, self._predicted()
            is_new = self._corrections.calls == version.calls
            self._predictions = predictions if is_new else predictions.corrected(self.supervision())
        return self._predictions

    def labels_at(self, version: Mapping[str, Any]) -> np.ndarray:
        """(m,) label that a fit predicted of each instance, "" for none; None where it was not there yet."""
        found = self._folder.read_version(version)
        names, before = self._align(found).names().astype(object), self._corrections.layout_at(version["calls"])
        if not before.same_as(self.layout):
            names[self.layout.rows_in(before) < 0] = None
        return names

    def _align(self, version: Version) -> Predictions:
        before = self._corrections.layout_at(version.calls)
        return (
            version.predictions
            if before.same_as(self.layout)
            else version.predictions.aligned(self.layout.rows_in(before))
        )

    def _predicted(self) -> Predictions:
        """What the fit in force predicts; of boxes that came since with all that was said of their bags."""
        version, layout, known = self._folder.version, self.layout, self._aligned
        boxed = {bag for bag, _ in layout.changed}
        said = [correction for correction in self._corrections.in_force() if correction.bag in boxed]
        if known is None or known[0] is not version or not known[1].same_as(layout) or known[2] != said:
            predictions, before = self._align(version), self._corrections.layout_at(version.calls)
            rows = np.zeros(0, dtype=np.int64)
            if not before.same_as(layout):
                rows = np.flatnonzero(layout.rows_in(before) < 0)
            if len(rows):
                supervision = self.supervision()
                bag_of = supervision.dataset.bags.bag_index
                own = np.flatnonzero(np.isin(bag_of, bag_of[rows]))
                found = predict_labels(self.model(), supervision.part(own))
                predictions = predictions.updated(rows, found, np.searchsorted(own, rows))
            self._aligned = known = version, layout, said, predictions
        return known[3]

    def supervision(self) -> Supervision:
        """The bags with all that was said of them."""
        if self._supervision is None:
            self._supervision = self._supervision_with([], self._rates)
        return self._supervision

    def _supervision_with(self, more: Sequence[Correction], rates: ObserverRates | None) -> Supervision:
        """The bags with all that was said of them, and with what is about to be."""
        return self.material.supervision([*self._corrections.in_force(), *more], rates)

    @property
    def _rates(self) -> ObserverRates | None:
        """What the fit in force learned of observers."""
        return self._folder.version.rates if self.material.observed else None

    def observers(self) -> list[dict[str, Any]]:
        """How far each of several observers can be relied on, where a table says who listed what: one dict each.

        "observer", "bags" (that were looked at), "listed" (labels); and once it was learned "missed" and "invented"
        (of the labels that are there the share not listed, of those that are not the share listed) and "right" (the
        share of the listed labels that are there; None where none is listed).
        """
        return self.material.observed.about(self._rates, self.supervision())

    def disputed_labels(self) -> list[dict[str, Any]]:
        """Labels that some observers list and others who looked do not, the least certain first: one dict each.

        "bag", "label", "listed_by", "not_listed_by" and "probability" (that the label is there, by all observers and by
        the instances). What somebody settled is left out.
        """
        return self.material.observed.disputed(self._rates, self.supervision())

    def model(self) -> Any:
        """The fitted model in force."""
        return self._folder.model

    def label_issues(self, n: int = N_ISSUES) -> list[dict[str, Any]]:
        """Labels that may be missing or spurious, at most `n` of each kind; see `predictions.label_issues`."""
        return label_issues(self.model(), self.supervision(), n)

    def remarks(self) -> list[str]:
        """Which labels are hard to learn, with the cure in the words of the media type."""
        supervision = self.supervision()
        remarks = remarks_on_labels(hard_labels(supervision.dataset, supervision.known), self.media_type)
        remarks += _remarks_on_lengths(self.source, self.material)
        return remarks + _remarks_on_network(supervision.dataset)

    def result(self) -> AnnotateResult:
        """Annotations and all that the page and the command line tell of them."""
        supervision, predictions, options = self.supervision(), self.predictions(), self.manifest["options"]
        unexplained = unexplained_labels(supervision, predictions)
        root = options.get("label_studio_root")
        plain = Annotations(
            media_type=self.media_type,
            rows=self.annotations() if predictions.further is None else row_per_label(self.annotations()),
            files=self.material.files,
            classes=[str(name) for name in predictions.classes],
            about=self.manifest["about"],
            folder=self.folder,
            max_noise=options["max_noise"],
            extra=(*[NOVEL] * (predictions.novel is not None), *[KEPT] * (self.precision is not None)),
            unread=self.material.unread,
            names={label: (pair[0], pair[1]) for label, pair in options.get("names", {}).items()},
            served_from=Path(root) if root else None,
            label_sets=predictions.further is not None,
        )
        annotations = in_field(plain, () if self.sites is None else self.sites["sites"])
        problems, dataset = self.problems, supervision.dataset
        return AnnotateResult(
            annotations=annotations,
            problems=problems + never_given(annotations, unexplained, problems),
            unexplained=unexplained,
            outputs=[self.path / name for name in self.manifest.get("outputs", [])] + [self.path / NAME],
            form=self.material.form,
            n_reused=self.material.n_reused,
            label_sets=dict(zip(map(str, dataset.bag_names), dataset.label_sets, strict=True)),
            remarks=self.remarks() if self._has_learned else [],
            choice=self.manifest.get("choice", {}),
            expected=self.expected(),
            resolution=self.manifest.get("resolution", {}),
            dataset=self.material.dataset,
            observers=self.observers(),
            disputed=self.disputed_labels(),
        )

    def expected(self) -> str:
        """About how many names are right, in words; "" where the model gives no probabilities."""
        predictions, most_noise = self.predictions(), self.manifest["options"]["max_noise"]
        if predictions.probability is None:
            return ""
        row, label, probability = predictions.entries()
        named = label >= 0
        if predictions.noise is not None:
            named &= predictions.noise[row] <= most_noise
        model, media_type = self.model(), self.media_type
        assumed = learner_inside(model).get_params().get("background_share") if bag_tags(model).background else None
        proba = probability[named].tolist()
        return expected_in_words(proba, self._held_out(), media_type.bags, assumed, media_type.better)

    @property
    def _has_learned(self) -> bool:
        """Whether its model comes from its own bags."""
        return not self.manifest["options"]["trained"] or self.version > 0

    def _held_out(self) -> dict[str, Any] | None:
        """What the labels of held-out bags said of the probabilities; None where they are not calibrated."""
        final = final_step(self.model())
        return final.reliability() if isinstance(final, CALIBRATED) else None

    def _reliability(self) -> Reliability:
        """How far probabilities can be believed."""
        first, bags, layout = self._align(self._folder.first_version()), self._held_out(), self.layout
        learned, checked = set(self.manifest.get("learned", [])), first.checked.copy()
        for said in self._corrections.in_force():
            if said.call in learned and said.instance is not None and layout.has((said.bag, said.instance)):
                checked[self.row_of(said.bag, said.instance)] = True
        first = replace(first, checked=checked)
        return Reliability(bags is not None, bags, first.reliability(self.predictions()), self.precision)

    def estimate(self, by: str | None = None) -> list[dict[str, Any]]:
        """How many instances carry each label, with intervals of 95 % from a random sample that a person answered.

        `draw_sample` draws it, `correct` answers it (the review page does both). The intervals hold whatever the model
        is; a good model makes them narrow. Until the sample has answers enough, figures are the model's own.

        Parameters
        ----------
        by : {None, "file", "site", "hour", "date"}
            Count in groups.

        Returns
        -------
        list of dict
            ``label``, the group under the name of `by`, ``count``, ``low``, ``high``, ``n_reviewed`` (answers in the
            group), ``basis`` ("sample" or "model": nobody looked whether the model is right), ``more`` (further answers
            that would halve the interval; None where none do).
        """
        return estimate(self, by)

    def draw_sample(self, n: int, seed: int | None = None) -> list[tuple[str, int]]:
        """Draw `n` more instances at random for `estimate`; gives bag and number of all that are not answered yet.

        They are to be answered in this order. Those skipped count as if they could be anything.
        """
        self._folder.check_open()
        draw(self, n, seed)
        dataset, checked = self.material.dataset, self.supervision().checked
        bag_of, position = dataset.bags.bag_index, dataset.positions
        return [(dataset.bag_names[bag_of[i]], int(position[i])) for i in drawn_rows(self) if not checked[i]]

    def discover(self) -> list[dict[str, Any]]:
        """Find groups of instances that belong together and to no label that anybody listed.

        Each may be a label of its own: `correct` names it, all of its instances in one call, and `refit` learns it.
        See `bagwise.calibration.NovelClasses`.

        Returns
        -------
        list of dict
            The largest first: ``group`` (its number), ``instances``, ``bags``, ``stability``, ``label`` (that most of
            its bags list), ``share`` (how many of them do), ``members`` (bag and number of each instance).
        """
        return novel_groups(self.model(), self.supervision())

    # -- corrections --------------------------------------------------------------------------------------------------

    def correct(self, corrections: Iterable[Any], *, absent: Iterable[tuple[str, str]] = (), by: str = "") -> None:
        """Say what instances really are; on disk (``corrections.csv``) when this returns.

        Parameters
        ----------
        corrections : list of (bag, instance, label)
            The label may be one that the bag does not list, or that is new to the run; "" says that the instance is
            noise; the label that was found confirms it. (bag, None, label) says that the bag carries the label. Where
            the model gives instances any number of labels, a list of labels says that it carries these and no others,
            one label that it carries this alone, and a list that ends with an ellipsis, ``["wren", ...]``, that it
            carries these at least: the model goes on to say which others.
        absent : list of (bag, label)
            Labels that bags do not carry, as `reject` says of one.
        by : str
            Who says so.

        Raises
        ------
        InputError
            If any of them is impossible; nothing is written then.
        """
        self._append(self.entries_of(corrections, absent, by))

    def entries_of(
        self, corrections: Iterable[Any], absent: Iterable[tuple[str, str]] = (), by: str = ""
    ) -> list[Correction]:
        """The rows of what `correct` is given, checked."""
        predictions, find = self.predictions(), row_finder(self.material.dataset)
        entries = []
        checked = [check_label_set(given, self.layout) for given in corrections]
        self._check_unchanged({bag for bag, *_ in checked})
        for bag, instance, labels in checked:
            if instance is None:
                entries.append(Correction(bag, None, labels[0], PRESENT, by=by))
                continue
            if len(labels) > 1 and not self.label_sets:
                raise InputError(
                    f"Instance {instance} of {bag!r} is said to carry {', '.join(map(repr, labels))}, and the model of "
                    "this run gives each instance one label; give one, or make the run with --model noisy-or."
                )
            row = find(self._number[bag], instance)
            assert row is not None  # it was checked
            entries += label_set_entries(bag, instance, labels, predictions.labels_of(row), by)
        rejected = list(absent)
        if rejected:
            supervision = self._supervision_with(entries, self._rates) if entries else self.supervision()
            entries += [self._absent(supervision, bag, label, by) for bag, label in rejected]
        return entries

    def reject(self, bag: str, label: str, *, by: str = "") -> None:
        """Say that a bag does not carry a label; instances that a person named so are unknown again.

        Of a label that the bag does not list either, it says that nobody forgot it: `label_issues` asks no more.
        """
        self.correct([], absent=[(bag, label)], by=by)

    def _absent(self, supervision: Supervision, bag: str, label: str, by: str) -> Correction:
        bag, _, label = check_correction((bag, None, label), self.layout)
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

    def read_edits(self, path: str | Path, format: str | None = None) -> Edits:
        """The same with the boxes that were drawn and moved there, where people can draw any; for `take_edits`."""
        annotations = self.result().annotations
        marks = read_marks(path, annotations, format)
        return find_edits(annotations, marks, self.boxes.can_draw and not self.media_type.joined)

    def take_edits(self, edits: Edits, *, by: str = "") -> list[Problem]:
        """Take over what was put right elsewhere, in one call; gives the boxes that could not be described."""
        return boxes.take_edits(self, edits, by)

    def add_instance(
        self,
        file: str,
        start: float,
        end: float,
        low: float | None = None,
        high: float | None = None,
        label: str | None = None,
        *,
        by: str = "",
    ) -> tuple[str, int]:
        """Draw an instance where none was found; on disk and described by its features when this returns.

        Parameters
        ----------
        file : str
            A file of the run; of series with several recordings in a file the bag.
        start, end : float
            Seconds; of texts characters.
        low, high : float or None
            Hertz; None takes all that are looked at.
        label : str or None
            What it is; "" says background. None leaves that to the model.
        by : str
            Who says so.

        Returns
        -------
        (bag, instance)
            Its key, which stays what it is.
        """
        return boxes.add_instance(self, file, start, end, low, high, label, by)

    def split(self, key: tuple[str, int], at: float, *, by: str = "") -> tuple[tuple[str, int], tuple[str, int]]:
        """Cut an instance in two at a second (of texts a character); gives the keys of both parts.

        The first part keeps the key; a label that a person gave is that of both.
        """
        return boxes.split(self, key, at, by)

    def merge(self, keys: Sequence[tuple[str, int]], *, label: str | None = None, by: str = "") -> tuple[str, int]:
        """Make one instance of several of a file, from the first start to the last end; gives its key.

        It has the key of the first, and a label that people gave to any; where they gave several, `label` is needed.
        """
        return boxes.merge(self, keys, label, by)

    def move(
        self,
        key: tuple[str, int],
        start: float | None = None,
        end: float | None = None,
        low: float | None = None,
        high: float | None = None,
        *,
        by: str = "",
    ) -> tuple[str, int]:
        """Put an instance elsewhere, or make it larger or smaller; what is None stays. Gives its key.

        The key is another one only where it comes to lie in another piece of the recording. What a person said of the
        instance stands; what the model says of it is worked out again.
        """
        return boxes.move(self, key, start, end, low, high, by)

    def remove(self, key: tuple[str, int], *, by: str = "") -> None:
        """Take an instance away: nothing is there. Background, which `correct` says with "", is something else."""
        boxes.remove(self, key, by)

    def next_number(self, bag: str) -> int:
        """That of a new box in a bag."""
        return self._corrections.next_number(bag, self._sizes.get(bag, 0))

    def edit(self, entries: Sequence[Correction], drawn: Sequence[boxes.Drawn]) -> None:
        """Put what is done with boxes on disk, in one call: first what describes them, then that they count."""
        self._folder.check_open()
        self._check_unchanged({entry.bag for entry in entries})
        self.boxes.keep(drawn)
        self._append(entries)

    def undo(self, *, write: bool = True) -> list[dict[str, Any]]:
        """Take back the last call of `correct` or `reject` that counts, and give what it said.

        Where a refit knew it, the model and the annotations from before that refit are there again. `write` says
        whether what is written for people follows at once; if not, the next `write` or `open` does it.

        Raises
        ------
        NotWrittenError
            If they were taken back, but what is for people could not be written.
        """
        self._folder.check_open()
        taken = self._corrections.undo()
        self._forget()
        if self._settle() and write:
            self._write_for_people("They were taken back")
        return [asdict(correction) for correction in taken]

    def would_undo(self) -> dict[str, Any]:
        """What `undo` would take back: how many corrections, and of which version the model would be then."""
        calls, entries = self._corrections.calls, self._corrections.in_force()
        versions = self.manifest["versions"]
        left = [v["number"] for v in versions if set(v["calls"]) <= set(calls[:-1])] or [versions[0]["number"]]
        taken = sum(entry.call == calls[-1] for entry in entries) if calls else 0
        return {"corrections": taken, "version": left[-1], "learned": left[-1] != self.version}

    def _settle(self) -> bool:
        """Go back to the fit before what was taken back; gives whether what is written for people still knows it.

        ``corrections.csv`` alone says what counts, so the manifest may follow when the run is opened next.
        """
        went_back, calls = self._folder.leave_fits(self._corrections.calls), self._corrections.calls
        self._predictions = None
        if not went_back and set(calls).issuperset(self.manifest.get("written", [])):
            return False
        with suppress(OSError):
            self._folder.commit(self._folder.versions)
        return True

    def _append(self, entries: Sequence[Correction]) -> None:
        self._folder.check_open()
        if entries:
            self._corrections.append(entries)
            self._forget()

    def _check_unchanged(self, bags: Iterable[str]) -> None:
        """Refuse to speak of instances that may be others in the file by now; a file that is gone is no news."""
        names = {self.file_of(bag): bag for bag in bags}
        for name, bag in names.items():
            if not (self.folder / name).exists():
                continue
            origins = [self.source.embedded, *self.manifest.get("tables", [])]  # later files may have a table of theirs
            if self.material.entries[name] not in {replace(self.source, embedded=about).key(name) for about in origins}:
                raise InputError(
                    f"{self.folder / name} changed since it was annotated, so the instances of {bag!r} may be others "
                    "now; run the bagwise annotate that made the run once more. Nothing was written."
                )

    def file_of(self, bag: str) -> str:
        """The file, relative to `folder`, that a bag comes from."""
        if self.source.is_table:
            return self.material.files[0]["file"]
        return self.material.owners[bag]

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
        self._folder.check_open()
        calls, before = self._corrections.calls, self._folder.version
        if calls == before.calls and not self.manifest.get("extended"):
            if write:
                self.write(progress=progress, page=page)
            return Refit(self.version, 0, self.problems)
        supervision, model = self.supervision(), load(self._folder.model_path)
        rates = learn_of_observers(model, self.material.observed, supervision)
        if rates is not None:
            supervision = self._supervision_with([], rates)
        problems = self._fit(model, supervision, callback)
        known, predictions = self._align(before), predict_labels(model, supervision)
        number = max(version["number"] for version in self._folder.versions) + 1
        if self.manifest.get("extended"):  # the new fit has seen all files
            self._folder.manifest = {key: value for key, value in self.manifest.items() if key != "extended"}
        self.add_version(model, Version(number, calls, predictions, problems, rates))
        if write:
            self._write_for_people("The model was learned and is kept", progress=progress, page=page)
        changed = known.set_names() != predictions.set_names()
        return Refit(number, int(np.sum(changed)), self.problems)

    def _fit(self, model: Any, supervision: Supervision, callback: Callback | None) -> list[Problem]:
        """Fit the model again, starting from its weights where it can."""
        final, recipe = learner_inside(model), getattr(model, RECIPE)
        warm = bag_tags(model).warm_start and not final.get_params()["warm_start"]
        if warm:
            final.set_params(warm_start=True)
        problems = fit_supervised(
            model,
            self._with_training_run(supervision),
            checkpoint=self.path / STATE / "fit",
            callback=callback,
            too_few=self.source.too_few,
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
            return other._with_training_run(other.supervision(), seen).joined(supervision)

    def add_version(self, model: Any, version: Version) -> None:
        """Keep model and predictions of a fit, then make them the run's."""
        recipe = getattr(model, RECIPE)
        about = {"model": recipe["model"], **settings_of(model), "feature_names": recipe["feature_names"]}
        self._folder.add(model, about, version)
        self._supervision = self._predictions = self._aligned = None

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(
        self, formats: Sequence[str] | None = None, *, progress: Progress | None = None, page: bool | None = None
    ) -> AnnotateResult:
        """Write annotations, model and page for people, as they are now.

        Files of an earlier fit that are not written any more are removed, unless somebody changed them.

        Parameters
        ----------
        formats : list of str or None
            Instead of those that the run was made with.
        progress : callable or None
        page : bool or None
            Whether the page is written; None as when the run was made.
        """
        folder, path, options = self._folder, self.path, self.manifest["options"]
        folder.check_open()
        names = options["formats"] if formats is None else check_formats(formats, self.media_type)
        issues, reliability = self.label_issues(), self._reliability()
        result = replace(self.result(), label_issues=issues, reliability=reliability, activity=hourly_activity(self))
        annotations = result.annotations
        if self.manifest.get("status") != WRITING:  # should this end half-way, it is done again when the run is opened
            folder.commit(folder.versions)
        prints, earlier = self.manifest.get("prints", {}), self.manifest.get("outputs", [])
        outputs, problems, left = self._write_formats(annotations, names, earlier)
        result = replace(result, problems=result.problems + problems)
        outputs += write_field_tables(annotations, path)
        if self._has_learned:
            outputs.append(inside(path, MODEL_FILE))
            with atomic_write(outputs[-1]) as file:
                file.write(folder.model_path.read_bytes())
        if options["page"] if page is None else page:
            outputs += write_page(result, inside(path, PAGE), progress or (lambda what, done, total: None))
        new = {output.relative_to(path).as_posix(): file_fingerprint(output) for output in outputs}
        new |= {name: prints.get(name, "") for name in left}
        for name in folder.remove_outputs(sorted({*earlier} - {*new}), prints):
            text = f"{name} is not written any more, but differs from what was written last, so it stays; remove it "
            result.problems.append((name, text + "if need be."))
        folder.finish(
            {
                "written": self._corrections.calls,
                "max_noise": annotations.max_noise,
                "classes": annotations.classes,
                "files": annotations.files,
                "instances": annotations.n_instances,
                "problems": [{"name": name, "message": message} for name, message in result.problems],
                "unexplained": [{"bag": name, "labels": labels} for name, labels in result.unexplained],
                "remarks": result.remarks,
                "outputs": list(new),
                "prints": new,
            }
        )
        self._unwritten = []
        return replace(result, outputs=[*(path / name for name in new), path / NAME])

    def _write_formats(
        self, annotations: Annotations, names: Sequence[str], earlier: Sequence[str]
    ) -> tuple[list[Path], list[Problem], list[str]]:
        """Write the formats; one that needs media which are gone stays as it was.

        Gives the files that were written, what went wrong, and the names of files that stay.
        """
        outputs, problems, left = list[Path](), list[Problem](), list[str]()
        for name in names:
            try:
                outputs += write_formats(annotations, self.path, [name])
            except (OSError, InputError) as error:
                if self.media.exists():
                    raise
                left += [old for old in earlier if old.startswith(name) and inside(self.path, old).exists()]
                problems.append((name, f"{name} was not written again, since the media are gone: {error}"))
        return outputs, problems, left

    def _write_for_people(self, done: str, **options: Any) -> None:
        """Write what follows from something that is done and kept."""
        try:
            self.write(**options)
        except OSError as error:
            raise NotWrittenError(
                f"{done}, but the files for people in {self.path} are older now and could not be written "
                f"({in_words(error)}); they are written when the run is opened next."
            ) from error


def _remarks_on_lengths(source: Source, material: Material) -> list[str]:
    scales = source.media_type.scales
    if scales is None or not source.too_few:
        return []
    return remarks_on_lengths(material.dataset, source.media_type, scales.long(source.settings))


def _remarks_on_network(dataset: BagDataset) -> list[str]:
    row = network_row(dataset)
    return [] if row is None else [network_in_words(row)]


def _moved(path: Path) -> str:
    return (
        f"{path} is not there any more: annotations can be read, corrected and learned from, but nothing can be shown "
        "or played. Say where it is now (--media)."
    )


# ---------------------------------------------------------------------------------------------------------------------
# What a new run is asked for


def _check_places(source: Path, out: Path, model: Path | None) -> None:
    """Refuse results in a folder that holds the media or the model, which a later run would replace or leave out."""
    for path, what in ((source, "The media"), (model, "The model")):
        if path is not None and holds(out, path):
            raise InputError(f"{what} ({path}) must not lie in the folder for the results ({out}); choose another.")


def _identity(options: RunOptions, source: Source) -> dict[str, Any]:
    """What makes two runs the same."""
    given = {
        "columns": list(options.columns) if options.columns else None,
        "learner": options.learner or None,
        "select": [options.select, list(options.grid)] if options.select else None,
        "options": source.options or None,
        "use_known": options.use_known or None,
        "seed": options.seed,
        "known": None if options.known is None else str(options.known.resolve()),
        "embedded": source.embedded,
        "file": source.names[0] if source.single else None,
    }
    return {
        "folder": str(source.path.resolve()),
        "medium": source.media_type.name,
        "settings": source.settings.to_dict(),
        "labels": None if options.labels is None else str(options.labels.resolve()),
        "model": str(options.model),
        **{key: value for key, value in given.items() if value is not None},
    }


def _writing_options(options: RunOptions, source: Source) -> dict[str, Any]:
    """What the manifest keeps of the options: how annotations are written, which a refit needs again."""
    root, media_type = options.label_studio_root, source.media_type
    formats = formats_of(media_type) if options.formats is None else check_formats(options.formats, media_type)
    kept: dict[str, Any] = {
        "formats": formats,
        "page": options.page,
        "max_noise": options.max_noise,
        "precision": options.precision,
        "names": {} if options.names is None else read_names(options.names),
        "label_studio_root": None if root is None else str(root.resolve()),
    }
    if options.sites is not None:
        if source.is_table:
            raise InputError(f"{source.path} is a file of bags, which no site belongs to; leave --sites out.")
        sites = read_sites(options.sites)
        check_sites(sites, source.names, options.sites)
        kept["sites"] = {"table": str(options.sites), "sites": [asdict(site) for site in sites]}
    needs = (("names", "--names", "birdnet"), ("label_studio_root", "--label-studio-root", "label-studio"))
    for key, option, name in needs:
        if kept[key] and name not in formats:
            raise InputError(f"{option} is for the format {name}, which is not written; leave it out, or add {name}.")
    if root is not None and not holds(root, source.path):
        raise InputError(
            f"{source.path} does not lie in {root.resolve()}, from which Label Studio serves files; give a folder "
            "above it (--label-studio-root)."
        )
    return kept


def _limit_noise(kept: dict[str, Any], model: Any) -> None:
    """What counts as background, where nobody said so, is what the model says."""
    if kept["max_noise"] is None:
        kept["max_noise"] = getattr(model, RECIPE).get("max_noise", MOST_NOISE)


def _without_useless(material: Material, formats: Sequence[str], trained: Any) -> Material:
    """The material without labels that a trained model never saw: a set with one of them counts as not known.

    Also says what times of all recordings opened as one sound cannot count.
    """
    problems, sets, known, observed = [*material.problems], material.sets, material.known, material.observed
    unread = [file["file"] for file in material.unread if file["seconds"] is None]
    if unread and "raven" in formats:
        text = (
            f"{len(unread)} file(s) that could not be read, such as {unread[0]}, have no known length; leave them out "
            "when you open all recordings as one sound in Raven (raven/all.selections.txt)."
        )
        problems.append(("raven", text))
    if trained is not None:
        classes = set(map(str, classes_of(trained) or []))
        unknown = {bag: sorted(set(labels) - classes) for bag, labels in {**sets, **observed.open}.items()}
        problems += [
            (bag, f"{bag}: the model does not know {', '.join(labels)}; its labels are not used.")
            for bag, labels in unknown.items()
            if labels
        ]
        sets = {bag: labels for bag, labels in sets.items() if not unknown[bag]}
        known = [one for one in known if one[2] in {"", *classes}]
        observed = observed.without({bag for bag, labels in unknown.items() if labels})
    return replace(material, sets=sets, known=known, problems=problems, observed=observed)


def _outdate_corrections(folder: RunFolder, material: Material) -> None:
    """What was said of bags whose instances are others now does not count any more; ``corrections.csv`` says so."""
    log = CorrectionLog(open_ended(folder.path, FILE))
    said = {correction.bag for correction in log.in_force()}
    if not said:
        return
    before, new = folder.read_supervision(), material.prints()
    old = before["prints"]  # nothing was found in the bags of these files that are not among them
    there = {bag for bag in new if bag in old or material.owners.get(bag) in before["entries"]}
    changed = sorted(bag for bag in said & there if old.get(bag) != new[bag])
    if changed:
        log.append([Correction(bag, None, "", OUTDATED) for bag in changed])


def _check_labelled(supervision: Supervision, problems: Sequence[Problem]) -> None:
    """Refuse bags none of which has a label; what was wrong with files and rows may say why."""
    if supervision.dataset.n_classes == 0:
        raise InputError(
            "No file in which anything was found has a label, so there is nothing to learn from; check that the names "
            "in the table of labels are those of the files."
            + (f" The first of {len(problems)} problem(s): {problems[0][1]}" if problems else "")
        )
