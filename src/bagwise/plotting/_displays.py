"""The displays: of a bag, of reliability, of confusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from bagwise.core.bags import Bags, as_bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike, LabelsLike, Learner
from bagwise.core.validation import encode_evidence, listed_labels, split_dataset
from bagwise.metrics import calibration_error, instance_outcomes, reliability_table
from bagwise.pipeline import bag_tags, final_step, find_instances


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib, which is not installed: pip install 'bagwise[report]'.") from error
    return plt.subplots(layout="constrained")[1]


class BagDisplay:
    """The instances of one bag by the labels: how probable each is.

    Parameters
    ----------
    proba : (n, c) array
        Of the instances of the bag; of the labels, and last of the background where there is one.
    labels : sequence of c names
    listed : (c,) bool array or None
        Labels that the bag carries; they are set in bold.

    Attributes
    ----------
    im_, ax_, figure_ : what was drawn

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.plotting import BagDisplay
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = ORedLogisticRegression().fit(data)
    >>> BagDisplay.from_estimator(model, data, bag=3).proba.shape == (data.bags.sizes[3], 5)
    True
    """

    def __init__(self, proba: np.ndarray, labels: Sequence[Any], listed: np.ndarray | None = None):
        self.proba = proba
        self.labels = labels
        self.listed = listed

    @classmethod
    def from_estimator(
        cls, estimator: Learner, X: BagsLike, Y: LabelsLike | None = None, *, bag: int = 0, ax: Any = None
    ) -> BagDisplay:
        """Of the bag with that number: by its features, and given its labels where there are some."""
        if not bag_tags(estimator).probabilities:
            raise InputError(f"{type(final_step(estimator)).__name__} gives instances no probabilities to draw.")
        X, Y = split_dataset(X, Y)
        bags, labels = as_bags(X), list(final_step(estimator).classes_)
        if not 0 <= bag < len(bags):
            raise InputError(f"There is no bag {bag}; there are {len(bags)}, counted from 0.")
        given = None if Y is None else encode_evidence(Y, np.asarray(labels), len(bags))[bag : bag + 1]
        found = find_instances(estimator, bags[bag : bag + 1], given)
        proba = found.proba
        assert proba is not None
        listed = None if given is None else listed_labels(given)[0] == 1
        if found.background is not None:
            proba, labels = np.column_stack([proba, found.background]), [*labels, "background"]
            listed = None if listed is None else np.append(listed, False)
        return cls(proba, labels, listed).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "Blues") -> BagDisplay:
        """Draw: a row per instance, a column per label."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.im_ = self.ax_.imshow(self.proba, vmin=0.0, vmax=1.0, cmap=cmap, aspect="auto")
        self.ax_.set_xticks(range(len(self.labels)), [str(label) for label in self.labels], rotation=45, ha="right")
        self.ax_.set_yticks(range(len(self.proba)))
        self.ax_.set(xlabel="label", ylabel="instance")
        for tick, listed in zip(self.ax_.get_xticklabels(), () if self.listed is None else self.listed, strict=False):
            tick.set_fontweight("bold" if listed else "normal")
        self.figure_.colorbar(self.im_, ax=self.ax_, label="probability")
        return self


class ReliabilityDisplay:
    """Of what was said with a probability, how much came true: on the diagonal it can be believed.

    Parameters
    ----------
    table : list of dict
        As `bagwise.metrics.reliability_table` gives it.
    error : float
        `bagwise.metrics.calibration_error`.
    name : str or None
        For the legend.

    Attributes
    ----------
    line_, ax_, figure_ : what was drawn

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.plotting import ReliabilityDisplay
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = ORedLogisticRegression().fit(data[:40])
    >>> ReliabilityDisplay.from_estimator(model, data[40:], n_bins=5).error < 0.2
    True
    """

    def __init__(self, table: list[dict[str, float]], error: float, name: str | None = None):
        self.table = table
        self.error = error
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Learner, dataset: BagDataset, *, n_bins: int = 10, name: str | None = None, ax: Any = None
    ) -> ReliabilityDisplay:
        """Of the names of the instances whose label is known, by their features alone."""
        known = _known(dataset, final_step(estimator).classes_)
        proba = find_instances(estimator, dataset.bags).proba
        if proba is None:
            raise InputError(f"{type(final_step(estimator)).__name__} gives instances no probabilities.")
        outcome, probability = instance_outcomes(known, proba)
        name = type(final_step(estimator)).__name__ if name is None else name
        return cls.from_predictions(outcome, probability, n_bins=n_bins, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls, outcome: ArrayLike, probability: ArrayLike, *, n_bins: int = 10, name: str | None = None, ax: Any = None
    ) -> ReliabilityDisplay:
        """Of zeros and ones and the probabilities that were given to them, in any equal shapes."""
        table = reliability_table(outcome, probability, n_bins)
        return cls(table, calibration_error(outcome, probability, n_bins), name).plot(ax=ax)

    def plot(self, ax: Any = None, **line: Any) -> ReliabilityDisplay:
        """Draw the bins as a line beside the diagonal, each as large as it is full; `line`: options of matplotlib's."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        said, came = ([row[key] for row in self.table] for key in ("confidence", "accuracy"))
        counts = np.array([row["count"] for row in self.table])
        error = f"calibration error {self.error:.3f}"
        line = {"label": f"{self.name}, {error}" if self.name else error, **line}
        self.ax_.plot([0, 1], [0, 1], ":", color="gray")
        (self.line_,) = self.ax_.plot(said, came, **line)
        self.ax_.scatter(said, came, s=10 + 150 * counts / counts.max(), color=self.line_.get_color())
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability given", ylabel="share that was right")
        self.ax_.legend(loc="upper left")
        return self


class InstanceConfusionDisplay(ConfusionMatrixDisplay):
    """Which label instances have and which one they are given; scikit-learn's `ConfusionMatrixDisplay`.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.plotting import InstanceConfusionDisplay
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> display = InstanceConfusionDisplay.from_estimator(ORedLogisticRegression().fit(data), data, given=True)
    >>> int(display.confusion_matrix.sum()) == data.bags.n_instances
    True
    """

    @classmethod
    def from_estimator(  # scikit-learn's takes arrays
        cls, estimator: Learner, dataset: BagDataset, *, given: bool = False, ax: Any = None, **options: Any
    ) -> InstanceConfusionDisplay:
        """Of the instances whose label is known.

        Parameters
        ----------
        estimator : fitted annotator or pipeline
        dataset : BagDataset
            With labels of instances.
        given : bool
            Whether instances are annotated given the labels of their bags, not predicted by features alone.
        ax : matplotlib axes or None
        **options
            Of `ConfusionMatrixDisplay.plot`.
        """
        classes = final_step(estimator).classes_
        truth = _known(dataset, classes).instances
        sets: Any = (dataset.bags, dataset.label_sets) if given else (dataset.bags,)
        found = find_instances(estimator, *sets).labels
        known = (truth >= 0) & (found >= 0)
        if not known.any():
            raise InputError("The label of no instance is known, so nothing can be compared; pass instance labels.")
        matrix = confusion_matrix(truth[known], found[known], labels=np.arange(len(classes)))
        return cls(matrix, display_labels=classes).plot(ax=_axes(ax), **options)


def _known(dataset: BagDataset, classes: np.ndarray) -> Bags:
    """Index into the classes of every instance, -1 where unknown."""
    if not isinstance(dataset, BagDataset) or dataset.instance_labels is None:
        raise InputError("This compares labels of instances; pass a BagDataset that has them (instance_labels).")
    known = dataset.recode(classes.tolist(), unknown="drop").instance_labels
    assert known is not None
    return known
