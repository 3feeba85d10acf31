"""Scalings of bags to cluster: the whitening within bags, and all of them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.preprocessing import Normalizer, StandardScaler

from bagwise.core.bags import Bags
from bagwise.core.base import BagEstimator, BagTransformerMixin
from bagwise.core.checks import check_allocation, check_choice, check_positive, is_count
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, Numbers
from bagwise.core.typing import BagsLike
from bagwise.core.validation import validate_bags
from bagwise.preprocessing import PerInstance
from bagwise.solvers.aggregation import bag_means

WORDS_ZERO = 0.5  # share of zeros from which on features that are never negative are counts of words and the like


class WithinBagWhitener(ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BagEstimator):
    """Makes the covariance of instances around the mean of their own bag the identity; needs no labels.

    What differs between the instances of one bag cannot tell bags apart, however large it is. With S_w the covariance
    of instances around the means of their bags and S_b that of the means, the new features are the directions a that
    solve S_b a = lambda (S_w + shrinkage diag(S_b + S_w)) a, from the largest lambda to the smallest: linear
    discriminant analysis with every bag a class of its own. A margin then weighs a feature by how well it
    separates bags, whatever its unit. M3IC gains most where features differ in this, as the colours and the colour
    differences of picture regions do.

    Parameters
    ----------
    n_components : int or None
        Directions to keep, those of the largest lambda; None for all.
    shrinkage : float, default=0.01
        Keeps features that never vary within a bag finite; no lambda is above 1 / shrinkage.

    Attributes
    ----------
    mean_ : (d,) array
        Mean of the bags' means.
    components_ : (r, d) array
    ratios_ : (r,) array
        lambda: the variance between bags over that within.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.clustering import WithinBagWhitener
    >>> rng = np.random.default_rng(0)
    >>> own, noise = np.repeat(rng.normal(size=50), 4), 10 * rng.normal(size=200)
    >>> bags = Bags(np.column_stack([own + 0.1 * rng.normal(size=200), noise]), np.arange(51) * 4)
    >>> white = WithinBagWhitener().fit(bags)
    >>> white.ratios_.round(1).tolist()
    [43.3, 0.2]
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "mean_": Numbers("features"),
        "components_": Numbers("outputs", "features"),
        "ratios_": Numbers("outputs", low=0),
    }

    def __init__(self, n_components: int | None = None, *, shrinkage: float = 0.01):
        self.n_components = n_components
        self.shrinkage = shrinkage

    def fit(self, X: BagsLike, y: Any = None) -> WithinBagWhitener:
        """Learn the directions.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        y : ignored
        """
        check_positive(self, "shrinkage")
        bags = validate_bags(self, X, reset=True)
        d = bags.n_features
        if self.n_components is not None and not (is_count(self.n_components) and self.n_components <= d):
            raise InputError(
                f"The 'n_components' parameter of WithinBagWhitener must be None or 1 to the number of features, {d}. "
                f"Got {self.n_components!r}."
            )
        check_allocation(32 * d * d, f"The covariances of {d} features", "reduce the features first (TruncatedSVD)")
        means = bag_means(bags)
        self.mean_ = means.mean(axis=0)
        between = means - self.mean_
        within = _within_scatter(bags, means) / max(1, bags.n_instances - len(bags))
        between = between.T @ between / len(bags)
        spread = np.diag(between) + np.diag(within)
        ridge = self.shrinkage * np.where(spread > 0.0, spread, 1.0)  # a constant feature is no direction at all
        ratios, directions = eigh(between, within + np.diag(ridge))
        kept = slice(None, None, -1) if self.n_components is None else slice(-1, -1 - self.n_components, -1)
        self.ratios_ = np.maximum(ratios[kept], 0.0)
        self.components_ = np.ascontiguousarray(directions[:, kept].T)
        return self

    def _transform(self, bags: Bags) -> np.ndarray:
        check_allocation(
            8 * bags.n_instances * len(self.components_), f"{bags.n_instances} whitened instances", "use fewer bags"
        )
        return np.asarray(bags.instances @ self.components_.T) - self.components_ @ self.mean_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def _within_scatter(bags: Bags, means: np.ndarray) -> np.ndarray:
    """(d, d) sum of outer products of instances minus the means of their bags."""
    X = bags.instances
    if sp.issparse(X):
        total = np.asarray((X.T @ X).todense(), dtype=np.float64)
        return total - (means * bags.sizes[:, None]).T @ means
    centred = X - np.repeat(means, bags.sizes, axis=0)  # not total - between: that cancels where the mean is large
    return centred.T @ centred


SCALINGS: dict[str, Callable[[], Any]] = {
    "within-bag": WithinBagWhitener,
    "standard": lambda: PerInstance(StandardScaler()),
    "length": lambda: PerInstance(Normalizer()),
}
"""within-bag: by the covariance within bags, for measurements. standard: every feature to variance 1. length: every
instance to length 1, for counts of words and the like."""


def are_words(bags: Bags) -> bool:
    """Whether the features are counts of words, or like them: never negative, and most of them zero."""
    X = bags.instances
    values = X.data if sp.issparse(X) else X
    n_zero = X.shape[0] * X.shape[1] - np.count_nonzero(values)
    return n_zero > WORDS_ZERO * X.shape[0] * X.shape[1] and not np.any(values < 0)


def choose_scaling(bags: Bags) -> str:
    """The scaling that suits the features, by what they are: "length" for words, else "within-bag"."""
    return "length" if are_words(bags) else "within-bag"


def scale_bags(bags: Bags, name: str) -> Bags:
    """The bags scaled in this way; "none" leaves them as they are, "auto" asks `choose_scaling`."""
    check_choice("scaling", name, (*SCALINGS, "none", "auto"))
    name = choose_scaling(bags) if name == "auto" else name
    return bags if name == "none" else SCALINGS[name]().fit_transform(bags)
