"""Sparse features made dense: by their leading components, or as they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.utils import check_random_state

from bagwise.core.checks import check_allocation, check_count
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, Either, Numbers, Size
from bagwise.core.typing import InstancesLike, Seed
from bagwise.preprocessing._transformer import InstanceTransformer


class SparseReducer(ClassNamePrefixFeaturesOutMixin, InstanceTransformer):
    """Sparse features as their leading components, for learners that need dense ones; dense features as they are.

    Parameters
    ----------
    n_components : int, default=100
        Components of a truncated singular value decomposition of the features, not centred; at most as many as there
        are features.
    random_state : int, RandomState or None

    Attributes
    ----------
    components_ : (k, d) array or None
        None after a fit on dense features.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from bagwise.preprocessing import SparseReducer
    >>> X = np.eye(5)
    >>> reducer = SparseReducer(2, random_state=0)
    >>> reducer.fit_transform(X).shape, reducer.fit_transform(sp.csr_matrix(X)).shape
    ((5, 5), (5, 2))
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "components_": Either(None, Numbers("outputs", "features")),
        "_n_features_out": Size("outputs"),
    }

    def _check_fitted(self) -> None:
        if self.components_ is None and self._n_features_out != self.n_features_in_:
            raise InputError("SparseReducer gives all features, but not as many as it takes; fit it again")

    def __init__(self, n_components: int = 100, random_state: Seed = None):
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: InstancesLike, y: object = None) -> SparseReducer:
        """Find the components of sparse features; `y` is ignored."""
        check_count(self, "n_components")
        rows = self._training_rows(X)
        self.components_ = None
        if sp.issparse(rows):
            n_components = min(self.n_components, rows.shape[1])
            svd = TruncatedSVD(n_components, random_state=check_random_state(self.random_state)).fit(rows)
            self.components_ = svd.components_
        self._n_features_out = rows.shape[1] if self.components_ is None else len(self.components_)
        return self

    def transform(self, X: InstancesLike) -> np.ndarray:
        """(m, k) dense array; (m, d) after a fit on dense features."""
        rows = self._new_rows(X)
        if self.components_ is not None:
            return rows @ self.components_.T.astype(rows.dtype, copy=False)
        return filled(rows, "SparseReducer that was fitted on dense features") if sp.issparse(rows) else rows


def filled(X: Any, who: str, cure: str = "use a learner that takes sparse ones") -> np.ndarray:
    """Sparse features as an array, where there is memory for it; `who` needs it."""
    check_allocation(X.dtype.itemsize * X.shape[0] * X.shape[1], f"{who} needs an array, which", cure)
    return X.toarray()
