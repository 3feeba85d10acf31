"""Hausdorff distances against a literal double loop and against scipy's directed distance."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist, directed_hausdorff

from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.kernels.hausdorff import BLOCK, KINDS, hausdorff_distances


def literal(A, B, kind):
    """The definitions, word for word."""
    D = cdist(A, B)
    if kind == "maximal":
        return max(D.min(axis=1).max(), D.min(axis=0).max())
    if kind == "minimal":
        return D.min()
    return (D.min(axis=1).sum() + D.min(axis=0).sum()) / (len(A) + len(B))


def random_bags(rng, n_bags, n_features, largest=7):
    sizes = rng.integers(1, largest + 1, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return rng.normal(size=(offsets[-1], n_features)), offsets


def pieces(X, offsets):
    return np.split(X, offsets[1:-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_one_set_against_the_double_loop(kind, seed):
    rng = np.random.default_rng(seed)
    X, offsets = random_bags(rng, 23, int(rng.integers(1, 20)))
    expected = [[literal(A, B, kind) for B in pieces(X, offsets)] for A in pieces(X, offsets)]
    distances = hausdorff_distances(X, offsets, kind=kind)
    assert_allclose(distances, expected, rtol=1e-12, atol=1e-7)  # atol: cdist's own zeros
    assert_array_equal(distances, distances.T)
    assert_array_equal(np.diag(distances), 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_two_sets_against_the_double_loop(kind, seed):
    rng = np.random.default_rng(100 + seed)
    X, offsets = random_bags(rng, 9, 4)
    Z, other = random_bags(rng, 140, 4, largest=9)  # several blocks
    assert len(Z) > 2 * BLOCK
    expected = [[literal(A, B, kind) for B in pieces(Z, other)] for A in pieces(X, offsets)]
    assert_allclose(hausdorff_distances(X, offsets, Z, other, kind=kind), expected, rtol=1e-12)


def test_maximal_is_scipys():
    rng = np.random.default_rng(3)
    X, offsets = random_bags(rng, 15, 6)
    bags = pieces(X, offsets)
    expected = [[max(directed_hausdorff(A, B)[0], directed_hausdorff(B, A)[0]) for B in bags] for A in bags]
    assert_allclose(hausdorff_distances(X, offsets), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bag_larger_than_a_block(kind):
    rng = np.random.default_rng(4)
    sizes = [3, 2 * BLOCK + 5, 1, BLOCK]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], 3))
    expected = [[literal(A, B, kind) for B in pieces(X, offsets)] for A in pieces(X, offsets)]
    assert_allclose(hausdorff_distances(X, offsets, kind=kind), expected, rtol=1e-12, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_nothing(kind):
    rng = np.random.default_rng(5)
    X, offsets = random_bags(rng, 60, 5)
    one = hausdorff_distances(X, offsets, kind=kind, n_threads=1)
    assert_array_equal(hausdorff_distances(X, offsets, kind=kind, n_threads=3), one)
    with ThreadPoolExecutor(4) as pool:  # several callers at once
        for result in pool.map(lambda _: hausdorff_distances(X, offsets, kind=kind, n_threads=2), range(8)):
            assert_array_equal(result, one)


def test_identical_bags_far_from_the_origin_are_at_exactly_zero():
    rng = np.random.default_rng(6)
    bag = 1e8 + rng.normal(size=(4, 3))
    X = np.concatenate([bag, bag[::-1], bag[:1]])
    for kind in KINDS:
        distances = hausdorff_distances(X, [0, 4, 8, 9], kind=kind)
        assert_array_equal(distances[:2, :2], 0.0)
    assert hausdorff_distances(X, [0, 4, 8, 9], kind="maximal")[0, 2] > 0


def test_bags_of_one_instance_give_the_euclidean_distance():
    X = np.random.default_rng(7).normal(size=(12, 4))
    for kind in KINDS:
        assert_allclose(hausdorff_distances(X, np.arange(13), kind=kind), cdist(X, X), rtol=1e-12)


def test_sparse_and_single_precision_input():
    rng = np.random.default_rng(8)
    X, offsets = random_bags(rng, 10, 6)
    X[X < 0.3] = 0.0
    expected = hausdorff_distances(X, offsets)
    assert_array_equal(hausdorff_distances(sp.csr_matrix(X), offsets), expected)
    assert_allclose(hausdorff_distances(X.astype(np.float32), offsets), expected, rtol=1e-6)


def test_bad_input(monkeypatch):
    X = np.zeros((3, 2))
    with pytest.raises(InputError, match="kind='mean' is not known; use one of 'maximal'"):
        hausdorff_distances(X, [0, 3], kind="mean")
    with pytest.raises(InputError, match="offsets run from 0 to 4; they must start at 0, rise strictly"):
        hausdorff_distances(X, [0, 4])
    with pytest.raises(InputError, match="Bag 1 is empty"):
        hausdorff_distances(X, [0, 2, 2, 3])
    with pytest.raises(InputError, match="2 and 5 features"):
        hausdorff_distances(X, [0, 3], np.zeros((1, 5)), [0, 1])
    with pytest.raises(InputError, match="instances and offsets of the second set, or neither"):
        hausdorff_distances(X, [0, 3], X)
    with pytest.raises(InputError, match=r"expected \(n_instances, n_features\)"):
        hausdorff_distances(np.zeros(3), [0, 3])
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "10")
    with pytest.raises(MemoryLimitError, match="distances of 3 to 3 bags"):
        hausdorff_distances(X, [0, 1, 2, 3])
