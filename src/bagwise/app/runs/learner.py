"""The learner of a run: made from the catalogue with its settings, or trained earlier and brought along."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from bagwise import load
from bagwise._version import __version__
from bagwise.annotation.union_annotator import UnionAnnotator
from bagwise.app.media.media_types import MEDIA, check_media_type
from bagwise.app.media.recipe import RECIPE
from bagwise.app.media.settings import coerce_value
from bagwise.app.runs.options import DEFAULT_MODEL
from bagwise.calibration import CalibratedAnnotator
from bagwise.catalog import for_sparse, make_model
from bagwise.core.base import BagEstimator
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import is_fitted, n_inputs, real_steps
from bagwise.io.files import check_readable
from bagwise.io.model import read_about
from bagwise.io.tables import first_repeated
from bagwise.pipeline import bag_tags, classes_of, final_step, fit_parameters, make_pipeline

BAG = "bag"
RATES, LEARN = ("missed", "spurious"), "learn"  # settings that are a number or this word
WORD_OR_NUMBER = ("max_features",)  # whatever the default is
NUMBER = re.compile(r"[+-]?(\d+\.?|\d*\.\d+)(e[+-]?\d+)?", re.IGNORECASE)  # JSON knows neither .2 nor 1.


def load_model(path: str | Path, *, annotates: bool = False) -> tuple[Any, dict[str, Any]]:
    """The estimator of a model file that can predict label sets, or labels of instances, and what it says of itself.

    What a file holds that is whole but cannot do that is an `InputError` that names the file.
    """
    check_readable(path)
    model, about = load(path), read_about(path)
    problem = _unfit_for_bags(model) or (_unfit_to_annotate(model) if annotates else None)
    names = about.get("feature_names")
    if problem is None and names is not None and len(names) != n_inputs(model):
        problem = f"names {len(names)} features, and its estimator takes {n_inputs(model)}"
    if problem is None and names is not None and (twice := first_repeated(names)) is not None:
        problem = f"names two features {twice!r}"
    if problem is not None:
        raise InputError(f"The model of {path} {problem}; train another with bagwise fit or bagwise annotate.")
    return model, about


def _unfit_for_bags(model: Any) -> str | None:
    """Why an estimator gives no label sets of bags."""
    final = final_step(model)
    if not is_fitted(model):
        return f"is a {type(final).__name__} that was never fitted"
    if not _takes_bags(model):
        return f"is a {type(final).__name__} that takes plain vectors, no bags"
    classes = classes_of(model)
    if classes is None or not hasattr(final, "predict"):
        return f"is a {type(final).__name__}, which knows no labels"
    if not (all(isinstance(name, str) for name in classes) or all(isinstance(name, (int, float)) for name in classes)):
        return "has labels that are neither text nor numbers, which Python can use but files cannot hold"
    return None


def _takes_bags(model: Any) -> bool:
    steps = real_steps(model) if isinstance(model, Pipeline) else [model]
    return all(_takes_bags(step) if isinstance(step, Pipeline) else isinstance(step, BagEstimator) for step in steps)


def _unfit_to_annotate(model: Any) -> str | None:
    if bag_tags(model).annotates and hasattr(model, "find"):
        return None
    cure = "bagwise predict gives the label sets of bags"
    if bag_tags(final_step(model)).annotates:
        return f"makes one row of every bag before its last step, so that it does not annotate instances ({cure})"
    return f"is a {type(final_step(model)).__name__}, which does not annotate instances ({cure})"


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
    try:
        _check_recipe(recipe)
    except InputError as error:
        raise FormatError(f"{model} does not say rightly how media become features: {error}") from error
    return estimator


def _check_recipe(recipe: Mapping[str, Any]) -> None:
    """Refuse a recipe, whole as it may be, that does not fit its media type or names a file elsewhere."""
    check_media_type(recipe["medium"]).make_settings(recipe["settings"])
    embedded = recipe.get("embedded")
    if embedded is not None and Path(embedded["name"]).name != embedded["name"]:
        raise InputError(f"its vectors are of {embedded['name']!r}, which is no name of a file next to the model.")


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
    if isinstance(final_step(model), UnionAnnotator):
        settings = {"calibrate": BAG, **settings}
    model = apply_settings(model, settings, seed=seed, hint=hint)
    learner = learner_inside(model)
    if bag_tags(model).background and "background_share" in learner.get_params() and "background_share" not in settings:
        learner.set_params(background_share=noise_share)
    return model


def learner_inside(model: Any) -> Any:
    """The last step, or what stands in it where that is a `CalibratedAnnotator`."""
    final = final_step(model)
    return final_step(final.estimator) if isinstance(final, CalibratedAnnotator) else final


def with_last_step(model: Any, step: Any) -> Any:
    """The pipeline with another last step, or that step alone."""
    return make_pipeline(*(other for _, other in model.steps[:-1]), step) if isinstance(model, Pipeline) else step


def apply_settings(
    model: Any, settings: Mapping[str, Any], *, seed: int | None = None, jobs: int | None = None, hint: str = ""
) -> Any:
    """The model with these settings, given as text or as values; also its seeds and numbers of jobs, where it has any.

    `calibrate` is a setting of every annotator with probabilities: "bag" puts it into a `CalibratedAnnotator`.

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
    return model if how is None else with_last_step(model, CalibratedAnnotator(final))


def _parse_value(name: str, given: Any, default: Any) -> Any:
    """The value of a setting, of the same kind as its default; text is read as it would be typed."""
    last, word = name.rpartition("__")[2], given.casefold() if isinstance(given, str) else None
    if given is None or word in ("none", "null"):
        return None
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
    if isinstance(final, UnionAnnotator):
        parameters["calibrate"] = None if final is final_step(model) else BAG
    return {"class": type(final).__name__, "settings": parameters, "bagwise": __version__}
