"""Scalers of instances that the learners of the papers, and texts, need."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin

from bagwise.core.fitted import Attribute, Number, Numbers
from bagwise.core.typing import InstancesLike
from bagwise.preprocessing._transformer import InstanceTransformer

TERM_SIZE = 4.0  # by the likelihood of held-out bags, see docs/texts.md


class CLPLScaler(OneToOneFeatureMixin, InstanceTransformer):
    """Each feature to [0, 1], then centred, then all divided by the root of the summed squared norms.

    The scaling of the toolbox for convex learning from partial labels, on which the step lengths of support instance
    machines rest (Briggs et al. 2013, appendix on feature rescaling): afterwards sum_i ||x_i||^2 = 1 on the training
    instances.

    Attributes
    ----------
    minimum_, range_, mean_ : (d,) arrays
        Of the training features; `mean_` after the step to [0, 1]. A constant feature becomes zero.
    norm_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.preprocessing import CLPLScaler
    >>> X = CLPLScaler().fit_transform(np.random.default_rng(0).normal(size=(50, 3)))
    >>> round(float((X**2).sum()), 6)
    1.0
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "minimum_": Numbers("features"),
        "range_": Numbers("features", positive=True),
        "mean_": Numbers("features"),
        "norm_": Number(positive=True),
    }
    _takes_sparse = False

    def fit(self, X: InstancesLike, y: object = None) -> CLPLScaler:
        """Learn ranges, means and norm; `y` is ignored."""
        rows = self._training_rows(X)
        self.fit_range(rows.min(axis=0), rows.max(axis=0))
        return self.fit_moments(*column_moments(self.to_unit(rows)))

    def fit_range(self, minimum: np.ndarray, maximum: np.ndarray) -> None:
        """Learn the first step from the least and the greatest value of each feature."""
        self.minimum_, spread = minimum, maximum - minimum
        self.range_ = np.where(spread > 0, spread, 1.0).astype(minimum.dtype)

    def to_unit(self, X: np.ndarray) -> np.ndarray:
        """Each feature to [0, 1], the first step."""
        return (X - self.minimum_) / self.range_

    def fit_moments(self, mean: np.ndarray, squares: np.ndarray) -> CLPLScaler:
        """Learn the rest from the means of the features between 0 and 1, and their summed squared deviations."""
        self.mean_ = mean.astype(self.minimum_.dtype)
        norm = float(np.sqrt(squares.sum()))
        self.norm_ = norm if norm > 0 else 1.0
        return self

    def transform(self, X: InstancesLike) -> np.ndarray:
        """Apply what was learned."""
        rows = self._new_rows(X)
        return ((self.to_unit(rows) - self.mean_) / self.norm_).astype(rows.dtype, copy=False)


def column_moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of the columns, and summed squared deviations from them, in float64."""
    mean = X.mean(axis=0, dtype=np.float64)
    return mean, X.var(axis=0, dtype=np.float64) * X.shape[0]


class TermScaler(OneToOneFeatureMixin, InstanceTransformer):
    """Counts of terms to tf-idf: each term times its rarity, every instance of one length; sparse ones stay sparse.

    The rarity of a term is 1 + ln((1 + m) / (1 + n)), where n of the m training instances hold it. The length of all
    instances is `TERM_SIZE` times the root of the mean number of terms in one: so large is a term then on average. It
    makes the penalties that suit standardized features suit terms (docs/texts.md).

    Attributes
    ----------
    rarity_ : (d,) array
    length_ : float
        An instance without any term stays zero.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from bagwise.preprocessing import TermScaler
    >>> TermScaler().fit_transform(sp.csr_matrix([[3.0, 0.0], [1.0, 1.0]])).toarray().round(2).tolist()
    [[4.9, 0.0], [2.84, 3.99]]
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "rarity_": Numbers("features", positive=True),
        "length_": Number(positive=True),
    }

    def fit(self, X: InstancesLike, y: object = None) -> TermScaler:
        """Count in how many instances each term is; `y` is ignored."""
        rows = sp.csr_matrix(self._training_rows(X))
        counts = np.bincount(rows.indices[rows.data != 0], minlength=rows.shape[1])
        self.rarity_ = (1.0 + np.log((1.0 + rows.shape[0]) / (1.0 + counts))).astype(rows.dtype)
        self.length_ = TERM_SIZE * float(np.sqrt(counts.sum() / rows.shape[0])) or 1.0
        return self

    def transform(self, X: InstancesLike) -> Any:
        """(m, d) weighted terms, sparse where `X` is."""
        given = self._new_rows(X)
        rows = sp.csr_matrix(given, copy=True)
        rows.data *= self.rarity_[rows.indices]
        norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel())
        rows.data *= np.repeat(self.length_ / np.where(norms > 0, norms, 1.0), np.diff(rows.indptr))
        return rows if sp.issparse(given) else rows.toarray()
