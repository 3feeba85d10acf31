"""M3IC, maximum margin multiple instance clustering."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state, gen_batches

from bagwise.bags import Bags
from bagwise.base import BagEstimator, validate_bags
from bagwise.clustering._procedure import Run, decide, instance_margins, run_start
from bagwise.clustering._shared import CLUSTERED, check_clusterable, check_enough_bags, check_n_clusters, rank_by_size
from bagwise.clustering._spaces import Expansion, KernelSpace, LinearSpace
from bagwise.exceptions import InputError
from bagwise.fitted import Attribute, Maybe, Number, Numbers
from bagwise.parameters import check_choice, check_count, check_not_negative, check_positive
from bagwise.typing import BagsLike

KERNELS = ("linear", "rbf")
BLOCK_BYTES = 2**26  # of kernel values at once in `predict`


class Claims(NamedTuple):
    """What `M3IC.assign` gives.

    Attributes
    ----------
    clusters : (n, k) array of 0 and 1
        The clusters of each bag; none, one or several.
    instance_clusters : (m,) array of int
        The cluster that each instance claims for its bag, -1 where its margin is below the threshold.
    instance_margins : (m,) array
        The margin of each instance.
    """

    clusters: np.ndarray
    instance_clusters: np.ndarray
    instance_margins: np.ndarray


class M3IC(ClusterMixin, BagEstimator):
    """Clusters bags by the widest margin that one instance of each bag can be given.

    With a weight vector w_p for each of k clusters, the margin of an instance is
    g(x) = k/(k-1) (max_p <w_p, x> - mean_p <w_p, x>), that of a bag the largest of its instances. M3IC-MBM minimises
    (equation 14) ::

        J = 1/2 sum_p ||w_p||^2 + C/n sum_i max(0, 1 - max_j g(x_ij))
        s.t. |<w_p - w_q, sum_i mean_j x_ij>| <= balance  for all clusters p and q

    by the constrained concave-convex procedure, each convex problem by one-slack cutting planes. The instance of the
    largest margin is the bag's witness; the bag's cluster is the one that scores highest on it.

    Parameters
    ----------
    n_clusters : int, default=2
        At least 2, at most the number of bags. A cluster may stay empty; `fit` then warns.
    C : float, default=1.0
        Cost of margins below 1. Features twice as large are a C four times as large.
    balance : float, default=0.1
        l of the paper. Zero asks the sums of all clusters' scores to be equal; there is no bias, so on features whose
        mean is far from zero a large value lets one cluster take all bags.
    kernel : {"linear", "rbf"}, default="linear"
        "rbf" is exp(-gamma ||x - z||^2), with the kernel matrix of all instances in memory.
    gamma : float, default=1.0
    n_init : int, default=5
        Random starts; the one of the lowest J is kept.
    tol_outer : float, default=0.01
        epsilon_1, a tolerance of the change of J.
    tol_inner : float, default=0.01
        epsilon_2, a tolerance of the optimum of each convex problem: by how much its cuts may be too low.
    max_iter : int, default=100
        Most convex problems a start.
    n_jobs : int or None
        Starts in parallel (threads).
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) array of int
        Clusters, numbered from the largest to the smallest.
    witnesses_ : (n,) array of int
        Position within its bag of the instance that decided.
    margins_ : (n,) array
        Margin of each bag; at most 1 where it costs.
    objective_ : float
        J at the end of the start that was kept.
    objective_history_ : array
        J after every convex problem of that start; never rises.
    n_cuts_ : array of int
        Cuts of every convex problem of that start.
    n_iter_ : int
    converged_ : bool
        Whether that start met `tol_outer`, and each of its convex problems `tol_inner`.
    gamma_ : float
        The gamma that the clusters were found with.
    coef_ : (k, d) array, with kernel="linear"
    support_instances_, dual_coef_ : (s, d) array or CSR matrix and (s, k) array, with kernel="rbf"

    References
    ----------
    D. Zhang, F. Wang, L. Si, T. Li (2011): Maximum margin multiple instance clustering with applications to image and
    text clustering. IEEE Transactions on Neural Networks 22, 739-751.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import M3IC
    >>> bags = [[[4.0, 0.0], [0.1, 0.1]], [[0.0, 0.1], [5.0, 0.2]], [[-4.0, 0.1]], [[0.1, 0.0], [-5.0, 0.0]]]
    >>> model = M3IC(2, random_state=0).fit([np.array(bag) for bag in bags])
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3])
    True
    >>> model.witnesses_.tolist()
    [0, 1, 0, 1]
    """

    _kept_parameters = ("gamma",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "n_cuts_": Numbers("problems", whole=True, empty=True), "gamma_": Number(positive=True),
        "coef_": Maybe(Numbers("clusters", "features")), "dual_coef_": Maybe(Numbers("support", "clusters")),
        "support_instances_": Maybe(Numbers("support", "features", sparse=True)), **CLUSTERED,
    }  # fmt: skip

    def _check_fitted(self) -> None:
        super()._check_fitted()
        kernel = [hasattr(self, name) for name in ("support_instances_", "dual_coef_")]
        if hasattr(self, "coef_") == all(kernel) or any(kernel) != all(kernel):
            raise InputError("M3IC needs one kind of weights, and only one; fit it again")

    def __init__(
        self,
        n_clusters: int = 2,
        C: float = 1.0,
        balance: float = 0.1,
        *,
        kernel: str = "linear",
        gamma: float = 1.0,
        n_init: int = 5,
        tol_outer: float = 0.01,
        tol_inner: float = 0.01,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.C = C
        self.balance = balance
        self.kernel = kernel
        self.gamma = gamma
        self.n_init = n_init
        self.tol_outer = tol_outer
        self.tol_inner = tol_inner
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: BagsLike, y: Any = None) -> M3IC:
        """Find clusters of bags.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        y : ignored
        """
        self._check_parameters()
        bags = validate_bags(self, X, reset=True)
        check_enough_bags(self, len(bags))
        check_clusterable(bags)
        space = LinearSpace(bags) if self.kernel == "linear" else KernelSpace(bags, self.gamma)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_init)
        runs: list[Run] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(run_start)(
                space, bags.offsets, n_clusters=self.n_clusters, C=self.C, balance=self.balance,
                tol_outer=self.tol_outer, tol_inner=self.tol_inner, max_iter=self.max_iter, seed=int(seed),
            ) for seed in seeds
        )  # fmt: skip
        best = min(runs, key=lambda run: run.objective)
        self._keep(bags, space, best)
        self._warn(best)
        return self

    def _keep(self, bags: Bags, space: LinearSpace | KernelSpace, run: Run) -> None:
        rank = rank_by_size(run.decision.clusters, self.n_clusters)
        self.labels_ = rank[run.decision.clusters]
        self.witnesses_ = run.decision.witnesses - bags.offsets[:-1]
        self.margins_ = run.decision.margins
        self.objective_ = run.objective
        self.objective_history_ = np.asarray(run.history)
        self.n_cuts_ = np.asarray(run.n_cuts)
        self.n_iter_ = len(run.n_cuts)
        self.converged_ = bool(run.converged and not run.unsolved)
        self._keep_parameters()
        for old in ("coef_", "support_instances_", "dual_coef_"):
            self.__dict__.pop(old, None)  # of an earlier fit with another kernel
        shift = np.empty(self.n_clusters)
        shift[rank] = run.expansion.shift
        expansion = Expansion(run.expansion.rows, rank[run.expansion.clusters], run.expansion.weights, shift)
        if isinstance(space, LinearSpace):
            self.coef_ = space.weight_vectors(expansion)
            return
        coefficients = space.coefficients(expansion)
        used = np.flatnonzero(coefficients.any(axis=1))
        used = used if len(used) else np.array([0])  # W = 0: keep one instance, of weight zero
        self.support_instances_, self.dual_coef_ = bags.instances[used], coefficients[used]

    def _warn(self, run: Run) -> None:
        if not run.converged:
            warnings.warn(
                f"J still fell by more than tol_outer={self.tol_outer} after max_iter={self.max_iter} convex problems; "
                "raise max_iter or tol_outer.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if run.unsolved:
            warnings.warn(
                f"{run.unsolved} of {len(run.n_cuts)} convex problems did not meet tol_inner={self.tol_inner}: the "
                f"largest KKT residual of their quadratic programs was {run.kkt_residual:.1e}, and the most cuts were "
                f"{max(run.n_cuts)}. The best feasible point was kept; scale the features, or raise tol_inner.",
                ConvergenceWarning,
                stacklevel=3,
            )
        found = len(np.unique(self.labels_))
        if found < self.n_clusters:
            warnings.warn(
                f"Only {found} of {self.n_clusters} clusters hold a bag; standardise the features, lower balance, "
                "raise C, or ask for fewer clusters.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict(self, X: BagsLike) -> np.ndarray:
        """(n,) cluster of every bag, by its instance of the largest margin."""
        bags = self._start_predict(X)
        return decide(self._scores(bags), bags.offsets).clusters

    def assign(self, X: BagsLike, *, threshold: float = 1.0) -> Claims:
        """Every cluster that some instance of a bag claims with a margin of at least `threshold`.

        A bag may hold several concepts (section 5.1 of the paper). Each instance claims the cluster that scores highest
        on it, if its margin is large enough. The cluster that `predict` gives is among the bag's claims whenever there
        is one, because its witness has the largest margin.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        threshold : float, default=1.0
            1 is the margin that `fit` asks of every bag; lower it to claim more.

        Returns
        -------
        Claims
        """
        if not isinstance(threshold, Real) or np.isnan(threshold):
            raise InputError(f"The threshold of assign must be a number. Got {threshold!r}.")
        bags = self._start_predict(X)
        scores = self._scores(bags)
        margins = instance_margins(scores)
        claimed = np.where(margins >= threshold, scores.argmax(axis=1), -1)
        clusters = np.zeros((len(bags), scores.shape[1]), dtype=np.int64)
        rows = np.flatnonzero(claimed >= 0)
        clusters[bags.bag_index[rows], claimed[rows]] = 1
        return Claims(clusters, claimed, margins)

    def _scores(self, bags: Bags) -> np.ndarray:
        if hasattr(self, "coef_"):
            return np.asarray(bags.instances @ self.coef_.T, dtype=np.float64)
        scores = np.empty((bags.n_instances, self.dual_coef_.shape[1]))
        size = max(1, BLOCK_BYTES // (8 * len(self.dual_coef_)))
        for rows in gen_batches(bags.n_instances, size):
            values = rbf_kernel(bags.instances[rows], self.support_instances_, gamma=self.gamma_)
            scores[rows] = values @ self.dual_coef_
        return scores

    def _check_parameters(self) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        check_positive(self, "C", "gamma", "tol_inner")
        check_not_negative(self, "balance", "tol_outer")
        check_count(self, "n_init", "max_iter")
        check_n_clusters(self)
