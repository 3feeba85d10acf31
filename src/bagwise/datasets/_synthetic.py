"""Bags drawn at random, with the truth about every instance."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.checks import check_allocation, is_count
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.typing import Seed

_BACKGROUND_SPREAD = 2.0  # standard deviation of the background, in those of all labelled instances together


def make_gaussian_bags(
    n_bags: int = 200,
    n_features: int = 8,
    n_classes: int = 5,
    *,
    instances_per_bag: tuple[int, int] = (2, 8),
    labels_per_bag: tuple[int, int] = (1, 3),
    separation: float = 3.0,
    background_share: float = 0.0,
    random_state: Seed = None,
) -> BagDataset:
    """Make bags whose instances come from one Gaussian for each class.

    The centres are drawn from N(0, s^2 I / 2d), so that two of them lie about s = `separation` apart in any
    number of features d; an instance of class c comes from N(centre_c, I). A bag's label set is the union of
    the labels of its instances, so at least one instance carries each label.

    Parameters
    ----------
    n_bags, n_features, n_classes : int
    instances_per_bag : (int, int), default=(2, 8)
        Least and greatest number of labelled instances in a bag; every number between is as likely.
    labels_per_bag : (int, int), default=(1, 3)
        Least and greatest number of labels of a bag, but never more than it has instances or than there are
        classes.
    separation : float, default=3.0
        Typical distance of two class centres, in standard deviations of a class.
    background_share : float, default=0.0
        Extra instances that belong to no class, as a share of the labelled ones: with 0.5 a bag of 6 gets 3
        more. They come from one broad Gaussian and have the instance label -1.
    random_state : int, numpy.random.Generator or None, default=None
        Anything that `numpy.random.default_rng` takes.

    Returns
    -------
    BagDataset
        Classes 0 to `n_classes` - 1, with `instance_labels`.

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=50, n_features=4, n_classes=3, random_state=0)
    >>> len(data), data.bags.n_features, data.Y.shape
    (50, 4, (50, 3))
    """
    for name, value in (("n_bags", n_bags), ("n_features", n_features), ("n_classes", n_classes)):
        if not is_count(value):
            raise InputError(f"{name}={value!r}; expected a whole number, 1 or more.")
    check_range("instances_per_bag", instances_per_bag)
    check_range("labels_per_bag", labels_per_bag)
    for name, most in (("n_classes", n_classes), ("the least of instances_per_bag", instances_per_bag[0])):
        if labels_per_bag[0] > most:
            raise InputError(
                f"labels_per_bag={labels_per_bag} asks for at least {labels_per_bag[0]} labels in each bag, "
                f"but {name} is {most}; lower the one or raise the other."
            )
    for name, size in (("separation", separation), ("background_share", background_share)):
        if not isinstance(size, (int, float, np.number)) or not 0 <= size < np.inf:
            raise InputError(f"{name}={size!r}; expected a finite number, 0 or more.")
    n_most = n_bags * (instances_per_bag[1] * (1 + background_share) + 1)
    n_bytes = int(8 * n_most * (n_features + 4)) + 5 * n_bags * n_classes
    check_allocation(n_bytes, "The data set", "ask for fewer bags, instances, features or classes")

    rng = np.random.default_rng(random_state)
    sizes = rng.integers(*instances_per_bag, size=n_bags, endpoint=True)
    labels = _draw_labels(rng, sizes, n_classes, labels_per_bag)
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    Y[np.repeat(np.arange(n_bags), sizes), labels] = 1
    n_extra = np.floor(background_share * sizes + rng.random(n_bags)).astype(np.int64)
    labels = _mix_in_background(rng, labels, sizes, n_extra)
    offsets = offsets_of(sizes + n_extra)
    return BagDataset(
        bags=Bags(_draw_features(rng, labels, n_features, n_classes, separation), offsets),
        Y=Y,
        class_names=list(range(n_classes)),
        instance_labels=Bags(labels, offsets),
        name="gaussian",
    )


def _draw_labels(
    rng: np.random.Generator, sizes: np.ndarray, n_classes: int, labels_per_bag: tuple[int, int]
) -> np.ndarray:
    """(m,) class of each labelled instance: each label of a bag once, then any of the bag's labels."""
    low, high = labels_per_bag
    n_labels = rng.integers(low, min(high, n_classes), size=len(sizes), endpoint=True)
    n_labels = np.minimum(n_labels, sizes)
    # A random order of all classes for each bag; its first n_labels are the bag's labels.
    classes = rng.permuted(np.tile(np.arange(n_classes, dtype=np.int32), (len(sizes), 1)), axis=1)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    position = np.arange(len(bag)) - np.repeat(offsets_of(sizes)[:-1], sizes)
    choice = np.where(position < n_labels[bag], position, rng.integers(n_labels[bag]))
    return classes[bag, choice].astype(np.int64)


def _mix_in_background(
    rng: np.random.Generator, labels: np.ndarray, sizes: np.ndarray, n_extra: np.ndarray
) -> np.ndarray:
    """The labels with -1 for each extra instance, bag after bag and in random order within each bag."""
    bags = np.arange(len(sizes))
    bag = np.concatenate([np.repeat(bags, sizes), np.repeat(bags, n_extra)])
    labels = np.concatenate([labels, np.full(n_extra.sum(), -1)])
    return labels[np.lexsort((rng.random(len(bag)), bag))]


def _draw_features(
    rng: np.random.Generator, labels: np.ndarray, n_features: int, n_classes: int, separation: float
) -> np.ndarray:
    """(m, d) features of instances of the given classes, -1 for the background."""
    scale = separation / np.sqrt(2 * n_features)
    centres = scale * rng.standard_normal((n_classes, n_features))
    features = rng.standard_normal((len(labels), n_features))
    background = labels == -1
    features[background] *= _BACKGROUND_SPREAD * np.sqrt(1 + scale**2)
    features[~background] += centres[labels[~background]]
    return features


def check_range(name: str, value: Any, low: int = 1) -> None:
    """`value` must be the least and the greatest of a number that is `low` or more."""
    whole = isinstance(value, (tuple, list)) and all(isinstance(v, Integral) for v in value)
    if not whole or len(value) != 2 or not low <= value[0] <= value[1]:
        raise InputError(f"{name}={value!r}; expected a pair (least, greatest) of whole numbers, {low} or more.")
