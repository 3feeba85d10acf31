"""Tables of pandas, polars and pyarrow, by Arrow and by the interchange protocol."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bagwise import Bags
from bagwise.columns import Columns
from bagwise.exceptions import InputError

ROWS = {
    "bag": ["b", "a", "b", "ü", "a"],
    "x": [1.5, 2.5, -3.0, 4.0, 0.0],
    "n": [1, 2, 3, 4, 5],
    "labels": ["wren;robin", "wren", "wren;robin", "", "wren"],
    "who": ["wren", None, "robin", None, "wren"],
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


class OnlyInterchange:
    """A table that offers nothing but the interchange protocol."""

    def __init__(self, frame):
        self.frame = frame

    def __dataframe__(self, *arguments, **options):
        return self.frame.__dataframe__(*arguments, **options)


WAYS = [(maker, "arrow") for maker in MAKERS]
WAYS += [(maker, "interchange") for maker in MAKERS if hasattr(MAKERS[maker](ROWS), "__dataframe__")]


@pytest.fixture(params=WAYS, ids="-".join)
def make(request):
    maker, way = request.param

    def build(rows):
        table = MAKERS[maker](rows)
        return table if way == "arrow" else OnlyInterchange(table)

    return build


class TestFromTable:
    def test_bags_and_labels(self, make):
        table = make({key: ROWS[key] for key in ("bag", "x", "n", "labels", "who")})
        data = Bags.from_table(table, bag="bag", labels="labels", instance_labels="who")
        assert data.bag_names == ["b", "a", "ü"]
        np.testing.assert_array_equal(data.bags.instances, [[1.5, 1], [-3, 3], [2.5, 2], [0, 5], [4, 4]])
        assert data.bags.sizes.tolist() == [2, 2, 1]
        assert data.label_sets == [{"wren", "robin"}, {"wren"}, set()]
        assert data.class_names == ["robin", "wren"]
        assert data.instance_labels.instances.tolist() == [1, 0, -1, 1, -1]
        assert data.feature_names == ["x", "n"]

    def test_without_labels_plain_bags(self, make):
        bags = Bags.from_table(make({key: ROWS[key] for key in ("bag", "x", "n")}))
        assert isinstance(bags, Bags)
        assert bags == Bags.from_groups(np.array([ROWS["x"], ROWS["n"]]).T, ROWS["bag"])

    def test_columns_of_zeros_and_ones_and_integer_bags(self, make):
        table = make({"id": [7, 7, 3], "f": [1.0, 2.0, 3.0], "wren": [1, 1, 0], "robin": [True, True, False]})
        data = Bags.from_table(table, bag="id", labels=["wren", "robin"])
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
        with pytest.raises(InputError, match="has 0 columns 'nobody', expected one; its columns are 'bag', 'x'"):
            Bags.from_table(make(good), bag="nobody")
        with pytest.raises(InputError, match="'word' holds no numbers"):
            Bags.from_table(make({**good, "word": ["u", "v"]}))
        with pytest.raises(InputError, match="row 1: the feature 'x' is nan"):
            Bags.from_table(make({"bag": ["a", "b"], "x": [1.0, None]}))
        with pytest.raises(InputError, match="row 1: the column 'bag' is empty"):
            Bags.from_table(make({"bag": ["a", None], "x": [1.0, 2.0]}))
        with pytest.raises(InputError, match="row 1: the labels differ from the first row of the same bag"):
            Bags.from_table(make({"bag": ["a", "a"], "x": [1.0, 2.0], "labels": ["u", "v"]}), labels="labels")
        with pytest.raises(InputError, match="'y' holds more than 0 and 1"):
            Bags.from_table(make({**good, "y": [2, 1]}), labels=["y"])
        with pytest.raises(InputError, match="2 rows and 0 features"):
            Bags.from_table(make({"bag": ["a", "b"]}))


def test_lists_and_dictionaries_of_arrow():
    table = pa.table({
        "bag": pa.array(["a", "b", "a"]).dictionary_encode(),
        "x": pa.chunked_array([[1.0], [2.0, 3.0]]),
        "labels": [["u", "v"], [], ["u", "v"]],
    })  # fmt: skip
    data = Bags.from_table(table, labels="labels")
    assert data.label_sets == [{"u", "v"}, set()]
    assert data.bags.instances[:, 0].tolist() == [1.0, 3.0, 2.0]


def test_categories_of_pandas():
    frame = pd.DataFrame({"bag": pd.Categorical(["a", "b", "a"]), "x": [1.0, 2.0, 3.0]})
    for table in (frame, OnlyInterchange(frame)):
        if table is frame or hasattr(frame, "__dataframe__"):
            assert Bags.from_table(table).sizes.tolist() == [2, 1]


def test_no_table():
    with pytest.raises(InputError, match="A list is no table"):
        Bags.from_table([[1, 2]])


def test_no_table_library_is_needed():
    code = (
        "import sys\nfor name in ('pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "class Buffer:\n"
        "    def __init__(self, a): self.a = a; self.bufsize = a.nbytes; self.ptr = a.ctypes.data\n"
        "class Column:\n"
        "    def __init__(self, a): self.a = a; self.offset = 0; self.describe_null = (0, None)\n"
        "    dtype = property(lambda s: (0 if s.a.dtype.kind == 'i' else 2, 64, '', '='))\n"
        "    def size(self): return len(self.a)\n"
        "    def get_chunks(self): return [self]\n"
        "    def get_buffers(self): return {'data': (Buffer(self.a), self.dtype), 'validity': None, 'offsets': None}\n"
        "class Frame:\n"
        "    def __init__(self, d): self.d = d\n"
        "    def __dataframe__(self): return self\n"
        "    def column_names(self): return list(self.d)\n"
        "    def num_rows(self): return 3\n"
        "    def get_column_by_name(self, n): return Column(self.d[n])\n"
        "import numpy as np\nfrom bagwise import Bags\n"
        "bags = Bags.from_table(Frame({'bag': np.array([0, 0, 1]), 'x': np.array([1.0, 2.0, 3.0])}))\n"
        "assert bags.sizes.tolist() == [2, 1]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_column_of_numbers_and_text_is_refused():
    table = pd.DataFrame({"bag": ["a", "b"], "x": [1, "u"]})
    with pytest.raises(InputError, match="column x .*give every column values of one kind"):
        Bags.from_table(table)
