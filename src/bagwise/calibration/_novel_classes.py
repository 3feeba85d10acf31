"""What nobody listed: the background, split into groups of instances that may each be a class of its own.

Several novel classes at once, after Pham et al. (2015), who give all of them one class that any bag may hold, and their
model of several (2017). The union likelihood sees only that an instance belongs to no listed label; which of them
belong together must come from the features, so the background is clustered, and of the clusters those are kept that
come back when bags are left out and that no listed label explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.cluster import HDBSCAN
from sklearn.covariance import ledoit_wolf
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise.annotation import ORedLogisticRegression
from bagwise.core.bags import Bags, known_labels
from bagwise.core.base import BagEstimator, Findings
from bagwise.core.checks import check_count, check_that, is_count
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike, LabelsLike, Learner, Seed
from bagwise.core.validation import encode_evidence, listed_labels, split_dataset, validate_bags
from bagwise.pipeline import bag_tags, final_step, find_instances, fit_parameters, make_pipeline
from bagwise.preprocessing import PerInstance, RBFDictionary, SparseReducer

LIKELY = 0.5  # probability of background, or of a label, from which an instance counts as such
SHARE = 0.8  # of the bags, in a resample


@dataclass(frozen=True)
class NovelGroup:
    """A group of instances that belong to no listed label.

    Attributes
    ----------
    size, n_bags : int
    stability : float
        Mean Jaccard index of the group and the group most like it, over resamples of the bags: 1 where it always comes
        back as it is, and .5 or less where it dissolves (Hennig 2007).
    label : str, int or None
        The label that most of its bags list; None where no label is listed at all.
    share : float
        Of its bags, how many list that label. Where nearly all do, it may be a call of what has that label.

    Examples
    --------
    >>> from bagwise.calibration import NovelGroup
    >>> NovelGroup(size=40, n_bags=12, stability=0.9, label="wren", share=0.25).size
    40
    """

    size: int
    n_bags: int
    stability: float
    label: Any
    share: float


class NovelClasses(BagEstimator):
    """Groups of instances that belong to none of the listed labels: species, objects or topics that nobody named.

    1. A learner with a background class, which any bag may hold unlisted, says how probable it is that an instance
       belongs to no listed label.
    2. Those of .5 and more are grouped by density (HDBSCAN, its leaves; most instances may be in no group), in the
       space in which the listed labels are round: features are divided by how much they vary within a label, so that
       what does not tell labels apart does not tell groups apart. If that shows no group, they are grouped among all
       instances, since a single group has nothing that it could be denser than.
    3. This is repeated on samples of four fifths of the bags. A group that does not come back is not shown.
    4. A group nearly all of whose bags list one and the same label is taken for that label's, and not shown either: the
       likelihood cannot tell it from a second sound of what has that label.

    How many groups there are follows from 2 to 4.

    Parameters
    ----------
    estimator : annotator with a background, a pipeline that ends in one, or None
        By default `ORedLogisticRegression` on similarities to 600 of the instances.
    min_size : int, default=5
        Fewest instances of a group.
    least_stability : float, default=0.5
        Groups of this stability or less are not shown.
    most_listed : float, default=0.9
        Groups are not shown of whose bags a larger share lists one label; 1 shows all.
    n_resamples : int, default=10
    max_instances : int, default=5000
        Most instances that are grouped, drawn at random; the others join the group of the nearest of them.
    random_state : int, RandomState or None

    Attributes
    ----------
    novel_ : (m,) array of int
        Group of every instance that was learned from, -1 for none.
    groups_ : list of NovelGroup
        From the largest to the smallest.
    background_ : (m,) array
        Probability of belonging to no listed label.
    estimator_ : the learner, fitted
    classes_ : (c,) array

    References
    ----------
    Pham, Raich, Fern and Perez Arriaga (2015), Multi-instance multi-label learning in the presence of novel class
    instances; Hennig (2007), Cluster-wise assessment of cluster stability.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import NovelClasses
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=150, separation=6.0, random_state=0)
    >>> found = NovelClasses(random_state=0).fit(data.bags, data.Y[:, :4])  # the fifth class is in no list
    >>> truth = data.instance_labels.instances
    >>> [round(float(np.mean(truth[found.novel_ == g] == 4)), 2) for g in range(len(found.groups_))]
    [1.0]
    """

    def __init__(
        self,
        estimator: Learner | None = None,
        *,
        min_size: int = 5,
        least_stability: float = 0.5,
        most_listed: float = 0.9,
        n_resamples: int = 10,
        max_instances: int = 5000,
        random_state: Seed = None,
    ):
        self.estimator = estimator
        self.min_size = min_size
        self.least_stability = least_stability
        self.most_listed = most_listed
        self.n_resamples = n_resamples
        self.max_instances = max_instances
        self.random_state = random_state

    def fit(self, X: BagsLike, y: LabelsLike | None = None, instance_labels: Bags | None = None) -> NovelClasses:
        """Learn the listed labels, and group what belongs to none of them.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : labels in any form; None: those of the `BagDataset` that is `X`
        instance_labels : Bags of int or None
            Instances that are known, as of `ORedLogisticRegression.fit`; those known as background are in no group.
        """
        self._check()
        X, y = split_dataset(X, y)
        bags, rng = validate_bags(self, X, reset=True), check_random_state(self.random_state)
        model = _default(rng) if self.estimator is None else clone(self.estimator)
        if not bag_tags(model).background:
            raise InputError(
                f"{type(final_step(model)).__name__} knows no background, to which what nobody listed could belong; "
                "pass an annotator with background=True."
            )
        given = {} if instance_labels is None else {"instance_labels": instance_labels}
        self.estimator_ = model.fit(bags, y, **fit_parameters(model, **given))
        self.classes_ = final_step(model).classes_
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=True)
        found = find_instances(model, bags, y, instance_labels)
        assert found.background is not None
        self.background_ = found.background
        rows = self._learn_space(bags, found)
        likely = self.background_ >= LIKELY
        if known is not None:
            likely &= np.asarray(known) == -1
        listed = listed_labels(encode_evidence(y, self.classes_, len(bags)))
        for among in (likely, np.ones_like(likely)):  # one group alone has no density to differ from: then among all
            sample = np.sort(rng.permutation(np.flatnonzero(among))[: self.max_instances])
            found_in = self._shown(rows[sample], likely[sample], bags.bag_index[sample], listed, rng)
            if self.groups_:
                break
        self._rows, self._labels = rows[sample], found_in
        self.novel_ = np.where(likely, self._nearest(rows), -1)
        return self

    def predict_novel(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) group of the instances of bags, whose labels may be given, -1 for none."""
        check_is_fitted(self, "groups_")
        bags = self._start_predict(X)
        background = np.asarray(find_instances(self.estimator_, bags, Y).background)
        return np.where(background >= LIKELY, self._nearest(self._in_space(bags)), -1)

    def _check(self) -> None:
        check_count(self, "n_resamples", "max_instances")
        check_that(self, "min_size", lambda value: is_count(value) and value >= 2, "a whole number, 2 or more")
        for name in ("least_stability", "most_listed"):
            check_that(self, name, lambda value: 0 <= value <= 1, "in [0, 1]")

    # -- groups -------------------------------------------------------------------------------------------------------

    def _learn_space(self, bags: Bags, found: Findings) -> np.ndarray:
        """(m, d) features in which the listed labels are round; where too little is known, as wide as all together."""
        self._scaler = sklearn_pipeline(SparseReducer(random_state=0), StandardScaler()).fit(bags.instances)
        X = np.asarray(self._scaler.transform(bags.instances), dtype=np.float64)
        sure = np.flatnonzero(np.asarray(found.probability) >= LIKELY)
        label = found.labels[sure]
        self._directions = np.eye(X.shape[1])
        if len(sure) > 1:
            within = X[sure]
            for one in np.unique(label):
                within[label == one] -= within[label == one].mean(axis=0)
            # shrunk, since there may be fewer such instances than features
            variances, directions = eigh(ledoit_wolf(within, assume_centered=True)[0])
            if variances[0] > 0.0:
                self._directions = directions / np.sqrt(variances)
        return X @ self._directions

    def _in_space(self, bags: Bags) -> np.ndarray:
        return np.asarray(self._scaler.transform(bags.instances)) @ self._directions

    def _shown(
        self, rows: np.ndarray, likely: np.ndarray, bag_of: np.ndarray, listed: np.ndarray, rng: Any
    ) -> np.ndarray:
        """Group of each row, the largest first; -1 in none that is shown. Sets ``groups_``."""
        labels, candidates = self._group(rows), []
        stability = self._stability(rows, bag_of, labels, rng)
        for number in range(labels.max(initial=-1) + 1):
            members = np.flatnonzero(labels == number)
            own = members[likely[members]]
            if 2 * len(own) < len(members):  # it is some listed label's
                continue
            in_bags = np.unique(bag_of[own])
            shares = listed[in_bags].mean(axis=0)
            most = int(shares.argmax())
            label = self.classes_.tolist()[most] if shares[most] > 0 else None
            group = NovelGroup(len(own), len(in_bags), float(stability[number]), label, float(shares[most]))
            if group.stability > self.least_stability and group.share <= self.most_listed:
                candidates.append((group, own))
        candidates.sort(key=lambda one: -one[0].size)
        shown = np.full(len(rows), -1)
        for number, (_, own) in enumerate(candidates):
            shown[own] = number
        self.groups_ = [group for group, _ in candidates]
        return shown

    def _group(self, rows: np.ndarray) -> np.ndarray:
        if len(rows) <= self.min_size:
            return np.full(len(rows), -1)
        model = HDBSCAN(min_cluster_size=self.min_size, cluster_selection_method="leaf", copy=True)
        return model.fit(rows).labels_

    def _stability(self, rows: np.ndarray, bag_of: np.ndarray, labels: np.ndarray, rng: Any) -> np.ndarray:
        """Mean Jaccard index of each group with the most similar one of those found without some of the bags."""
        n_groups = labels.max(initial=-1) + 1
        best = np.zeros((self.n_resamples, n_groups))
        bags = np.unique(bag_of)
        for one in best if n_groups else ():
            kept = np.flatnonzero(np.isin(bag_of, bags[rng.uniform(size=len(bags)) < SHARE]))
            others = self._group(rows[kept])
            if others.max(initial=-1) < 0:
                continue
            common = np.zeros((n_groups + 1, others.max() + 2))  # the last of both: in no group
            np.add.at(common, (labels[kept], others), 1)
            sizes, theirs = common[:-1].sum(axis=1, keepdims=True), common[:, :-1].sum(axis=0)
            shared = common[:-1, :-1]
            one[:] = (shared / (sizes + theirs - shared)).max(axis=1)
        return best.mean(axis=0)

    def _nearest(self, rows: np.ndarray) -> np.ndarray:
        """Group of the nearest of the instances that were grouped."""
        if not len(self._rows) or not len(rows):
            return np.full(len(rows), -1)
        nearest = NearestNeighbors(n_neighbors=1).fit(self._rows).kneighbors(rows, return_distance=False)
        return self._labels[nearest[:, 0]]


def _default(rng: Any) -> Any:
    """A learner with a background whose labels need not be linear in the features."""
    similar = RBFDictionary(width=0.5, size=600, whiten=True, random_state=rng.randint(2**31 - 1))
    steps = SparseReducer(random_state=0), StandardScaler(), similar
    return make_pipeline(*map(PerInstance, steps), ORedLogisticRegression(l2=0.03, background=True))
