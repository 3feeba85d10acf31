"""BAMIC: k-medoids over bags by Hausdorff distance."""

from __future__ import annotations

from typing import Any, ClassVar

import kmedoids
import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state

from bagwise.bags import Bags
from bagwise.base import BagEstimator, validate_bags
from bagwise.clustering._shared import (
    CLUSTERED,
    best_in_bag,
    check_clusterable,
    check_enough_bags,
    check_n_clusters,
    gap_to_second,
    rank_by_size,
)
from bagwise.fitted import Attribute, BagsOf, Choice, Numbers
from bagwise.kernels.hausdorff import KINDS, hausdorff_distances
from bagwise.memory import check_allocation
from bagwise.parameters import check_choice, check_count, thread_limit
from bagwise.typing import BagsLike

MAX_ITER = 100  # passes of FasterPAM over all bags


class BAMIC(ClusterMixin, BagEstimator):
    """Clusters bags around k of them by Hausdorff distance (FasterPAM).

    Parameters
    ----------
    n_clusters : int, default=2
    distance : {"average", "maximal", "minimal"}, default="average"
        The minimal distance is no metric: different bags that share an instance are at zero.
    n_init : int, default=10
        Random starts; the one of the lowest total distance is kept. The distances are computed once.
    n_jobs : int or None
        Most threads for the distances; None: the processors at hand, where there is work for them.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) array of int
        Clusters, numbered from the largest to the smallest.
    medoid_indices_ : (k,) array of int
        The bag in the middle of each cluster.
    medoids_ : Bags
        These bags themselves.
    witnesses_ : (n,) array of int
        Position within its bag of the instance nearest to one of the medoid's.
    margins_ : (n,) array
        1 minus the distance to the nearest medoid over that to the second: 0 between two clusters, 1 at a medoid.
    objective_ : float
        Sum of the distances of all bags to their medoids.
    n_iter_ : int
    objective_history_ : (1,) array
        The objective at the end.
    converged_ : bool
    distance_ : str
        The distance that the medoids were found by.

    References
    ----------
    M.-L. Zhang, Z.-H. Zhou (2009): Multi-instance clustering with applications to multi-instance prediction. Applied
    Intelligence 31, 47-68. E. Schubert, P. J. Rousseeuw (2021): Fast and eager k-medoids clustering. Information
    Systems 101 (FasterPAM).

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import BAMIC
    >>> bags = [np.array([[0.0], [0.1]]), np.array([[0.2]]), np.array([[0.3]]), np.array([[9.1], [9.2]])]
    >>> BAMIC(2, random_state=0).fit_predict(bags).tolist()
    [0, 0, 0, 1]
    """

    _kept_parameters = ("distance",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "distance_": Choice(*KINDS), "medoid_indices_": Numbers("medoids", whole=True, low=0),
        "medoids_": BagsOf("medoids"), **CLUSTERED,
    }  # fmt: skip

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        distance: str = "average",
        n_init: int = 10,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.distance = distance
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: BagsLike, y: Any = None) -> BAMIC:
        """Find clusters of bags.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        y : ignored
        """
        check_n_clusters(self)
        check_choice("distance", self.distance, KINDS)
        check_count(self, "n_init")
        bags = validate_bags(self, X, reset=True)
        check_enough_bags(self, len(bags))
        check_clusterable(bags)
        check_allocation(8 * len(bags) ** 2, f"The distances between all {len(bags)} bags", "use M3IC, or fewer bags")
        distances = hausdorff_distances(
            bags.instances, bags.offsets, kind=self.distance, n_threads=thread_limit(self.n_jobs)
        )
        self._keep_parameters()
        medoids, self.objective_, self.n_iter_ = self._search(distances)
        self.objective_history_ = np.array([self.objective_])
        self.converged_ = self.n_iter_ < MAX_ITER
        rank = rank_by_size(distances[:, medoids].argmin(axis=1), self.n_clusters)
        self.medoid_indices_ = np.empty(self.n_clusters, dtype=np.int64)
        self.medoid_indices_[rank] = medoids
        self.medoids_ = bags[self.medoid_indices_]
        self.labels_ = distances[:, self.medoid_indices_].argmin(axis=1)
        self.margins_ = gap_to_second(distances[:, self.medoid_indices_])
        self.witnesses_ = self._witnesses(bags)
        return self

    def _search(self, distances: np.ndarray) -> tuple[np.ndarray, float, int]:
        """Medoids, total distance and iterations of the best start."""
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_init)
        runs = [
            kmedoids.fasterpam(
                distances, int(self.n_clusters), MAX_ITER, init="random", random_state=int(seed), n_cpu=1
            )
            for seed in seeds
        ]
        best = min(runs, key=lambda run: run.loss)
        return np.asarray(best.medoids, dtype=np.int64), float(best.loss), int(best.n_iter)

    def _witnesses(self, bags: Bags) -> np.ndarray:
        singles = np.arange(bags.n_instances + 1)
        to_medoids = hausdorff_distances(
            bags.instances,
            singles,
            self.medoids_.instances,
            self.medoids_.offsets,
            kind="minimal",
            n_threads=thread_limit(self.n_jobs),
        )
        own = np.repeat(self.labels_, bags.sizes)
        return best_in_bag(-to_medoids[np.arange(len(own)), own], bags.offsets)

    def predict(self, X: BagsLike) -> np.ndarray:
        """(n,) cluster of every bag: that of the nearest medoid."""
        bags = self._start_predict(X)
        medoids = self.medoids_
        return hausdorff_distances(
            bags.instances,
            bags.offsets,
            medoids.instances,
            medoids.offsets,
            kind=self.distance_,
            n_threads=thread_limit(self.n_jobs),
        ).argmin(axis=1)
