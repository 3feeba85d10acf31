"""Is an instance like anything that a model was trained on? Told apart from how probable its label is.

A classifier divides all of its space among the classes it knows, so a sound that it never heard may be named at .99.
Beside the probability therefore stands the distance to the nearest training instance of another bag, every feature
divided by its deviation, as a rank among the same distances of the training instances themselves: the share of these
that lie at least as far out. Of bags of the same kind a share `ALARM` is below `ALARM`.

Of sparse features, such as counts of words, the rarer ones count for more, and the distance is that between directions:
two passages that share no word are as far apart as any. One without any known word is unlike everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Numbers, Record
from bagwise.preprocessing import TermScaler

ALARM = 0.02
N_REFERENCE, N_SPARSE_REFERENCE = 3_000, 1_000  # the products of sparse ones take longer
N_VALUES = 1_000_000  # most numbers of all reference instances together: four megabytes of a model file
BLOCK = 2_000  # instances whose distances are worked out at a time


@dataclass(frozen=True)
class Novelty:
    """What training instances look like, and how unlike them others are.

    Attributes
    ----------
    centre, scale : (d,) arrays
        Mean and deviation of the features; the deviation of constant ones is taken for 1. Of sparse features zero, and
        one over their rarity.
    reference : (r, d) float32 array or CSR matrix
        Some training instances, scaled; sparse ones of length 1.
    distances : (r,) array
        Of each of them to the nearest of another bag, in order.

    Examples
    --------
    >>> from bagwise.calibration import Novelty
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> novelty = Novelty.learn(data.bags[:40])
    >>> bool(novelty.is_novel(data.bags[40:].instances + 20.0, rate=0.05).all())
    True
    """

    centre: np.ndarray
    scale: np.ndarray
    reference: Any
    distances: np.ndarray

    @classmethod
    def learn(cls, bags: Bags) -> Novelty | None:
        """From the bags of a training set; None where there are fewer than three, which tell nothing of each other."""
        if len(bags) < 3:
            return None
        X = bags.instances
        width = X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1]
        n_reference = N_SPARSE_REFERENCE if sp.issparse(X) else N_REFERENCE
        most = max(min(n_reference, int(N_VALUES / max(width, 1))), 100)
        rows = np.random.default_rng(0).permutation(bags.n_instances)[:most]
        if sp.issparse(X):
            rarity = TermScaler().fit(X).rarity_
            centre, scale = np.zeros(X.shape[1]), 1.0 / rarity
            reference: Any = _directions(X[rows], scale)
        else:
            centre, scale = _moments(X)
            reference = ((X[rows] - centre) / scale).astype(np.float32)
        distances = _nearest(reference, reference, bags.bag_index[rows])
        distances = np.sort(distances[np.isfinite(distances)])
        return cls(centre, scale, reference, distances) if len(distances) else None

    def rarity(self, instances: Any) -> np.ndarray:
        """(m,) share of the training instances that are at least as far from their nearest as each of `instances`.

        It is calibrated: of instances like those of training, in bags of their own, a share q is below q.
        """
        if instances.shape[1] != len(self.centre):
            raise InputError(f"The instances have {instances.shape[1]} features; novelty knows {len(self.centre)}.")
        found = np.empty(instances.shape[0])
        for start in range(0, len(found), BLOCK):
            block = instances[start : start + BLOCK]
            if sp.issparse(self.reference):
                block = _directions(block, self.scale)
            else:
                block = ((_dense(block) - self.centre) / self.scale).astype(np.float32)
            distance = _nearest(block, self.reference)
            found[start : start + BLOCK] = 1.0 - np.searchsorted(self.distances, distance) / len(self.distances)
        return found

    def is_novel(self, instances: Any, rate: float = ALARM) -> np.ndarray:
        """(m,) whether an instance is farther out than all but the share `rate` of the training instances.

        `rate` is that of the false alarms, .02 by default.
        """
        if not 0.0 < rate < 1.0:
            raise InputError(f"rate={rate!r} is no share of false alarms; pass a number between 0 and 1.")
        return self.rarity(instances) < rate

    def to_dict(self) -> dict[str, np.ndarray]:
        """As a model file holds it."""
        return dict(vars(self))

    @classmethod
    def of(cls, model: Any) -> Novelty | None:
        """What a trained model carries; None where it carries nothing, or nothing that fits."""
        kept = getattr(model, ATTRIBUTE, None)
        return cls(**kept) if isinstance(kept, dict) and kept.keys() == cls.__dataclass_fields__.keys() else None


ATTRIBUTE = "novelty_"
"""Attribute of a trained model that holds `Novelty.to_dict()`; it is saved with the model."""
FITTED = Record({
    "centre": Numbers("features"), "scale": Numbers("features", positive=True),
    "reference": Numbers("reference", "features", sparse=True), "distances": Numbers("distances", low=0),
})  # fmt: skip


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)


def _directions(rows: Any, scale: np.ndarray) -> Any:
    """Scaled rows of length 1, as a CSR matrix; those without any feature stay zero."""
    rows = sp.csr_matrix(rows, dtype=np.float64, copy=True)
    rows.data /= scale[rows.indices]
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(rows.indptr))
    return rows.astype(np.float32)


def _moments(instances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    centre, scale = instances.mean(axis=0, dtype=np.float64), instances.std(axis=0, dtype=np.float64)
    return centre, np.where(scale > 1e-9 * np.maximum(np.abs(centre), 1e-300), scale, 1.0)


def _nearest(rows: Any, reference: Any, bag: np.ndarray | None = None) -> np.ndarray:
    """(m,) distance to the nearest of the reference; where `bag` is given, the rows are the reference itself, and their
    own bag does not count."""
    found = np.empty(rows.shape[0])
    sparse = sp.issparse(reference)
    squares = np.ones(reference.shape[0]) if sparse else np.einsum("ij,ij->i", reference, reference)
    other = reference.T.tocsr() if sparse else reference.T
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        if sparse:
            # of length 1 each; zero rows have no direction and so are far from all
            own = np.where(np.diff(block.indptr) > 0, 1.0, np.inf)
            distance = own[:, None] + squares - 2.0 * (block @ other).toarray()
        else:
            distance = np.einsum("ij,ij->i", block, block)[:, None] + squares - 2.0 * (block @ other)
        if bag is not None:
            distance[bag[start : start + BLOCK, None] == bag] = np.inf
        found[start : start + BLOCK] = np.sqrt(np.maximum(distance.min(axis=1), 0.0))
    return found
