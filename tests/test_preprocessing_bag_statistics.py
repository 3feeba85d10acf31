"""Bags as one vector each, against numpy written out for every bag, and sparse against dense."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline as sklearn_pipeline

from bagwise.annotation import CLPL, ORedLogisticRegression
from bagwise.classification import BagStack
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.model_selection import evaluate
from bagwise.pipeline import bag_tags, make_pipeline
from bagwise.preprocessing._bag_statistics import STATISTICS, BagStatistics

PLAIN = {"mean": np.mean, "max": np.max, "min": np.min, "deviation": np.std}


@st.composite
def some_bags(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    instances = rng.normal(size=(sum(sizes), draw(st.integers(1, 4))))
    instances[rng.random(instances.shape) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0.0
    return Bags(instances, offsets_of(sizes))


@given(some_bags(), st.permutations(STATISTICS), st.integers(1, 4))
def test_each_bag_for_itself_dense_and_sparse(bags, order, n_used):
    names = tuple(order[:n_used])
    wanted = np.array([np.concatenate([PLAIN[name](bag, axis=0) for name in names]) for bag in bags])
    assert_allclose(BagStatistics(names).fit_transform(bags), wanted, rtol=1e-12, atol=1e-12)
    sparse = BagStatistics(names).fit_transform(Bags(sp.csr_matrix(bags.instances), bags.offsets))
    assert sp.issparse(sparse)
    assert_allclose(sparse.toarray(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("statistics", [(), ("median",), "median"])
def test_unknown_statistics_are_named(statistics):
    with pytest.raises(InputError, match="must be some of mean, max, min, deviation"):
        BagStatistics(statistics).fit(np.ones((3, 2)))


def test_one_statistic_may_be_given_alone():
    X = np.arange(6.0).reshape(3, 2)
    assert_allclose(BagStatistics("mean").fit_transform(X), X)


def test_names_of_the_columns_and_frames_of_them():
    frames = [pd.DataFrame({"low": [0.0, 2.0], "high": [1.0, 5.0]}), pd.DataFrame({"low": [4.0], "high": [4.0]})]
    model = BagStatistics(("mean", "max")).set_output(transform="pandas").fit(frames)
    assert model.transform(frames).columns.tolist() == ["mean_low", "mean_high", "max_low", "max_high"]
    assert model.transform(frames).to_numpy().tolist() == [[1.0, 3.0, 2.0, 5.0], [4.0, 4.0, 4.0, 4.0]]
    bags = Bags(np.arange(6.0).reshape(3, 2), [0, 2, 3])
    assert BagStatistics("mean").fit(bags).get_feature_names_out().tolist() == ["mean_x0", "mean_x1"]
    assert BagStatistics("mean").fit(bags).get_feature_names_out(["a", "b"]).tolist() == ["mean_a", "mean_b"]
    pipe = sklearn_pipeline(BagStatistics(), LogisticRegression()).set_output(transform="pandas").fit(bags, [0, 1])
    assert pipe[-1].feature_names_in_[:2].tolist() == ["mean_x0", "mean_x1"]
    assert_allclose(
        pipe.predict(bags), sklearn_pipeline(BagStatistics(), LogisticRegression()).fit(bags, [0, 1]).predict(bags)
    )
    sparse = Bags(sp.csr_matrix(bags.instances), bags.offsets)
    assert sp.issparse(BagStatistics().set_output(transform="pandas").fit_transform(sparse))  # no frame holds it


def test_a_table_that_cannot_fit_is_refused(monkeypatch):
    model = BagStatistics().fit(np.ones((3, 2)))
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "100")
    with pytest.raises(MemoryLimitError, match="4 statistics of 3 bags of 2 features"):
        model.transform(np.ones((3, 2)))


def test_what_comes_after_sees_no_instances():
    """A learner of the rows predicts bags; it does not annotate, and a stack does not listen to it."""
    data = make_gaussian_bags(n_bags=20, random_state=0)
    for pipe in (
        make_pipeline(BagStatistics(), CLPL(C=1.0)),
        make_pipeline(make_pipeline(BagStatistics()), make_pipeline(CLPL(C=1.0))),
        make_pipeline(make_pipeline(BagStatistics(), CLPL(C=1.0))),
    ):
        pipe.fit(data.bags, data.Y)
        assert pipe.predict(data.bags).shape == data.Y.shape
        assert not bag_tags(pipe).annotates
        for method in ("find", "annotate", "predict_instances", "instance_decision_function"):
            assert not hasattr(pipe, method), method
        assert "accuracy" not in evaluate(pipe, data, cv=2, random_state=0)[0]
    member = make_pipeline(BagStatistics(), ORedLogisticRegression(on_infeasible="relax"))
    with pytest.raises(InputError, match="gives no probabilities for instances"):
        BagStack([member]).fit(data.bags, data.Y)
