"""Whether instances are like those of a training set."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics.pairwise import cosine_distances
from sklearn.neighbors import NearestNeighbors

import bagwise
from bagwise import Bags
from bagwise.annotation import MostFrequentAnnotator
from bagwise.calibration.novelty import ALARM, ATTRIBUTE, N_REFERENCE, Novelty
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags


@pytest.mark.parametrize("seed", range(4))
def test_distances_are_those_of_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    bags = Bags(rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1], np.arange(0, 61, 6))
    novelty = Novelty.learn(bags)
    scaled = (bags.instances - bags.instances.mean(axis=0)) / bags.instances.std(axis=0)
    own = [
        min(np.linalg.norm(row - other) for other, theirs in zip(scaled, bags.bag_index, strict=True) if theirs != mine)
        for row, mine in zip(scaled, bags.bag_index, strict=True)
    ]
    assert_allclose(novelty.distances, np.sort(own), rtol=1e-4)
    new = rng.normal(size=(40, 3)) * [2.0, 20.0, 0.2]
    new_scaled = (new - bags.instances.mean(axis=0)) / bags.instances.std(axis=0)
    far = NearestNeighbors(n_neighbors=1).fit(scaled).kneighbors(new_scaled)[0]
    expected = [np.mean(np.array(own) >= distance) for distance in far[:, 0]]
    assert_allclose(novelty.rarity(new), expected, atol=1 / 60 + 1e-9)


def test_false_alarms_are_as_many_as_announced_and_strangers_are_found():
    alarms, found = [], []
    for seed in range(10):
        data = make_gaussian_bags(n_bags=300, n_features=4, random_state=seed)
        novelty = Novelty.learn(data.bags[:200])
        alarms.append(novelty.is_novel(data.bags[200:].instances).mean())
        found.append(novelty.is_novel(data.bags[200:].instances + 15.0).mean())
    assert 0.3 * ALARM < np.mean(alarms) < 2.5 * ALARM
    assert np.min(found) == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_sparse_instances_are_judged_by_their_directions(seed):
    rng = np.random.default_rng(seed)
    counts = rng.random((80, 12)) * (rng.random((80, 12)) < 0.4)  # no counts, so that no two distances are the same
    counts[counts.sum(axis=1) == 0, 0] = 1.0
    bags = Bags(sp.csr_array(counts), np.arange(0, 81, 8))
    novelty = Novelty.learn(bags)
    weights = TfidfTransformer().fit(counts)
    own = cosine_distances(weights.transform(counts).toarray())
    own[bags.bag_index[:, None] == bags.bag_index] = np.inf
    nearest = np.sqrt(2 * own.min(axis=1))
    assert_allclose(novelty.distances, np.sort(nearest), atol=1e-3)
    new = rng.random((30, 12)) * (rng.random((30, 12)) < 0.4)
    new[3] = 0.0
    far = cosine_distances(weights.transform(new).toarray(), weights.transform(counts).toarray()).min(axis=1)
    expected = [np.mean(nearest >= np.sqrt(2 * distance)) for distance in far]
    expected[3] = 0.0  # without any known word it is unlike everything
    assert_allclose(novelty.rarity(sp.csr_matrix(new)), expected, atol=1 / 80 + 1e-9)
    assert_allclose(novelty.rarity(new), novelty.rarity(sp.csr_matrix(new)))
    assert novelty.is_novel(new)[3]


def test_a_model_of_dense_instances_judges_sparse_ones():
    rng = np.random.default_rng(0)
    dense = rng.random((80, 6)) * (rng.random((80, 6)) < 0.4)
    novelty = Novelty.learn(Bags(dense, np.arange(0, 81, 8)))
    assert_allclose(novelty.rarity(dense[:20]), novelty.rarity(sp.csr_array(dense)[:20]))


def test_the_reference_is_bounded_and_travels_with_the_model(tmp_path):
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(4000, 3)), np.arange(0, 4001, 10))
    novelty = Novelty.learn(bags)
    assert len(novelty.reference) == N_REFERENCE
    model = MostFrequentAnnotator().fit(bags, rng.integers(0, 2, (400, 2)) | [[1, 0]])
    assert Novelty.of(model) is None
    setattr(model, ATTRIBUTE, novelty.to_dict())
    bagwise.save(model, tmp_path / "model.bagwise")
    new = rng.normal(size=(50, 3)) * 3
    assert_allclose(Novelty.of(bagwise.load(tmp_path / "model.bagwise")).rarity(new), novelty.rarity(new))


def test_too_few_bags_tell_nothing_and_other_features_are_refused():
    bags = Bags(np.random.default_rng(0).normal(size=(20, 2)), [0, 10, 20])
    assert Novelty.learn(bags) is None
    novelty = Novelty.learn(Bags(bags.instances, [0, 5, 10, 20]))
    with pytest.raises(InputError, match="3 features; novelty knows 2"):
        novelty.rarity(np.zeros((1, 3)))
    constant = Bags(np.ones((20, 2)), [0, 5, 10, 20])
    assert Novelty.learn(constant).is_novel(np.array([[1.0, 1.0], [1.0, 2.0]])).tolist() == [False, True]


def test_a_sparse_reference_travels_with_the_model(tmp_path):
    rng = np.random.default_rng(0)
    bags = Bags(sp.csr_matrix(rng.poisson(0.4, (80, 12)).astype(float)), np.arange(0, 81, 8))
    model = MostFrequentAnnotator().fit(bags, rng.integers(0, 2, (10, 2)) | [[1, 0]])
    setattr(model, ATTRIBUTE, Novelty.learn(bags).to_dict())
    bagwise.save(model, tmp_path / "m.bagwise")
    kept = Novelty.of(bagwise.load(tmp_path / "m.bagwise"))
    assert sp.issparse(kept.reference)
    assert_allclose(kept.rarity(bags.instances), Novelty.learn(bags).rarity(bags.instances))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_the_rate_of_false_alarms_is_that_which_is_asked_for(rate):
    alarms = []
    for seed in range(10):
        data = make_gaussian_bags(n_bags=300, n_features=4, random_state=seed)
        novelty = Novelty.learn(data.bags[:200])
        instances = data.bags[200:].instances
        alarms.append(novelty.is_novel(instances, rate).mean())
        assert_allclose(novelty.is_novel(instances, rate), novelty.rarity(instances) < rate)
    assert abs(np.mean(alarms) - rate) < 0.25 * rate
    with pytest.raises(InputError, match="no share of false alarms"):
        novelty.is_novel(instances, 1.5)
