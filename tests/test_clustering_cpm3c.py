"""CPM3C: its objective by loops, its cuts by enumeration, its cap, planted groups."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import bagwise
from bagwise import Bags
from bagwise.clustering import CPM3C
from bagwise.clustering._cpm3c import _InstanceProblem, _ranked, _solve_cccp
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError
from bagwise.metrics import clustering_accuracy


def random_bags(seed, n_bags=15, n_features=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    return Bags(rng.normal(size=(sizes.sum(), n_features)) + 0.5, offsets_of(sizes))


def objective_by_loops(X, W, C):
    loss = []
    for x in X:
        best, second = sorted((float(w @ x) for w in W), reverse=True)[:2]
        loss.append(max(0.0, 1.0 - (best - second)))
    return 0.5 * float((W**2).sum()) + C * np.mean(loss)


@pytest.mark.parametrize("seed", range(12))
def test_fitted_attributes_are_those_of_the_weights(seed):
    k, balance = 2 + seed % 3, [0.0, 0.5, 4.0][seed % 3]
    bags = random_bags(seed)
    model = CPM3C(k, C=4.0, balance=balance, n_init=2, random_state=seed).fit(bags)
    assert model.objective_ == pytest.approx(objective_by_loops(bags.instances, model.coef_, 4.0), rel=1e-9)
    totals = model.coef_ @ bags.instances.sum(axis=0)
    assert np.ptp(totals) <= balance + 1e-9
    assert 1 <= model.n_iter_ <= 20
    assert model.converged_ or model.n_iter_ == 20
    scores = bags.instances @ model.coef_.T
    assert np.array_equal(model.instance_labels_, scores.argmax(axis=1))
    for i, votes in enumerate(bags.split(model.instance_labels_)):
        assert model.labels_[i] == np.bincount(votes, minlength=k).argmax()
        assert model.witnesses_[i] == scores[bags.offsets[i] : bags.offsets[i + 1], model.labels_[i]].argmax()
    assert model.predict(bags).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_the_cut_added_is_the_most_violated_of_all(seed):
    """Each instance is out of the cut, or in it with one rival: the loss is the largest violation over all ways."""
    rng = np.random.default_rng(seed)
    k, m = 3, 4
    X, W = rng.normal(size=(m, 2)), rng.normal(size=(k, 2))
    scores = X @ W.T
    winners, rivals = _ranked(scores)
    violations = []
    for choice in product(range(-1, k), repeat=m):
        if any(rival == winners[i] for i, rival in enumerate(choice)):
            continue
        terms = [1 - (scores[i, winners[i]] - scores[i, rival]) for i, rival in enumerate(choice) if rival >= 0]
        violations.append(sum(terms) / m)
    margins = scores[np.arange(m), winners] - scores[np.arange(m), rivals]
    assert np.maximum(0, 1 - margins).mean() == pytest.approx(max(violations), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_cccp_lowers_the_objective_under_the_cuts(seed):
    """The problem under the cuts, with the winners of the weights themselves, is lower than at the start."""
    bags, k, C = random_bags(seed), 3, 2.0
    problem = _InstanceProblem(bags.instances, k, C, 0.5)
    start = problem.random_weights(seed)
    rng = np.random.default_rng(seed)
    m = bags.n_instances
    made_of = [
        (np.ones(m), _ranked(problem.scores(start))[1]),
        (rng.integers(0, 2, m) * 1.0, rng.integers(0, k, m)),
    ]
    cuts = [problem.make_cut(*parts) for parts in made_of]

    def value(W):
        scores = problem.scores(W)
        best = scores.max(axis=1)
        excess = [np.mean(mask * (1 - best + scores[np.arange(m), rivals])) for mask, rivals in made_of]
        return 0.5 * (W**2).sum() + C * max(0.0, *excess)

    found, xi = _solve_cccp(problem, cuts, start, tol=0.0)
    assert value(found) <= min(value(start), value(np.zeros_like(start))) + 1e-6
    assert value(found) <= 0.5 * (found**2).sum() + C * xi + 1e-6


def test_groups_are_found_sparse_or_dense(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(45) % 3
    centres = 4 * np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    bags = [centres[c] + 0.2 * rng.normal(size=(3, 3)) for c in truth]
    model = CPM3C(3, random_state=0).fit(bags)
    assert clustering_accuracy(truth, model.labels_) == 1.0
    sparse = CPM3C(3, random_state=0).fit([sp.csr_matrix(bag) for bag in bags])
    assert clustering_accuracy(truth, sparse.labels_) == 1.0
    bagwise.save(model, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").predict(bags).tolist() == model.labels_.tolist()


def test_the_cap_is_kept():
    model = CPM3C(4, C=50.0, tol_inner=1e-9, max_cuts=3, n_init=1, random_state=0).fit(random_bags(0, n_bags=30))
    assert model.n_iter_ == 3
    assert not model.converged_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 1}, "n_clusters.*Got 1"),
        ({"n_clusters": 16}, "n_clusters=16 is more than the 15 bags"),
        ({"C": -1.0}, "'C' parameter"),
        ({"balance": -1.0}, "'balance' parameter"),
        ({"max_cuts": 0}, "'max_cuts' parameter"),
    ],
    ids=["one cluster", "too many", "C", "balance", "max_cuts"],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InputError, match=message):
        CPM3C(**{"n_clusters": 2, **parameters}).fit(random_bags(0))
