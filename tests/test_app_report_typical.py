"""The instances that stand for a label: against all choices by hand, and on the page of every medium."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from bagwise.app.report.page import _choose_gallery, _choose_medoids, _choose_typical, _Features
from bagwise.app.runs import Run
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import write_dataset


def total(points, chosen):
    """Sum of the distances of all points to the nearest of some of them."""
    return sum(min(np.linalg.norm(p - points[i]) for i in chosen) for p in points)


@pytest.mark.parametrize("seed", range(20))
def test_medoids_are_chosen_one_by_one_as_well_as_can_be(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rng.integers(2, 9), 3)) + 8 * rng.integers(0, 2, (1, 3))
    chosen = _choose_medoids(points, 4).tolist()
    assert len(set(chosen)) == min(4, len(points))
    for k in range(1, len(chosen) + 1):
        others = [total(points, [*chosen[: k - 1], j]) for j in range(len(points))]
        np.testing.assert_allclose(total(points, chosen[:k]), min(others), rtol=1e-9)


def test_two_groups_are_both_shown_by_two_medoids():
    """As every good choice of two shows both."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 0.1, (7, 2)), rng.normal(5, 0.1, (5, 2))])
    chosen = _choose_medoids(points, 2)
    assert sorted(i >= 7 for i in chosen) == [False, True]
    best = min(combinations(range(12), 2), key=lambda pair: total(points, pair))
    assert sorted(i >= 7 for i in best) == [False, True]
    assert total(points, chosen) < 2 * total(points, best)


def rows_of(dataset, labels, probability):
    places = zip(dataset.bags.bag_index.tolist(), dataset.positions.tolist(), labels, probability, strict=True)
    return [{"bag": dataset.bag_names[b], "instance": i, "label": str(c), "probability": p} for b, i, c, p in places]


def test_typical_is_sure_and_in_the_middle_whatever_the_scale_of_the_features():
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (60, 2)) * [1.0, 1000.0]
    dataset = BagDataset(Bags(x, np.arange(0, 61, 3)), bag_names=[f"b{i}" for i in range(20)])
    probability = np.full(60, 0.9)
    probability[:3] = 0.3
    rows = rows_of(dataset, ["a"] * 60, probability.tolist())
    chosen = _choose_typical(rows, _Features(dataset), 6)
    z = ((x - x.mean(axis=0)) / x.std(axis=0))[3:]
    middle = 3 + int(np.argmin([np.linalg.norm(z - point, axis=1).sum() for point in z]))
    assert (chosen[0]["bag"], chosen[0]["instance"]) == (f"b{middle // 3}", middle % 3)
    assert all(row["probability"] >= 0.9 for row in chosen)
    (part,) = _choose_gallery(rows, ["a"], _Features(dataset))
    assert part["typical"] == chosen
    assert [row["probability"] for row in part["uncertain"][:3]] == [0.3] * 3


def test_tables_show_their_features(tmp_path):
    data = make_gaussian_bags(n_bags=30, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    with Run.create(tmp_path / "made.csv", tmp_path / "run", formats=["csv"]):
        page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "most typical" in page
    assert "the broad grey line is the mean of its label" in page
    assert page.count('<img src="data:image/png') >= 2 * data.n_classes


def test_sparse_features_are_compared_without_being_filled():
    rng = np.random.default_rng(0)
    counts = sp.csr_matrix(rng.poisson(0.2, (40, 30)).astype(float))
    dataset = BagDataset(Bags(counts, np.arange(0, 41, 8)), bag_names=list("abcde"))
    features = _Features(dataset)
    rows = [{"bag": "abcde"[i // 8], "instance": i % 8, "probability": 0.9} for i in range(3, 30, 3)]
    full, compact = features.of(rows), features.of(rows, compact=True)
    np.testing.assert_allclose(pdist(compact), pdist(full))
    assert compact.shape[1] == np.count_nonzero(np.any(full != 0, axis=0)) < 30
    assert len(_choose_typical(rows, features, 3)) == 3
