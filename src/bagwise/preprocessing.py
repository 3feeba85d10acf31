"""Transformers of instances: plain scikit-learn transformers, and `PerInstance`, which lifts any of them to bags."""

from __future__ import annotations

from contextlib import AbstractContextManager
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagTransformerMixin, learn_labels
from bagwise.exceptions import InputError
from bagwise.fitted import INPUTS, OUTPUT, Attribute, Either, Maybe, Number, Numbers, Part, Size, n_outputs
from bagwise.inputs import split_dataset, validate_bags, validate_weights
from bagwise.memory import check_allocation
from bagwise.parameters import check_count, check_positive, check_that, is_positive
from bagwise.typing import BagsLike, InstancesLike, LabelsLike, Seed, Transformer, WeightsLike

FLOATS = [np.float64, np.float32]
TERM_SIZE = 4.0  # by the likelihood of held-out bags, see docs/texts.md


class PerInstance(BagTransformerMixin, BagEstimator):
    """Fit and apply a scikit-learn transformer on the instances of all bags, whatever bag they are in.

    One that learns from a target is handed the labels of the bags: every instance counts once for each label of its
    bag, and those of bags without labels not at all.

    Parameters
    ----------
    transformer : transformer
        Any scikit-learn transformer that gives one row for each row; also a `FeatureUnion` or a pipeline of some. Where
        its tags say that it takes no sparse features, it is given dense ones.

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

    _fitted: ClassVar[dict[str, Attribute]] = {"transformer_": Part("transform")}
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"sample_weight": False}  # asked for by who wants it

    def __init__(self, transformer: Transformer):
        self.transformer = transformer

    def fit(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> PerInstance:
        """Fit a copy of the transformer on all instances.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : labels of the bags in any form, or None
            For a transformer that learns from a target; ignored by others.
        sample_weight : (n,) array or None
            Weight of each bag, which its instances are given to the transformer with.
        """
        X, y = split_dataset(X, y)
        bags = validate_bags(self, X, reset=True)
        weights = validate_weights(sample_weight, len(bags))
        transformer = clone(self.transformer)
        rows, target = np.arange(bags.n_instances), None
        if needs_target(transformer):
            indicator, classes, _ = learn_labels(y, len(bags))
            rows, columns = np.nonzero(np.repeat(indicator, bags.sizes, axis=0))
            target = classes[columns]
        parameters = {}
        if weights is not None:
            if not has_fit_parameter(transformer, "sample_weight"):
                raise InputError(f"{type(transformer).__name__} takes no sample_weight; fit it without weights.")
            parameters["sample_weight"] = np.repeat(weights, bags.sizes)[rows]
        taken = self._as_taken(bags.instances)
        instances = taken if target is None else taken[rows]
        with _arrays_within():
            self.transformer_ = transformer.fit(instances, target, **parameters)
        return self

    def _as_taken(self, instances: Any) -> Any:
        """The instances in a form that the transformer takes."""
        if not sp.issparse(instances) or get_tags(self.transformer).input_tags.sparse:
            return instances
        return filled(instances, f"{type(self.transformer).__name__}, which takes no sparse features,")

    def _transform(self, bags: Bags) -> Any:
        taken = self._as_taken(bags.instances)
        try:
            with _arrays_within():
                instances = self.transformer_.transform(taken)
        except InputError:
            raise
        except ValueError as error:  # of scikit-learn, which knows nothing of bags
            reason = " ".join(str(error).split()).rstrip(".")
            name = type(self.transformer_).__name__
            raise InputError(
                f"{name} cannot transform the instances of these bags: {reason}. Give it data like those of its fit, "
                f"or take {name} out and fit again."
            ) from error
        if hasattr(instances, "to_numpy"):  # a frame, which the transformer itself was told to give
            instances = instances.to_numpy()
        if instances.shape[0] != bags.n_instances:
            raise InputError(
                f"{type(self.transformer).__name__} turned {bags.n_instances} rows into {instances.shape[0]}; "
                "PerInstance needs a transformer that gives one row for each row."
            )
        return instances

    @property
    def _n_features_out(self) -> int:
        return n_outputs(self.transformer_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names that the transformer gives its outputs."""
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.sparse = True  # a transformer that does not take them is given arrays
        tags.target_tags.required = needs_target(self.transformer)
        return tags


def _arrays_within() -> AbstractContextManager[Any]:
    """Around a transformer of instances, which sees arrays: the steps of a pipeline are not to hand each other frames,
    whose made-up names (x0, x1, ...) they would learn and hold against those of the bags."""
    return config_context(transform_output="default")


def needs_target(transformer: Any) -> bool:
    """Whether a transformer, or a part of it, learns from a target."""
    if isinstance(transformer, Pipeline):
        return any(needs_target(step) for _, step in transformer.steps)
    if isinstance(transformer, FeatureUnion):
        return any(needs_target(part) for _, part in transformer.transformer_list)
    if isinstance(transformer, ColumnTransformer):
        return any(needs_target(part) for _, part, _ in transformer.transformers) or needs_target(transformer.remainder)
    if isinstance(transformer, SelectorMixin):  # SelectKBest says that it needs none, for the sake of k="all"
        return not isinstance(transformer, VarianceThreshold)
    return hasattr(transformer, "__sklearn_tags__") and bool(get_tags(transformer).target_tags.required)


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

    _fitted: ClassVar[dict[str, Attribute]] = {
        **INPUTS, **OUTPUT, "minimum_": Numbers("features"), "range_": Numbers("features", positive=True),
        "mean_": Numbers("features"), "norm_": Number(positive=True),
    }  # fmt: skip

    def fit(self, X: InstancesLike, y: object = None) -> CLPLScaler:
        """Learn ranges, means and norm; `y` is ignored."""
        rows = validate_data(self, X, dtype=FLOATS)
        self._set_range(rows.min(axis=0), rows.max(axis=0))
        mean, squares = _column_moments(self._to_unit(rows))
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

    def transform(self, X: InstancesLike) -> np.ndarray:
        """Apply what was learned."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=FLOATS)
        return ((self._to_unit(rows) - self.mean_) / self.norm_).astype(rows.dtype, copy=False)

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

    _fitted: ClassVar[dict[str, Attribute]] = {
        **INPUTS, **OUTPUT, "rarity_": Numbers("features", positive=True), "length_": Number(positive=True),
    }  # fmt: skip

    def fit(self, X: InstancesLike, y: object = None) -> TermScaler:
        """Count in how many instances each term is; `y` is ignored."""
        rows = sp.csr_matrix(validate_data(self, X, accept_sparse="csr", dtype=FLOATS))
        found = np.bincount(rows.indices[rows.data != 0], minlength=rows.shape[1])
        self.rarity_ = (1.0 + np.log((1.0 + rows.shape[0]) / (1.0 + found))).astype(rows.dtype)
        self.length_ = TERM_SIZE * float(np.sqrt(found.sum() / rows.shape[0])) or 1.0
        return self

    def transform(self, X: InstancesLike) -> Any:
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

    _fitted: ClassVar[dict[str, Attribute]] = {
        **INPUTS, **OUTPUT, "gamma_": Number(positive=True), "frequencies_": Numbers("features", "pairs"),
        "_n_features_out": Size("2*pairs"),
    }  # fmt: skip

    def __init__(self, gamma: float | str = 1.0, n_components: int = 50, random_state: Seed = None):
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: InstancesLike, y: object = None) -> RandomFourierFeatures:
        """Draw the frequencies; of `X` only the width counts, and with "scale" the distances. `y` is ignored."""
        self._check_parameters()
        rows = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        return self._draw(rows.shape[1], rows.dtype, mean_squared_distance(rows) if self.gamma == "scale" else 0.0)

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

    def transform(self, X: InstancesLike) -> np.ndarray:
        """(m, 2 D) features, cosine and sine of a frequency side by side."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        angles = rows @ self.frequencies_.astype(rows.dtype, copy=False)
        out = np.empty((rows.shape[0], 2 * angles.shape[1]), dtype=rows.dtype)
        np.cos(angles, out=out[:, 0::2])
        np.sin(angles, out=out[:, 1::2])
        out *= rows.dtype.type(1.0 / np.sqrt(angles.shape[1]))
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

    _fitted: ClassVar[dict[str, Attribute]] = {
        **INPUTS, "delta_": Number(positive=True), "dictionary_": Numbers("words", "features", sparse=True),
        "whitening_": Maybe(Numbers("words", "words")), "_n_features_out": Size("words"),
    }  # fmt: skip

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
        check_positive(self, "width")
        rows = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        index = self._draw_rows(rows.shape[0])
        self._check_memory(rows.shape[0], len(index))
        return self._set_dictionary(rows[index], mean_squared_distance(rows))

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

    def transform(self, X: InstancesLike) -> np.ndarray:
        """(m, S) kernel vectors."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        self._check_memory(rows.shape[0], self.dictionary_.shape[0])
        kernel = self._kernel(rows)
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

    _fitted: ClassVar[dict[str, Attribute]] = {
        **INPUTS, **OUTPUT, "components_": Either(None, Numbers("outputs", "features")),
        "_n_features_out": Size("outputs"),
    }  # fmt: skip

    def _check_fitted(self) -> None:
        if self.components_ is None and self._n_features_out != self.n_features_in_:
            raise InputError("SparseReducer gives all features, but not as many as it takes; fit it again")

    def __init__(self, n_components: int = 100, random_state: Seed = None):
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: InstancesLike, y: object = None) -> SparseReducer:
        """Find the components of sparse features; `y` is ignored."""
        check_count(self, "n_components")
        rows = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        self.components_ = None
        if sp.issparse(rows):
            n_components = min(self.n_components, rows.shape[1])
            svd = TruncatedSVD(n_components, random_state=check_random_state(self.random_state)).fit(rows)
            self.components_ = svd.components_
        self._n_features_out = rows.shape[1] if self.components_ is None else len(self.components_)
        return self

    def transform(self, X: InstancesLike) -> np.ndarray:
        """(m, k) dense array; (m, d) after a fit on dense features."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        if self.components_ is not None:
            return rows @ self.components_.T.astype(rows.dtype, copy=False)
        return filled(rows, "SparseReducer that was fitted on dense features") if sp.issparse(rows) else rows

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
