"""The model file: what goes in comes out, and nothing else ever happens."""

import copy
import errno
import io
import json
import math
import pickle
import warnings
import zipfile
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

import bagwise
from bagwise import load, save
from bagwise.annotation import (
    MostFrequentAnnotator,
    ORedLogisticRegression,
)
from bagwise.catalog import CATALOG, make_model
from bagwise.core.bags import Bags
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import Attribute
from bagwise.datasets import make_gaussian_bags
from bagwise.io import archive, model
from bagwise.io.model import MAX_DEPTH
from bagwise.pipeline import BagPipeline, bag_tags, fit_parameters
from bagwise.preprocessing import CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary


class Toy(BaseEstimator):
    """Stands for a bagwise estimator: a parameter of any kind, and a fit that learns whatever it is given."""

    _fitted = {"learned_": Attribute()}  # noqa: RUF012

    def __init__(self, value=None, seed=None):
        self.value = value
        self.seed = seed

    def fit(self, learned):
        self.learned_ = learned
        return self

    def predict(self, X):
        return X


class Stranger(Toy):
    pass


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.setitem(model.CLASSES, "Toy", Toy)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bagwise"


def same(a, b):
    """Equal in value and in every type, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(same(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return a == b and sorted(map(typed, a)) == sorted(map(typed, b))
    if sp.issparse(a):
        return a.shape == b.shape and all(
            same(getattr(a, part), getattr(b, part)) for part in ("data", "indices", "indptr")
        )
    if isinstance(a, Bags):
        return same(a.instances, b.instances) and same(a.offsets, b.offsets)
    if isinstance(a, BaseEstimator):
        return same(vars(a), vars(b))
    if isinstance(a, (float, np.floating)) and math.isnan(a):
        return math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b) if isinstance(a, float) else a == b


def typed(value):
    return f"{type(value)} {value!r}"


def round_trip(estimator, path):
    save(estimator, path)
    return load(path)


# ------------------------------------------------------------------------------------------------------------
# Values

VALUES = [
    None,
    True,
    False,
    0,
    -(2**200),
    0.1,
    -0.0,
    1e-320,
    math.inf,
    -math.inf,
    math.nan,
    "",
    "wren \N{BIRD} \x00",
    [],
    [1, [2.0, ["3"]]],
    (),
    (1, (2,)),
    set(),
    {1, "a", (2, None)},
    frozenset({frozenset({1}), "x"}),
    {},
    {"a": 1, 2: "b", (3, None): {"c": ()}, None: [], frozenset({1}): {1}},
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.float32(0.1),
    np.float64(math.nan),
    np.complex128(1 - 2j),
    np.bool_(True),
    np.str_("owl"),
    np.str_(""),
    np.datetime64("2024-05-01T12:00", "ns"),
    np.timedelta64(3, "D"),
    np.dtype(np.float32),
    np.dtype("<U7"),
    np.float64,
    np.bool_,
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(10)[::3],
    np.array(3.5),
    np.zeros((0, 4), dtype=np.float32),
    np.array(["owl", "a wren"]),
    np.array([True, False]),
    np.array([1, 2], dtype=">i4"),
    np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
    np.array([None, 1, "a", (2, "b"), frozenset({3})], dtype=object),
    np.empty((0, 2), dtype=object),
    sp.csr_matrix(np.eye(3, 4)),
    sp.csr_array(np.arange(4.0, dtype=np.float32).reshape(2, 2)),
    sp.csr_matrix((0, 5)),
    Bags(np.arange(6.0, dtype=np.float32).reshape(3, 2), [0, 1, 3]),
    Bags(np.array([1, -1, 0]), [0, 2, 3]),
    Bags(sp.csr_matrix(np.eye(3)), [0, 3]),
]


class TestValues:
    @pytest.mark.parametrize("value", VALUES, ids=[f"{i}-{type(v).__name__}" for i, v in enumerate(VALUES)])
    def test_come_back_as_they_were(self, value, path):
        back = round_trip(Toy(value=value).fit(value), path)
        assert type(back) is Toy
        assert same(back.value, value)
        assert same(back.learned_, value)

    def test_all_at_once(self, path):
        assert same(round_trip(Toy(VALUES), path).value, VALUES)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.lists(inner, max_size=3).map(tuple)
                | st.dictionaries(st.text(max_size=3) | st.integers() | st.tuples(st.text()), inner, max_size=3)
            ),
            max_leaves=12,
        )
    )
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_nesting(self, path, value):
        assert same(round_trip(Toy(value), path).value, value)

    @pytest.mark.parametrize(
        "classes",
        [
            np.array(["a", "b"]),
            np.array([3, 5]),
            np.array([("a", 1), ("b", 2), None], dtype=object)[[0, 2]],
            np.array([frozenset({1}), None, "x", 1, 1.0, True, ("t",)], dtype=object),
        ],
    )
    def test_class_names_of_any_kind(self, classes, path):
        back = round_trip(Toy().fit(classes), path).learned_
        assert same(back, classes)
        assert [type(name) for name in back.tolist()] == [type(name) for name in classes.tolist()]

    def test_the_order_in_memory_is_kept(self, path):
        """BLAS gives other last bits for the other order."""
        array = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 4)))
        back = round_trip(Toy(array), path).value
        assert back.flags.f_contiguous
        assert not back.flags.c_contiguous

    def test_arrays_can_be_written_to(self, path):
        back = round_trip(Toy(np.zeros(3)), path).value
        back[0] = 1
        assert back.tolist() == [1, 0, 0]

    def test_an_estimator_that_was_never_fitted(self, path):
        assert vars(round_trip(Toy(3), path)) == {"value": 3, "seed": None}

    def test_the_same_model_gives_the_same_bytes(self, tmp_path):
        value = {"wren", "owl", "tit", "jay", "robin"}
        reordered = set()
        for name in sorted(value):
            reordered.add(name)
        save(Toy(value), tmp_path / "a")
        save(Toy(reordered), tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_it_is_plain_data(self, path):
        save(Toy(np.arange(3)), path)
        with zipfile.ZipFile(path) as archive:
            assert archive.namelist() == ["model.json", "arrays/0.npy"]
            document = json.loads(archive.read("model.json"))
            assert_array_equal(np.load(io.BytesIO(archive.read("arrays/0.npy")), allow_pickle=False), [0, 1, 2])
        assert document["format"] == "bagwise-model"
        assert document["version"] == 1
        assert document["written_by"]["scikit-learn"] == sklearn.__version__
        assert document["written_by"]["numpy"] == np.__version__
        assert document["written_by"]["bagwise"] == bagwise.__version__


class TestRefusedOnSaving:
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (lambda x: x, r"Toy\.value is <function .*code cannot be saved"),
            (len, r"Toy\.value is <built-in function len>, and code cannot be saved"),
            (SVC, "code cannot be saved"),
            ([0, {"k": partial(max)}], r"Toy\.value\[1\]\['k'\] is .*code cannot be saved"),
            (np.random.RandomState(0), r"Toy\.value is a numpy RandomState.*pass an int as the seed"),
            (np.random.default_rng(0), r"Toy\.value is a numpy Generator.*pass an int as the seed"),
            (
                SVC(),
                r"Toy\.value is a sklearn\.svm\._classes\.SVC, which the model file does not take; it takes",
            ),
            ((1, Stranger()), r"Toy\.value\[1\] is a .*Stranger, which the model file does not take"),
            (slice(3), r"Toy\.value is a builtins\.slice, which cannot be saved; values may"),
            (object(), r"Toy\.value is a builtins\.object"),
            (b"bytes", r"Toy\.value is a builtins\.bytes"),
            (sp.csc_matrix((2, 2)), r"Toy\.value is a scipy\.sparse.*csc_matrix"),
            (np.ma.masked_array([1]), "MaskedArray"),
            (np.zeros(2, dtype=[("a", "f8")]), r"Toy\.value is an array of dtype .* cannot be saved"),
            (np.array([object()], dtype=object), r"Toy\.value\[0\] is a builtins\.object"),
            (np.dtype(object), "cannot be saved"),
        ],
    )
    def test_what_and_where(self, value, message, path):
        with pytest.raises(InputError, match=message):
            save(Toy(value), path)
        assert not path.exists()

    def test_the_path_through_a_pipeline(self, path):
        estimator = make_pipeline(StandardScaler(), SVC())
        with pytest.raises(InputError, match=r"Pipeline\.steps\[1\]\[1\] is a sklearn\.svm\._classes\.SVC"):
            save(estimator, path)

    def test_learned_attributes_too(self, path):
        with pytest.raises(InputError, match=r"Toy\.learned_ is a numpy RandomState"):
            save(Toy().fit(np.random.RandomState(0)), path)

    def test_a_class_by_the_same_name(self, path):
        impostor = type("Toy", (BaseEstimator,), {})
        with pytest.raises(InputError, match="which the model file does not take"):
            save(impostor(), path)

    def test_what_is_no_estimator(self, path):
        for value in (Toy, 3, None, {"a": 1}):
            with pytest.raises(InputError, match="Only an estimator can be saved"):
                save(value, path)

    def test_circles_and_depth(self, path):
        circle = []
        circle.append(circle)
        with pytest.raises(InputError, match=f"nested more than {MAX_DEPTH} deep or holds itself"):
            save(Toy(circle), path)

    def test_what_can_be_saved_can_be_loaded_at_any_depth(self, path):
        """The limits of the two directions agree."""
        value = None
        for _ in range(MAX_DEPTH - 1):
            value = (value,)
        assert same(round_trip(Toy(value), path).value, value)
        with pytest.raises(InputError, match="nested more than"):
            save(Toy(((value,),)), path)

    def test_a_cache_folder(self, path, tmp_path):
        pipeline = Pipeline([("scale", StandardScaler())], memory=str(tmp_path))
        with pytest.raises(InputError, match=r"Pipeline\(memory=\.\.\.\) names a cache folder.*set it to None"):
            save(pipeline, path)

    def test_attributes_that_load_would_refuse(self, path):
        toy = Toy()
        toy.predict = 3
        with pytest.raises(InputError, match="cannot have an attribute 'predict'"):
            save(toy, path)


class TestFailedSave:
    def test_the_old_file_stays(self, path, monkeypatch):
        save(Toy(1), path)
        before = path.read_bytes()
        with pytest.raises(InputError):
            save(Toy(object()), path)

        def full(*arguments, **options):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(archive.np.lib.format, "write_array", full)
        with pytest.raises(OSError, match="The disk is full"):
            save(Toy(np.zeros(3)), path)
        assert path.read_bytes() == before
        assert [p.name for p in path.parent.iterdir()] == [path.name]

    def test_missing_folder(self, tmp_path):
        with pytest.raises(InputError, match="there is no folder"):
            save(Toy(), tmp_path / "no" / "model")


# ------------------------------------------------------------------------------------------------------------
# scikit-learn

X = np.random.default_rng(0).normal(size=(60, 5))
LABELS = np.array(["owl", "wren", "tit"])[np.arange(60) % 3]


class TestScikitLearn:
    @pytest.mark.parametrize(
        "estimator",
        [
            StandardScaler(),
            StandardScaler(with_mean=False),
            MinMaxScaler(feature_range=(-1, 2)),
            MaxAbsScaler(),
            RobustScaler(quantile_range=(10.0, 90.0)),
            Normalizer("l1"),
            PCA(0.9, whiten=True),
            TruncatedSVD(2, random_state=0),
            VarianceThreshold(0.5),
            make_pipeline(StandardScaler(), PCA(3)),
        ],
        ids=lambda e: str(e)[:40],
    )
    def test_transformers(self, estimator, path):
        estimator.fit(X)
        back = round_trip(estimator, path)
        assert type(back) is type(estimator)
        assert repr(back) == repr(estimator)
        assert_array_equal(back.transform(X), estimator.transform(X))

    def test_weights_that_are_slices_of_a_larger_array(self, path):
        """They come back contiguous, which may change the last bit of what BLAS makes of them."""
        estimator = PCA(2, svd_solver="randomized", random_state=3).fit(X)
        assert not estimator.components_.flags.forc
        back = round_trip(estimator, path)
        assert_array_equal(back.components_, estimator.components_)
        assert_allclose(back.transform(X), estimator.transform(X), rtol=1e-12)

    @pytest.mark.parametrize(
        "estimator",
        [
            LogisticRegression(C=0.1),
            LogisticRegression(class_weight={"owl": 2.0, "wren": 1.0}),
            LinearSVC(),
            RidgeClassifier(),
            make_pipeline(StandardScaler(), "passthrough", LogisticRegression()),
            Pipeline([("outer", make_pipeline(PCA(3))), ("last", LinearSVC())]),
        ],
        ids=lambda e: str(e)[:40],
    )
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_classifiers(self, estimator, n_classes, path):
        rows = np.isin(LABELS, ["owl", "wren", "tit"][:n_classes])
        estimator.fit(X[rows], LABELS[rows])
        back = round_trip(estimator, path)
        assert_array_equal(back.predict(X), estimator.predict(X))
        assert_array_equal(back.decision_function(X), estimator.decision_function(X))
        assert_array_equal(back.classes_, estimator.classes_)
        if hasattr(estimator, "predict_proba"):
            assert_array_equal(back.predict_proba(X), estimator.predict_proba(X))

    def test_it_can_be_fitted_again(self, path):
        back = round_trip(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, LABELS), path)
        again = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:30], LABELS[:30])
        assert_array_equal(back.fit(X[:30], LABELS[:30]).predict_proba(X), again.predict_proba(X))

    def test_feature_names_and_sparse_weights(self, path):
        import pandas as pd

        frame = pd.DataFrame(X, columns=list("abcde"))
        estimator = LogisticRegression().fit(frame, LABELS).sparsify()
        back = round_trip(estimator, path)
        assert_array_equal(back.predict(frame), estimator.predict(frame))
        assert back.feature_names_in_.tolist() == list("abcde")

    def test_stochastic_gradient_descent_holds_compiled_parts(self, path):
        with pytest.raises(InputError, match="SGDClassifier, which the model file does not take"):
            save(SGDClassifier().fit(X, LABELS), path)

    def test_another_version_warns(self, path):
        save(StandardScaler().fit(X), path)
        rewrite(path, lambda document: document["written_by"].update({"scikit-learn": "0.1"}))
        with pytest.warns(UserWarning, match=r"holds estimators of scikit-learn 0\.1, and this is"):
            load(path)

    def test_another_version_does_not_matter_without_its_classes(self, path):
        save(Toy(3), path)
        rewrite(path, lambda document: document["written_by"].update({"scikit-learn": "0.1"}))
        assert load(path).value == 3


# ------------------------------------------------------------------------------------------------------------
# bagwise

RNG = np.random.default_rng(7)
INSTANCE_CLASS = RNG.integers(0, 4, size=160)
BAGS = Bags(RNG.normal(size=(160, 6)) + 2 * np.eye(4, 6)[INSTANCE_CLASS], np.arange(0, 161, 4))
Y = np.zeros((40, 4), dtype=int)
Y[BAGS.bag_index, INSTANCE_CLASS] = 1
NAMES = ["owl", ("wren", 2), None, 7]
METHODS_OF_X = (
    "predict",
    "decision_function",
    "predict_proba",
    "predict_instances",
    "instance_decision_function",
    "predict_instances_proba",
    "transform",
)
METHODS_OF_X_AND_Y = ("annotate", "annotate_proba")


def assert_predicts_alike(back, estimator, X, Y):
    """Every prediction that there is, bit for bit."""
    checked = 0
    for name in METHODS_OF_X:
        if hasattr(estimator, name):
            assert same(getattr(back, name)(X), getattr(estimator, name)(X)), name
            checked += 1
    for name in METHODS_OF_X_AND_Y:
        if hasattr(estimator, name):
            assert same(getattr(back, name)(X, Y), getattr(estimator, name)(X, Y)), name
            checked += 1
    assert checked


class TestBagwise:
    @pytest.mark.parametrize("parameters", [{}, {"background": True}, {"solver": "em", "max_iter": 5}])
    def test_ored_logistic_regression(self, parameters, path):
        estimator = bagwise.ORedLogisticRegression(**parameters).fit(BAGS, Y)
        back = round_trip(estimator, path)
        assert vars(back).keys() == vars(estimator).keys()
        assert all(same(vars(back)[name], value) for name, value in vars(estimator).items())
        assert_predicts_alike(back, estimator, BAGS, Y)

    def test_class_names_of_any_kind(self, path):
        sets = [{NAMES[c] for c in np.flatnonzero(row)} for row in Y]
        estimator = bagwise.ORedLogisticRegression().fit(BAGS, sets)
        back = round_trip(estimator, path)
        assert set(back.classes_.tolist()) == set(NAMES)
        assert_predicts_alike(back, estimator, BAGS, sets)

    def test_sparse_features(self, path):
        bags = Bags(sp.csr_matrix(BAGS.instances * (BAGS.instances > 0)), BAGS.offsets)
        estimator = bagwise.ORedLogisticRegression().fit(bags, Y)
        assert_predicts_alike(round_trip(estimator, path), estimator, bags, Y)

    @pytest.mark.parametrize("name", sorted(set(CATALOG) - {"ored-patch"}))  # of other features: tests/test_nn_patch.py
    def test_every_model_of_the_catalog(self, name, path):
        """A new model that is not in the registry fails here."""
        estimator = make_model(name)
        if name in ("ored-network", "noisy-or-network", "ored-mix", "bag-stack-network"):
            pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")
            learner = estimator[-1] if name != "bag-stack-network" else estimator[-1].members[-1][-1]
            learner.set_params(epochs=3)
        labels = Bags(INSTANCE_CLASS, BAGS.offsets)
        supervised = bag_tags(estimator).needs_instance_labels
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not every model's defaults suit so small a set
            estimator.fit(BAGS, Y, **(fit_parameters(estimator, instance_labels=labels) if supervised else {}))
        back = round_trip(estimator, path)
        assert type(back) is type(estimator)
        assert_predicts_alike(back, estimator, BAGS, Y)

    @pytest.mark.parametrize(
        "transformer",
        [
            CLPLScaler(),
            RandomFourierFeatures(gamma=0.3, n_components=7, random_state=2),
            RBFDictionary(size=20, random_state=1),
            RBFDictionary(size=0.1, whiten=True, random_state=1),
            PCA(3),
        ],
        ids=str,
    )
    def test_transformers(self, transformer, path):
        estimator = PerInstance(transformer).fit(BAGS)
        back = round_trip(estimator, path)
        assert same(back.transform(BAGS), estimator.transform(BAGS))
        assert back.get_feature_names_out().tolist() == estimator.get_feature_names_out().tolist()

    def test_sparse_dictionary(self, path):
        sparse = sp.csr_matrix(BAGS.instances * (BAGS.instances > 0))
        estimator = RBFDictionary(size=10, random_state=0).fit(sparse)
        assert_array_equal(round_trip(estimator, path).transform(sparse), estimator.transform(sparse))

    def test_every_class_of_scikit_learn_is_found_by_its_name(self):
        for name in model.SKLEARN:
            assert model._class_of(f"sklearn.{name}").__name__ == name

    def test_through_the_package_root(self, path):
        estimator = bagwise.ORedLogisticRegression().fit(BAGS, Y)
        bagwise.save(estimator, str(path))
        assert_array_equal(bagwise.load(str(path)).predict(BAGS), estimator.predict(BAGS))

    def test_an_attribute_cannot_hide_behind_a_property(self, path):
        save(ORedLogisticRegression().fit(BAGS, Y), path)
        rewrite(path, lambda document: document["estimator"]["state"].update({"_has_background": True}))
        refuses(path, "cannot have an attribute '_has_background'")

    def test_a_seed_that_cannot_be_saved(self, path):
        estimator = bagwise.ORedLogisticRegression(random_state=np.random.RandomState(0)).fit(BAGS, Y)
        with pytest.raises(InputError, match=r"ORedLogisticRegression\.random_state is .* pass an int"):
            save(estimator, path)


# ------------------------------------------------------------------------------------------------------------
# Hostile files


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def rewrite(path, change):
    """Change the JSON of a model file; everything else, checksums included, stays in order."""
    content = members(path)
    document = json.loads(content["model.json"])
    changed = change(document)
    content["model.json"] = json.dumps(document if changed is None else changed)
    write_members(path, content)


def refuses(path, message):
    with pytest.raises(FormatError, match=message) as caught:
        load(path)
    assert path.name in str(caught.value)


@pytest.fixture
def toy_file(path):
    save(
        Toy({"a": (1, np.arange(3.0))}).fit([sp.csr_matrix(np.eye(3)), Bags(np.ones((2, 2)), [0, 1, 2])]),
        path,
    )
    return path


class TestNothingRuns:
    @pytest.mark.parametrize(
        "name",
        [
            "os:system",
            "os.system",
            "subprocess:Popen",
            "builtins:eval",
            "bagwise.io.model:save",
            "sklearn.svm:SVC",
            "sklearn.SVC",
            "sklearn.Pipeline:__init__",
            "Toy.__class__",
            "",
        ],
    )
    def test_classes_outside_the_registry(self, toy_file, name):
        rewrite(toy_file, lambda document: document["estimator"].update({"class": name}))
        refuses(toy_file, "it names the class '.*', which bagwise .* does not read")

    def test_no_module_is_imported_for_an_unknown_name(self, toy_file, monkeypatch):
        monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
        rewrite(toy_file, lambda document: document["estimator"].update({"class": "antigravity:fly"}))
        refuses(toy_file, "it names the class")

    def test_pickled_arrays(self, toy_file, tmp_path):
        witness = tmp_path / "ran"

        class Bomb:
            def __reduce__(self):
                return (open, (str(witness), "w"))

        stream = io.BytesIO()
        np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
        content = members(toy_file)
        content["arrays/0.npy"] = stream.getvalue()
        write_members(toy_file, content)
        refuses(toy_file, "dtype object, which is not read")
        content["arrays/0.npy"] = pickle.dumps(Bomb())
        write_members(toy_file, content)
        refuses(toy_file, "header of its array")
        assert not witness.exists()

    @pytest.mark.parametrize(
        "name",
        [
            "__class__",
            "__dict__",
            "__init__",
            "__reduce__",
            "predict",
            "fit",
            "not a name",
            "a.b",
            "class",
            "",
        ],
    )
    def test_attributes(self, toy_file, name):
        rewrite(toy_file, lambda document: document["estimator"]["state"].update({name: 1}))
        refuses(toy_file, "Toy cannot have an attribute")

    def test_an_attribute_cannot_replace_a_parameter(self, toy_file):
        rewrite(toy_file, lambda document: document["estimator"]["state"].update({"value": 1}))
        refuses(toy_file, "Toy cannot have an attribute 'value'")

    def test_parameters(self, toy_file):
        rewrite(toy_file, lambda document: document["estimator"]["params"].update({"shell": True}))
        refuses(toy_file, "Toy has no parameter 'shell'")

    def test_a_cache_folder_would_be_unpickled(self, path):
        save(make_pipeline(StandardScaler()), path)
        rewrite(path, lambda document: document["estimator"]["params"].update({"memory": "/tmp/cache"}))
        refuses(path, "names a cache folder")


class TestDamage:
    def test_not_a_model(self, path):
        for raw in (b"", b"PK\x03\x04", b"\x80\x04K\x01.", b"hello" * 100):
            path.write_bytes(raw)
            refuses(path, "not a zip file, or it is cut off")

    def test_another_zip(self, path):
        write_members(path, {"word/document.xml": "<a/>"})
        refuses(path, r"it holds no model\.json")

    def test_cut_off_anywhere(self, toy_file):
        raw = toy_file.read_bytes()
        for length in range(0, len(raw), 37):
            toy_file.write_bytes(raw[:length])
            refuses(toy_file, "Cannot load")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "damaged or no bagwise model"),
            ("[]", "does not say that its format"),
            ('{"format": "other"}', "does not say that its format"),
            ("\xff\xfe", "damaged or no bagwise model"),
            ("[" * 40_000, "damaged or no bagwise model"),
            ('{"a":' * 40_000, "damaged or no bagwise model"),
            ("[" * 100_000, "is of 100000 values in 100000 bytes, which bagwise never writes"),
            ("1" * 10_000, "damaged or no bagwise model"),
            ('{"a": NaN}', "which is not JSON"),
        ],
    )
    def test_bad_json(self, path, text, message):
        write_members(path, {"model.json": text.encode("latin-1")})
        refuses(path, message)

    def test_versions(self, toy_file):
        rewrite(toy_file, lambda document: document.update(version=2))
        refuses(toy_file, "it has version 2 of the format, and bagwise .* reads up to 1; upgrade bagwise")
        for version in (0, -1, "1", None, True, 1.0):
            rewrite(toy_file, lambda document, version=version: document.update(version=version))
            refuses(toy_file, "its format version is")

    def test_arrays_missing_surplus_and_used_twice(self, toy_file):
        whole = members(toy_file)
        write_members(toy_file, {name: data for name, data in whole.items() if name != "arrays/0.npy"})
        refuses(toy_file, "its array 0 is missing, or used twice")
        write_members(toy_file, {**whole, "arrays/77.npy": whole["arrays/0.npy"]})
        refuses(toy_file, r"it holds 1 array\(s\) that belong nowhere")
        write_members(toy_file, whole)
        rewrite(toy_file, lambda d: d["estimator"]["params"].update(seed={"kind": "array", "index": 0}))
        refuses(toy_file, "its array 0 is missing, or used twice")

    def test_deep_values(self, toy_file):
        deep = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
        rewrite(toy_file, lambda document: document["estimator"]["params"].update(seed=json.loads(deep)))
        refuses(toy_file, f"nested more than {MAX_DEPTH} deep")

    @pytest.mark.parametrize(
        "node",
        [
            {},
            {"kind": "pickle"},
            {"kind": ["tuple"]},
            {"kind": None},
            {"kind": "tuple"},
            {"kind": "tuple", "items": "abc"},
            {"kind": "set", "items": [[1]]},
            {"kind": "dict", "items": [1]},
            {"kind": "dict", "items": [[1, 2, 3]]},
            {"kind": "dict", "items": [[[], 1]]},
            {"kind": "float", "value": "1e5"},
            {"kind": "float", "value": {}},
            {"kind": "scalar", "dtype": "<f8", "hex": "00"},
            {"kind": "scalar", "dtype": "<f8", "hex": "zz"},
            {"kind": "scalar", "dtype": "|b1", "hex": "07"},
            {"kind": "scalar", "dtype": "|O8", "hex": "0000000000000000"},
            {"kind": "dtype", "value": "O"},
            {"kind": "dtype", "value": "<f8,<f8"},
            {"kind": "dtype", "value": "<f3"},
            {"kind": "dtype", "value": "<U999999999"},
            {"kind": "numpy-type", "value": "object_"},
            {"kind": "numpy-type", "value": "load"},
            {"kind": "numpy-str", "value": 3},
            {"kind": "array", "index": True},
            {"kind": "array", "index": -1},
            {"kind": "array", "index": "0"},
            {"kind": "object-array", "shape": [10**12], "items": []},
            {"kind": "object-array", "shape": [-1], "items": [1]},
            {"kind": "object-array", "shape": [0, 10**30], "items": []},
            {"kind": "object-array", "shape": [1] * 100, "items": [1]},
            {
                "kind": "bags",
                "instances": {"kind": "tuple", "items": []},
                "offsets": {"kind": "set", "items": []},
            },
            {"kind": "bags"},
            {"kind": "csr"},
            {"kind": "estimator"},
            {"kind": "estimator", "class": "Toy"},
            {"kind": "estimator", "class": "Toy", "params": [], "state": {}},
            {"kind": "estimator", "class": "sklearn.Pipeline", "params": {}, "state": {}},
        ],
        ids=str,
    )
    def test_values_that_do_not_fit(self, toy_file, node):
        rewrite(toy_file, lambda document: document["estimator"]["params"].update(seed=node))
        refuses(toy_file, "Cannot load")

    @pytest.mark.parametrize(
        ("part", "array"),
        [
            ("indices", np.array([0, 1, 3], dtype=np.int32)),
            ("indices", np.array([0, 1, -1], dtype=np.int32)),
            ("indices", np.array([0.0, 1.0, 2.0])),
            ("indices", np.zeros((3, 1), dtype=np.int32)),
            ("indptr", np.array([0, 1, 2, 10**6], dtype=np.int32)),
            ("indptr", np.array([0, 3, 1, 3], dtype=np.int32)),
            ("indptr", np.array([0, -5, 2, 3], dtype=np.int32)),
            ("indptr", np.array([0, 1], dtype=np.int32)),
            ("data", np.ones(2)),
            ("data", np.array(["a", "b", "c"])),
        ],
    )
    def test_sparse_matrices_whose_indices_lead_outside(self, path, part, array):
        save(Toy(sp.csr_matrix(np.eye(3))), path)
        content = members(path)
        node = json.loads(content["model.json"])["estimator"]["params"]["value"][part]
        stream = io.BytesIO()
        np.save(stream, array)
        content[f"arrays/{node['index']}.npy"] = stream.getvalue()
        write_members(path, content)
        refuses(path, "Cannot load")

    def test_weights_that_do_not_fit_the_classes(self, path):
        save(bagwise.ORedLogisticRegression().fit(BAGS, Y), path)
        rewrite(path, lambda document: document["estimator"]["state"].update(n_features_in_=7))
        refuses(path, r"ORedLogisticRegression.coef_ has the shape \(4, 6\), and \(classes, features\) is \(4, 7\)")

    @pytest.mark.parametrize(
        ("name", "node"),
        [
            ("coef_", [[1.0] * 6] * 3),
            ("coef_", [1.0, 2.0]),
            ("coef_", None),
            ("coef_", [[1.0], [2.0, 3.0]]),
            ("classes_", [0, 1, 2, 3]),
            ("classes_", {"kind": "object-array", "shape": [2, 2], "items": [0, 1, 2, 3]}),
        ],
    )
    def test_weights_that_compiled_code_would_trust(self, path, name, node):
        save(bagwise.ORedLogisticRegression().fit(BAGS, Y), path)
        content = members(path)
        document = json.loads(content["model.json"])
        old = document["estimator"]["state"][name]
        if isinstance(old, dict):
            del content[f"arrays/{old['index']}.npy"]
        document["estimator"]["state"][name] = node
        write_members(path, {**content, "model.json": json.dumps(document)})
        refuses(path, "Cannot load")

    def test_a_background_without_weights(self, path):
        estimator = bagwise.ORedLogisticRegression().fit(BAGS, Y)
        save(estimator, path)
        rewrite(path, lambda document: document["estimator"]["params"].update(background=True))
        refuses(path, "has a background but no weights for it")
        with pytest.raises(InputError, match="has a background but no weights for it; fit it again"):
            save(estimator.set_params(background=True), path)

    def test_a_missing_file_is_told_as_such(self, path):
        with pytest.raises(FileNotFoundError, match=path.name):
            load(path)


class TestFuzz:
    """Whatever happens to the bytes, load gives a model or a FormatError."""

    @staticmethod
    def try_load(path):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'.*' holds estimators of scikit-learn", UserWarning)
            try:
                load(path)
            except FormatError as error:
                return "refused" if path.name in str(error) else f"the message names no file: {error}"
        return "loaded"

    @pytest.fixture
    def rich_file(self, path):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, LABELS)
        save(Toy(pipeline).fit(VALUES), path)
        return path

    def test_bytes(self, rich_file):
        raw = rich_file.read_bytes()
        rng = np.random.default_rng(0)
        outcomes = []
        for _ in range(300):
            mutant = bytearray(raw)
            for _ in range(rng.integers(1, 4)):
                start, length = int(rng.integers(len(mutant))), int(rng.integers(1, 40))
                match rng.integers(5):
                    case 0:
                        mutant[start] ^= 1 << int(rng.integers(8))
                    case 1:
                        mutant[start : start + length] = rng.bytes(length)
                    case 2:
                        del mutant[start : start + length]
                    case 3:
                        mutant[start:start] = mutant[start : start + length]
                    case 4:
                        del mutant[-length:]
            rich_file.write_bytes(mutant)
            outcomes.append(self.try_load(rich_file))
        assert set(outcomes) <= {"loaded", "refused"}
        assert outcomes.count("refused") > 250

    def test_the_directory_of_the_zip(self, rich_file):
        """Bytes that no checksum covers: sizes, offsets, flags, names."""
        raw = rich_file.read_bytes()
        first = raw.index(b"PK\x01\x02")
        rng = np.random.default_rng(1)
        for _ in range(300):
            mutant = bytearray(raw)
            for position in rng.integers(first, len(raw), size=rng.integers(1, 3)):
                mutant[position] = rng.integers(256)
            rich_file.write_bytes(mutant)
            assert self.try_load(rich_file) in ("loaded", "refused")

    def test_arrays_with_right_checksums(self, toy_file):
        content = members(toy_file)
        names = [name for name in content if name.endswith(".npy")]
        rng = np.random.default_rng(2)
        for _ in range(300):
            mutant = dict(content)
            name = names[rng.integers(len(names))]
            data = bytearray(mutant[name])
            for position in rng.integers(len(data), size=rng.integers(1, 4)):
                data[position] = rng.integers(256)
            mutant[name] = bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.2 else data)
            write_members(toy_file, mutant)
            assert self.try_load(toy_file) in ("loaded", "refused")

    def test_json_with_right_checksums(self, rich_file):
        content = members(rich_file)
        document = json.loads(content["model.json"])
        rng = np.random.default_rng(3)
        junk = [None, True, -1, 10**30, 0.5, "", "tuple", [], [[]], {}, {"kind": "array", "index": 0}]
        outcomes = []
        for _ in range(300):
            mutant = copy.deepcopy(document)
            node, parent, key = mutant, None, None
            while isinstance(node, (dict, list)) and node and (parent is None or rng.random() < 0.85):
                keys = list(node) if isinstance(node, dict) else list(range(len(node)))
                parent, key = node, keys[rng.integers(len(keys))]
                node = parent[key]
            if rng.random() < 0.2:
                del parent[key]
            else:
                parent[key] = copy.deepcopy(junk[rng.integers(len(junk))])
            write_members(rich_file, {**content, "model.json": json.dumps(mutant)})
            outcomes.append(self.try_load(rich_file))
        assert set(outcomes) <= {"loaded", "refused"}
        assert outcomes.count("refused") > 100
        assert outcomes.count("loaded") > 10


class TestAbout:
    """What a model says about itself is read without its arrays."""

    @pytest.fixture
    def large(self, tmp_path):
        """A model with arrays of 8 MB."""
        scaler = StandardScaler().fit(np.eye(2, 250_000))
        save(scaler, tmp_path / "m.bagwise", {"data": "birds"})
        return tmp_path / "m.bagwise"

    def test_damaged_arrays_do_not_matter(self, large):
        raw = bytearray(large.read_bytes())
        start = raw.index(b"\x93NUMPY")
        raw[start : start + 100_000] = bytes(100_000)
        large.write_bytes(raw)
        with pytest.raises(FormatError, match="Cannot load"):
            load(large)
        assert model.read_about(large)["data"] == "birds"

    def test_arrays_are_not_read(self, large):
        counted = CountedFile(large.read_bytes())
        document = archive.read_document(counted)
        assert document["about"] == {"data": "birds"}
        assert large.stat().st_size > 4_000_000
        assert counted.n_read < 300_000, "the document, and the directory at the end of the file"

    @pytest.mark.parametrize(
        ("about", "problem"),
        [
            ({"data": "\udcff"}, "half a character"),
            ({"\udcff": 1}, "half a character"),
            ({"feature_names": "abc"}, "the names of its features are no list of text"),
            ({"feature_names": [1]}, "the names of its features are no list of text"),
            ([1], "what it says about itself is a list"),
            ({"x": [[]] * 200_000}, "values in"),
            ({"x": math.nan}, "no plain data"),
            ({"x": np.zeros(2)}, "no plain data .*ndarray"),
            ({"x": {1j: 2}}, "no plain data"),
            ({"x": 10**5000}, "no plain data"),
        ],
        ids=["value", "key", "names", "name", "list", "dense", "nan", "array", "complex-key", "integer"],
    )
    def test_what_load_would_refuse_is_not_saved(self, about, problem, tmp_path):
        """A training is not lost to what stands beside it: the old file stays, and the message has the cure."""
        path = tmp_path / "m.bagwise"
        save(Toy(1), path)
        before = path.read_bytes()
        with pytest.raises(InputError, match=f"cannot be saved: .*{problem}.*; about=... may hold None"):
            save(Toy(2), path, about)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["m.bagwise"]

    def test_an_about_that_is_nested_without_end_is_not_saved(self, tmp_path):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(InputError, match="no plain data"):
            save(Toy(1), tmp_path / "m.bagwise", {"x": deep})
        while deep:  # from without to within: Python takes such a list apart by recursion
            deep = deep.pop()

    def test_tuples_come_back_as_lists(self, tmp_path):
        save(Toy(1), tmp_path / "m.bagwise", {"feature_names": ("a", "b")})
        assert model.read_about(tmp_path / "m.bagwise")["feature_names"] == ["a", "b"]
        load(tmp_path / "m.bagwise")

    def test_a_file_without_a_document_is_refused(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "m.bagwise", "w") as archive:
            archive.writestr("other.json", "{}")
        with pytest.raises(FormatError, match="it holds no model.json"):
            model.read_about(tmp_path / "m.bagwise")


class CountedFile(io.BytesIO):
    """Counts the bytes that are read from it."""

    n_read = 0

    def read(self, *arguments):
        chunk = super().read(*arguments)
        self.n_read += len(chunk)
        return chunk


@pytest.mark.parametrize(
    ("transformer", "change", "where"),
    [
        (MinMaxScaler(), {"feature_range": {"kind": "tuple", "items": [1, 0]}}, "MinMaxScaler"),
        (PCA(2), {"n_components": 50}, "PCA"),
        (StandardScaler(), {"transformer": 7}, "PerInstance"),
    ],
)
def test_parameters_that_are_impossible_together_are_told_of_by_fit(tmp_path, transformer, change, where):
    """What a file holds of an estimator to be fitted may be right by itself and of no use: such a model predicts."""
    data = make_gaussian_bags(n_bags=12, n_features=4, random_state=0)
    model = BagPipeline([("scale", PerInstance(transformer)), ("learn", MostFrequentAnnotator())]).fit(
        data.bags, data.Y
    )
    bagwise.save(model, tmp_path / "m.bagwise")
    with zipfile.ZipFile(tmp_path / "m.bagwise") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(parts["model.json"])
    step = document["estimator"]["params"]["steps"][0]["items"][1]
    params = step["params"] if where == "PerInstance" else step["params"]["transformer"]["params"]
    assert set(change) <= set(params)
    params.update(change)
    with zipfile.ZipFile(tmp_path / "m.bagwise", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, json.dumps(document) if name == "model.json" else content)
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert_array_equal(loaded.predict(data.bags), model.predict(data.bags))
    with pytest.raises(InputError, match=f"{where}.*(cannot learn from the instances|must be a transformer)"):
        loaded.fit(data.bags, data.Y)


@pytest.mark.parametrize("change", [{"transform_input": []}, {"transform_input": True}, {"verbose": None}])
def test_parameters_of_a_pipeline_are_checked_when_it_is_loaded(tmp_path, change):
    data = make_gaussian_bags(n_bags=12, random_state=0)
    bagwise.save(BagPipeline([("learn", MostFrequentAnnotator())]).fit(data.bags, data.Y), tmp_path / "m.bagwise")
    with zipfile.ZipFile(tmp_path / "m.bagwise") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(parts["model.json"])
    document["estimator"]["params"].update(change)
    with zipfile.ZipFile(tmp_path / "m.bagwise", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, json.dumps(document) if name == "model.json" else content)
    with pytest.raises(FormatError, match=next(iter(change))):
        bagwise.load(tmp_path / "m.bagwise")
