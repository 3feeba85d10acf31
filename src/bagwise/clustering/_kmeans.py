"""k-means of instances, with a majority vote in each bag, and k-means of the means of bags."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

from bagwise.clustering._shared import BagClusterer, find_witnesses, gap_to_second, majority, rank_by_size
from bagwise.core.bags import Bags
from bagwise.core.checks import check_count
from bagwise.core.fitted import Attribute, Numbers
from bagwise.solvers.aggregation import bag_means


class _KMeansClusterer(BagClusterer):
    """k-means of the rows that a subclass makes of bags (`_rows`), and the votes of bags by them (`_votes`)."""

    _fitted: ClassVar[dict[str, Attribute]] = {"cluster_centers_": Numbers("clusters", "features")}
    _rows: Any
    _votes: Any  # bags to clusters and margins

    def __init__(self, n_clusters: int = 2, *, n_init: int = 10, random_state: Any = None):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_count(self, "n_init")

    def _cluster(self, bags: Bags) -> None:
        rows = self._rows(bags)
        model = KMeans(self.n_clusters, n_init=self.n_init, random_state=self.random_state).fit(rows)
        self.cluster_centers_ = np.empty((self.n_clusters, rows.shape[1]))
        self.cluster_centers_[rank_by_size(model.labels_, self.n_clusters)] = model.cluster_centers_
        self._keep_end(float(model.inertia_), int(model.n_iter_), model.n_iter_ < model.max_iter)
        self.labels_, self.margins_ = self._votes(bags)
        self.witnesses_ = find_witnesses(-self._squared_distances(bags), self.labels_, bags)

    def _assign(self, bags: Bags) -> np.ndarray:
        return self._votes(bags)[0]

    def _squared_distances(self, bags: Bags) -> np.ndarray:
        """(m, k) squared distances of the instances to the centres."""
        return euclidean_distances(bags.instances, self.cluster_centers_, squared=True).astype(np.float64, copy=False)


class MajorityKMeans(_KMeansClusterer):
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

    _fitted: ClassVar[dict[str, Attribute]] = {"instance_labels_": Numbers("instances", whole=True, low=0)}

    def _rows(self, bags: Bags) -> Any:
        return bags.instances

    def _cluster(self, bags: Bags) -> None:
        super()._cluster(bags)
        self.instance_labels_ = self._squared_distances(bags).argmin(axis=1)

    def _votes(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        return majority(self._squared_distances(bags).argmin(axis=1), bags, len(self.cluster_centers_))


class MeanKMeans(_KMeansClusterer):
    """Clusters the means of bags by scikit-learn's k-means: the baseline that every other method is compared with.

    On bags whitened within (`WithinBagWhitener`) this is hard to beat where every instance is some evidence of the
    cluster, as the regions of a landscape are; it fails where one instance of many is all the evidence.

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

    def _rows(self, bags: Bags) -> np.ndarray:
        return bag_means(bags)

    def _votes(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        distances = euclidean_distances(bag_means(bags), self.cluster_centers_)
        return distances.argmin(axis=1), gap_to_second(distances)
