"""What the clusterers share: checks, numbering by size, votes, witnesses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel
from sklearn.base import ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning

from bagwise.core.bags import Bags, as_bags
from bagwise.core.base import BagEstimator
from bagwise.core.checks import check_that, is_count
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.fitted import ITERATED, Attribute, Number, Numbers
from bagwise.core.typing import BagsLike
from bagwise.core.validation import check_finite, validate_bags
from bagwise.kernels.segments import segment_max

FARTHEST = 1e100  # features between 1 / FARTHEST and FARTHEST: squares of others overflow or vanish


class BagClusterer(ClusterMixin, BagEstimator):
    """Root of the clusterers; a subclass gives `_cluster(bags)`, the fit, and `_assign(bags)`, clusters of bags."""

    _fitted: ClassVar[dict[str, Attribute]] = {
        "labels_": Numbers("bags", whole=True, low=0),
        "witnesses_": Numbers("bags", whole=True, low=0),
        "margins_": Numbers("bags"),
        "objective_": Number(),
        **ITERATED,
    }
    n_clusters: int
    check_parameters: Any
    _cluster: Any
    _assign: Any

    def fit(self, X: BagsLike, y: Any = None) -> Self:
        """Find clusters of bags.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        y : ignored
        """
        self.check_parameters()
        bags = validate_bags(self, X, reset=True)
        self.check_number(len(bags))
        check_clusterable(bags)
        self._cluster(bags)
        return self

    def predict(self, X: BagsLike) -> np.ndarray:
        """(n,) cluster of every bag."""
        return self._assign(self._start_predict(X))

    def check_number(self, n_bags: int) -> None:
        """Refuse a number of clusters into which so many bags cannot be grouped."""
        check_that(self, "n_clusters", lambda k: isinstance(k, Integral) and int(k) >= 2, "a whole number, 2 or more")
        if n_bags < 2:
            raise InputError(
                f"There is 1 bag (n_samples=1), and a clustering needs at least 2; {type(self).__name__} groups bags, "
                "not the instances of one."
            )
        if self.n_clusters > n_bags:
            raise InputError(
                f"n_clusters={self.n_clusters} is more than the {n_bags} bags; ask for as many as there are at most."
            )

    def _keep_end(self, objective: float, n_iter: int, converged: bool, history: Any = None) -> None:
        """What a procedure with iterations leaves; without a `history`, the objective at the end."""
        self.objective_, self.n_iter_, self.converged_ = objective, n_iter, converged
        self.objective_history_ = np.asarray([objective] if history is None else history)


def start_trials(estimator: Any, X: BagsLike, n_clusters: int | Iterable[int], **counts: Any) -> tuple[Bags, list[int]]:
    """Bags and the numbers of clusters to try on them, all checked before the first fit; so are other `counts`."""
    for name, value in counts.items():
        if not is_count(value):
            raise InputError(f"{name} must be a whole number, 1 or more. Got {value!r}.")
    bags = as_bags(X)
    check_finite(bags)
    ks = as_values(n_clusters)
    for k in ks:
        clone(estimator).set_params(n_clusters=k).check_number(len(bags))
    return bags, ks


@contextmanager
def quietly() -> Iterator[None]:
    """Trials do not warn of empty clusters or of iterations that ended early: what they give shows it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def all_done(
    tasks: Iterable[Any], n_tasks: int, n_jobs: int | None, progress: Callable[[int, int], None] | None
) -> list[Any]:
    """What the delayed calls give, in parallel; `progress` is called with those done and their number."""
    done: list[Any] = []
    for found in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
        done.append(found)
        if progress is not None:
            progress(len(done), n_tasks)
    return done


def as_values(value: Any) -> list[Any]:
    """One value or several as a list."""
    return list(value) if isinstance(value, Iterable) else [value]


def check_clusterable(bags: Bags) -> None:
    """Raise where no feature distinguishes the bags."""
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
    for describe in (_highest, _distinct_rows):  # as a rule the second bag's largest values differ: the rest is slow
        first = describe(bags[0])
        if not all(np.array_equal(describe(bag), first) for bag in bags):
            return
    raise InputError("All bags are identical, so nothing tells them apart; check the features.")


def _highest(bag: Any) -> np.ndarray:
    return bag.max(axis=0).toarray() if sp.issparse(bag) else bag.max(axis=0)


def _distinct_rows(bag: Any) -> np.ndarray:
    """The instances, in one order and each once."""
    return np.unique(bag.toarray() if sp.issparse(bag) else bag, axis=0)


def warn_empty_clusters(labels: np.ndarray, n_clusters: int, cure: str) -> None:
    """Warn where some clusters hold no bag."""
    n_used = len(np.unique(labels))
    if n_used < n_clusters:
        warn_caller(f"Only {n_used} of {n_clusters} clusters hold a bag; {cure}.", ConvergenceWarning)


def rank_by_size(clusters: np.ndarray, n_clusters: int) -> np.ndarray:
    """(k,) new number of each cluster, the largest first."""
    rank = np.empty(n_clusters, dtype=np.int64)
    rank[np.argsort(-np.bincount(clusters, minlength=n_clusters), kind="stable")] = np.arange(n_clusters)
    return rank


def unit_direction(total: np.ndarray, size: float) -> tuple[np.ndarray, float]:
    """A sum's direction and length; both zero where it is nothing but the rounding of terms of this size in all."""
    length = float(np.linalg.norm(total))
    if length <= 1e-10 * size:
        return np.zeros_like(total), 0.0
    return total / length, length


def majority(instance_clusters: np.ndarray, bags: Bags, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) cluster of most instances of each bag, the first of several, and its share less that of the second."""
    cells = bags.bag_index * n_clusters + instance_clusters
    votes = np.bincount(cells, minlength=len(bags) * n_clusters).reshape(len(bags), n_clusters)
    ranked = np.sort(votes, axis=1)
    return votes.argmax(axis=1), (ranked[:, -1] - ranked[:, -2]) / bags.sizes


def find_witnesses(scores: np.ndarray, labels: np.ndarray, bags: Bags) -> np.ndarray:
    """(n,) position within each bag of the instance, the first of several, of the largest score in the bag's cluster.

    Parameters
    ----------
    scores : (m, k) array
    labels : (n,) array
        Clusters of the bags.
    bags : Bags
    """
    own = scores[np.arange(len(scores)), np.repeat(labels, bags.sizes)][:, None]
    best, rows = np.empty((len(bags), 1)), np.empty((len(bags), 1), dtype=np.int64)
    segment_max(own, bags.offsets, best, rows)
    return rows[:, 0] - bags.offsets[:-1]


def gap_to_second(distances: np.ndarray) -> np.ndarray:
    """(n,) 1 minus the smallest distance of each row over the second smallest: 0 for equal ones, 1 for zero."""
    nearest = np.partition(distances, 1, axis=1)
    return 1.0 - nearest[:, 0] / np.where(nearest[:, 1] > 0.0, nearest[:, 1], 1.0) - (nearest[:, 1] == 0.0)
