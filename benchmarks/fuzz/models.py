"""Model files, and a reader that loads one and then does all that commands do with it."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BagwiseError, InputError
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import TOKENS, change_archive, rezip

JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**18, 2**64, 10**30, -0.5, 0.5, 1e300, 1e-320, "", "a", "max", "passthrough",
    "features", "scale", [], [[]], [1], ["a", "b"], {}, {"kind": "tuple", "items": []},
    {"kind": "float", "value": "nan"}, {"kind": "float", "value": "inf"}, {"kind": "dict", "items": []},
    {"kind": "set", "items": [1]}, {"kind": "object-array", "shape": [2], "items": ["a", "b"]},
    {"kind": "numpy-str", "value": "x"}, {"kind": "scalar", "dtype": "<f8", "hex": "000000000000f03f"},
    {"kind": "scalar", "dtype": "<i8", "hex": "ffffffffffffffff"}, {"kind": "dtype", "value": "<f4"},
    {"kind": "estimator", "class": "CLPL", "params": {}, "state": {}},
    {"kind": "estimator", "class": "sklearn.StandardScaler", "params": {}, "state": {"n_features_in_": 3}},
]  # fmt: skip
N_FEATURES = 3


def model_seeds(folder: Path) -> list[bytes]:
    """Files of learners of all kinds, each with all that a trained model carries."""
    import bagwise
    from bagwise.app.runs.learner import RECIPE
    from bagwise.calibration import CalibratedAnnotator
    from bagwise.calibration.novelty import ATTRIBUTE, Novelty
    from bagwise.catalog import make_model
    from bagwise.pipeline import bag_tags, final_step, fit_parameters

    small: dict[str, dict[str, Any]] = {
        "ored": {}, "ored-background": {}, "ored-rbf": {"size": 5}, "sim-max-rff": {}, "clpl": {},
        "ored-forest-background": {"n_estimators": 3, "n_rounds": 1, "n_round_trees": 8},
        "mimlfast": {"max_epochs": 2, "n_components": 4}, "lsb-cmm": {"max_iter": 3, "n_components": 3},
        "m3miml": {}, "mimlsvm": {}, "mimlnn": {}, "mimlboost": {"n_rounds": 2}, "most-frequent": {},
        "bag-stack": {"n_estimators": 3, "cv": 2}, "lr-supervised": {}, "svm-supervised": {},
    }  # fmt: skip
    data = examples()
    out = []
    for name, settings in small.items():
        model = make_model(name, **settings)
        if "background" in name:
            model = CalibratedAnnotator(model)
        if name == "bag-stack":
            final_step(model).set_params(members=[make_model("ored")])
        known = {"instance_labels": data.instance_labels} if bag_tags(model).needs_instance_labels else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.bags, data.label_sets, **fit_parameters(model, **known))
        recipe = {"medium": "table", "settings": {}, "feature_names": data.feature_names, "model": name}
        setattr(model, RECIPE, recipe)
        novelty = Novelty.learn(data.bags)
        assert novelty is not None
        setattr(model, ATTRIBUTE, novelty.to_dict())
        bagwise.save(model, folder / "m.bagwise", {"model": name, "feature_names": data.feature_names})
        out.append((folder / "m.bagwise").read_bytes())
    return out


def examples(n_features: int = N_FEATURES) -> BagDataset:
    """Twenty bags of which every instance is named."""
    rng = np.random.default_rng(0)
    labels, offsets = rng.integers(0, 3, 60), np.arange(0, 61, 3)
    instances = rng.normal(size=(60, n_features)) + 3 * np.eye(3, n_features)[labels]
    bags, Y = Bags(instances, offsets), np.zeros((20, 3), np.uint8)
    Y[bags.bag_index, labels] = 1
    return BagDataset(
        bags=bags, Y=Y, class_names=["wren", "robin", "jay"], instance_labels=Bags(labels, offsets),
        feature_names=[f"f{i}" for i in range(n_features)],
    )  # fmt: skip


def use_model(path: Path) -> None:
    """Load a model and do with it what `predict`, `annotate-table`, `info` and `annotate` do."""
    from bagwise.app.cli._info import _model_facts
    from bagwise.app.runs.learner import about_model, load_model, load_trained
    from bagwise.app.runs.predictions import annotate_piece, predict_piece
    from bagwise.io.data.formats import select_features
    from bagwise.pipeline import bag_tags, final_step

    _model_facts(path)
    model, about = load_model(path)
    data = examples()
    try:
        few = data[np.arange(4)]
        few = select_features(few, about.get("feature_names"), path)
        predict_piece(model, few, with_scores=True)
        if not bag_tags(model).annotates:
            return
        load_trained(path)
        about_model(model)
        annotate_piece(model, few, use_labels=False)
        known = set(final_step(model).classes_.tolist())
        if known >= set(few.class_names):
            annotate_piece(model, few, use_labels=True)
    except BagwiseError as error:  # what is said of the data need not name the model
        raise InputError(f"{path}: {error}") from error


def small_model(folder: Path) -> Ready:
    """A model file that is only loaded."""
    import bagwise

    data = examples()
    model = bagwise.ORedLogisticRegression(max_iter=3, tol=10.0).fit(data.bags, data.label_sets)
    bagwise.save(model, folder / "m.bagwise")
    return Ready([(folder / "m.bagwise").read_bytes()], bagwise.load)


def all_models(folder: Path) -> Ready:
    """Models of all kinds, which are used too."""
    return Ready(model_seeds(folder), use_model)


change_model = partial(change_archive, junk=JUNK)
KINDS = [
    Kind("model", small_model, (".bagwise",), TOKENS["binary"], rezip),
    Kind("model-use", all_models, (".bagwise",), TOKENS["binary"], change_model, share=0.95),
]
