"""Noisy-or logistic regression against enumeration of all label sets of all instances."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from scipy.special import expit
from sklearn.metrics import average_precision_score

from bagwise import Absent, BagDataset, Bags, OneOf, Possible
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.annotation.noisy_or import NoisyOrObjective
from bagwise.annotation.rates import RateParameters
from bagwise.catalog import make_model
from bagwise.core.exceptions import InputError
from bagwise.core.validation import Evidence, as_evidence
from bagwise.datasets import make_gaussian_bags
from bagwise.model_selection import choose_model
from bagwise.union import LabelNoise


def enumerated(proba, listed, missed, spurious, known):
    """Of one bag and one label: P(given), posterior of each instance, P(the label is there | given)."""
    n = len(proba)
    total, carried, there = 0.0, np.zeros(n), 0.0
    for states in product((0, 1), repeat=n):
        if any(k >= 0 and k != state for k, state in zip(known, states, strict=True)):
            continue
        weight = np.prod([p if state else 1.0 - p for p, state in zip(proba, states, strict=True)])
        nobody = missed ** sum(states)  # every carrier went unnoticed
        says = nobody * spurious + (1.0 - nobody) if listed else nobody * (1.0 - spurious)
        total += weight * says
        carried += weight * says * np.array(states)
        there += weight * says * any(states)
    return total, carried / total if total else np.full(n, np.nan), there / total if total else np.nan


def problem(seed, n_bags=6, n_classes=3, largest=4, rates=True, some_known=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags = Bags(rng.normal(size=(offsets[-1], 2)), offsets)
    Y = rng.integers(0, 2, (n_bags, n_classes)).astype(np.uint8)
    noise = LabelNoise(rng.uniform(0, 0.6, n_classes), rng.uniform(0, 0.4, n_classes)) if rates else None
    known = None
    if some_known:
        known = rng.choice([-1, -1, -1, 0, 1], (offsets[-1], n_classes)).astype(np.int8)
        if not rates:  # nothing excuses what contradicts the list
            listed = np.repeat(Y, sizes, axis=0)
            known[(listed == 0) & (known == 1)] = -1
            first = offsets[:-1]
            known[first] = np.where((Y == 1) & (known[first] == 0), -1, known[first])
    return rng, bags, Y, noise, known


@pytest.mark.parametrize("some_known", [False, True])
@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_likelihood_and_posteriors_are_those_of_enumeration(seed, rates, some_known):
    rng, bags, Y, noise, known = problem(seed, rates=rates, some_known=some_known)
    weights = rng.normal(scale=2.0, size=(Y.shape[1], 3))
    posterior, logs = NoisyOrObjective(bags, Y, known, l2=0.0, rates=noise).posterior(weights)
    proba = expit(bags.instances @ weights[:, :-1].T + weights[:, -1])
    model = NoisyOrLogisticRegression()
    model.coef_, model.intercept_, model.classes_ = weights[:, :-1], weights[:, -1], np.arange(Y.shape[1])
    model.n_features_in_, model.missed_, model.spurious_ = 2, 0.0, 0.0
    if noise is not None:
        model.missed_, model.spurious_ = noise.missed, noise.spurious
    state = None if known is None else Bags(np.where(known < 0, np.nan, known), bags.offsets)
    presence = model.label_posterior(bags, Y, state)
    for b, c in np.ndindex(Y.shape):
        rows = slice(bags.offsets[b], bags.offsets[b + 1])
        mu, nu = (0.0, 0.0) if noise is None else (noise.missed[c], noise.spurious[c])
        facts = np.full(bags.sizes[b], -1) if known is None else known[rows, c]
        likelihood, carried, there = enumerated(proba[rows, c], Y[b, c], mu, nu, facts)
        assert_allclose(logs[b, c], np.log(likelihood), rtol=1e-10, atol=1e-12)
        assert_allclose(posterior[rows, c], carried, rtol=1e-9, atol=1e-12)
        assert_allclose(presence[b, c], there, rtol=1e-9, atol=1e-12)


def says(value, there, noticed, nu):
    """Probability of what was said about a label, given whether it is there and whether somebody noticed it."""
    if value in (0.0, 1.0):
        listed = 1.0 if noticed else nu
        return listed if value else 1.0 - listed
    if np.isnan(value):
        return 1.0
    sure = min(max(value, 0.0), 1.0)
    return sure if there else 1.0 - sure


def enumerated_bag(proba, values, groups, missed, spurious):
    """Of one bag: P(given), posteriors of instances and of labels, by all states of all instances, noticed or not."""
    n, c = proba.shape
    total, carried, present = 0.0, np.zeros((n, c)), np.zeros(c)
    for states in product((0, 1), repeat=n * c):
        z = np.array(states).reshape(n, c)
        there = z.any(axis=0)
        if not all(there[list(group)].any() for group in groups):
            continue
        weight = np.prod(np.where(z, proba, 1.0 - proba))
        for j in range(c):
            nobody = missed[j] ** z[:, j].sum()
            weight *= nobody * says(values[j], there[j], False, spurious[j]) + (1.0 - nobody) * says(
                values[j], there[j], True, spurious[j]
            )
        total += weight
        carried += weight * z
        present += weight * there
    return total, carried / total, present / total


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_evidence_is_that_of_enumeration(seed, rates):
    """Confidences, what is not known, facts, and groups that overlap each other and what is said of their labels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 5)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags, n_classes = Bags(rng.normal(size=(offsets[-1], 2)), offsets), 4
    values = rng.choice([0.0, 1.0, np.nan, 0.2, 0.8, np.inf, -np.inf], (5, n_classes))
    groups = [[tuple(rng.choice(n_classes, 2, replace=False)) for _ in range(rng.integers(0, 4))] for _ in range(5)]
    for b, of_bag in enumerate(groups):
        for group in of_bag:
            if (values[b, list(group)] == -np.inf).all():
                values[b, group[0]] = np.nan
    given_ = as_evidence(values, groups)
    noise = LabelNoise(rng.uniform(0, 0.6, n_classes), rng.uniform(0, 0.4, n_classes)) if rates else None
    weights = rng.normal(scale=1.5, size=(n_classes, 3))
    objective = NoisyOrObjective(bags, given_, None, l2=0.0, rates=noise)
    posterior, logs = objective.posterior(weights)
    presence = objective.presence(weights)
    proba = expit(bags.instances @ weights[:, :-1].T + weights[:, -1])
    simple = given_.values if isinstance(given_, Evidence) else given_.astype(float)
    zeros = np.zeros(n_classes)
    for b in range(5):
        rows = slice(offsets[b], offsets[b + 1])
        rates_ = (zeros, zeros) if noise is None else (noise.missed, noise.spurious)
        total, carried, present = enumerated_bag(proba[rows], simple[b], groups[b], *rates_)
        assert_allclose(logs[b].sum(), np.log(total), rtol=1e-10, atol=1e-10)
        assert_allclose(posterior[rows], carried, rtol=1e-9, atol=1e-11)
        assert_allclose(presence[b], present, rtol=1e-9, atol=1e-11)
    error = check_grad(
        lambda flat: objective.value_and_gradient(flat.reshape(weights.shape))[0],
        lambda flat: objective.value_and_gradient(flat.reshape(weights.shape))[1].ravel(),
        weights.ravel(),
    )
    assert error < 1e-5


def test_label_sets_with_markers_are_taken():
    bags, Y, truth = made_windows(0.5, n_bags=120)
    sets = []
    for row in Y:
        names = [int(c) for c in np.flatnonzero(row)]
        sets.append({*names[1:], *([OneOf(names[0], (names[0] + 5) % 12)] if names else []), Possible(11)} - {11})
    sets = [{each for each in row if each != 11} for row in sets]
    model = NoisyOrLogisticRegression().fit(bags, sets)
    new, _, new_truth = made_windows(0.5, seed=1)
    columns = [int(c) for c in model.classes_]
    assert average_precision_score(new_truth[:, columns], model.predict_instances_proba(new), average="micro") > 0.8
    found = model.annotate_proba(bags, [{Absent(columns[0])} for _ in range(len(bags))])
    assert not found[:, 0].any()
    with pytest.raises(InputError, match="is said not to hold"):
        model.find(bags, [{Absent(columns[0])}] * len(bags), instance_labels=Bags(np.zeros(len(truth)), bags.offsets))


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_that_of_finite_differences(seed, rates):
    rng, bags, Y, noise, known = problem(seed, rates=rates)
    objective = NoisyOrObjective(bags, Y, known, l2=0.3, rates=noise, weights=rng.uniform(0.5, 2.0, len(bags)))
    shape = (Y.shape[1], 3)
    error = check_grad(
        lambda flat: objective.value_and_gradient(flat.reshape(shape))[0],
        lambda flat: objective.value_and_gradient(flat.reshape(shape))[1].ravel(),
        rng.normal(size=shape).ravel(),
    )
    assert error < 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_gradient_in_the_rates_is_that_of_finite_differences(seed):
    rng, bags, Y, _, known = problem(seed)
    parameters = RateParameters.of("learn", "learn", Y.shape[1])
    objective = NoisyOrObjective(bags, Y, known, l2=0.3, rates=None).learning_rates(parameters, (Y.shape[1], 3))
    start = np.concatenate([rng.normal(size=Y.shape[1] * 3), rng.normal(-1.0, 0.5, 2)])
    assert check_grad(lambda flat: objective(flat)[0], lambda flat: objective(flat)[1], start) < 1e-6


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1.0, 30.0, 700.0, 3000.0]))
@settings(max_examples=60)
def test_extreme_scores_stay_probabilities(seed, scale):
    """Where probabilities underflow, a listed label is still shared among the instances by their ratios."""
    rng, bags, Y, _, _ = problem(seed % 2**32, some_known=False, rates=False)
    weights = rng.normal(scale=scale, size=(Y.shape[1], 3))
    posterior, logs = NoisyOrObjective(bags, Y, None, l2=0.0, rates=None).posterior(weights)
    assert np.isfinite(logs).all()
    assert (posterior >= 0).all()
    assert (posterior <= 1).all()
    listed = np.repeat(Y, bags.sizes, axis=0) == 1
    assert (posterior[~listed] == 0).all()
    carriers = np.add.reduceat(posterior, bags.offsets[:-1], axis=0)
    assert (carriers[Y == 1] >= 1 - 1e-9).all()


def test_far_from_everything_the_ratios_of_probabilities_count():
    bags = Bags(np.array([[-800.0], [-801.0]]), [0, 2])
    objective = NoisyOrObjective(bags, np.ones((1, 1), np.uint8), None, l2=0.0, rates=None)
    posterior, logs = objective.posterior(np.array([[1.0, 0.0]]))
    assert_allclose(logs, [[-800.0 + np.log1p(np.exp(-1.0))]], rtol=1e-12)
    assert_allclose(posterior[:, 0], expit([1.0, -1.0]), rtol=1e-9)


def made_windows(rate, n_bags=250, size=8, n_classes=12, seed=0, noise=0.7):
    """Windows in which a Poisson number of sounds, 4 at most, add up."""
    centers = np.random.default_rng(12).normal(size=(n_classes, 20))
    rng = np.random.default_rng(seed)
    numbers = np.minimum(rng.poisson(rate, n_bags * size), 4)
    truth = np.zeros((n_bags * size, n_classes), dtype=int)
    for row, number in zip(truth, numbers, strict=True):
        row[rng.choice(n_classes, number, replace=False)] = 1
    bags = Bags(truth @ centers + noise * rng.normal(size=(len(truth), 20)), np.arange(0, len(truth) + 1, size))
    return bags, np.maximum.reduceat(truth, bags.offsets[:-1], axis=0), truth


@pytest.mark.parametrize("rate", [0.5, 1.5, 2.5])
def test_windows_of_several_sounds_are_told_apart(rate):
    bags, Y, labels = made_windows(rate)
    new, new_Y, truth = made_windows(rate, seed=1)
    model = NoisyOrLogisticRegression().fit(bags, Y)
    found = average_precision_score(truth, model.predict_instances_proba(new), average="micro")
    given_all = NoisyOrLogisticRegression().fit(bags.instances, labels)
    assert found > average_precision_score(truth, given_all.predict_instances_proba(new), average="micro") - 0.04
    one_each = ORedLogisticRegression(background=True, on_infeasible="relax").fit(bags, Y)
    assert found > average_precision_score(truth, one_each.predict_instances_proba(new), average="micro") + 0.1
    given_sets = model.annotate_proba(new, new_Y)
    assert average_precision_score(truth, given_sets, average="micro") > found
    assert not given_sets[np.repeat(new_Y, new.sizes, axis=0) == 0].any()
    sets = model.annotate_sets(new, new_Y)
    assert_array_equal(sets, (given_sets > 0.5).astype(int))
    names = model.annotate(new, new_Y)
    assert (new_Y[new.bag_index, names] == 1)[new_Y[new.bag_index].any(axis=1)].all()


def test_the_objective_rises_and_stops_at_a_stationary_point():
    bags, Y, _ = made_windows(1.0, n_bags=60)
    model = NoisyOrLogisticRegression(l2=0.1, tol=1e-6).fit(bags, Y)
    assert np.diff(model.objective_history_).min() >= -1e-9 * abs(model.objective_history_[0])
    objective = NoisyOrObjective(bags, Y, None, l2=0.1, rates=None)
    value, gradient = objective.value_and_gradient(np.hstack([model.coef_, model.intercept_[:, None]]))
    assert_allclose(value, model.objective_history_[-1], rtol=1e-12)
    assert np.abs(gradient).max() / bags.n_instances < 1e-6


def test_with_every_instance_known_it_is_a_logistic_regression_per_label():
    from sklearn.linear_model import LogisticRegression

    bags, Y, truth = made_windows(1.0, n_bags=80)
    model = NoisyOrLogisticRegression(tol=1e-8).fit(bags, Y, instance_labels=Bags(truth.astype(float), bags.offsets))
    for c in range(3):
        told = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(bags.instances, truth[:, c])
        assert_allclose(model.coef_[c], told.coef_[0], rtol=1e-3, atol=1e-4)
    exact = model.find(bags, Y, instance_labels=Bags(truth.astype(float), bags.offsets))
    assert_array_equal(exact.proba, truth)
    assert_array_equal(exact.labels[~truth.any(axis=1)], -1)


def test_bags_of_one_instance_are_a_logistic_regression_per_label():
    from sklearn.linear_model import LogisticRegression

    bags, _, truth = made_windows(1.0, n_bags=100)
    model = NoisyOrLogisticRegression(tol=1e-8).fit(bags.instances, truth)
    told = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(bags.instances, truth[:, 0])
    assert_allclose(model.coef_[0], told.coef_[0], rtol=1e-3, atol=1e-4)


def test_rates_are_learned():
    bags, Y, truth = made_windows(1.0, n_bags=600)
    rng = np.random.default_rng(0)
    noticed = truth * (rng.random(truth.shape) < 0.7)
    listed = np.maximum.reduceat(noticed, bags.offsets[:-1], axis=0)
    model = NoisyOrLogisticRegression(missed="learn").fit(bags, listed)
    assert abs(model.missed_ - 0.3) < 0.05
    plain = NoisyOrLogisticRegression().fit(bags, listed)
    new, _, new_truth = made_windows(1.0, seed=5)
    error = [np.abs(m.predict_instances_proba(new) - new_truth).mean() for m in (model, plain)]
    assert error[0] < error[1]
    presence = model.label_posterior(bags, listed)
    assert average_precision_score(Y[listed == 0], presence[listed == 0]) > 0.6


def test_an_index_says_a_label_that_an_instance_carries_whatever_else_it_does():
    bags, Y, truth = made_windows(1.5, n_bags=20)
    index = np.full(len(truth), -1)
    index[0], index[1] = np.flatnonzero(Y[0])[0], -2
    model = NoisyOrLogisticRegression().fit(bags, Y)
    found = model.find(bags, Y, instance_labels=Bags(index, bags.offsets))
    assert found.proba[0, index[0]] == 1.0
    assert found.proba[0].sum() - 1.0 > 0.0  # it may carry others
    assert not found.proba[1].any()
    assert found.labels[1] == -1
    assert found.background[1] == 1.0


def test_single_labels_are_probabilities_of_one_class():
    data = make_gaussian_bags(n_bags=60, n_classes=3, random_state=0)
    values = np.array(["a", "b", "c"])[data.Y.argmax(axis=1)]
    model = NoisyOrLogisticRegression().fit(data.bags, values)
    assert_allclose(model.predict_proba(data.bags).sum(axis=1), 1.0)
    assert set(model.predict(data.bags)) <= {"a", "b", "c"}


def test_sparse_instances_are_the_same():
    import scipy.sparse as sp

    bags, Y, _ = made_windows(1.0, n_bags=40)
    dense = NoisyOrLogisticRegression().fit(bags, Y)
    sparse = NoisyOrLogisticRegression().fit(Bags(sp.csr_matrix(bags.instances), bags.offsets), Y)
    assert_allclose(sparse.coef_, dense.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("instance_labels", "message"),
    [
        (np.full((8, 12), 0.5), "hold 0.5 for instance 0, class 0"),
        (np.ones((8, 3)), "expected 8 rows of 12"),
        (np.where(np.arange(12) == 5, 1.0, np.full((8, 12), np.nan)), "does not list"),
        (np.where(np.arange(12) == 2, 0.0, np.full((8, 12), np.nan)), "all of its instances are known not to carry"),
    ],
)
def test_what_is_known_must_fit(instance_labels, message):
    bags, _, _ = made_windows(1.0, n_bags=1)
    Y = np.zeros((1, 12), int)
    Y[0, [0, 2]] = 1
    with pytest.raises(InputError, match=message):
        NoisyOrLogisticRegression().fit(bags, Y, instance_labels=Bags(instance_labels, bags.offsets))


@pytest.mark.filterwarnings("ignore::bagwise.core.exceptions.InfeasibleBagWarning")
@pytest.mark.parametrize("first", ["noisy-or", "ored-background"])
def test_held_out_bags_say_how_many_labels_an_instance_carries(first):
    candidates = {name: make_model(name) for name in sorted(("noisy-or", "ored-background"), key=lambda n: n != first)}
    bags, Y, _ = made_windows(1.5, n_bags=60)
    windows = BagDataset(bags, Y)
    assert choose_model(candidates, windows, cv=3).name == "noisy-or"
    many = {"instances_per_bag": (4, 6), "labels_per_bag": (3, 5)}
    calls = make_gaussian_bags(n_bags=150, n_classes=8, separation=2.0, random_state=0, **many)
    found = choose_model(candidates, calls)
    assert found.name == "ored-background"
    assert all(row["log_loss"] > 0 for row in found.rows)


@pytest.mark.parametrize("rates", [{}, {"missed": 0.2, "spurious": 0.1}], ids=["plain", "rates"])
def test_an_instance_of_a_label_that_is_absent_is_an_error_that_no_rate_excuses(rates):
    bags = [np.eye(2), np.eye(2)]
    known = Bags(np.array([0, -1, -1, -1]), np.array([0, 2, 4]))
    message = r"bag 0 is said not to hold, but one of its instances is known .* \(bag 0\); correct one of the two\.$"
    with pytest.raises(InputError, match=message):
        NoisyOrLogisticRegression(**rates).fit(bags, [{"b", Absent("a")}, {"a"}], instance_labels=known)
