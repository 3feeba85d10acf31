"""M3IC, maximum margin multiple instance clustering."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise.clustering._shared import BagClusterer, rank_by_size, warn_empty_clusters
from bagwise.clustering._spaces import Expansion, KernelSpace, LinearSpace
from bagwise.core.bags import Bags
from bagwise.core.checks import check_choice, check_count, check_not_negative, check_positive
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.fitted import Attribute, Maybe, Number, Numbers
from bagwise.core.typing import BagsLike
from bagwise.kernels.clusters import decide_bags
from bagwise.solvers.cutting_plane import MarginProblem, solve_cutting_plane
from bagwise.solvers.support import kernel_scores, support_rows

KERNELS = ("linear", "rbf")
Space = LinearSpace | KernelSpace


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

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import M3IC
    >>> rng = np.random.default_rng(0)
    >>> bags = [corner + rng.normal(size=(4, 2)) for corner in 8 * np.eye(2)[np.arange(20) % 2]]
    >>> claims = M3IC(2, random_state=0).fit(bags).assign(bags)
    >>> claims.clusters.shape, claims.instance_clusters.shape, claims.instance_margins.shape
    ((20, 2), (80,), (80,))
    """

    clusters: np.ndarray
    instance_clusters: np.ndarray
    instance_margins: np.ndarray


class M3IC(BagClusterer):
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
        Most convex problems per start.
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
        The gamma of the fit.
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
        "n_cuts_": Numbers("problems", whole=True, empty=True),
        "gamma_": Number(positive=True),
        "coef_": Maybe(Numbers("clusters", "features")),
        "dual_coef_": Maybe(Numbers("support", "clusters")),
        "support_instances_": Maybe(Numbers("support", "features", sparse=True)),
    }

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

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_choice("kernel", self.kernel, KERNELS)
        check_positive(self, "C", "gamma", "tol_inner")
        check_not_negative(self, "balance", "tol_outer")
        check_count(self, "n_init", "max_iter")

    def _cluster(self, bags: Bags) -> None:
        space: Space = LinearSpace(bags) if self.kernel == "linear" else KernelSpace(bags, self.gamma)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_init)
        runs: list[_Run] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(_run_start)(self, space, bags.offsets, int(seed)) for seed in seeds
        )
        run = min(runs, key=lambda run: run.objective)
        rank = rank_by_size(run.decision.clusters, self.n_clusters)
        self.labels_ = rank[run.decision.clusters]
        self.witnesses_ = run.decision.witnesses - bags.offsets[:-1]
        self.margins_ = run.decision.margins
        self.n_cuts_ = np.asarray(run.n_cuts)
        self._keep_end(run.objective, len(run.n_cuts), bool(run.converged and not run.unsolved), run.history)
        self._keep_parameters()
        for old in ("coef_", "support_instances_", "dual_coef_"):
            self.__dict__.pop(old, None)  # of an earlier fit with another kernel
        found = run.expansion
        expansion = Expansion(found.rows, rank[found.clusters], found.weights, found.shift[np.argsort(rank)])
        if isinstance(space, LinearSpace):
            self.coef_ = space.weight_vectors(expansion)
        else:
            coefficients = space.coefficients(expansion)
            used = support_rows(coefficients)
            self.support_instances_, self.dual_coef_ = bags.instances[used], coefficients[used]
        self._warn(run)

    def _warn(self, run: _Run) -> None:
        if not run.converged:
            warn_caller(
                f"J still fell by more than tol_outer={self.tol_outer} after max_iter={self.max_iter} convex problems; "
                "raise max_iter or tol_outer.",
                ConvergenceWarning,
            )
        if run.unsolved:
            warn_caller(
                f"{run.unsolved} of {len(run.n_cuts)} convex problems did not meet tol_inner={self.tol_inner}: the "
                f"largest KKT residual of their quadratic programs was {run.kkt_residual:.1e}, and the most cuts were "
                f"{max(run.n_cuts)}. The best feasible point was kept; scale the features, or raise tol_inner.",
                ConvergenceWarning,
            )
        cure = "standardise the features, lower balance, raise C, or ask for fewer clusters"
        warn_empty_clusters(self.labels_, self.n_clusters, cure)

    def _assign(self, bags: Bags) -> np.ndarray:
        """By the instance of the largest margin."""
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
        return kernel_scores(bags.instances, self.support_instances_, self.dual_coef_, self.gamma_)


# ---------------------------------------------------------------------------------------------------------------------
# The constrained concave-convex procedure (Table 1 of the paper), in either space


@dataclass(frozen=True)
class _Decision:
    """What scores decide: for each bag its witness (a row of all instances), its cluster and its margin."""

    witnesses: np.ndarray
    clusters: np.ndarray
    margins: np.ndarray


@dataclass
class _Run:
    """One start of the procedure, from random weights to a local minimum."""

    expansion: Any = None
    decision: Any = None
    objective: float = np.inf
    history: list[float] = field(default_factory=list)
    n_cuts: list[int] = field(default_factory=list)
    converged: bool = False
    unsolved: int = 0
    kkt_residual: float = 0.0


def instance_margins(scores: np.ndarray) -> np.ndarray:
    """(m,) modified margins k/(k-1) (max_u s_u - mean_v s_v) of (m, k) scores (equation 11)."""
    k = scores.shape[1]
    return (k / (k - 1)) * (scores.max(axis=1) - scores.sum(axis=1) / k)


def decide(scores: np.ndarray, offsets: np.ndarray) -> _Decision:
    """Step 14 of Table 1: the instance of the largest margin decides, and its largest score is the bag's cluster."""
    n_bags, k = len(offsets) - 1, scores.shape[1]
    rows, clusters = np.empty(n_bags, dtype=np.int64), np.empty(n_bags, dtype=np.int64)
    margins = np.empty(n_bags)
    decide_bags(scores, offsets, k / (k - 1), rows, clusters, margins)
    return _Decision(rows, clusters, margins)


def _run_start(model: M3IC, space: Space, offsets: np.ndarray, seed: int) -> _Run:
    """Linearise the margins at the present weights, solve the convex problem, repeat.

    The convex problem lies above the objective J and meets it where it was made, so a lower value there is a lower J. A
    solution that is not lower, which the tolerance of the cutting planes allows close to a minimum, ends the run
    without being taken: J never rises.
    """
    n_clusters, C = model.n_clusters, float(model.C)
    slack = model.balance / space.length if space.length > 0.0 else 0.0
    at = decide(space.random_scores(np.random.RandomState(seed), n_clusters), offsets)
    run = _Run()
    for _ in range(model.max_iter):
        multiply = space.multiplier(at.witnesses, at.clusters, n_clusters)
        problem = MarginProblem(multiply, at.clusters, space.along[at.witnesses], n_clusters, C, slack)
        inner = solve_cutting_plane(problem, tol=model.tol_inner, start_value=run.objective if run.n_cuts else C)
        expansion = Expansion(at.witnesses, at.clusters, inner.weights, inner.shift)
        reached = decide(space.scores(expansion), offsets)
        value = inner.half_norm + C * float(np.maximum(0.0, 1.0 - reached.margins).mean())
        last = run.objective
        run.n_cuts.append(inner.n_cuts)
        run.unsolved += not inner.converged
        run.kkt_residual = max(run.kkt_residual, inner.kkt_residual)
        if value < last:
            run.expansion, run.decision, run.objective = expansion, reached, value
            run.history.append(value)
        run.converged = last - value <= model.tol_outer * last if np.isfinite(last) else value == 0.0
        if run.converged:
            break
        at = reached
    return run
