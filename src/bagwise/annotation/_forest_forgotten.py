"""What a forest keeps of labels that bags may have lost: said by trees that did not see the bag.

The trees of the fitted forest have learned by heart what they were taught of the bags they were grown on, so that a
posterior from them would ask the same label set twice.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from bagwise.annotation._calibration_fit import fingerprints
from bagwise.bags import Bags
from bagwise.fitted import Attribute, Numbers

LEAST = 1e-4  # labels that are less probable to be in a bag are not kept
WAS_LISTED = -1.0
FORGOTTEN: dict[str, Attribute] = {
    "forgotten_": Numbers("told", "classes", low=WAS_LISTED, high=1, sparse=True),
    "forgotten_bags_": Numbers("told", whole=True),
}
"""Both or none of them."""


def by_instances(posterior: np.ndarray, bags: Bags, n_classes: int) -> np.ndarray:
    """(n, c) probability that some instance of the bag is of the label, by the posteriors of its instances."""
    carried = np.minimum(posterior[:, :n_classes], 1.0 - 1e-15)
    return -np.expm1(np.add.reduceat(np.log1p(-carried), bags.offsets[:-1], axis=0))


def pack(forgotten: np.ndarray, indicator: np.ndarray) -> sp.csr_matrix:
    """(n, c) probabilities of labels that are not listed, `WAS_LISTED` where they are; zero for next to nothing."""
    kept = np.where(forgotten >= LEAST, forgotten, 0.0)
    return sp.csr_matrix(np.where(indicator == 1, WAS_LISTED, kept).astype(np.float32))


def told_presence(
    presence: np.ndarray,
    kept: sp.csr_matrix,
    kept_bags: np.ndarray,
    bags: Bags,
    indicator: np.ndarray,
    known: np.ndarray | None,
) -> np.ndarray:
    """(n, c) `presence` with what was kept of unlisted labels, in bags that are known again by their fingerprint.

    Not where instances of the bag are known: nobody knew them who said that.
    """
    order, own = np.argsort(kept_bags, kind="stable"), fingerprints(bags)
    place = order[np.minimum(np.searchsorted(kept_bags, own, sorter=order), len(order) - 1)]
    is_told = kept_bags[place] == own
    if known is not None:  # where somebody named instances, what the others say goes by these
        is_told &= ~np.logical_or.reduceat(known != -1, bags.offsets[:-1])
    forgotten = kept[place].toarray().astype(np.float64)
    open_labels = is_told[:, None] & (indicator == 0) & (forgotten >= 0.0) & ~np.isnan(presence)
    return np.where(open_labels, forgotten, presence)
