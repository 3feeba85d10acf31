"""Files that cannot be used: one line that says what, where and how to mend it; exit code 1; nothing written."""

import io
import os
import random
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.io.arff
import scipy.sparse as sp
from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.app.runs.learner import load_model
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BagwiseError, FormatError, MemoryLimitError
from bagwise.io._footer import column_sizes
from bagwise.io.data._arff import read_arff
from bagwise.io.data._long import encode_label_lists
from bagwise.io.data.formats import FORMATS, read_dataset, write_dataset
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.files import read_text
from bagwise.io.labels import read_labels

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.fuzz.blind import fuzz_kind
from benchmarks.fuzz.kinds import Kind, Ready, find_kinds
from benchmarks.fuzz.running import try_input

from bagwise.app.review import _api as api

CSV_HEAD = "bag,labels,x,y\n"
ARFF_HEAD = (
    "@relation r\n@attribute id {a,b}\n@attribute bag relational\n @attribute x numeric\n @attribute y numeric\n"
    "@end bag\n@attribute wren {0,1}\n@data\n"
)
BOMB = b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><labels><label name="&b;"/></labels>'

TEXT = {
    # name: (format, content, what the message says after the file's name)
    "csv: letters for numbers": ("csv", f"{CSV_HEAD}a,u,1,2\na,u,1,two\n", "row 3: the feature 'y' is 'two', which"),
    "csv: NaN": ("csv", f"{CSV_HEAD}a,u,1,nan\n", "row 2: the feature 'y' is nan; fill in"),
    "csv: infinite": ("csv", f"{CSV_HEAD}a,u,1,2\na,u,-inf,2\n", "row 3: the feature 'x' is -inf"),
    "csv: too large": ("csv", f"{CSV_HEAD}a,u,1e999,2\n", "row 2: the feature 'x' is inf"),
    "csv: empty cell": ("csv", f"{CSV_HEAD}a,u,1,\n", "row 2: the feature 'y' is empty"),
    "csv: decimal comma": ("csv", "bag;x\na;1,5\n", "row 2: the feature 'x' is '1,5', .* decimal comma; write 1.5"),
    "csv: control character": ("csv", f"{CSV_HEAD}a,u,1\x1e,2\n", r"row 2: the feature 'x' is '1\\x1e', which is no"),
    "csv: Python's underscore": ("csv", f"{CSV_HEAD}a,u,1_0,2\n", "row 2: the feature 'x' is '1_0'"),
    "csv: ragged": ("csv", f"{CSV_HEAD}a,u,1\n", "row 2: there are 3 cells but row 1 has 4"),
    "csv: no bag": ("csv", "x,y\n1,2\n", "row 1: no column says to which bag a row belongs"),
    "csv: bag without name": ("csv", f"{CSV_HEAD},u,1,2\n", "row 2: the cell of the column 'bag' is empty"),
    "csv: two columns of a name": ("csv", "bag,x,x\na,1,2\n", "row 1: two columns are named 'x'"),
    "csv: no features": ("csv", "bag,labels\na,u\n", "row 1: there is no column of features"),
    "csv: heading only": ("csv", CSV_HEAD, "there is a heading but no row below it"),
    "csv: labels differ within a bag": ("csv", f"{CSV_HEAD}a,u,1,2\na,v,1,2\n", "row 3: the labels differ .* row 2"),
    "csv: labels twice": ("csv", "bag,labels,label:u,x\na,u,1,1\n", "row 1: labels stand both in"),
    "csv: half a label": ("csv", "bag,label:u,x\na,0.5,1\n", "row 2: 'label:u' is '0.5'; write 0 or 1"),
    "csv: labelled differs": (
        "csv", "bag,label:u,labelled,x\na,0,1,1\na,0,0,1\n", "row 3: 'labelled' differs from .* row 2",
    ),
    "csv: labels of an unlabelled bag": (
        "csv", "bag,label:u,labelled,x\na,1,1,1\nb,1,0,1\n", "row 3: 'labelled' is 0, but the bag has labels",
    ),
    "csv: labelled without labels": ("csv", "bag,labelled,x\na,1,1\n", "row 2: 'labelled' is 1, but there is no"),
    "csv: half labelled": ("csv", "bag,labelled,x\na,0.5,1\n", "row 2: 'labelled' is '0.5'; write 0 or 1"),
    "csv: foreign instance label": ("csv", "bag,labels,instance_label,x\na,u,w,1\n", "row 2: the instance label 'w'"),
    "csv: broken location": ("csv", "bag,location,x\na,{,1\n", "row 2: the location is not JSON"),
    "csv: open quote": ("csv", f'{CSV_HEAD}a,"u,1,2\n', "row 2: .* check the quotes"),
    "csv: half utf-8": ("csv", f"{CSV_HEAD}äöü,u,1,2\n".encode() + b"\xff,u,1,2\n", "row 3: the byte 0xff is"),
    "miml-csv: no count": ("miml-csv", "id,x,u\na,1,0\n", "row 1: expected the number of labels alone"),
    "miml-csv: count too large": ("miml-csv", "5\nid,x,u\na,1,0\n", "row 2: expected different names"),
    "miml-csv: label 2": ("miml-csv", "1\nid,x,u\na,1,2\n", "row 3: 'u' is '2'; write 0 or 1"),
    "miml-csv: billions of labels": ("miml-csv", "9999999999\nid\n", "row 1: expected the number of labels"),
    "miml-csv: nothing below": ("miml-csv", "1\nid,x,u\n", "there is a heading but no row below it"),
    "musk: class 2": ("musk", "m,c,1,2.\n", "row 1: 'column 4' is '2.'; write 0 or 1"),
    "musk: short": ("musk", "m,c\n", "row 1: there are 2 cells but expected at least 4"),
    "musk: two classes in a molecule": ("musk", "m,c,1,1.\nm,d,1,0.\n", "row 2: the labels differ from"),
    "arff: no data": ("arff", "@relation r\n", "the file ends before @data"),
    "arff: no bags": ("arff", "@relation r\n@attribute x numeric\n@data\n1\n", "row 3: no relational attribute"),
    "arff: row too short": ("arff", f"{ARFF_HEAD}a,'1,2'\n", "row 9: there are 2 values but 3 attributes"),
    "arff: instance too short": ("arff", f"{ARFF_HEAD}a,'1',1\n", "row 9, instance 1: there are 1 values but 2"),
    "arff: letters": ("arff", f"{ARFF_HEAD}a,'1,z',1\n", "row 9, instance 1: .* expected numbers"),
    "arff: no instance": ("arff", f"{ARFF_HEAD}a,'',1\n", "row 9: the bag holds no instances"),
    "arff: label ?": ("arff", f"{ARFF_HEAD}a,'1,2',?\n", r"row 9: the label 'wren' is '\?'; expected 0 or 1"),
    "arff: open quote": ("arff", f"{ARFF_HEAD}a,'1,2,1\n", "row 9: value 2 cannot be read; check its quotes"),
    "arff: NaN": ("arff", f"{ARFF_HEAD}a,'1,nan',1\n", "row 9: the feature 'y' is nan"),
    "arff: words": ("arff", "once upon a time\n", "row 1: 'once upon a time' is no ARFF"),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXT)
def test_text_files(tmp_path, case):
    name, content, message = TEXT[case]
    path = tmp_path / "it.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError, match=rf"it\.txt[:,].*{message}") as caught:
        read_dataset(path, name)
    assert "\n" not in str(caught.value)
    result = CliRunner().invoke(main, ["convert", str(path), str(tmp_path / "out.npz"), "--format", name])
    assert result.exit_code == 1
    assert [line[:7] for line in result.stderr.splitlines()] == ["Error: "]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["it.txt"]


def small(**changes):
    values = {
        "bags": Bags(np.arange(12.0).reshape(6, 2), [0, 2, 3, 6]),
        "Y": np.array([[1], [1], [0]]),
        "class_names": ["u"],
    }
    return BagDataset(**{**values, **changes})


def attempt(path, name):
    """The data set and None, or None and our error."""
    try:
        return read_dataset(path, name), None
    except BagwiseError as error:
        return None, error


@pytest.mark.filterwarnings("ignore:.*does not keep:UserWarning")
@pytest.mark.parametrize("name", FORMATS)
def test_truncated_anywhere(tmp_path, name):
    path = tmp_path / f"it{FORMATS[name].extension}"
    write_dataset(small(), path, name)
    whole = path.read_bytes()
    for size in sorted({*range(1, 40), *np.linspace(1, len(whole) - 1, 60).astype(int).tolist()}):
        path.write_bytes(whole[:size])
        data, error = attempt(path, name)
        if error is not None:
            assert path.name in str(error)
        else:  # text that ends after a whole row is a shorter table
            assert name in ("csv", "miml-csv", "musk", "arff")
            assert data.bags.n_instances <= 6


@pytest.mark.parametrize("name", ["csv", "miml-csv", "musk"])
@pytest.mark.parametrize("content", [",", ",,\n;\n", " , \n\n,"])
def test_nothing_but_separators(tmp_path, name, content):
    (tmp_path / "it.csv").write_text(content)
    with pytest.raises(FormatError, match="it.csv.*(all of its cells are blank|row )"):
        read_dataset(tmp_path / "it.csv", name)
    with pytest.raises(FormatError, match="it.csv.*(all of its cells are blank|row )"):
        read_labels(tmp_path / "it.csv")


@pytest.mark.parametrize("name", FORMATS)
def test_no_permission(tmp_path, monkeypatch, name):
    path = tmp_path / "it"
    path.write_text("x")

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FormatError, match=r"it may not be read; change its permissions"):
        read_dataset(path, name)


# ---------------------------------------------------------------------------------------------------------------------
# Files that claim more than they hold


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices of Unix")
@pytest.mark.parametrize("name", [*FORMATS, "labels", "model"])
def test_pipes_and_devices_are_refused(tmp_path, name):
    """A pipe that nobody writes to would be waited for, and a device such as /dev/zero never ends."""
    read = {"labels": read_labels, "model": load_model}.get(name) or FORMATS[name].read
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(FormatError, match=f"{path.name} is a device, a pipe or a socket; save what it gives as a"):
            read(path)


def test_a_link_to_a_file_is_read_as_the_file(tmp_path):
    (tmp_path / "data.csv").write_text("bag,x\na,1\n")
    (tmp_path / "link.csv").symlink_to("data.csv")
    assert FORMATS["csv"].read(tmp_path / "link.csv")[0].bags.n_instances == 1


def npy_claiming(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"abc"


def test_billion_rows_over_three_bytes_npz(tmp_path):
    with zipfile.ZipFile(tmp_path / "it.npz", "w") as archive:
        for key in ("X", "bag"):
            archive.writestr(f"{key}.npy", npy_claiming((10**9, 10**3)))
    with pytest.raises(FormatError, match=r"it.npz: the array 'X' claims shape \(1000000000, 1000\)"):
        read_dataset(tmp_path / "it.npz")


def mat_with(array_class, dims, payload):
    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    body = element(6, struct.pack("<II", array_class, 0)) + element(5, struct.pack(f"<{len(dims)}i", *dims))
    body += element(1, b"bags") + payload
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + element(14, body)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (mat_with(1, (10**9, 2), b"abc"), "a cell array claims 2000000000 cells but holds"),
        (mat_with(6, (10**9, 2), struct.pack("<II", 9, 8) + bytes(8)), "claims the shape .* but holds 8 bytes"),
        (mat_with(6, (-1, 2), b""), "has the shape"),
        (mat_with(2, (1, 1), b""), "is a structure or an object, which is not read"),
        (mat_with(5, (2, 2), struct.pack("<II", 5, 8) + bytes(8)), "it ends within an element"),
        (b"MATLAB 7.3 MAT-file".ljust(600), r"MATLAB 7.3 file \(HDF5\), which is not read; save it with -v7"),
        (b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, 10**6), "claims 1000000 bytes"),
        (b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x02IM", "of another version"),
        (b"\x08\x00\x00\x00 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + bytes(64), "no MATLAB 5 file"),
        (b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01XX", "no MATLAB 5 file"),
    ],
)  # fmt: skip
def test_mat_files_that_claim_what_is_not_there(tmp_path, content, message):
    (tmp_path / "it.mat").write_bytes(content)
    with pytest.raises(FormatError, match=rf"it.mat: .*{message}"):
        read_dataset(tmp_path / "it.mat")


def test_compressed_bomb_in_mat(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e6")
    bomb = zlib.compress(bytes(50_000_000))
    (tmp_path / "it.mat").write_bytes(
        b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(bomb)) + bomb
    )
    with pytest.raises(FormatError, match="cut off, or larger than the memory limit"):
        read_dataset(tmp_path / "it.mat")


def test_zip_bomb_in_npz(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e6")
    np.savez_compressed(tmp_path / "it.npz", X=np.zeros((500_000, 3)), bag=np.arange(500_000))
    with pytest.raises(MemoryLimitError, match="it.npz: the array 'X' needs"):
        read_dataset(tmp_path / "it.npz")


def test_parquet_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    table = pa.table({"bag": np.repeat(np.arange(2000), 50), **{f"x{i}": np.zeros(100_000) for i in range(5)}})
    pq.write_table(table, tmp_path / "it.parquet")
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e6")
    with pytest.raises(
        MemoryLimitError, match=r"it.parquet with 100000 rows and 500000 numbers needs .* read it in parts"
    ):
        read_dataset(tmp_path / "it.parquet")
    assert sum(len(piece) for piece in ParquetBags(tmp_path / "it.parquet").iter_bags()) == 2000


WELL_PACKED = {
    "rows": {},
    "bags": {"bag": pa.array(np.arange(200_000))},
    "labels": {"labels": pa.array(["u;v"] * 200_000)},
    "instance labels": {"instance_label": pa.array(["u"] * 200_000)},
    "places": {"location": pa.array(['{"file": "a"}'] * 200_000)},
    "a column a label": {f"label:{i}": np.zeros(200_000, dtype=np.int64) for i in range(20)},
}


@pytest.mark.parametrize("case", WELL_PACKED)
def test_rows_and_text_count_however_well_they_are_packed(tmp_path, monkeypatch, case):
    """One value over many rows takes nothing in the file; the estimate is held against what Python takes."""
    table = {"bag": pa.array(["b"] * 200_000), "x": np.zeros(200_000), **WELL_PACKED[case]}
    path = tmp_path / "it.parquet"
    pq.write_table(pa.table(table), path)
    tracemalloc.start()
    read_dataset(path)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", str(taken))
    with pytest.raises(MemoryLimitError, match=r"it.parquet with 200000 rows and 200000 numbers needs"):
        read_dataset(path)
    if case != "bags":
        with pytest.raises(MemoryLimitError, match=r"it.parquet: the bag 'b', of 200000 instances, needs"):
            list(ParquetBags(path).iter_bags())
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", str(5 * taken))
    assert read_dataset(path).bags.n_instances == 200_000


def test_instances_of_nested_files_count_too(tmp_path, monkeypatch):
    lists = pa.ListArray.from_arrays([0, 1], pa.array([[0.0]])).type
    path = tmp_path / "it.parquet"
    pq.write_table(pa.table({"bag": ["b"], "instances": pa.array([[[0.0]] * 50_000], lists)}), path)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "2e6")
    with pytest.raises(MemoryLimitError, match=r"it.parquet: bags of 50000 instances needs"):
        read_dataset(path)


def test_a_label_matrix_larger_than_memory_is_not_begun(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="The 30 labels of 40 rows needs"):
        encode_label_lists([["0"]] * 40, [str(i) for i in range(30)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "declares a document type or entities, which are not read"),
        (b"<labels><label></labels>", "row 1: it is no XML"),
        (b"<labels></labels>", "it names no labels"),
        (b'<labels><label name="u"/><label name="u"/></labels>', "a label is named twice"),
        (b'<labels><label name="zebra"/></labels>', "the label 'zebra' of the XML file is no attribute"),
    ],
)
def test_label_names_in_xml(tmp_path, content, message):
    (tmp_path / "it.arff").write_text(f"{ARFF_HEAD}a,'1,2',1\n")
    (tmp_path / "it.xml").write_bytes(content)
    with pytest.raises(FormatError, match=rf"it\.(xml|arff).*{message}"):
        read_dataset(tmp_path / "it.arff")


# ---------------------------------------------------------------------------------------------------------------------
# Parquet


def parquet(tmp_path, columns, **options):
    pq.write_table(pa.table(columns), tmp_path / "it.parquet", **options)
    return tmp_path / "it.parquet"


PARQUET = {
    "no bag": ({"x": [1.0]}, "no column says to which bag"),
    "text for numbers": ({"bag": ["a"], "x": ["1"]}, "the column 'x' holds string, not numbers"),
    "missing number": ({"bag": ["a", "a"], "x": [1.0, None]}, "row 2: the feature 'x' is nan"),
    "missing bag": ({"bag": ["a", None], "x": [1.0, 2.0]}, "row 2: the name of the bag is missing"),
    "empty bag name": ({"bag": ["a", ""], "x": [1.0, 2.0]}, "row 2: the name of the bag is empty"),
    "bag by number": ({"bag": [0.5], "x": [1.0]}, "bags are named by double"),
    "labels of lists": ({"bag": ["a"], "labels": [[[1]]], "x": [1.0]}, "the labels are"),
    "labels differ": ({"bag": ["a", "a"], "labels": [["u"], []], "x": [1.0, 2.0]}, "row 2: the labels differ"),
    "labels of an unlabelled bag": (
        {"bag": ["a", "b"], "labels": [["u"], ["u"]], "labelled": [1, 0], "x": [1.0, 2.0]}, "row 2: 'labelled' is 0",
    ),
    "labelled differs": (
        {"bag": ["a", "a"], "labels": [[], []], "labelled": [1, 0], "x": [1.0, 2.0]}, "row 2: 'labelled' differs",
    ),
    "labelled without labels": ({"bag": ["a"], "labelled": [True], "x": [1.0]}, "row 1: 'labelled' is 1, but there"),
    "labelled 2": ({"bag": ["a", "b"], "labels": [[], []], "labelled": [0, 2], "x": [1.0, 2.0]}, "row 2: 'labelled'"),
    "labels of an unlabelled nested bag": (
        {"bag": ["a", "b"], "labels": [["u"], ["u"]], "labelled": [1, 0], "instances": [[[1.0]], [[2.0]]]},
        "row 2: 'labelled' is 0",
    ),
    "no rows": ({"bag": pa.array([], pa.string()), "x": pa.array([], pa.float64())}, "it has no rows"),
    "bag of nothing": ({"bag": ["a"], "instances": pa.array([[]], pa.list_(pa.list_(pa.float64())))}, "row 1: the"),
    "widths differ": ({"bag": ["a"], "instances": [[[1.0], [1.0, 2.0]]]}, "instances differ in their number"),
    "missing instance": ({"bag": ["a"], "instances": [[[1.0], None]]}, r"an instance is missing \(null\)"),
    "missing in instance": ({"bag": ["a"], "instances": [[[1.0], [None]]]}, r"a feature is missing \(null\)"),
    "NaN in instance": ({"bag": ["a", "b"], "instances": [[[1.0]], [[2.0], [np.nan]]]}, "row 2: the feature 1 is nan"),
    "labels too few": (
        {"bag": ["a"], "instances": [[[1.0], [2.0]]], "instance_labels": [["u"]]}, "row 1: instance_labels do not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARQUET)
def test_parquet_files(tmp_path, case):
    columns, message = PARQUET[case]
    path = parquet(tmp_path, columns)
    with pytest.raises(FormatError, match=rf"it\.parquet[:,].*{message}"):
        read_dataset(path)
    with pytest.raises(FormatError, match=rf"it\.parquet[:,].*{message}"):
        list(ParquetBags(path).iter_bags())


def test_long_text_takes_its_room_once(tmp_path):
    """20,000 rows named by the same 100,000 characters would be 2 GB if each row held its own."""
    name = "x" * 100_000
    column = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), [name])
    path = parquet(tmp_path, {"bag": column, "labels": column, "instance_label": column, "x": np.zeros(20_000)})
    with_peak = (
        "import resource, sys; from bagwise.io.data.formats import read_dataset\n"
        "from bagwise.io.data.parquet import ParquetBags\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert len(read_dataset(sys.argv[1])) == 1\n"
        "assert [len(piece) for piece in ParquetBags(sys.argv[1]).iter_bags()] == [1]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", with_peak, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300_000, "kilobytes"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:-9] + b"\xff" + raw[-8:], "footer is damaged"),
        (lambda raw: raw[:-8] + struct.pack("<I", 10**9) + b"PAR1", "cut off or damaged"),
        (lambda raw: raw[:-4] + b"PARE", "cut off or damaged"),
        (lambda raw: raw[:-8] + struct.pack("<I", 3) + b"PAR1", "footer is damaged"),
    ],
)
def test_damaged_footer(tmp_path, change, message):
    path = parquet(tmp_path, {"bag": ["a"], "x": [1.0]})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=rf"it.parquet: .*{message}"):
        column_sizes(path)


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_footer_counts_as_pyarrow_does(tmp_path, rows):
    columns = {
        "bag": ["a", "b"] * 25,
        "labels": [["u", "v"], []] * 25,
        "instances": [[[1.0, 2.0]], [[3.0, 4.0]] * 2] * 25,
    }
    path = parquet(tmp_path, columns, row_group_size=rows)
    metadata = pq.ParquetFile(path).metadata
    expected = {}
    for g in range(metadata.num_row_groups):
        for c in range(metadata.num_columns):
            column = metadata.row_group(g).column(c)
            key = column.path_in_schema.split(".")[0]
            values, size = expected.get(key, (0, 0))
            expected[key] = values + column.num_values, size + column.total_uncompressed_size
    assert column_sizes(path) == expected
    assert expected["instances"][0] == 150


def test_parquet_in_parts_needs_sorted_bags(tmp_path):
    path = parquet(tmp_path, {"bag": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    assert read_dataset(path).bags.sizes.tolist() == [2, 1]
    with pytest.raises(FormatError, match=r"it.parquet, row 3: the bag 'a' began at row 1 and was left; sort"):
        list(ParquetBags(path).iter_bags())


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("group", [1, 4, 100])
def test_parquet_in_parts_gives_every_bag_once_and_whole(tmp_path, monkeypatch, batch, group):
    monkeypatch.setattr("bagwise.io.data.parquet.BATCH_ROWS", batch)
    rng = np.random.default_rng(batch)
    sizes = rng.integers(1, 9, 12)
    names = [f"b{i}" for i in range(12)]
    X = rng.normal(size=(sizes.sum(), 2)).astype(np.float32)
    labels = [[] if i % 3 == 0 else ["v", "u"][: 1 + i % 2] for i in range(12)]
    index = np.repeat(np.arange(12), sizes)
    path = parquet(
        tmp_path, {"bag": np.array(names)[index], "labels": [labels[i] for i in index], "p": X[:, 0], "q": X[:, 1]},
        row_group_size=group,
    )  # fmt: skip
    pieces = list(ParquetBags(path).iter_bags())
    assert [name for piece in pieces for name in piece.bag_names] == names
    np.testing.assert_array_equal(np.concatenate([piece.bags.sizes for piece in pieces]), sizes)
    np.testing.assert_array_equal(np.concatenate([piece.bags.instances for piece in pieces]), X)
    assert [labels for piece in pieces for labels in piece.label_sets] == [set(row) for row in labels]
    assert all(piece.class_names == ["u", "v"] for piece in pieces)


@pytest.mark.parametrize("form", ["long", "nested"])
def test_classes_of_instances_are_the_same_in_all_parts(tmp_path, monkeypatch, form):
    monkeypatch.setattr("bagwise.io.data.parquet.BATCH_ROWS", 1)
    monkeypatch.setattr("bagwise.io.data.parquet.BATCH_BAGS", 1)
    columns = {
        "long": {"bag": ["a", "a", "b"], "instance_label": ["v;w", None, "u"], "x": [1.0, 2.0, 3.0]},
        "nested": {
            "bag": ["a", "b"],
            "instance_labels": [["v;w", None], ["u"]],
            "instances": [[[1.0], [2.0]], [[3.0]]],
        },
    }
    path = parquet(tmp_path, columns[form])
    whole, pieces = read_dataset(path), list(ParquetBags(path).iter_bags())
    assert whole.class_names == ["u", "v;w"]
    assert [piece.class_names for piece in pieces] == [whole.class_names] * 2
    codes = np.concatenate([piece.instance_labels.instances for piece in pieces])
    assert codes.tolist() == whole.instance_labels.instances.tolist() == [1, -1, 0]


def test_parquet_of_others(tmp_path):
    """Integers, truth values, text a;b;c, dictionaries, and columns named by the caller."""
    path = parquet(tmp_path, {
        "recording": pa.array(["a", "a", "b"]).dictionary_encode(), "species": ["u;v", "u;v", ""],
        "n": pa.array([1, 2, 3], pa.int16()), "flag": [True, False, True], "note": ["x", "y", "z"],
    })  # fmt: skip
    data = read_dataset(path, bag="recording", labels="species", features=["flag", "n"])
    assert data.bags.instances.tolist() == [[1, 1], [0, 2], [1, 3]]
    assert data.label_sets == [{"u", "v"}, set()]
    assert data.feature_names == ["flag", "n"]


# ---------------------------------------------------------------------------------------------------------------------
# Oracles: what other readers make of our files, and we of theirs


def test_scipy_reads_our_arff_alike_and_we_theirs(tmp_path):
    rng = np.random.default_rng(0)
    data = small(bags=Bags(rng.normal(size=(6, 2)), [0, 2, 3, 6]), bag_names=["a", "b", "c"], feature_names=["p", "q"])
    write_dataset(data, tmp_path / "it.arff")
    rows, meta = scipy.io.arff.loadarff(tmp_path / "it.arff")
    ours = read_arff(tmp_path / "it.arff")[0]
    assert meta.names() == ["id", "bag", "u"]
    assert [row["id"].decode() for row in rows] == ours.bag_names == ["a", "b", "c"]
    theirs = np.concatenate([np.array(row["bag"].tolist()) for row in rows])
    np.testing.assert_array_equal(theirs, ours.bags.instances)
    assert [int(row["u"]) for row in rows] == ours.Y[:, 0].tolist()


def test_arff_as_the_java_library_writes_it(tmp_path):
    (tmp_path / "it.arff").write_text(
        "% made by hand\n@RELATION toy\n\n@ATTRIBUTE id {bag1, bag2}\n@attribute bag relational\n\t@attribute f1 real\n"
        "\t@attribute 'f 2' numeric\n@end bag\n@attribute \"l 1\" {0,1}\n@attribute l2 {0,1}\n\n@DATA\n"
        "bag1,\"42,-198\\n41.9,-191\",1,0\n\n% a remark\nbag2, '1e-3, 5' , 0 ,1\n"
    )
    data = read_dataset(tmp_path / "it.arff")
    assert data.bags.instances.tolist() == [[42, -198], [41.9, -191], [0.001, 5]]
    assert data.bag_names == ["bag1", "bag2"]
    assert data.feature_names == ["f1", "f 2"]
    assert data.label_sets == [{"l 1"}, {"l2"}]


def test_lamda_file_made_by_scipy(tmp_path):
    bags = np.empty((2, 1), dtype=object)
    bags[0, 0], bags[1, 0] = np.ones((2, 3)), np.zeros((1, 3))
    for compressed in (False, True):
        scipy.io.savemat(
            tmp_path / "it.mat", {"bags": bags, "targets": np.array([[1, -1], [-1, 1], [1, 1]], dtype=np.int8)},
            do_compression=compressed,
        )  # fmt: skip
        data = read_dataset(tmp_path / "it.mat")
        assert data.bags.sizes.tolist() == [2, 1]
        assert data.Y.tolist() == [[1, 0, 1], [0, 1, 1]]


def test_benchmark_file_with_sparse_features(tmp_path):
    X = sp.random(6, 4, density=0.5, random_state=0, format="csc")
    content = {"features": X, "labels": np.array([[1, 1, -1, -1, -1, 1]]), "bag_ids": np.array([[5, 5, 3, 3, 9, 9]])}
    scipy.io.savemat(tmp_path / "it.mat", content)
    data = read_dataset(tmp_path / "it.mat")
    assert sp.issparse(data.bags.instances)
    np.testing.assert_array_equal(data.bags.instances.toarray(), X.toarray())
    assert data.bag_names == [5, 3, 9]
    assert data.Y[:, 0].tolist() == [1, 0, 1]
    assert data.instance_labels.instances.tolist() == [0, 0, -1, -1, -1, 0]


def test_musk_file_of_the_archive(tmp_path):
    (tmp_path / "clean1.data").write_text("MUSK-188,188_1+1,42,-198,1.\nMUSK-188,188_1+2,42,-191,1.\nNON-1,n1,4,5,0.\n")
    data = read_dataset(tmp_path / "clean1.data")
    assert data.bag_names == ["MUSK-188", "NON-1"]
    assert data.Y[:, 0].tolist() == [1, 0]
    assert data.locations["conformation"][1] == "188_1+2"


# ---------------------------------------------------------------------------------------------------------------------
# A short form of `make fuzz`


KINDS = find_kinds()
SLOW = ("run-", "api", "model-use")  # a run is made first, models of all kinds are fitted


@pytest.mark.parametrize("name", [name for name in KINDS if not name.startswith(SLOW)])
def test_mutated_inputs_bring_up_nothing_but_our_errors(tmp_path, monkeypatch, name):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e8")
    monkeypatch.chdir(tmp_path)
    outcome = fuzz_kind(KINDS[name], 100, random.Random(name).randrange(100), tmp_path)
    assert outcome.failures == []
    assert outcome.n_inputs == outcome.n_read + outcome.n_refused == 100


@pytest.mark.parametrize("name", ["model-use", "run-features", "run-survey", "api"])
def test_mutated_inputs_of_the_slow_kinds(tmp_path, monkeypatch, name):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e8")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fit that is cut short
        assert fuzz_kind(KINDS[name], 30, 0, tmp_path).failures == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of a fit that is cut short
def test_every_address_of_the_page_is_asked(tmp_path):
    ready = KINDS["api"].make(tmp_path)
    ready.close()
    assert {*api.GET, *api.POST} <= {seed.split()[1].decode().partition("?")[0] for seed in ready.seeds}


def test_what_the_fuzzer_takes_for_a_find(tmp_path, monkeypatch):
    """Errors that are not ours, messages of several lines or without the file, writing outside of the folder."""
    monkeypatch.setattr("benchmarks.fuzz.running._is_pytest", lambda: False)
    folder = tmp_path / "inside"
    folder.mkdir()

    def problem_of(read):
        kind = Kind("it", lambda _: Ready([b""], read), (".txt",), [b""])
        return try_input(kind, Ready([b""], read), folder / "input.txt", folder)

    def refuse(text):
        raise FormatError(text)

    assert problem_of(lambda path: path.with_name("other").write_text("x")) == (True, None)
    assert problem_of(lambda path: refuse(f"{path}: it is damaged.")) == (False, None)
    assert "several lines" in problem_of(lambda path: refuse(f"{path}:\nit is damaged."))[1]
    assert "does not name the file" in problem_of(lambda path: refuse("It is damaged."))[1]
    assert "KeyError: 'x'" in problem_of(lambda path: {}["x"])[1]
    outside = (tmp_path / "outside").write_text, (folder / ".." / "outside").write_text
    for write in outside:
        assert "does not lie in" in problem_of(lambda path, write=write: write("x"))[1]
    assert "does not lie in" in problem_of(lambda path: path.parent.rename(tmp_path / "moved"))[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside"]


def test_text_that_is_too_large(tmp_path, monkeypatch):
    (tmp_path / "it.csv").write_bytes(b"x" * 1000)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "5000")
    with pytest.raises(MemoryLimitError, match="it.csv read as text needs"):
        read_text(tmp_path / "it.csv")


def test_reading_nothing_but_bytes_in_memory():
    buffer = io.BytesIO()
    np.savez(buffer, a=1)
    with pytest.raises(TypeError):
        read_dataset(buffer)
