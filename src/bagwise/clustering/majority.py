"""Instances clustered by k-means, bags by the majority of their instances."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.metrics.pairwise import euclidean_distances

from bagwise.bags import Bags
from bagwise.base import BagEstimator, validate_bags
from bagwise.clustering._shared import (
    CLUSTERED,
    best_in_bag,
    check_clusterable,
    check_enough_bags,
    check_n_clusters,
    fit_centres,
    majority_votes,
    vote_margins,
)
from bagwise.fitted import Attribute, Numbers
from bagwise.parameters import check_count
from bagwise.typing import BagsLike


class MajorityKMeans(ClusterMixin, BagEstimator):
    """Clusters instances by scikit-learn's k-means; a bag goes where most of its instances are.

    The reference of Zhang et al. (2011) that knows nothing of bags. A bag whose votes are even goes to the cluster that
    has more instances in all.

    Parameters
    ----------
    n_clusters : int, default=2
    n_init : int, default=10
        Runs of k-means; the one of the lowest inertia is kept.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) array of int
        Clusters, numbered by their number of instances, the largest first. A cluster may win no bag.
    instance_labels_ : (m,) array of int
    witnesses_ : (n,) array of int
        Position within its bag of the instance nearest to the centre of the bag's cluster.
    margins_ : (n,) array
        Share of the bag's instances that are in its cluster, less that in the second: 0 where the votes are even.
    cluster_centers_ : (k, d) array
    objective_ : float
        Inertia: the sum of squared distances of instances to their centres.
    n_iter_ : int
    objective_history_ : (1,) array
        The objective at the end.
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import MajorityKMeans
    >>> bags = [np.array([[0.0], [0.1], [9.0]]), np.array([[0.2]]), np.array([[9.1], [9.2]])]
    >>> MajorityKMeans(2, random_state=0).fit_predict(bags).tolist()
    [0, 0, 1]
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "cluster_centers_": Numbers("clusters", "features"),
        "instance_labels_": Numbers("instances", whole=True, low=0), **CLUSTERED,
    }  # fmt: skip

    def __init__(self, n_clusters: int = 2, *, n_init: int = 10, random_state: Any = None):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: BagsLike, y: Any = None) -> MajorityKMeans:
        """Find clusters of bags.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        y : ignored
        """
        check_n_clusters(self)
        check_count(self, "n_init")
        bags = validate_bags(self, X, reset=True)
        check_enough_bags(self, len(bags))
        check_clusterable(bags)
        fit_centres(self, bags.instances)
        distances = self._distances(bags)
        self.instance_labels_ = distances.argmin(axis=1)
        self.labels_ = majority_votes(self.instance_labels_, bags, self.n_clusters)
        self.margins_ = vote_margins(self.instance_labels_, bags, self.n_clusters)
        own = np.repeat(self.labels_, bags.sizes)
        self.witnesses_ = best_in_bag(-distances[np.arange(len(own)), own], bags.offsets)
        return self

    def predict(self, X: BagsLike) -> np.ndarray:
        """(n,) cluster of every bag."""
        bags = self._start_predict(X)
        return majority_votes(self._distances(bags).argmin(axis=1), bags, len(self.cluster_centers_))

    def _distances(self, bags: Bags) -> np.ndarray:
        """(m, k) squared distances of the instances to the centres."""
        return euclidean_distances(bags.instances, self.cluster_centers_, squared=True).astype(np.float64, copy=False)
