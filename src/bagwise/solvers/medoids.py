"""k-medoids over bags by Hausdorff distance (FasterPAM)."""

from __future__ import annotations

import kmedoids
import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from bagwise.core.bags import Bags
from bagwise.core.typing import Seed
from bagwise.kernels.hausdorff import hausdorff_distances

MAX_ITER = 100  # passes of FasterPAM over all bags


def bag_distances(bags: Bags, others: Bags | None = None, *, kind: str, n_jobs: int | None) -> np.ndarray:
    """(n, n_others) Hausdorff distance of every bag to every other bag, or to all of the same set."""
    second = () if others is None else (others.instances, others.offsets)
    return hausdorff_distances(
        bags.instances, bags.offsets, *second, kind=kind, n_threads=None if n_jobs is None else effective_n_jobs(n_jobs)
    )


def find_medoids(
    distances: np.ndarray, n_medoids: int, *, n_init: int = 1, random_state: Seed = None
) -> tuple[np.ndarray, float, int]:
    """Bags with a small sum of distances from each bag to the nearest of them, the best of several random starts.

    Returns
    -------
    medoids : (k,) array of int
    total : float
        The sum of the distances.
    n_iter : int
    """
    seeds = check_random_state(random_state).randint(2**31 - 1, size=n_init)
    runs = [
        kmedoids.fasterpam(distances, int(n_medoids), MAX_ITER, init="random", random_state=int(seed), n_cpu=1)
        for seed in seeds
    ]
    best = min(runs, key=lambda run: run.loss)
    return np.asarray(best.medoids, dtype=np.int64), float(best.loss), int(best.n_iter)
