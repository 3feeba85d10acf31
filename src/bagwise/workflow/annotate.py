"""The whole job: a folder and a table of labels in; annotations, a page and a model out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._version import __version__
from bagwise.bags import BagDataset
from bagwise.exceptions import InfeasibleBagWarning, InputError
from bagwise.featurize._result import FileBags, assemble
from bagwise.io import save
from bagwise.io.annotations import Annotations, check_formats, formats_of, write_formats
from bagwise.io.labels import LabelTable, read_labels
from bagwise.memory import check_allocation
from bagwise.pipeline import final_step
from bagwise.workflow.featurize import Featurized, Progress, featurize_folder, refuse_other_channels
from bagwise.workflow.labels import MatchedLabels, match_labels
from bagwise.workflow.manifest import NAME, finish_run, open_run
from bagwise.workflow.media import check_medium, find_files, guess_medium
from bagwise.workflow.predict import find_labels, finding_rows
from bagwise.workflow.result import AnnotateResult, Problem
from bagwise.workflow.train import DEFAULT_MODEL, check_labelled, load_trained, train, without_strangers

MODEL_FILE, PAGE = "model.bagwise", "report.html"
NOISE_SHARE = 0.1


def annotate_media(
    folder: str | Path,
    out: str | Path,
    *,
    labels: str | Path | None = None,
    columns: tuple[str, str] | None = None,
    model: str | Path = DEFAULT_MODEL,
    medium: str | None = None,
    settings: dict[str, str] | None = None,
    formats: Sequence[str] | None = None,
    noise_share: float = NOISE_SHARE,
    max_noise: float = 0.5,
    jobs: int = -1,
    page: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> AnnotateResult:
    """Annotate all media of a folder.

    Parameters
    ----------
    folder : path
        Recordings, pictures, texts or series; folders below it are searched too.
    out : path
        Folder for the results. If it holds the same run, unfinished or not, what is done is not done again.
    labels : path or None
        Table of the labels of files, in any form of `read_labels`. Files without a row are annotated by the model
        alone. None only with a trained model.
    columns : (str, str) or None
        Headings of the columns of the table that hold file and label, where there are others too.
    model : str or path
        Name in the catalogue, to be trained; or a model file that an earlier run wrote.
    medium : {"audio", "image", "text", "series"} or None
        None finds it out from the endings of the files.
    settings : dict of str to str
        Settings of the medium that differ from the default; a trained model brings its own.
    formats : list of str or None
        Names in `bagwise.io.annotations.FORMATS`; None writes all of the medium.
    noise_share : float
        Expected share of instances that are noise, for learners that know a background.
    max_noise : float
        Instances more probably noise than this stand in the long table only.
    jobs : int
        Processes that read files; -1 for all cores.
    page : bool
        Whether to write ``report.html``.
    overwrite : bool
        Whether another run in `out` may be replaced.
    progress : callable or None
        Called with what is done, how much and of how much.

    Returns
    -------
    AnnotateResult
    """
    folder, out = Path(folder), Path(out)
    labels = None if labels is None else Path(labels)
    step = progress or (lambda what, done, total: None)
    trained = load_trained(model)
    _check_places(folder, out, None if trained is None else Path(model))
    if trained is None and labels is None:
        raise InputError("There is nothing to learn from: pass a table of labels, or a trained model.")
    name, label = columns or (None, None)
    table = None if labels is None else read_labels(labels, name=name, label=label, repeats="join")
    exclude = [out, *([labels] if labels else [])]
    medium, reading = _choose_settings(folder, exclude, medium, settings or {}, trained)
    names = find_files(folder, check_medium(medium), reading, exclude)
    chosen = formats_of(medium) if formats is None else check_formats(formats, medium)
    identity = {
        "folder": str(folder.resolve()), "medium": medium, "settings": reading.to_dict(),
        "labels": None if labels is None else str(labels.resolve()), "model": str(model),
        **({"columns": list(columns)} if columns else {}),
    }  # fmt: skip
    open_run(out, identity, overwrite)

    done = featurize_folder(folder, names, medium, reading, out, jobs, step)
    if medium == "series":
        done = refuse_other_channels(done, None if trained is None else trained.featurizer_["feature_names"])
    matched, problems = _match(table, labels, names, done)
    dataset = _dataset(done, matched, medium, reading, trained)
    assert dataset.bag_names is not None
    label_sets = [matched.sets.get(str(name)) for name in dataset.bag_names]
    step("learning", 0, 1)
    if trained is None:
        recipe = {"medium": medium, "settings": reading.to_dict(), "feature_names": dataset.feature_names}
        check_labelled(label_sets, matched.problems or problems)
        estimator, more = train(str(model), dataset, label_sets, noise_share)
        estimator.featurizer_ = {**recipe, "model": str(model)}
    else:
        estimator = trained
        label_sets, more = without_strangers(label_sets, dataset.bag_names, estimator)
    step("learning", 1, 1)
    annotations, unexplained = _annotate(estimator, dataset, label_sets, done, folder, max_noise)
    result = AnnotateResult(
        annotations=annotations,
        problems=problems + more + _never_given(annotations, unexplained, more),
        unexplained=unexplained,
        outputs=write_formats(annotations, out, chosen),
        form="" if table is None else table.form,
        n_reused=done.n_reused,
        label_sets=dict(zip(map(str, dataset.bag_names), label_sets, strict=True)),
    )
    _finish(result, out, identity, estimator if trained is None else None, page, step)
    return result


def _check_places(folder: Path, out: Path, model: Path | None) -> None:
    """Refuse results in a folder that holds the media or the model, which a later run would replace or leave out."""
    for path, what in ((folder, "The media"), (model, "The model")):
        if path is not None and path.resolve().is_relative_to(out.resolve()):
            raise InputError(f"{what} ({path}) must not lie in the folder for the results ({out}); choose another.")


def _choose_settings(
    folder: Path, exclude: list[Path], medium: str | None, settings: dict[str, str], trained: Any
) -> tuple[str, Any]:
    if trained is None:
        medium = medium or guess_medium(folder, exclude)
        return medium, check_medium(medium).settings.from_text(settings)
    kept = trained.featurizer_
    if settings or medium not in (None, kept["medium"]):
        raise InputError(
            f"The model was trained on {kept['medium']} with its own settings; leave medium and settings out."
        )
    return kept["medium"], check_medium(kept["medium"]).settings(**kept["settings"])


def _match(
    table: LabelTable | None, path: Path | None, names: list[str], done: Featurized
) -> tuple[MatchedLabels, list[Problem]]:
    """Labels by bag, and all that is wrong so far."""
    problems = list(done.errors.items())
    problems += [(name, f"{name}: {text}") for name, file in done.bags.items() for text in file.problems]
    if not done.bags:
        raise InputError(f"None of the {len(names)} files could be read; the first: {problems[0][1]}")
    if table is None or path is None:
        return MatchedLabels(), problems
    matched = match_labels(table, path, names, done.bags, list(done.errors))
    return matched, problems + table.problems + matched.problems


def _dataset(done: Featurized, matched: MatchedLabels, medium: str, settings: Any, trained: Any) -> BagDataset:
    """All bags that hold instances, with dense features: scaling would fill sparse ones anyway."""
    kind = check_medium(medium)
    files = [_merge_pieces(file, name) if name in matched.whole else file for name, file in done.bags.items()]
    names = kind.feature_names(files, settings) if trained is None else trained.featurizer_["feature_names"]
    features = kind.features(files, names)
    if sp.issparse(features):
        n_bytes = 8 * features.shape[0] * features.shape[1]
        check_allocation(n_bytes, "The table of terms", "keep a smaller share of the terms")
        features = features.toarray()
    return assemble(files, features, list(names), medium)


def _merge_pieces(file: FileBags, name: str) -> FileBags:
    """One bag of a file whose labels speak of the whole of it."""
    return FileBags([name], [sum(file.sizes)], file.features, file.locations, file.info, file.problems, file.terms)


def _annotate(
    estimator: Any, dataset: BagDataset, label_sets: Sequence[set[str] | None], done: Featurized, folder: Path,
    max_noise: float,
) -> tuple[Annotations, list[tuple[str, list[str]]]]:  # fmt: skip
    """The annotations, and for each bag the labels that none of its instances was given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        found = find_labels(estimator, dataset, label_sets)
    classes = [str(name) for name in final_step(estimator).classes_]
    recipe = estimator.featurizer_
    about = {"version": __version__, "parameters": _parameters(estimator)}
    annotations = Annotations(
        medium=recipe["medium"],
        rows=finding_rows(dataset, classes, found),
        files=[{"file": name, **bags.info} for name, bags in done.bags.items()],
        classes=classes,
        about={"model": recipe["model"], "medium": recipe["medium"], "settings": recipe["settings"], **about},
        folder=folder,
        max_noise=max_noise,
    )
    assert dataset.bag_names is not None
    given = dataset.bags.split(np.array(found.labels, dtype=object))
    triples = zip(dataset.bag_names, label_sets, given, strict=True)
    missing = [(str(name), sorted((listed or set()) - set(labels))) for name, listed, labels in triples]
    return annotations, [(name, labels) for name, labels in missing if labels]


def _never_given(
    annotations: Annotations, unexplained: Sequence[tuple[str, list[str]]], named: Sequence[Problem]
) -> list[Problem]:
    """Labels that no instance of any bag was given, but for those of bags that are named as a problem already."""
    given = {row["label"] for row in annotations.rows}
    bags: dict[str, list[str]] = {}
    for bag, labels in unexplained:
        for label in labels:
            bags.setdefault(label, []).append(bag)
    known = {name for name, _ in named}
    return [
        (names[0], f"{names[0]}: the label {label!r} was given to no instance, here or in any other of the "
                   f"{len(names)} bag(s) that list it; check what was found there.")
        for label, names in sorted(bags.items())
        if label not in given and not known.intersection(names)
    ]  # fmt: skip


def _parameters(estimator: Any) -> dict[str, Any]:
    """The parameters of the learner that are plain values."""
    plain = (str, int, float, bool, type(None))
    parameters = final_step(estimator).get_params(deep=False)
    return {key: value for key, value in parameters.items() if isinstance(value, plain)}


def _finish(
    result: AnnotateResult, out: Path, identity: dict[str, Any], estimator: Any, page: bool, step: Progress
) -> None:
    """Write the model where it is new, the page, and last the manifest."""
    if estimator is not None:
        save(estimator, out / MODEL_FILE)
        result.outputs.append(out / MODEL_FILE)
    if page:
        from bagwise.report.page import write_page  # draws, so it needs what a plain install does not bring

        write_page(result, out / PAGE, step)
        result.outputs.append(out / PAGE)
    annotations = result.annotations
    finish_run(out, {
        "identity": identity,
        "about": annotations.about,
        "max_noise": annotations.max_noise,
        "classes": annotations.classes,
        "files": annotations.files,
        "instances": len(annotations.rows),
        "problems": [{"name": name, "message": message} for name, message in result.problems],
        "unexplained": [{"bag": name, "labels": names} for name, names in result.unexplained],
        "outputs": [path.relative_to(out).as_posix() for path in result.outputs],
    })  # fmt: skip
    result.outputs.append(out / NAME)
