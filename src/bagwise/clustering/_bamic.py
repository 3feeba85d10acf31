"""BAMIC: k-medoids over bags by Hausdorff distance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bagwise.clustering._shared import BagClusterer, find_witnesses, gap_to_second, rank_by_size
from bagwise.core.bags import Bags
from bagwise.core.checks import check_allocation, check_choice, check_count
from bagwise.core.fitted import Attribute, BagsOf, Choice, Numbers
from bagwise.kernels.hausdorff import KINDS
from bagwise.solvers.medoids import MAX_ITER, bag_distances, find_medoids


class BAMIC(BagClusterer):
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
        The distance of the fit.

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
        "distance_": Choice(*KINDS),
        "medoid_indices_": Numbers("medoids", whole=True, low=0),
        "medoids_": BagsOf("medoids"),
    }

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

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_choice("distance", self.distance, KINDS)
        check_count(self, "n_init")

    def _cluster(self, bags: Bags) -> None:
        check_allocation(8 * len(bags) ** 2, f"The distances between all {len(bags)} bags", "use M3IC, or fewer bags")
        self._keep_parameters()
        distances = bag_distances(bags, kind=self.distance, n_jobs=self.n_jobs)
        medoids, objective, n_iter = find_medoids(
            distances, self.n_clusters, n_init=self.n_init, random_state=self.random_state
        )
        self._keep_end(objective, n_iter, n_iter < MAX_ITER)
        rank = rank_by_size(distances[:, medoids].argmin(axis=1), self.n_clusters)
        self.medoid_indices_ = medoids[np.argsort(rank)]
        self.medoids_ = bags[self.medoid_indices_]
        distances = distances[:, self.medoid_indices_]
        self.labels_, self.margins_ = distances.argmin(axis=1), gap_to_second(distances)
        instances = Bags(bags.instances, np.arange(bags.n_instances + 1))
        to_medoids = bag_distances(instances, self.medoids_, kind="minimal", n_jobs=self.n_jobs)
        self.witnesses_ = find_witnesses(-to_medoids, self.labels_, bags)

    def _assign(self, bags: Bags) -> np.ndarray:
        """By the nearest medoid."""
        return bag_distances(bags, self.medoids_, kind=self.distance_, n_jobs=self.n_jobs).argmin(axis=1)
