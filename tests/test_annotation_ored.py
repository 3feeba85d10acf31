"""ORed logistic regression: gradient, monotone EM, limits that are ordinary logistic regression, and every option."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import NoisyOrLogisticRegression, ORedForest
from bagwise.annotation.objective import ORedObjective, own_places
from bagwise.core.bags import KNOWN_BACKGROUND
from bagwise.core.exceptions import ApproximationWarning, InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import bag_tags
from bagwise.union import UnionProblem, union_posterior
from bagwise.union import _problem as union_problem
from oracles import union_posterior as enumerate_posterior


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=80, n_features=5, n_classes=4, separation=6.0, random_state=0)


def small_problem(seed, background=False, known=False, relaxed=False):
    rng = np.random.default_rng(seed)
    data = make_gaussian_bags(n_bags=12, n_features=3, n_classes=4, separation=1.5, random_state=seed)
    Y = np.hstack([data.Y, np.zeros((12, 1), np.uint8)]) if background else data.Y
    labels = None
    if known:
        labels = np.where(rng.random(data.bags.n_instances) < 0.3, data.instance_labels.instances, -1)
    mask = np.arange(12) % 3 == 0 if relaxed else None
    problem = UnionProblem.build(data.bags.offsets, Y, 4 if background else None, labels, mask)
    return data.bags.instances, problem, rng.normal(size=(Y.shape[1], 4))


def accuracy(data, labels):
    return np.mean(labels == data.instance_labels.instances)


# -- the objective --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_exact", [16, 1], ids=["exact", "propagated"])
@pytest.mark.parametrize(
    "options",
    [{}, {"background": True}, {"known": True}, {"relaxed": True}, {"background": True, "known": True}],
    ids=str,
)
def test_gradient_equals_finite_differences(options, max_exact):
    X, problem, weights = small_problem(0, **options)
    objective = ORedObjective(X, problem, l2=0.7, method="auto", max_exact_labels=max_exact)
    _, gradient = objective.value_and_gradient(weights)
    numeric = np.empty_like(weights)
    for index in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[index] = 1e-5
        ahead, _ = objective.value_and_gradient(weights + step)
        behind, _ = objective.value_and_gradient(weights - step)
        numeric[index] = (ahead - behind) / 2e-5
    assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_em_never_lowers_the_likelihood(seed):
    data = make_gaussian_bags(n_bags=30, n_features=4, n_classes=4, separation=2.0, random_state=seed)
    l2 = [0.0, 1.0][seed % 2]
    background = seed % 3 == 0
    model = ORedLogisticRegression(l2=l2, solver="em", max_iter=40, tol=0.0, background=background)
    history = model.fit(data.bags, data.Y).objective_history_
    assert len(history) == model.n_iter_ + 1 > 5
    assert np.diff(history).min() >= -1e-10 * abs(history[0])
    assert history[-1] > history[0] + 1.0


def test_history_is_the_penalised_log_likelihood(data):
    model = ORedLogisticRegression(l2=0.5).fit(data.bags, data.Y)
    assert model.log_likelihood_history_ is model.objective_history_
    log_likelihood, _ = union_posterior(model.predict_instances_proba(data.bags), data.bags.offsets, data.Y)
    expected = log_likelihood.sum() - 0.25 * (model.coef_**2).sum()
    assert_allclose(model.objective_history_[-1], expected, rtol=1e-9)


def test_lbfgs_climbs_at_least_as_high_as_em(data):
    lbfgs = ORedLogisticRegression(l2=1.0, tol=1e-7).fit(data.bags, data.Y)
    em = ORedLogisticRegression(l2=1.0, solver="em", max_iter=300).fit(data.bags, data.Y)
    assert lbfgs.objective_history_[-1] >= em.objective_history_[-1] - 1e-6
    assert lbfgs.n_iter_ < em.n_iter_


# -- limits that are something else ---------------------------------------------------------------------------


def test_bags_of_one_label_are_ordinary_logistic_regression():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    X = rng.normal(size=(90, 4)) + 1.5 * np.eye(3, 4)[y]
    ours = ORedLogisticRegression(l2=2.0, tol=1e-8).fit(X, y)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=2000).fit(X, y)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))


def test_all_instances_known_is_supervised_logistic_regression(data):
    y = data.instance_labels.instances
    ours = ORedLogisticRegression(l2=1.0, tol=1e-8).fit(data.bags, data.Y, instance_labels=data.instance_labels)
    theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=2000).fit(data.bags.instances, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.predict_instances_proba(data.bags), theirs.predict_proba(data.bags.instances), atol=1e-5)


def test_some_known_instances_help():
    data = make_gaussian_bags(
        n_bags=60,
        n_features=4,
        n_classes=5,
        separation=2.0,
        instances_per_bag=(5, 8),
        labels_per_bag=(3, 5),
        random_state=3,
    )
    rng = np.random.default_rng(0)
    known = Bags(
        np.where(rng.random(data.bags.n_instances) < 0.3, data.instance_labels.instances, -1),
        data.bags.offsets,
    )
    blind = ORedLogisticRegression().fit(data.bags, data.Y)
    helped = ORedLogisticRegression().fit(data.bags, data.Y, instance_labels=known)
    assert accuracy(data, helped.predict_instances(data.bags)) >= accuracy(data, blind.predict_instances(data.bags))


def test_likelihood_with_known_instances_is_that_of_every_assignment_that_agrees(data):
    """What L(W) ends at, by enumeration: ignoring what is known gives another number."""
    few = np.flatnonzero(data.bags.sizes <= 5)
    bags, Y = data.bags[few], data.Y[few]
    known = data.instance_labels[few].instances.copy()
    known[np.arange(len(known)) % 3 != 0] = -1
    model = ORedLogisticRegression(l2=0.5).fit(bags, Y, instance_labels=Bags(known, bags.offsets))
    proba = model.predict_instances_proba(bags)
    penalty = 0.25 * (model.coef_**2).sum()
    expected, _ = enumerate_posterior(proba, bags.offsets, Y, known=known)
    assert_allclose(model.objective_history_[-1], expected.sum() - penalty, rtol=1e-9)
    ignored, _ = enumerate_posterior(proba, bags.offsets, Y)
    assert ignored.sum() - expected.sum() > 0.5
    blind = ORedLogisticRegression(l2=0.5).fit(bags, Y)
    told, _ = enumerate_posterior(blind.predict_instances_proba(bags), bags.offsets, Y, known=known)
    assert expected.sum() - penalty > told.sum() - 0.25 * (blind.coef_**2).sum() + 0.1


def test_known_instances_tell_labels_apart_that_always_come_together():
    """Both labels are in every bag, so bag labels say nothing of which is which; one known instance each does."""
    rng = np.random.default_rng(0)
    truth = np.tile([0, 1, 0, 1], 40)
    bags = Bags(rng.normal(size=(160, 2)) + 4.0 * np.where(truth == 0, -1, 1)[:, None], 4 * np.arange(41))
    Y = np.ones((40, 2), int)
    known = Bags(np.where(np.arange(160) < 4, truth, -1), bags.offsets)
    for labels in (truth, 1 - truth):  # whichever way round
        told = Bags(np.where(known.instances >= 0, labels, -1), bags.offsets)
        model = ORedLogisticRegression().fit(bags, Y, instance_labels=told)
        assert np.mean(model.predict_instances(bags) == labels) > 0.95


def test_learns_instances_from_bag_labels(data):
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    assert accuracy(data, model.annotate(data.bags, data.Y)) > 0.9
    assert accuracy(data, model.predict_instances(data.bags)) > 0.8


# -- prediction -----------------------------------------------------------------------------------------------


def test_probabilities_agree_with_their_definitions(data):
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    proba = model.predict_instances_proba(data.bags)
    assert_allclose(proba.sum(axis=1), 1.0)
    scores = data.bags.instances @ model.coef_.T + model.intercept_
    assert_allclose(model.instance_decision_function(data.bags), scores)
    assert_allclose(proba, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
    assert_allclose(
        model.annotate_proba(data.bags, data.Y),
        union_posterior(proba, data.bags.offsets, data.Y)[1],
        atol=1e-9,
    )
    for b, piece in enumerate(data.bags.split(proba)):
        assert_allclose(model.predict_proba(data.bags)[b], 1 - np.prod(1 - piece, axis=0))
        assert_allclose(model.decision_function(data.bags)[b], piece.max(axis=0))
        assert set(np.flatnonzero(model.predict(data.bags)[b])) == set(piece.argmax(axis=1))


def test_annotation_uses_each_label_of_the_bag_and_no_other(data):
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    labels = model.annotate(data.bags, data.Y)
    assert data.Y[data.bags.bag_index, labels].all()


def test_input_forms_give_the_same_model():
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(20, 3, 4))
    Y = np.zeros((20, 3), int)
    Y[np.arange(20), rng.integers(0, 3, 20)] = 1
    Y[:, 0] |= rng.random(20) < 0.5
    reference = ORedLogisticRegression().fit(cube, Y)
    sets = [set(np.flatnonzero(row).tolist()) for row in Y]
    bags = Bags.from_list(list(cube))
    for X, labels in ((list(cube), Y), (bags, Y), (cube, sets), (bags, sp.csr_matrix(Y)), (bags, Y.tolist())):
        assert_array_equal(ORedLogisticRegression().fit(X, labels).coef_, reference.coef_)
    sparse = Bags(sp.csr_matrix(bags.instances), bags.offsets)
    assert_allclose(ORedLogisticRegression(tol=1e-7).fit(sparse, Y).predict_proba(sparse),
                    ORedLogisticRegression(tol=1e-7).fit(bags, Y).predict_proba(bags), atol=1e-5)  # fmt: skip
    single = Bags(bags.instances.astype(np.float32), bags.offsets)
    assert_allclose(ORedLogisticRegression().fit(single, Y).predict_proba(single),
                    reference.predict_proba(bags), atol=1e-3)  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "c", "d"],
        [("x", 1), None, 3.5, "d"],
        [10, 20, 30, 40],
        [frozenset({1}), frozenset({2}), (1,), 0],
    ],
    ids=["text", "mixed", "numbers", "sets"],
)
def test_class_names_of_any_kind_survive(data, names):
    sets = [{names[c] for c in np.flatnonzero(row)} for row in data.Y]
    model = ORedLogisticRegression().fit(data.bags, sets)
    assert set(model.classes_.tolist()) == set(names)
    labels = model.annotate(data.bags, sets)
    assert all(label in sets[b] for b, label in zip(data.bags.bag_index, labels.tolist(), strict=True))
    truth = [names[c] for c in data.instance_labels.instances]
    assert np.mean([a == b for a, b in zip(labels.tolist(), truth, strict=True)]) > 0.9
    assert set().union(*model.predict_label_sets(data.bags)) <= set(names)
    with pytest.raises(InputError, match="unknown label 'nowhere'"):
        model.annotate(data.bags, [{"nowhere"}, *sets[1:]])


# -- background -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    return make_gaussian_bags(
        n_bags=150, n_features=6, n_classes=4, separation=6.0, background_share=0.6, random_state=1
    )


def test_background_separates_noise(noisy):
    truth = noisy.instance_labels.instances
    labelled = truth >= 0
    plain = ORedLogisticRegression().fit(noisy.bags, noisy.Y)
    model = ORedLogisticRegression(background=True).fit(noisy.bags, noisy.Y)
    ours = np.mean(model.annotate(noisy.bags, noisy.Y)[labelled] == truth[labelled])
    assert ours > 0.93 * np.mean(plain.annotate(noisy.bags, noisy.Y)[labelled] == truth[labelled])
    background = model.background_proba(noisy.bags, noisy.Y)
    assert background[~labelled].mean() > background[labelled].mean() + 0.2
    assert_allclose(model.annotate_proba(noisy.bags, noisy.Y).sum(axis=1), 1 - background, atol=1e-9)
    assert_allclose(model.predict_instances_proba(noisy.bags).sum(axis=1), 1 - model.background_proba(noisy.bags))
    assert len(model.classes_) == 4
    assert model.coef_.shape == (4, 6)


def test_background_share_is_met_and_changes_nothing_else(noisy):
    free = ORedLogisticRegression(background=True).fit(noisy.bags, noisy.Y)
    for share in (0.2, 0.5):
        held = ORedLogisticRegression(background=True, background_share=share).fit(noisy.bags, noisy.Y)
        assert_allclose(held.background_proba(noisy.bags, noisy.Y).mean(), share, atol=1e-3)
        assert_array_equal(held.coef_, free.coef_)


@pytest.mark.parametrize(("names", "expected"), [([0, 1, 2, 3], -1), (["a", "b", "c", "d"], None)])
def test_bags_without_labels_are_background(noisy, names, expected):
    sets = [{names[c] for c in np.flatnonzero(row)} for row in noisy.Y]
    sets[0] = set()
    model = ORedLogisticRegression(background=True).fit(noisy.bags, sets)
    assert model.background_label_ == expected
    labels = model.annotate(noisy.bags, sets)
    first = labels[: noisy.bags.sizes[0]].tolist()
    assert first == [expected] * len(first)
    assert_allclose(model.background_proba(noisy.bags, sets)[: len(first)], 1.0)


def test_parameters_changed_after_the_fit_do_not_change_the_fitted_model(data):
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    before = model.annotate_proba(data.bags, data.Y)
    model.set_params(background=True)
    assert_array_equal(model.annotate_proba(data.bags, data.Y), before)
    with pytest.raises(AttributeError, match="no attribute 'background_proba'") as caught:
        model.background_proba(data.bags)
    assert "no background class; fit it with background=True" in str(caught.value.__cause__)


# -- options --------------------------------------------------------------------------------------------------


def with_infeasible(data):
    Y = data.Y.copy()
    small = int(np.argmin(data.bags.sizes))
    Y[small] = 1
    assert Y[small].sum() > data.bags.sizes[small]
    return Y, small


def test_infeasible_bags_are_dropped_with_a_warning(data):
    Y, small = with_infeasible(data)
    with pytest.warns(
        InfeasibleBagWarning,
        match=f"1 of 80 bags cannot be explained, bag {small}: bag {small} carries 4 labels",
    ):
        dropped = ORedLogisticRegression().fit(data.bags, Y)
    rest = np.arange(len(data)) != small
    assert_allclose(dropped.coef_, ORedLogisticRegression().fit(data.bags[rest], Y[rest]).coef_, atol=1e-10)
    with pytest.warns(InfeasibleBagWarning, match="Their instances are given labels of the set"):
        labels = dropped.annotate(data.bags, Y)
    assert len(labels) == data.bags.n_instances


def test_infeasible_bags_can_be_an_error_or_relaxed(data):
    Y, small = with_infeasible(data)
    with pytest.raises(InputError, match=f"bag {small}.*on_infeasible='drop' or 'relax'"):
        ORedLogisticRegression(on_infeasible="error").fit(data.bags, Y)
    relaxed = ORedLogisticRegression(on_infeasible="relax").fit(data.bags, Y)
    with pytest.warns(InfeasibleBagWarning):
        dropped = ORedLogisticRegression().fit(data.bags, Y)
    assert np.abs(relaxed.coef_ - dropped.coef_).max() > 0  # the bag was used
    assert_allclose(relaxed.coef_, dropped.coef_, atol=0.5)


def test_bag_without_labels_is_infeasible_without_background(data):
    Y = data.Y.copy()
    Y[3] = 0
    with pytest.warns(InfeasibleBagWarning, match=r"bag 3 carries no label \(background=True allows that\)"):
        model = ORedLogisticRegression(background=False).fit(data.bags, Y)
    with pytest.warns(InfeasibleBagWarning, match="1 of 80 bags carry no label, bag 3: .*by their features alone"):
        assert len(model.annotate(data.bags, Y)) == data.bags.n_instances


def test_bags_without_labels_bring_a_background_and_a_warning(data):
    Y = data.Y.copy()
    Y[[3, 9]] = 0
    for model in (ORedLogisticRegression(), ORedForest(10, n_rounds=1, n_round_trees=5, random_state=0)):
        given = clone(model).set_params(background=True).fit(data.bags, Y)
        with pytest.warns(InfeasibleBagWarning, match="2 of 80 bags carry no label, bags 3, 9: a background class was"):
            model.fit(data.bags, Y)
        assert bag_tags(model).background
        assert model.background_
        assert model.background == "auto"
        assert_array_equal(model.log_proba(data.bags), given.log_proba(data.bags))
        assert (model.annotate(data.bags, Y)[np.isin(data.bags.bag_index, [3, 9])] == model.background_label_).all()


def test_no_background_where_every_bag_has_labels_or_labels_may_be_missed(data):
    plain = ORedLogisticRegression(background=False).fit(data.bags, data.Y)
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    assert_array_equal(model.coef_, plain.coef_)  # the same bits
    Y = data.Y.copy()
    Y[3] = 0
    weights = np.ones(80)
    weights[3] = 0.0
    models = (
        model.fit(data.bags, Y, sample_weight=weights),
        ORedLogisticRegression(missed=0.1).fit(data.bags, Y),
    )
    for fitted in models:
        assert not fitted.background_
        assert not bag_tags(fitted).background


def test_an_instance_known_to_be_background_brings_one(data):
    known = np.full(data.bags.n_instances, -1)
    known[0] = KNOWN_BACKGROUND
    model = ORedLogisticRegression().fit(data.bags, data.Y, instance_labels=Bags(known, data.bags.offsets))
    assert model.background_


def test_what_background_may_be(data):
    with pytest.raises(InputError, match="'background' parameter of ORedLogisticRegression must be True, False or"):
        ORedLogisticRegression(background="sometimes").fit(data.bags, data.Y)


def test_bag_with_every_class_is_ordinary(data):
    Y = data.Y.copy()
    large = int(np.argmax(data.bags.sizes))
    Y[large] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ORedLogisticRegression().fit(data.bags, Y)
    labels = model.annotate(data.bags[[large]], Y[[large]])
    assert set(labels) <= {0, 1, 2, 3}
    assert np.isfinite(model.annotate_proba(data.bags[[large]], Y[[large]])).all()


def test_all_bags_infeasible(data):
    singles = data.bags.instances[:5]
    with pytest.raises(InputError, match="No bag is left to learn from.*bag 0 carries 3 labels but has 1"):
        ORedLogisticRegression().fit(singles, np.ones((5, 3), int))


def test_many_labels_are_approximated_with_a_warning():
    data = make_gaussian_bags(n_bags=40, n_classes=8, instances_per_bag=(8, 14), labels_per_bag=(3, 7), random_state=0)
    with pytest.warns(ApproximationWarning, match="more than max_exact_labels=4 labels"):
        rough = ORedLogisticRegression(max_exact_labels=4).fit(data.bags, data.Y)
    exact = ORedLogisticRegression().fit(data.bags, data.Y)
    assert np.diff(rough.objective_history_).min() >= -1e-9
    assert accuracy(data, rough.predict_instances(data.bags)) > accuracy(data, exact.predict_instances(data.bags)) - 0.1


def test_prune_leaves_out_the_costliest_bags(data):
    cost = data.bags.sizes * data.Y.sum(1) * 2.0 ** data.Y.sum(1)
    keep = np.sort(np.argsort(-cost, kind="stable")[16:])
    pruned = ORedLogisticRegression(prune=0.2).fit(data.bags, data.Y)
    assert_allclose(pruned.coef_, ORedLogisticRegression().fit(data.bags[keep], data.Y[keep]).coef_, atol=1e-10)


def test_stochastic_em_learns_and_repeats_with_its_seed(data):
    model = ORedLogisticRegression(l2=0.1, solver="em", batch_fraction=0.3, random_state=0)
    first = clone(model).fit(data.bags, data.Y)
    assert_array_equal(first.coef_, clone(model).fit(data.bags, data.Y).coef_)
    other = clone(model).set_params(random_state=1).fit(data.bags, data.Y)
    assert np.abs(first.coef_ - other.coef_).max() > 0
    assert accuracy(data, first.annotate(data.bags, data.Y)) > 0.85


def test_warm_start_goes_on(data):
    model = ORedLogisticRegression(solver="em", max_iter=10, tol=0.0, warm_start=True).fit(data.bags, data.Y)
    first = model.objective_history_
    second = model.fit(data.bags, data.Y).objective_history_
    assert_allclose(second[0], first[-1], rtol=1e-12)
    assert second[-1] > first[-1]


def penalised(model, weights, data, Y):
    """L at weights (c, d + 1) by its definition."""
    scores = data.bags.instances @ weights[:, :-1].T + weights[:, -1]
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    background = None
    if len(weights) > Y.shape[1]:
        background, Y = Y.shape[1], np.column_stack([Y, np.zeros(len(Y), int)])
    log_likelihood, _ = union_posterior(proba, data.bags.offsets, Y, background=background)
    return log_likelihood.sum() - 0.5 * model.l2 * (weights[:, :-1] ** 2).sum()


@pytest.mark.parametrize("background", [(False, False), (True, True), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize(
    ("first", "then"),
    [("abcd", "abcd"), ("bcd", "abcd"), ("abcd", "acd"), ("abcd", "dbca"), ("abcd", "wxyz"), ("zcba", "bcdz")],
    ids=lambda names: "".join(names),
)
def test_warm_start_is_by_class(data, first, then, background):
    """Columns are named anew, so that the sorted classes come, go and change places."""

    def sets(names):
        return [{names[c] for c in np.flatnonzero(row) if c < len(names)} or {names[0]} for row in data.Y]

    model = ORedLogisticRegression(warm_start=True, background=background[0], max_iter=5, on_infeasible="relax")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.bags, sets(first))
        old = {name: np.append(model.coef_[c], model.intercept_[c]) for c, name in enumerate(model.classes_.tolist())}
        last = np.append(model.background_coef_, model.background_intercept_) if background[0] else np.zeros(6)
        model.set_params(background=background[1]).fit(data.bags, sets(then))
    start = np.array([old.get(name, np.zeros(6)) for name in model.classes_.tolist()])
    if background[1]:
        start = np.vstack([start, last])
    Y = np.array([[name in row for name in model.classes_] for row in sets(then)]).astype(int)
    assert_allclose(model.objective_history_[0], penalised(model, start, data, Y), rtol=1e-9)
    if first == then and background == (False, False):
        assert np.abs(start).max() > 0.1


@pytest.mark.parametrize("share", [None, 0.02, 0.1, 0.6])
def test_warm_start_begins_before_the_background_was_moved(noisy, share):
    model = ORedLogisticRegression(background=True, background_share=share, warm_start=True).fit(noisy.bags, noisy.Y)
    first, moved = model.objective_history_, (model.background_intercept_, model.background_shift_)
    assert (moved[1] == 0.0) == (share is None)
    model.fit(noisy.bags, noisy.Y)
    assert model.n_iter_ == 1
    assert_allclose(model.objective_history_[0], first[-1], rtol=1e-12)
    assert_allclose((model.background_intercept_, model.background_shift_), moved, rtol=1e-2, atol=1e-2)
    model.set_params(background=False).fit(noisy.bags, noisy.Y)
    assert not hasattr(model, "background_shift_")


def test_known_instances_do_not_count_for_the_share(noisy):
    """Else the others would have to make up for them, and with all known the intercept would run away."""
    truth = noisy.instance_labels.instances
    rng = np.random.default_rng(0)
    codes = np.where((rng.random(len(truth)) < 0.4) & (truth >= 0), truth, -1)
    model = ORedLogisticRegression(background=True, background_share=0.3)
    model.fit(noisy.bags, noisy.Y, instance_labels=Bags(codes, noisy.bags.offsets))
    posterior = model.find(noisy.bags, noisy.Y, Bags(codes, noisy.bags.offsets)).background
    assert_allclose(posterior[codes < 0].mean(), 0.3, atol=1e-3)
    labelled = Bags(noisy.bags.instances, noisy.bags.offsets)
    everything = Bags(np.where(truth >= 0, truth, 0), noisy.bags.offsets)
    Y = noisy.Y.copy()
    Y[np.unique(noisy.bags.bag_index[truth < 0]), 0] = 1
    assert model.fit(labelled, Y, instance_labels=everything).background_shift_ == 0.0


def test_warm_start_with_other_features_is_a_cold_one(data):
    model = ORedLogisticRegression(warm_start=True).fit(data.bags, data.Y)
    fewer = Bags(data.bags.instances[:, :3], data.bags.offsets)
    cold = ORedLogisticRegression().fit(fewer, data.Y)
    assert_array_equal(model.fit(fewer, data.Y).coef_, cold.coef_)


def test_tolerance_of_em_is_the_share_by_which_the_objective_changes(data):
    model = ORedLogisticRegression(solver="em", max_iter=500, tol=1e-3).fit(data.bags, data.Y)
    change = np.abs(np.diff(model.objective_history_) / model.objective_history_[1:])
    assert model.converged_
    assert change[-1] <= 1e-3 < change[:-1].min()
    default = ORedLogisticRegression(solver="em", max_iter=20).fit(data.bags, data.Y)
    assert not default.converged_


def test_number_of_threads_changes_nothing(data, monkeypatch):
    monkeypatch.setattr(union_problem, "THREADING_FROM", 1)
    asked = []
    infer = UnionProblem.infer_in_place

    def spy(self, *args, n_threads, **options):
        asked.append(n_threads)
        return infer(self, *args, n_threads=n_threads, **options)

    monkeypatch.setattr(UnionProblem, "infer_in_place", spy)
    models = [ORedLogisticRegression(n_jobs=n).fit(data.bags, data.Y) for n in (1, 3)]
    assert set(asked) == {1, 3}
    assert_array_equal(models[0].coef_, models[1].coef_)


def test_callback_sees_every_iteration(data):
    for solver in ("lbfgs", "em"):
        seen = []
        model = ORedLogisticRegression(solver=solver)
        model.fit(data.bags, data.Y, callback=lambda i, value, seen=seen: seen.append((i, value)))
        assert [i for i, _ in seen] == list(range(1, model.n_iter_ + 1))
        assert_allclose([value for _, value in seen], model.objective_history_[1:])


def test_too_few_iterations_warn(data):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        ORedLogisticRegression(max_iter=2).fit(data.bags, data.Y)


@pytest.mark.parametrize("inference", ["forward-backward", "forward", "forward-substitution", "inclusion-exclusion"])
def test_inference_methods_fit_the_same_model(data, inference):
    reference = ORedLogisticRegression().fit(data.bags, data.Y)
    assert_allclose(
        ORedLogisticRegression(inference=inference).fit(data.bags, data.Y).coef_, reference.coef_, atol=1e-3
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "newton"}, "solver='newton' is not known; use one of 'lbfgs', 'em'"),
        ({"inference": "x"}, "inference='x' is not known"),
        ({"on_infeasible": "x"}, "on_infeasible='x' is not known"),
        ({"l2": -1.0}, "'l2' parameter of ORedLogisticRegression must be zero or more. Got -1.0"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"prune": 1.0}, "'prune' parameter"),
        ({"batch_fraction": 0.0}, "'batch_fraction' parameter"),
        ({"batch_fraction": 0.5}, "use solver='em'"),
        ({"max_exact_labels": 0}, "'max_exact_labels' parameter"),
        ({"background_share": 1.5}, "'background_share' parameter"),
    ],
    ids=str,
)
def test_bad_parameters(data, parameters, message):
    with pytest.raises(InputError, match=message):
        ORedLogisticRegression(**parameters).fit(data.bags, data.Y)


def test_bad_instance_labels(data):
    model = ORedLogisticRegression()
    outside = data.instance_labels.instances.copy()
    outside[0] = np.flatnonzero(data.Y[0] == 0)[0]
    with pytest.raises(InputError, match="Instance 0 of bag 0 is known to be of class"):
        model.fit(data.bags, data.Y, instance_labels=Bags(outside, data.bags.offsets))
    with pytest.raises(InputError, match="arranged otherwise than X"):
        model.fit(data.bags, data.Y, instance_labels=data.instance_labels[:5])
    outside[:2] = [9, -1]
    with pytest.raises(InputError, match="range from -1 to 9; expected 0 to 3"):
        model.fit(data.bags, data.Y, instance_labels=Bags(outside, data.bags.offsets))


def test_unexplainable_known_labels_are_infeasible():
    # both instances known to be 0, but the bag also lists 1
    bags, Y = (
        Bags(np.random.default_rng(0).normal(size=(6, 2)), [0, 2, 4, 6]),
        np.array([[1, 1], [1, 0], [0, 1]]),
    )
    known = Bags(np.array([0, 0, -1, -1, -1, -1]), bags.offsets)
    with pytest.warns(InfeasibleBagWarning, match="1 of 3 bags"):
        ORedLogisticRegression().fit(bags, Y, instance_labels=known)


# -- features of their own --------------------------------------------------------------------------------------------


def with_own_features(seed, n_noise=40):
    """Ten bags of instances with a noisy score for each class but the last, among features that mean nothing."""
    rng = np.random.default_rng(seed)
    data = make_gaussian_bags(n_bags=10, n_features=5, n_classes=4, random_state=seed)
    truth = data.instance_labels.instances
    scores = 2.0 * (truth[:, None] == np.arange(3)) + rng.normal(size=(len(truth), 3))
    X = np.hstack([rng.normal(size=(len(truth), n_noise)), scores])
    return Bags(X, data.bags.offsets), data.Y, truth, [n_noise, n_noise + 1, n_noise + 2, -1]


@pytest.mark.parametrize("background", [False, True])
def test_shared_weight_is_that_of_the_scores_alone(background):
    """Against a general solver on the likelihood of `union_posterior`, in the shared weight and the intercepts."""
    bags, Y, _, own = with_own_features(0)
    n = 4 + background
    model = ORedLogisticRegression(own_features=own, background=background, l2=0.5)

    def place(flat):
        scores = np.zeros((bags.n_instances, n))
        scores[:, :3] = flat[0] * bags.instances[:, own[:3]]
        return scores + flat[1:]

    def objective(flat):
        log_proba = place(flat) - logsumexp(place(flat), axis=1, keepdims=True)
        listed = np.hstack([Y, np.zeros((10, n - 4), int)])
        logs, _ = union_posterior(np.exp(log_proba), bags.offsets, listed, background=4 if background else None)
        return -logs.sum() + 0.25 * flat[0] ** 2

    best = minimize(objective, np.zeros(n + 1), tol=1e-10).x
    model.fit(bags, Y)
    problem = UnionProblem.build(
        bags.offsets, np.hstack([Y, np.zeros((10, n - 4), np.uint8)]), 4 if background else None
    )
    likelihood = ORedObjective(bags.instances, problem, l2=0.5, method="auto", max_exact_labels=16)
    start = likelihood.tie(np.zeros((n, bags.n_features + 1)), own_places(own, 4, bags.n_features))
    assert_allclose(likelihood.center[:3, own[:3]], best[0] * np.eye(3), rtol=1e-3)
    assert np.count_nonzero(likelihood.center) == 3
    assert_array_equal(start[:, :-1], likelihood.center)
    value = -likelihood.value_and_gradient(start)[0]  # at the center nothing is penalised
    assert_allclose(value + 0.25 * best[0] ** 2, objective(best), rtol=1e-4)
    weights = np.random.default_rng(0).normal(size=start.shape)
    (value, gradient), step = likelihood.value_and_gradient(weights), 1e-6
    for index in [(0, own[0]), (1, own[0]), (0, 0), (n - 1, -1)]:
        moved = weights.copy()
        moved[index] += step
        assert_allclose((likelihood.value_and_gradient(moved)[0] - value) / step, gradient[index], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("learner", [ORedLogisticRegression, NoisyOrLogisticRegression])
def test_own_features_are_found_in_ten_bags(learner):
    """Of few bags, classes with a score of their own among many features are found better when that is said."""
    better = []
    for seed in range(8):
        bags, Y, truth, own = with_own_features(seed)
        plain, tied = (learner(own_features=given).fit(bags, Y) for given in (None, own))
        better.append(np.mean(tied.annotate(bags, Y) == truth) - np.mean(plain.annotate(bags, Y) == truth))
    assert np.mean(better) > 0.05
    assert min(better) > -0.1


@pytest.mark.parametrize(
    ("own", "match"),
    [([0, 1], "expected 4 whole numbers"), ([0, 1, 2, 43], "expected 4 whole"), ([0.5, 1, 2, 3], "expected 4 whole")],
)
def test_own_features_that_are_none_are_refused(own, match):
    bags, Y, *_ = with_own_features(0)
    with pytest.raises(InputError, match=match):
        ORedLogisticRegression(own_features=own).fit(bags, Y)
    with pytest.raises(InputError, match="solver='em' knows no own_features"):
        ORedLogisticRegression(own_features=[0, 1, 2, 3], solver="em").fit(bags, Y)
