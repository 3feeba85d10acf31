"""`make_gaussian_bags`: structure, statistics and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags


@st.composite
def parameters(draw):
    n_classes = draw(st.integers(1, 6))
    smallest = draw(st.integers(1, 4))
    fewest = draw(st.integers(1, min(smallest, n_classes)))
    return {
        "n_bags": draw(st.integers(1, 30)),
        "n_features": draw(st.integers(1, 5)),
        "n_classes": n_classes,
        "instances_per_bag": (smallest, smallest + draw(st.integers(0, 5))),
        "labels_per_bag": (fewest, fewest + draw(st.integers(0, 5))),
        "background_share": draw(st.sampled_from([0.0, 0.3, 2.0])),
        "random_state": draw(st.integers(0, 1000)),
    }


@settings(max_examples=80, deadline=None)
@given(parameters())
def test_structure(kwargs):
    data = make_gaussian_bags(**kwargs)
    assert len(data) == kwargs["n_bags"]
    assert data.bags.n_features == kwargs["n_features"]
    assert data.Y.shape == (kwargs["n_bags"], kwargs["n_classes"])
    assert data.class_names == list(range(kwargs["n_classes"]))
    least, most = kwargs["instances_per_bag"]
    fewest, greatest = kwargs["labels_per_bag"]
    for labels, row in zip(data.instance_labels, data.Y, strict=True):
        labelled = labels[labels >= 0]
        assert least <= len(labelled) <= most
        assert set(labelled.tolist()) == set(np.flatnonzero(row).tolist())
        assert fewest <= row.sum() <= min(greatest, kwargs["n_classes"], len(labelled))
        share = kwargs["background_share"] * len(labelled)
        assert share - 1 < len(labels) - len(labelled) < share + 1


def test_same_seed_same_data():
    first, second, other = (make_gaussian_bags(background_share=0.2, random_state=seed) for seed in (3, 3, 4))
    assert first.bags == second.bags
    assert first.instance_labels == second.instance_labels
    np.testing.assert_array_equal(first.Y, second.Y)
    assert first.bags != other.bags


def test_every_size_and_number_of_labels_occurs_equally_often():
    n_bags = 20_000
    data = make_gaussian_bags(n_bags, 1, 4, instances_per_bag=(3, 7), labels_per_bag=(1, 3), random_state=0)
    sizes, counts = np.unique(data.bags.sizes, return_counts=True)
    assert sizes.tolist() == [3, 4, 5, 6, 7]
    np.testing.assert_allclose(counts, n_bags / 5, rtol=0.06)  # four standard deviations
    n_labels, counts = np.unique(data.Y.sum(axis=1), return_counts=True)
    assert n_labels.tolist() == [1, 2, 3]
    np.testing.assert_allclose(counts, n_bags / 3, rtol=0.05)
    np.testing.assert_allclose(data.Y.mean(axis=0), 2 / 4, rtol=0.04)  # two labels a bag, four classes


def test_position_in_the_bag_tells_nothing():
    data = make_gaussian_bags(8000, 1, 3, instances_per_bag=(4, 4), labels_per_bag=(2, 2), random_state=1)
    labels = data.instance_labels.instances.reshape(-1, 4)
    # Two labels over four places, each at least once: any two places agree equally often.
    agree = [np.mean(labels[:, i] == labels[:, j]) for i in range(4) for j in range(i)]
    np.testing.assert_allclose(agree, np.mean(agree), atol=0.025)


@pytest.mark.parametrize("n_features", [2, 50])
def test_separation_is_the_distance_of_the_centres(n_features):
    squared = []
    for seed in range(40):
        data = make_gaussian_bags(
            300,
            n_features,
            2,
            instances_per_bag=(4, 4),
            labels_per_bag=(2, 2),
            separation=6.0,
            random_state=seed,
        )
        X, y = data.bags.instances, data.instance_labels.instances
        squared.append(np.sum((X[y == 0].mean(axis=0) - X[y == 1].mean(axis=0)) ** 2))
    # chi-square with n_features degrees of freedom; four standard errors over the seeds
    assert np.mean(squared) == pytest.approx(36, rel=4 * np.sqrt(2 / n_features / 40) + 0.02)


def test_classes_have_unit_variance_and_the_background_a_broader_one():
    data = make_gaussian_bags(3000, 6, 3, separation=4.0, background_share=1.0, random_state=0)
    X, y = data.bags.instances, data.instance_labels.instances
    for c in range(3):
        np.testing.assert_allclose(X[y == c].std(axis=0), 1.0, atol=0.06)
    assert X[y == -1].std(axis=0).min() > 1.5 * X[y >= 0].std(axis=0).mean()
    np.testing.assert_allclose(X[y == -1].mean(axis=0), 0.0, atol=0.15)


def test_harder_when_closer():
    scores = []
    for separation in (0.0, 2.0, 4.0, 8.0):
        data = make_gaussian_bags(400, separation=separation, random_state=2)
        X, y = data.bags.instances, data.instance_labels.instances
        half = len(y) // 2
        scores.append(LinearDiscriminantAnalysis().fit(X[:half], y[:half]).score(X[half:], y[half:]))
    assert np.diff(scores).min() > 0
    assert scores[0] < 0.3
    assert scores[-1] > 0.97


def test_a_million_instances_can_be_made():
    data = make_gaussian_bags(100_000, 4, instances_per_bag=(8, 12), random_state=0)
    assert data.bags.n_instances == pytest.approx(1_000_000, rel=0.01)
    assert len(data) == 100_000


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_bags": 0}, "n_bags=0; expected a whole number, 1 or more"),
        ({"n_features": 2.5}, "n_features=2.5; expected a whole number"),
        ({"n_classes": True}, "n_classes=True; expected a whole number"),
        ({"instances_per_bag": 4}, "instances_per_bag=4; expected a pair"),
        ({"instances_per_bag": (4, 2)}, r"instances_per_bag=\(4, 2\); expected a pair \(least, greatest\)"),
        ({"instances_per_bag": (0, 2)}, r"instances_per_bag=\(0, 2\); expected a pair"),
        ({"labels_per_bag": (1, 2, 3)}, r"labels_per_bag=\(1, 2, 3\); expected a pair"),
        ({"labels_per_bag": (1.0, 2.0)}, r"labels_per_bag=\(1.0, 2.0\); expected a pair"),
        (
            {"labels_per_bag": (3, 4)},
            "at least 3 labels in each bag, but the least of instances_per_bag is 2",
        ),
        ({"labels_per_bag": (2, 2), "n_classes": 1}, "at least 2 labels in each bag, but n_classes is 1"),
        ({"separation": -1.0}, "separation=-1.0; expected a finite number, 0 or more"),
        ({"separation": np.nan}, "separation=nan; expected a finite number"),
        ({"background_share": np.inf}, "background_share=inf; expected a finite number"),
        ({"background_share": "half"}, "background_share='half'; expected a finite number"),
    ],
)
def test_bad_parameters(kwargs, message):
    with pytest.raises(InputError, match=message):
        make_gaussian_bags(**kwargs)


def test_what_cannot_fit_is_refused_at_once():
    with pytest.raises(MemoryLimitError, match=r"The data set needs .*ask for fewer bags"):
        make_gaussian_bags(10**12)
