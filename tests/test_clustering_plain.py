"""The plain baseline is scikit-learn's pipeline, it is advised where it is steadier, and shares of stays are shares."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from bagwise import BagDataset, Bags
from bagwise.app.report.clusters import clusters_in_words, describe_clusters, summarize_clusters, write_cluster_page
from bagwise.clustering import MeanKMeans, Trial
from bagwise.clustering._stability import Halves, _matched, is_steadier, try_halves
from bagwise.clustering.find import find_clusters, make_clusterer
from bagwise.clustering.scaling import scale_bags


def words(sparse, n=30, v=24):
    """Texts of three topics, of which each uses a third of the words mostly."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    rates = np.where(np.arange(v) // (v // 3) == np.repeat(truth, 2)[:, None], 0.9, 0.05)
    X = rng.poisson(rates).astype(float)
    return Bags(sp.csr_matrix(X) if sparse else X, np.arange(n + 1) * 2), truth


def measurements(distance=4.0, n=40):
    rng = np.random.default_rng(1)
    truth = np.arange(n) % 2
    X = rng.normal(size=(n, 3, 2)) * [1.0, 100.0]
    X[:, :, 0] += distance * truth[:, None]
    return Bags(X.reshape(-1, 2), np.arange(n + 1) * 3), truth


@pytest.mark.parametrize("sparse", [False, True])
def test_words_are_tf_idf_of_whole_documents(sparse):
    bags, truth = words(sparse)
    model = make_clusterer("plain-kmeans", n_clusters=3, random_state=0).fit(bags)
    dense = words(False)[0].instances
    rows = TfidfTransformer().fit_transform(dense[::2] + dense[1::2])
    right = KMeans(3, n_init=10, random_state=0).fit_predict(rows)
    assert adjusted_rand_score(right, model.labels_) == 1.0
    assert adjusted_rand_score(truth, model.labels_) > 0.8
    np.testing.assert_array_equal(model.predict(bags), model.labels_)
    np.testing.assert_allclose(model.rows_of(bags).toarray(), rows.toarray())


def test_measurements_are_scaled_statistics():
    bags, _ = measurements()
    cube = bags.instances.reshape(40, 3, 2)
    table = np.hstack([cube.mean(axis=1), cube.max(axis=1), cube.min(axis=1), cube.std(axis=1)])
    rows = StandardScaler().fit_transform(table)
    model = make_clusterer("plain-kmeans", n_clusters=2, random_state=0).fit(bags)
    np.testing.assert_allclose(model.rows_of(bags), rows)
    assert adjusted_rand_score(KMeans(2, n_init=10, random_state=0).fit_predict(rows), model.labels_) == 1.0


def test_clusters_are_matched_one_to_one():
    labels = np.array([0, 0, 0, 1, 1, 2])
    assert _matched(np.array([2, 2, 2, 0, 0, 1]), labels, 3).tolist() == labels.tolist()
    assert _matched(np.array([1, 1, 0, 0, 0, 0]), labels, 3).tolist() == [0, 0, 1, 1, 1, 1]


def test_bags_of_clusters_stay_and_those_of_noise_do_not():
    bags, _ = measurements(distance=9.0)
    scaled = scale_bags(bags, "within-bag")
    model = MeanKMeans(2, random_state=0).fit(scaled)
    assert try_halves(scaled, model, model.labels_, 0).shares.tolist() == [1.0] * 40
    near, _ = measurements(distance=1.0)  # some bags lie between the clusters, and go to either
    scaled = scale_bags(near, "within-bag")
    model = MeanKMeans(2, random_state=0).fit(scaled)
    shares = try_halves(scaled, model, model.labels_, 0).shares
    assert shares[model.margins_.argmax()] == 1.0
    assert shares[np.argsort(model.margins_)[:3]].min() < 0.9
    noise = Bags(np.random.default_rng(0).normal(size=(120, 6)), np.arange(41) * 3)
    model = make_clusterer("mixture", n_clusters=4, n_codebooks=2, random_state=0).fit(noise)
    assert try_halves(noise, model, model.labels_, 0).shares.mean() < 0.7
    assert model.margins_.mean() > try_halves(noise, model, model.labels_, 0).shares.mean()
    assert try_halves(bags[:5], MeanKMeans(3), np.zeros(5, dtype=int), 0) is None


def test_steadier_needs_stability_and_gap():
    def found(stability, noise, p=0.05, spread=0.01):
        record = {"n_clusters": 2, "stability": stability, "noise": noise, "gap": stability - noise}
        return Trial([record], p, 19), Halves(np.ones(4), stability + spread * np.array([1.0, -1.0, 1.0, -1.0]))

    assert is_steadier(*found(0.6, 0.1), *found(0.5, 0.1))
    assert not is_steadier(*found(0.6, 0.1, spread=0.2), *found(0.5, 0.1))  # so much is chance
    assert not is_steadier(*found(0.6, 0.5), *found(0.5, 0.1))  # it cuts noise as well
    assert not is_steadier(*found(0.4, 0.0), *found(0.5, 0.2))
    assert not is_steadier(*found(0.6, 0.1, 0.5), *found(0.5, 0.1))
    assert not is_steadier(*found(0.6, 0.1), *found(0.5, 0.1, None))
    assert not is_steadier(*found(0.6, 0.1), found(0.5, 0.1)[0], None)


def test_advice_stands_in_words_and_on_the_page(tmp_path):
    bags, _ = words(True)
    names = [f"word{j}" for j in range(24)]
    dataset = BagDataset(bags=bags, bag_names=[f"text {i}" for i in range(30)], feature_names=names, name="texts")
    found = find_clusters(bags, make_clusterer("bamic", random_state=0), [3])
    for is_better in (False, True):
        result = replace(found, baseline=replace(found.baseline, is_better=is_better))
        about = describe_clusters(dataset, result)
        assert about["recommended"] == ("plain-kmeans" if is_better else None)
        text = clusters_in_words({"model": "bamic", **about})
        assert ("Take plain-kmeans instead: its 3 clusters" in text) is is_better
        write_cluster_page(summarize_clusters(dataset, result, "bamic"), tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert ("Take plain-kmeans instead" in page) is is_better
    own = about["baseline"]["words"]
    assert sorted(tuple(sorted(int(name[4:]) // 8 for name in part))[:8] for part in own) == [
        (topic,) * 8 for topic in range(3)
    ]


def test_p_comes_with_its_resolution():
    at_least = Trial([], 0.05, 19).in_words()
    assert "p <= 0.05, the least that 19 sets of noise of the same shape can give; n_noise=99 is finer" in at_least
    assert "p = 0.1 against 19 sets" in Trial([], 0.1, 19).in_words()
