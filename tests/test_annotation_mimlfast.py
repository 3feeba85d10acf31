"""MIMLfast: one epoch against a literal one, the step against finite differences, constraints and early stopping."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone

from bagwise.annotation import MostFrequentAnnotator
from bagwise.annotation import _mimlfast as module
from bagwise.annotation._mimlfast import MIMLFast, draw_held_out, dummy_ranking_loss, initial_weights
from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.kernels.mimlfast import run_epoch
from bagwise.metrics import ranking_loss


def literal_best(bag, W0, vectors):
    """(score, instance, sub-concept) of the best pair, by loops; W0 is (m, d)."""
    return max(
        ((float(w @ (W0 @ x)), i, k) for k, w in enumerate(vectors) for i, x in enumerate(bag)),
        key=lambda item: item[0],
    )


def literal_epoch(bags, Y, W0, concepts, draws, n_before, step, decay, norm):
    """The publication's algorithm, step by step, with the same random numbers."""
    n, c = Y.shape
    W0, concepts = W0.copy(), concepts.copy()
    for s, row in enumerate(draws):
        b = int(row[0] * n)
        own = [label for label in range(c) if Y[b, label]] + [c]
        label = own[int(row[1] * len(own))]
        below = [other for other in range(c) if not Y[b, other]] + ([c] if label != c else [])
        score, i, k = literal_best(bags[b], W0, concepts[label])
        waiting = list(below)
        for v in range(1, len(below) + 1):
            pick = int(row[1 + v] * len(waiting))
            waiting[0], waiting[pick] = waiting[pick], waiting[0]
            other = waiting.pop(0)
            rival, i2, k2 = literal_best(bags[b], W0, concepts[other])
            if rival > score - 1:
                weight = sum(1 / r for r in range(1, len(below) // v + 1))
                rate = weight * step / (1 + decay * step * (n_before + s))
                x, x2, w, w2 = bags[b][i], bags[b][i2], concepts[label, k].copy(), concepts[other, k2].copy()
                old = W0.copy()
                W0 += rate * (np.outer(w, x) - np.outer(w2, x2))
                concepts[label, k] += rate * old @ x
                concepts[other, k2] -= rate * old @ x2
                for j in range(W0.shape[1]):
                    W0[:, j] *= min(1.0, norm / np.linalg.norm(W0[:, j]))
                for vector in (concepts[label, k], concepts[other, k2]):
                    vector *= min(1.0, norm / np.linalg.norm(vector))
                break
    return W0, concepts


def problem(seed, n_concepts=2, norm=3.0, n_components=4):
    rng = np.random.default_rng(seed)
    data = make_gaussian_bags(n_bags=15, n_features=3, n_classes=4, random_state=seed)
    shared, concepts = initial_weights(3, n_components, 5, n_concepts, norm, rng)
    return data, shared, concepts, rng.random((40, 7))


# ------------------------------------------------------------------------------------------------------------
# The compiled loop


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("norm", [0.5, 3.0])
def test_epoch_against_the_literal_one(seed, norm):
    data, shared, concepts, draws = problem(seed, n_concepts=1 + seed % 3, norm=norm)
    expected = literal_epoch(data.bags, data.Y, shared.T, concepts, draws, 11, 0.05, 0.3, norm)
    before = concepts.copy()
    n_updates = run_epoch(data.bags.instances, data.bags.offsets, data.Y, shared, concepts, draws, 11, 0.05, 0.3, norm)
    assert 0 < n_updates <= 40
    assert_allclose(shared.T, expected[0], rtol=1e-9, atol=1e-12)
    assert_allclose(concepts, expected[1], rtol=1e-9, atol=1e-12)
    assert not np.array_equal(concepts, before)


@pytest.mark.parametrize("seed", range(10))
def test_step_against_finite_differences(seed):
    """What one unconstrained step changes is the rate times the gradient of the hinge of the triple."""
    data, shared, concepts, draws = problem(seed)
    X, offsets, Y = data.bags.instances, data.bags.offsets, data.Y
    moved, labels = shared.copy(), concepts.copy()
    rate = 1e-3
    assert run_epoch(X, offsets, Y, moved, labels, draws[:1], 0, rate, 0.0, 1e6) == 1
    bag = data.bags[int(draws[0, 0] * len(Y))]
    changed = [label for label in range(5) if not np.array_equal(labels[label], concepts[label])]
    assert len(changed) == 2
    own = [c for c in range(4) if Y[int(draws[0, 0] * len(Y)), c]] + [4]
    label = own[int(draws[0, 1] * len(own))]
    other = next(c for c in changed if c != label)

    def hinge(shared, concepts):
        rival = literal_best(bag, shared.T, concepts[other])[0]
        return max(0.0, 1 + rival - literal_best(bag, shared.T, concepts[label])[0])

    step_taken = np.concatenate([(moved - shared).ravel(), (labels - concepts).ravel()])
    flat = np.concatenate([shared.ravel(), concepts.ravel()])
    gradient, h = np.empty_like(flat), 1e-6
    for j in range(len(flat)):
        values = []
        for sign in (1, -1):
            point = flat.copy()
            point[j] += sign * h
            values.append(
                hinge(point[: shared.size].reshape(shared.shape), point[shared.size :].reshape(concepts.shape))
            )
        gradient[j] = (values[0] - values[1]) / (2 * h)
    weight = -(step_taken @ gradient) / (gradient @ gradient) / rate
    possible = np.cumsum(1.0 / np.arange(1, 6))  # 1 + 1/2 + ... + 1/R
    assert np.abs(possible - weight).min() < 1e-6
    assert_allclose(step_taken, -rate * weight * gradient, atol=1e-9)


def test_nothing_happens_where_every_margin_is_kept():
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    shared = np.eye(2) * 3
    concepts = np.array([[[3.0, -3.0]], [[-3.0, 3.0]], [[0.0, 0.0]]])
    Y = np.array([[1, 0], [0, 1]], np.uint8)
    before = shared.copy(), concepts.copy()
    draws = np.random.default_rng(0).random((30, 5))
    assert run_epoch(X, np.array([0, 1, 2]), Y, shared, concepts, draws, 0, 0.1, 0.0, 10.0) == 0
    assert np.array_equal(shared, before[0])
    assert np.array_equal(concepts, before[1])


# ------------------------------------------------------------------------------------------------------------
# The fit


def watch_epochs(monkeypatch):
    """Weights after every epoch of the fits that follow."""
    seen = []

    def watched(*arguments):
        run_epoch(*arguments)
        seen.append((arguments[3].copy(), arguments[4].copy()))

    monkeypatch.setattr(module, "run_epoch", watched)
    return seen


@pytest.mark.parametrize("norm", [0.3, 2.0])
def test_norms_hold_after_every_epoch(monkeypatch, norm):
    seen = watch_epochs(monkeypatch)
    data = make_gaussian_bags(n_bags=40, random_state=0)
    MIMLFast(8, 3, norm=norm, step=0.1, max_epochs=15, random_state=0).fit(data.bags, data.Y)
    assert len(seen) == 15
    for shared, concepts in seen:
        assert np.linalg.norm(shared, axis=1).max() <= norm * (1 + 1e-12)
        assert np.linalg.norm(concepts, axis=2).max() <= norm * (1 + 1e-12)
    assert max(np.linalg.norm(shared, axis=1).max() for shared, _ in seen) > 0.99 * norm  # the constraint binds


@pytest.mark.parametrize("seed", range(4))
def test_early_stopping_returns_the_best_weights(monkeypatch, seed):
    seen = watch_epochs(monkeypatch)
    data = make_gaussian_bags(n_bags=60, separation=2.0, random_state=seed)
    losses = []
    model = MIMLFast(10, 2, step=0.02, validation_fraction=0.3, max_epochs=60, patience=5, random_state=seed)
    model.fit(data.bags, data.Y, callback=lambda epoch, loss: losses.append(loss))
    history = model.objective_history_
    assert losses == history.tolist()
    assert len(history) == model.n_iter_ == len(seen)
    assert model.best_epoch_ == int(np.argmin(history)) + 1
    assert model.n_iter_ == min(model.best_epoch_ + 5, 60)
    assert_allclose(model.shared_, seen[model.best_epoch_ - 1][0].T)
    assert_allclose(model.concepts_, seen[model.best_epoch_ - 1][1])
    rng = np.random.default_rng(np.random.RandomState(seed).randint(2**31 - 1))
    held_out = draw_held_out(60, 0.3, rng)
    assert held_out.sum() == 18
    scores = np.maximum.reduceat(model._all_scores(data.bags[held_out]), data.bags[held_out].offsets[:-1], axis=0)
    assert_allclose(dummy_ranking_loss(data.Y[held_out], scores), history.min())


def test_without_held_out_bags_all_epochs_are_run():
    data = make_gaussian_bags(n_bags=30, random_state=0)
    model = MIMLFast(5, 1, validation_fraction=0.0, max_epochs=12, patience=2, random_state=0).fit(data.bags, data.Y)
    assert (model.n_iter_, model.best_epoch_, len(model.objective_history_)) == (12, 12, 0)
    assert not draw_held_out(9, 0.5, np.random.default_rng(0)).any()


def test_dummy_ranking_loss_by_loops():
    rng = np.random.default_rng(0)
    Y, scores = (rng.random((30, 4)) < 0.4).astype(np.uint8), rng.normal(size=(30, 5))
    total = 0.0
    for dummy in (1, 0):
        for labels, row in zip(np.column_stack([Y, np.full(30, dummy)]), scores, strict=True):
            pairs = [(a, b) for a in range(5) for b in range(5) if labels[a] and not labels[b]]
            total += sum(row[a] <= row[b] for a, b in pairs) / max(len(pairs), 1) / 60
    assert_allclose(dummy_ranking_loss(Y, scores), total)


def test_scores_by_loops():
    data = make_gaussian_bags(n_bags=20, random_state=3)
    model = MIMLFast(6, 3, max_epochs=5, random_state=0).fit(data.bags, data.Y)
    expected_scale = np.sqrt(np.mean([x @ x for x in data.bags.instances]))
    assert_allclose(model.scale_, expected_scale)
    instance, bag = model.instance_decision_function(data.bags), model.decision_function(data.bags)
    predicted, start = model.predict(data.bags), 0
    for b, rows in enumerate(data.bags):
        f = np.array(
            [
                [
                    max(w @ (model.shared_ @ np.append(x / expected_scale, 1.0)) for w in label)
                    for label in model.concepts_
                ]
                for x in rows
            ]
        )
        assert_allclose(instance[start : start + len(rows)], f[:, :-1], rtol=1e-9, atol=1e-12)
        assert_allclose(bag[b], f.max(axis=0)[:-1] - f.max(axis=0)[-1], rtol=1e-9, atol=1e-12)
        assert np.array_equal(predicted[b], f.max(axis=0)[:-1] > f.max(axis=0)[-1])
        start += len(rows)


@pytest.mark.parametrize("seed", range(3))
def test_learns_separated_classes(seed):
    data = make_gaussian_bags(n_bags=120, n_classes=4, separation=8.0, random_state=seed)
    truth = data.instance_labels.instances
    model = MIMLFast(30, 1, random_state=seed).fit(data.bags, data.Y)
    dummy = MostFrequentAnnotator().fit(data.bags, data.Y)
    assert np.mean(model.annotate(data.bags, data.Y) == truth) > 0.85
    assert np.mean(dummy.annotate(data.bags, data.Y) == truth) < 0.85
    assert ranking_loss(data.Y, model.decision_function(data.bags)) < 0.1
    assert np.mean(model.predict(data.bags) != data.Y) < 0.15


# ------------------------------------------------------------------------------------------------------------
# Contract


def test_input_forms_seeds_and_class_names():
    data = make_gaussian_bags(n_bags=20, n_classes=3, random_state=2)
    names = ["ant", "bee", "cat"]
    sets = [{names[c] for c in np.flatnonzero(row)} for row in data.Y]
    model = MIMLFast(5, 2, max_epochs=5, random_state=5)
    first, second = clone(model).fit(data.bags, data.Y), clone(model).fit(list(data.bags), sets)
    assert np.array_equal(first.concepts_, second.concepts_)
    assert np.array_equal(first.shared_, second.shared_)
    assert second.classes_.tolist() == names
    assert set(second.annotate(data.bags, sets)) <= set(names)
    assert not np.array_equal(first.shared_, MIMLFast(5, 2, max_epochs=5, random_state=6).fit(data.bags, sets).shared_)
    single = Bags(data.bags.instances.astype(np.float32), data.bags.offsets)
    assert np.isfinite(clone(model).fit(single, data.Y).decision_function(single)).all()
    plain = clone(model).set_params(fit_intercept=False).fit(data.bags, data.Y)
    assert plain.shared_.shape == (5, 8)
    before = plain.decision_function(data.bags)
    assert np.array_equal(plain.set_params(fit_intercept=True).decision_function(data.bags), before)


def test_empty_and_full_label_sets_and_zero_features():
    X = np.random.default_rng(0).normal(size=(12, 2, 3))
    Y = np.zeros((12, 2), int)
    Y[:4] = 1  # every label; the other bags carry none, so the dummy must split them
    X[:4] += 4
    model = MIMLFast(10, 1, max_epochs=100, validation_fraction=0.0, random_state=0).fit(X, Y)
    assert np.array_equal(model.predict(X), Y)
    assert np.all(MIMLFast(4, 1, max_epochs=60, random_state=0).fit(X, np.ones((12, 1))).predict(X) == 1)
    assert MIMLFast(4, 1, max_epochs=3, random_state=0).fit(np.zeros((6, 1, 2)), Y[1:7]).scale_ == 1.0


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"step": np.inf},
        {"norm": np.nan},
        {"n_concepts": 0},
        {"norm": 0.0},
        {"step": 0.0},
        {"decay": -1.0},
        {"scale": 0.0},
        {"validation_fraction": 1.0},
        {"max_epochs": 0},
        {"patience": 0},
    ],
)
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"'{next(iter(parameters))}' parameter of MIMLFast"):
        MIMLFast(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_sparse_and_too_large_are_refused(monkeypatch):
    with pytest.raises(InputError, match="sparse.*TruncatedSVD"):
        MIMLFast().fit(sp.csr_matrix(np.eye(4)), [0, 1, 0, 1])
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="weights of MIMLFast"):
        MIMLFast().fit(np.eye(4), [0, 1, 0, 1])
