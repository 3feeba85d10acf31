"""Any scikit-learn transformer of instances, lifted to bags."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise.core.bags import Bags
from bagwise.core.base import BagEstimator, BagTransformerMixin
from bagwise.core.checks import check_that, in_our_words
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, Part, n_outputs
from bagwise.core.typing import BagsLike, LabelsLike, Transformer, WeightsLike
from bagwise.core.validation import learn_labels, split_dataset, validate_bags, validate_weights
from bagwise.preprocessing._instances import filled

_PARTS = {Pipeline: "steps", FeatureUnion: "transformer_list", ColumnTransformer: "transformers"}


class PerInstance(BagTransformerMixin, BagEstimator):
    """Fit and apply a scikit-learn transformer on the instances of all bags, whatever bag they are in.

    One that learns from a target is handed the labels of the bags: every instance counts once for each label of its
    bag, and those of bags without labels not at all.

    Parameters
    ----------
    transformer : transformer
        Any scikit-learn transformer that gives one row for each row; also a `FeatureUnion` or a pipeline of some. Where
        its tags say that it takes no sparse features, it is given dense ones, and where they say that it takes missing
        values (NaN), as those of `SimpleImputer` do, it is given these; learners take none.

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
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"sample_weight": False}  # requested where it is wanted

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
        check_that(self, "transformer", _is_transformer, "a transformer, which has fit and transform")
        transformer = clone(self.transformer)
        rows, target = np.arange(bags.n_instances), None
        if _needs_target(transformer):
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
        problem = f"{transformer} cannot learn from the instances of these bags"
        cure = "Change its parameters or the features, or take it out."
        # numbers beyond float64 are reported by `check_variances`
        with _arrays_within(), in_our_words(problem, cure), np.errstate(over="ignore", invalid="ignore"):
            self.transformer_ = transformer.fit(instances, target, **parameters)
        check_variances(self.transformer_)
        return self

    def _as_taken(self, instances: Any) -> Any:
        """The instances in a form that the transformer takes."""
        if not sp.issparse(instances) or get_tags(self.transformer).input_tags.sparse:
            return instances
        return filled(instances, f"{type(self.transformer).__name__}, which takes no sparse features,")

    def _transform(self, bags: Bags) -> Any:
        taken = self._as_taken(bags.instances)
        name = type(self.transformer_).__name__
        cure = f"Give it data like those of its fit, or take {name} out and fit again."
        with _arrays_within(), in_our_words(f"{name} cannot transform the instances of these bags", cure):
            instances = self.transformer_.transform(taken)
        if hasattr(instances, "to_numpy"):  # a frame: the transformer has an output setting of its own
            instances = instances.to_numpy()
        if instances.shape[0] != bags.n_instances:
            raise InputError(
                f"{type(self.transformer).__name__} turned {bags.n_instances} rows into {instances.shape[0]}; "
                "PerInstance needs a transformer that gives one row for each row."
            )
        return instances

    @property
    def _takes_nan(self) -> bool:
        """Whether missing values go on to the transformer: an imputer fills them, a scaler lets them be."""
        has_tags = hasattr(self.transformer, "__sklearn_tags__") and not isinstance(self.transformer, type)
        return has_tags and bool(get_tags(self.transformer).input_tags.allow_nan)

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
        tags.input_tags.allow_nan = self._takes_nan
        tags.input_tags.sparse = True  # a transformer that does not take them is given arrays
        tags.target_tags.required = _needs_target(self.transformer)
        return tags


def _arrays_within() -> AbstractContextManager[Any]:
    """Around a transformer of instances, which sees arrays: the steps of a pipeline are not to hand each other frames,
    whose made-up names (x0, x1, ...) they would learn and hold against those of the bags."""
    return config_context(transform_output="default")


def _is_transformer(value: Any) -> bool:
    return hasattr(value, "fit") and hasattr(value, "transform") and not isinstance(value, type)


def check_variances(transformer: Any) -> None:
    """Raise an `InputError` where a feature has no finite variance, by which `StandardScaler` would scale silently.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.preprocessing import check_variances
    >>> check_variances(StandardScaler().fit([[0.0], [2.0]]))
    """
    if not isinstance(transformer, StandardScaler) or transformer.var_ is None:
        return
    variances = np.asarray(transformer.var_)
    bad = np.flatnonzero(~np.isfinite(variances))
    if len(bad):
        raise InputError(
            f"StandardScaler cannot scale feature {bad[0]}: its values are so large that their variance is "
            f"{variances[bad[0]]}; numbers up to about 1e150 have one. Divide the feature by a power of ten first, or "
            "scale with MinMaxScaler."
        )


def _needs_target(transformer: Any) -> bool:
    """Whether a transformer, or a part of it, learns from a target."""
    from sklearn.feature_selection import SelectorMixin, VarianceThreshold

    for composite, parts in _PARTS.items():
        if isinstance(transformer, composite):
            inner = [part[1] for part in getattr(transformer, parts)]
            return any(map(_needs_target, [*inner, getattr(transformer, "remainder", None)]))
    if isinstance(transformer, SelectorMixin):  # SelectKBest's tags claim that it needs none, because of k="all"
        return not isinstance(transformer, VarianceThreshold)
    return hasattr(transformer, "__sklearn_tags__") and bool(get_tags(transformer).target_tags.required)
