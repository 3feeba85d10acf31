"""What users of scikit-learn, pandas and polars pass as bags and labels, and bags as values."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from bagwise import BagDataset, Bags, ORedLogisticRegression, make_pipeline
from bagwise.annotation import MostFrequentAnnotator
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.preprocessing import PerInstance

NAMES = ["loud", "high", "long", "late"]
CLASSES = ["owl", "wren", "crow"]


@pytest.fixture(scope="module")
def data():
    """Three classes with names, features with names."""
    plain = make_gaussian_bags(n_bags=40, n_features=4, n_classes=3, separation=3.0, random_state=0)
    return BagDataset(plain.bags, plain.Y, CLASSES, plain.instance_labels, feature_names=NAMES, name="birds")


@pytest.fixture(scope="module")
def frames(data):
    return [pd.DataFrame(bag, columns=NAMES) for bag in data.bags]


def label_sets(data):
    return [frozenset(labels) for labels in data.label_sets]


# -- labels and bags in all forms -------------------------------------------------------------------------------------


def test_fit_takes_the_keyword_y(data):
    model = ORedLogisticRegression()
    assert_array_equal(clone(model).fit(data.bags, y=data.Y).coef_, clone(model).fit(data.bags, data.Y).coef_)
    with pytest.raises(InputError, match="requires y to be passed"):
        model.fit(data.bags)


@pytest.mark.parametrize(
    "as_labels",
    [
        pd.Series,
        lambda sets: pd.Series([sorted(labels) for labels in sets], index=range(100, 100 + len(sets))),
        lambda sets: pl.Series([sorted(labels) for labels in sets]),
        lambda sets: pa.array([sorted(labels) for labels in sets]),
        lambda sets: np.array([*sets, None], dtype=object)[:-1],
    ],
    ids=["pandas", "pandas-lists", "polars", "pyarrow", "numpy"],
)
def test_a_series_of_label_sets_is_a_list_of_them(data, as_labels):
    sets = label_sets(data)
    model = MostFrequentAnnotator().fit(data.bags, as_labels(sets))
    wanted = MostFrequentAnnotator().fit(data.bags, sets)
    assert_array_equal(model.classes_, wanted.classes_)
    assert_array_equal(model.share_, wanted.share_)
    assert_array_equal(model.annotate(data.bags, as_labels(sets)), wanted.annotate(data.bags, sets))
    assert model.score(data.bags, as_labels(sets)) == wanted.score(data.bags, sets)


def test_a_series_of_bags_is_a_list_of_them(data, frames):
    wanted = ORedLogisticRegression().fit(frames, data.Y)
    arrays = list(data.bags)
    index = np.arange(len(data)) + 7
    for series in (pd.Series(arrays, index=index), pd.Series(frames, index=index)):
        model = ORedLogisticRegression().fit(series, data.Y)
        assert_array_equal(model.decision_function(series), wanted.decision_function(frames))
        assert isinstance(PerInstance(StandardScaler()).fit_transform(series), Bags)
    assert model.feature_names_in_.tolist() == NAMES
    assert np.isfinite(cross_val_score(MostFrequentAnnotator(), series, data.Y, cv=3, error_score="raise")).all()


def test_a_series_of_values_is_one_label_a_bag(data):
    values = [sorted(labels)[0] for labels in label_sets(data)]
    model = MostFrequentAnnotator().fit(data.bags, pd.Series(values))
    assert model.single_label_
    with pytest.raises(InputError, match="The labels of bag 1 are nan"):
        model.fit(data.bags[:3], pd.Series([{"a"}, np.nan, {"b"}]))


def test_label_frames_are_put_in_order_by_name(data):
    frame = pd.DataFrame(data.Y, columns=CLASSES)
    model = ORedLogisticRegression().fit(data.bags, frame)
    assert model.classes_.tolist() == CLASSES
    wanted = model.annotate(data.bags, data.Y)
    assert_array_equal(model.annotate(data.bags, frame[CLASSES[::-1]]), wanted)
    assert_array_equal(model.annotate(data.bags, pl.DataFrame(frame[CLASSES[::-1]].to_dict("list"))), wanted)
    assert_array_equal(model.annotate(data.bags, pa.table(frame[CLASSES[::-1]])), wanted)
    assert ORedLogisticRegression().fit(data.bags, pa.table(frame)).classes_.tolist() == CLASSES
    with pytest.raises(InputError, match="Y has a column 'gull', which is none of the classes"):
        model.annotate(data.bags, frame.rename(columns={"crow": "gull"}))


def test_a_data_set_is_bags_and_labels(data):
    model = ORedLogisticRegression().fit(data)
    wanted = ORedLogisticRegression().fit(data.bags, data.Y)
    assert model.classes_.tolist() == CLASSES
    assert_array_equal(model.coef_, wanted.coef_)
    assert model.feature_names_in_.tolist() == NAMES
    assert_array_equal(ORedLogisticRegression().fit(data.bags, data).coef_, wanted.coef_)
    names = np.array(CLASSES)
    assert_array_equal(model.annotate(data), names[wanted.annotate(data.bags, data.Y)])
    assert_array_equal(model.annotate_proba(data), wanted.annotate_proba(data.bags, data.Y))
    assert_array_equal(model.predict(data), wanted.predict(data.bags))
    assert model.score(data) == wanted.score(data.bags, data.Y)
    assert_array_equal(model.find(data).labels, wanted.find(data.bags).labels)  # features alone, as of bags


def test_bags_that_nobody_labelled_are_named(data):
    labelled = np.arange(len(data)) % 5 != 3
    partly = BagDataset(data.bags, data.Y * labelled[:, None], CLASSES, labelled=labelled, name="half")
    with pytest.raises(InputError, match=r"Nobody labelled 8 of the 40 bags of data set 'half', .* bag 3; pass"):
        ORedLogisticRegression().fit(partly)
    model = ORedLogisticRegression().fit(partly[partly.labelled])
    assert len(model.predict(partly)) == len(data)
    with pytest.raises(InputError, match="carries no bag labels"):
        model.fit(BagDataset(data.bags))


def test_classes_of_a_data_set_are_matched_by_name(data):
    model = ORedLogisticRegression().fit(data)
    turned = data.recode(CLASSES[::-1])
    assert_array_equal(model.annotate(turned), model.annotate(data))
    other = BagDataset(data.bags, data.Y, ["owl", "wren", "gull"])
    with pytest.raises(InputError, match="unknown label 'gull'"):
        model.annotate(other)
    assert model.score(other) < model.score(data)  # a label that was not learned is never right


# -- names of features ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda f: pl.DataFrame(f.to_dict("list")), pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_frames_are_put_in_order_by_name(data, frames, frame):
    model = ORedLogisticRegression().fit([frame(f) for f in frames], data.Y)
    assert model.feature_names_in_.tolist() == NAMES
    assert_array_equal(model.coef_, ORedLogisticRegression().fit(data.bags, data.Y).coef_)
    rng = np.random.default_rng(0)
    mixed = [frame(f[rng.permutation(NAMES)]) for f in frames]
    assert_array_equal(model.predict(mixed), model.predict(data.bags))
    assert_array_equal(model.fit(mixed, data.Y).predict([frame(f) for f in frames]), model.predict(mixed))
    for wrong, message in (
        ([frame(f.rename(columns={"late": "early"})) for f in frames], "missing: 'late'; not known there: 'early'"),
        ([frame(f[NAMES[:3]]) for f in frames], "missing: 'late'"),
        ([frame(f.assign(more=1.0)) for f in frames], "not known there: 'more'"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(wrong)
    with pytest.raises(InputError, match=r"bag 0 \(compared with bag 1\) has \(missing: 'loud'"):
        Bags.from_list([frame(frames[0]), frame(frames[1].rename(columns={"loud": "soft"}))])


def test_one_frame_of_rows_in_another_order_is_refused(data):
    rows = pd.DataFrame(data.bags.instances, columns=NAMES)
    model = MostFrequentAnnotator().fit(rows, data.instance_labels.instances)
    with pytest.raises(ValueError, match="same order"):
        model.predict(rows[NAMES[::-1]])


def test_names_travel_with_bags_and_through_pipelines(data, frames):
    bags = Bags.from_list(frames)
    assert bags[3:7].feature_names == bags[[2, 1]].feature_names == NAMES
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(bags, data.Y)
    assert pipe.feature_names_in_.tolist() == pipe[-1].feature_names_in_.tolist() == NAMES
    assert_array_equal(pipe.predict([f[NAMES[::-1]] for f in frames]), pipe.predict(data.bags))
    reduced = PerInstance(PCA(2)).fit_transform(bags)
    assert reduced.feature_names == ["pca0", "pca1"]
    assert PerInstance(PCA(2)).fit_transform(data.bags).feature_names is None
    pipe.fit(data.bags, data.Y)
    assert not hasattr(pipe[-1], "feature_names_in_")  # nothing is left of the first fit
    assert BagDataset(bags).feature_names == NAMES
    with pytest.raises(InputError, match="3 names of features"):
        Bags(data.bags.instances, data.bags.offsets, NAMES[:3])
    with pytest.raises(InputError, match="know no names"):
        data.bags.with_features(NAMES)


# -- bags as values ---------------------------------------------------------------------------------------------------

ARRAYS = st.lists(
    st.lists(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=2), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(ARRAYS, ARRAYS)
def test_concatenation_and_frames_go_there_and_back(one, other):
    first, second = (Bags.from_list([np.array(bag) for bag in arrays]) for arrays in (one, other))
    both = Bags.concatenate([first, second])
    assert len(both) == len(first) + len(second)
    assert both[: len(first)] == first
    assert both[len(first) :] == second
    assert np.concatenate([first, second]) == both
    assert (both == first) is False
    for library in ("pandas", "polars", "pyarrow"):
        assert Bags.from_table(both.to_frame(library)) == both
    html = both._repr_html_()
    assert html.count("<tr>") == 1 + min(both.n_instances, 8) + (both.n_instances > 8)
    assert f"{len(both)} bags, {both.n_instances} instances" in html


def test_what_bags_refuse_to_join(data, frames):
    bags = Bags.from_list(frames)
    for parts, message in (
        ([], "no bags to concatenate"),
        ([bags, Bags(np.zeros((2, 3)), [0, 2])], "all parts must have the same features"),
        ([bags, bags.with_features(NAMES[::-1])], "name their features differently"),
    ):
        with pytest.raises(InputError, match=message):
            Bags.concatenate(parts)
    assert Bags.concatenate([bags, data.bags]).feature_names is None
    sparse = Bags(sp.csr_matrix(data.bags.instances), data.bags.offsets)
    assert sp.issparse(Bags.concatenate([sparse, sparse]).instances)
    assert Bags.concatenate([data.instance_labels, data.instance_labels]).instances.dtype == np.int64
    assert sparse == data.bags
    assert sparse.to_frame("polars").shape == (sparse.n_instances, 5)
    assert "&lt;b&gt;" in Bags([[1.0]], [0, 1], ["<b>"])._repr_html_()
    assert bags != bags.with_features(NAMES[::-1])
    assert (bags == 3) is False
    for arguments, message in (
        ({"library": "excel"}, "library='excel' is not known"),
        ({"bag": "loud"}, "A feature is called 'loud' too"),
        ({"bag_names": ["a"]}, "1 bag names for 40 bags"),
    ):
        with pytest.raises(InputError, match=message):
            bags.to_frame(**arguments)
    named = bags.to_frame(bag_names=[f"file{i}" for i in range(40)], bag="file")
    assert named.columns.tolist() == ["file", *NAMES]
    assert data.instance_labels.to_frame("polars").columns == ["bag", "value"]


def test_data_sets_compare(data):
    again = BagDataset(data.bags, data.Y.copy(), list(CLASSES), data.instance_labels, feature_names=NAMES, name="other")
    assert again == data
    assert data[:40] == data
    places = {
        "file": np.array(["a"] * data.bags.n_instances, dtype=object),
        "s": np.full(data.bags.n_instances, np.nan),
    }
    placed = BagDataset(data.bags, data.Y, CLASSES, data.instance_labels, feature_names=NAMES, locations=places)
    assert placed == BagDataset(
        data.bags, data.Y, CLASSES, data.instance_labels, feature_names=NAMES, locations=dict(places)
    )
    different = [
        data[:39], placed, data.recode(CLASSES[::-1]), BagDataset(data.bags), BagDataset(data.bags, data.Y, CLASSES),
        BagDataset(data.bags, data.Y, CLASSES, data.instance_labels, feature_names=NAMES, bag_names=list("ab" * 20)),
        BagDataset(data.bags, 1 - data.Y, CLASSES, data.instance_labels, feature_names=NAMES),
    ]  # fmt: skip
    for other in different:
        assert other != data
    assert data != "birds"
    with pytest.raises(TypeError, match="unhashable"):
        hash(data)
