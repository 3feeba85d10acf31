"""Bags as vectors of distances to representative bags: the representation of MIMLSVM and MIMLNN.

Constructive clustering of Zhou and Zhang (2007), steps 1 and 2 of MIMLSVM: k-medoids over the training bags by
Hausdorff distance, then a bag is the vector of its distances to the k medoids.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import kmedoids
import numpy as np
from sklearn.utils import check_random_state

from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator
from bagwise.classification._shared import t_criterion
from bagwise.exceptions import InputError
from bagwise.fitted import Attribute, BagsOf, Choice, Numbers
from bagwise.kernels.hausdorff import KINDS, hausdorff_distances
from bagwise.memory import check_allocation
from bagwise.parameters import check_choice, thread_limit
from bagwise.typing import Seed


class BagDistanceClassifier(BagClassifierMixin, BagEstimator):
    """Root of the learners on distances to medoids; a subclass gives `_code_scores(codes)`.

    A subclass has the parameters `n_medoids`, `distance`, `n_jobs` and `random_state`, and keeps `distance`.
    """

    _kept_parameters: ClassVar[tuple[str, ...]] = ("distance",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "distance_": Choice(*KINDS), "medoid_indices_": Numbers("medoids", whole=True, low=0),
        "medoids_": BagsOf("medoids"),
    }  # fmt: skip

    n_medoids: float | int
    distance: str
    distance_: str
    n_jobs: int | None
    random_state: Seed
    _code_scores: Any

    def _encode_training(self, bags: Bags) -> np.ndarray:
        """(n, k) distances of the training bags to the medoids; sets ``medoid_indices_`` and ``medoids_``."""
        count = medoid_count(self.n_medoids, len(bags), type(self).__name__)
        check_allocation(
            8 * len(bags) ** 2,
            f"The distances between all {len(bags)} bags",
            f"train {type(self).__name__} on fewer bags",
        )
        distances = hausdorff_distances(
            bags.instances, bags.offsets, kind=self.distance, n_threads=thread_limit(self.n_jobs)
        )
        self._keep_parameters()
        self.medoid_indices_ = choose_medoids(distances, count, self.random_state)
        self.medoids_ = bags[self.medoid_indices_]
        return np.ascontiguousarray(distances[:, self.medoid_indices_])

    def _encode(self, bags: Bags) -> np.ndarray:
        medoids = self.medoids_
        return hausdorff_distances(
            bags.instances,
            bags.offsets,
            medoids.instances,
            medoids.offsets,
            kind=self.distance_,
            n_threads=thread_limit(self.n_jobs),
        )

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._code_scores(self._encode(bags))

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        return t_criterion(self._bag_scores(bags))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.bag_tags.sample_weight = True
        return tags

    def _check_distance(self) -> None:
        check_choice("distance", self.distance, KINDS)


def medoid_count(n_medoids: float | int, n_bags: int, name: str) -> int:
    """Number of medoids from a number, or from a share of the bags (at least one)."""
    if isinstance(n_medoids, bool) or not isinstance(n_medoids, Real):
        n_medoids = -1
    if isinstance(n_medoids, Integral) and n_medoids >= 1:
        if n_medoids > n_bags:
            raise InputError(
                f"{name} was asked for {n_medoids} medoids but there are only {n_bags} bags; pass a smaller "
                "n_medoids, or a share such as 0.2."
            )
        return int(n_medoids)
    if not isinstance(n_medoids, Integral) and 0 < n_medoids <= 1:
        return max(1, round(float(n_medoids) * n_bags))
    raise InputError(
        f"The 'n_medoids' parameter of {name} must be a share in (0, 1] or a number of bags. Got {n_medoids!r}."
    )


def choose_medoids(distances: np.ndarray, count: int, random_state: Seed) -> np.ndarray:
    """Sorted indices of `count` bags with a small sum of distances from each bag to the nearest of them (FasterPAM)."""
    n_bags = len(distances)
    if count == n_bags:
        return np.arange(n_bags)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    found = kmedoids.fasterpam(distances, count, init="random", random_state=seed, n_cpu=1)
    return np.sort(np.asarray(found.medoids, dtype=np.int64))
