"""Model files changed part by part, and a reader that loads one and then does all that commands do with it."""

from __future__ import annotations

import copy
import io
import json
import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.dataset import BagDataset
from bagwise.exceptions import BagwiseError, InputError

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
DTYPES = ("<f8", "<f4", ">f8", "<i8", "<i4", "|u1", "|b1", "<U3", "<c16", "<M8[s]")
VALUES = (0.0, -1.0, 1.0, 0.5, 1e9, 1e300, -1e300, 1e-300, np.nan, np.inf)
N_FEATURES = 3


def model_seeds(folder: Path) -> list[bytes]:
    """Files of learners of all kinds, each with all that a trained model carries."""
    import bagwise
    from bagwise.catalog import make_model
    from bagwise.likeness import ATTRIBUTE, Likeness
    from bagwise.pipeline import bag_tags, final_step, fit_parameters
    from bagwise.workflow.learner import RECIPE

    small: dict[str, dict[str, Any]] = {
        "ored": {}, "ored-background": {"calibrate": "bag"}, "ored-rbf": {"size": 5}, "sim-max-rff": {}, "clpl": {},
        "ored-forest-background": {"n_estimators": 3, "n_rounds": 1, "n_round_trees": 8, "calibrate": "bag"},
        "mimlfast": {"max_epochs": 2, "n_components": 4}, "lsb-cmm": {"max_iter": 3, "n_components": 3},
        "m3miml": {}, "mimlsvm": {}, "mimlnn": {}, "mimlboost": {"n_rounds": 2}, "most-frequent": {},
        "bag-stack": {"n_estimators": 3, "cv": 2}, "lr-supervised": {}, "svm-supervised": {},
    }  # fmt: skip
    data = examples()
    out = []
    for name, settings in small.items():
        model = make_model(name, **settings)
        if name == "bag-stack":
            final_step(model).set_params(members=[make_model("ored")])
        known = {"instance_labels": data.instance_labels} if bag_tags(model).needs_instance_labels else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.bags, data.label_sets, **fit_parameters(model, **known))
        recipe = {"medium": "table", "settings": {}, "feature_names": data.feature_names, "model": name}
        setattr(model, RECIPE, recipe)
        likeness = Likeness.learn(data.bags)
        assert likeness is not None
        setattr(model, ATTRIBUTE, likeness.to_dict())
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
    from bagwise.cli.info import _model_facts
    from bagwise.io.data.pieces import select_features
    from bagwise.pipeline import bag_tags, final_step
    from bagwise.workflow.find import annotate_piece, predict_piece
    from bagwise.workflow.learner import about_model, load_model, load_trained

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


def mutate_parts(raw: bytes, rng: random.Random) -> bytes:
    """One to three changes of attributes, parameters, arrays and what the file says of itself."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members.pop("model.json"))
    arrays = {name: np.load(io.BytesIO(content)) for name, content in members.items()}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if arrays and rng.random() < 0.5:
            name = rng.choice(list(arrays))
            arrays[name] = _other_array(arrays[name], arrays[rng.choice(list(arrays))], rng)
        else:
            _change_node(document, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model.json", json.dumps(document))
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(name, stream.getvalue())
    return buffer.getvalue()


def _other_array(array: np.ndarray, other: np.ndarray, rng: random.Random) -> np.ndarray:
    kind = rng.randrange(9)
    if kind == 0:
        return other
    if kind == 1 and array.ndim:
        axis = rng.randrange(array.ndim)
        return np.take(array, range(array.shape[axis] - 1), axis=axis)
    if kind == 2 and array.ndim:
        axis = rng.randrange(array.ndim)
        return np.concatenate([array, array], axis=axis)
    if kind == 3:
        return array.reshape(rng.choice([(-1,), (1, -1), (-1, 1), (*array.shape, 1), (1, *array.shape)]))
    if kind == 4:
        return np.ascontiguousarray(array.T)
    if kind == 5:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return array.astype(rng.choice(DTYPES))
            except (ValueError, TypeError):
                return array
    if kind == 6:
        return array[:0] if array.ndim else array
    changed = array.copy()
    if changed.size and changed.dtype.kind in "iuf":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed.reshape(-1)[rng.randrange(changed.size)] = np.array(rng.choice(VALUES)).astype(changed.dtype)
            if kind == 8:
                changed = np.full_like(changed, np.array(rng.choice(VALUES)).astype(changed.dtype))
    elif changed.size and changed.dtype.kind == "U":
        changed.reshape(-1)[0] = rng.choice(["", "a", "\0", "wren"])
    return changed


def _change_node(document: Any, rng: random.Random) -> None:
    """Remove, rename, copy, swap or replace one value of the JSON, at any depth."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(document)
    parent, key = rng.choice(places)
    other, other_key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[str(rng.choice([f"{key}_", "x_", "coef_", "classes_", "_x", "n_jobs", other_key]))] = parent.pop(key)
    elif kind == 2:
        parent[key] = copy.deepcopy(other[other_key])
    elif kind == 3 and isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        parent[key] = rng.choice([parent[key] + 1, -parent[key], parent[key] * 2, 0, 1e300, parent[key] + 0.5])
    elif kind == 4 and isinstance(parent[key], list):
        parent[key] = parent[key][::-1] if rng.random() < 0.5 else parent[key] * 2
    else:
        parent[key] = copy.deepcopy(rng.choice(JUNK))
