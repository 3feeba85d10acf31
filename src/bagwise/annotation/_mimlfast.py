"""MIMLfast: a shared space, label-specific sub-concepts and stochastic gradient on the ranking error."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin
from bagwise.core.checks import (
    check_allocation,
    check_count,
    check_not_negative,
    check_positive,
    check_that,
    is_positive,
)
from bagwise.core.fitted import ITERATED, Attribute, Either, Number, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, Seed, WeightsLike
from bagwise.core.validation import distinct_bags, refuse_sparse
from bagwise.kernels.mimlfast import run_epoch
from bagwise.metrics import ranking_loss
from bagwise.solvers.result import Callback


class MIMLFast(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Ranks labels by the best instance of the bag under the best sub-concept of the label.

    With the shared space W0 and K vectors w_lk for each label l, ::

        f_l(x) = max_k w_lk . W0 x,        f_l(X) = max over x in X of f_l(x).

    A further, dummy label is trained to rank below the labels that a bag carries and above all others. The ranking
    error of label l in bag X is 1 + 1/2 + ... + 1/R, where R labels that should rank below l do not. It is lowered by
    stochastic gradient: draw a bag and one of its labels l (the dummy counts as one), try the labels that should
    rank below l in random order until one, l', has f_l'(X) > f_l(X) - 1, and with v of V of them tried step against
    the gradient of ::

        (1 + 1/2 + ... + 1 / floor(V / v))  (1 + f_l'(X) - f_l(X)).

    After each step every w_lk and every column of W0 is scaled back to the norm C where it is longer.

    Features must be scaled (``PerInstance(StandardScaler())``): the norm constraints bound the scores, whose margin
    is 1. `scale` then brings the instances to the size that the constraints allow.

    Parameters
    ----------
    n_components : int, default=100
        m, the dimension of the shared space.
    n_concepts : int, default=5
        K, sub-concepts of each label.
    norm : float, default=10.0
        C, the largest norm of a label vector and of a column of W0.
    step, decay : float, default=0.005 and 1e-5
        gamma_0 and eta; step t has the length gamma_0 / (1 + eta gamma_0 t).
    scale : float or None, default=None
        Instances are divided by it, as in Pham et al., who choose the constant by cross-validation. None: the root
        mean square of the norms of the training instances.
    fit_intercept : bool, default=True
        Give every instance a constant feature 1, after the division.
    validation_fraction : float, default=0.1
        Share of the bags held out for early stopping; 0 (or fewer than ten bags): none, all epochs are run and the
        last weights kept.
    max_epochs : int, default=200
        An epoch makes as many steps as there are training bags.
    patience : int, default=30
        Epochs without a lower validation loss after which training stops.
    verbose : int, default=0
        Print the objective after every so many epochs: 1 for all of them, 10 for every tenth, 0 for none.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (c,) array
    shared_ : (m, d) or, with intercept, (m, d + 1) array
        W0.
    concepts_ : (c + 1, K, m) array
        w_lk; the last label is the dummy.
    scale_ : float
    objective_history_ : (`n_iter_`,) array
        Ranking loss of the held-out bags after every epoch, the dummy ranked with the others; empty without them.
    best_epoch_ : int
        The epoch, from 1, whose weights were kept.
    n_iter_ : int
        Epochs run.
    converged_ : bool
        Whether `patience` ended the training; true where nothing is held out, since then all epochs are to be run.

    Notes
    -----
    From the original publication: initial weights from N(0, 1/d), the step length, the norm constraints, the dummy
    label and how it enters the sampling; a bag's predicted labels are those that score above the dummy (possibly
    none). Pham et al. take an instance's label as argmax_l f_l(x), which `predict_instances` does.

    Choices made here: violating labels are tried without repetition, so V tries settle that there is none. The
    constant feature is not in the publication, whose features are not centred; without it the dummy, a linear
    function of standardised features, separates badly (docs/mimlfast-lsb.md). Early stopping watches the ranking
    loss over labels and dummy, the very pairs that are trained. `decision_function` is f_l(X) less the dummy's score,
    so that positive means predicted; the order of the labels is that of f.

    References
    ----------
    S.-J. Huang, W. Gao, Z.-H. Zhou (2014): Fast multi-instance multi-label learning. AAAI, 1868-1874.
    Pham, Raich and Fern, Dynamic programming for instance annotation in multi-instance multi-label learning,
    section 6.1.

    Examples
    --------
    >>> from bagwise.annotation._mimlfast import MIMLFast
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = MIMLFast(n_concepts=1, max_epochs=50, random_state=0).fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "scale_": Number(positive=True), "concepts_": Numbers("classes+1", "concepts", "components"),
        "shared_": Either(Numbers("components", "features"), Numbers("components", "features+1")),
        "best_epoch_": Number(0, whole=True), **ITERATED,
    }  # fmt: skip

    def __init__(
        self,
        n_components: int = 100,
        n_concepts: int = 5,
        *,
        norm: float = 10.0,
        step: float = 0.005,
        decay: float = 1e-5,
        scale: float | None = None,
        fit_intercept: bool = True,
        validation_fraction: float = 0.1,
        max_epochs: int = 200,
        patience: int = 30,
        verbose: int = 0,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.n_concepts = n_concepts
        self.norm = norm
        self.step = step
        self.decay = decay
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.validation_fraction = validation_fraction
        self.max_epochs = max_epochs
        self.patience = patience
        self.verbose = verbose
        self.random_state = random_state

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        callback: Callback | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> MIMLFast:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        callback : callable or None
            Called after every epoch with its number and the validation loss (NaN where nothing is held out).
        sample_weight : (n,) array or None
            How often each bag is drawn, relative to others, and counts in the validation loss; weight 0: left out. An
            epoch makes as many steps as there are distinct bags, whatever they weigh.
        """
        self.check_parameters()
        bags, indicator, weights = self._start_weighted_fit(X, y, sample_weight)
        index, weights = distinct_bags(bags, indicator, weights)
        bags, indicator = bags[index], indicator[index]
        weights = np.ones(len(bags)) if weights is None else weights
        refuse_sparse(self, bags)  # a step changes the whole shared space, so sparsity would be lost at the first
        n_rows = self.n_components * (bags.n_features + self.n_concepts * (indicator.shape[1] + 1))
        check_allocation(24 * n_rows, "The weights of MIMLFast", "lower n_components or n_concepts")
        of_rows = np.repeat(weights, bags.sizes)
        self.scale_ = root_mean_square_norm(bags.instances, of_rows) if self.scale is None else float(self.scale)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        bags = Bags(self._features(bags, self.fit_intercept), bags.offsets)
        held_out = draw_held_out(len(bags), self.validation_fraction, rng)
        self._train(bags, indicator, weights, held_out, rng, self._progress(callback))
        return self

    def _train(
        self,
        bags: Bags,
        indicator: np.ndarray,
        weights: np.ndarray,
        held_out: np.ndarray,
        rng: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        training, labels = bags, indicator
        if held_out.any():
            training, labels = bags[~held_out], indicator[~held_out]
            watched, watched_labels = bags[held_out], indicator[held_out]
        shares = np.cumsum(weights[~held_out])
        shared, concepts = initial_weights(
            bags.n_features, self.n_components, indicator.shape[1] + 1, self.n_concepts, self.norm, rng
        )
        best, best_loss, best_epoch = (shared, concepts), np.inf, 0
        rates = float(self.step), float(self.decay), float(self.norm)
        history: list[float] = []
        for epoch in range(1, self.max_epochs + 1):
            draws = rng.random((len(training), indicator.shape[1] + 3))
            draws[:, 0] = draw_bags(draws[:, 0], shares)
            n_before = (epoch - 1) * len(training)
            run_epoch(training.instances, training.offsets, labels, shared, concepts, draws, n_before, *rates)
            loss = np.nan
            if held_out.any():
                scores = instance_scores(watched.instances, shared, concepts)
                bag_scores = np.maximum.reduceat(scores, watched.offsets[:-1], axis=0)
                loss = dummy_ranking_loss(watched_labels, bag_scores, weights[held_out])
                history.append(loss)
            if not loss >= best_loss:  # lower, or nothing held out
                best, best_loss, best_epoch = (shared.copy(), concepts.copy()), loss, epoch
            if callback is not None:
                callback(epoch, loss)
            if epoch - best_epoch >= self.patience:
                break
        self.shared_, self.concepts_ = np.ascontiguousarray(best[0].T), best[1]
        self.objective_history_ = np.asarray(history)
        self.converged_ = bool(not held_out.any() or epoch - best_epoch >= self.patience)
        self.best_epoch_, self.n_iter_ = best_epoch, epoch

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_count(self, "n_components", "n_concepts", "max_epochs", "patience")
        check_positive(self, "norm", "step")
        check_not_negative(self, "decay")
        check_that(self, "scale", lambda value: value is None or is_positive(value), "None or a positive number")
        check_that(self, "validation_fraction", lambda value: 0 <= value < 1, "in [0, 1)")

    # -- predict ------------------------------------------------------------------------------------------------------

    def _features(self, bags: Bags, intercept: bool) -> np.ndarray:
        """Instances as the weights see them: divided by the scale, the constant feature last."""
        refuse_sparse(self, bags)
        X = bags.instances.astype(np.float64) / self.scale_
        return np.hstack([X, np.ones((len(X), 1))]) if intercept else np.ascontiguousarray(X)

    def _all_scores(self, bags: Bags) -> np.ndarray:
        """(m, c + 1) instance scores, the dummy's last."""
        intercept = self.shared_.shape[1] > bags.n_features  # whatever the parameter was set to since
        return instance_scores(self._features(bags, intercept), self.shared_.T, self.concepts_)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._all_scores(bags)[:, :-1]

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest score in the bag, less the dummy's: positive for the labels of the predicted set."""
        scores = np.maximum.reduceat(self._all_scores(bags), bags.offsets[:-1], axis=0)
        return scores[:, :-1] - scores[:, -1:]

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """The labels that score above the dummy."""
        return self._bag_scores(bags) > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


# ---------------------------------------------------------------------------------------------------------------------
# Pieces


def root_mean_square_norm(X: np.ndarray, weights: np.ndarray) -> float:
    """sqrt(mean ||x||^2), a weighted mean, or 1 where all instances are zero."""
    norm = float(np.sqrt(np.average(np.einsum("ij,ij->i", X, X, dtype=np.float64), weights=weights)))
    return norm if norm > 0 else 1.0


def draw_bags(draws: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Uniform numbers such that each bag comes as often as its weight says; `shares` are summed weights.

    The kernel takes bag int(draw * n): weights of one leave the draws as they are, but for rounding within a bag.
    """
    chosen = np.minimum(np.searchsorted(shares, draws * shares[-1], side="right"), len(shares) - 1)
    return (chosen + 0.5) / len(shares)


def initial_weights(
    n_features: int, n_components: int, n_labels: int, n_concepts: int, norm: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Shared space (d, m), transposed, and label vectors (c + 1, K, m) from N(0, 1 / d), within the constraints."""
    deviation = 1.0 / np.sqrt(n_features)
    shared = rng.normal(0.0, deviation, (n_features, n_components))
    concepts = rng.normal(0.0, deviation, (n_labels, n_concepts, n_components))
    for weights in (shared, concepts):
        lengths = np.linalg.norm(weights, axis=-1, keepdims=True)
        weights *= np.minimum(1.0, norm / np.maximum(lengths, norm * 1e-300))
    return shared, concepts


def draw_held_out(n_bags: int, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """(n,) mask of the bags that are kept for validation; none where there are fewer than ten."""
    held_out = np.zeros(n_bags, dtype=bool)
    if fraction > 0 and n_bags >= 10:
        size = min(max(1, round(fraction * n_bags)), n_bags - 1)
        held_out[rng.choice(n_bags, size, replace=False)] = True
    return held_out


def instance_scores(X: np.ndarray, shared: np.ndarray, concepts: np.ndarray) -> np.ndarray:
    """(m, labels) f_l(x): the largest over sub-concepts, one at a time so that no (m, labels, K) array is made."""
    projected = X @ shared
    scores = projected @ concepts[:, 0].T
    for k in range(1, concepts.shape[1]):
        np.maximum(scores, projected @ concepts[:, k].T, out=scores)
    return scores


def dummy_ranking_loss(indicator: np.ndarray, bag_scores: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean of two ranking losses: the dummy, the last score, taken as a label that each bag carries, and as one not."""
    tables = [np.hstack([indicator, np.full((len(indicator), 1), value, np.uint8)]) for value in (1, 0)]
    return float(np.mean([ranking_loss(table, bag_scores, sample_weight=weights) for table in tables]))
