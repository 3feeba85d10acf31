"""Transformers of instances: scalers, kernel features and the reduction of sparse features.

`InstanceTransformer` is what they share: float features, dense or sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.core.checks import check_allocation, check_count, check_positive, check_that, is_positive
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import INPUTS, OUTPUT, Attribute, Either, Maybe, Number, Numbers, Size
from bagwise.core.typing import InstancesLike, Seed

FLOATS = [np.float64, np.float32]
SCALE = "Scale the features first, for example with PerInstance(StandardScaler())"
TERM_SIZE = 4.0  # by the likelihood of held-out bags, see docs/development/experiments/texts.md


class InstanceTransformer(TransformerMixin, BaseEstimator):
    """Root of the transformers of instances: float features, dense or (unless `_takes_sparse` is false) CSR."""

    _fitted: ClassVar[dict[str, Attribute]] = {**INPUTS, **OUTPUT}
    _takes_sparse: ClassVar[bool] = True

    def _training_rows(self, X: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr" if self._takes_sparse else False, dtype=FLOATS)

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr" if self._takes_sparse else False, dtype=FLOATS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class CLPLScaler(OneToOneFeatureMixin, InstanceTransformer):
    """Each feature to [0, 1], then centred, then all divided by the root of the summed squared norms.

    The scaling of the toolbox for convex learning from partial labels, on which the step lengths of support instance
    machines rest (Briggs et al. 2013, appendix on feature rescaling): afterwards sum_i ||x_i||^2 = 1 on the training
    instances.

    Parameters
    ----------
    unit_range : bool
        Without it features are centered and divided only, as the paper does the second time, after Fourier features.

    Attributes
    ----------
    minimum_, range_, mean_ : (d,) arrays
        Of the training features (0 and 1 without `unit_range`); `mean_` after the step to [0, 1]. A constant feature
        becomes zero.
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

    def __init__(self, unit_range: bool = True):
        self.unit_range = unit_range

    def fit(self, X: InstancesLike, y: object = None) -> CLPLScaler:
        """Learn ranges, means and norm; `y` is ignored."""
        rows = self._training_rows(X)
        self.fit_range(rows.min(axis=0), rows.max(axis=0))
        return self.fit_moments(*column_moments(self.to_unit(rows)))

    def fit_range(self, minimum: np.ndarray, maximum: np.ndarray) -> None:
        """Learn the first step from the least and the greatest value of each feature."""
        if not self.unit_range:
            minimum, maximum = np.zeros_like(minimum), np.ones_like(maximum)
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
    """Means of the columns, and summed squared deviations from them, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.preprocessing import column_moments
    >>> mean, squares = column_moments(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> mean.tolist(), squares.tolist()
    ([1.0, 1.0], [2.0, 0.0])
    """
    mean = X.mean(axis=0, dtype=np.float64)
    return mean, X.var(axis=0, dtype=np.float64) * X.shape[0]


class TermScaler(OneToOneFeatureMixin, InstanceTransformer):
    """Counts of terms to tf-idf: each term times its rarity, every instance of one length; sparse ones stay sparse.

    The rarity of a term is 1 + ln((1 + m) / (1 + n)), where n of the m training instances hold it. The length of all
    instances is `TERM_SIZE` times the root of the mean number of terms in one: so large is a term then on average. It
    makes the penalties that suit standardized features suit terms (docs/development/experiments/texts.md).

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
            from sklearn.decomposition import TruncatedSVD

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
    """Sparse features as an array, where there is memory for it; `who` needs it.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from bagwise.preprocessing import filled
    >>> filled(sp.csr_matrix([[0.0, 2.0]]), "This learner").tolist()
    [[0.0, 2.0]]
    """
    check_allocation(X.dtype.itemsize * X.shape[0] * X.shape[1], f"{who} needs an array, which", cure)
    return X.toarray()


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, InstanceTransformer):
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

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.preprocessing import RandomFourierFeatures
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> Z = RandomFourierFeatures(gamma=0.5, n_components=5000, random_state=0).fit_transform(X)
    >>> Z.shape, round(float(Z[0] @ Z[1]), 1), round(float(np.exp(-0.5)), 1)
    ((2, 10000), 0.6, 0.6)
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "gamma_": Number(positive=True),
        "frequencies_": Numbers("features", "pairs"),
        "_n_features_out": Size("2*pairs"),
    }

    def __init__(self, gamma: float | str = 1.0, n_components: int = 50, random_state: Seed = None):
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: InstancesLike, y: object = None) -> RandomFourierFeatures:
        """Draw the frequencies; of `X` only the width counts, and with "scale" the distances. `y` is ignored."""
        rows = self._training_rows(X)
        return self.draw(rows.shape[1], rows.dtype, lambda: mean_squared_distance(rows))

    def draw(self, n_features: int, dtype: Any, mean_distance: Callable[[], float]) -> RandomFourierFeatures:
        """Draw the frequencies for such features; `mean_distance` is called with gamma="scale" only."""
        check_that(self, "gamma", lambda value: value == "scale" or is_positive(value), "a positive number or 'scale'")
        check_count(self, "n_components")
        self.gamma_ = 2.0 / (_checked(self, mean_distance()) or 2.0) if self.gamma == "scale" else float(self.gamma)
        rng = check_random_state(self.random_state)
        shape = (n_features, self.n_components)
        frequencies = rng.normal(scale=np.sqrt(2.0 * self.gamma_), size=shape)
        self.frequencies_: np.ndarray = frequencies.astype(dtype, copy=False)
        self._n_features_out = 2 * self.n_components
        return self

    def transform(self, X: InstancesLike) -> np.ndarray:
        """(m, 2 D) features, cosine and sine of a frequency side by side."""
        rows = self._new_rows(X)
        angles = rows @ self.frequencies_.astype(rows.dtype, copy=False)
        out = np.empty((rows.shape[0], 2 * angles.shape[1]), dtype=rows.dtype)
        np.cos(angles, out=out[:, 0::2])
        np.sin(angles, out=out[:, 1::2])
        out *= rows.dtype.type(1.0 / np.sqrt(angles.shape[1]))
        return out


class RBFDictionary(ClassNamePrefixFeaturesOutMixin, InstanceTransformer):
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

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import PerInstance, RBFDictionary
    >>> bags = make_gaussian_bags(n_bags=30, random_state=0).bags
    >>> similar = PerInstance(RBFDictionary(size=20, random_state=0)).fit_transform(bags)
    >>> similar.n_features, bool((similar.instances <= 1.0).all())
    (20, True)
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "delta_": Number(positive=True),
        "dictionary_": Numbers("words", "features", sparse=True),
        "whitening_": Maybe(Numbers("words", "words")),
        "_n_features_out": Size("words"),
    }

    def __init__(
        self,
        width: float = 1.0,
        *,
        size: float | int | None = None,
        whiten: bool = False,
        random_state: Seed = None,
    ):
        self.width = width
        self.size = size
        self.whiten = whiten
        self.random_state = random_state

    def fit(self, X: InstancesLike, y: object = None) -> RBFDictionary:
        """Choose the dictionary and the width; `y` is ignored."""
        rows = self._training_rows(X)
        index = self.draw_rows(rows.shape[0])
        self._check_memory(rows.shape[0], len(index))
        return self.fit_dictionary(rows[index], mean_squared_distance(rows))

    def draw_rows(self, n_instances: int) -> np.ndarray:
        """Which of so many instances are the dictionary, in their order."""
        check_positive(self, "width")
        n_words = self.dictionary_size(n_instances)
        if n_words == n_instances:
            return np.arange(n_instances)
        return np.sort(check_random_state(self.random_state).choice(n_instances, n_words, replace=False))

    def fit_dictionary(self, dictionary: Any, mean_distance: float) -> RBFDictionary:
        """Learn from the dictionary and the mean squared distance of all instances."""
        self.delta_ = self.width * (_checked(self, mean_distance) or 1.0)
        self.dictionary_ = dictionary
        self.__dict__.pop("whitening_", None)  # of an earlier fit
        if self.whiten:
            self.whitening_ = _inverse_square_root(self._kernel(self.dictionary_).astype(np.float64))
        self._n_features_out = dictionary.shape[0]
        return self

    def transform(self, X: InstancesLike) -> np.ndarray:
        """(m, S) kernel vectors."""
        rows = self._new_rows(X)
        self._check_memory(rows.shape[0], self.dictionary_.shape[0])
        kernel = self._kernel(rows)
        if not hasattr(self, "whitening_"):
            return kernel
        return kernel @ self.whitening_.astype(kernel.dtype, copy=False)

    def _kernel(self, X: Any) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = euclidean_distances(X, self.dictionary_, squared=True)
            kernel *= -1.0 / self.delta_
            np.exp(kernel, out=kernel)
        if np.isnan(kernel.sum()):  # its entries are at most 1 elsewhere: the sum is a number
            raise InputError(
                f"RBFDictionary(width={self.width}) cannot compare these instances: the largest feature is "
                f"{abs(X).max():.3g}, and squared distances over {self.delta_:.3g} are no numbers. {SCALE}."
            )
        return kernel.astype(X.dtype, copy=False)

    def dictionary_size(self, n_instances: int) -> int:
        """How many of so many instances are in the dictionary."""
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


def mean_squared_distance(X: Any) -> float:
    """Mean of ||x_i - x_j||^2 over all pairs i != j, in O(m d): twice the summed sample variances.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.preprocessing import mean_squared_distance
    >>> mean_squared_distance(np.array([[0.0], [3.0]]))
    9.0
    """
    m = X.shape[0]
    if m < 2:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            mean = np.asarray(X.mean(axis=0)).ravel()
            total = float(X.multiply(X).sum()) - m * float(mean @ mean)
            return 0.0 if total < 0.0 else 2.0 * total / (m - 1)
        return float(2.0 * X.var(axis=0, ddof=1, dtype=np.float64).sum())


def _checked(transformer: Any, mean_squared: float) -> float:
    """A mean squared distance that one can divide by, or zero; an `InputError` where it is no number or nearly 0."""
    if mean_squared == 0.0 or 1e-300 < mean_squared < 1e300:
        return mean_squared
    raise InputError(
        f"{type(transformer).__name__} cannot measure how far apart the instances are: their mean squared distance is "
        f"{mean_squared:.3g}. {SCALE}."
    )


def _inverse_square_root(kernel: np.ndarray) -> np.ndarray:
    """Symmetric K^(-1/2); directions whose eigenvalue is lost in rounding are left out."""
    values, vectors = np.linalg.eigh(kernel)
    keep = values > len(values) * np.finfo(kernel.dtype).eps * values[-1]
    vectors = vectors[:, keep]
    return (vectors / np.sqrt(values[keep])) @ vectors.T
