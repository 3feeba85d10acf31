"""BAMIC against all choices of medoids, and its distances against loops."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

import bagwise
from bagwise import Bags
from bagwise.clustering import BAMIC
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.metrics import clustering_accuracy

KINDS = ["average", "maximal", "minimal"]


def random_bags(seed, n_bags=9, n_features=2):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    return Bags(rng.normal(size=(sizes.sum(), n_features)), offsets_of(sizes))


def distance(A, B, kind):
    """Equation (1) of Zhang et al."""
    pairs = np.array([[np.linalg.norm(a - b) for b in B] for a in A])
    from_a, from_b = pairs.min(axis=1), pairs.min(axis=0)
    if kind == "maximal":
        return max(from_a.max(), from_b.max())
    if kind == "minimal":
        return pairs.min()
    return (from_a.sum() + from_b.sum()) / (len(A) + len(B))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_medoids_are_the_best_of_all_choices(kind, seed):
    bags, k = random_bags(seed), 2 + seed % 3
    D = np.array([[distance(A, B, kind) for B in bags] for A in bags])
    best = min(D[:, list(chosen)].min(axis=1).sum() for chosen in combinations(range(len(bags)), k))
    model = BAMIC(k, distance=kind, n_init=50, random_state=seed).fit(bags)
    assert model.objective_ == pytest.approx(best, rel=1e-9)
    assert D[:, model.medoid_indices_].min(axis=1).sum() == pytest.approx(best, rel=1e-9)
    assert np.array_equal(model.labels_, D[:, model.medoid_indices_].argmin(axis=1))
    assert model.medoids_ == bags[model.medoid_indices_]
    for i, bag in enumerate(bags):
        medoid = bags[int(model.medoid_indices_[model.labels_[i]])]
        nearest = [min(np.linalg.norm(x - z) for z in medoid) for x in bag]
        assert model.witnesses_[i] == int(np.argmin(nearest))


@pytest.mark.parametrize("kind", KINDS)
def test_new_bags_go_to_the_nearest_medoid(tmp_path, kind):
    bags, others = random_bags(1, n_bags=20), random_bags(2, n_bags=15)
    model = BAMIC(3, distance=kind, random_state=0).fit(bags)
    expected = [int(np.argmin([distance(bag, medoid, kind) for medoid in model.medoids_])) for bag in others]
    assert model.predict(others).tolist() == expected
    assert model.predict(bags).tolist() == model.labels_.tolist()
    assert np.all(np.diff(np.bincount(model.labels_)) <= 0)
    bagwise.save(model, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").predict(others).tolist() == expected


def test_separate_groups_sparse_or_dense():
    rng = np.random.default_rng(0)
    truth = np.arange(30) % 3
    bags = [rng.normal(size=(4, 3)) * 0.1 + 5 * np.eye(3)[c] for c in truth]
    dense = BAMIC(3, random_state=0).fit(bags)
    sparse = BAMIC(3, random_state=0).fit([sp.csr_matrix(bag) for bag in bags])
    assert clustering_accuracy(truth, dense.labels_) == 1.0
    assert dense.labels_.tolist() == sparse.labels_.tolist()


def test_as_many_clusters_as_bags():
    bags = random_bags(3, n_bags=4)
    model = BAMIC(np.int64(4), random_state=0).fit(bags)  # as a loop over np.arange gives it
    assert sorted(model.labels_) == [0, 1, 2, 3]
    assert model.objective_ == 0.0


def test_bad_input(monkeypatch):
    bags = random_bags(0)
    with pytest.raises(InputError, match="n_clusters.*2 or more. Got 1"):
        BAMIC(1).fit(bags)
    with pytest.raises(InputError, match="n_clusters=10 is more than the 9 bags"):
        BAMIC(10).fit(bags)
    with pytest.raises(InputError, match="distance='mean' is not known"):
        BAMIC(2, distance="mean").fit(bags)
    with pytest.raises(InputError, match="'n_init' parameter"):
        BAMIC(2, n_init=0).fit(bags)
    with pytest.raises(InputError, match="All bags are identical"):
        BAMIC(2).fit([np.array([[1.0], [2.0]])] * 5)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "100")
    with pytest.raises(MemoryLimitError, match="distances between all 9 bags.*use M3IC"):
        BAMIC(2).fit(bags)
