"""The whole job: a folder and a table of labels in; annotations, a page and a model out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from bagwise.dataset import rows_of
from bagwise.exceptions import InputError
from bagwise.io.annotations import Annotations, check_formats, formats_of, read_marks
from bagwise.io.annotations.compare import compare_marks
from bagwise.io.annotations.names import read_names
from bagwise.model_selection import search_by_rank_loss
from bagwise.pipeline import bag_tags, final_step
from bagwise.report.page import check_page_can_be_made
from bagwise.report.result import Problem
from bagwise.workflow.choose import AUTO, choose_learner, refuse_settings
from bagwise.workflow.corrections import FILE, OUTDATED, Correction, CorrectionLog
from bagwise.workflow.embed import Asked, in_windows, with_vectors
from bagwise.workflow.featurize import Progress
from bagwise.workflow.find import find_labels
from bagwise.workflow.fit import fit_told, select_setting
from bagwise.workflow.learner import DEFAULT_MODEL, RECIPE, about_model, load_trained, make_learner
from bagwise.workflow.manifest import STATE, UNFINISHED, lock_run, start_run, unlock_run, write_manifest
from bagwise.workflow.material import (
    TABLE,
    Material,
    Source,
    find_source,
    read_label_table,
    read_material,
    read_told,
    write_told,
)
from bagwise.workflow.remarks import label_remarks
from bagwise.workflow.selections import MIN_CONFIDENCE, Selections
from bagwise.workflow.sites import check_sites, read_sites
from bagwise.workflow.store import file_fingerprint, fingerprint
from bagwise.workflow.told import Told, put_together, training_set
from bagwise.workflow.version import Version

NOISE_SHARE = 0.1


@dataclass(frozen=True)
class Options:
    """What is asked of a run beside its source; the parameters of `create_run`."""

    labels: Path | None
    columns: tuple[str, str] | None
    model: str
    learner: Mapping[str, Any]
    select: str | None
    grid: Sequence[Any]
    folds: int
    use_known: bool
    known: Path | None
    formats: list[str]
    noise_share: float
    max_noise: float
    precision: float | None
    seed: int | None
    page: bool
    names: Mapping[str, tuple[str, str]]
    label_studio_root: Path | None
    sites: dict[str, Any] | None


@dataclass(frozen=True)
class Job:
    """All that is settled before anything is read: what becomes the run, from what, and how."""

    make: Callable[..., Any]
    out: Path
    source: Source
    options: Options
    trained: Any
    lock: Path
    jobs: int
    step: Progress
    say: Callable[[str], None]

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs the same."""
        source, options = self.source, self.options
        given = {
            "columns": list(options.columns) if options.columns else None, "learner": dict(options.learner) or None,
            "select": [options.select, list(options.grid)] if options.select else None,
            "options": source.options or None, "use_known": options.use_known or None, "seed": options.seed,
            "known": None if options.known is None else str(options.known.resolve()), "embedded": source.embedded,
            "file": source.names[0] if source.single else None,
        }  # fmt: skip
        return {
            "folder": str(source.path.resolve()),
            "medium": source.medium.name,
            "settings": source.settings.to_dict(),
            "labels": None if options.labels is None else str(options.labels.resolve()),
            "model": options.model,
            **{key: value for key, value in given.items() if value is not None},
        }

    def fingerprint(self, material: Material) -> str:
        """Differs whenever the first fit would."""
        model = None if self.trained is None else file_fingerprint(self.options.model)
        return fingerprint([material.to_dict(), self.identity, self.options.noise_share, self.options.folds, model])

    def make_learner(self, name: str, material: Material) -> Any:
        options = self.options
        return make_learner(
            name, options.learner, options.noise_share, has_known=bool(material.known), seed=options.seed,
            sparse=sp.issparse(material.dataset.bags.instances),
        )  # fmt: skip

    def choose(self, material: Material, told: Told) -> dict[str, Any]:
        """Try the usual learners; gives which is the best and by which figures."""
        return choose_learner(
            lambda name: self.make_learner(name, material), told.dataset, seed=self.options.seed, jobs=self.jobs,
            progress=self.step,
        )  # fmt: skip

    def select(self, model: Any, told: Told) -> dict[str, Any]:
        """Choose the setting that is asked for; gives name and value."""
        tags, options = bag_tags(model), self.options
        training = training_set(told, takes_empty=tags.background, takes_known=tags.instance_labels)
        assert options.select is not None
        return select_setting(
            model, training, options.select, options.grid, folds=options.folds, seed=options.seed, jobs=self.jobs
        )


def create_run(
    make: Callable[..., Any],
    source: Path,
    out: Path,
    *,
    labels: str | Path | None = None,
    columns: tuple[str, str] | None = None,
    separator: str | None = None,
    fold_case: bool = False,
    sheet: str | None = None,
    min_confidence: float = MIN_CONFIDENCE,
    model: str | Path = DEFAULT_MODEL,
    learner: Mapping[str, Any] | None = None,
    select: str | None = None,
    grid: Sequence[Any] = (),
    folds: int = 10,
    medium: str | None = None,
    settings: Any = None,
    reading: Mapping[str, Any] | None = None,
    embed: str | Path | None = None,
    embed_settings: Mapping[str, Any] | None = None,
    embeddings: str | Path | None = None,
    join: bool = False,
    use_known: bool = False,
    known: str | Path | None = None,
    formats: Sequence[str] | None = None,
    noise_share: float = NOISE_SHARE,
    max_noise: float = 0.5,
    precision: float | None = None,
    seed: int | None = None,
    jobs: int = -1,
    cluster: str | None = None,
    page: bool = True,
    names: str | Path | None = None,
    label_studio_root: str | Path | None = None,
    sites: str | Path | None = None,
    overwrite: bool = False,
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
    labels : path or None
        Table of the labels of files or bags, in any form of `read_labels`; or selection tables of Raven or results of
        BirdNET, one file or a folder of them. What has no row is annotated by the model alone. None with a trained
        model, or where a file of bags holds its labels itself.
    columns : (str, str) or None
        Headings of the columns of the table that hold file and label, where there are others too.
    separator : str or None
        What is between several labels in one cell of the table; None finds it out.
    fold_case : bool
        Whether labels that differ in case or blanks only are one.
    sheet : str or None
        The sheet of a spreadsheet that holds the labels; None takes the one that holds a table.
    min_confidence : float
        Detections of BirdNET that are less sure are not used.
    model : str or path
        Name in the catalogue, to be trained; "auto" to choose one (`bagwise.workflow.choose`); or a model file that an
        earlier run wrote.
    learner : dict or None
        Settings of the learner, as text or values.
    select, grid, folds : str or None, list, int
        A setting of the learner to choose from the values of the grid by cross-validated rank loss, from bag labels
        alone.
    medium : str or None
        Name in `bagwise.featurize.media.MEDIA`; None finds it out from the endings of the files.
    settings : dict, settings object or None
        Settings of the medium that differ from the default; a trained model brings its own.
    reading : dict or None
        Options of the reader of a file of bags: format, bag, features.
    embed : path or None
        The ONNX file of a network that was trained elsewhere: instances are described by what it makes of them. With a
        trained model the file that it was trained with, if that does not lie beside it.
    embed_settings : dict or None
        How the network is given its input, where neither its file nor the TOML beside it says so.
    embeddings : path or None
        A table (parquet, npz) of such vectors: file, start, end and vector of windows of recordings.
    join : bool
        Whether these vectors stand beside the features of the medium, in place of standing alone.
    use_known : bool
        Learn from the instance labels that a file of bags holds.
    known : path or None
        Annotations of instances that are known beforehand, in any format that is written: a table or a folder.
    formats : list of str or None
        Names in `bagwise.io.annotations.FORMATS`; None writes all of the medium.
    noise_share : float
        Expected share of instances that are noise, for learners that know a background.
    max_noise : float
        Instances more probably noise than this stand in the long table only.
    precision : float or None
        Keep the largest set of named instances of which this share is expected to be right; the others are marked in
        the long table (``kept``) and left out of the other formats.
    seed : int or None
        Of all that is random in the learner; None leaves it as the catalogue has it.
    jobs : int
        Processes that read files; -1 for all cores.
    cluster : str or None
        Address of a Dask cluster whose workers, which share the storage of the media, read them in place of these.
    page : bool
        Whether to write ``report.html``.
    names : path or None
        Table of the scientific names of labels, for ``birdnet.csv``.
    label_studio_root : path or None
        Folder from which Label Studio serves files, so that its tasks show and play them.
    sites : path or None
        Table of the sites of recording: columns site, latitude, longitude and, if wanted, time_zone.
    overwrite : bool
        Whether another run in `out` may be replaced.
    progress : callable or None
        Called with what is done, how much and of how much.
    say : callable or None
        Called before the fit with each remark on the labels: those that cannot be told apart.

    Returns
    -------
    Run
    """
    step = progress or (lambda what, done, total: None)
    trained = load_trained(model)
    recipe = None if trained is None else getattr(trained, RECIPE)
    labels = None if labels is None else Path(labels)
    fresh = None
    table = read_label_table(
        labels, columns, separator=separator, fold_case=fold_case, sheet=sheet, min_confidence=min_confidence
    )
    has_known = use_known or bool(known) or isinstance(table, Selections)
    if trained is None and str(model) == AUTO:
        refuse_settings(learner or {}, select)
    elif trained is None:
        fresh = make_learner(str(model), learner or {}, noise_share, has_known=has_known, seed=seed)
        if select is not None:
            search_by_rank_loss(fresh, select, grid)  # refuses a setting that is not there
    elif learner or select:
        raise InputError("A trained model keeps its settings; leave --set and --select out, or train one anew.")
    _check_precision(precision, fresh if trained is None else trained, str(model))
    _check_places(source, out, None if trained is None else Path(model))
    if trained is None and labels is None and not source.is_file():
        raise InputError("There is nothing to learn from: give labels (--labels), or a trained model (--model).")
    asked = Asked(
        None if embed is None else Path(embed), None if embeddings is None else Path(embeddings), embed_settings or {},
        join, "segment" in settings if isinstance(settings, Mapping) else settings is not None,
    )  # fmt: skip
    others = (labels, known, sites, *asked.paths)
    told = [path for path in others if path is not None and not _holds(Path(path), source)]
    exclude = [Path(path) for path in (out, *told)]
    found = find_source(
        source, medium=medium, settings=settings, trained=recipe, exclude=exclude, options=reading or {}, labels=table
    )  # fmt: skip
    found = with_vectors(found, asked, recipe, None if trained is None else Path(model))
    if cluster is not None and found.medium.name == TABLE:
        raise InputError(f"--cluster reads media, and {source} is a file of bags; leave it out.")
    if page:
        check_page_can_be_made()
    if trained is None and say is not None and noise_share <= NOISE_SHARE and in_windows(found):
        say(
            f"Windows without a call are noise, and a share of {noise_share:g} of all windows is expected to be that; "
            "in most recordings it is more: say how much (--noise-share 0.6)."
        )
    options = Options(
        labels=labels, columns=columns, model=str(model), learner=dict(learner or {}), select=select, grid=list(grid),
        folds=folds, use_known=use_known, known=None if known is None else Path(known),
        formats=formats_of(found.medium) if formats is None else check_formats(formats, found.medium),
        noise_share=noise_share, max_noise=max_noise, precision=precision, seed=seed, page=page,
        names={} if names is None else read_names(names),
        label_studio_root=None if label_studio_root is None else Path(label_studio_root).resolve(),
        sites=None if sites is None else _read_sites(Path(sites), found),
    )  # fmt: skip
    _check_options(options, source)
    lock = lock_run(out)
    try:
        job = Job(make, out, found, options, trained, lock, jobs, step, say or (lambda text: None))
        old = start_run(out, job.identity, overwrite)
        material = _with_raven_remark(read_material(found, out, table, jobs, step, cluster), options.formats)
        if found.medium.name == TABLE and not use_known:
            material = replace(material, known=[])
        if options.known is not None:
            material = _with_known_marks(material, found, options.known)
        if trained is not None:
            material = _without_strangers(material, trained)
        _outdate_corrections(out, material)
        return _fit_and_write(job, old, material)
    except BaseException:
        unlock_run(lock)
        raise


def _holds(folder: Path, other: Path) -> bool:
    """Whether a path lies in a folder, or is it: tables may lie beside the recordings."""
    return other.resolve().is_relative_to(folder.resolve())


def _check_places(source: Path, out: Path, model: Path | None) -> None:
    """Refuse results in a folder that holds the media or the model, which a later run would replace or leave out."""
    for path, what in ((source, "The media"), (model, "The model")):
        if path is not None and _holds(out, path):
            raise InputError(f"{what} ({path}) must not lie in the folder for the results ({out}); choose another.")


def _check_options(options: Options, source: Path) -> None:
    """Refuse options of formats that are not written, and a folder of Label Studio that does not hold the media."""
    root = options.label_studio_root
    for given, option, name in ((options.names, "--names", "birdnet"), (root, "--label-studio-root", "label-studio")):
        if given and name not in options.formats:
            raise InputError(f"{option} is for the format {name}, which is not written; leave it out, or add {name}.")
    if root is not None and not _holds(root, source):
        raise InputError(
            f"{source} does not lie in {root}, from which Label Studio serves files; give a folder above it "
            "(--label-studio-root)."
        )


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
    if source.medium.name == TABLE:
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
        medium=source.medium, rows=rows, files=material.files, classes=[], folder=source.folder, max_noise=1.0
    )
    said, problems = compare_marks(annotations, read_marks(path, annotations))
    return replace(material, known=[*material.known, *said], problems=[*material.problems, *problems])


def _check_precision(precision: float | None, model: Any, name: str) -> None:
    """Refuse a precision that is none, or that a model cannot promise; None is a model that is not chosen yet."""
    if precision is None:
        return
    if not 0.0 < precision < 1.0:
        raise InputError(f"--precision {precision:g} is no share; give a number between 0 and 1, such as 0.95.")
    if model is not None and not bag_tags(model).probabilities:
        raise InputError(
            f"The model {name!r} gives no probabilities, so that it can promise no precision; leave --precision out, "
            f"or use one that does, such as {DEFAULT_MODEL}."
        )


def _without_strangers(material: Material, model: Any) -> Material:
    """The material for a trained model; a set with a label that the model never saw counts as not known."""
    classes = {str(name) for name in final_step(model).classes_}
    strange = {bag: sorted(set(labels) - classes) for bag, labels in material.sets.items()}
    problems = [
        (bag, f"{bag}: the model does not know {', '.join(labels)}; its labels are not used.")
        for bag, labels in strange.items()
        if labels
    ]
    sets = {bag: labels for bag, labels in material.sets.items() if not strange[bag]}
    known = [told for told in material.known if told[2] in {"", *classes}]
    return replace(material, sets=sets, known=known, problems=[*material.problems, *problems])


def _outdate_corrections(out: Path, material: Material) -> None:
    """What was said of bags whose instances are others now does not count any more; ``corrections.csv`` says so."""
    log = CorrectionLog(out / FILE)
    said = {correction.bag for correction in log.in_force()}
    if not said:
        return
    old, new = read_told(out)["prints"], material.prints()
    changed = sorted(bag for bag in said if bag in new and bag in old and old[bag] != new[bag])
    if changed:
        log.append([Correction(bag, None, "", OUTDATED) for bag in changed])


def _fit_and_write(job: Job, old: dict[str, Any] | None, material: Material) -> Any:
    """Fit what is not fitted yet, and write all of it."""
    for note in job.source.medium.notes(material.files):
        job.say(note)
    if job.trained is None:
        for remark in label_remarks(put_together(material.dataset, material.sets, material.known), job.source.medium):
            job.say(remark)
    key = job.fingerprint(material)
    options = job.options
    manifest = {
        "identity": job.identity,
        "options": {
            "formats": options.formats, "page": options.page, "max_noise": options.max_noise,
            "precision": options.precision,
            "trained": job.trained is not None, "names": dict(options.names),
            "label_studio_root": None if options.label_studio_root is None else str(options.label_studio_root),
            **({} if options.sites is None else {"sites": options.sites}),
        },
        "fitted": key,
        "outputs": [] if old is None else old.get("outputs", []),
    }  # fmt: skip
    if old is not None and old.get("fitted") == key and old.get("versions"):
        manifest |= {name: old[name] for name in ("versions", "about", "selected", "choice") if name in old}
        run = job.make(job.out, manifest, material, job.lock)
    else:
        run = _first_fit(job, manifest, material)
    if run.corrections():
        run.refit(progress=job.step)
    else:
        run.write(progress=job.step)
    return run


def _first_fit(job: Job, manifest: dict[str, Any], material: Material) -> Any:
    """The fit of a new run, or of one whose files or labels changed; corrections come after it, as a refit."""
    write_manifest(job.out, {**manifest, "status": UNFINISHED})
    told = put_together(material.dataset, material.sets, material.known)
    problems: list[Problem] = []
    model = job.trained
    job.step("learning", 0, 0)
    if model is None:
        _check_labelled(told, material.problems)
        name = job.options.model
        if name == AUTO:
            manifest["choice"] = job.choose(material, told)
            name = manifest["choice"]["model"]
        model = job.make_learner(name, material)
        _check_precision(job.options.precision, model, name)
        if job.options.select is not None:
            manifest["selected"] = job.select(model, told)
        problems = fit_told(
            model, told, checkpoint=job.out / STATE / "fit", callback=lambda i, objective: job.step("learning", i, 0)
        )
        recipe = {
            "medium": job.source.medium.name, "settings": job.identity["settings"],
            "feature_names": material.dataset.feature_names, "model": name,
            **({} if job.source.embedded is None else {"embedded": job.source.embedded}),
        }  # fmt: skip
        setattr(model, RECIPE, recipe)
    job.step("learning", 1, 1)
    write_told(job.out, material)
    manifest["about"] = about_model(model)
    run = job.make(job.out, manifest, material, job.lock)
    run.add_version(model, Version(0, [], find_labels(model, told), problems))
    return run


def _check_labelled(told: Told, problems: Sequence[Problem]) -> None:
    """Refuse bags none of which has a label; what was wrong with files and rows may say why."""
    if told.dataset.n_classes == 0:
        raise InputError(
            "No file in which anything was found has a label, so there is nothing to learn from; check that the names "
            "in the table of labels are those of the files."
            + (f" The first of {len(problems)} problem(s): {problems[0][1]}" if problems else "")
        )
