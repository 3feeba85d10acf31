"""What the clusterers share: checks, numbering by size, majority votes."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.fitted import ITERATED, Attribute, Maybe, Number, Numbers
from bagwise.kernels.segments import segment_max
from bagwise.parameters import check_that

CLUSTERED: dict[str, Attribute] = {
    "labels_": Numbers("bags", whole=True, low=0), "witnesses_": Numbers("bags", whole=True, low=0),
    "margins_": Maybe(Numbers("bags")), "objective_": Number(), **ITERATED,
}  # fmt: skip
"""Attributes of every clusterer; in earlier versions not all had margins."""
FARTHEST = 1e100  # features between 1 / FARTHEST and FARTHEST: squares of others overflow or vanish


def check_n_clusters(estimator: Any) -> None:
    """Fewer than two clusters are none."""
    check_that(
        estimator,
        "n_clusters",
        lambda k: isinstance(k, Integral) and int(k) >= 2,
        "a whole number, 2 or more",
    )


def check_enough_bags(estimator: Any, n_bags: int) -> None:
    """There cannot be more clusters than bags."""
    if n_bags < 2:
        raise InputError(
            f"There is 1 bag (n_samples=1), and a clustering needs at least 2; {type(estimator).__name__} groups bags, "
            "not the instances of one."
        )
    if estimator.n_clusters > n_bags:
        raise InputError(
            f"n_clusters={estimator.n_clusters} is more than the {n_bags} bags; ask for as many as there are at most."
        )


def check_clusterable(bags: Bags) -> None:
    """Something must tell the bags apart."""
    X = bags.instances
    values = X.data if sp.issparse(X) else X
    if not values.any():
        raise InputError("All features are zero, so nothing tells the bags apart; check how they were made.")
    low, high = (np.asarray(f(axis=0).todense() if sp.issparse(X) else f(axis=0)).ravel() for f in (X.min, X.max))
    largest = max(float(high.max()), -float(low.min()))
    if not 1.0 / FARTHEST < largest < FARTHEST:
        raise InputError(
            f"The largest feature is {largest:.3g}, and such numbers have no squares; scale the features, for "
            "example with PerInstance(StandardScaler())."
        )
    if (low == high).all():
        raise InputError("All instances are identical, so nothing tells the bags apart; check the features.")
    if _all_equal_first(bags):
        raise InputError("All bags are identical, so nothing tells them apart; check the features.")


def _all_equal_first(bags: Bags) -> bool:
    """Whether all bags hold the same instances, in whatever order and however often."""
    for describe in (_highest, _distinct_rows):  # as a rule the second bag's largest values differ: the rest is slow
        first = describe(bags[0])
        if not all(np.array_equal(describe(bag), first) for bag in bags):
            return False
    return True


def _highest(bag: Any) -> np.ndarray:
    return bag.max(axis=0).toarray() if sp.issparse(bag) else bag.max(axis=0)


def _distinct_rows(bag: Any) -> np.ndarray:
    return np.unique(bag.toarray() if sp.issparse(bag) else bag, axis=0)


def rank_by_size(clusters: np.ndarray, n_clusters: int) -> np.ndarray:
    """(k,) new number of each cluster, the largest first."""
    rank = np.empty(n_clusters, dtype=np.int64)
    rank[np.argsort(-np.bincount(clusters, minlength=n_clusters), kind="stable")] = np.arange(n_clusters)
    return rank


def fit_centres(estimator: Any, rows: Any) -> None:
    """Fit k-means to rows, and set what an estimator tells of it; its clusters are numbered from the largest."""
    model = KMeans(estimator.n_clusters, n_init=estimator.n_init, random_state=estimator.random_state).fit(rows)
    estimator.cluster_centers_ = np.empty((estimator.n_clusters, rows.shape[1]))
    estimator.cluster_centers_[rank_by_size(model.labels_, estimator.n_clusters)] = model.cluster_centers_
    estimator.objective_, estimator.n_iter_ = float(model.inertia_), int(model.n_iter_)
    estimator.objective_history_ = np.array([estimator.objective_])
    estimator.converged_ = estimator.n_iter_ < model.max_iter


def majority_votes(instance_clusters: np.ndarray, bags: Bags, n_clusters: int) -> np.ndarray:
    """(n,) cluster that most instances of the bag are in; of several, the first."""
    cells = bags.bag_index * n_clusters + instance_clusters
    return np.bincount(cells, minlength=len(bags) * n_clusters).reshape(len(bags), n_clusters).argmax(axis=1)


def best_in_bag(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n,) position within each bag of its largest value, the first of several."""
    n_bags = len(offsets) - 1
    maxima, rows = np.empty((n_bags, 1)), np.empty((n_bags, 1), dtype=np.int64)
    segment_max(values[:, None], offsets, maxima, rows)
    return rows[:, 0] - offsets[:-1]


def gap_to_second(distances: np.ndarray) -> np.ndarray:
    """(n,) 1 minus the smallest distance of each row over the second smallest: 0 for equal ones, 1 for zero."""
    nearest = np.partition(distances, 1, axis=1)
    return 1.0 - nearest[:, 0] / np.where(nearest[:, 1] > 0.0, nearest[:, 1], 1.0) - (nearest[:, 1] == 0.0)


def vote_margins(instance_clusters: np.ndarray, bags: Bags, n_clusters: int) -> np.ndarray:
    """(n,) share of a bag's instances in its first cluster less that in its second."""
    cells = bags.bag_index * n_clusters + instance_clusters
    votes = np.bincount(cells, minlength=len(bags) * n_clusters).reshape(len(bags), n_clusters)
    ranked = np.sort(votes, axis=1)
    return (ranked[:, -1] - ranked[:, -2]) / bags.sizes
