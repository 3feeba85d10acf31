"""The types of what bagwise is given: bags, labels, weights and learners in all of their forms.

Annotations of a script that uses bagwise can be written with these; each is a union of what the docstrings list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset


@runtime_checkable
class Table(Protocol):
    """Rows and named columns: a frame of pandas or polars, a table of pyarrow.

    Examples
    --------
    >>> import numpy as np, pandas
    >>> from bagwise.core.typing import Table
    >>> isinstance(pandas.DataFrame({"x": [1.0]}), Table), isinstance(np.ones((1, 1)), Table)
    (True, False)
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def columns(self) -> Any: ...


@runtime_checkable
class SparseTable(Protocol):
    """A sparse matrix or array of scipy.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from bagwise.core.typing import SparseTable
    >>> isinstance(sp.csr_matrix((2, 3)), SparseTable), isinstance(np.ones((2, 3)), SparseTable)
    (True, False)
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def nnz(self) -> int: ...

    def tocsr(self) -> Any: ...


InstancesLike: TypeAlias = ArrayLike | Table | SparseTable
"""(m, d) features, a row an instance."""
BagsLike: TypeAlias = Bags | BagDataset | InstancesLike | Sequence[InstancesLike]
"""`Bags`; a `BagDataset`; a list of (n_i, d) arrays, frames or sparse matrices; a 3-d array; an (n, d) array, frame or
sparse matrix, each row a bag of one instance."""
LabelsLike: TypeAlias = BagDataset | ArrayLike | Table | SparseTable | Sequence[Collection[Hashable]]
"""An (n, c) 0/1 matrix (a frame names the classes); a list, array or series of label sets; (n,) class values; a
`BagDataset`, whose labels are meant."""
InstanceLabelsLike: TypeAlias = Bags | Sequence[ArrayLike]
"""A class index an instance, -1 where unknown: `Bags` of int, or a list of (n_i,) arrays."""
WeightsLike: TypeAlias = ArrayLike
"""(n,) weights, zero or more, one a bag."""


Seed: TypeAlias = int | np.random.RandomState | None
"""Of random numbers, as scikit-learn takes it."""
RateLike: TypeAlias = float | str | Sequence[float] | np.ndarray
"""A rate for all classes, one a class, or "learn"."""
Callback: TypeAlias = Callable[[int, float], None]
"""Called after every iteration with its number, from 1, and the objective."""


class Learner(Protocol):
    """What can be fitted on bags and labels and gives label sets of bags: every learner, pipeline and search.

    Examples
    --------
    What is passed on as one need not be of bagwise:

    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.core.typing import Learner
    >>> def n_learned(learner: Learner) -> int:
    ...     return len(learner.fit([[[0.0]], [[1.0]]], [{"wren"}, {"robin"}]).classes_)
    >>> n_learned(ORedLogisticRegression())
    2
    """

    def fit(self, X: Any, y: Any = ..., /, **parameters: Any) -> Any: ...

    def predict(self, X: Any, /) -> Any: ...

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...


class Transformer(Protocol):
    """A transformer of scikit-learn, or one of ours.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.core.typing import Transformer
    >>> from bagwise.preprocessing import PerInstance
    >>> def sizes(transformer: Transformer) -> list:
    ...     return transformer.fit([[[0.0], [1.0]]]).transform([[[0.0], [1.0]]]).sizes.tolist()
    >>> sizes(PerInstance(StandardScaler()))
    [2]
    """

    def fit(self, X: Any, y: Any = ..., /, **parameters: Any) -> Any: ...

    def transform(self, X: Any, /) -> Any: ...

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...
