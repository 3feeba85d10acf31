"""Transformers of instances: plain scikit-learn transformers, and `PerInstance`, which lifts any of them to bags."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.bags import Bags
from bagwise.base import BagEstimator, is_flat, validate_bags
from bagwise.exceptions import InputError
from bagwise.memory import check_allocation
from bagwise.parameters import check_count, check_positive, check_that, is_positive

FLOATS = [np.float64, np.float32]
TERM_SIZE = 4.0  # by the likelihood of held-out bags


class PerInstance(TransformerMixin, BagEstimator):
    """Fit and apply a scikit-learn transformer on the instances of all bags, whatever bag they are in.

    Parameters
    ----------
    transformer : transformer
        Any scikit-learn transformer that gives one row for each row and needs no target. Where its tags say that it
        takes no sparse features, it is given dense ones.

    Attributes
    ----------
    transformer_ : the fitted copy

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise import Bags
    >>> from bagwise.preprocessing import PerInstance
    >>> bags = Bags.from_list([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    >>> PerInstance(StandardScaler()).fit_transform(bags).instances.round(2).ravel().tolist()
    [-1.22, 0.0, 1.22]
    """

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> PerInstance:
        """Fit a copy of the transformer on all instances; `y` is ignored."""
        bags = validate_bags(self, X, reset=True)
        self.transformer_ = clone(self.transformer).fit(self._as_taken(bags.instances))
        return self

    def _as_taken(self, instances: Any) -> Any:
        """The instances in a form that the transformer takes."""
        if not sp.issparse(instances) or get_tags(self.transformer).input_tags.sparse:
            return instances
        return filled(instances, f"{type(self.transformer).__name__}, which takes no sparse features,")

    def transform(self, X: Any) -> Any:
        """`Bags` of transformed instances; for a plain table, a table."""
        bags = self._start_predict(X)
        instances = self.transformer_.transform(self._as_taken(bags.instances))
        if hasattr(instances, "to_numpy"):
            instances = instances.to_numpy()
        if instances.shape[0] != bags.n_instances:
            raise InputError(
                f"{type(self.transformer).__name__} turned {bags.n_instances} rows into {instances.shape[0]}; "
                "PerInstance needs a transformer that gives one row for each row."
            )
        return instances if is_flat(X) else Bags(instances, bags.offsets)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names that the transformer gives its outputs."""
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.sparse = False  # whether sparse instances work is up to the transformer
        return tags


class CLPLScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
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

    def fit(self, X: Any, y: Any = None) -> CLPLScaler:
        """Learn ranges, means and norm; `y` is ignored."""
        X = validate_data(self, X, dtype=FLOATS)
        self._set_range(X.min(axis=0), X.max(axis=0))
        mean, squares = _column_moments(self._to_unit(X))
        return self._set_moments(mean, squares)

    def _set_range(self, minimum: np.ndarray, maximum: np.ndarray) -> None:
        self.minimum_, spread = minimum, maximum - minimum
        self.range_ = np.where(spread > 0, spread, 1.0).astype(minimum.dtype)

    def _to_unit(self, X: np.ndarray) -> np.ndarray:
        return (X - self.minimum_) / self.range_

    def _set_moments(self, mean: np.ndarray, squares: np.ndarray) -> CLPLScaler:
        """From the means of the features between 0 and 1, and their summed squared deviations."""
        self.mean_ = mean.astype(self.minimum_.dtype)
        norm = float(np.sqrt(squares.sum()))
        self.norm_ = norm if norm > 0 else 1.0
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Apply what was learned."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        return ((self._to_unit(X) - self.mean_) / self.norm_).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class TermScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
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

    def fit(self, X: Any, y: Any = None) -> TermScaler:
        """Count in how many instances each term is; `y` is ignored."""
        X = sp.csr_matrix(validate_data(self, X, accept_sparse="csr", dtype=FLOATS))
        found = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
        self.rarity_ = (1.0 + np.log((1.0 + X.shape[0]) / (1.0 + found))).astype(X.dtype)
        self.length_ = TERM_SIZE * float(np.sqrt(found.sum() / X.shape[0])) or 1.0
        return self

    def transform(self, X: Any) -> Any:
        """(m, d) weighted terms, sparse where `X` is."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        rows = sp.csr_matrix(X, copy=True)
        rows.data *= self.rarity_[rows.indices]
        norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel())
        rows.data *= np.repeat(self.length_ / np.where(norms > 0, norms, 1.0), np.diff(rows.indptr))
        return rows if sp.issparse(X) else rows.toarray()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """z(x) = D^(-1/2) (cos w_1.x, sin w_1.x, ..., cos w_D.x, sin w_D.x), w_i ~ N(0, 2 gamma I).

    z(x).z(y) approximates exp(-gamma ||x - y||^2), and ||z(x)|| = 1 exactly (Algorithm 6 of Briggs et al. 2013, after
    Rahimi and Recht).

    Parameters
    ----------
    gamma : float or "scale", default=1.0
        "scale" is two over the mean squared distance of the instances (1 where that is zero): it follows the scale of
        the features, which `CLPLScaler` makes smaller the more instances there are.
    n_components : int, default=50
        D; twice as many features come out.
    random_state : int, RandomState or None

    Attributes
    ----------
    gamma_ : float
        What `gamma` came to.
    frequencies_ : (d, D) array
    """

    def __init__(self, gamma: float | str = 1.0, n_components: int = 50, random_state: Any = None):
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> RandomFourierFeatures:
        """Draw the frequencies; of `X` only the width counts, and with "scale" the distances. `y` is ignored."""
        self._check_parameters()
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        return self._draw(X.shape[1], X.dtype, mean_squared_distance(X) if self.gamma == "scale" else 0.0)

    def _check_parameters(self) -> None:
        check_that(self, "gamma", lambda value: value == "scale" or is_positive(value), "a positive number or 'scale'")
        check_count(self, "n_components")

    def _draw(self, n_features: int, dtype: Any, mean_distance: float) -> RandomFourierFeatures:
        """Of instances only these three count."""
        self.gamma_ = 2.0 / (mean_distance or 2.0) if self.gamma == "scale" else float(self.gamma)
        rng = check_random_state(self.random_state)
        shape = (n_features, self.n_components)
        self.frequencies_: np.ndarray = rng.normal(scale=np.sqrt(2.0 * self.gamma_), size=shape).astype(
            dtype, copy=False
        )
        self._n_features_out = 2 * self.n_components
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(m, 2 D) features, cosine and sine of a frequency side by side."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        angles = X @ self.frequencies_.astype(X.dtype, copy=False)
        out = np.empty((X.shape[0], 2 * angles.shape[1]), dtype=X.dtype)
        np.cos(angles, out=out[:, 0::2])
        np.sin(angles, out=out[:, 1::2])
        out *= X.dtype.type(1.0 / np.sqrt(angles.shape[1]))
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RBFDictionary(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel vector k(x) = (K(x, z_1), ..., K(x, z_S)), K(x, z) = exp(-||x - z||^2 / delta), of a dictionary z.

    A linear model on k(x) is the kernel model of section 4.3 of Pham et al.

    Parameters
    ----------
    width : float, default=1.0
        delta as a multiple of the mean squared distance between two training instances (section 6.5).
    size : float, int or None, default=None
        Instances in the dictionary, drawn without replacement: a share (float in (0, 1]), a number (int, at most all
        are used), or all (None).
    whiten : bool, default=False
        Give K_zz^(-1/2) k(x) instead. Then the squared norm of the weights is the squared RKHS norm of the function,
        so that an L2 penalty is the kernel machine's own.
    random_state : int, RandomState or None

    Attributes
    ----------
    dictionary_ : (S, d) array or CSR matrix
    delta_ : float
    whitening_ : (S, S) array, with whiten=True
    """

    def __init__(
        self,
        width: float = 1.0,
        *,
        size: float | int | None = None,
        whiten: bool = False,
        random_state: Any = None,
    ):
        self.width = width
        self.size = size
        self.whiten = whiten
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> RBFDictionary:
        """Choose the dictionary and the width; `y` is ignored."""
        check_positive(self, "width")
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        index = self._draw_rows(X.shape[0])
        self._check_memory(X.shape[0], len(index))
        return self._set_dictionary(X[index], mean_squared_distance(X))

    def _draw_rows(self, n_instances: int) -> np.ndarray:
        """Which instances are the dictionary, in their order."""
        n_words = self._dictionary_size(n_instances)
        if n_words == n_instances:
            return np.arange(n_instances)
        return np.sort(check_random_state(self.random_state).choice(n_instances, n_words, replace=False))

    def _set_dictionary(self, dictionary: Any, mean_distance: float) -> RBFDictionary:
        self.delta_ = self.width * mean_distance if mean_distance > 0 else self.width
        self.dictionary_ = dictionary
        self.__dict__.pop("whitening_", None)  # of an earlier fit
        if self.whiten:
            self.whitening_ = inverse_square_root(self._kernel(self.dictionary_).astype(np.float64))
        self._n_features_out = dictionary.shape[0]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(m, S) kernel vectors."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        self._check_memory(X.shape[0], self.dictionary_.shape[0])
        kernel = self._kernel(X)
        if not hasattr(self, "whitening_"):
            return kernel
        return kernel @ self.whitening_.astype(kernel.dtype, copy=False)

    def _kernel(self, X: Any) -> np.ndarray:
        kernel = euclidean_distances(X, self.dictionary_, squared=True)
        kernel *= -1.0 / self.delta_
        return np.exp(kernel, out=kernel).astype(X.dtype, copy=False)

    def _dictionary_size(self, n_instances: int) -> int:
        if self.size is None:
            return n_instances
        if isinstance(self.size, Integral) and self.size >= 1:
            return min(int(self.size), n_instances)
        if isinstance(self.size, float) and 0 < self.size <= 1:
            return max(1, round(self.size * n_instances))
        raise InputError(
            f"The 'size' parameter of RBFDictionary must be None, a share in (0, 1] or a number of instances. "
            f"Got {self.size!r}."
        )

    @staticmethod
    def _check_memory(n_instances: int, n_words: int) -> None:
        check_allocation(
            16 * n_instances * n_words,
            f"The kernel vectors of {n_instances} instances over a dictionary of {n_words}",
            "choose a smaller dictionary with size=",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SparseReducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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

    def __init__(self, n_components: int = 100, random_state: Any = None):
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SparseReducer:
        """Find the components of sparse features; `y` is ignored."""
        check_count(self, "n_components")
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        self.components_ = None
        if sp.issparse(X):
            n_components = min(self.n_components, X.shape[1])
            svd = TruncatedSVD(n_components, random_state=check_random_state(self.random_state)).fit(X)
            self.components_ = svd.components_
        self._n_features_out = X.shape[1] if self.components_ is None else len(self.components_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(m, k) dense array; (m, d) after a fit on dense features."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        if self.components_ is not None:
            return X @ self.components_.T.astype(X.dtype, copy=False)
        return filled(X, "SparseReducer that was fitted on dense features") if sp.issparse(X) else X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def filled(X: Any, who: str, cure: str = "use a learner that takes sparse ones") -> np.ndarray:
    """Sparse features as an array, where there is memory for it; `who` needs it."""
    check_allocation(X.dtype.itemsize * X.shape[0] * X.shape[1], f"{who} needs an array, which", cure)
    return X.toarray()


def _column_moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of the columns, and summed squared deviations from them, in float64."""
    mean = X.mean(axis=0, dtype=np.float64)
    return mean, X.var(axis=0, dtype=np.float64) * X.shape[0]


def mean_squared_distance(X: Any) -> float:
    """Mean of ||x_i - x_j||^2 over all pairs i != j, in O(m d): twice the summed sample variances."""
    m = X.shape[0]
    if m < 2:
        return 0.0
    if sp.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        total = float(X.multiply(X).sum()) - m * float(mean @ mean)
        return max(2.0 * total / (m - 1), 0.0)
    return float(2.0 * X.var(axis=0, ddof=1, dtype=np.float64).sum())


def inverse_square_root(kernel: np.ndarray) -> np.ndarray:
    """Symmetric K^(-1/2); directions whose eigenvalue is lost in rounding are left out."""
    values, vectors = np.linalg.eigh(kernel)
    keep = values > len(values) * np.finfo(kernel.dtype).eps * values[-1]
    vectors = vectors[:, keep]
    return (vectors / np.sqrt(values[keep])) @ vectors.T
