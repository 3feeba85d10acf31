"""Is an instance like anything that a model was trained on? Told apart from how probable its label is.

A classifier divides all of its space among the classes it knows, so a sound that it never heard may be named at .99.
Beside the probability therefore stands the distance to the nearest training instance of another bag, every feature
divided by its deviation, as a rank among the same distances of the training instances themselves: the share of these
that lie at least as far out. Of bags of the same kind a share `ALARM` is below `ALARM`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.fitted import Numbers, Record

ALARM = 0.02
N_REFERENCE = 3_000
N_VALUES = 1_000_000  # most numbers of all reference instances together: four megabytes of a model file
BLOCK = 2_000  # instances whose distances are worked out at a time


@dataclass(frozen=True)
class Likeness:
    """What training instances look like.

    Attributes
    ----------
    centre, scale : (d,) arrays
        Mean and deviation of the features; the deviation of constant ones is taken for 1.
    reference : (r, d) float32 array
        Some training instances, scaled.
    distances : (r,) array
        Of each of them to the nearest of another bag, in order.
    """

    centre: np.ndarray
    scale: np.ndarray
    reference: np.ndarray
    distances: np.ndarray

    @classmethod
    def learn(cls, bags: Bags) -> Likeness | None:
        """From the bags of a training set; None where there are fewer than three, which tell nothing of each other."""
        if len(bags) < 3:
            return None
        centre, scale = _moments(bags.instances)
        most = max(min(N_REFERENCE, N_VALUES // max(bags.n_features, 1)), 100)
        rows = np.random.default_rng(0).permutation(bags.n_instances)[:most]
        reference = ((_dense(bags.instances[rows]) - centre) / scale).astype(np.float32)
        distances = _nearest(reference, reference, bags.bag_index[rows])
        distances = np.sort(distances[np.isfinite(distances)])
        return cls(centre, scale, reference, distances) if len(distances) else None

    def rarity(self, instances: Any) -> np.ndarray:
        """(m,) share of the training instances that are at least as far from their nearest as each of `instances`."""
        if instances.shape[1] != len(self.centre):
            raise InputError(f"The instances have {instances.shape[1]} features; likeness knows {len(self.centre)}.")
        found = np.empty(instances.shape[0])
        for start in range(0, len(found), BLOCK):
            block = (_dense(instances[start : start + BLOCK]) - self.centre) / self.scale
            distance = _nearest(block.astype(np.float32), self.reference)
            found[start : start + BLOCK] = 1.0 - np.searchsorted(self.distances, distance) / len(self.distances)
        return found

    def is_unlike(self, instances: Any) -> np.ndarray:
        """(m,) whether an instance is farther out than all but a share `ALARM` of the training instances."""
        return self.rarity(instances) < ALARM

    def to_dict(self) -> dict[str, np.ndarray]:
        """As a model file holds it."""
        return dict(vars(self))

    @classmethod
    def of(cls, model: Any) -> Likeness | None:
        """What a trained model carries; None where it carries nothing, or nothing that fits."""
        kept = getattr(model, ATTRIBUTE, None)
        return cls(**kept) if isinstance(kept, dict) and kept.keys() == cls.__dataclass_fields__.keys() else None


ATTRIBUTE = "likeness_"
"""Attribute of a trained model that holds `Likeness.to_dict()`; it is saved with the model."""
FITTED = Record({
    "centre": Numbers("features"), "scale": Numbers("features", positive=True),
    "reference": Numbers("reference", "features"), "distances": Numbers("distances", low=0),
})  # fmt: skip


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)


def _moments(instances: Any) -> tuple[np.ndarray, np.ndarray]:
    if sp.issparse(instances):
        centre = np.asarray(instances.mean(axis=0)).ravel()
        square = np.asarray(instances.multiply(instances).mean(axis=0)).ravel()
        scale = np.sqrt(np.maximum(square - centre**2, 0.0))
    else:
        centre, scale = instances.mean(axis=0, dtype=np.float64), instances.std(axis=0, dtype=np.float64)
    return centre, np.where(scale > 1e-9 * np.maximum(np.abs(centre), 1e-300), scale, 1.0)


def _nearest(rows: np.ndarray, reference: np.ndarray, bag: np.ndarray | None = None) -> np.ndarray:
    """(m,) distance to the nearest of the reference; where `bag` is given, the rows are the reference itself, and their
    own bag does not count."""
    found = np.empty(len(rows))
    squares = np.einsum("ij,ij->i", reference, reference)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        distance = np.einsum("ij,ij->i", block, block)[:, None] + squares - 2.0 * (block @ reference.T)
        if bag is not None:
            distance[bag[start : start + BLOCK, None] == bag] = np.inf
        found[start : start + BLOCK] = np.sqrt(np.maximum(distance.min(axis=1), 0.0))
    return found
