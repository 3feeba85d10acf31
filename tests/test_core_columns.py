"""Tables of pandas, polars and pyarrow, as they are and as Arrow's stream."""

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bagwise import Bags, read_table
from bagwise.core.columns import Columns
from bagwise.core.exceptions import InputError

ROWS = {
    "bag": ["b", "a", "b", "ü", "a"],
    "x": [1.5, 2.5, -3.0, 4.0, 0.0],
    "n": [1, 2, 3, 4, 5],
    "labels": ["wren;robin", "wren", "wren;robin", "", "wren"],
    "who": ["wren", None, "robin", None, "wren"],
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


class OnlyStream:
    """A table that offers nothing but Arrow's stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)


WAYS = [(maker, way) for maker in MAKERS for way in ("itself", "stream")]


@pytest.fixture(params=WAYS, ids="-".join)
def make(request):
    maker, way = request.param

    def build(rows):
        table = MAKERS[maker](rows)
        return table if way == "itself" else OnlyStream(table)

    return build


class TestReadTable:
    def test_bags_and_labels(self, make):
        table = make({key: ROWS[key] for key in ("bag", "x", "n", "labels", "who")})
        data = read_table(table, bag="bag", labels="labels", instance_labels="who")
        assert data.bag_names == ["b", "a", "ü"]
        np.testing.assert_array_equal(data.bags.instances, [[1.5, 1], [-3, 3], [2.5, 2], [0, 5], [4, 4]])
        assert data.bags.sizes.tolist() == [2, 2, 1]
        assert data.label_sets == [{"wren", "robin"}, {"wren"}, set()]
        assert data.class_names == ["robin", "wren"]
        assert data.instance_labels.instances.tolist() == [1, 0, -1, 1, -1]
        assert data.feature_names == ["x", "n"]

    def test_plain_bags(self, make):
        table = make({key: ROWS[key] for key in ("bag", "x", "n")})
        bags = Bags.from_table(table)
        assert isinstance(bags, Bags)
        assert bags == Bags.from_groups(np.array([ROWS["x"], ROWS["n"]]).T, ROWS["bag"])
        assert Bags.from_table(table, features=["n"]) == Bags.from_groups(np.array([ROWS["n"]]).T, ROWS["bag"])

    def test_without_labels(self, make):
        data = read_table(make({key: ROWS[key] for key in ("bag", "x", "n", "who")}), features=["n", "x"])
        assert data.Y is None
        assert data.bag_names == ["b", "a", "ü"]
        assert data.feature_names == ["n", "x"]

    def test_columns_of_zeros_and_ones_and_integer_bags(self, make):
        table = make({"id": [7, 7, 3], "f": [1.0, 2.0, 3.0], "wren": [1, 1, 0], "robin": [True, True, False]})
        data = read_table(table, bag="id", labels=["wren", "robin"])
        assert data.bag_names == [7, 3]
        assert data.Y.tolist() == [[1, 1], [0, 0]]

    def test_single_precision_is_kept(self, make):
        bags = Bags.from_table(make({"bag": [0, 0], "x": np.array([0.1, 0.2], dtype=np.float32)}))
        assert bags.instances.dtype == np.float32

    def test_values_of_every_kind(self, make):
        rows = {
            "i8": np.array([-1, 2], np.int8), "u16": np.array([1, 65535], np.uint16), "b": [True, False],
            "f4": np.array([0.5, -1], np.float32), "s": ["ä", "日本"], "gap": [1.5, None],
        }  # fmt: skip
        columns = Columns(make(rows))
        assert columns.n_rows == 2
        for name, values in rows.items():
            got = columns.values(name).tolist()
            if name == "gap":
                assert got[0] == 1.5
                assert np.isnan(got[1])
            else:
                assert got == list(values)

    def test_what_is_refused(self, make):
        good = {"bag": ["a", "b"], "x": [1.0, 2.0]}
        for read in (Bags.from_table, read_table):
            with pytest.raises(InputError, match="has 0 columns 'nobody', expected one; its columns are 'bag', 'x'"):
                read(make(good), bag="nobody")
            with pytest.raises(InputError, match="'word' holds no numbers"):
                read(make({**good, "word": ["u", "v"]}))
            with pytest.raises(InputError, match="row 1: the feature 'x' is nan"):
                read(make({"bag": ["a", "b"], "x": [1.0, None]}))
            with pytest.raises(InputError, match="row 1: the column 'bag' is empty"):
                read(make({"bag": ["a", None], "x": [1.0, 2.0]}))
            with pytest.raises(InputError, match="row 1: the column 'bag' is empty"):
                read(make({"bag": [7, None], "x": [1.0, 2.0]}))
            with pytest.raises(InputError, match="2 rows and 0 features"):
                read(make({"bag": ["a", "b"]}))
        with pytest.raises(InputError, match="row 1: the labels differ from the first row of the same bag"):
            read_table(make({"bag": ["a", "a"], "x": [1.0, 2.0], "labels": ["u", "v"]}), labels="labels")
        with pytest.raises(InputError, match="'y' holds more than 0 and 1"):
            read_table(make({**good, "y": [2, 1]}), labels=["y"])


def test_lists_and_dictionaries_of_arrow():
    table = pa.table({
        "bag": pa.array(["a", "b", "a"]).dictionary_encode(),
        "x": pa.chunked_array([[1.0], [2.0, 3.0]]),
        "labels": [["u", "v"], [], ["u", "v"]],
    })  # fmt: skip
    data = read_table(table, labels="labels")
    assert data.label_sets == [{"u", "v"}, set()]
    assert data.bags.instances[:, 0].tolist() == [1.0, 3.0, 2.0]


def test_categories_and_nullable_columns_of_pandas():
    frame = pd.DataFrame({"bag": pd.Categorical(["a", "b", "a"]), "x": [1.0, 2.0, 3.0]})
    assert Bags.from_table(frame).sizes.tolist() == [2, 1]
    columns = Columns(pd.DataFrame({"n": pd.array([1, None], "Int64"), "b": pd.array([True, None], "boolean")}))
    np.testing.assert_array_equal(columns.values("n"), [1, np.nan])
    np.testing.assert_array_equal(columns.values("b"), [1, np.nan])


def test_decimals_are_numbers(make):
    table = make({"bag": ["a", "b"], "x": [Decimal("0.5"), Decimal("2")]})
    assert Bags.from_table(table).instances.tolist() == [[0.5], [2.0]]


def test_columns_named_by_numbers():
    assert Bags.from_table(pd.DataFrame([[7, 1.0, 2.0], [7, 3.0, 4.0]]), bag=0).instances.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1, 2]], "A list is no table"),
        (None, "A NoneType is no table"),
        (np.zeros((2, 2)), "A ndarray is no table"),
        (pl.LazyFrame({"bag": [1], "x": [1.0]}), "A LazyFrame is no table in memory.*collect a lazy one first"),
        (pd.DataFrame([[1, 2, 3]], columns=["bag", "x", "x"]), "cannot be read as a table: .*'x' 2 times"),
        (pl.Series([1]), "The Series cannot be read as a table"),
    ],
    ids=["list", "None", "array", "lazy", "twice", "series"],
)
def test_no_table(table, message):
    with pytest.raises(InputError, match=message):
        Bags.from_table(table)


def run_without(modules, code):
    head = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in modules)
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("library", "others"), [("pandas", ("polars", "pyarrow")), ("polars", ("pandas", "pyarrow"))])
def test_one_library_of_tables_is_enough(library, others):
    run_without(
        others,
        f"import {library} as library\n"
        "from bagwise import Bags, read_table\n"
        "table = library.DataFrame({'bag': ['a', 'a', 'b'], 'x': [1.0, 2.0, 3.0], 'who': ['u', 'u', None]})\n"
        "assert Bags.from_table(table, features=['x']).sizes.tolist() == [2, 1]\n"
        "assert read_table(table, labels='who').label_sets == [{'u'}, set()]\n",
    )


def test_none_is_needed_where_there_are_no_tables():
    run_without(
        ("pandas", "polars", "pyarrow", "narwhals"),
        "from bagwise import Bags\nimport numpy as np\n"
        "assert len(Bags.from_groups(np.zeros((3, 1)), [0, 0, 1])) == 2\n",
    )


def test_an_unknown_stream_needs_pyarrow():
    run_without(
        ("pyarrow",),
        "from bagwise import Bags\n"
        "class Stream:\n"
        "    def __arrow_c_stream__(self, schema=None): ...\n"
        "try:\n    Bags.from_table(Stream())\n"
        "except ImportError as error:\n    assert 'Reading a Stream needs pyarrow' in str(error)\n"
        "else:\n    raise AssertionError\n",
    )


def test_a_column_of_numbers_and_text_is_refused():
    table = pd.DataFrame({"bag": ["a", "b"], "x": [1, "u"]})
    with pytest.raises(InputError, match="column 'x' .*give every column values of one kind"):
        Bags.from_table(table)
