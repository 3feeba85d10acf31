"""A weight a bag: integer weights are repeated bags, weight zero is a bag left out, for every such learner."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from bagwise import Bags, ORedLogisticRegression, SupportInstanceMachine
from bagwise.annotation import CLPL, LSBCMM, MIMLFast, MostFrequentAnnotator, ORedForest, SupervisedAnnotator
from bagwise.annotation import _lsbcmm_em as em
from bagwise.annotation._mimlfast import draw_bags
from bagwise.annotation.forest import _grow_tree
from bagwise.annotation.objective import ORedObjective
from bagwise.annotation.rates import RateParameters, learn_rates
from bagwise.calibration import CalibratedAnnotator
from bagwise.calibration._recalibration import HeldOut, fit_log_odds, fit_power, undetermined_shares
from bagwise.classification import M3MIML, MIMLNN, MIMLSVM, MIMLBoost
from bagwise.classification._m3miml_solvers import best_bias
from bagwise.classification._stacking import BagStack, _pool_weights, _SharedLogistic
from bagwise.core.exceptions import InputError
from bagwise.core.validation import Evidence, distinct_bags
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import bag_tags
from bagwise.scale import BagSource, fit_source
from bagwise.solvers._frank_wolfe import _best_vertex
from bagwise.union import LabelNoise, UnionModel, UnionProblem

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::bagwise.core.exceptions.InfeasibleBagWarning"),
]

DATA = make_gaussian_bags(n_bags=26, n_features=3, n_classes=3, separation=2.0, random_state=0)
OTHER = make_gaussian_bags(n_bags=8, n_features=3, n_classes=3, separation=2.0, random_state=1)
WEIGHTS = np.random.default_rng(0).integers(0, 4, size=len(DATA)).astype(float)
REPEATED = np.repeat(np.arange(len(DATA)), WEIGHTS.astype(int))
KNOWN = Bags(np.where(np.arange(DATA.bags.n_instances) % 4 == 0, DATA.instance_labels.instances, -1), DATA.bags.offsets)

FOREST = ORedForest(n_estimators=5, n_rounds=2, n_round_trees=8, random_state=0)
EXACT = 0.0  # copies of a bag are one bag, so that the fits are one
LEARNERS = [  # and what two fits that end alike may differ by
    (ORedLogisticRegression(tol=1e-8), 1e-5),
    (ORedLogisticRegression(solver="em", max_iter=20, tol=0.0), 1e-8),
    (ORedLogisticRegression(background=True, background_share=0.2, tol=1e-8), 1e-3),  # the share is met to 1e-3
    (ORedLogisticRegression(missed=0.1, spurious="learn", tol=1e-8), 1e-4),
    (ORedLogisticRegression(on_infeasible="relax", missed=0.2, tol=1e-8), 1e-5),
    (SupportInstanceMachine(alpha=1e-2, n_steps=30), EXACT),
    (SupportInstanceMachine(loss="hamming", aggregation="mean", alpha=1e-2, n_steps=30), EXACT),
    (SupportInstanceMachine(alpha=1e-2, aggregation="max", solver="cccp", n_steps=30), EXACT),
    (CLPL(), EXACT),
    (SupervisedAnnotator(LogisticRegression(tol=1e-8)), 1e-4),
    (MostFrequentAnnotator(), 1e-12),
    (M3MIML(), EXACT),
    (M3MIML(kernel="linear", C=0.5), EXACT),
    (M3MIML(kernel="linear", C=0.5, solver="frank-wolfe", max_iter=20), EXACT),
    (M3MIML(kernel="linear", approximation="primal", random_state=0), EXACT),
    (M3MIML(approximation="fourier", n_components=5, random_state=0), EXACT),
    (MIMLSVM(random_state=0), EXACT),
    (MIMLNN(random_state=0), EXACT),
    (MIMLBoost(n_rounds=3, gamma=0.3), EXACT),
    (FOREST, EXACT),
    (clone(FOREST).set_params(spurious="learn", background=True, background_share=0.2), EXACT),
    (clone(FOREST).set_params(missed=0.4), EXACT),
    (CalibratedAnnotator(FOREST), EXACT),
    (MIMLFast(max_epochs=3, n_components=10, random_state=0), EXACT),
    (LSBCMM(random_state=0, max_iter=10), EXACT),
]
RANDOM = [  # weight zero only: two copies of a bag draw other numbers than one; tests of their own below
    clone(FOREST).set_params(missed="learn"),
    CalibratedAnnotator(ORedLogisticRegression()),
    ORedLogisticRegression(missed="learn"),
    ORedLogisticRegression(solver="em", batch_fraction=0.5, max_iter=5, random_state=0),
    ORedLogisticRegression(prune=0.2),
    BagStack([ORedLogisticRegression()], cv=3, n_estimators=5, random_state=0),
]


def fit(model, index=None, weights=None, **extra):
    """On some of the bags, with their weights; known instances only where they must be."""
    index = np.arange(len(DATA)) if index is None else index
    if bag_tags(model).needs_instance_labels:
        extra["instance_labels"] = DATA.instance_labels[index]
    return clone(model).fit(DATA.bags[index], DATA.Y[index], sample_weight=weights, **extra)


@pytest.mark.parametrize(("model", "tolerance"), LEARNERS, ids=lambda value: repr(value))
def test_integer_weights_are_repeated_bags(model, tolerance):
    weighted, repeated = fit(model, weights=WEIGHTS), fit(model, REPEATED)
    assert_allclose(
        weighted.decision_function(OTHER.bags), repeated.decision_function(OTHER.bags), atol=tolerance, rtol=tolerance
    )
    plain = fit(model)
    assert np.abs(weighted.decision_function(OTHER.bags) - plain.decision_function(OTHER.bags)).max() > 5 * tolerance


@pytest.mark.parametrize("model", [model for model, _ in LEARNERS] + RANDOM, ids=repr)
def test_weight_zero_is_a_bag_left_out(model):
    weights = np.where(WEIGHTS > 0, WEIGHTS, 0.0)
    kept = np.flatnonzero(WEIGHTS)
    without = fit(model, kept, weights[kept]).decision_function(OTHER.bags)
    assert_array_equal(fit(model, weights=weights).decision_function(OTHER.bags), without)


def test_every_learner_that_says_so_is_among_these():
    """And weights of one are no weights."""
    for model in [model for model, _ in LEARNERS] + RANDOM:
        assert bag_tags(model).sample_weight
        ones = fit(model, weights=np.ones(len(DATA))).decision_function(OTHER.bags)
        assert_allclose(ones, fit(model).decision_function(OTHER.bags), rtol=1e-3, atol=1e-3)
        with pytest.raises(InputError, match="The weight of bag 1 is -1"):
            fit(model, weights=[1.0, -1.0] + [1.0] * (len(DATA) - 2))


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((26, 1)), np.full(26, np.nan), np.zeros(26), ["a"] * 26])
def test_what_are_no_weights_is_refused(bad):
    with pytest.raises(InputError, match="weight"):
        fit(MostFrequentAnnotator(), weights=bad)


def test_known_instances_go_with_their_bags():
    model = ORedLogisticRegression(tol=1e-8)
    weighted = fit(model, weights=WEIGHTS, instance_labels=KNOWN)
    repeated = fit(model, REPEATED, instance_labels=KNOWN[REPEATED])
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    assert np.abs(fit(model, weights=WEIGHTS).coef_ - weighted.coef_).max() > 1e-3


def test_a_bag_of_weight_zero_may_be_impossible():
    Y = DATA.Y.copy()
    small = int(np.argmin(DATA.bags.sizes))
    bags = Bags.from_list([rows[:1] if i == small else rows for i, rows in enumerate(DATA.bags)])
    Y[small] = 1  # three labels, one instance
    weights = np.ones(len(bags))
    weights[small] = 0.0
    for model in (ORedLogisticRegression(on_infeasible="error"), RANDOM[0]):
        clone(model).fit(bags, Y, sample_weight=weights)


def test_copies_are_one_bag_with_other_things_said_they_are_two():
    one, two = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0]])
    for form in (lambda bags: bags, lambda bags: Bags(sp.csr_matrix(bags.instances), bags.offsets)):
        bags, Y = form(Bags.from_list([one, two, one, one, one])), np.array([[1, 0], [1, 0], [1, 0], [0, 1], [1, 0]])
        known = np.array([-1, -1, -1, -1, -1, -1, -1, 0, -1])
        for weights in (None, np.array([1.0, 2.0, 0.5, 1.0, 3.0])):
            index, counts = distinct_bags(bags, Y, weights, known)
            given = np.ones(5) if weights is None else weights
            wanted = {0: given[0] + given[2], 1: given[1], 3: given[3], 4: given[4]}
            assert dict(zip(index.tolist(), counts.tolist(), strict=True)) == wanted
            turned = np.array([3, 4, 0, 1, 2])
            others = Bags(known, bags.offsets)[turned].instances
            again, _ = distinct_bags(bags[turned], Y[turned], given[turned] if weights is not None else None, others)
            same = [turned[b] if b != 4 else 0 for b in again]  # bag 2 is a copy of bag 0
            assert [b if b != 2 else 0 for b in same] == index.tolist()
    bags, said = Bags.from_list([one, one, one]), Evidence(np.array([[0.5, np.nan]] * 3))
    groups = np.empty(3, dtype=object)
    groups[:] = [((0, 1),), (), ((0, 1),)]
    assert len(distinct_bags(bags, said)[0]) == 1
    assert sorted(distinct_bags(bags, Evidence(said.values, groups))[1].tolist()) == [1.0, 2.0]
    assert distinct_bags(Bags.from_list([one, two[:, ::-1]]), Y[:2], np.ones(2)) == (slice(None), None)


def test_medoids_are_numbered_as_the_bags_came():
    weights = np.ones(len(DATA))
    weights[[0, 3]] = 0.0, 2.0
    model = MIMLNN(random_state=0).fit(DATA.bags, DATA.Y, sample_weight=weights)
    assert model.medoids_ == DATA.bags[model.medoid_indices_]
    assert (
        len(MIMLNN(n_medoids=30, random_state=0).fit(DATA.bags[REPEATED], DATA.Y[REPEATED]).medoids_)
        == (WEIGHTS > 0).sum()
    )


# -- the pieces of learners that draw at random -----------------------------------------------------------------------


def test_objective_is_a_weighted_sum_with_its_gradient():
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 3.0, len(DATA))
    rates = LabelNoise(np.full(3, 0.2), np.full(3, 0.1))
    options = {"l2": 0.0, "method": "auto", "max_exact_labels": 16, "rates": rates}
    W = rng.normal(size=(3, 4))
    problem = UnionProblem.build(DATA.bags.offsets, DATA.Y)
    objective = ORedObjective(DATA.bags.instances, problem, weights=weights, **options)
    value, gradient = objective.log_likelihood(W)
    alone = []
    for bag, labels in zip(DATA.bags, DATA.Y, strict=True):
        one = ORedObjective(bag, UnionProblem.build(np.array([0, len(bag)]), labels[None]), **options)
        alone.append((*one.log_likelihood(W), one.statistics[0]))
    assert_allclose(value, sum(w * v for w, (v, _, _) in zip(weights, alone, strict=True)), rtol=1e-12)
    assert_allclose(gradient, sum(w * g for w, (_, g, _) in zip(weights, alone, strict=True)), rtol=1e-10)
    assert_allclose(objective.statistics, weights[:, None] * np.array([s for _, _, s in alone]), rtol=1e-10)
    direction = rng.normal(size=W.shape)
    bend = objective.bend(W, direction)
    bends = [ORedObjective(bag, problem, **options).bend(W, direction)(0.3) for bag in DATA.bags]
    assert_allclose(bend(0.3), weights @ bends, rtol=1e-9)


@pytest.mark.parametrize("background", [False, True])
def test_bags_that_look_at_their_own_labels_alone_are_weighted(background):
    """Where classes are many times the labels of a bag, against the same bag after bag."""
    rng = np.random.default_rng(0)
    n_classes = 130
    offsets = np.arange(11) * 3
    Y = np.zeros((10, n_classes + background), dtype=np.uint8)
    Y[np.arange(10), rng.integers(n_classes, size=10)] = 1
    X, W, weights = rng.normal(size=(30, 2)), rng.normal(size=(n_classes + background, 3)), rng.uniform(0.1, 3.0, 10)
    options = {"l2": 0.0, "method": "auto", "max_exact_labels": 16}

    def objective(first, last, weights=None):
        column = n_classes if background else None
        problem = UnionProblem.build(offsets[first : last + 1] - offsets[first], Y[first:last], column)
        return ORedObjective(X[offsets[first] : offsets[last]], problem, weights=weights, **options)

    whole, alone = objective(0, 10, weights), [objective(b, b + 1) for b in range(10)]
    assert whole._own_pays(len(W))
    value, gradient = whole.log_likelihood(W)
    parts = [one.log_likelihood(W) for one in alone]
    assert_allclose(value, sum(w * v for w, (v, _) in zip(weights, parts, strict=True)), rtol=1e-10)
    assert_allclose(gradient, sum(w * g for w, (_, g) in zip(weights, parts, strict=True)), atol=1e-10)
    if background:
        total, count = whole.background_mass(W)(0.5)
        masses = np.array([one.background_mass(W)(0.5) for one in alone])
        assert_allclose([total, count], weights @ masses, rtol=1e-9)


def test_a_tree_takes_weights_for_repetition():
    """Grown on the posterior of all instances, with the same seed."""
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(3), size=DATA.bags.n_instances)
    X = DATA.bags.instances.astype(np.float32)
    rows = np.repeat(np.arange(len(X)), WEIGHTS.astype(int)[DATA.bags.bag_index])
    weighted = _grow_tree(X, posterior, WEIGHTS[DATA.bags.bag_index], 3, "sqrt", 1)
    repeated = _grow_tree(X[rows], posterior[rows], np.ones(len(rows)), 3, "sqrt", 1)
    new = OTHER.bags.instances.astype(np.float32)
    assert_allclose(weighted.predict_proba(new), repeated.predict_proba(new), atol=1e-9)


def test_rates_of_a_forest_are_learned_from_weighted_bags():
    rng = np.random.default_rng(0)
    parameters = RateParameters.of("learn", "learn", 3)
    proba = rng.dirichlet(np.ones(3), size=DATA.bags.n_instances)
    rows, offsets = DATA.bags.select(REPEATED)
    logits, _, sharpened = learn_rates(
        parameters, UnionProblem.build(DATA.bags.offsets, DATA.Y), proba, parameters.start({}), WEIGHTS
    )
    again, _, copies = learn_rates(
        parameters, UnionProblem.build(offsets, DATA.Y[REPEATED]), proba[rows], parameters.start({})
    )
    assert_allclose(logits, again, atol=1e-3)
    assert_allclose(sharpened[rows], copies, atol=1e-3)


def test_the_logistic_regressions_of_a_stack_take_weights_for_repetition():
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(len(DATA), 3, 2)), DATA.Y.astype(float)
    weighted = _SharedLogistic.fit(features, targets, 0.3, WEIGHTS)
    repeated = _SharedLogistic.fit(features[REPEATED], targets[REPEATED], 0.3, np.ones(len(REPEATED)))
    assert_allclose(weighted.coef, repeated.coef, atol=1e-4)
    assert_allclose(weighted.intercept, repeated.intercept, atol=1e-4)
    logits = rng.normal(size=(len(DATA), 3, 2)) + 2.0 * targets[:, :, None]
    pooled, likelihood = _pool_weights(logits, targets, WEIGHTS)
    again, copies = _pool_weights(logits[REPEATED], targets[REPEATED], np.ones(len(REPEATED)))
    assert_allclose(pooled, again, rtol=1e-4)
    assert_allclose(likelihood, copies, rtol=1e-8)
    network = BagStack([MIMLNN()])
    assert not bag_tags(BagStack([WithoutWeights()])).sample_weight
    assert bag_tags(network).sample_weight
    with pytest.raises(InputError, match="WithoutWeights takes no sample_weight"):
        BagStack([WithoutWeights()], cv=2).fit(DATA, sample_weight=WEIGHTS)


class WithoutWeights(MostFrequentAnnotator):
    """Stands for a learner that takes none, with probabilities."""

    def fit(self, X, y=None):
        return super().fit(X, y)

    def predict_instances_proba(self, X):
        return self.instance_decision_function(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.bag_tags.sample_weight = False
        return tags


class Draws:
    """A generator whose draws are given."""

    def __init__(self, values):
        self.values = values

    def standard_exponential(self, shape):
        assert self.values.shape == shape
        return self.values


def test_variational_em_takes_weights_for_repetition():
    rng = np.random.default_rng(0)
    X = np.hstack([DATA.bags.instances, np.ones((DATA.bags.n_instances, 1))])
    mask = np.repeat(DATA.Y, DATA.bags.sizes, axis=0).astype(float)
    draws = rng.standard_exponential((len(X), 6))
    rows, _ = DATA.bags.select(REPEATED)
    options = {"alpha": 0.05, "sigma2": 1.0, "max_iter": 5, "tol": 0.0}
    used = np.flatnonzero(WEIGHTS[DATA.bags.bag_index])
    weighted, counts = em.variational_em(
        X[used], mask[used], 6, rng=Draws(draws[used]), weights=WEIGHTS[DATA.bags.bag_index][used], **options
    )
    repeated, others = em.variational_em(X[rows], mask[rows], 6, rng=Draws(draws[rows]), **options)
    assert_allclose(weighted.weights, repeated.weights, rtol=1e-6, atol=1e-8)
    assert_allclose(counts, others, rtol=1e-8)
    assert_allclose(weighted.history, repeated.history, rtol=1e-8)


def test_mimlfast_draws_bags_as_often_as_they_weigh():
    draws = np.random.default_rng(0).random(1000)
    assert_array_equal((draw_bags(draws, np.arange(1.0, 8.0)) * 7).astype(int), (draws * 7).astype(int))


def test_calibration_weighs_bags():
    """The few numbers that held-out bags tell, each against repeated bags."""
    rng = np.random.default_rng(0)
    problem = UnionProblem.build(DATA.bags.offsets, DATA.Y)
    rows, offsets = DATA.bags.select(REPEATED)
    scores = rng.normal(size=(DATA.bags.n_instances, 3))
    shares = {0: 0.3}
    weighted = HeldOut(problem, scores, UnionModel(3), shares, WEIGHTS)
    repeated = HeldOut(UnionProblem.build(offsets, DATA.Y[REPEATED]), scores[rows], UnionModel(3), shares)
    point = np.array([0.3, -2.0, 0.0])
    for one, other in zip(
        weighted.negative_log_likelihood(point), repeated.negative_log_likelihood(point), strict=True
    ):
        assert_allclose(one, other, rtol=1e-9)
    one, other = weighted.most_likely(), repeated.most_likely()
    assert_allclose([one.temperature, one.uniform], [other.temperature, other.uniform], rtol=1e-6)
    assert_allclose(one.shifts, other.shifts, atol=1e-6)
    log_odds, Y = rng.normal(size=DATA.Y.shape), DATA.Y
    assert_allclose(fit_log_odds(log_odds, Y, WEIGHTS), fit_log_odds(log_odds[REPEATED], Y[REPEATED]), rtol=1e-4)
    single = np.eye(3)[rng.integers(3, size=len(Y))]
    assert_allclose(fit_power(log_odds, single, WEIGHTS), fit_power(log_odds[REPEATED], single[REPEATED]), rtol=1e-6)
    common = np.column_stack([np.ones(len(Y)), Y[:, 1:]])
    assert undetermined_shares(common, DATA.bags.sizes, WEIGHTS) == pytest.approx(
        undetermined_shares(common[REPEATED], DATA.bags.sizes[REPEATED])
    )


# -- solvers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_best_vertex_solves_its_linear_program(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    signs = np.append(rng.choice([-1.0, 1.0], size=n), [1.0, -1.0])
    gradient, bounds = rng.normal(size=n + 2), rng.uniform(0.1, 2.0, n + 2)
    vertex = _best_vertex(gradient, signs, bounds)
    theirs = linprog(-gradient, A_eq=signs[None], b_eq=[0.0], bounds=np.column_stack([np.zeros(n + 2), bounds]))
    assert_allclose(gradient @ vertex, -theirs.fun, atol=1e-9)
    assert_allclose(vertex @ signs, 0.0, atol=1e-12)
    assert np.all((vertex >= 0) & (vertex <= bounds))


@pytest.mark.parametrize("seed", range(20))
def test_weighted_bias_minimises_the_weighted_hinge_loss(seed):
    rng = np.random.default_rng(seed)
    outputs, signs = rng.normal(size=9), np.append(rng.choice([-1.0, 1.0], size=7), [1.0, -1.0])
    for weights in (rng.integers(1, 4, size=9).astype(float), rng.uniform(0.1, 2.0, 9)):

        def loss(bias, weights=weights):
            return weights @ np.maximum(0.0, 1.0 - signs * (outputs + bias))

        least = min(loss(kink) for kink in signs - outputs)
        assert_allclose(loss(best_bias(outputs, signs, weights)), least, rtol=1e-9)
    copies = np.repeat(np.arange(9), 2)
    assert_allclose(best_bias(outputs, signs, np.full(9, 2.0)), best_bias(outputs[copies], signs[copies], np.ones(18)))


def test_frank_and_wolfe_reach_the_same_maximum():
    """Its first step breaks ties by the order of rows, so that only the end is the same."""
    exact = fit(M3MIML(gamma=0.3, C=0.5), REPEATED).dual_objective_
    found = fit(M3MIML(gamma=0.3, C=0.5, solver="frank-wolfe", tol=1e-2), weights=WEIGHTS).dual_objective_
    assert_allclose(found, exact, rtol=1e-2)
    assert np.abs(fit(M3MIML(gamma=0.3, C=0.5)).dual_objective_ / exact - 1.0).max() > 0.1


# -- other ways in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        ORedLogisticRegression(tol=1e-8),
        ORedLogisticRegression(background=True, background_share=0.2),
        CLPL(),
        SupportInstanceMachine(alpha=1e-2, n_phases=2, n_steps=10),
    ],
    ids=repr,
)
def test_weights_of_a_source_are_those_in_memory(model):
    source = BagSource.from_dataset(DATA, piece_bags=7)
    found = fit_source(clone(model), source, sample_weight=WEIGHTS)
    memory = clone(model).fit(DATA, sample_weight=WEIGHTS)
    assert_allclose(found.coef_, memory.coef_, rtol=1e-4, atol=1e-5)
    assert np.abs(fit_source(clone(model), source).coef_ - found.coef_).max() > 1e-3


def test_a_classifier_that_takes_no_weights_is_refused():
    class Stubborn(LinearSVC):
        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.raises(InputError, match="Stubborn takes no sample_weight"):
        fit(SupervisedAnnotator(Stubborn()), weights=WEIGHTS)


def test_score_takes_weights():
    model = fit(ORedLogisticRegression(l2=100.0))
    right = (model.predict(DATA.bags) == DATA.Y).all(axis=1)
    assert 0 < right.mean() < 1
    assert model.score(DATA.bags, DATA.Y, sample_weight=WEIGHTS) == pytest.approx(WEIGHTS @ right / WEIGHTS.sum())
