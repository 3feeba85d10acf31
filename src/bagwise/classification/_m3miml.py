"""M3MIML, the maximum margin method for multi-instance multi-label learning."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise.classification._m3miml_solvers import KERNELS, SOLVERS, ClassSolution, solve_all, solve_primal
from bagwise.classification._shared import TCriterionClassifier
from bagwise.core.bags import Bags
from bagwise.core.base import InstanceAnnotatorMixin
from bagwise.core.checks import check_choice, check_count, check_positive
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import ITERATED, Attribute, Maybe, Number, Numbers, Part, n_outputs
from bagwise.core.typing import BagsLike, LabelsLike, Seed, WeightsLike
from bagwise.preprocessing import RandomFourierFeatures, RBFDictionary, mean_squared_distance
from bagwise.solvers.support import kernel_scores, row_blocks, support_rows

TOLERANCES = {"smo": 1e-5, "frank-wolfe": 1e-3, "liblinear": 1e-2}
ITERATIONS = {"smo": -1, "frank-wolfe": 10_000, "liblinear": 2_000}  # -1: libsvm's own limit, ten million
APPROXIMATIONS = {"nystroem": "rbf", "fourier": "rbf", "primal": "linear"}  # and the kernel of each


class M3MIML(InstanceAnnotatorMixin, TCriterionClassifier):
    """One large-margin model per class: bags that carry it by their mean, the others by every instance.

    For each class l (Problem 3 of the paper, which is a sum over classes), ::

        min  1/2 ||w_l||^2 + C (sum_{i in S_l} xi_il + sum_{i not in S_l} sum_j theta_ilj)
        s.t. mean_j <w_l, x_ij> + b_l >= 1 - xi_il      for the bags S_l that carry l,
             -<w_l, x_ij> - b_l >= 1 - theta_ilj         for every instance of every other bag,

    with slacks of zero or more. Its dual (Problem 4) is that of a support vector classifier with bound C on all
    variables; the kernel of a bag's mean is the mean of the kernel. The score of an instance is
    f(x, l) = <w_l, x> + b_l, that of a bag the largest of its instances (equation 17). A bag is given the labels with
    a score of zero or more, or the best one where there is none (T-criterion).

    Parameters
    ----------
    C : float, default=1.0
        Cost of the slacks.
    kernel : {"rbf", "linear"}, default="rbf"
        "rbf" is exp(-gamma ||x - z||^2).
    gamma : float, default=1.0
        The paper's value, for features scaled to [0, 1].
    solver : {"smo", "frank-wolfe"}, default="smo"
        "smo" is libsvm's, exact to `tol`; "frank-wolfe" the paper's, with a sort for its linear programs. Both solve
        the dual on one kernel matrix that the classes share.
    tol : float or None
        Tolerance of the optimum. "smo": largest violation of the KKT conditions, by default 1e-5. "frank-wolfe":
        duality gap relative to the objective, by default 1e-3. With an approximation: liblinear's, by default 1e-2,
        which left the objective within 1e-3 of its minimum where that was known.
    max_iter : int or None
        Most iterations per class; by default 10,000 for "frank-wolfe" and libsvm's own limit for "smo".
    approximation : {None, "nystroem", "fourier", "primal"}, default=None
        None is exact and refuses, before it allocates, a kernel matrix beyond the memory limit. "nystroem" (a
        dictionary of `n_components` instances, whitened) and "fourier" (`n_components` random frequencies, twice as
        many features) replace the RBF kernel by that of explicit features and solve Problem 3 on them with liblinear;
        "primal" does so with kernel="linear" on the features as they are. Never chosen by itself.
    n_components : int, default=500
    n_jobs : int or None
        Classes in parallel (threads).
    random_state : int, RandomState or None
        Draws the approximation's components; the exact solvers draw nothing.

    Attributes
    ----------
    classes_ : (c,) array
    dual_objective_ : (c,) array
        Maximum of Problem 4 for each class; 0 where no bag or every bag carries it (then w = 0 is the solution). NaN
        with an approximation, whose solver does not give the dual.
    primal_objective_ : (c,) array
        Problem 3 at the solution; minus `dual_objective_` it is the duality gap.
    intercept_ : (c,) array
        b_l in the middle of those that the KKT conditions allow (equation 16).
    coef_ : (c, d) array, with kernel="linear"
    support_instances_, dual_coef_ : (s, d) array or CSR matrix and (s, c) array, with an exact RBF kernel
        Training instances with a weight in some w_l, and these weights (equation 9).
    feature_map_, component_coef_ : fitted transformer and (c, D) array, with an approximated RBF kernel
    n_iter_ : int
        Most iterations that a class took.
    objective_history_ : array
        Dual objective, summed over the classes, after every iteration of "frank-wolfe"; a class that is done counts as
        it ended. Of "smo" the end alone, with an approximation the primal objective at the end.
    converged_ : bool
        Whether every class met `tol`.
    gamma_ : float
        The gamma that the model was trained with.

    References
    ----------
    M.-L. Zhang, Z.-H. Zhou (2008): M3MIML: a maximum margin method for multi-instance multi-label learning. ICDM,
    688-697. As an annotator: section 5.1.3 of Briggs et al. (2013).

    Examples
    --------
    >>> from bagwise.classification import M3MIML
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = M3MIML(kernel="linear").fit(data.bags, data.Y)
    >>> model.predict(data.bags).shape == data.Y.shape
    True
    """

    _kept_parameters = ("gamma",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "intercept_": Numbers("classes"),
        "dual_objective_": Numbers("classes", finite=False),
        "primal_objective_": Numbers("classes", finite=False),
        "gamma_": Number(positive=True),
        "coef_": Maybe(Numbers("classes", "features")),
        "support_instances_": Maybe(Numbers("support", "features", sparse=True)),
        "dual_coef_": Maybe(Numbers("support", "classes")),
        "feature_map_": Maybe(Part("transform")),
        "component_coef_": Maybe(Numbers("classes", "mapped")),
        **ITERATED,
    }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        ways = (("coef_",), ("support_instances_", "dual_coef_"), ("feature_map_", "component_coef_"))
        if sum(all(hasattr(self, name) for name in way) for way in ways) != 1:
            raise InputError("M3MIML needs one kind of weights, and only one; fit it again")
        if hasattr(self, "feature_map_") and n_outputs(self.feature_map_) != self.component_coef_.shape[1]:
            raise InputError("M3MIML.component_coef_ does not fit the features of its feature_map_; fit it again")

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str = "rbf",
        gamma: float = 1.0,
        solver: str = "smo",
        tol: float | None = None,
        max_iter: int | None = None,
        approximation: str | None = None,
        n_components: int = 500,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.approximation = approximation
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> M3MIML:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        sample_weight : (n,) array or None
            C of each bag's slacks is multiplied by it; one of weight 0 is left out.
        """
        self.check_parameters()
        _, bags, indicator, weights, constant = self._start_class_problems(X, y, sample_weight)
        learned = np.flatnonzero(np.isnan(constant))
        for old in ("coef_", "support_instances_", "dual_coef_", "feature_map_", "component_coef_"):
            self.__dict__.pop(old, None)  # of an earlier fit with another kernel
        tol, max_iter = self._limits()
        limits: dict[str, Any] = {"C": self.C, "n_jobs": self.n_jobs, "tol": tol, "max_iter": max_iter}
        if self.approximation is None:
            solutions = solve_all(
                bags,
                indicator[:, learned],
                weights,
                kernel=self.kernel,
                gamma=self.gamma,
                solver=self.solver,
                **limits,
            )
            length = bags.n_instances
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))  # a number: the model file keeps it
            feature_map = self._make_map(bags.instances, seed)
            features = Bags(_map_features(feature_map, bags.instances), bags.offsets)
            solutions = solve_primal(features, indicator[:, learned], weights, random_state=seed, **limits)
            length = features.n_features
        coefficients = np.zeros((length, len(constant)))  # of classes that are not learned too
        for c, solution in zip(learned, solutions, strict=True):
            coefficients[:, c] = solution.coefficients
        if self.approximation in ("nystroem", "fourier"):
            self.feature_map_, self.component_coef_ = feature_map, coefficients.T
        elif self.approximation == "primal":
            self.coef_ = coefficients.T
        elif self.kernel == "linear":
            self.coef_ = np.asarray((bags.instances.T @ coefficients).T, dtype=np.float64)
        else:
            used = support_rows(coefficients)
            self.support_instances_, self.dual_coef_ = bags.instances[used], coefficients[used]
        self.intercept_ = np.where(np.isnan(constant), 0.0, constant)
        self.dual_objective_, self.primal_objective_ = np.zeros(len(constant)), np.zeros(len(constant))
        self._record(solutions, learned)
        return self

    def _route(self) -> str:
        return self.solver if self.approximation is None else "liblinear"

    def _limits(self) -> tuple[float, int]:
        """`tol` and `max_iter`, the solver's own where none are given."""
        route = self._route()
        tol = TOLERANCES[route] if self.tol is None else self.tol
        return tol, ITERATIONS[route] if self.max_iter is None else self.max_iter

    def _make_map(self, X: Any, seed: int) -> Any:
        """A fitted feature map whose inner products approximate exp(-gamma ||x - y||^2); None for no map."""
        if self.approximation == "fourier":
            return RandomFourierFeatures(gamma=self.gamma, n_components=self.n_components, random_state=seed).fit(X)
        if self.approximation == "nystroem":
            spread = mean_squared_distance(X)  # the dictionary's width is a multiple of it
            width = 1.0 / (self.gamma * spread) if spread > 0 else 1.0 / self.gamma
            return RBFDictionary(width=width, size=self.n_components, whiten=True, random_state=seed).fit(X)
        return None

    def _record(self, solutions: list[ClassSolution], learned: np.ndarray) -> None:
        for c, solution in zip(learned, solutions, strict=True):
            self.intercept_[c] = solution.bias
            self.dual_objective_[c] = solution.dual_objective
            self.primal_objective_[c] = solution.primal_objective
        self.n_iter_ = max([1, *(solution.n_iter for solution in solutions)])
        histories = [solution.history for solution in solutions]
        length = max([1, *map(len, histories)])
        padded = [np.pad(history, (0, length - len(history)), mode="edge") for history in histories]
        self.objective_history_ = np.sum(padded, axis=0) if padded else np.zeros(1)
        self.converged_ = all(solution.converged for solution in solutions)
        self._keep_parameters()
        late = [self.classes_[c] for c, s in zip(learned, solutions, strict=True) if not s.converged]
        if late:
            cure = "smo" if self._route() == "frank-wolfe" else "a smaller C"
            warnings.warn(
                f"{self._route()} stopped after {self.n_iter_} iterations before it met tol={self._limits()[0]} "
                f"for {len(late)} class(es), the first of them {late[0]!r}; raise max_iter or tol, scale the features, "
                f"or use {cure}.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        """f(x, l) of equation 17."""
        X = bags.instances
        if hasattr(self, "coef_"):
            return np.asarray(X @ self.coef_.T, dtype=np.float64) + self.intercept_
        if hasattr(self, "dual_coef_"):
            return kernel_scores(X, self.support_instances_, self.dual_coef_, self.gamma_) + self.intercept_
        scores = np.empty((bags.n_instances, len(self.classes_)))
        for rows in row_blocks(bags.n_instances, 16 * self.component_coef_.shape[1]):
            scores[rows] = _map_features(self.feature_map_, X[rows]) @ self.component_coef_.T
        return scores + self.intercept_

    _bag_label_sets = TCriterionClassifier._bag_label_sets

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("approximation", self.approximation, (None, *APPROXIMATIONS))
        check_positive(self, "C", "gamma")
        check_count(self, "n_components")
        if self.tol is not None:
            check_positive(self, "tol")
        if self.max_iter is not None:
            check_count(self, "max_iter")
        if self.approximation is not None:
            needed = APPROXIMATIONS[self.approximation]
            if self.kernel != needed:
                others = [name for name, kernel in APPROXIMATIONS.items() if kernel == self.kernel]
                raise InputError(
                    f"approximation={self.approximation!r} is one of the {needed} kernel, so kernel={self.kernel!r} "
                    f"cannot be used with it; use {' or '.join(map(repr, others))}, or None for the exact solution."
                )
            if self.solver != "smo":
                raise InputError(
                    f"solver={self.solver!r} solves the dual on the exact kernel, so it cannot be used with "
                    f"approximation={self.approximation!r}; leave solver at 'smo' (liblinear is used) or "
                    "approximation at None."
                )


def _map_features(feature_map: Any, X: Any) -> Any:
    """Float64 features of the instances, or the instances themselves."""
    values = X if feature_map is None else feature_map.transform(X)
    return values if sp.issparse(values) else np.asarray(values, dtype=np.float64)
