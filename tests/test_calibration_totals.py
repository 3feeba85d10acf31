"""Totals from a random sample and a model: censuses, textbook estimators, made surveys."""

import numpy as np
import pytest
from benchmarks.estimates import MODELS, run_surveys
from numpy.testing import assert_allclose, assert_array_equal

from bagwise.calibration import allocate_answers, draw_rows, estimate_totals, expected_totals, score_strata
from bagwise.core.exceptions import InputError
from bagwise.metrics import wilson_interval

NONE = np.zeros(0, dtype=np.int64)


def survey(seed=0, m=3000, c=2):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([0.1] * c + [0.6], m)[:, :c]
    truth = rng.random((m, 1)) < np.cumsum(proba, axis=1)
    truth[:, 1:] &= ~truth[:, :-1]
    return proba, truth, rng


def test_everything_answered_is_the_truth_whatever_the_model():
    proba, truth, rng = survey(m=200)
    strata, groups = score_strata(proba, 50), rng.integers(0, 5, 200)
    rows = draw_rows(strata, np.bincount(strata), NONE, rng)
    found = estimate_totals(1 - proba, strata, rows, truth[rows], groups)
    true = np.stack([np.bincount(groups, y) for y in truth.T], axis=1)
    for given in (found.count, found.low, found.high):
        assert_allclose(given, true, atol=1e-6)
    assert found.n_reviewed.tolist() == np.bincount(groups).tolist()
    assert not found.more.any()


def test_a_model_that_says_nothing_leaves_the_sample_alone():
    """One stratum, no probabilities: the count of the sample; Wilson's interval but for t, N - n and one more error."""
    _, truth, rng = survey()
    proba, strata = np.zeros((3000, 2)), np.zeros(3000, dtype=int)
    rows = draw_rows(strata, np.array([400]), NONE, rng)
    found = estimate_totals(proba, strata, rows, truth[rows])
    share = truth[rows].mean(axis=0)
    low, high = wilson_interval(share, 400 / (1 - 400 / 3000))
    assert_allclose(found.count[0], 3000 * share)
    assert_allclose(found.low[0], 3000 * low, rtol=0.02)
    assert_allclose(found.high[0], 3000 * high, rtol=0.02)


def test_strata_by_hand():
    """The estimator of Cochran's chapter 5 where the model says the same of all: sum of N_h times the mean of h."""
    proba, strata = np.full((100, 1), 0.25), np.repeat([0, 1], [80, 20])
    rows, truth = np.array([0, 1, 2, 3, 80, 81]), np.array([[1], [0], [0], [0], [1], [0]], dtype=bool)
    assert_allclose(estimate_totals(proba, strata, rows, truth).count, [[80 / 4 + 20 / 2]])


@pytest.mark.parametrize("model", MODELS)
def test_intervals_hold_in_made_surveys(model):
    """60 of the surveys of `python -m benchmarks estimates`, all labels and sites together."""
    held, width = run_surveys(model, 60, 400)
    assert 0.92 <= held.mean() <= 0.98
    assert width.mean() < {"good": 0.55, "bad": 1.1, "miscalibrated": 0.65}[model]


def test_counts_by_the_model_alone_hold_where_it_is_right():
    held = []
    for seed in range(200):
        proba, truth, _ = survey(seed, 400)
        found = expected_totals(proba)
        held.append((found.low[0] <= truth.sum(axis=0)) & (truth.sum(axis=0) <= found.high[0]))
        assert_allclose(found.count[0], proba.sum(axis=0))
    assert 0.92 < np.mean(held) < 0.98
    assert np.isinf(found.more).all()
    assert not found.n_reviewed.any()


def test_as_many_more_answers_as_are_said_halve_the_interval():
    proba, truth, rng = survey(m=20_000)
    strata = score_strata(proba, 300)
    sizes = allocate_answers(proba, strata, 300)
    rows = draw_rows(strata, sizes, NONE, rng)
    found = estimate_totals(proba, strata, rows, truth[rows])
    grown = np.minimum((sizes * (1 + found.more[0, 0] / len(rows))).round().astype(int), np.bincount(strata))
    rows = np.concatenate([rows, draw_rows(strata, grown, rows, rng)])
    more = estimate_totals(proba, strata, rows, truth[rows])
    ratio = (more.high - more.low)[0, 0] / (found.high - found.low)[0, 0]
    assert 0.4 < ratio < 0.6


def test_the_sample_is_random_within_strata_and_begins_with_two_of_each():
    proba, _, rng = survey()
    strata = score_strata(proba, 200)
    assert_array_equal(np.unique(strata), np.arange(strata.max() + 1))
    sizes = allocate_answers(proba, strata, 200)
    assert sizes.sum() == 200
    assert (sizes >= 2).all()
    first = draw_rows(strata, sizes, NONE, rng)
    assert (np.bincount(strata[first[: 2 * len(sizes)]]) == 2).all()
    more = draw_rows(strata, allocate_answers(proba, strata, 300), first, rng)
    assert not np.intersect1d(first, more).size
    times = np.zeros(len(strata))
    for seed in range(300):
        times[draw_rows(strata, sizes, NONE, np.random.default_rng(seed))] += 1
    largest = np.flatnonzero(strata == np.bincount(strata).argmax())
    expected = 300 * sizes[strata[largest[0]]] / len(largest)
    chi = ((times[largest] - expected) ** 2 / expected).sum() / len(largest)
    assert 0.7 < chi < 1.3


def test_groups_that_nobody_looked_at_may_hold_anything():
    proba, truth, rng = survey(m=500)
    strata, groups = np.zeros(500, dtype=int), (np.arange(500) < 40).astype(int)
    rows = draw_rows(strata, allocate_answers(proba, strata, 60), NONE, rng)
    rows = rows[groups[rows] == 0]
    found = estimate_totals(proba, strata, rows, truth[rows], groups)
    assert found.n_reviewed[1] == 0
    assert (found.low[1] == 0).all()
    assert (found.high[1] == 40).all()
    assert np.isinf(found.more[1]).all()


def test_too_few_answers_are_an_error():
    proba, truth, rng = survey()
    strata = score_strata(proba, 100)
    rows = draw_rows(strata, allocate_answers(proba, strata, 100), NONE, rng)[:3]
    with pytest.raises(InputError, match="answer more of the sample"):
        estimate_totals(proba, strata, rows, truth[rows])
