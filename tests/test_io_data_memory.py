"""Readers take a few times the memory of the file, whatever it holds."""

import tracemalloc

import numpy as np
import pytest

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BagwiseError, FormatError
from bagwise.io.data.formats import FORMATS
from bagwise.io.labels import read_labels
from bagwise.io.tables import MOST_CELLS, guess_separator, iterate_rows

BUDGET = 24
"""Times the size of the file, beside a constant: the text, the numbers in double precision, and what a row needs."""
CONSTANT = 1 << 20


def peak_of(read, path):
    """Most bytes while the file is read or refused by one of our errors."""
    tracemalloc.start()
    try:
        try:
            read(path)
        except BagwiseError as error:
            assert path.name in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


TABLES = {
    "csv-of-digits": ("csv", "bag," + ",".join(f"x{i}" for i in range(200)), "b" + ",7" * 200),
    "csv-of-short-numbers": ("csv", "bag," + ",".join(f"x{i}" for i in range(200)), "b" + ",17" * 200),
    "csv-of-classes": ("csv", "bag,x," + ",".join(f"label:{i}" for i in range(200)), "b,1" + ",1" * 200),
    "csv-of-blank-rows": ("csv", "bag,x", "," * 9),
    "csv-in-one-line": ("csv", "bag,x," + "ab," * 50_000, ""),
    "csv-without-commas": ("csv", "x" * 150_000, ""),
    "csv-of-quotes": ("csv", 'bag,"' + "x\n" * 60_000, ""),
    "csv-of-empty-lines": ("csv", "bag,x\na,1" + "\n" * 40_000, ""),
    "musk-of-commas": ("musk", "a" + "," * 150_000 + "1", ""),
    "musk-of-rows-of-commas": ("musk", "", "a" + "," * 400 + "1"),
    "musk-of-digits": ("musk", "", "a,a" + ",7" * 200 + ",1"),
    "miml-csv-of-labels": ("miml-csv", "200\nid,x," + ",".join(f"l{i}" for i in range(200)), "b,1" + ",1" * 200),
    "miml-csv-in-one-line": ("miml-csv", "1\n" + "ab," * 50_000, ""),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_text(name, tmp_path):
    kind, start, row = TABLES[name]
    text = start + "\n" + (row + "\n") * (150_000 // (len(row) + 1) if row else 0)
    path = tmp_path / "table.csv"
    path.write_text(text.lstrip("\n"), encoding="utf-8")
    assert peak_of(lambda path: FORMATS[kind].read(path), path) < BUDGET * path.stat().st_size + CONSTANT


@pytest.mark.parametrize("row", ["a,1", "a" + ",1" * 200, "ab," * 400])
def test_tables_of_labels(row, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file," + ",".join(f"x{i}" for i in range(row.count(","))) + "\n" + (row + "\n") * 300)
    assert peak_of(read_labels, path) < 2 * BUDGET * path.stat().st_size + CONSTANT


def test_more_cells_than_a_row_may_have(tmp_path):
    """Refused before the row is cut into cells, and by its own line."""
    path = tmp_path / "wide.csv"
    path.write_text("bag,x\n" + "a," * (MOST_CELLS + 1), encoding="utf-8")
    with pytest.raises(FormatError, match=r"wide\.csv, row 2: there are more than 1000000 cells in one row; check"):
        FORMATS["csv"].read(path)


@pytest.mark.parametrize("text", ["a,b\nc,d", "a,b\r\nc,d\r\n", "a,b\rc,d", '"a\nx",b\n\nc,d\n', "\n\na,b"])
def test_lines_are_those_that_python_sees(text):
    """Ends of all kinds, and those within quotes, as the csv module has them of a file."""
    import csv
    import io

    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if any(row)]
    assert [row for _, row in iterate_rows(text, ",", "x")] == [[cell.strip() for cell in row] for row in expected]


def test_the_separator_of_one_long_line():
    assert guess_separator("a;b" * 1_000_000) == ";"


@pytest.mark.parametrize("names", [np.array("wren"), np.array([["wren"]]), np.array([1.5]), np.array(3)])
@pytest.mark.parametrize("with_labels", [True, False])
def test_class_names_that_are_no_list(names, with_labels, tmp_path):
    arrays = {"X": np.zeros((2, 1)), "bag": np.array([0, 1]), "class_names": names}
    np.savez(tmp_path / "x.npz", **arrays, **({"Y": np.ones((2, 1))} if with_labels else {}))
    with pytest.raises(FormatError, match=r"x\.npz: class_names has shape"):
        FORMATS["npz"].read(tmp_path / "x.npz")


HUGE = [2**63, 2**70, -(2**63) - 1]


@pytest.mark.parametrize("form", ["parquet", "parquet-nested", "npz", "csv"])
@pytest.mark.parametrize("column", ["bag_names", "class_names"])
def test_whole_numbers_beyond_64_bits_are_written_as_text(form, column, tmp_path):
    pytest.importorskip("pyarrow")
    names = {"bag_names": ["a", "b", "c"], "class_names": ["x", "y", "z"], column: HUGE}
    data = BagDataset(bags=Bags(np.ones((4, 2)), [0, 1, 3, 4]), Y=np.eye(3, dtype=int), **names)
    path = tmp_path / f"x{FORMATS[form].extension}"
    FORMATS[form].write(data, path)
    back, _ = FORMATS[form].read(path)
    assert [str(name) for name in getattr(back, column)] == [str(name) for name in HUGE]


def test_a_parquet_file_of_large_numbers_is_written_again(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "x.parquet"
    table = {"bag": arrow.array([2**64 - 1, 2**63], arrow.uint64()), "labels": [["a"], ["b"]], "x": [1.0, 2.0]}
    parquet.write_table(arrow.table(table), path)
    data, _ = FORMATS["parquet"].read(path)
    for form in ("parquet", "parquet-nested", "npz", "csv"):
        again = tmp_path / f"again{FORMATS[form].extension}"
        FORMATS[form].write(data, again)
        assert [str(name) for name in FORMATS[form].read(again)[0].bag_names] == [str(2**64 - 1), str(2**63)]


def test_names_that_grow_beyond_64_bits_within_a_file(tmp_path):
    pytest.importorskip("pyarrow")
    from bagwise.core.exceptions import InputError
    from bagwise.io.data._parquet_write import write_parquet

    pieces = [
        BagDataset(bags=Bags(np.ones((1, 1)), [0, 1]), Y=np.array([[1]]), class_names=["a"], bag_names=[name])
        for name in (1, 2**64)
    ]
    with pytest.raises(InputError, match="is no whole number of 64 bits, as the names before it are"):
        write_parquet(iter(pieces), tmp_path / "x.parquet", nested=False, numbered=False)
    assert not (tmp_path / "x.parquet").exists()
