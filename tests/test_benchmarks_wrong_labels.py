"""The benchmark of wrong labels: faults as they are asked for, rates that belong to them, and curves of suggestions."""

import json

import numpy as np
import pytest
from benchmarks.wrong_labels import FIRST, Kept, accuracies, spoil, suggestions, true_rates, variants

from bagwise import BagDataset, Bags


def test_labels_are_dropped_and_added_as_often_as_asked():
    rng = np.random.default_rng(0)
    Y = (rng.random((4000, 6)) < 0.4).astype(np.uint8)
    Y[Y.all(axis=1), 0] = 0
    spoiled = spoil(Y, 0.2, 0.3, np.random.default_rng(1))
    lost, false = (Y == 1) & (spoiled == 0), (Y == 0) & (spoiled == 1)
    assert lost.sum() / Y.sum() == pytest.approx(0.2, abs=0.02)
    assert set(false.sum(axis=1)) == {0, 1}
    assert false.any(axis=1).mean() == pytest.approx(0.3, abs=0.03)


def test_the_true_rate_of_instances_drops_that_share_of_labels():
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 9, 300)
    labels = rng.integers(0, 4, sizes.sum())
    bags = Bags(np.zeros((len(labels), 1)), np.concatenate([[0], np.cumsum(sizes)]))
    Y = np.zeros((300, 4), np.uint8)
    Y[bags.bag_index, labels] = 1
    data = BagDataset(bags, Y, list("abcd"), instance_labels=Bags(labels, bags.offsets))
    missed, spurious = true_rates(data, 0.2, 0.3)
    lost = []
    for _ in range(40):
        noticed = np.zeros(Y.shape, bool)
        seen = rng.random(len(labels)) >= missed
        noticed[bags.bag_index[seen], labels[seen]] = True
        lost.append(((Y == 1) & ~noticed).sum() / Y.sum())
    assert np.mean(lost) == pytest.approx(0.2, abs=0.01)
    assert spurious * (Y == 0).sum() == pytest.approx(0.3 * 300)
    assert true_rates(data, 0.0, 0.0) == (0.0, 0.0)


def test_suggestions_count_what_is_found_among_the_first():
    forgotten = np.array([True, False, True, False, False, True, True, False, False, False])
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.55, 0.5, 0.1, 0.4, 0.3, 0.2])
    found = suggestions(forgotten, scores, "anything")
    percents = [found[f"found of {multiple:g}n, by anything"] for multiple in FIRST]
    assert percents == [0.0, 25.0, 25.0, 50.0, 75.0]  # of 0, 1, 2, 4 and 8 suggestions
    assert found["forgotten, by anything"] == pytest.approx((1 + 2 / 3 + 3 / 6 + 4 / 10) / 4)


def test_rows_are_kept_and_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_WRONG_LABELS_ROWS", str(tmp_path / "rows"))
    assert Kept().get("set", 1, compute=lambda: {"inductive": 1.0}) == {"inductive": 1.0}
    assert Kept().get("set", 1, compute=lambda: pytest.fail("computed again")) == {"inductive": 1.0}
    assert json.loads((tmp_path / "rows").read_text()) == ['["set", 1]', {"inductive": 1.0}]


def test_a_row_of_the_table():
    from bagwise.datasets import make_gaussian_bags

    data = make_gaussian_bags(n_bags=40, random_state=0)
    Y = spoil(data.Y, 0.2, 0.0, np.random.default_rng(0))
    folds = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    for name, settings in variants("ored", (0.2, 0.0)):
        row = accuracies("ored", settings, data, Y, folds)
        assert 0 <= row["inductive"] <= 100
        assert ("forgotten, by label_posterior" in row) == (name != "plain")
    assert "small rates" not in dict(variants("ored-forest", (0.2, 0.0)))
