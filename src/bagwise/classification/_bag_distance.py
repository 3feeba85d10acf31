"""Bags as vectors of distances to representative bags: the representation of MIMLSVM and MIMLNN.

Constructive clustering of Zhou and Zhang (2007), steps 1 and 2 of MIMLSVM: k-medoids over the training bags by
Hausdorff distance, then a bag is the vector of its distances to the k medoids.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from bagwise.classification._shared import TCriterionClassifier
from bagwise.core.bags import Bags
from bagwise.core.checks import check_allocation, check_choice, is_count, is_positive
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, BagsOf, Choice, Numbers
from bagwise.core.typing import Seed
from bagwise.kernels.hausdorff import KINDS
from bagwise.solvers.medoids import bag_distances, find_medoids


class BagDistanceClassifier(TCriterionClassifier):
    """Root of the learners on distances to medoids; a subclass gives `_code_scores(codes)`.

    A subclass has the parameters `n_medoids`, `distance`, `n_jobs` and `random_state`, and keeps `distance`.
    """

    _kept_parameters: ClassVar[tuple[str, ...]] = ("distance",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "distance_": Choice(*KINDS),
        "medoid_indices_": Numbers("medoids", whole=True, low=0),
        "medoids_": BagsOf("medoids"),
    }

    n_medoids: float | int
    distance: str
    distance_: str
    n_jobs: int | None
    random_state: Seed
    _code_scores: Any

    def _encode_training(self, bags: Bags, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(n, k) distances of distinct bags, numbered by `index`, to the medoids; sets those."""
        check_choice("distance", self.distance, KINDS)
        n_bags, n_medoids = len(bags), self._count_medoids(max(len(bags), int(weights.sum())), len(bags))
        check_allocation(
            8 * n_bags**2, f"The distances between all {n_bags} bags", f"train {type(self).__name__} on fewer bags"
        )
        distances = bag_distances(bags, kind=self.distance, n_jobs=self.n_jobs)
        self._keep_parameters()
        medoids = np.arange(n_bags)
        if n_medoids < n_bags:
            medoids = np.sort(find_medoids(distances, n_medoids, random_state=self.random_state)[0])
        self.medoid_indices_, self.medoids_ = index[medoids], bags[medoids]
        return np.ascontiguousarray(distances[:, medoids])

    def _count_medoids(self, n_bags: int, n_distinct: int) -> int:
        """Number of medoids from a number, at most all distinct bags, or from a share of these (at least one)."""
        n_medoids, name = self.n_medoids, type(self).__name__
        if is_count(n_medoids):
            if n_medoids > n_bags:
                raise InputError(
                    f"{name} was asked for {n_medoids} medoids but there are only {n_bags} bags; pass a smaller "
                    "n_medoids, or a share such as 0.2."
                )
            return min(int(n_medoids), n_distinct)
        if not isinstance(n_medoids, Integral) and is_positive(n_medoids) and n_medoids <= 1:
            return max(1, round(float(n_medoids) * n_distinct))
        raise InputError(
            f"The 'n_medoids' parameter of {name} must be a share in (0, 1] or a number of bags. Got {n_medoids!r}."
        )

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        codes = bag_distances(bags, self.medoids_, kind=self.distance_, n_jobs=self.n_jobs)
        if not np.isfinite(codes).all():
            raise InputError(
                f"The features are so large that distances between bags are no numbers to {type(self).__name__}; scale "
                "them, for example with PerInstance(StandardScaler())."
            )
        return self._code_scores(codes)
