"""A bag as one vector: mean, maximum, minimum and deviation of its instances' features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from bagwise.core.bags import Bags
from bagwise.core.base import BagEstimator, BagTableMixin
from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, Choice, ListOf
from bagwise.core.typing import BagsLike
from bagwise.core.validation import validate_bags

DENSE: dict[str, Callable[[Bags], np.ndarray]] = {
    "mean": lambda bags: _mean(bags),
    "max": lambda bags: np.maximum.reduceat(bags.instances, bags.offsets[:-1], axis=0),
    "min": lambda bags: np.minimum.reduceat(bags.instances, bags.offsets[:-1], axis=0),
    "deviation": lambda bags: _deviation(bags),
}
STATISTICS = tuple(DENSE)


class BagStatistics(BagTableMixin, BagEstimator):
    """Turn every bag into one vector, so that any learner of plain vectors can learn from bags.

    Parameters
    ----------
    statistics : tuple of str, default=("mean", "max", "min", "deviation")
        Of each feature over the instances of the bag; "deviation" is the standard deviation, without correction for
        the mean (divided by the number of instances). They stand side by side, in this order.

    Notes
    -----
    Sparse instances give a sparse matrix: where no instance of a bag has a feature, all four are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.preprocessing import BagStatistics
    >>> bags = Bags.from_list([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    >>> BagStatistics().fit_transform(bags).tolist()
    [[1.0, 2.0, 0.0, 1.0], [4.0, 4.0, 4.0, 0.0]]
    """

    _fitted: ClassVar[dict[str, Attribute]] = {"statistics_": ListOf(Choice(*STATISTICS))}

    def __init__(self, statistics: str | Sequence[str] = STATISTICS):
        self.statistics = statistics

    def fit(self, X: BagsLike, y: object = None) -> BagStatistics:
        """Look at the number of features; `y` is ignored."""
        statistics = (self.statistics,) if isinstance(self.statistics, str) else tuple(self.statistics)
        unknown = [name for name in statistics if name not in STATISTICS]
        if unknown or not statistics:
            raise InputError(
                f"The 'statistics' parameter of BagStatistics must be some of {', '.join(STATISTICS)}. "
                f"Got {self.statistics!r}."
            )
        validate_bags(self, X, reset=True)
        self.statistics_ = statistics
        return self

    def _transform(self, bags: Bags) -> Any:
        if sp.issparse(bags.instances):
            return _sparse_statistics(bags, self.statistics_)
        check_allocation(
            8 * len(bags) * bags.n_features * len(self.statistics_),
            f"{len(self.statistics_)} statistics of {len(bags)} bags of {bags.n_features} features",
            "choose fewer statistics, or reduce the features first",
        )
        return np.hstack([DENSE[name](bags) for name in self.statistics_])

    @property
    def _n_features_out(self) -> int:
        return len(self.statistics_) * self.n_features_in_

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``mean_x0`` and such: a statistic and a feature; the features are x0, x1, ... where they have no names."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array([f"{statistic}_{name}" for statistic in self.statistics_ for name in names], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.bag_tags.row_per_bag = True
        return tags


def _mean(bags: Bags) -> np.ndarray:
    return np.add.reduceat(bags.instances, bags.offsets[:-1], axis=0) / bags.sizes[:, None].astype(bags.instances.dtype)


def _deviation(bags: Bags) -> np.ndarray:
    centred = Bags((bags.instances - np.repeat(_mean(bags), bags.sizes, axis=0)) ** 2, bags.offsets)
    return np.sqrt(_mean(centred))


def _sparse_statistics(bags: Bags, names: tuple[str, ...]) -> sp.csr_matrix:
    """The same for CSR: the entries of a bag and feature stand together, and those that are not there are zeros."""
    entries = bags.instances.tocoo()
    place = bags.bag_index[entries.row].astype(np.int64) * bags.n_features + entries.col
    order = np.argsort(place, kind="stable")
    place, values = place[order], entries.data[order]
    cells, starts, counts = np.unique(place, return_index=True, return_counts=True)
    row, column = cells // bags.n_features, cells % bags.n_features
    sizes = bags.sizes[row]
    blocks = []
    for name in names:
        cell_values = _of_cells(name, values, starts, counts, sizes) if len(values) else values
        blocks.append(sp.csr_matrix((cell_values, (row, column)), shape=(len(bags), bags.n_features)))
    return sp.hstack(blocks, format="csr")


def _of_cells(name: str, values: np.ndarray, starts: np.ndarray, counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """One statistic of every (bag, feature) cell from its entries, `sizes` less `counts` of which are zeros."""
    absent = sizes > counts
    if name == "max":
        largest = np.maximum.reduceat(values, starts)
        return np.where(absent, np.maximum(largest, 0), largest)
    if name == "min":
        smallest = np.minimum.reduceat(values, starts)
        return np.where(absent, np.minimum(smallest, 0), smallest)
    mean = (np.add.reduceat(values, starts) / sizes).astype(values.dtype)
    if name == "mean":
        return mean
    squares = np.add.reduceat((values - np.repeat(mean, counts)) ** 2, starts) + (sizes - counts) * mean**2
    return np.sqrt(squares / sizes).astype(values.dtype)
