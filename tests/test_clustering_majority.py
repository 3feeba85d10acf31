"""k-means by majority against counting, and against k-means itself."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

import bagwise
from bagwise import Bags
from bagwise.clustering import MajorityKMeans
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError
from bagwise.metrics import clustering_accuracy


def random_bags(seed, n_bags=25, n_features=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_bags)
    return Bags(rng.normal(size=(sizes.sum(), n_features)), offsets_of(sizes))


@pytest.mark.parametrize("seed", range(10))
def test_bags_follow_most_of_their_instances(seed):
    bags, k = random_bags(seed), 2 + seed % 4
    model = MajorityKMeans(k, n_init=2, random_state=seed).fit(bags)
    distances = np.linalg.norm(bags.instances[:, None] - model.cluster_centers_, axis=2)
    assert np.array_equal(model.instance_labels_, distances.argmin(axis=1))
    assert np.all(np.diff(np.bincount(model.instance_labels_, minlength=k)) <= 0)
    for i, votes in enumerate(bags.split(model.instance_labels_)):
        counts = Counter(votes.tolist())
        most = max(counts.values())
        assert model.labels_[i] == min(c for c, count in counts.items() if count == most)
        own = distances[bags.offsets[i] : bags.offsets[i + 1], model.labels_[i]]
        assert model.witnesses_[i] == own.argmin()
    assert model.predict(bags).tolist() == model.labels_.tolist()
    assert model.objective_ == pytest.approx((distances.min(axis=1) ** 2).sum(), rel=1e-6)


def test_bags_of_one_instance_are_plain_k_means(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = MajorityKMeans(4, n_init=3, random_state=0).fit(X)
    reference = KMeans(4, n_init=3, random_state=0).fit(X)
    assert clustering_accuracy(reference.labels_, model.labels_) == 1.0
    assert model.objective_ == pytest.approx(reference.inertia_)
    bagwise.save(model, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").predict(X).tolist() == model.labels_.tolist()


def test_sparse_gives_what_dense_gives():
    bags = random_bags(1)
    X = np.where(np.abs(bags.instances) > 0.5, bags.instances, 0.0)
    dense = MajorityKMeans(3, random_state=0).fit(Bags(X, bags.offsets))
    sparse = MajorityKMeans(3, random_state=0).fit(Bags(sp.csr_matrix(X), bags.offsets))
    assert clustering_accuracy(dense.labels_, sparse.labels_) == 1.0


def test_bad_input():
    with pytest.raises(InputError, match="n_clusters.*2 or more. Got 0"):
        MajorityKMeans(0).fit(random_bags(0))
    with pytest.raises(InputError, match="n_clusters=26 is more than the 25 bags"):
        MajorityKMeans(26).fit(random_bags(0))
    with pytest.raises(InputError, match="'n_init' parameter"):
        MajorityKMeans(2, n_init=0).fit(random_bags(0))
    with pytest.raises(InputError, match="All features are zero"):
        MajorityKMeans(2).fit(np.zeros((5, 2)))
