"""Trees on a bag as a whole: on the probabilities an annotator gives its instances, and on statistics of features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.special import logit

from bagwise.core.bags import Bags
from bagwise.core.validation import check_single_precision
from bagwise.kernels.forest import Forest, tree_values
from bagwise.union import log_absence

SMALLEST = 1e-4  # probabilities are kept this far from 0 and 1 before logarithms are taken of them
ROWS = 1024  # bags whose sparse statistics are made dense at a time


def bag_summaries(proba: np.ndarray, bags: Bags) -> np.ndarray:
    """(n, c, 5) largest, second and union probability, sum, and number of instances of which the label is the best."""
    starts = bags.offsets[:-1]
    largest = np.maximum.reduceat(proba, starts, axis=0)
    union = -np.expm1(log_absence(proba, bags.offsets))
    best = np.zeros(proba.shape)
    best[np.arange(len(proba)), proba.argmax(axis=1)] = 1.0
    return np.stack(
        [
            largest,
            _second_largest(proba, bags, largest),
            union,
            np.add.reduceat(proba, starts, axis=0),
            np.add.reduceat(best, starts, axis=0),
        ],
        axis=2,
    )


def _second_largest(proba: np.ndarray, bags: Bags, largest: np.ndarray) -> np.ndarray:
    """(n, c) largest without one instance that has the largest; zero in bags of one instance."""
    at_top = proba == largest[bags.bag_index]
    n_before = np.cumsum(at_top, axis=0)
    start = (n_before - at_top)[bags.offsets[:-1]][bags.bag_index]
    first = at_top & (n_before - start == 1)
    return np.maximum.reduceat(np.where(first, 0.0, proba), bags.offsets[:-1], axis=0)


def table_of(bags: Bags, summaries: np.ndarray, statistics: Any = None) -> Any:
    """(n, f) what the trees see: the numbers of all labels, the size of the bag and its statistics where there are."""
    columns = [summaries.reshape(len(bags), -1), bags.sizes[:, None].astype(np.float64)]
    if statistics is not None:
        columns.append(statistics)
    if any(sp.issparse(column) for column in columns):
        return sp.hstack([sp.csr_matrix(column) for column in columns], format="csr")
    return np.hstack(columns)


class BagTrees(NamedTuple):
    """Extremely randomised trees, each on a bootstrap sample of the bags, that predict all labels at once.

    Attributes
    ----------
    trees : list
        Of scikit-learn.
    prior : (c,) array
        The labels' shares.
    held_out : (n, c) array
        Logits by the trees whose sample lacks the bag.
    """

    trees: list[Any]
    prior: np.ndarray
    held_out: np.ndarray

    @classmethod
    def grow(
        cls,
        table: Any,
        targets: np.ndarray,
        counts: np.ndarray,
        n_trees: int,
        max_features: str | int | float | None,
        n_jobs: int | None,
        rng: np.random.RandomState,
        *,
        whole: bool = False,
    ) -> BagTrees:
        """From a (n, f) table and (n, c) zeros and ones; `counts` say how often each bag counts.

        `whole`: each tree on all bags, so that none is held out.
        """
        n_bags = len(targets)
        samples = [
            (
                np.ones(n_bags) if whole else np.bincount(rng.randint(n_bags, size=n_bags), minlength=n_bags),
                int(rng.randint(np.iinfo(np.int32).max)),
            )
            for _ in range(n_trees)
        ]
        from sklearn.tree import ExtraTreeRegressor

        check_single_precision(table)
        rows: Any = table.astype(np.float32) if sp.issparse(table) else np.ascontiguousarray(table, dtype=np.float32)
        columns = rows.tocsc() if sp.issparse(rows) else rows
        targets = np.ascontiguousarray(targets, dtype=np.float64)
        # looked at once: doing so again for every tree takes longer than growing a small one
        needs_check = sp.issparse(rows) or not np.isfinite(rows).all()

        def grow(times: np.ndarray, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
            tree = ExtraTreeRegressor(max_features=max_features, random_state=seed)
            tree.fit(columns, targets, sample_weight=times * counts, check_input=needs_check)
            unseen = np.flatnonzero(times == 0)
            return tree, unseen, tree_values(tree, rows[unseen])

        total, n_trees_unseen = np.zeros(targets.shape), np.zeros(n_bags)
        trees = []
        for tree, unseen, values in Parallel(n_jobs=n_jobs, prefer="threads")(delayed(grow)(*one) for one in samples):
            trees.append(tree)
            total[unseen] += values
            n_trees_unseen[unseen] += 1
        prior = np.average(targets, axis=0, weights=counts)
        return cls(trees, prior, _tree_logit(total, n_trees_unseen[:, None], prior))


def _tree_logit(total: np.ndarray, n_trees: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Logit of the mean over the trees and one that predicts the labels' shares."""
    proba = (total + np.clip(prior, SMALLEST, 1.0 - SMALLEST)) / (n_trees + 1.0)
    return logit(np.clip(proba, SMALLEST, 1.0 - SMALLEST))


def forest_logit(forest: Forest, table: Any, prior: np.ndarray) -> np.ndarray:
    """(n, c) logits of new bags by all trees; see `BagTrees` for those of the training bags."""
    n_trees = len(forest.roots)
    return _tree_logit(n_trees * _mean_values(forest, table), np.full((1, 1), float(n_trees)), prior)


def _mean_values(forest: Forest, table: Any) -> np.ndarray:
    """`Forest.mean_values`, a sparse table being made dense a part at a time."""
    if not sp.issparse(table):
        return forest.mean_values(table)
    parts = [forest.mean_values(table[i : i + ROWS].toarray()) for i in range(0, table.shape[0], ROWS)]
    return np.concatenate(parts)
