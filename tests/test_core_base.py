"""Validation of bags and labels, and the mixins, seen through the simplest estimator."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Bags
from bagwise.annotation import MostFrequentAnnotator
from bagwise.catalog import make_model
from bagwise.core.base import name_bags
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.validation import encode_labels, learn_labels, sort_classes, validate_bags
from bagwise.datasets import make_gaussian_bags


def bags_of(n, value=0.0):
    return Bags(np.full((2 * n, 3), value), 2 * np.arange(n + 1))


class Holder:
    """Something that `validate_bags` can write on."""


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_bad_numbers_are_named_by_bag_and_row(bad, sparse):
    X = np.zeros((6, 3))
    X[3, 2] = X[5, 0] = bad
    bags = Bags(sp.csr_matrix(X) if sparse else X, [0, 2, 6])
    what = "NaN" if np.isnan(bad) else "inf"
    with pytest.raises(InputError, match=f"contains {what}.* in bag 1, row 1 of that bag, feature 2; 2 such value"):
        validate_bags(Holder(), bags, reset=True)


def test_huge_finite_numbers_are_fine():
    bags = Bags(np.full((2, 3), 1e308), [0, 2])
    assert validate_bags(Holder(), bags, reset=True) is bags


def test_width_must_be_that_of_training():
    model = MostFrequentAnnotator().fit(bags_of(2), [[1, 0], [0, 1]])
    with pytest.raises(InputError, match="X has 4 features, but MostFrequentAnnotator is expecting 3 features"):
        model.predict([np.zeros((2, 4))])
    with pytest.raises(InputError, match="one value an instance"):
        model.predict(Bags(np.zeros(4), [0, 4]))


@pytest.mark.parametrize(
    ("Y", "classes", "single"),
    [
        (np.array([[1, 0, 1], [0, 1, 0]]), [0, 1, 2], False),
        (sp.csr_matrix([[1, 0, 1], [0, 1, 0]]), [0, 1, 2], False),
        ([[1, 0, 1], [0, 1, 0]], [0, 1, 2], False),
        (pd.DataFrame({"x": [1, 0], "y": [0, 1]}), ["x", "y"], False),
        ([{"b", "a"}, {"c"}], ["a", "b", "c"], False),
        ([["b", "a"], ("c",)], ["a", "b", "c"], False),
        ([{1, "a"}, {(2, 3), None}], [None, 1, "a", (2, 3)], False),
        ([set(), {"a"}], ["a"], False),
        (["b", "a"], ["a", "b"], True),
        (np.array([7, 3]), [3, 7], True),
        (pd.Series(["b", "a"]), ["a", "b"], True),
    ],
)
def test_forms_of_labels(Y, classes, single):
    indicator, learned, is_single = learn_labels(Y, 2)
    assert sorted(learned.tolist(), key=repr) == sorted(classes, key=repr)
    assert is_single is single
    assert indicator.shape == (2, len(classes))
    assert_array_equal(encode_labels(Y, learned, 2), indicator)


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (None, "requires y to be passed"),
        (np.zeros((2, 3), int), "No bag carries any label"),
        ([set(), set()], "No bag carries any label"),
        (np.zeros((2, 0)), "no columns"),
        (np.ones((3, 2)), "Y has 3 rows but X has 2 bags; pass one row per bag"),
        ([{"a"}], "Y has 1 rows but X has 2 bags"),
        (np.array([[1, 2], [0, 1]]), "holds 2 at bag 0, class 1"),
        ([{"a"}, "a"], "labels of bag 1 are 'a'; expected a set"),
        ([["a", "a"], ["b"]], "labels of bag 0 hold one twice"),
        ([[["a"]], ["b"]], "label of bag 0 is not hashable"),
        (pd.DataFrame({"y": [{"a"}, {"b"}]}), r"label of bag 0 is \{'a'\}, in a table of one column; pass the column"),
        (["a", None], r"label of bag 1 is missing \(None\); give it one, leave the bag out, or pass label sets"),
        (pd.Series(["a", None]), "label of bag 1 is missing"),
        (pd.Series(["a", None], dtype="string"), "label of bag 1 is missing"),
        (pd.DataFrame({"y": [np.nan, "b"]}), r"label of bag 0 is missing \(nan\)"),
        (pd.Series(["a", 1]), r"labels are of several types \(int, str\); make all of them text"),
    ],
)
def test_bad_labels(Y, message):
    with pytest.raises(InputError, match=message):
        learn_labels(Y, 2)


def test_unknown_labels_are_named():
    classes = sort_classes(list("abcdefghijk"))
    with pytest.raises(InputError, match=r"Bag 1 carries the unknown label 'z'; the classes are 'a', .*, \.\.\."):
        encode_labels([{"a"}, {"z"}], classes, 2)
    with pytest.raises(InputError, match="Y has 2 columns but 11 classes were learned"):
        encode_labels(np.ones((2, 2), int), classes, 2)
    with pytest.raises(InputError, match="unknown label 'z'"):
        encode_labels(["a", "z"], classes, 2)


def test_class_arrays_keep_the_values_they_are_given():
    assert sort_classes([3, 1]).dtype.kind == "i"
    assert sort_classes(["b", "a"]).dtype.kind == "U"
    mixed = sort_classes([1, True, "1", 1.5, (1,)])
    assert mixed.dtype == object
    assert {repr(label) for label in mixed} >= {"'1'", "1.5", "(1,)"}
    assert sort_classes([2**80, 1]).tolist() == [1, 2**80]
    assert [type(x) for x in sort_classes([(1, 2), (0, 5)])] == [tuple, tuple]


def test_names_of_bags():
    assert name_bags([3]) == "bag 3"
    assert name_bags(range(7)) == "bags 0, 1, 2, 3, 4, ..."


def test_most_frequent_annotator_counts():
    Y = [{"a", "b"}, {"a"}, {"b", "c"}, {"a", "c"}]
    model = MostFrequentAnnotator().fit(bags_of(4), Y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.decision_function(bags_of(2)).tolist() == [[0.75, 0.5, 0.5]] * 2
    assert model.predict(bags_of(2)).tolist() == [[1, 0, 0]] * 2  # more than half, not half
    assert model.predict_label_sets(bags_of(1)) == [{"a"}]
    assert model.predict_instances(bags_of(1)).tolist() == ["a", "a"]
    assert model.annotate(bags_of(2), [{"b", "a"}, {"c"}]).tolist() == ["a", "a", "c", "c"]
    assert model.score(bags_of(2), [{"a"}, {"b"}]) == 0.5
    with pytest.warns(InfeasibleBagWarning, match="1 of 2 bags carry no label, bag 1"):
        assert model.annotate(bags_of(2), [{"b"}, set()]).tolist() == ["b", "b", "a", "a"]


def test_one_flat_array_where_bags_of_several_were_learned():
    """It may be one bag, and it is taken for many."""
    model = MostFrequentAnnotator().fit(bags_of(4), [{"a", "b"}, {"a"}, {"b", "c"}, {"a", "c"}])
    rows = np.zeros((3, bags_of(1).n_features))
    for method in (model.predict, model.decision_function):
        with pytest.warns(UserWarning, match=r"each of its 3 rows .* of up to 2 instances.*pass \[X\]"):
            assert len(method(rows)) == 3
        assert len(method([rows])) == 1
        assert len(method(Bags.from_list(rows[:, None]))) == 3
        assert len(method(rows[:1])) == 1
    assert len(model.predict_instances(rows)) == 3  # the same whatever the bags are
    MostFrequentAnnotator().fit(rows, ["a", "b", "a"]).predict(rows)


@pytest.mark.parametrize("name", ["ored", "ored-forest", "clpl", "noisy-or"])
def test_a_bag_without_labels_is_annotated_by_its_features(name):
    data = make_gaussian_bags(n_bags=40, random_state=0)
    settings = {"n_estimators": 20, "n_rounds": 1, "n_round_trees": 10} if name == "ored-forest" else {}
    model = make_model(name, **settings).fit(data.bags, data.Y)
    Y = data.Y.copy()
    Y[7] = 0
    own = data.bags.bag_index == 7
    if name == "noisy-or":  # which knows instances that carry nothing
        assert (model.annotate(data.bags, Y)[own] == -1).all()
        return
    with pytest.warns(InfeasibleBagWarning, match="1 of 40 bags carry no label, bag 7"):
        labels = model.annotate(data.bags, Y)
    assert_array_equal(labels[own], model.predict_instances(data.bags)[own])
    assert_array_equal(labels[~own], model.annotate(data.bags, data.Y)[~own])
    if name != "clpl":
        with pytest.warns(InfeasibleBagWarning, match="1 of 40 bags carry no label, bag 7"):
            proba = model.annotate_proba(data.bags, Y)
        assert_allclose(proba[own], np.exp(model.log_proba(data.bags))[own], atol=1e-12)
        assert_array_equal(proba[~own], model.annotate_proba(data.bags, data.Y)[~own])


def test_one_label_a_bag_gives_values_back():
    model = MostFrequentAnnotator().fit(bags_of(3), ["x", "y", "y"])
    assert model.predict(bags_of(2)).tolist() == ["y", "y"]
    assert model.predict_label_sets(bags_of(1)) == [{"y"}]
    assert model.decision_function(bags_of(2)).shape == (2,)
    assert model.score(bags_of(2), ["y", "x"]) == 0.5
