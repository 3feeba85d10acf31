"""What a user may pass to an estimator as bags and weights, validated: `validate_bags` and `validate_weights`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from bagwise.core.bags import Bags, as_bags, listed
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike


def split_dataset(X: BagsLike, y: LabelsLike | None) -> tuple[BagsLike, LabelsLike | None]:
    """Bags and labels; where a `BagDataset` is passed alone, both are its own."""
    if isinstance(X, BagDataset) and y is None:
        return X, X
    return X, y


def validate_bags(estimator: Any, X: BagsLike, *, reset: bool) -> Bags:
    """`X` in any input form as `Bags` of finite features; sets or checks ``n_features_in_``.

    Features that have a name are put into the order of the fit; see `_check_features`.

    Parameters
    ----------
    estimator : estimator
        Receives ``n_features_in_`` (and ``feature_names_in_``) when `reset` is true, else is compared with them.
    X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
    reset : bool
        True in `fit`, False everywhere else.
    """
    if is_flat(X):
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
        bags = as_bags(X)
    else:
        bags = as_bags(X)
        if bags.instances.ndim != 2:
            raise InputError("The bags hold one value an instance; expected a feature vector for each instance.")
        if bags.n_features == 0:
            raise InputError("Found array with 0 feature(s) while a minimum of 1 is required.")
        if reset:
            _set_features(estimator, bags)
        else:
            bags = _check_features(estimator, bags)
    check_finite(bags)
    return bags


def _set_features(estimator: Any, bags: Bags) -> None:
    estimator.n_features_in_ = bags.n_features
    estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if bags.feature_names is not None:
        estimator.feature_names_in_ = np.array(bags.feature_names, dtype=object)


def _check_features(estimator: Any, bags: Bags) -> Bags:
    """The bags with their features in the order of the fit, where both sides have names.

    Bags without names are taken to be in order, as are those of a model that was fitted without.
    """
    expected = getattr(estimator, "feature_names_in_", None)
    if bags.feature_names is not None and expected is not None:
        return bags.with_features(expected.tolist(), type(estimator).__name__)
    if bags.n_features != estimator.n_features_in_:
        raise InputError(
            f"X has {bags.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input; pass instances with the features it was trained on."
        )
    return bags


def is_flat(X: Any) -> bool:
    """Whether `X` is a plain table, each row a bag of one instance."""
    if isinstance(X, (Bags, BagDataset)):
        return False
    X = listed(X)
    if isinstance(X, (list, tuple)):
        return not (len(X) and (sp.issparse(X[0]) or np.ndim(X[0]) == 2))
    if isinstance(X, np.ndarray):
        return X.ndim != 3 and not (X.dtype == object and X.ndim == 1 and X.size and np.ndim(X[0]) == 2)
    return True


def check_finite(bags: Bags) -> None:
    """Raise an error that names bag and row of the first NaN or infinite feature."""
    values = bags.instances.data if sp.issparse(bags.instances) else bags.instances
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():  # finite values whose sum overflowed
        return
    if sp.issparse(bags.instances):
        position = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(bags.instances.indptr, position, side="right")) - 1
        column, value = int(bags.instances.indices[position]), values[position]
    else:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = values[row, column]
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    what = "NaN" if np.isnan(value) else "inf"
    raise InputError(
        f"Input X contains {what} (infinity or NaN is not allowed) in bag {bag}, row {row - bags.offsets[bag]} of that "
        f"bag, feature {column}; {int(bad.sum())} such value(s) in all. Fill or drop them first."
    )


def check_single_precision(X: Any) -> None:
    """Raise an `InputError` where features are too large for trees, which would take them for infinite."""
    largest = max(float(X.max()), -float(X.min()))
    if largest > float(np.finfo(np.float32).max):
        raise InputError(
            f"The largest feature is {largest:.3g}, and trees work in single precision, which ends at 3.4e38; divide "
            "the features by a power of ten, or scale them, for example with PerInstance(MinMaxScaler())."
        )


def validate_weights(sample_weight: WeightsLike | None, n_bags: int) -> np.ndarray | None:
    """(n,) float64 weights of the bags, None where none were given; one number is the weight of each."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must hold numbers, one a bag: {error}.") from error
    if weights.ndim == 0:
        weights = np.full(n_bags, float(weights))
    if weights.shape != (n_bags,):
        raise InputError(f"sample_weight has shape {weights.shape}; expected ({n_bags},), one weight for each bag.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise InputError(f"The weight of bag {bad[0]} is {weights[bad[0]]}; weights must be finite and not negative.")
    if not weights.any():
        raise InputError("All weights are zero, so no bag is left to learn from; give some bags a positive weight.")
    return weights


def refuse_sparse(learner: Any, bags: Bags) -> None:
    """An error where a learner of dense features is given sparse ones."""
    if sp.issparse(bags.instances):
        raise InputError(
            f"{type(learner).__name__} does not take sparse features; reduce them first, for example with "
            "PerInstance(TruncatedSVD(100)), or pass a dense array."
        )
