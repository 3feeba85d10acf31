"""The whole job: a folder and a table of labels in; annotations, a page and a model out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from bagwise.app.formats import Annotations, check_formats, compare_marks, formats_of, read_marks
from bagwise.app.formats.names import read_names
from bagwise.app.labels.selections import Selections
from bagwise.app.labels.sites import check_sites, read_sites
from bagwise.app.media.files import Problem
from bagwise.app.media.recipe import RECIPE
from bagwise.app.report.page import check_page_can_be_made
from bagwise.app.runs._embed import in_windows, refuse_vector_options, with_vectors
from bagwise.app.runs._store import fingerprint
from bagwise.app.runs.choose import AUTO, choose_learner, refuse_settings
from bagwise.app.runs.corrections import FILE, OUTDATED, Correction, CorrectionLog
from bagwise.app.runs.featurize import Progress
from bagwise.app.runs.find import find_labels
from bagwise.app.runs.fit import fit_supervised, select_setting
from bagwise.app.runs.folder import STATE, UNFINISHED, Version, lock_run, start_run, unlock_run, write_manifest
from bagwise.app.runs.learner import about_model, learner_inside, load_trained, make_learner
from bagwise.app.runs.material import (
    TABLE,
    Material,
    Source,
    find_source,
    read_label_table,
    read_material,
    read_supervision,
    write_supervision,
)
from bagwise.app.runs.options import DEFAULT_MODEL, NOISE_SHARE, RunOptions
from bagwise.app.runs.remarks import label_remarks
from bagwise.app.runs.supervision import Supervision, put_together, training_set
from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import InputError
from bagwise.io.files import file_fingerprint, open_ended
from bagwise.io.labels import LabelTable
from bagwise.model_selection import search_by_rank_loss
from bagwise.pipeline import bag_tags, classes_of


@dataclass(frozen=True)
class _Job:
    """All that is settled before anything is read: what becomes the run, from what, and how.

    `kept` are the options that the manifest keeps: those of writing, which a refit needs again.
    """

    make: Callable[..., Any]
    out: Path
    source: Source
    options: RunOptions
    kept: dict[str, Any]
    trained: Any
    lock: Path
    step: Progress
    say: Callable[[str], None]

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs the same."""
        source, options = self.source, self.options
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

    def fingerprint(self, material: Material) -> str:
        """Differs whenever the first fit would."""
        model = None if self.trained is None else file_fingerprint(self.options.model)
        return fingerprint([material.to_dict(), self.identity, self.options.noise_share, self.options.folds, model])

    def learn(self, material: Material, supervision: Supervision) -> tuple[Any, list[Problem], dict[str, Any]]:
        """Fit the model that was asked for.

        Returns
        -------
        model, problems, how
            `how` says for the manifest how a model or a setting was chosen.
        """
        options, how = self.options, dict[str, Any]()

        def make(name: str) -> Any:
            sparse = sp.issparse(material.dataset.bags.instances)
            return make_learner(
                name,
                options.learner,
                options.noise_share,
                has_known=bool(material.known),
                seed=options.seed,
                sparse=sparse,
            )

        name = str(options.model)
        if name == AUTO:
            how["choice"] = choose_learner(
                make, supervision.dataset, seed=options.seed, jobs=options.jobs, progress=self.step
            )
            name = how["choice"]["model"]
        model = make(name)
        _check_precision(options.precision, model, name)
        if options.select is not None:
            tags = bag_tags(model)
            training = training_set(supervision, takes_empty=tags.background, takes_known=tags.instance_labels)
            how["selected"] = select_setting(
                model,
                training,
                options.select,
                options.grid,
                folds=options.folds,
                seed=options.seed,
                jobs=options.jobs,
            )
        problems = fit_supervised(
            model,
            supervision,
            checkpoint=self.out / STATE / "fit",
            callback=lambda i, objective: self.step("learning", i, 0),
        )
        recipe = {
            "medium": self.source.media_type.name,
            "settings": self.identity["settings"],
            "feature_names": material.dataset.feature_names,
            "model": name,
            **({} if self.source.embedded is None else {"embedded": self.source.embedded}),
        }
        setattr(model, RECIPE, recipe)
        return model, problems, how


def create_run(
    make: Callable[..., Any],
    source: Path,
    out: Path,
    options: RunOptions,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Any:
    """Annotate all media of a folder, or all bags of a file, and make a run of it.

    Parameters
    ----------
    make : `Run`
    source : path
        A folder of recordings, pictures, texts or series (folders below it are searched too), or a file of bags.
    out : path
        Folder for the results. If it holds the same run, unfinished or not, what is done is not done again; corrections
        that were made in it stay.
    options : RunOptions
    progress : callable or None
        Called with what is done, how much and of how much.
    say : callable or None
        Called before the fit with each remark on the labels: those that cannot be distinguished.

    Returns
    -------
    Run
    """
    step = progress or (lambda what, done, total: None)
    trained = load_trained(options.model)
    table = read_label_table(options)
    _check_model(options, trained, has_known=isinstance(table, Selections))
    _check_places(source, out, None if trained is None else Path(options.model))
    if trained is None and options.labels is None and not source.is_file():
        raise InputError("There is nothing to learn from: give labels (--labels), or a trained model (--model).")
    found = _find(source, out, options, trained, table)
    if options.page:
        check_page_can_be_made()
    if trained is None and say is not None and options.noise_share <= NOISE_SHARE and in_windows(found):
        say(
            f"Windows without a call are background, and a share of {options.noise_share:g} of all windows is expected "
            "to be that; in most recordings it is more: say how much (--noise-share 0.6)."
        )
    kept = _kept_options(options, found, source, trained)
    lock = lock_run(out)
    try:
        job = _Job(make, out, found, options, kept, trained, lock, step, say or (lambda text: None))
        old = start_run(out, job.identity, options.overwrite)
        material = read_material(found, out, table, options.jobs, step, options.cluster)
        material = _with_raven_remark(material, kept["formats"])
        if found.media_type.name == TABLE and not options.use_known:
            material = replace(material, known=[])
        if options.known is not None:
            material = _with_known_marks(material, found, options.known)
        if trained is not None:
            material = _without_unknown_labels(material, trained)
        _outdate_corrections(out, material)
        return _fit_and_write(job, old, material)
    except BaseException:
        unlock_run(lock)
        raise


def _check_model(options: RunOptions, trained: Any, has_known: bool) -> None:
    """Refuse a model that cannot do what is asked for, before an hour is spent on reading files."""
    model = trained
    if trained is None and str(options.model) == AUTO:
        refuse_settings(options.learner, options.select)
    elif trained is None:
        has_known = has_known or options.use_known or options.known is not None
        model = make_learner(
            str(options.model), options.learner, options.noise_share, has_known=has_known, seed=options.seed
        )
        if options.select is not None:
            search_by_rank_loss(
                learner_inside(model), options.select, options.grid
            )  # refuses a setting that is not there
    elif options.learner or options.select:
        raise InputError("A trained model keeps its settings; leave --set and --select out, or train a new one.")
    _check_precision(options.precision, model, str(options.model))


def _find(source: Path, out: Path, options: RunOptions, trained: Any, table: LabelTable | Selections | None) -> Source:
    """The files and how they are read; tables of labels and the like that lie among them are no media."""
    refuse_vector_options(options)
    recipe = None if trained is None else getattr(trained, RECIPE)
    others = (options.labels, options.known, options.sites, options.embed, options.embeddings)
    exclude = [out, *(path for path in others if path is not None and not _holds(path, source))]
    found = find_source(source, options, trained=recipe, exclude=exclude, labels=table)
    found = with_vectors(found, options, recipe, None if trained is None else Path(options.model))
    if options.cluster is not None and found.media_type.name == TABLE:
        raise InputError(f"--cluster reads media, and {source} is a file of bags; leave it out.")
    return found


def _kept_options(options: RunOptions, found: Source, source: Path, trained: Any) -> dict[str, Any]:
    """What the manifest keeps of the options: how annotations are written."""
    root = options.label_studio_root
    formats = formats_of(found.media_type)
    if options.formats is not None:
        formats = check_formats(options.formats, found.media_type)
    kept: dict[str, Any] = {
        "formats": formats,
        "page": options.page,
        "max_noise": options.max_noise,
        "precision": options.precision,
        "trained": trained is not None,
        "names": {} if options.names is None else read_names(options.names),
        "label_studio_root": None if root is None else str(root.resolve()),
    }
    if options.sites is not None:
        kept["sites"] = _read_sites(options.sites, found)
    needs = (("names", "--names", "birdnet"), ("label_studio_root", "--label-studio-root", "label-studio"))
    for key, option, name in needs:
        if kept[key] and name not in formats:
            raise InputError(f"{option} is for the format {name}, which is not written; leave it out, or add {name}.")
    if root is not None and not _holds(root, source):
        raise InputError(
            f"{source} does not lie in {root.resolve()}, from which Label Studio serves files; give a folder above it "
            "(--label-studio-root)."
        )
    return kept


def _holds(folder: Path, other: Path) -> bool:
    """Whether a path lies in a folder, or is it: tables may lie among the recordings."""
    return other.resolve().is_relative_to(folder.resolve())


def _check_places(source: Path, out: Path, model: Path | None) -> None:
    """Refuse results in a folder that holds the media or the model, which a later run would replace or leave out."""
    for path, what in ((source, "The media"), (model, "The model")):
        if path is not None and _holds(out, path):
            raise InputError(f"{what} ({path}) must not lie in the folder for the results ({out}); choose another.")


def _with_raven_remark(material: Material, formats: Sequence[str]) -> Material:
    """Say what times of all recordings opened as one sound cannot count."""
    unknown = [file["file"] for file in material.unread if file["seconds"] is None]
    if not unknown or "raven" not in formats:
        return material
    text = (
        f"{len(unknown)} file(s) that could not be read, such as {unknown[0]}, have no known length; leave them out "
        "when you open all recordings as one sound in Raven (raven/all.selections.txt)."
    )
    return replace(material, problems=[*material.problems, ("raven", text)])


def _read_sites(path: Path, source: Source) -> dict[str, Any]:
    """The table of sites, as it is kept in the manifest: a refit needs it again."""
    if source.media_type.name == TABLE:
        raise InputError(f"{source.path} is a file of bags, which no site belongs to; leave --sites out.")
    sites = read_sites(path)
    check_sites(sites, source.names, path)
    return {"table": str(path), "sites": [asdict(site) for site in sites]}


def _with_known_marks(material: Material, source: Source, path: Path) -> Material:
    """The material with the instances that somebody marked before, in the format of some tool."""
    dataset = material.dataset
    assert dataset.locations is not None
    names = [dataset.bag_names[i] for i in dataset.bags.bag_index]
    empty = {"label": "", "probability": None, "runner_up": "", "noise": None, "mode": ""}
    rows = [
        {**place, **empty, "bag": bag, "instance": instance}
        for place, bag, instance in zip(rows_of(dataset.locations), names, dataset.positions.tolist(), strict=True)
    ]
    annotations = Annotations(
        media_type=source.media_type, rows=rows, files=material.files, classes=[], folder=source.folder, max_noise=1.0
    )
    said, problems = compare_marks(annotations, read_marks(path, annotations))
    return replace(material, known=[*material.known, *said], problems=[*material.problems, *problems])


def _check_precision(precision: float | None, model: Any, name: str) -> None:
    """Refuse a precision that is none, or that a model cannot give; None is a model that is not chosen yet."""
    if precision is None:
        return
    if not 0.0 < precision < 1.0:
        raise InputError(f"--precision {precision:g} is no share; give a number between 0 and 1, such as 0.95.")
    if model is not None and not bag_tags(model).probabilities:
        raise InputError(
            f"The model {name!r} gives no probabilities, so no precision can be expected; leave --precision out, "
            f"or use one that does, such as {DEFAULT_MODEL}."
        )


def _without_unknown_labels(material: Material, model: Any) -> Material:
    """The material for a trained model; a set with a label that the model never saw counts as not known."""
    classes = set(map(str, classes_of(model) or []))
    strange = {bag: sorted(set(labels) - classes) for bag, labels in material.sets.items()}
    problems = [
        (bag, f"{bag}: the model does not know {', '.join(labels)}; its labels are not used.")
        for bag, labels in strange.items()
        if labels
    ]
    sets = {bag: labels for bag, labels in material.sets.items() if not strange[bag]}
    known = [supervision for supervision in material.known if supervision[2] in {"", *classes}]
    return replace(material, sets=sets, known=known, problems=[*material.problems, *problems])


def _outdate_corrections(out: Path, material: Material) -> None:
    """What was said of bags whose instances are others now does not count any more; ``corrections.csv`` says so."""
    log = CorrectionLog(open_ended(out, FILE))
    said = {correction.bag for correction in log.in_force()}
    if not said:
        return
    old, new = read_supervision(out)["prints"], material.prints()
    changed = sorted(bag for bag in said if bag in new and bag in old and old[bag] != new[bag])
    if changed:
        log.append([Correction(bag, None, "", OUTDATED) for bag in changed])


def _fit_and_write(job: _Job, old: dict[str, Any] | None, material: Material) -> Any:
    """Fit what is not fitted yet, and write all of it; corrections come after the first fit, as a refit."""
    old = old or {}
    supervision = put_together(material.dataset, material.sets, material.known)
    for note in job.source.media_type.notes(material.files):
        job.say(note)
    if job.trained is None:
        for remark in label_remarks(supervision, job.source.media_type):
            job.say(remark)
    manifest = {
        "identity": job.identity,
        "options": job.kept,
        "fitted": job.fingerprint(material),
        "outputs": old.get("outputs", []),
        "prints": old.get("prints", {}),
    }
    model = None
    if old.get("fitted") == manifest["fitted"] and old.get("versions"):
        manifest |= {name: old[name] for name in ("versions", "about", "selected", "choice") if name in old}
        run = job.make(job.out, manifest, material, job.lock)
    else:
        write_manifest(job.out, {**manifest, "status": UNFINISHED})
        model, problems = job.trained, list[Problem]()
        job.step("learning", 0, 0)
        if model is None:
            _check_labelled(supervision, material.problems)
            model, problems, how = job.learn(material, supervision)
            manifest |= how
        job.step("learning", 1, 1)
        write_supervision(job.out, material)
        manifest["about"] = about_model(model)
        run = job.make(job.out, manifest, material, job.lock)
        run.add_version(model, Version(0, [], find_labels(model, supervision), problems))
    if run.corrections():
        run.refit(progress=job.step)
    else:
        run.write(progress=job.step)
    return run


def _check_labelled(supervision: Supervision, problems: Sequence[Problem]) -> None:
    """Refuse bags none of which has a label; what was wrong with files and rows may say why."""
    if supervision.dataset.n_classes == 0:
        raise InputError(
            "No file in which anything was found has a label, so there is nothing to learn from; check that the names "
            "in the table of labels are those of the files."
            + (f" The first of {len(problems)} problem(s): {problems[0][1]}" if problems else "")
        )
