"""The learner: made from the catalogue with its settings, or trained earlier and brought along; and its fits."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from bagwise import ORedForest, load
from bagwise._version import __version__
from bagwise.annotation.union_annotator import UnionAnnotator
from bagwise.app.media.files import Problem
from bagwise.app.media.media_types import MEDIA, check_media_type
from bagwise.app.media.recipe import RECIPE
from bagwise.app.media.settings import coerce_value
from bagwise.app.runs._evidence import asks_rates
from bagwise.app.runs._features import Progress, Source
from bagwise.app.runs._material import Material
from bagwise.app.runs._observed import Observed, ObserverRates
from bagwise.app.runs.choose import CANDIDATES, WINDOWS, choose_learner, refuse_settings, tie_scores
from bagwise.app.runs.options import DEFAULT_MODEL, RunOptions
from bagwise.app.runs.supervision import Supervision
from bagwise.calibration import CalibratedAnnotator, CalibratedLabelSets
from bagwise.calibration.novelty import ATTRIBUTE, Novelty
from bagwise.catalog import for_sparse, make_model
from bagwise.core.bags import Bags
from bagwise.core.base import BagEstimator
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import CalibrationWarning, FormatError, InfeasibleBagWarning, InputError
from bagwise.core.fitted import is_fitted, n_inputs, real_steps
from bagwise.core.validation import Evidence, Given
from bagwise.io.checkpoint import Checkpoint, array_fingerprint, identity_of
from bagwise.io.files import check_readable
from bagwise.io.model import read_about
from bagwise.io.tables import first_repeated
from bagwise.model_selection import search_by_rank_loss
from bagwise.pipeline import bag_tags, classes_of, final_step, fit_parameters, make_pipeline
from bagwise.scale import BagSource, fit_source
from bagwise.scale.cluster import open_cluster
from bagwise.scale.fit import check_learner, source_identity
from bagwise.solvers.result import Callback

BAG = "bag"
CALIBRATED = CalibratedAnnotator, CalibratedLabelSets
RATES, LEARN = ("missed", "spurious"), "learn"  # settings that are a number or this word
WORD_OR_NUMBER = ("max_features",)  # whatever the default is
NUMBER = re.compile(r"[+-]?(\d+\.?|\d*\.\d+)(e[+-]?\d+)?", re.IGNORECASE)  # JSON knows neither .2 nor 1.


def load_model(path: str | Path, *, annotates: bool = False) -> tuple[Any, dict[str, Any]]:
    """The estimator of a model file that can predict label sets, or labels of instances, and what it says of itself.

    What a file holds that is whole but cannot do that is an `InputError` that names the file.
    """
    check_readable(path)
    model, about = load(path), read_about(path)
    problem, names = _unfit(model, annotates), about.get("feature_names")
    if problem is None and names is not None:
        if len(names) != n_inputs(model):
            problem = f"names {len(names)} features, and its estimator takes {n_inputs(model)}"
        elif (twice := first_repeated(names)) is not None:
            problem = f"names two features {twice!r}"
    if problem is not None:
        raise InputError(f"The model of {path} {problem}; train another with bagwise fit or bagwise annotate.")
    return model, about


def _unfit(model: Any, annotates: bool) -> str | None:
    """Why an estimator gives no label sets of bags, or no labels of instances."""
    final = final_step(model)
    kind, classes = f"is a {type(final).__name__}", classes_of(model)
    cure = "bagwise predict gives the label sets of bags"
    if not is_fitted(model):
        return f"{kind} that was never fitted"
    if not _takes_bags(model):
        return f"{kind} that takes plain vectors, no bags"
    if classes is None or not hasattr(final, "predict"):
        return f"{kind}, which knows no labels"
    if not any(all(isinstance(name, kinds) for name in classes) for kinds in (str, (int, float))):
        return "has labels that are neither text nor numbers, which Python can use but files cannot hold"
    if not annotates or (bag_tags(model).annotates and hasattr(model, "find")):
        return None
    if bag_tags(final).annotates:
        return f"makes one row of every bag before its last step, so that it does not annotate instances ({cure})"
    return f"{kind}, which does not annotate instances ({cure})"


def _takes_bags(model: Any) -> bool:
    steps = real_steps(model) if isinstance(model, Pipeline) else [model]
    return all(_takes_bags(step) if isinstance(step, Pipeline) else isinstance(step, BagEstimator) for step in steps)


def load_trained(model: str | Path) -> Any:
    """The estimator of a model file that annotates media; None where `model` is a name of the catalogue."""
    if not str(model).endswith(".bagwise") and not Path(model).is_file():
        return None
    estimator, _ = load_model(model, annotates=True)
    recipe = getattr(estimator, RECIPE, None)
    if recipe is None:
        raise InputError(
            f"{model} does not say how media become features, since it was not trained by bagwise annotate; "
            "train one with bagwise annotate."
        )
    embedded = recipe.get("embedded")
    try:
        check_media_type(recipe["medium"]).make_settings(recipe["settings"])
        if embedded is not None and Path(embedded["name"]).name != embedded["name"]:
            raise InputError(f"its vectors are of {embedded['name']!r}, which is no name of a file next to the model.")
    except InputError as error:
        raise FormatError(f"{model} does not say rightly how media become features: {error}") from error
    return estimator


def make_learner(
    name: str,
    settings: Mapping[str, Any],
    noise_share: float,
    *,
    has_known: bool = False,
    seed: int | None = None,
    sparse: bool = False,
) -> Any:
    """A fresh model of the catalogue that annotates instances, with settings and the expected share of noise.

    Its probabilities are calibrated where they can be, unless a setting says otherwise. With `sparse` it is the form
    for sparse features.

    What cannot do the work is refused here, before an hour is spent on reading files.
    """
    model = for_sparse(make_model(name)) if sparse else make_model(name)
    tags = bag_tags(model)
    if not tags.annotates:
        raise InputError(f"The model {name!r} labels bags, not instances; use an annotator, such as {DEFAULT_MODEL}.")
    if tags.needs_instance_labels and not has_known:
        raise InputError(
            f"The model {name!r} learns from instances whose labels are known, and none are; give some (--known), or "
            f"use one that learns from the labels of bags, such as {DEFAULT_MODEL}."
        )
    of_media = {field.name for media_type in MEDIA.values() for field in fields(media_type.settings)}
    hint = " Settings of a media type go with --media-set." if of_media.intersection(settings) else ""
    if isinstance(final_step(model), UnionAnnotator) or tags.label_sets:
        settings = {"calibrate": BAG, **settings}
    model = apply_settings(model, settings, seed=seed, hint=hint)
    learner = learner_inside(model)
    if bag_tags(model).background and "background_share" in learner.get_params() and "background_share" not in settings:
        learner.set_params(background_share=noise_share)
    return model


def learner_inside(model: Any) -> Any:
    """The last step, or what stands in it where that calibrates another."""
    final = final_step(model)
    return final_step(final.estimator) if isinstance(final, CALIBRATED) else final


def with_last_step(model: Any, step: Any) -> Any:
    """The pipeline with another last step, or that step alone."""
    return make_pipeline(*(other for _, other in model.steps[:-1]), step) if isinstance(model, Pipeline) else step


def apply_settings(
    model: Any, settings: Mapping[str, Any], *, seed: int | None = None, jobs: int | None = None, hint: str = ""
) -> Any:
    """The model with these settings, given as text or as values; also its seeds and numbers of jobs, where it has any.

    `calibrate` is a setting of every annotator with probabilities: "bag" puts it into a `CalibratedAnnotator`,
    or a learner of label sets into `CalibratedLabelSets`.

    Parameters
    ----------
    model : estimator or pipeline
    settings : mapping
        Name of a setting of the learner, or of a step before it as ``step__name``, to its value.
    seed, jobs : int or None
    hint : str
        What stands behind the error where there is no such setting.
    """
    everything = model.get_params(deep=True)
    for key in everything:
        holder, _, last = key.rpartition("__")
        is_ours = type(everything.get(holder, model)).__module__.startswith("bagwise.")
        if seed is not None and last == "random_state":
            model.set_params(**{key: seed})
        if jobs is not None and last == "n_jobs" and is_ours:  # scikit-learn's mostly do nothing, and say so
            model.set_params(**{key: jobs})
    final = final_step(model)
    own = final.get_params(deep=True)
    settings = dict(settings)
    how = _parse_value("calibrate", settings.pop("calibrate", None), None) if bag_tags(model).probabilities else None
    if how not in (None, BAG):
        raise InputError(f"The setting 'calibrate' must be {BAG!r} or 'none'; got {how!r}.")
    for name, value in settings.items():
        key = next(iter(fit_parameters(model, **{name: None}))) if name in own else name
        if key not in everything:
            (probe,) = fit_parameters(model, x=None)
            nested = [key for key in everything if "__" in key and not key.startswith(probe[:-1] or " ")]
            before = f"; and before it {', '.join(sorted(nested)[:6])}, ..." if nested else ""
            has = ", ".join(sorted(own)) or "none"
            raise InputError(f"{type(final).__name__} has no setting {name!r}; it has {has}{before}.{hint}")
        model.set_params(**{key: _parse_value(name, value, everything[key])})
    if how is None:
        return model
    return with_last_step(model, (CalibratedLabelSets if bag_tags(final).label_sets else CalibratedAnnotator)(final))


def _parse_value(name: str, given: Any, default: Any) -> Any:
    """The value of a setting, of the same kind as its default; text is read as it would be typed."""
    last, word = name.rpartition("__")[2], given.casefold() if isinstance(given, str) else None
    if given is None or word in ("none", "null"):
        return None
    if default == "auto" and word in ("true", "false"):
        return word == "true"
    if last in RATES:
        try:
            return given if given == LEARN else coerce_value(name, given, 0.0)
        except InputError:
            raise InputError(f"The setting {name!r} must be a number in [0, 1), or {LEARN!r}; got {given!r}.") from None
    if isinstance(default, (bool, int, float, str)) and last not in WORD_OR_NUMBER:
        return coerce_value(name, given, default)
    value = given
    if word is not None:
        try:
            value = json.loads(word if word in ("true", "false") else given)
        except ValueError:
            value = float(given) if NUMBER.fullmatch(given) else given
    if isinstance(value, (list, dict)) or hasattr(default, "get_params"):
        raise InputError(f"The setting {name!r} cannot be given on the command line; use Python for it.")
    return value


def about_model(model: Any) -> dict[str, Any]:
    """What made annotations, for their files."""
    recipe = getattr(model, RECIPE)
    return {
        "model": recipe["model"],
        "medium": recipe["medium"],
        "settings": recipe["settings"],
        "version": __version__,
        "parameters": settings_of(model)["settings"],
        **({"embedded": recipe["embedded"]} if recipe.get("embedded") else {}),
    }


def settings_of(model: Any) -> dict[str, Any]:
    """Class and parameters of the learner, as plain data; the last step of a pipeline."""
    final = learner_inside(model)
    plain = (bool, int, float, str, type(None))
    parameters = {key: value for key, value in final.get_params(deep=False).items() if isinstance(value, plain)}
    if isinstance(final, UnionAnnotator) or bag_tags(final).label_sets:
        parameters["calibrate"] = None if final is final_step(model) else BAG
    return {"class": type(final).__name__, "settings": parameters, "bagwise": __version__}


# ---------------------------------------------------------------------------------------------------------------------
# Fits


def fit_dataset(
    model: Any,
    dataset: BagDataset | BagSource,
    *,
    use_known: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callback | None = None,
    interval: float = 10.0,
    cluster: str | None = None,
) -> Checkpoint | None:
    """Fit a model of the catalogue on the labelled bags; its classes are then the names of the labels that occur.

    Parameters
    ----------
    model : estimator or pipeline
    dataset : BagDataset or BagSource with labels
        The second is read by pieces, at every iteration.
    use_known : bool
        Learn from the known instance labels too. Learners that need them get them in any case.
    checkpoint : folder or None
        Where the state of the fit is kept, so that the same call goes on after an interruption.
    callback : callable or None
        Called after every iteration, by learners that have any.
    interval : float
        Seconds between two checkpoints.
    cluster : str or None
        Address of the Dask cluster whose workers compute on a source.

    Returns
    -------
    Checkpoint or None
        To be cleared when the model is saved.
    """
    state = None
    if isinstance(dataset, BagSource):
        check_learner(model, checkpoint is not None)
        if checkpoint is not None:
            identity = {"settings": settings_of(model), **source_identity(model, dataset, use_known)}
            state = Checkpoint(checkpoint, identity, interval)
        with nullcontext() if cluster is None else open_cluster(cluster) as client:
            fit_source(model, dataset, client, use_known=use_known, checkpoint=state, callback=callback)
        return state
    if dataset.Y is None:
        raise InputError(
            f"Data set {dataset.name!r} carries no bag labels, so nothing can be learned from it; give them in a table "
            "(--labels)."
        )
    final, tags = final_step(model), bag_tags(model)
    wanted = use_known or tags.needs_instance_labels
    if wanted and not tags.instance_labels:
        raise InputError(f"{type(final).__name__} cannot learn from instance labels; train it without.")
    if wanted and dataset.instance_labels is None:
        raise InputError(
            f"Data set {dataset.name!r} has no instance labels, which {type(final).__name__} was to learn from."
        )
    if checkpoint is not None and not tags.checkpoint:
        raise InputError(
            f"{type(final).__name__} keeps no checkpoints; ORedLogisticRegression, ORedNetwork, "
            "SupportInstanceMachine and CLPL do. Train it without."
        )
    training = labelled_bags(dataset, wanted)
    if checkpoint is not None:
        state = Checkpoint(checkpoint, _fit_identity(model, training, training.instance_labels), interval)
    _fit_training_set(model, training, training.instance_labels, state, callback)
    return state


def labelled_bags(dataset: BagDataset, use_known: bool = False) -> BagDataset:
    """The labelled bags as they are, those without a label too: what to do with these is the learner's to decide."""
    if not use_known:
        dataset = replace(dataset, instance_labels=None)
    elif dataset.instance_labels is not None and not dataset.labelled.all():
        dataset = dataset[dataset.labelled]
    noise = np.zeros(dataset.bags.n_instances, dtype=bool)
    return Supervision(dataset, noise).training_set(takes_empty=True, takes_known=use_known)


def _fit_training_set(
    model: Any,
    training: BagDataset,
    known: Bags | None,
    checkpoint: Checkpoint | None,
    callback: Callback | None,
    given: Given | None = None,
) -> None:
    """Fit, giving the learner what it takes of known instances, progress and checkpoint."""
    tags = bag_tags(model)
    tie_scores(model, training)
    parameters: dict[str, Any] = {}
    if known is not None:
        parameters["instance_labels"] = known
    if callback is not None and tags.callback:
        parameters["callback"] = callback
    if checkpoint is not None:
        parameters["checkpoint"] = checkpoint
    labels = replace(given, columns=training.class_names) if isinstance(given, Evidence) else training
    model.fit(training.bags, labels, **fit_parameters(model, **parameters))


def check_model(options: RunOptions, trained: Any, has_known: bool) -> None:
    """Refuse a model that cannot do what is asked for, before an hour is spent on reading files."""
    model = trained
    name = str(options.model or DEFAULT_MODEL)
    if trained is None and name in CANDIDATES:
        refuse_settings(options.learner, options.select)
    elif trained is None:
        has_known = has_known or options.use_known or options.known is not None
        model = make_learner(name, options.learner, options.noise_share, has_known=has_known, seed=options.seed)
        if options.select is not None:  # refuses a setting that is not there
            search_by_rank_loss(learner_inside(model), options.select, options.grid)
    elif options.learner or options.select:
        raise InputError("A trained model keeps its settings; leave --set and --select out, or train a new one.")
    _check_precision(options.precision, model, name)


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


def may_carry_several(options: RunOptions, trained: Any) -> bool:
    """Whether an instance may carry several labels, by the model that is asked for; of windows it may turn out so."""
    if trained is not None:
        return bag_tags(trained).label_sets
    name = str(options.model)
    return name == WINDOWS if name in CANDIDATES else bag_tags(make_model(name)).label_sets


def learn(
    options: RunOptions, material: Material, checkpoint: Path, source: Source, progress: Progress
) -> tuple[Any, list[Problem], dict[str, Any], ObserverRates | None]:
    """Fit the model that was asked for.

    Returns
    -------
    model, problems, how, rates
        `how` says for the manifest how a model or a setting was chosen, `rates` are what was learned of observers.
    """
    supervision, has_known = material.supervision(), bool(material.known)
    dataset, how = supervision.dataset, dict[str, Any]()

    def make(name: str, settings: Mapping[str, Any]) -> Any:
        return make_learner(
            name,
            {**options.learner, **settings},
            options.noise_share,
            has_known=has_known,
            seed=options.seed,
            sparse=sp.issparse(dataset.bags.instances),
        )

    name = str(options.model)
    if name in CANDIDATES:
        names, tried = CANDIDATES[name], dataset
        opened = [bag for bag, own in supervision.marks.items() if own.is_open]
        if opened:  # compared on bags with plain lists, of which mistakes are proven
            names = tuple(name for name in names if bag_tags(make(name, {})).evidence)
            tried = dataset if material.observed else dataset[np.setdiff1d(np.arange(len(dataset)), opened)]
        how["choice"] = choose_learner(
            make, tried, names=names, seed=options.seed, jobs=options.jobs, progress=progress
        )
        name = how["choice"]["model"]
    model = make(name, {})
    _check_precision(options.precision, model, name)
    if options.select is not None:
        how["selected"] = select_setting(
            model,
            _training_set(model, supervision),
            options.select,
            options.grid,
            folds=options.folds,
            seed=options.seed,
            jobs=options.jobs,
        )
    rates = learn_of_observers(model, material.observed, supervision)
    problems = fit_supervised(
        model,
        supervision if rates is None else material.supervision(rates=rates),
        checkpoint=checkpoint,
        callback=lambda i, objective: progress("learning", i, 0),
        too_few=source.too_few,
    )
    recipe = {
        "medium": source.media_type.name,
        "settings": source.settings.to_dict(),
        "feature_names": dataset.feature_names,
        "model": name,
        **({} if source.embedded is None else {"embedded": source.embedded}),
    }
    setattr(model, RECIPE, recipe)
    return model, problems, how, rates


def learn_of_observers(model: Any, observed: Observed, supervision: Supervision) -> ObserverRates | None:
    """What is learned of several observers; None where there are none.

    The learner's rate of missed labels is then that of all observers together, where it has one and learns none.
    """
    if not observed:
        return None
    learner = learner_inside(model)
    rates, unnoticed = observed.learn(with_last_step(model, learner), supervision)
    missed = learner.get_params(deep=False).get("missed")
    if missed is not None and not isinstance(missed, str) and not isinstance(learner, ORedForest):
        learner.set_params(missed=unnoticed)
    return rates


def _training_set(model: Any, supervision: Supervision) -> BagDataset:
    tags = bag_tags(model)
    return supervision.training_set(
        takes_empty=tags.background, takes_known=tags.instance_labels, label_sets=tags.label_sets
    )


def _given_labels(model: Any, supervision: Supervision, training: BagDataset) -> Given:
    """What is said of the labels of the training set; refused where the learner takes lists alone."""
    tags = bag_tags(model)
    assert training.Y is not None
    if not supervision.marks:
        return training.Y
    given = supervision.training_labels(training, tags.background, tags.instance_labels, asks_rates(model))
    opened = [(bag, own) for bag, own in supervision.marks.items() if own.is_open]
    if isinstance(given, Evidence) and not tags.evidence:
        if not opened:  # absent labels: a list says that too
            return training.Y
        bag, own = opened[0]
        raise InputError(
            f"{type(learner_inside(model)).__name__} takes plain lists of labels, and more is said of {len(opened)} "
            f"bag(s), such as {supervision.dataset.bag_names[bag]!r} ({', '.join(sorted(map(str, own.names)))}: "
            "possible, one of several, or with a confidence); use ored-background or noisy-or, or say what is listed."
        )
    return given


def _known_instances(model: Any, supervision: Supervision, training: BagDataset) -> Bags | None:
    """What the learner is given of known instances: a class each, or for a learner of label sets all labels of each."""
    if not bag_tags(model).label_sets:
        return training.instance_labels
    known = supervision.known_sets(training.class_names)
    return None if known is None else Bags(known, training.bags.offsets)


def fit_supervised(
    model: Any,
    supervision: Supervision,
    *,
    checkpoint: Path | None = None,
    callback: Callback | None = None,
    too_few: str = "",
) -> list[Problem]:
    """Fit the model of a run, and keep with it what its training instances look like.

    Gives the bags whose labels cannot be explained.

    Parameters
    ----------
    model : unfitted estimator or pipeline
    supervision : Supervision
    checkpoint : folder or None
        A fit that was interrupted there goes on, if it was the same one; another one is discarded.
    callback : callable or None
    too_few : str
        What is said of a bag with fewer instances than labels, see `MediaType`.
    """
    problems: list[Problem] = []
    if bag_tags(model).label_sets:
        supervision, refuted = supervision.without_refuted()
        for bag, labels in refuted:
            text = f"lists {', '.join(labels)}, and somebody said of each of its instances that it carries other labels"
            problems.append((bag, f"{bag} {text}; these count. Correct one of the two."))
    else:
        supervision = supervision.of_one_label()
    training = _training_set(model, supervision)
    known = _known_instances(model, supervision, training)
    given = _given_labels(model, supervision, training)
    if not bag_tags(model).label_sets:
        problems = _unexplainable(training, too_few)
    state = None
    if checkpoint is not None and bag_tags(model).checkpoint:
        identity = _fit_identity(model, training, known, given)
        try:
            state = Checkpoint(checkpoint, identity)
        except InputError:  # of a fit that was never finished, with other data or settings
            Checkpoint.forget(checkpoint)
            state = Checkpoint(checkpoint, identity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        warnings.simplefilter("ignore", CalibrationWarning)  # the page says so
        try:
            _fit_training_set(model, training, known, state, callback, given)
        except InputError as error:
            if not problems:
                raise
            raise InputError(f"{error} The first of {len(problems)} problem(s): {problems[0][1]}") from error
    novelty = Novelty.learn(training.bags)
    setattr(model, ATTRIBUTE, None if novelty is None else novelty.to_dict())
    if state is not None:
        state.clear()
    return problems


def _unexplainable(training: BagDataset, too_few: str) -> list[Problem]:
    assert training.Y is not None
    counts, sizes = training.Y.sum(axis=1, dtype=np.int64), training.bags.sizes
    bags = [(str(training.bag_names[i]), counts[i], sizes[i]) for i in np.flatnonzero(counts > sizes)]
    hint = f"; {too_few}." if too_few else "."
    return [
        (bag, f"{bag}: {n} labels but {size} instance(s), so not all can be explained{hint}") for bag, n, size in bags
    ]


def select_setting(
    model: Any,
    training: BagDataset,
    name: str,
    values: Sequence[Any],
    *,
    folds: int,
    seed: int | None,
    jobs: int | None,
) -> dict[str, Any]:
    """Set the named setting to the value of least cross-validated rank loss; gives name and value."""
    learner = learner_inside(model)  # calibration changes no ranking, and costs folds within folds
    candidate = clone(with_last_step(model, learner))
    search = search_by_rank_loss(candidate, name, values, cv=folds, random_state=seed)
    best = search.set_params(refit=False, n_jobs=jobs).fit(training.bags, training.label_sets).best_params_
    chosen = {key.rsplit("__", 1)[-1]: value for key, value in best.items()}
    learner.set_params(**chosen)
    return chosen


def _fit_identity(
    model: Any, training: BagDataset, instance_labels: Bags | None, given: Given | None = None
) -> dict[str, Any]:
    """What makes two fits the same: data, labels, settings, versions."""
    X = training.bags.instances
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    known = [] if instance_labels is None else [instance_labels.instances]
    names = np.frombuffer("\n".join(map(repr, training.class_names)).encode(), np.uint8)
    assert training.Y is not None
    if isinstance(given, Evidence):
        known += [given.values, np.frombuffer(repr(given.groups).encode(), np.uint8)]
    data = array_fingerprint(*parts, training.bags.offsets, names, training.Y, *known)
    return {"settings": settings_of(model), **identity_of(model, data)}
