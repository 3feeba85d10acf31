"""Model files made by hand: what loads is whole, and what is not is refused in words by every command."""

import copy
import json
import tracemalloc
import zipfile
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from bagwise import load, save
from bagwise.annotation import (
    CLPL,
    LSBCMM,
    MIMLFast,
    MostFrequentAnnotator,
    NoisyOrLogisticRegression,
    ORedForest,
    ORedLogisticRegression,
    SupervisedAnnotator,
    SupportInstanceMachine,
)
from bagwise.calibration import CalibratedAnnotator
from bagwise.calibration.novelty import ATTRIBUTE, Novelty
from bagwise.classification import M3MIML, MIMLNN, MIMLSVM, BagStack, MIMLBoost
from bagwise.clustering import MajorityKMeans
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import (
    MOST_PIPELINES,
    Choice,
    Either,
    Flag,
    Labels,
    ListOf,
    Maybe,
    Number,
    Numbers,
    Plain,
    Record,
    Size,
    TupleOf,
    check_attributes,
    declared_by,
)
from bagwise.datasets import make_gaussian_bags
from bagwise.io import model
from bagwise.io.data.formats import write_dataset
from bagwise.pipeline import BagPipeline, make_pipeline
from bagwise.preprocessing import BagStatistics, PerInstance, RandomFourierFeatures, RBFDictionary
from made import run

MADE = make_gaussian_bags(n_bags=24, n_features=3, n_classes=3, labels_per_bag=(1, 2), separation=5.0, random_state=0)
DATA = BagDataset(
    bags=MADE.bags, Y=MADE.Y, class_names=["wren", "robin", "jay"], instance_labels=MADE.instance_labels,
    bag_names=[f"clip{i}" for i in range(24)], feature_names=["a", "b", "c"],
)  # fmt: skip
SETS = DATA.label_sets
LEARNERS = {
    "ored": lambda: ORedLogisticRegression(background=True),
    "calibrated": lambda: CalibratedAnnotator(ORedLogisticRegression(background=True)),
    "forest": lambda: ORedForest(4, n_rounds=1, n_round_trees=8, random_state=0),
    "sim": lambda: SupportInstanceMachine(alpha=1e-2),
    "clpl": CLPL,
    "noisy-or": NoisyOrLogisticRegression,
    "lsbcmm": lambda: LSBCMM(n_components=3, max_iter=5, tol=1.0, random_state=0),
    "mimlfast": lambda: MIMLFast(n_components=4, max_epochs=2, random_state=0),
    "m3miml": M3MIML,
    "mimlsvm": lambda: MIMLSVM(random_state=0),
    "mimlnn": lambda: MIMLNN(random_state=0),
    "mimlboost": lambda: MIMLBoost(n_rounds=2),
    "most-frequent": MostFrequentAnnotator,
    "supervised": lambda: SupervisedAnnotator(LogisticRegression()),
    "ridge": lambda: SupervisedAnnotator(RidgeClassifier()),
    "stack": lambda: BagStack([ORedLogisticRegression()], cv=2, n_estimators=3, random_state=0),
    "fourier": lambda: make_pipeline(PerInstance(RandomFourierFeatures(random_state=0)), CLPL()),
    "dictionary": lambda: make_pipeline(PerInstance(RBFDictionary(size=4, whiten=True, random_state=0)), CLPL()),
}


@pytest.fixture(scope="module")
def fitted():
    """The learners of `LEARNERS` behind a scaler, fitted; made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            estimator = make_pipeline(PerInstance(StandardScaler()), LEARNERS[name]())
            known = {f"{estimator.steps[-1][0]}__instance_labels": DATA.instance_labels}
            estimator.fit(DATA.bags, SETS, **(known if name in ("supervised", "ridge") else {}))
            estimator.featurizer_ = {
                "medium": "table", "settings": {}, "feature_names": ["a", "b", "c"], "model": name,
            }  # fmt: skip
            setattr(estimator, ATTRIBUTE, Novelty.learn(DATA.bags).to_dict())
            made[name] = estimator
        return copy.deepcopy(made[name])

    return get


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.csv"
    write_dataset(DATA, path)
    return path


def forge(estimator, path, about=None):
    """Write a model file that nobody looked at."""
    with mock.patch.object(model, "_check_loads"):
        save(estimator, path, about)
    return path


def assert_every_command_refuses(path, table, tmp_path, *, info):
    """One line that names the file and exit code 1 from each; `info` may have something to say of it."""
    for command in (
        ("predict", path, table),
        ("annotate-table", path, table),
        ("annotate", table, "--model", path, "--out", tmp_path / "run", "--no-page"),
        ("info", path),
    ):
        result = run(*command)
        assert result.exception is None or isinstance(result.exception, SystemExit), (command[0], result.exception)
        assert result.exit_code == (0 if command[0] == "info" and info else 1), (command[0], result.output)
        if result.exit_code:
            assert result.stderr.startswith("Error: "), command[0]
            assert path.name in result.stderr, command[0]
            assert result.stderr.count("\n") == 1, command[0]
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Files that are not whole


def final(estimator):
    return estimator.steps[-1][1]


def scaler(estimator):
    return estimator.steps[0][1]


def put(part, **attributes):
    """A change that sets attributes of a part."""

    def change(estimator):
        for name, value in attributes.items():
            setattr(part(estimator), name, value(part(estimator)) if callable(value) else value)

    return change


def drop(part, name):
    return lambda estimator: vars(part(estimator)).pop(name)


def objects(*items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def swap(position, array):
    """A change of one array of a forest."""

    def change(part):
        arrays = list(part.forest_)
        arrays[position] = array(arrays[position])
        return tuple(arrays)

    return change


def wrong_child(link):
    link = link.copy()
    link[0] = 10**9
    return link


def inner(transformer):
    """A change of what the first step does with instances."""
    return put(scaler, transformer_=transformer, transformer=transformer)


def other_names():
    """Two steps that hand each other frames, the second of which was fitted to others."""
    steps = Pipeline([("s", StandardScaler()), ("p", PCA(3))]).set_output(transform="pandas").fit(DATA.bags.instances)
    steps[1].feature_names_in_ = objects("x", "y", "z")
    return steps


def power_of(part):
    power = PowerTransformer().fit(DATA.bags.instances)
    power._scaler = part.fit(DATA.bags.instances)
    return power


def nested(step, levels, pipeline):
    """The step inside so many pipelines."""
    for _ in range(levels):
        step = pipeline([("x", step)])
    return step


HOSTILE = {
    "weights-of-too-few-classes": ("ored", put(final, coef_=lambda m: m.coef_[:2]), "coef_"),
    "weights-of-too-many-features": ("ored", put(final, coef_=np.zeros((3, 5))), "coef_"),
    "weights-that-are-text": ("ored", put(final, coef_=np.full((3, 3), "x")), "coef_"),
    "weights-of-the-other-byte-order": ("ored", put(final, coef_=np.zeros((3, 3), ">f8")), "coef_"),
    "weights-that-are-no-numbers": ("ored", put(final, coef_=np.full((3, 3), np.nan)), "coef_"),
    "weights-that-are-a-list": ("ored", put(final, intercept_=[0.0, 0.0, 0.0]), "intercept_"),
    "weights-that-are-missing": ("ored", drop(final, "coef_"), "coef_"),
    "no-number-of-features": ("ored", drop(final, "n_features_in_"), "n_features_in_"),
    "features-below-zero": ("ored", put(final, n_features_in_=-3), "n_features_in_"),
    "a-billion-features": ("ored", put(scaler, n_features_in_=10**9), "n_features_in_|transformer_"),
    "an-attribute-of-another": ("ored", put(final, sticks_=np.zeros(3)), "sticks_"),
    "half-a-background": ("ored", drop(final, "background_intercept_"), "background"),
    "half-a-calibration": ("calibrated", drop(final, "seen_"), "seen_"),
    "a-temperature-of-zero": ("calibrated", put(final, new_=(0.0, 0.0, np.zeros(4))), "new_"),
    "a-calibration-of-fewer-classes": (
        "calibrated",
        put(final, **{name: (1.0, 0.0, np.zeros(3)) for name in ("new_", "listed_", "seen_")}),
        "another estimator",
    ),
    "a-slope-beyond-64-bits": ("calibrated", put(final, bag_calibration_=(2**64, 0.0)), "bag_calibration_"),
    "a-calibration-of-nothing": ("calibrated", put(final, estimator_=ORedLogisticRegression()), "estimator_"),
    "a-calibration-of-another": ("calibrated", put(final, estimator_=SupportInstanceMachine()), "estimator_"),
    "a-rate-above-one": ("ored", put(final, missed_=1.5), "missed_"),
    "rates-of-other-classes": ("ored", put(final, spurious_=np.zeros(2)), "spurious_"),
    "an-inference-that-is-none": ("ored", put(final, inference="magic"), "inference"),
    "too-many-exact-labels": ("ored", put(final, max_exact_labels=200), "max_exact_labels"),
    "jobs-that-are-text": ("ored", put(final, n_jobs="all"), "n_jobs"),
    "classes-that-are-lists": ("ored", put(final, classes_=objects([1], [2], [3])), "classes_"),
    "classes-that-are-dicts": ("ored", put(final, classes_=objects({}, {"a": 1}, {"b": 2})), "classes_"),
    "classes-that-are-estimators": ("ored", put(final, classes_=objects("a", "b", CLPL())), "classes_"),
    "classes-that-are-no-text": ("ored", put(final, classes_=objects("a", "b", "\ud800")), "half a character"),
    "classes-that-are-half-an-array": ("ored", put(final, classes_=np.array(["a", "b", "\udfff"])), "do not exist"),
    "classes-that-are-the-same": ("ored", put(final, classes_=objects("a", "a", "b")), "classes_"),
    "classes-in-a-square": ("ored", put(final, classes_=np.array([["a"], ["b"], ["c"]])), "classes_"),
    "no-classes": ("ored", put(final, classes_=np.array([], dtype=str)), "classes_"),
    "classes-that-are-no-number": ("ored", put(final, classes_=np.array([1.0, 2.0, np.nan])), "classes_"),
    "classes-without-end": ("ored", put(final, classes_=np.array([1.0, 2.0, np.inf])), "classes_"),
    "classes-one-of-which-is-no-number": ("ored", put(final, classes_=objects("a", "b", (1, np.nan))), "classes_"),
    "a-parameter-that-is-no-number": ("ored", put(final, l2=float("nan")), r"\.l2 is nan"),
    "a-parameter-without-end": ("sim", put(final, alpha=np.float64("inf")), r"\.alpha is inf"),
    "feature-names-that-are-numbers": ("ored", put(final, feature_names_in_=objects(1, 2, 3)), "feature_names_in_"),
    "feature-names-of-two": ("ored", put(final, feature_names_in_=objects("a", "b")), "feature_names_in_"),
    "a-novelty-of-other-features": (
        "ored", lambda m: m.novelty_.update(centre=np.zeros(9)), "novelty_"
    ),
    "a-novelty-without-distances": ("ored", lambda m: m.novelty_.pop("distances"), "novelty_"),
    "an-empty-pipeline": ("ored", lambda m: m.steps.clear(), "steps"),
    "a-pipeline-that-ends-in-nothing": ("ored", lambda m: m.steps.append(("x", "passthrough")), "steps"),
    "a-step-that-is-no-estimator": ("ored", lambda m: m.steps.insert(0, ("x", 3)), "steps"),
    "steps-of-one-name": ("ored", lambda m: m.steps.append(m.steps[-1]), "steps"),
    "a-scaler-of-other-features": (
        "ored", lambda m: m.steps.__setitem__(0, ("s", PerInstance(StandardScaler()).fit(np.eye(4)))), "features"
    ),
    "a-scaler-that-was-never-fitted": (
        "ored", lambda m: m.steps.__setitem__(0, ("s", PerInstance(StandardScaler()))), "not its step 's'"
    ),
    "a-scaler-inside-that-was-never-fitted": ("ored", put(scaler, transformer_=StandardScaler()), "transformer_"),
    "a-scaler-to-begin-with-that-is-told-nonsense": (
        "ored", put(lambda m: scaler(m).transformer, with_mean=objects("a", "b")), "with_mean"
    ),
    "a-scale-of-zero": (
        "ored", put(lambda m: scaler(m).transformer_, scale_=np.zeros(3)), r"StandardScaler\.scale_"
    ),
    "a-scaler-inside-of-other-names": ("ored", inner(other_names()), "step 'p' knows features by other names"),
    "a-power-whose-scaler-drops-features": ("ored", inner(power_of(PCA(2))), r"PowerTransformer\._scaler"),
    "a-power-whose-scaler-turns-features": ("ored", inner(power_of(PCA(3))), r"PowerTransformer\._scaler"),
    "pipelines-in-pipelines": (
        "ored", lambda m: m.steps.__setitem__(0, ("x", nested(scaler(m), MOST_PIPELINES, BagPipeline))), "levels"
    ),
    "pipelines-in-pipelines-inside": (
        "ored", inner(nested(StandardScaler().fit(DATA.bags.instances), MOST_PIPELINES, Pipeline)), "levels"
    ),
    "a-learner-in-the-middle": ("ored", lambda m: m.steps.insert(1, ("x", CLPL().fit(DATA.bags, SETS))), "transform"),
    "trees-that-lead-outside": ("forest", put(final, forest_=swap(3, wrong_child)), "trees"),
    "trees-that-ask-for-other-features": ("forest", put(final, forest_=swap(1, lambda a: a + 50)), "trees"),
    "trees-of-float-children": ("forest", put(final, forest_=swap(3, lambda a: a * 1.0)), "forest_"),
    "trees-of-classes-beyond": ("forest", put(final, forest_=swap(5, lambda a: a + 7)), "trees"),
    "trees-whose-leaves-end-elsewhere": ("forest", put(final, forest_=swap(4, lambda a: a + 10**6)), "trees"),
    "trees-of-other-classes": ("forest", put(final, forest_=swap(7, lambda n: n + 1)), "forest_"),
    "no-trees": ("forest", put(final, forest_=()), "forest_"),
    "an-aggregation-that-is-none": ("sim", put(final, aggregation_="median"), "aggregation_"),
    "sticks-of-other-features": ("lsbcmm", put(final, sticks_=np.zeros((2, 9))), "sticks_"),
    "concepts-of-other-labels": ("mimlfast", put(final, concepts_=np.zeros((2, 2, 4))), "concepts_"),
    "a-shared-space-of-another-size": ("mimlfast", put(final, shared_=np.zeros((4, 8))), "shared_"),
    "support-instances-of-other-features": ("m3miml", put(final, support_instances_=np.zeros((2, 2))), "support_inst"),
    "two-kinds-of-weights": ("m3miml", put(final, coef_=np.zeros((3, 3))), "M3MIML"),
    "codes-of-other-medoids": ("mimlsvm", put(final, support_codes_=np.zeros((4, 2))), "support_codes_|dual_coef_"),
    "a-distance-that-is-none": ("mimlsvm", put(final, distance_="maximal "), "distance_"),
    "medoids-of-other-features": (
        "mimlnn", put(final, medoids_=lambda m: Bags(np.zeros((len(m.medoids_), 2)), np.arange(len(m.medoids_) + 1))),
        "medoids_",
    ),
    "medoids-that-are-an-array": ("mimlnn", put(final, medoids_=np.zeros((2, 3))), "medoids_"),
    "rounds-that-differ": ("mimlboost", put(final, votes_=np.ones(9)), "votes_|intercepts_"),
    "shares-of-other-classes": ("most-frequent", put(final, share_=np.ones(2) / 2), "share_"),
    "a-classifier-of-other-classes": (
        "supervised", put(lambda m: final(m).estimator_, classes_=np.array([0, 1, 70])), "estimator_"
    ),
    "a-classifier-that-was-never-fitted": ("supervised", put(final, estimator_=LogisticRegression()), "estimator_"),
    "a-classifier-of-two-scores": (
        "supervised", put(lambda m: final(m).estimator_, coef_=np.zeros((2, 3))), r"LogisticRegression\."
    ),
    "a-binarizer-that-is-none": (
        "ridge", put(lambda m: final(m).estimator_, _label_binarizer=None), "_label_binarizer"
    ),
    "members-of-other-classes": (
        "stack", put(final, members_=[ORedLogisticRegression().fit(DATA.bags, [{"a"}, {"b"}] * 12)]), "members_"
    ),
    "members-that-are-text": ("stack", put(final, members_=["ored"]), "members_"),
    "members-without-probabilities": ("stack", put(final, members_=[CLPL().fit(DATA.bags, SETS)]), "members_"),
    "members-that-see-no-instances": (
        "stack",
        lambda m: put(final, members_=[
            BagPipeline([("s", BagStatistics("mean").fit(DATA.bags)), ("o", final(m).members_[0])])
        ])(m),
        "members_",
    ),
    "a-stack-without-statistics": ("stack", put(final, statistics_=None), "trees"),
    "frequencies-of-other-features": (
        "fourier", put(lambda m: final(m).steps[0][1].transformer_, frequencies_=np.zeros((9, 50))), "frequencies_"
    ),
    "a-dictionary-of-none": (
        "dictionary", put(lambda m: final(m).steps[0][1].transformer_, dictionary_=sp.csr_matrix((4, 9))), "dictionary_"
    ),
    "whitening-of-another-size": (
        "dictionary", put(lambda m: final(m).steps[0][1].transformer_, whitening_=np.eye(9)), "whitening_"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_not_whole(name, fitted, table, tmp_path):
    base, change, attribute = HOSTILE[name]
    estimator = fitted(base)
    change(estimator)
    path = forge(estimator, tmp_path / "forged.bagwise")
    with pytest.raises(FormatError, match=attribute) as caught:
        load(path)
    assert "forged.bagwise" in str(caught.value)
    assert_every_command_refuses(path, table, tmp_path, info=False)
    if not name.startswith("classes-that-are-half"):
        with pytest.raises(InputError, match="cannot be saved"):
            save(estimator, tmp_path / "saved.bagwise")


# ---------------------------------------------------------------------------------------------------------------------
# Files that are whole but of no use to a command

USELESS = {
    "a-learner-that-was-never-fitted": (CLPL, "never fitted"),
    "a-pipeline-that-was-never-fitted": (lambda: make_pipeline(PerInstance(StandardScaler()), CLPL()), "never fitted"),
    "a-scaler": (lambda: StandardScaler().fit(DATA.bags.instances), "takes plain vectors"),
    "a-scaler-of-bags": (lambda: PerInstance(StandardScaler()).fit(DATA.bags), "knows no labels"),
    "a-clusterer": (lambda: MajorityKMeans(2, n_init=1, random_state=0).fit(DATA.bags), "knows no labels"),
    "a-classifier-of-vectors": (
        lambda: Pipeline([("x", StandardScaler()), ("y", LogisticRegression())]).fit(np.eye(4), [0, 1, 0, 1]),
        "takes plain vectors",
    ),
    "labels-of-several-kinds": (
        lambda: MostFrequentAnnotator().fit(DATA.bags, [{("a", 1)}, {"b"}, {None}] * 8),
        "neither text nor numbers",
    ),
}


@pytest.mark.parametrize("name", USELESS)
def test_a_file_of_no_use(name, table, tmp_path):
    make, message = USELESS[name]
    save(make(), tmp_path / "x.bagwise")
    assert_every_command_refuses(tmp_path / "x.bagwise", table, tmp_path, info=True)
    assert message in run("predict", tmp_path / "x.bagwise", table).stderr


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("abc", "no list of text"), ([1, 2, 3], "no list of text"), ({"a": 1}, "no list of text"),
        (["a", "b"], "names 2 features, and its estimator takes 3"), (["a", "b", "a"], "names two features 'a'"),
    ],
)  # fmt: skip
def test_feature_names_that_are_none(names, message, fitted, table, tmp_path):
    path = forge(fitted("clpl"), tmp_path / "x.bagwise", {"feature_names": names})
    result = run("predict", path, table)
    assert result.exit_code == 1
    assert message in result.stderr
    assert run("annotate-table", path, table).exit_code == 1


EMBEDDED = {"kind": "network", "name": "x.onnx", "fingerprint": "0", "settings": {}, "size": 3, "join": False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda recipe: recipe.pop("settings"), "featurizer_ is a dict of medium, feature_names, model, and a dict of"),
        (lambda recipe: recipe.update(shell="rm"), "featurizer_ is a dict of"),
        (lambda recipe: recipe.update(medium="smell"), "There is no media type 'smell'"),
        (lambda recipe: recipe.update(medium=3), "featurizer_ ['medium'] is 3, and text was expected"),
        (lambda recipe: recipe.update(settings=[1]), "featurizer_ ['settings'] is a list"),
        (lambda recipe: recipe.update(settings={"n_bands": 3}), "There is no setting 'n_bands'"),
        (lambda recipe: recipe.update(medium="audio", settings={"fft": "x"}), "setting"),
        (lambda recipe: recipe.update(feature_names="abc"), "featurizer_ ['feature_names'] is 'abc'"),
        (lambda recipe: recipe.update(feature_names=["a"]), "['feature_names'] holds 1, and features is 3"),
        (lambda recipe: recipe.update(embedded={"name": "x.onnx"}), "featurizer_ ['embedded'] is a dict of name"),
        (lambda recipe: recipe.update(embedded={**EMBEDDED, "size": -1}), "['embedded'] ['size'] reaches from -1"),
        (lambda recipe: recipe.update(embedded={**EMBEDDED, "name": "../../x"}), "is no name of a file next to"),
    ],
)
def test_a_recipe_that_does_not_fit(change, message, fitted, table, tmp_path):
    estimator = fitted("clpl")
    change(estimator.featurizer_)
    path = forge(estimator, tmp_path / "x.bagwise")
    result = run("annotate", table, "--model", path, "--out", tmp_path / "run", "--no-page")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "x.bagwise" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_recipe_of_another_medium(fitted, table, tmp_path):
    estimator = fitted("clpl")
    estimator.featurizer_["medium"] = "image"
    result = run("annotate", table, "--model", forge(estimator, tmp_path / "x"), "--out", tmp_path / "run", "--no-page")
    assert result.exit_code == 1
    assert "The model was trained on image" in result.stderr


def test_pipelines_in_pipelines_that_are_few(fitted, tmp_path):
    estimator = fitted("clpl")
    expected = estimator.predict(DATA.bags)
    estimator.steps[0] = ("x", nested(scaler(estimator), MOST_PIPELINES - 1, BagPipeline))
    save(estimator, tmp_path / "x.bagwise")
    assert np.array_equal(load(tmp_path / "x.bagwise").predict(DATA.bags), expected)


def test_a_learner_of_statistics_predicts_and_does_not_annotate(table, tmp_path):
    """What sees one row per bag has nothing to say of instances."""
    path = tmp_path / "x.bagwise"
    save(make_pipeline(BagStatistics("mean"), CLPL()).fit(DATA.bags, SETS), path)
    assert run("predict", path, table).exit_code == 0
    result = run("annotate-table", path, table)
    assert result.exit_code == 1
    assert "makes one row of every bag before its last step, so that it does not annotate instances" in result.stderr
    assert "x.bagwise" in result.stderr


@pytest.mark.parametrize(
    ("power", "reason"),
    [
        (PowerTransformer(method="box-cox").fit(np.exp(DATA.bags.instances)), "strictly positive data"),
        (put(lambda p: p, lambdas_=np.full(3, 700.0)), "contains infinity"),
        (put(lambda p: p, lambdas_=np.full(3, 1e308)), "contains infinity"),
    ],
    ids=["box-cox", "700", "1e308"],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_instances_that_a_transformer_cannot_take(power, reason, fitted, table, tmp_path):
    """Only the data show it: one line that names the step."""
    estimator = fitted("clpl")
    if callable(power):
        change, power = power, PowerTransformer().fit(DATA.bags.instances)
        change(power)
    inner(power)(estimator)
    path = tmp_path / "x.bagwise"
    save(estimator, path)
    for command in (("predict", path, table), ("annotate-table", path, table, "--quiet")):
        result = run(*command)
        assert result.exit_code == 1, (command[0], result.exception)
        last = result.stderr.splitlines()[-1]
        assert last.startswith("Error: PowerTransformer cannot transform the instances of these bags: ")
        assert reason in last


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_whole_is_used(name, fitted, table, tmp_path):
    """The same commands take the same models where nobody changed them."""
    path = tmp_path / "x.bagwise"
    save(fitted(name), path)
    assert run("predict", path, table).exit_code == 0
    assert run("info", path).exit_code == 0
    annotates = name not in ("mimlsvm", "mimlnn", "mimlboost", "stack", "m3miml")
    assert run("annotate-table", path, table).exit_code == (0 if annotates or name == "m3miml" else 1)


# ---------------------------------------------------------------------------------------------------------------------
# Time and memory


def write_document(path, text):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", text)
    return path


def of_value(value):
    written = {"bagwise": "0"}
    node = {"kind": "estimator", "class": "CLPL", "params": {"C": value}, "state": {}}
    return json.dumps({"format": "bagwise-model", "version": 1, "written_by": written, "estimator": node})


@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_integers_that_collide(kind, tmp_path):
    """All of them have one hash, so that 60,000 would take minutes."""
    keys = [i * (2**61 - 1) for i in range(1, 1_002)]
    items = [[key, 0] for key in keys] if kind == "dict" else keys
    path = write_document(tmp_path / "x.bagwise", of_value({"kind": kind, "items": items}))
    with pytest.raises(FormatError, match=r"x\.bagwise.* more than 1000 entries that are not text"):
        load(path)
    with pytest.raises(InputError, match="more than 1000 entries that are not text; use an array"):
        save(CLPL(C=dict(items) if kind == "dict" else {"set": set, "frozenset": frozenset}[kind](items)), path)


def test_many_small_sets_that_collide(tmp_path):
    items = [{"kind": "set", "items": [i * (2**61 - 1) for i in range(900)]}] * 40
    with pytest.raises(FormatError, match="entries that are not text"):
        load(write_document(tmp_path / "x.bagwise", of_value(items)))


def test_names_may_be_many(tmp_path):
    names = {f"word{i}" for i in range(5_000)}
    save(CLPL(C=names), tmp_path / "x.bagwise")
    assert names == load(tmp_path / "x.bagwise").C


@pytest.mark.parametrize("value", ["[]", "{}", "1", '""'])
def test_a_document_that_would_swell(value, tmp_path):
    text = of_value(["here"]).replace('"here"', ",".join([value] * 1_000_000))
    path = write_document(tmp_path / "x.bagwise", text)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="which bagwise never writes"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_a_document_padded_to_pass_takes_a_few_times_its_size(tmp_path):
    text = of_value(["here"]).replace('"here"', ",".join(["[]" + 20 * " "] * 100_000))
    path = write_document(tmp_path / "x.bagwise", text)
    tracemalloc.start()
    try:
        load(path)
        assert tracemalloc.get_traced_memory()[1] < 12 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_the_largest_documents_that_are_written_are_read(tmp_path):
    """Short words, one a line, are the densest that a file of ours can be."""
    words = objects(*[f"{i:x}" for i in range(60_000)])
    estimator = MostFrequentAnnotator().fit(np.eye(3), [{"a"}, {"b"}, {"c"}])
    estimator.classes_, estimator.share_ = words, np.zeros(60_000)
    save(estimator, tmp_path / "x.bagwise")
    assert load(tmp_path / "x.bagwise").classes_.tolist() == words.tolist()


# ---------------------------------------------------------------------------------------------------------------------
# Declarations


def test_every_class_of_the_registry_declares_its_attributes():
    """A new estimator that is in the registry but says nothing of its attributes is named here."""
    silent = []
    for name, cls in model.CLASSES.items():
        if issubclass(cls, Pipeline):
            continue
        own = [each for each in cls.__mro__ if each.__module__.startswith("bagwise.") and "_fitted" in vars(each)]
        shared = own and own[0].__module__ == cls.__module__ and own[0].__name__.startswith("_")  # a root of its own
        if not own or (own[0] is not cls and not shared):
            silent.append(name)
    assert silent == []


def test_declared_attributes_are_those_that_are_documented(fitted):
    """What a fit leaves is declared, and what is declared without condition is there."""
    for name in LEARNERS:
        estimator = final(fitted(name))
        if isinstance(estimator, Pipeline):
            continue
        declared = declared_by(type(estimator))
        state = {key for key in vars(estimator) if key not in estimator.get_params(deep=False)}
        assert state <= declared.keys(), name
        needed = {key for key, attribute in declared.items() if not attribute.optional}
        assert needed <= vars(estimator).keys(), name


def problem(attribute, value, **sizes):
    return attribute.problem(value, sizes)


@pytest.mark.parametrize(
    ("attribute", "right", "wrong"),
    [
        (Number(0, 1), [0, 1.0, np.float32(0.5), np.int8(1)], [-1, 2, np.nan, np.inf, True, "1", None, 10**400]),
        (Number(whole=True), [3, np.int64(-3)], [3.0, True, None]),
        (Number(positive=True), [1e-300], [0, -1.0]),
        (Flag(), [True, np.bool_(False)], [1, None, "true"]),
        (Choice("a", None, -1), ["a", None, -1], ["b", True, 1.0, [], np.array(["a"])]),
        (Either(None, Number()), [None, 3], ["x", []]),
        (TupleOf(Number(), Flag()), [(1, True), [1, True]], [(1,), (True, 1), None, (1, True, 2)]),
        (ListOf(Number()), [[1], (1, 2)], [[], [None], "ab", {"a": 1}]),
        (Record({"a": Number()}), [{"a": 1}], [{}, {"a": None}, {"a": 1, "b": 2}, [("a", 1)]]),
        (Plain(), [None, 1, "x", [1, {"a": [2.5]}]], [object(), {1: 2}, {"a": CLPL()}, {1, 2}]),
        (Labels(), [np.array([1, 2]), objects("a", None, ("b", 1))], [np.array([1, 1]), objects("a", "a"), ["a"]]),
        (Numbers("_", 2), [np.zeros((1, 2)), np.zeros((5, 2), np.float32)], [np.zeros((0, 2)), np.zeros(2), [[0, 0]]]),
        (Numbers("_", whole=True, low=0), [np.array([0, 3])], [np.array([-1]), np.array([0.5]), np.array([True])]),
        (Numbers("_", sparse=True), [np.zeros(1)], [sp.csc_matrix((1, 1)), sp.coo_matrix((1, 1))]),
        (Numbers("_", finite=False), [np.array([np.nan])], [np.array(["x"]), np.array([1j])]),
    ],
)  # fmt: skip
def test_declarations(attribute, right, wrong):
    assert [problem(attribute, value) for value in right] == [None] * len(right)
    assert all(problem(attribute, value) for value in wrong)


def test_sizes_are_settled_by_the_first():
    declared = {"n_": Size("n"), "a_": Numbers("n+1"), "b_": Maybe(Numbers("2*k", "n")), "c_": Maybe(Numbers("k"))}
    check_attributes("X", declared, {}, {"n_": 2, "a_": np.zeros(3), "b_": np.zeros((6, 2)), "c_": np.zeros(3)})
    for wrong in ({"a_": np.zeros(2)}, {"b_": np.zeros((5, 2))}, {"b_": np.zeros((4, 2)), "c_": np.zeros(3)}):
        with pytest.raises(InputError, match=rf"X\.{list(wrong)[-1]} has the shape"):
            check_attributes("X", declared, {}, {"n_": 2, "a_": np.zeros(3), **wrong})
    with pytest.raises(InputError, match="X lacks its attribute 'a_'"):
        check_attributes("X", declared, {}, {"n_": 2})
    with pytest.raises(InputError, match="X has no attribute 'z'"):
        check_attributes("X", declared, {}, {"z": 2})
    check_attributes("X", declared, {}, {})


def test_a_choice_that_fails_leaves_sizes_alone():
    sizes = {}
    assert Either(Numbers("k", 2), Numbers("j", 3)).problem(np.zeros((4, 3)), sizes) is None
    assert sizes == {"j": 4}


def test_estimators_of_others_cannot_be_loaded(tmp_path):
    class Other(BaseEstimator):
        pass

    with pytest.raises(InputError, match="which the model file does not take"):
        save(Other(), tmp_path / "x")
