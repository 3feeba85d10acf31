"""What the short names stand for, down to every setting that is not a default."""

import contextlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from bagwise import Bags
from bagwise.catalog import CATALOG, USUAL, for_sparse, make_model
from bagwise.core.exceptions import InputError
from bagwise.pipeline import bag_tags, fit_parameters

STANDARD, UNIT, CLPL = "PerInstance(StandardScaler())", "PerInstance(MinMaxScaler())", "PerInstance(CLPLScaler())"
CENTERED = "PerInstance(CLPLScaler(unit_range=False))"
FOURIER = f"{CLPL} > PerInstance(RandomFourierFeatures(gamma='scale', random_state=0)) > {CENTERED}"
SIMILAR = f"{STANDARD} > PerInstance(RBFDictionary(random_state=0, width=0.2))"
SIM = {
    "sim-max": "SupportInstanceMachine(aggregation='max')",
    "sim-softmax": "SupportInstanceMachine()",
    "sim-cccp": "SupportInstanceMachine(aggregation='max', solver='cccp')",
    "sim-hamming-max": "SupportInstanceMachine(aggregation='max', loss='hamming')",
    "sim-hamming-softmax": "SupportInstanceMachine(loss='hamming')",
}
RBF = (
    f"{STANDARD} > PerInstance(RBFDictionary(random_state=0, size=600, whiten=True, width=0.5)) > "
    "ORedLogisticRegression(l2=0.03)"
)
PATCH = "batch_instances=256, epochs=40, module='patch'"
SMALL_FOREST = "ORedForest(n_estimators=100, n_round_trees=50, n_rounds=4, random_state=0)"
NETWORK = f"{STANDARD} > ORedNetwork(random_state=0)"
REDUCED = "PerInstance(SparseReducer(random_state=0))"
MODELS = {
    "ored": f"{STANDARD} > ORedLogisticRegression()",
    "ored-em": f"{STANDARD} > ORedLogisticRegression(l2=0.0, max_iter=50, solver='em', tol=0.0)",
    "ored-rbf": RBF,
    "ored-forest": "ORedForest(random_state=0)",
    "ored-forest-background": "ORedForest(background=True, random_state=0)",
    "ored-background": f"{STANDARD} > ORedLogisticRegression(background=True)",
    "ored-network": NETWORK,
    "ored-mix": f"{STANDARD} > ORedNetwork(n_estimators=300, random_state=0)",
    "ored-patch": f"ORedNetwork({PATCH}, n_members=4, n_rounds=0, random_state=0)",
    **{name: f"{CLPL} > {machine}" for name, machine in SIM.items()},
    **{f"{name}-rff": f"{FOURIER} > {machine}" for name, machine in SIM.items()},
    "sim-max-last": f"{CLPL} > SupportInstanceMachine(aggregation='max', restart='last')",
    "sim-softmax-last": f"{CLPL} > SupportInstanceMachine(restart='last')",
    "sim-hamming-max-last": f"{CLPL} > SupportInstanceMachine(aggregation='max', loss='hamming', restart='last')",
    "sim-hamming-softmax-last": f"{CLPL} > SupportInstanceMachine(loss='hamming', restart='last')",
    "k-ored-em": f"{SIMILAR} > ORedLogisticRegression(l2=0.0, max_iter=500, random_state=0, solver='em', tol=0.0)",
    "k-sim-softmax": f"{SIMILAR} > {CLPL} > SupportInstanceMachine(n_steps=1000)",
    "k-mimlfast": f"{SIMILAR} > MIMLFast(max_epochs=100, random_state=0, step=0.001)",
    "k-lr-supervised": f"{SIMILAR} > SupervisedAnnotator(estimator=LogisticRegression(max_iter=1000))",
    "m3miml-linear": f"{CLPL} > M3MIML(kernel='linear')",
    "clpl": f"{CLPL} > CLPL()",
    "noisy-or": f"{STANDARD} > NoisyOrLogisticRegression()",
    "noisy-or-network": f"{STANDARD} > ORedNetwork(labels_per_instance='any', random_state=0)",
    "mimlfast": f"{STANDARD} > MIMLFast(random_state=0)",
    "lsb-cmm": f"{STANDARD} > LSBCMM(random_state=0)",
    "m3miml": f"{UNIT} > M3MIML()",
    "mimlsvm": f"{UNIT} > MIMLSVM(random_state=0)",
    "mimlnn": f"{UNIT} > MIMLNN(random_state=0)",
    "mimlboost": f"{UNIT} > MIMLBoost()",
    "bag-stack": f"{REDUCED} > BagStack(members=[{RBF}, {SMALL_FOREST}], random_state=0)",
    "bag-stack-network": f"{REDUCED} > BagStack(members=[{RBF}, {SMALL_FOREST}, {NETWORK}], random_state=0)",
    "lr-supervised": f"{STANDARD} > SupervisedAnnotator(estimator=LogisticRegression(max_iter=1000))",
    "svm-supervised": f"{STANDARD} > SupervisedAnnotator(estimator=LinearSVC())",
    "most-frequent": "MostFrequentAnnotator()",
}


def text_of(model):
    """The steps of a model, each with all parameters that are not their defaults."""
    if isinstance(model, Pipeline):
        return " > ".join(text_of(step) for _, step in model.steps)
    if isinstance(model, list):
        return f"[{', '.join(map(text_of, model))}]"
    if not isinstance(model, BaseEstimator):
        return repr(model)
    defaults = {name: p.default for name, p in inspect.signature(type(model)).parameters.items()}
    given = {n: v for n, v in model.get_params(deep=False).items() if repr(v) != repr(defaults[n])}
    if list(given) == ["transformer"]:
        return f"{type(model).__name__}({text_of(given['transformer'])})"
    return f"{type(model).__name__}({', '.join(f'{n}={text_of(given[n])}' for n in sorted(given))})"


def test_every_name_stands_for_one_model():
    assert {name: text_of(make_model(name)) for name in CATALOG} == MODELS


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("ored", {"l2": 0.5}, f"{STANDARD} > ORedLogisticRegression(l2=0.5)"),
        ("ored-em", {"l2": 2.0, "max_iter": 5},
         f"{STANDARD} > ORedLogisticRegression(l2=2.0, max_iter=5, solver='em', tol=0.0)"),
        ("ored-rbf", {"width": 0.2, "size": None, "l2": 2.0, "tol": 0.5},
         f"{STANDARD} > PerInstance(RBFDictionary(random_state=0, whiten=True, width=0.2)) > "
         "ORedLogisticRegression(l2=2.0, tol=0.5)"),
        ("k-sim-softmax", {"width": 0.5, "size": 9, "alpha": 1e-9},
         f"{STANDARD} > PerInstance(RBFDictionary(random_state=0, size=9, width=0.5)) > {CLPL} > "
         "SupportInstanceMachine(alpha=1e-09, n_steps=1000)"),
        ("sim-max-rff", {"gamma": 1e3, "alpha": 1e-9},
         f"{FOURIER.replace(repr('scale'), '1000.0')} > SupportInstanceMachine(aggregation='max', alpha=1e-09)"),
        ("lr-supervised", {"C": 2.0},
         f"{STANDARD} > SupervisedAnnotator(estimator=LogisticRegression(C=2.0, max_iter=1000))"),
        ("ored-forest", {"random_state": 3}, "ORedForest(random_state=3)"),
        ("bag-stack-network", {"members": [], "device": "cpu"}, f"{REDUCED} > BagStack(members=[], random_state=0)"),
        ("bag-stack", {"members": [], "cv": 3}, f"{REDUCED} > BagStack(cv=3, members=[], random_state=0)"),
    ],
)  # fmt: skip
def test_settings_replace_those_of_the_entry(name, settings, expected):
    assert text_of(make_model(name, **settings)) == expected
    assert text_of(CATALOG[name](**settings)) == expected
    assert text_of(make_model(name)) == MODELS[name]  # and stay with that one model


def test_a_wrong_name_gets_the_nearest():
    with pytest.raises(InputError) as caught:
        make_model("ORED-RFB")
    message = str(caught.value)
    assert message.startswith("There is no model 'ORED-RFB'; did you mean ored-rbf")
    assert message.endswith("docs/command-line.md lists all 42.")
    assert len(re.findall(r"[\w-]+(?=[,?])", message)) <= 5
    with pytest.raises(InputError, match=f"did you mean {', '.join(USUAL)}\\? docs/command-line.md lists all 42."):
        make_model("xyz")  # like none of them: the usual ones


def test_the_page_that_the_message_names_lists_all():
    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    section = page.partition("\n## Models\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)] == list(CATALOG)


TERMS = "PerInstance(TermScaler())"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ored-background", f"{TERMS} > ORedLogisticRegression(background=True)"),
        ("ored-rbf", RBF.replace(STANDARD, TERMS)),
        ("clpl", f"{TERMS} > {REDUCED} > {CLPL} > CLPL()"),
        ("mimlfast", f"{TERMS} > {REDUCED} > {STANDARD} > MIMLFast(random_state=0)"),
        ("ored-forest", f"{TERMS} > {REDUCED} > ORedForest(random_state=0)"),
        ("bag-stack", MODELS["bag-stack"]),
        ("most-frequent", "MostFrequentAnnotator()"),
    ],
)
def test_the_form_for_sparse_features(name, expected):
    assert text_of(for_sparse(make_model(name))) == expected
    assert text_of(for_sparse(for_sparse(make_model(name)))) == expected


@pytest.mark.parametrize("name", ["ored", "ored-background", "ored-rbf", "ored-forest-background", "clpl"])
def test_sparse_features_are_learned_from(name):
    rng = np.random.default_rng(0)
    rates = np.full((3, 30), 0.05)
    for c in range(3):
        rates[c, 10 * c : 10 * c + 10] = 1.0
    truth = rng.integers(0, 3, 240)
    bags = Bags(sp.csr_matrix(rng.poisson(rates[truth]).astype(float)), np.arange(0, 241, 6))
    sets = [set(labels) for labels in truth.reshape(40, 6).tolist()]
    small = {"n_estimators": 20, "n_rounds": 2} if "forest" in name else {}
    model = for_sparse(make_model(name, **small)).fit(bags, sets)
    assert np.mean(model.annotate(bags, sets) == truth) > 0.8


# -- features of any size ----------------------------------------------------------------------------------------------

SMALL = {
    "ored-rbf": {"size": 5}, "ored-em": {"max_iter": 3}, "mimlfast": {"max_epochs": 2, "n_components": 4},
    "ored-forest": {"n_estimators": 3, "n_rounds": 1, "n_round_trees": 8}, "lsb-cmm": {"max_iter": 3},
    "ored-forest-background": {"n_estimators": 3, "n_rounds": 1, "n_round_trees": 8}, "mimlboost": {"n_rounds": 2},
    "bag-stack": {"n_estimators": 3, "cv": 2}, "k-ored-em": {"max_iter": 3}, "k-sim-softmax": {"n_steps": 5},
    "k-mimlfast": {"max_epochs": 2, "n_components": 4},
}  # fmt: skip
BY_TREES = ("ored-forest", "ored-forest-background", "bag-stack")
SCALED_BY_RANGE = ("sim", "clpl", "m3miml", "mimlsvm", "mimlnn", "mimlboost", "most-frequent")  # who need no squares
WITHOUT_TORCH = [name for name in CATALOG if not re.search("network|mix|patch", name)]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of convergence, and of bags with all labels or none
@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_features_of_any_size_work_or_are_refused_with_a_cure(name):
    """What no number can tell any more is no error of a library, nor a warning of numpy, nor a score of NaN."""
    rng = np.random.default_rng(0)
    labels, offsets = rng.integers(0, 3, 60), np.arange(0, 61, 3)
    base = rng.normal(size=(60, 3)) + 3 * np.eye(3)[labels]
    Y = np.zeros((20, 3), dtype=int)
    Y[np.arange(60) // 3, labels] = 1
    for size in (1e-320, 1e-300, 1e-160, 1e100, 1e154, 1e200, 1e300):
        bags = Bags(base * [size, 1.0, 1.0], offsets)
        model = make_model(name, **SMALL.get(name, {}))
        if name == "bag-stack":
            model[-1].set_params(members=[make_model("ored")])
        known = {"instance_labels": Bags(labels, offsets)} if bag_tags(model).needs_instance_labels else {}
        refusal = contextlib.nullcontext()
        if size > (1e38 if name in BY_TREES else 1e150) and not name.startswith(SCALED_BY_RANGE):
            refusal = pytest.raises(
                InputError, match=r"(cannot scale feature 0: .* D|single precision.*; d)ivide the f"
            )
        with refusal:
            model.fit(bags, Y, **fit_parameters(model, **known))
            assert np.isfinite(model.decision_function(bags)).all(), size
            assert model.predict(bags).shape == Y.shape
