"""Facts about data sets, gathered piece by piece, beside what the whole says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bagwise.app.report.facts import DatasetFacts, _hash_rows
from bagwise.datasets import make_gaussian_bags


@pytest.mark.parametrize("cuts", [[], [1], [5, 6, 20]])
def test_pieces_say_what_the_whole_says(cuts):
    data = make_gaussian_bags(n_bags=30, n_features=4, n_classes=3, random_state=0)
    data.bags.instances[7] = data.bags.instances[2]
    data.bags.instances[:, 3] = 0.5
    facts = DatasetFacts()
    for start, stop in zip([0, *cuts], [*cuts, 30], strict=True):
        facts.add(data[start:stop])
    summary = facts.summary()
    assert summary["bags"] == 30
    assert summary["instances"] == data.bags.n_instances
    assert summary["instances_per_bag"]["most"] == data.bags.sizes.max()
    assert summary["labels_per_bag"] == pytest.approx(data.Y.sum() / 30)
    assert summary["duplicate_rows"] == data.bags.n_instances - len(np.unique(data.bags.instances, axis=0)) == 1
    assert summary["constant_features"] == ["3"]
    assert summary["infeasible_bags"] == int((data.Y.sum(axis=1) > data.bags.sizes).sum())


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]), st.tuples(st.integers(1, 20), st.integers(1, 3)),
        elements=st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, -1.0, 1024.0]),
    )
)  # fmt: skip
def test_hashes_count_distinct_rows(X):
    assert len(np.unique(_hash_rows(X))) == len(np.unique(X, axis=0))


def test_hashes_of_many_small_numbers_differ():
    X = np.stack(np.meshgrid(*[np.arange(40.0)] * 3), axis=-1).reshape(-1, 3)
    assert len(np.unique(_hash_rows(X))) == 40**3


def test_unlabelled_bags_are_not_bags_without_labels():
    data = make_gaussian_bags(n_bags=6, n_features=2, n_classes=3, random_state=0)
    labelled = np.array([True, True, False, True, False, True])
    Y = data.Y * labelled[:, None]
    Y[0] = 0
    facts = DatasetFacts()
    for piece in (slice(0, 2), slice(2, 6)):
        facts.add(replace(data, Y=Y, labelled=labelled)[piece])
    summary = facts.summary()
    assert summary["bags_without_labels"] == 1
    assert summary["unlabelled_bags"] == 2
    assert summary["labels_per_bag"] == Y.sum() / 4
    facts = DatasetFacts()
    facts.add(data)
    assert "unlabelled_bags" not in facts.summary()
