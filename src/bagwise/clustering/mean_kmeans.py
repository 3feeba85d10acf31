"""k-means of the bags' means."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.metrics.pairwise import euclidean_distances

from bagwise.base import BagEstimator, validate_bags
from bagwise.clustering._shared import (
    CLUSTERED,
    best_in_bag,
    check_clusterable,
    check_enough_bags,
    check_n_clusters,
    fit_centres,
    gap_to_second,
)
from bagwise.clustering.whitening import bag_means
from bagwise.fitted import Attribute, Numbers
from bagwise.parameters import check_count


class MeanKMeans(ClusterMixin, BagEstimator):
    """Clusters the means of bags by scikit-learn's k-means: the baseline that every other method is shown beside.

    On bags whitened within (`WithinBagWhitener`) this is hard to beat where all instances of a bag say a little about
    it, as the regions of a landscape do; it sees nothing where one instance of many says all.

    Parameters
    ----------
    n_clusters : int, default=2
    n_init : int, default=10
        Runs of k-means; the one of the lowest inertia is kept.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) array of int
        Clusters, numbered from the largest to the smallest.
    witnesses_ : (n,) array of int
        Position within its bag of the instance nearest to the centre of the bag's cluster.
    margins_ : (n,) array
        1 minus the distance to the nearest centre over that to the second: 0 between two clusters, 1 at a centre.
    cluster_centers_ : (k, d) array
    objective_ : float
        Inertia: the sum of squared distances of the bags' means to their centres.
    n_iter_ : int
    objective_history_ : (1,) array
        The objective at the end.
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import MeanKMeans
    >>> bags = [np.array([[0.0], [0.2]]), np.array([[0.3]]), np.array([[9.0], [9.4]])]
    >>> MeanKMeans(2, random_state=0).fit_predict(bags).tolist()
    [0, 0, 1]
    """

    _fitted: ClassVar[dict[str, Attribute]] = {"cluster_centers_": Numbers("clusters", "features"), **CLUSTERED}

    def __init__(self, n_clusters: int = 2, *, n_init: int = 10, random_state: Any = None):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> MeanKMeans:
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
        means = bag_means(bags)
        fit_centres(self, means)
        distances = euclidean_distances(means, self.cluster_centers_)
        self.labels_ = distances.argmin(axis=1)
        self.margins_ = gap_to_second(distances)
        own = np.repeat(self.labels_, bags.sizes)
        to_centres = euclidean_distances(bags.instances, self.cluster_centers_, squared=True)
        self.witnesses_ = best_in_bag(-to_centres[np.arange(len(own)), own].astype(np.float64), bags.offsets)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n,) cluster of every bag: that of the nearest centre."""
        return euclidean_distances(bag_means(self._start_predict(X)), self.cluster_centers_).argmin(axis=1)
