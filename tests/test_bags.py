"""`Bags` and `BagDataset`: every way in, every way to slice, every refusal."""

import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.model_selection import train_test_split

from bagwise import BagDataset, Bags
from bagwise.bags import as_bags, as_indicator, offsets_of
from bagwise.datasets import make_gaussian_bags
from bagwise.exceptions import InputError

sizes_strategy = st.lists(st.integers(1, 5), min_size=1, max_size=12)


def make(sizes, sparse=False):
    m = sum(sizes)
    X = np.arange(2.0 * m).reshape(m, 2)
    return Bags(sp.csr_matrix(X) if sparse else X, offsets_of(sizes))


@given(sizes_strategy, st.booleans(), st.data())
def test_any_index_equals_a_list_of_arrays(sizes, sparse, data):
    bags = make(sizes, sparse)
    dense = [np.asarray(a.todense()) if sparse else a for a in bags]
    n = len(sizes)
    index = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=2 * n))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    mask[data.draw(st.integers(0, n - 1))] = True
    start, stop = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    keys = [(np.array(index), [dense[i] for i in index]), (index, [dense[i] for i in index])]
    keys.append((mask, [dense[i] for i in np.flatnonzero(mask)]))
    keys.append(((np.array(index), ...), [dense[i] for i in index]))
    keys.append((slice(None, None, -1), dense[::-1]))
    if stop > start:
        keys.append((slice(start, stop), dense[start:stop]))
    for key, expected in keys:
        piece = bags[key]
        assert isinstance(piece, Bags)
        assert piece == Bags.from_list(expected)


@given(sizes_strategy)
def test_parts_agree(sizes):
    bags = make(sizes)
    assert len(bags) == len(sizes)
    assert bags.shape == (len(sizes),)
    assert_array_equal(bags.sizes, sizes)
    assert_array_equal(bags.bag_index, np.repeat(np.arange(len(sizes)), sizes))
    assert Bags.from_list(list(bags)) == bags
    assert Bags.from_groups(bags.instances, bags.bag_index) == bags
    for piece, bag in zip(bags.split(bags.instances[:, 0]), bags, strict=True):
        assert_array_equal(piece, bag[:, 0])


def test_from_groups_keeps_the_order_of_first_appearance():
    X = np.arange(5.0)[:, None]
    bags = Bags.from_groups(X, ["z", "a", "z", "m", "a"])
    assert [bag.ravel().tolist() for bag in bags] == [[0, 2], [1, 4], [3]]


def test_four_forms_are_the_same_bags():
    cube = np.random.default_rng(0).normal(size=(4, 3, 2))
    reference = Bags(cube.reshape(12, 2), [0, 3, 6, 9, 12])
    boxed = np.empty(4, object)
    boxed[:] = list(cube)
    for form in (reference, cube, list(cube), boxed, [a.tolist() for a in cube], [sp.csr_matrix(a) for a in cube]):
        assert as_bags(form) == reference
    table = cube[:, 0]
    assert as_bags(table) == Bags(table, np.arange(5))
    assert as_bags(sp.csr_matrix(table)) == Bags(table, np.arange(5))


def test_dtypes():
    assert Bags(np.zeros((2, 1), np.float32), [0, 2]).instances.dtype == np.float32
    assert Bags(np.zeros((2, 1), np.int16), [0, 2]).instances.dtype == np.float64
    assert Bags(np.zeros(2, np.int64), [0, 2]).instances.dtype == np.int64
    assert Bags(np.zeros((2, 1)), [0, 2]).offsets.dtype == np.int64


def test_survives_pickle_joblib_and_train_test_split():
    bags = make([2, 1, 3, 2])
    assert pickle.loads(pickle.dumps(bags)) == bags
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(len)(bags[i : i + 2]) for i in range(3))
    assert parts == [2, 2, 2]
    left, right, a, b = train_test_split(bags, np.arange(4), random_state=0)
    assert isinstance(left, Bags)
    assert left == bags[a]
    assert right == bags[b]
    assert np.asarray(bags).shape == (4,)
    assert "4 bags, 8 instances, 2 features" in repr(bags)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bags(np.zeros((3, 2)), [0, 1, 1, 3]), "Bag 1 is empty"),
        (lambda: Bags(np.zeros((3, 2)), [0, 2]), "offsets run from 0 to 2; .*end at the number of instances, 3"),
        (lambda: Bags(np.zeros((3, 2)), [0, 2, 1, 3]), "rise strictly"),
        (lambda: Bags(np.zeros((3, 2)), [0.5, 3]), "whole numbers"),
        (lambda: Bags(np.zeros((3, 2)), [3]), "at least two"),
        (lambda: Bags(np.zeros((3, 2, 2)), [0, 3]), r"shape \(3, 2, 2\)"),
        (lambda: Bags(np.array([["a"], ["b"]]), [0, 2]), "must be numbers"),
        (lambda: Bags(np.zeros((2, 1), complex), [0, 2]), "Complex data not supported"),
        (lambda: Bags.from_list([]), "no bags"),
        (lambda: Bags.from_list([np.zeros((2, 3)), np.zeros((0, 3))]), "Bag 1 is empty"),
        (lambda: Bags.from_list([np.zeros((2, 3)), np.zeros((2, 4))]), "Bag 1 has 4 features but bag 0 has 3"),
        (lambda: Bags.from_list([np.zeros((2, 3)), np.zeros(3)]), r"Bag 1 has shape \(3,\)"),
        (lambda: Bags.from_groups(np.zeros((3, 1)), [1, 2]), "groups has 2 entries but X has 3 rows"),
        (lambda: as_bags(np.zeros(3)), "Reshape your data"),
        (lambda: as_bags(np.zeros((2, 0, 3))), "at least one bag and one instance"),
        (lambda: make([2, 1])[[]], "selection holds no bags"),
        (lambda: make([2, 1]).split([1]), "1 values but 3 instances"),
    ],
)
def test_bad_bags(build, message):
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize("key", [5, -3, [2], np.array([True, False, True]), "a", [0.5], (0, 0)], ids=str)
def test_bad_index(key):
    with pytest.raises(IndexError):
        make([2, 1])[key]


def test_indicator_accepts_and_refuses():
    assert as_indicator(np.array([[True, False]])).tolist() == [[1, 0]]
    assert as_indicator(sp.csr_matrix([[1.0, 0.0]])).dtype == np.uint8
    for bad, message in (
        ([[0, 2]], "holds 2 at bag 0, class 1"),
        ([[0.5, 1]], "holds 0.5 at bag 0"),
        ([[np.nan, 1]], "holds nan at bag 0"),
        ([0, 1], "expected"),
        ([["a", "b"]], "dtype"),
        ([[-1, 1]], "holds -1"),
    ):
        with pytest.raises(InputError, match=message):
            as_indicator(np.array(bad))


def test_dataset_slices_everything_together():
    data = make_gaussian_bags(n_bags=10, random_state=0)
    data = BagDataset(
        data.bags, data.Y, list("abcde"), data.instance_labels, [f"b{i}" for i in range(10)],
        locations=[{"row": i} for i in range(data.bags.n_instances)], name="made",
    )  # fmt: skip
    part = data[[7, 2]]
    assert part.bag_names == ["b7", "b2"]
    assert part.bags == data.bags[[7, 2]]
    assert part.label_sets == [data.label_sets[7], data.label_sets[2]]
    assert next(place["row"] for place in part.locations) == data.bags.offsets[7]
    assert_array_equal(data.bags.instances[[place["row"] for place in part.locations]], part.bags.instances)
    assert len(data[3]) == 1
    assert len(data[np.arange(10) < 4]) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Y": np.ones((3, 2))}, "Y has 3 rows but there are 2 bags"),
        ({"Y": np.array([[0, 2], [1, 0]])}, "holds 2 at bag 0"),
        ({"class_names": ["a"]}, "1 class names"),
        ({"class_names": ["a", "a"]}, r"1 different"),
        ({"instance_labels": Bags(np.array([0, 1]), [0, 1, 2])}, "differ in their offsets"),
        ({"instance_labels": Bags(np.array([0, 1, 5]), [0, 2, 3])}, "range from 0 to 5 but there are 2 classes"),
        ({"instance_labels": Bags(np.array([0.0, 1, 1]), [0, 2, 3])}, "one integer class index"),
        ({"bag_names": ["x"]}, "bag_names has 1 entries, expected 2"),
        ({"feature_names": ["x"]}, "feature_names has 1 entries, expected 2"),
        ({"locations": []}, "locations has 0 entries, expected 3"),
    ],
)
def test_bad_dataset(changes, message):
    arguments = {"bags": make([2, 1]), "Y": np.array([[1, 0], [0, 1]])} | changes
    with pytest.raises(InputError, match=message):
        BagDataset(**arguments)


def test_dataset_without_labels_has_no_label_sets():
    with pytest.raises(InputError, match="carries no bag labels"):
        _ = BagDataset(make([2])).label_sets
