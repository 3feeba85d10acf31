"""Bags as counts of kinds of instances, and clusters by the kinds that they hold."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from bagwise.clustering._shared import BagClusterer, find_witnesses, quietly, rank_by_size, warn_empty_clusters
from bagwise.clustering.scaling import are_words
from bagwise.core.bags import Bags, as_bags, cut_bags
from bagwise.core.checks import check_choice, check_count, check_not_negative, check_positive
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, Choice, Numbers
from bagwise.core.typing import BagsLike

KINDS = ("auto", "features", "codebooks")
N_SHORT = 8  # iterations of every start, after which the best go on
N_LONG = 3  # starts that go on
COUNTED = 3.0  # how often an instance that is sorted into kinds counts
SURE = 0.9  # posterior of the cluster of k-means at the start
MOST_LEARNED = 20_000  # instances that a codebook is learned from
FEWEST_KINDS, MOST_KINDS = 8, 64
BLOCK = 2**20  # memberships held at once


class BagMixture(BagClusterer):
    """Clusters bags by how many instances of each kind they hold, by a mixture of multinomials.

    A bag is a count of kinds. Words are kinds already: where the features are mostly zero and never negative, the bag
    is the sum of its instances, each given as many words as it has different ones. Measurements are sorted into kinds
    by codebooks, each of which is k-means of all instances with the memberships that Gaussians around the centres
    give. A cluster is a distribution over kinds, and EM finds the clusters of the largest posterior density ::

        sum_i log sum_c pi_c prod_v theta_cv^n_iv + smoothing sum_cv d q_v log theta_cv + sum_c log pi_c

    with n_iv the count of kind v in bag i, q_v the share of kind v in all bags and d the number of kinds. Kinds that
    all bags hold are no evidence of a cluster, and one instance of a rare kind can be all of it: neither the mean of a
    bag nor one witness has to differ.

    One codebook is as arbitrary as its start, so several stand side by side. In all of them together an instance
    counts three times: memberships are blurred, and where bags are few and small the density would be larger with
    clusters that are empty.

    Parameters
    ----------
    n_clusters : int, default=2
    kinds : {"auto", "features", "codebooks"}, default="auto"
        Whether the features are counts of kinds already; "auto" asks `are_words`.
    n_codebooks : int, default=9
        With words there is none.
    smoothing : float, default=0.3
        Weight of the overall distribution in each cluster, in instances per kind.
    n_init : int, default=10
        Starts; the one of the largest posterior density is kept.
    tol : float, default=1e-6
        A tolerance of the change.
    max_iter : int, default=100
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) array of int
        Clusters, numbered from the largest to the smallest.
    probabilities_ : (n, k) array
    witnesses_ : (n,) array of int
        Position within its bag of the instance that is most evidence for the bag's cluster against the others.
    margins_ : (n,) array
        1 minus the likelihood of the second cluster over that of the bag's own, for a mean instance: 0 where the bag
        could be in either. Probabilities of bags with many instances are near 0 or 1, and discriminate less.
    objective_ : float
        Log posterior density at the end.
    objective_history_ : array
        After every iteration; never falls.
    n_iter_ : int
    converged_ : bool
    kinds_ : str
        "features" or "codebooks".
    log_words_ : (k, v) array
        Log probability of every kind in every cluster, the codebooks side by side.
    log_shares_ : (k,) array
    centres_ : (v, d) array
        Of all codebooks, one below the other.
    widths_, sizes_ : (b,) arrays
        Width and number of kinds of each codebook.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import BagMixture
    >>> rng = np.random.default_rng(0)
    >>> corners = 6 * np.eye(3)[np.arange(30) % 3]
    >>> bags = [np.vstack([corner + rng.normal(size=3), rng.normal(size=(2, 3))]) for corner in corners]
    >>> labels = BagMixture(3, random_state=0).fit_predict(bags)
    >>> len({tuple(labels[c::3]) for c in range(3)}), np.bincount(labels).tolist()
    (3, [10, 10, 10])
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "log_words_": Numbers("clusters", "kinds", finite=False),
        "log_shares_": Numbers("clusters", finite=False),
        "probabilities_": Numbers("bags", "clusters", finite=False),
        "kinds_": Choice(*KINDS[1:]),
        "centres_": Numbers("centres", "features", empty=True),
        "widths_": Numbers("codebooks", low=0, empty=True),
        "sizes_": Numbers("codebooks", whole=True, low=1, empty=True),
    }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        by_features = self.kinds_ == "features"
        n_kinds = self.n_features_in_ if by_features else int(self.sizes_.sum())
        if by_features == bool(len(self.sizes_)) or len(self.centres_) != self.sizes_.sum():
            raise InputError("BagMixture.centres_ do not fit its sizes_; fit it again")
        if self.log_words_.shape[1] != n_kinds:
            raise InputError(f"BagMixture.log_words_ is of {self.log_words_.shape[1]} kinds, not {n_kinds}")

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        kinds: str = "auto",
        n_codebooks: int = 9,
        smoothing: float = 0.3,
        n_init: int = 10,
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.kinds = kinds
        self.n_codebooks = n_codebooks
        self.smoothing = smoothing
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_choice("kinds", self.kinds, KINDS)
        check_count(self, "n_codebooks", "n_init", "max_iter")
        check_positive(self, "smoothing")
        check_not_negative(self, "tol")

    def _cluster(self, bags: Bags) -> None:
        rng = check_random_state(self.random_state)
        counts = self._learn_kinds(bags, rng)
        fit = fit_multinomials(counts, self.n_clusters, self, rng)
        order = np.argsort(rank_by_size(fit.posteriors.argmax(axis=1), self.n_clusters))
        self.log_words_, self.log_shares_ = fit.log_words[order], fit.log_shares[order]
        scores = self._bag_scores(counts)
        self.probabilities_ = _normalised(scores)[0]
        self.labels_ = scores.argmax(axis=1)
        ranked = np.sort(scores, axis=1)
        self.margins_ = -np.expm1((ranked[:, -2] - ranked[:, -1]) / bags.sizes)
        self.witnesses_ = self._find_witnesses(bags)
        self._keep_end(fit.history[-1], len(fit.history), fit.converged, fit.history)
        warn_empty_clusters(self.labels_, self.n_clusters, "ask for fewer clusters")

    def cluster_proba(self, X: BagsLike) -> np.ndarray:
        """(n, k) probability of every cluster for every bag."""
        return self._proba(self._start_predict(X))

    def _assign(self, bags: Bags) -> np.ndarray:
        return self._proba(bags).argmax(axis=1)

    def _proba(self, bags: Bags) -> np.ndarray:
        return _normalised(self._bag_scores(self._count(bags)))[0]

    def _learn_kinds(self, bags: Bags, rng: np.random.RandomState) -> Any:
        """(n, v) counts of kinds, with new codebooks where the features are none."""
        self.kinds_ = self.kinds
        if self.kinds == "auto":
            self.kinds_ = "features" if are_words(bags) else "codebooks"
        codebooks = [_learn_codebook(bags, rng) for _ in range(self.n_codebooks * (self.kinds_ == "codebooks"))]
        self.centres_ = np.vstack([np.empty((0, bags.n_features)), *(codebook.centres for codebook in codebooks)])
        self.widths_ = np.array([codebook.width for codebook in codebooks])
        self.sizes_ = np.array([len(codebook.centres) for codebook in codebooks], dtype=np.int64)
        return self._count(bags)

    def count_kinds(self, X: Any, random_state: Any = None) -> Any:
        """(n, v) counts of kinds of some bags, with codebooks of these bags.

        For trials: the fit of a mixture to part of these counts takes milliseconds.
        """
        return clone(self)._learn_kinds(as_bags(X), check_random_state(random_state))

    def _count(self, bags: Bags) -> Any:
        """(n, v) counts of kinds; in all codebooks together an instance counts COUNTED times."""
        if self.kinds_ == "features":
            return _count_words(bags)
        centres = np.split(self.centres_, np.cumsum(self.sizes_)[:-1])
        parts = [_Codebook(of, float(width)).counts(bags) for of, width in zip(centres, self.widths_, strict=True)]
        return np.hstack(parts) * (COUNTED / len(parts))

    def _bag_scores(self, counts: Any) -> np.ndarray:
        """(n, k) log joint density of bag and cluster."""
        return np.asarray(counts @ self.log_words_.T) + self.log_shares_

    def _find_witnesses(self, bags: Bags) -> np.ndarray:
        """Position in its bag of the instance by whose kinds the bag's cluster gains most on the best of the others."""
        singles = Bags(bags.instances, np.arange(bags.n_instances + 1))
        scores = np.asarray(self._count(singles) @ self.log_words_.T)
        others = scores.copy()
        others[np.arange(len(scores)), np.repeat(self.labels_, bags.sizes)] = -np.inf
        return find_witnesses(scores - others.max(axis=1, keepdims=True), self.labels_, bags)


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of instances, and how many of each kind a bag holds


class _Codebook(NamedTuple):
    """Kinds of instances as round Gaussians of one width and equal weight.

    Attributes
    ----------
    centres : (v, d) array
    width : float
        Variance of an instance around its centre, in each direction.
    """

    centres: np.ndarray
    width: float

    def memberships(self, X: Any) -> np.ndarray:
        """(m, v) probability of each kind for each instance."""
        squares = euclidean_distances(X, self.centres, squared=True).astype(np.float64, copy=False)
        squares -= squares.min(axis=1, keepdims=True)
        shares = np.exp(-squares / (2.0 * self.width)) if self.width > 0.0 else (squares == 0.0).astype(np.float64)
        return shares / shares.sum(axis=1, keepdims=True)

    def counts(self, bags: Bags) -> np.ndarray:
        """(n, v) expected number of instances of each kind in each bag."""
        counts = np.empty((len(bags), len(self.centres)))
        for first, last in cut_bags(bags.offsets, max(1, BLOCK // len(self.centres))):
            part = bags[first:last]
            counts[first:last] = np.add.reduceat(self.memberships(part.instances), part.offsets[:-1], axis=0)
        return counts


def _learn_codebook(bags: Bags, rng: np.random.RandomState) -> _Codebook:
    """Kinds by k-means of all instances, about the root of their number: 8 at least, 64 at most."""
    X = bags.instances
    if X.shape[0] > MOST_LEARNED:
        X = X[np.sort(rng.permutation(X.shape[0])[:MOST_LEARNED])]
    n_kinds = int(np.clip(round(bags.n_instances**0.5), FEWEST_KINDS, MOST_KINDS))
    n_kinds = min(n_kinds, len(np.unique(X.toarray() if sp.issparse(X) else X, axis=0)))
    model = KMeans(n_kinds, n_init=1, random_state=rng.randint(2**31 - 1)).fit(X)
    width = float(model.inertia_) / (X.shape[0] * X.shape[1])
    return _Codebook(np.asarray(model.cluster_centers_, dtype=np.float64), width)


def _count_words(bags: Bags) -> sp.csr_matrix:
    """(n, d) words of each bag, every instance given as many as it has different ones, however long it is."""
    X = sp.csr_matrix(bags.instances, dtype=np.float64)
    if np.any(X.data < 0):
        raise InputError(
            "kinds='features' takes counts, and there are features below zero; use kinds='codebooks', which sorts "
            "measurements into kinds."
        )
    totals = np.asarray(X.sum(axis=1)).ravel()
    different = np.asarray((X > 0).sum(axis=1)).ravel()
    weights = different / np.where(totals > 0.0, totals, 1.0)
    gather = sp.csr_matrix((weights, np.arange(X.shape[0]), bags.offsets), shape=(len(bags), X.shape[0]))
    return gather @ X


# ---------------------------------------------------------------------------------------------------------------------
# A mixture of multinomials


class MultinomialMixture(NamedTuple):
    """A fitted mixture.

    Attributes
    ----------
    log_words : (k, v) array
        Log probability of each word in each cluster.
    log_shares : (k,) array
        Log share of each cluster.
    posteriors : (n, k) array
    history : list of float
        Log posterior density after every iteration; never falls.
    converged : bool
    """

    log_words: np.ndarray
    log_shares: np.ndarray
    posteriors: np.ndarray
    history: list[float]
    converged: bool


def fit_multinomials(counts: Any, n_clusters: int, model: BagMixture, rng: np.random.RandomState) -> MultinomialMixture:
    """The mixture of the largest posterior density over several starts, every second of them from k-means.

    Parameters
    ----------
    counts : (n, v) array or CSR matrix
        Not negative; need not be whole.
    n_clusters : int
    model : BagMixture
        Gives smoothing, starts, tolerance and most iterations.
    rng : RandomState
    """
    smoothing, tol, max_iter = model.smoothing, model.tol, model.max_iter
    starts = [_start(counts, n_clusters, i % 2 == 0, rng) for i in range(model.n_init)]
    short = [_run_em(counts, start, smoothing, tol, min(N_SHORT, max_iter)) for start in starts]
    short.sort(key=lambda fit: -fit.history[-1])
    long = []
    for fit in short[:N_LONG]:
        left = max_iter - len(fit.history)
        if fit.converged or left < 1:
            long.append(fit)
            continue
        more = _run_em(counts, fit.posteriors, smoothing, tol, left)
        long.append(more._replace(history=[*fit.history, *more.history]))
    return max(long, key=lambda fit: fit.history[-1])


def _start(counts: Any, n_clusters: int, by_kmeans: bool, rng: Any) -> np.ndarray:
    """(n, k) posteriors to start from: those of k-means of the roots of the bags' shares, or nearly even ones."""
    n_bags = counts.shape[0]
    if by_kmeans:
        totals = np.asarray(counts.sum(axis=1)).ravel()
        shares = sp.diags(1.0 / np.where(totals > 0.0, totals, 1.0)) @ counts
        model = KMeans(n_clusters, n_init=1, max_iter=20, random_state=rng.randint(2**31 - 1))
        with quietly():  # there may be fewer different bags than clusters
            labels, sure = model.fit_predict(np.sqrt(shares)), SURE
    else:
        labels, sure = rng.randint(n_clusters, size=n_bags), 1.0 - SURE
    return sure * np.eye(n_clusters)[labels] + (1.0 - sure) / n_clusters


def _run_em(counts: Any, posteriors: np.ndarray, smoothing: float, tol: float, max_iter: int) -> MultinomialMixture:
    history: list[float] = []
    prior = smoothing * _overall(counts)
    for _ in range(max_iter):
        log_words, log_shares = _maximise(counts, posteriors, prior)
        scores = np.asarray(counts @ log_words.T) + log_shares
        posteriors, log_totals = _normalised(scores)
        # the densities of the bags (the E-step's normalisers) and of both priors, up to their constants
        density = float(log_totals.sum() + (prior * log_words).sum() + log_shares.sum())
        history.append(density)
        if len(history) > 1 and density - history[-2] <= tol * abs(density):
            return MultinomialMixture(log_words, log_shares, posteriors, history, True)
    return MultinomialMixture(log_words, log_shares, posteriors, history, False)


def _overall(counts: Any) -> np.ndarray:
    """(v,) share of each word in all bags, times the number of words; a word that no bag has counts a little."""
    totals = np.asarray(counts.sum(axis=0)).ravel() + 1e-9
    return totals / totals.sum() * len(totals)


def _maximise(counts: Any, posteriors: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of words in clusters and log shares of clusters, given who is where."""
    # the modes of Dirichlet posteriors: the terms of the prior add its weights to the counts, as if they had been seen
    words = np.asarray(counts.T @ posteriors).T + prior
    shares = posteriors.sum(axis=0) + 1.0
    return np.log(words / words.sum(axis=1, keepdims=True)), np.log(shares / shares.sum())


def _normalised(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the exponentials of each row, and the logarithm of their sum; scipy's logsumexp takes most of a fit."""
    largest = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - largest)
    totals = shares.sum(axis=1, keepdims=True)
    return shares / totals, (largest + np.log(totals)).ravel()
