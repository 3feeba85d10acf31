"""`Bags` and `BagDataset`: every way in, every way to slice, every refusal."""

import pickle
import tracemalloc

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import BagDataset, Bags
from bagwise.core.bags import as_bags, as_indicator, offsets_of
from bagwise.core.dataset import as_column, columns_of, rows_of
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags

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
    data, labelled = make_gaussian_bags(n_bags=10, random_state=0), np.arange(10) != 2
    data = BagDataset(
        data.bags, data.Y * labelled[:, None], list("abcde"), data.instance_labels, [f"b{i}" for i in range(10)],
        locations={"row": np.arange(data.bags.n_instances)}, labelled=labelled, name="made",
    )  # fmt: skip
    part = data[[7, 2]]
    assert part.bag_names == ["b7", "b2"]
    assert part.bags == data.bags[[7, 2]]
    assert part.label_sets == [data.label_sets[7], None]
    assert part.labelled.tolist() == [True, False]
    assert part.locations["row"][0] == data.bags.offsets[7]
    assert_array_equal(data.bags.instances[part.locations["row"]], part.bags.instances)
    assert_array_equal(part.positions, np.concatenate([np.arange(data.bags.sizes[i]) for i in (7, 2)]))
    assert len(data[3]) == 1
    assert data[-1].bag_names == ["b9"]
    with pytest.raises(IndexError):
        data[10]
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
        ({"locations": {"row": []}}, r"locations\['row'\] has 0 rows, expected 3"),
        ({"locations": [{}] * 3}, "locations are a list; expected a dict of columns"),
        ({"labelled": [True]}, r"labelled has shape \(1,\) but there are 2 bags"),
        ({"labelled": [True, False]}, "Bag 1 is said to be unlabelled but has labels in Y"),
        ({"labelled": [True, False], "Y": None}, "1 bags are said to be labelled but Y is None"),
    ],
)
def test_bad_dataset(changes, message):
    arguments = {"bags": make([2, 1]), "Y": np.array([[1, 0], [0, 1]])} | changes
    with pytest.raises(InputError, match=message):
        BagDataset(**arguments)


def test_dataset_without_labels_has_no_label_sets():
    with pytest.raises(InputError, match="carries no bag labels"):
        _ = BagDataset(make([2])).label_sets


def test_names_and_labelled_are_always_there():
    bare, labelled = BagDataset(make([2, 1])), BagDataset(make([2, 1]), np.eye(2))
    assert bare.bag_names == labelled.bag_names == [0, 1]
    assert bare.labelled.tolist() == [False, False]
    assert labelled.labelled.tolist() == [True, True]
    part = BagDataset(make([2, 1]), [[0, 1], [0, 0]], list("ab"), labelled=[1, 0])
    assert part.label_sets == [{"b"}, None]
    assert part.labelled.dtype == bool


# ---------------------------------------------------------------------------------------------------------------------
# Places


PLACES = st.lists(
    st.dictionaries(
        st.sampled_from("abc"),
        st.sampled_from(["", "a", "ü", True, [1, 2], []]) | st.integers() | st.floats(allow_nan=False),
        max_size=3,
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@given(PLACES)
def test_rows_of_columns_of_rows(rows):
    """Numbers of one column may become those of one kind, equal to what they were unless rounded to a float."""
    columns = columns_of(iter(rows))
    for name, column in columns.items():
        assert column.shape == (len(rows),)
        expected = [row.get(name) for row in rows]
        assert column.tolist() == (expected if column.dtype == object else np.array(expected).tolist())
    if columns:
        assert [set(row) for row in rows_of(columns)] == [set(row) for row in rows]


def test_kinds_of_columns():
    assert as_column([1, 2]).dtype == np.int64
    assert as_column([1, 0.5]).dtype == np.float64
    assert as_column([True, False]).dtype == bool
    assert as_column([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert as_column([10**400, 0.5]).tolist() == [10**400, 0.5]
    assert as_column(["a", None]).tolist() == ["a", None]
    assert BagDataset(make([2]), locations={}).locations is None


def test_places_take_no_object_a_row():
    """Five columns of 100,000 rows: 32 bytes of numbers and 8 of a shared text a row, whole and in slices."""
    m = 100_000
    bags = Bags(np.zeros((m, 1), np.float32), np.arange(0, m + 1, 10))
    numbers = {name: np.arange(m) / 2 for name in ("start", "end", "low", "high")}
    tracemalloc.start()
    data = BagDataset(bags, locations={"file": ["".join(("a", str(i // 10_000))) for i in range(m)], **numbers})
    kept, _ = tracemalloc.get_traced_memory()
    assert len({id(text) for text in data.locations["file"]}) == 10
    assert kept < 20 * m, "bytes: a pointer a row, and the names of the bags"
    tracemalloc.reset_peak()
    half = data[: len(data) // 2]
    _, peak = tracemalloc.get_traced_memory()
    assert peak - kept < 4 * m, "bytes: neighbours are views, only the offsets and names of 5,000 bags are new"
    assert all(np.shares_memory(half.locations[name], data.locations[name]) for name in data.locations)
    before, _ = tracemalloc.get_traced_memory()
    other = data[np.arange(0, len(data), 2)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert other.locations["start"].nbytes == 4 * m
    assert after - before < 30 * m, "bytes: half of 44 a row, and the names"


# ---------------------------------------------------------------------------------------------------------------------
# Other classes


def test_recode_matches_by_name():
    data = BagDataset(
        make([2, 1]), [[1, 1, 0], [0, 1, 0]], list("abc"), Bags(np.array([0, -1, 1]), [0, 2, 3]), labelled=[1, 1]
    )
    same = data.recode(["b", "new", "a"])
    assert same.class_names == ["b", "new", "a"]
    assert same.label_sets == data.label_sets
    assert same.instance_labels.instances.tolist() == [2, -1, 0]
    with pytest.raises(InputError, match="holds the label 'a', which is none of the 2 classes; leave it out"):
        data.recode(["b", "c"])
    dropped = data.recode(["b"], unknown="drop")
    assert dropped.label_sets == [{"b"}, {"b"}]
    assert dropped.instance_labels.instances.tolist() == [-1, -1, 0]
    with pytest.raises(InputError, match="unknown='keep' is not known"):
        data.recode(["b"], unknown="keep")


def test_recode_matches_by_key_and_joins():
    data = BagDataset(make([2, 1]), [[1, 0], [0, 1]], [1, "1"], Bags(np.array([0, -1, 1]), [0, 2, 3]))
    text = data.recode(["0", "1"], key=str)
    assert text.label_sets == [{"1"}, {"1"}]
    assert text.instance_labels.instances.tolist() == [1, -1, 1]
    with pytest.raises(InputError, match="holds the label 1, which is none"):
        data.recode(["0", "1"])


def test_recode_keeps_unlabelled_bags():
    data = BagDataset(make([2, 1]), [[1], [0]], ["a"], labelled=[1, 0])
    assert data.recode(["b", "a"]).label_sets == [{"a"}, None]
    assert data.recode(["b"], unknown="drop").label_sets == [set(), None]


def test_a_transformer_of_tables_is_told_of_per_instance():
    """Also in scikit-learn's own pipelines."""
    data = make_gaussian_bags(n_bags=12, random_state=0)
    for make in (bagwise.make_pipeline, sklearn_pipeline):
        with pytest.raises(InputError, match=r"PerInstance\(StandardScaler\(\)\)"):
            make(StandardScaler(), bagwise.ORedLogisticRegression()).fit(data.bags, data.Y)
    assert np.asarray(data.bags).shape == (12,)
    assert np.asarray(data.bags, dtype=object).shape == (12,)
