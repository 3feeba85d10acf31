"""What the transformers of instances share: float features, dense or sparse."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.core.fitted import INPUTS, OUTPUT, Attribute

FLOATS = [np.float64, np.float32]


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
