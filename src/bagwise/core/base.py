"""What all estimators share: tags, what is found out about instances, the root and the mixins."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise.core.bags import Bags, is_flat, known_labels
from bagwise.core.checks import check_that, is_count
from bagwise.core.exceptions import InfeasibleBagWarning, InputError, warn_caller
from bagwise.core.fitted import COUNT_OF_JOBS, INPUTS, OUTPUT, Attribute, Flag, Labels, Maybe, Number
from bagwise.core.typing import BagsLike, Callback, InstanceLabelsLike, LabelsLike, WeightsLike
from bagwise.core.validation import (
    Evidence,
    Given,
    decode_labels,
    encode_evidence,
    encode_known,
    encode_labels,
    learn_evidence,
    plain_labels,
    possible_labels,
    split_dataset,
    validate_bags,
    validate_weights,
)

NEGLIGIBLE = 5e-5  # a probability that rounds to 0.0000


@dataclass(slots=True)
class BagTags:
    """What a learner of bags can do, beyond what scikit-learn's own tags say.

    Attributes
    ----------
    annotates : bool
        It gives labels to instances: `find`, `annotate`, `predict_instances`, `instance_decision_function`.
    probabilities : bool
        It gives them probabilities: `annotate_proba`, `predict_instances_proba`.
    evidence : bool
        It takes more than plain lists of labels (`bagwise.core.validation`).
    background : bool
        It knows instances of no class: `background_proba`. Once fitted, what the fit found; before, what it was asked.
    label_sets : bool
        An instance may carry any number of labels: `predict_instance_sets`, `annotate_sets`, and rows of probabilities
        that need not sum to one.
    instance_labels : bool
        `fit` takes the labels of instances that are known.
    needs_instance_labels : bool
        `fit` cannot do without them (where bags carry several labels).
    sample_weight : bool
        `fit` takes a weight a bag.
    callback, checkpoint : bool
        `fit` takes them.
    warm_start : bool
        With ``warm_start=True`` a fit starts from what the last one found.
    row_per_bag : bool
        It is a transformer that makes one row of every bag: what comes after it does not see instances.

    Examples
    --------
    >>> from bagwise import ORedForest, make_pipeline
    >>> from bagwise.pipeline import bag_tags
    >>> tags = bag_tags(make_pipeline(ORedForest(background=True)))
    >>> tags.annotates, tags.background, tags.label_sets
    (True, True, False)
    """

    annotates: bool = False
    probabilities: bool = False
    evidence: bool = False
    background: bool = False
    label_sets: bool = False
    instance_labels: bool = False
    needs_instance_labels: bool = False
    sample_weight: bool = False
    callback: bool = False
    checkpoint: bool = False
    warm_start: bool = False
    row_per_bag: bool = False


@dataclass(slots=True)
class _TagsWithBags(Tags):
    """scikit-learn's tags and ours."""

    bag_tags: BagTags = field(default_factory=BagTags)

    @classmethod
    def of(cls, tags: Tags) -> _TagsWithBags:
        """The tags of scikit-learn with ours, all of them off."""
        return cls(**{own.name: getattr(tags, own.name) for own in fields(tags)})


@dataclass(frozen=True)
class Findings:
    """What is worked out about every instance.

    Attributes
    ----------
    labels : (m,) int64
        Index into ``classes_``, -1 where there is none: in a bag without labels, or where an instance is known to be
        background.
    proba : (m, c) array or None
        Probability of every class; None where the model gives none.
    background : (m,) array or None
        Probability of belonging to no class; None where the model knows no background. Rows of `proba` sum to one less
        this.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, random_state=0)
    >>> found = ORedLogisticRegression().fit(data).find(data.bags, data.Y)
    >>> bool((found.labels == found.proba.argmax(axis=1)).all()), found.background is None
    (True, True)
    >>> bool((found.second != found.labels).all())
    True
    """

    labels: np.ndarray
    proba: np.ndarray | None = None
    background: np.ndarray | None = None

    @property
    def probability(self) -> np.ndarray | None:
        """(m,) probability of the label given, zero where there is none; None without probabilities."""
        if self.proba is None:
            return None
        given = self.labels >= 0
        probability = np.zeros(len(self.labels))
        probability[given] = self.proba[given, self.labels[given]]
        return probability

    @property
    def second(self) -> np.ndarray:
        """(m,) int64 next probable class beside the label, -1 where its probability rounds to zero or is not known."""
        if self.proba is None:
            return np.full(len(self.labels), -1, dtype=np.int64)
        others = self.proba.copy()
        given = self.labels >= 0
        others[given, self.labels[given]] = -1.0
        second = others.argmax(axis=1)
        return np.where(others[np.arange(len(second)), second] >= NEGLIGIBLE, second, -1).astype(np.int64)


class BagEstimator(BaseEstimator):
    """Root of all bagwise estimators: turns `X` into `Bags` once, at the edge.

    One vocabulary for all of them. After the fit of a procedure with iterations

    - ``n_iter_`` says how many there were,
    - ``objective_history_`` holds what they minimise or maximise, the last entry at the end; where the loop is that
      of another library (libsvm, liblinear, FasterPAM, k-means), the end alone,
    - ``converged_`` says whether the procedure ended by its own rule, not by its limit of iterations. One that runs a
      fixed number of rounds always does.

    `tol` says when to stop, and is of one of three kinds, which the docstring of each estimator names:

    - a tolerance *of the gradient*: no entry of the gradient of the objective, divided by the number of instances, is
      larger (L-BFGS);
    - a tolerance *of the change*: an iteration changed the objective by no more than this share of its size (EM, CCCP);
      zero runs all iterations;
    - a tolerance *of the optimum*: the violation of the optimality conditions, or the gap that bounds what is missing
      (support vector machines, cutting planes).

    `random_state` is None by default, `n_jobs` limits threads where any are started, and what is given to `fit` beside
    bags and labels is called `instance_labels`, `sample_weight` (a weight a bag), `callback` and `checkpoint`. Bags and
    labels may be given as one `BagDataset`; classes are then called as there.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.core.base import BagEstimator
    >>> model = ORedLogisticRegression().fit([[[0.0], [1.0]], [[5.0]]], [{"wren"}, {"robin"}])
    >>> isinstance(model, BagEstimator), model.converged_, len(model.objective_history_) == model.n_iter_ + 1
    (True, True, True)
    >>> model.predict([[[0.0, 1.0]]])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: X has 2 features, but ORedLogisticRegression is expecting 1 features ...
    """

    _kept_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters without which what was learned means nothing: kept with it, under their name and an underscore."""

    _takes_evidence: ClassVar[bool] = False
    """Whether more may be said of bags than plain lists; they then come as a matrix or as `Evidence`."""

    _fitted: ClassVar[dict[str, Attribute]] = {**INPUTS, "n_jobs": COUNT_OF_JOBS}
    """Attributes of a fitted estimator, and parameters that prediction reads; see `bagwise.core.fitted`."""

    def _check_fitted(self) -> None:
        """Raise an `InputError` where attributes that are right by themselves do not fit together."""

    def _keep_parameters(self) -> None:
        for name in self._kept_parameters:
            setattr(self, f"{name}_", getattr(self, name))

    def _progress(self, callback: Callback | None) -> Callback | None:
        """The callback of a fit, which with `verbose` prints a line first."""
        check_that(self, "verbose", lambda value: is_count(value + 1), "a whole number, 0 or more")
        every = int(self.verbose)
        if every == 0:
            return callback

        def report(number: int, objective: float) -> None:
            if number % every == 0:
                print(f"{type(self).__name__}, {number}: {objective:.6g}", flush=True)
            if callback is not None:
                callback(number, objective)

        return report

    def _saved_params(self) -> dict[str, Any]:
        """The parameters as a model file keeps them."""
        return self.get_params(deep=False)

    def _start_fit(self, X: BagsLike, y: LabelsLike | None) -> tuple[Bags, np.ndarray]:
        """Validated bags and label indicator; sets ``n_features_in_``, ``classes_`` and ``single_label_``."""
        X, y = split_dataset(X, y)
        bags = validate_bags(self, X, reset=True)
        given, self.classes_, self.single_label_ = learn_evidence(y, len(bags))
        self.largest_bag_ = int(bags.sizes.max())
        return bags, given if self._takes_evidence else plain_labels(given)  # type: ignore[return-value]

    def _start_weighted_fit(
        self, X: BagsLike, y: LabelsLike | None, sample_weight: WeightsLike | None
    ) -> tuple[Bags, np.ndarray, np.ndarray | None]:
        """The same with the weights of the bags, None where none were given; bags of weight zero are left out.

        ``classes_`` are those of all bags.
        """
        bags, indicator = self._start_fit(X, y)
        weights = validate_weights(sample_weight, len(bags))
        if weights is None or weights.all():
            return bags, indicator, weights
        used = weights > 0.0
        return bags[used], indicator[used], weights[used]

    def _start_predict(self, X: BagsLike) -> Bags:
        check_is_fitted(self)
        return validate_bags(self, X, reset=False)

    def _start_predict_bags(self, X: BagsLike) -> Bags:
        """The same, where what is found depends on which instances make a bag."""
        bags = self._start_predict(X)
        if len(bags) > 1 and getattr(self, "largest_bag_", 1) > 1 and is_flat(X):
            warn_caller(
                f"X is one 2-d array, so each of its {len(bags)} rows is taken for a bag of one instance, but "
                f"{type(self).__name__} was fitted on bags of up to {self.largest_bag_} instances. If the rows are the "
                "instances of one bag pass [X]; if they are bags, Bags.from_list(X[:, None]) says so without this "
                "warning.",
                UserWarning,
            )
        return bags

    def __sklearn_tags__(self) -> Any:
        tags = _TagsWithBags.of(super().__sklearn_tags__())
        takes = signature(self.fit).parameters if hasattr(self, "fit") else ()
        for name in ("instance_labels", "sample_weight", "callback", "checkpoint"):
            setattr(tags.bag_tags, name, name in takes)
        tags.bag_tags.warm_start = hasattr(self, "warm_start")
        tags.input_tags.sparse = True
        tags.bag_tags.evidence = self._takes_evidence
        return tags


class BagTableMixin(TransformerMixin, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Bags to a table, a row a bag; a subclass gives `_transform(bags)`, the rows.

    The table is the frame that `set_output` or scikit-learn's ``transform_output`` ask for; a sparse one stays as it
    is, since frames hold none.
    """

    _fitted: ClassVar[dict[str, Attribute]] = OUTPUT
    _start_predict: Any
    _transform: Any
    fit: Any
    get_feature_names_out: Any

    def transform(self, X: BagsLike) -> Any:
        """(n, k) array or frame, or CSR matrix where the instances are one."""
        return self._as_table(self._transform(self._start_predict(X)), X)

    def fit_transform(self, X: BagsLike, y: LabelsLike | None = None, **parameters: Any) -> Any:
        """`fit` and `transform`."""
        return self.fit(X, y, **parameters).transform(X)

    def _as_table(self, rows: Any, X: Any) -> Any:
        """The rows, or the frame of them that `set_output` asks for."""
        kind = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if kind == "default" or sp.issparse(rows):
            return rows
        return _Rows(rows, self.get_feature_names_out()).set_output(transform=kind).transform(X)


class BagTransformerMixin(BagTableMixin, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Bags to bags, and a plain table to a table; a subclass gives `_transform(bags)`, the rows of new features.

    Bags stay `Bags`, whatever `set_output` or scikit-learn's ``transform_output`` say, since no frame is ragged; their
    features have names where those of the input had. A table becomes the frame that is asked for.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.core.base import BagTransformerMixin
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import PerInstance
    >>> bags, scaler = make_gaussian_bags(n_bags=20, random_state=0).bags, PerInstance(StandardScaler())
    >>> isinstance(scaler, BagTransformerMixin), type(scaler.fit_transform(bags)).__name__
    (True, 'Bags')
    >>> type(scaler.fit_transform(bags.instances)).__name__
    'ndarray'
    """

    def transform(self, X: BagsLike) -> Any:
        """`Bags` of transformed instances; for a plain table, a table."""
        bags = self._start_predict(X)
        rows = self._transform(bags)
        if is_flat(X):
            return self._as_table(rows, X)
        names = None if bags.feature_names is None else self._names_out(bags.feature_names, rows.shape[1])
        return Bags(rows, bags.offsets, names)

    def _names_out(self, names: list[str], n_columns: int) -> list[str] | None:
        """What the new features are called; None where nothing says that, or twice the same."""
        try:
            found = [str(name) for name in self.get_feature_names_out(names)]
        except (AttributeError, ValueError):  # of a transformer that gives no names, or whose steps have others
            return None
        return found if len(set(found)) == n_columns else None


class _Rows(TransformerMixin, BaseEstimator):
    """Rows that are there already, of which scikit-learn makes a frame with the index of the input."""

    def __init__(self, rows: Any, names: np.ndarray):
        self.rows = rows
        self.names = names

    def transform(self, X: Any) -> Any:
        return self.rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        return self.names


class BagClassifierMixin(ClassifierMixin):
    """Bag scores and label sets; a subclass gives `_bag_scores(bags)` and may give `_bag_label_sets(bags)`.

    Examples
    --------
    >>> from bagwise.classification import MIMLNN
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = MIMLNN(random_state=0).fit(data[:40])
    >>> model.predict(data[40:]).shape, model.decision_function(data[40:]).shape
    ((20, 5), (20, 5))
    >>> all(labels <= set(data.class_names) for labels in model.predict_label_sets(data[40:]))
    True
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "classes_": Labels(),
        "single_label_": Flag(),
        "largest_bag_": Maybe(Number(1, whole=True)),
    }

    classes_: np.ndarray
    single_label_: bool
    _start_predict_bags: Any
    _bag_scores: Any

    def decision_function(self, X: BagsLike) -> np.ndarray:
        """Score of every class for every bag, higher is more likely present.

        Returns
        -------
        (n, c) array. After a fit on (n,) values of two classes, the (n,) difference of the two, as scikit-learn's
        classifiers give.
        """
        scores = self._bag_scores(self._start_predict_bags(X))
        if self.single_label_ and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: BagsLike) -> np.ndarray:
        """Label sets as an (n, c) indicator matrix; after a fit on (n,) values, the (n,) most likely values."""
        bags = self._start_predict_bags(X)
        if self.single_label_:
            return self.classes_[self._bag_scores(bags).argmax(axis=1)]
        return self._bag_label_sets(bags).astype(np.int64)

    def predict_label_sets(self, X: BagsLike) -> list[set[Any]]:
        """The predicted labels of each bag as a set of class values."""
        predicted = self.predict(X)
        if self.single_label_:
            return [{label} for label in predicted.tolist()]
        return decode_labels(predicted, self.classes_)

    def score(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> float:
        """Share of the bags whose label set is predicted exactly; a label that was not learned is never predicted.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : labels in any form; None: those of the `BagDataset`
        sample_weight : (n,) array or None
            Weight of each bag in the mean.
        """
        X, y = split_dataset(X, y)
        predicted = self.predict(X)
        if self.single_label_:
            predicted = encode_labels(predicted, self.classes_, len(predicted))
        truth, n_unknown = encode_known(y, self.classes_, len(predicted))
        right = (predicted == truth).all(axis=1) & (n_unknown == 0)
        return float(np.average(right, weights=validate_weights(sample_weight, len(right))))

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """(n, c) indicator; by default the classes whose score is positive."""
        return self._bag_scores(bags) > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _gives_probabilities(self: InstanceAnnotatorMixin) -> bool:
    return self.__sklearn_tags__().bag_tags.probabilities


def _gives_background(self: InstanceAnnotatorMixin) -> bool:
    if not self.__sklearn_tags__().bag_tags.background:
        raise AttributeError("This model has no background class; fit it with background=True.")
    return True


class InstanceAnnotatorMixin:
    """Labels for instances; a subclass gives `_instance_scores(bags)`.

    A bag scores as its best instance does, and its label set is the union of its instances' labels, where a subclass
    says nothing else. `find` works everything out at once, the other methods give a part of it each. A subclass whose
    scores are probabilities, or that has others beside them, gives `_scores_and_proba(bags)`; one that infers from the
    whole bag gives `_find_listed(bags, indicator, known)`; one that knows a background `_find_alone(bags)` too. What it
    can do it says in ``__sklearn_tags__().bag_tags``, on which depends which of the methods it has.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, random_state=0)
    >>> model = ORedLogisticRegression().fit(data)
    >>> model.predict_instances(data.bags).shape == (data.bags.n_instances,)  # by the features alone
    True
    >>> labels = model.annotate(data.bags, data.Y)  # the labels of the bags are given, and the instances share them
    >>> all(label in data.label_sets[bag] for bag, label in zip(data.bags.bag_index, labels, strict=True))
    True
    """

    classes_: np.ndarray
    background_label_: Any
    _takes_evidence: ClassVar[bool]
    _start_predict: Any
    _instance_scores: Any

    def find(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> Findings:
        """Everything that can be said about the instances, from one look at them.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        Y : (n, c) 0/1 matrix, list of label sets, (n,) class values or None
            Labels of the bags, among which those of the instances are chosen; None: features alone decide.
        instance_labels : Bags of int or None
            Index into ``classes_`` of the instances whose label is known, -1 elsewhere; with `Y` only. They keep their
            label, with probability one, and where a learner infers from the whole bag the others' follow from them.
            -2 (`bagwise.core.bags.KNOWN_BACKGROUND`) says that an instance is known to be of no class, where there is a
            background.

        Returns
        -------
        Findings
        """
        bags = self._start_predict(X)
        if Y is None:
            if instance_labels is not None:
                raise InputError("instance_labels are known labels among those of the bags; pass Y with them.")
            return self._find_alone(bags)
        indicator: Any = encode_evidence(Y, self.classes_, len(bags))
        if not self._takes_evidence:
            indicator = plain_labels(indicator)
        background = self.__sklearn_tags__().bag_tags.background
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=background)
        check_known_listed(bags.offsets, indicator, known, self._missed_rates())
        return self._find_listed(bags, indicator, known)

    def _find_alone(self, bags: Bags) -> Findings:
        scores, proba = self._scores_and_proba(bags)
        return Findings(scores.argmax(axis=1), proba)

    def _find_listed(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> Findings:
        """Choose among the labels of the bag; by default every instance for itself."""
        indicator, _ = open_unlabelled(indicator)
        scores, proba = self._scores_and_proba(bags)
        listed = np.repeat(indicator, bags.sizes, axis=0)
        labels = np.where(listed == 1, scores, -np.inf).argmax(axis=1)
        if proba is not None:
            proba = _share_among_labels(proba, listed)
        _set_known(labels, proba, known)
        return Findings(labels, proba)

    def _missed_rates(self) -> np.ndarray | None:
        """(c,) rates at which instances go unnoticed; None where the labels of bags are taken for right."""
        return None

    def _scores_and_proba(self, bags: Bags) -> tuple[np.ndarray, np.ndarray | None]:
        """(m, c) scores, the highest of which gives the label, and probabilities, None where there are none."""
        return self._instance_scores(bags), None

    def _values_of(self, labels: np.ndarray) -> np.ndarray:
        """Class values of indices; ``background_label_`` for -1."""
        values = self.classes_[labels]
        nothing = labels < 0
        if nothing.any():
            if self.background_label_ is None:
                values = values.astype(object)
            values[nothing] = self.background_label_
        return values

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest score in the bag."""
        return np.maximum.reduceat(self._instance_scores(bags), bags.offsets[:-1], axis=0)

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """The union of the instances' best labels (Pham et al., equation 28)."""
        return union_of_best(self._instance_scores(bags), bags)

    def instance_decision_function(self, X: BagsLike) -> np.ndarray:
        """(m, c) score of every class for every instance."""
        return self._instance_scores(self._start_predict(X))

    def predict_instances(self, X: BagsLike) -> np.ndarray:
        """(m,) most likely class of every instance when the labels of its bag are not known."""
        return self._values_of(self.find(X).labels)

    def annotate(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) most likely class of every instance among the labels of its bag.

        With a background still the most likely listed one (see `background_proba` for the rest), and in a bag without
        labels ``background_label_``.
        """
        return self._values_of(self.find(X, given_labels(X, Y)).labels)

    @available_if(_gives_probabilities)
    def predict_instances_proba(self, X: BagsLike) -> np.ndarray:
        """(m, c) probabilities when the bag's labels are not known; rows sum to 1, less the background's part."""
        return self.find(X).proba  # type: ignore[return-value]

    @available_if(_gives_probabilities)
    def log_proba(self, X: BagsLike) -> np.ndarray:
        """Logarithms of the probabilities of instances by their features alone, a background's behind the classes'."""
        found = self.find(X)
        columns = [found.proba] if found.background is None else [found.proba, found.background[:, None]]
        return np.log(np.maximum(np.hstack(columns), np.finfo(np.float64).tiny))  # type: ignore[arg-type]

    @available_if(_gives_probabilities)
    def annotate_proba(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m, c) probabilities given the labels of the bag; rows sum to 1, less the background's part."""
        return self.find(X, given_labels(X, Y)).proba  # type: ignore[return-value]

    @available_if(_gives_background)
    def background_proba(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) probability that an instance is background, given its bag's labels where `Y` is passed."""
        return self.find(X, Y).background  # type: ignore[return-value]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.bag_tags.annotates = True
        return tags


def given_labels(X: BagsLike, Y: LabelsLike | None) -> LabelsLike:
    """`Y`, or where it is None the labels of the data set; `annotate` is nothing without."""
    _, Y = split_dataset(X, Y)
    if Y is None:
        raise InputError("The labels of the bags are needed, but Y is None; pass them, or use predict_instances.")
    return Y


def union_of_best(scores: np.ndarray, bags: Bags) -> np.ndarray:
    """(n, c) indicator of the labels that are the best of some instance of the bag."""
    indicator = np.zeros((len(bags), scores.shape[1]), dtype=np.uint8)
    indicator[bags.bag_index, scores.argmax(axis=1)] = 1
    return indicator


def open_unlabelled(given: Any) -> tuple[Any, np.ndarray]:
    """What is said of bags, where those without labels may carry any; and which bags these are, with a warning."""
    unlabelled: np.ndarray = ~np.asarray(possible_labels(given).any(axis=1))
    if not unlabelled.any():
        return given, unlabelled
    if isinstance(given, Evidence):
        values = given.values.copy()
        values[unlabelled[:, None] & (values == 0.0)] = np.nan  # but what is certainly not there
        given = replace(given, values=values)
    else:
        given = np.where(unlabelled[:, None], np.uint8(1), given)
    warn_caller(
        f"{unlabelled.sum()} of {len(given)} bags carry no label, {name_bags(np.flatnonzero(unlabelled))}: their "
        "instances are annotated by their features alone, as predict_instances does. Where such bags hold nothing of "
        "any class, fit with background=True.",
        InfeasibleBagWarning,
    )
    return given, unlabelled


def name_bags(index: Any, limit: int = 5) -> str:
    """ "bag 3" or "bags 3, 7, 9, ..." for messages."""
    index = [int(i) for i in index]
    shown = ", ".join(str(i) for i in index[:limit]) + (", ..." if len(index) > limit else "")
    return f"bag {shown}" if len(index) == 1 else f"bags {shown}"


def check_known_listed(
    offsets: np.ndarray, given: Given, known: np.ndarray | None, missed: np.ndarray | None = None
) -> None:
    """An instance that is known to be of a class must be in a bag that may carry it, unless it may have been `missed`.

    Nothing excuses an instance of a class that its bag is said not to carry.
    """
    if known is None:
        return
    indicator = possible_labels(given)
    n_classes = indicator.shape[1]
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows = np.flatnonzero((known >= 0) & (known < n_classes))  # background is listed nowhere
    outside = rows[indicator[bag[rows], known[rows]] == 0]
    if missed is not None:
        excused = missed[known[outside]] > 0.0
        if isinstance(given, Evidence):
            excused &= given.values[bag[outside], known[outside]] != -np.inf
        outside = outside[~excused]
    if len(outside):
        i = outside[0]
        raise InputError(
            f"Instance {i - offsets[bag[i]]} of bag {bag[i]} is known to be of class {known[i]}, which its bag "
            f"does not carry ({len(outside)} such instance(s)); add the label to the bag or set the instance to -1."
        )


def _set_known(labels: np.ndarray, proba: np.ndarray | None, known: np.ndarray | None) -> None:
    """Give the known instances their label, with probability one, in place."""
    if known is None:
        return
    rows = np.flatnonzero(known >= 0)
    labels[rows] = known[rows]
    if proba is not None:
        proba[rows] = 0.0
        proba[rows, known[rows]] = 1.0


def _share_among_labels(proba: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """(m, c) probabilities given that the label is one of the `listed`, an (m, c) 0/1 array.

    Where the probability of all of them is zero, each is as probable as the next.
    """
    shared = proba * listed
    total = shared.sum(axis=1, keepdims=True)
    nothing = total[:, 0] == 0.0
    if nothing.any():
        shared[nothing] = listed[nothing]
        total[nothing, 0] = listed[nothing].sum(axis=1)
    return shared / total
