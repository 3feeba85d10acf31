"""CPM3C: multiclass maximum margin clustering of instances, cutting planes outside, CCCP inside."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from bagwise.clustering._shared import BagClusterer, find_witnesses, majority, rank_by_size, unit_direction
from bagwise.core.bags import Bags
from bagwise.core.checks import check_count, check_not_negative, check_positive
from bagwise.core.fitted import Attribute, Numbers
from bagwise.kernels.clusters import sum_by_cluster
from bagwise.kernels.segments import Rows
from bagwise.solvers.cutting_plane import solve_under_cuts
from bagwise.solvers.result import has_settled

Cut = tuple[np.ndarray, np.ndarray]
"""The (m,) instances in a cut, 1 or 0, and (k, d) sums over them by the cluster that rivals the winner on each."""


class CPM3C(BagClusterer):
    """Clusters instances by the widest margin between their best and second best cluster; bags by majority.

    The rival of M3IC in Zhang et al. (2011), with the order of the two procedures reversed. It minimises ::

        J = 1/2 sum_p ||w_p||^2 + C/m sum_i max(0, 1 - (<w_z, x_i> - max_{p != z} <w_p, x_i>)),
        z = argmax_p <w_p, x_i>,   s.t. |<w_p - w_q, sum_i x_i>| <= balance,

    over all m instances. A cut is a set of instances and a rival cluster for each of them; the problem under the cuts
    is not convex, because z moves with the weights, and is solved by CCCP. The cuts are therefore no lower bound, and
    the loop need not end: it is capped.

    Parameters
    ----------
    n_clusters : int, default=2
    C : float, default=1.0
    balance : float, default=0.1
    n_init : int, default=5
        Random starts; the one of the lowest J is kept.
    tol_outer : float, default=0.01
        Tolerance of the change of the objective under the cuts, for CCCP.
    tol_inner : float, default=0.01
        Tolerance of the optimum: ends the cuts when the loss exceeds the slack under them by no more than this.
    max_cuts : int, default=20
        The paper's cap.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) array of int
        Clusters, numbered by their number of instances, the largest first. A cluster may win no bag; a bag whose votes
        are even goes to the cluster that has more instances in all.
    instance_labels_ : (m,) array of int
    witnesses_ : (n,) array of int
        Position within its bag of the instance that scores highest on the bag's cluster.
    margins_ : (n,) array
        Share of the bag's instances that are in its cluster, less that in the second: 0 where the votes are even.
    coef_ : (k, d) array
    objective_ : float
        J at the end of the start that was kept.
    objective_history_ : (`n_iter_`,) array
        J after every cut of that start; it may rise.
    converged_ : bool
        Whether that start ended before the cap.
    n_iter_ : int
        Its cuts.

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008): Efficient multiclass maximum margin clustering. ICML, 1248-1255.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import CPM3C
    >>> bags = [np.array([[4.0, 0.0], [5.0, 0.1]]), np.array([[4.5, 0.2]]), np.array([[-4.0, 0.1], [-5.0, 0.0]])]
    >>> labels = CPM3C(2, random_state=0).fit_predict(bags)
    >>> bool(labels[0] == labels[1] != labels[2])
    True
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "coef_": Numbers("clusters", "features"),
        "instance_labels_": Numbers("instances", whole=True, low=0),
    }

    def __init__(
        self,
        n_clusters: int = 2,
        C: float = 1.0,
        balance: float = 0.1,
        *,
        n_init: int = 5,
        tol_outer: float = 0.01,
        tol_inner: float = 0.01,
        max_cuts: int = 20,
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.C = C
        self.balance = balance
        self.n_init = n_init
        self.tol_outer = tol_outer
        self.tol_inner = tol_inner
        self.max_cuts = max_cuts
        self.random_state = random_state

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_positive(self, "C", "tol_inner")
        check_not_negative(self, "balance", "tol_outer")
        check_count(self, "n_init", "max_cuts")

    def _cluster(self, bags: Bags) -> None:
        problem = _InstanceProblem(bags.instances, self.n_clusters, self.C, self.balance)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_init)
        runs = [_run_start(problem, self.tol_outer, self.tol_inner, self.max_cuts, int(seed)) for seed in seeds]
        weights, history, converged = min(runs, key=lambda run: run[1][-1])
        self._keep_end(history[-1], len(history), converged, history)
        self.coef_ = np.empty_like(weights)
        self.coef_[rank_by_size(problem.scores(weights).argmax(axis=1), self.n_clusters)] = weights
        scores = self._scores(bags)
        self.instance_labels_ = scores.argmax(axis=1)
        self.labels_, self.margins_ = majority(self.instance_labels_, bags, self.n_clusters)
        self.witnesses_ = find_witnesses(scores, self.labels_, bags)

    def _assign(self, bags: Bags) -> np.ndarray:
        return majority(self._scores(bags).argmax(axis=1), bags, len(self.coef_))[0]

    def _scores(self, bags: Bags) -> np.ndarray:
        return np.asarray(bags.instances @ self.coef_.T, dtype=np.float64)


class _InstanceProblem:
    """The instances and what does not change between starts."""

    def __init__(self, instances: Any, n_clusters: int, C: float, balance: float):
        sparse = sp.issparse(instances)
        self.X = instances.astype(np.float64) if sparse else np.ascontiguousarray(instances, dtype=np.float64)
        self.rows, self.n_clusters, self.C = Rows.of(self.X), n_clusters, float(C)
        total = np.asarray(instances.sum(axis=0), dtype=np.float64).ravel()
        self.direction, length = unit_direction(total, float(abs(instances).sum()))
        self.slack = balance / length if length > 0.0 else 0.0

    def scores(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.X @ weights.T, dtype=np.float64)

    def random_weights(self, seed: int) -> np.ndarray:
        weights = np.random.RandomState(seed).standard_normal((self.n_clusters, self.X.shape[1]))
        return weights - np.outer(weights @ self.direction, self.direction)

    def cut_vectors(self, cuts: list[Cut], winners: np.ndarray) -> np.ndarray:
        """(s, k, d) vectors 1/m sum_i c_i (e_winner - e_rival) (x) x_i of all cuts, for the present winners."""
        vectors = np.empty((len(cuts), self.n_clusters, self.X.shape[1]))
        for vector, (mask, rival_sums) in zip(vectors, cuts, strict=True):
            vector[:] = self.sums(mask, winners) - rival_sums
        return vectors / len(winners)

    def sums(self, mask: np.ndarray, clusters: np.ndarray) -> np.ndarray:
        """(k, d) sum of the instances in the mask that are in each cluster."""
        sums = np.zeros((self.n_clusters, self.X.shape[1]))
        sum_by_cluster(*self.rows, np.arange(len(mask)), clusters, mask, sums)
        return sums

    def make_cut(self, mask: np.ndarray, rivals: np.ndarray) -> Cut:
        return mask, self.sums(mask, rivals)


def _run_start(problem: _InstanceProblem, tol_outer: float, tol_inner: float, max_cuts: int, seed: int) -> Any:
    """Weights at the end, J after every cut, and whether the loop ended before the cap."""
    weights = problem.random_weights(seed)
    scores = problem.scores(weights)
    # the scale of the start means nothing: all instances are in the first cut
    cuts = [problem.make_cut(np.ones(len(scores)), _ranked(scores)[1])]
    history: list[float] = []
    while True:
        weights, xi = _solve_cccp(problem, cuts, weights, tol_outer)
        scores = problem.scores(weights)
        winners, rivals = _ranked(scores)
        everyone = np.arange(len(scores))
        margins = scores[everyone, winners] - scores[everyone, rivals]
        loss = float(np.maximum(0.0, 1.0 - margins).mean())
        history.append(0.5 * float((weights**2).sum()) + problem.C * loss)
        converged = loss - xi <= tol_inner
        if converged or len(cuts) == max_cuts:
            return weights, history, converged
        cuts.append(problem.make_cut((margins < 1.0).astype(np.float64), rivals))


def _solve_cccp(
    problem: _InstanceProblem, cuts: list[Cut], weights: np.ndarray, tol: float
) -> tuple[np.ndarray, float]:
    """Weights and slack under the cuts: fix the winners, solve the quadratic program, repeat while it gains."""
    offsets = np.array([mask.mean() for mask, _ in cuts])
    last, xi = np.inf, 0.0
    while True:
        # <w_z, x> with z = argmax is convex and stands on the concave side: it is linear once the winners are fixed
        vectors = problem.cut_vectors(cuts, problem.scores(weights).argmax(axis=1))
        flat = vectors.reshape(len(cuts), -1)
        optimum = solve_under_cuts(
            flat @ flat.T, vectors @ problem.direction, offsets, C=problem.C, slack=problem.slack
        )
        value = optimum.half_norm + problem.C * optimum.xi
        if not value < last:
            return weights, xi
        weights = np.tensordot(optimum.alpha, vectors, axes=1) + np.outer(optimum.shift, problem.direction)
        xi = optimum.xi
        if has_settled(last, value, tol):
            return weights, xi
        last = value


def _ranked(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) best and second best cluster of every instance."""
    winners = scores.argmax(axis=1)
    others = scores.copy()
    others[np.arange(len(scores)), winners] = -np.inf
    return winners, others.argmax(axis=1)
