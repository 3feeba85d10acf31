"""Pieces of bags from files: the same bags, whatever the pieces; and what is said of files that are not right."""

import errno
import os
import pickle
import tempfile
import threading
from dataclasses import replace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bagwise import BagDataset, Bags
from bagwise.core.checks import parse_memory
from bagwise.core.exceptions import FormatError, InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data._parquet_write import write_parquet
from bagwise.io.data.formats import read_dataset, write_dataset
from bagwise.scale import BagSource
from bagwise.scale._engine import tree_sum
from bagwise.scale._pieces import read_ahead, read_pieces
from bagwise.scale._source import SHARE_OF_MEMORY

ROW_BYTES = 8 * 8 + 8 * 5  # features, and scores of classes


def made(n_bags=80, seed=0, prefix="bag"):
    data = make_gaussian_bags(n_bags=n_bags, random_state=seed)
    names = [f"{prefix} {i}" for i in range(n_bags)]
    return replace(data, bag_names=names, class_names=["wren", "robin", "owl", "crow", "tit"])


def regroup(path, rows):
    """The same file with row groups of so many rows."""
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table, path, row_group_size=rows)


def same(pieces, data):
    pieces = list(pieces)
    assert np.array_equal(np.concatenate([p.bags.instances for p in pieces]), data.bags.instances)
    assert np.array_equal(np.concatenate([p.bags.sizes for p in pieces]), data.bags.sizes)
    assert np.array_equal(np.concatenate([p.Y for p in pieces]), data.Y)
    assert np.array_equal(np.concatenate([p.labelled for p in pieces]), data.labelled)
    assert [name for p in pieces for name in p.bag_names] == data.bag_names
    assert all(p.class_names == data.class_names for p in pieces)
    if data.instance_labels is not None:
        labels = np.concatenate([p.instance_labels.instances for p in pieces])
        assert np.array_equal(labels, data.instance_labels.instances)


@pytest.mark.parametrize("form", ["parquet", "parquet-nested"])
@pytest.mark.parametrize("rows", [1, 7, 10_000])
@pytest.mark.parametrize("piece_rows", [1, 11, 10_000])
def test_pieces_are_the_file_whatever_its_row_groups(tmp_path, form, rows, piece_rows):
    data, path = made(), tmp_path / "a.parquet"
    write_dataset(data, path, form)
    regroup(path, rows)
    source = BagSource.from_parquet(path, memory=SHARE_OF_MEMORY * piece_rows * ROW_BYTES)
    same(source.pieces(), data)
    assert (source.n_bags, source.n_instances, source.n_features) == (80, data.bags.n_instances, 8)
    assert source.class_names == data.class_names
    assert np.array_equal(source.Y, data.Y)
    assert np.array_equal(source.offsets, data.bags.offsets)
    assert np.array_equal(source.instance_labels(), data.instance_labels.instances)
    largest = int(data.bags.sizes.max())
    assert all(piece.bags.n_instances <= max(piece_rows, largest) for piece in source.pieces())
    for i in range(source.n_pieces):
        description = pickle.loads(pickle.dumps(source.describe(i)))
        first, last = source.bag_starts[i : i + 2]
        assert next(read_pieces([description])) == data.bags[first:last]


def test_a_folder_a_pattern_and_a_list_are_one_source(tmp_path):
    data = made()
    for i, cut in enumerate([slice(0, 30), slice(30, 31), slice(31, 80)]):
        write_dataset(data[cut], tmp_path / f"part{i}.parquet")
    (tmp_path / "notes.txt").write_text("not a table")
    for paths in (
        tmp_path,
        str(tmp_path / "part*.parquet"),
        [tmp_path / "part0.parquet", tmp_path / "part1.parquet", tmp_path / "part2.parquet"],
    ):
        source = BagSource.from_parquet(paths)
        assert source.n_pieces == 3
        same(source.pieces(), data)


@pytest.mark.parametrize("form", ["parquet", "parquet-nested"])
def test_wider_instances_come_in_finer_pieces(tmp_path, form):
    data = made()
    write_dataset(data, tmp_path / "a.parquet", form)
    for source in (
        BagSource.from_parquet(tmp_path / "a.parquet", memory=SHARE_OF_MEMORY * 100 * ROW_BYTES),
        BagSource.from_dataset(data),
    ):
        source.memory = SHARE_OF_MEMORY * 100 * ROW_BYTES
        fine = source.finer(80)  # ten times the columns
        same(fine.pieces(), data)
        most = 100 * ROW_BYTES // (8 * 80 + 8 * 5)
        sizes = [piece.bags.n_instances for piece in fine.pieces()]
        assert all(piece.bags.n_instances <= most or len(piece) == 1 for piece in fine.pieces())
        assert max(sizes) > most / 2
        for i in range(fine.n_pieces):
            assert next(read_pieces([fine.describe(i)])) == data.bags[fine.bag_starts[i] : fine.bag_starts[i + 1]]
        assert fine.finer(80) is fine


def test_unlabelled_bags_text_labels_and_columns_of_zeros_and_ones(tmp_path):
    data = made()
    labelled = np.arange(80) % 3 > 0
    some = replace(data, Y=np.where(labelled[:, None], data.Y, 0), labelled=labelled, instance_labels=None)
    write_dataset(some, tmp_path / "some.parquet")
    source = BagSource.from_parquet(tmp_path / "some.parquet", memory=100_000)
    same(source.pieces(), some)
    assert np.array_equal(source.labelled, labelled)
    assert not source.has_instance_labels
    frame = {"bag": np.repeat(data.bag_names, data.bags.sizes)}
    of_rows = np.repeat(data.Y, data.bags.sizes, axis=0)
    for c, name in enumerate(data.class_names):
        frame[f"label:{name}"] = of_rows[:, c]
    frame |= {f"x{j + 1}": data.bags.instances[:, j] for j in range(8)}
    pyarrow.parquet.write_table(pyarrow.table(frame), tmp_path / "bits.parquet", row_group_size=13)
    same(BagSource.from_parquet(tmp_path / "bits.parquet").pieces(), replace(data, instance_labels=None))
    # one bag writes its labels in two orders, which is the same set
    texts = np.array([";".join(np.array(data.class_names)[row == 1]) for row in of_rows], dtype=object)
    row = int(
        np.flatnonzero((of_rows.sum(axis=1) > 1) & (np.diff(np.repeat(range(80), data.bags.sizes), prepend=-1) == 0))[0]
    )
    texts[row] = ";".join(reversed(texts[row].split(";")))
    rest = {"bag": frame["bag"], "labels": texts, **{f"x{j + 1}": data.bags.instances[:, j] for j in range(8)}}
    pyarrow.parquet.write_table(pyarrow.table(rest), tmp_path / "text.parquet")
    found = BagSource.from_parquet(tmp_path / "text.parquet")
    assert found.class_names == sorted(data.class_names)
    order = [data.class_names.index(name) for name in found.class_names]
    assert np.array_equal(found.Y, data.Y[:, order])


def test_a_dataset_and_other_formats(tmp_path):
    data = made()
    for piece_bags in (1, 7, 1000):
        same(BagSource.from_dataset(data, piece_bags=piece_bags).pieces(), data)
    write_dataset(data, tmp_path / "a.npz")
    source = BagSource.from_file(tmp_path / "a.npz", scratch=tmp_path / "scratch", memory=100_000)
    assert source.n_pieces > 1
    same(source.pieces(), data)
    assert [file.name for file in (tmp_path / "scratch").iterdir()] == ["a.parquet"]
    own = BagSource.from_file(tmp_path / "a.npz")
    folder = os.path.dirname(own.describe(0).path)
    same(own.pieces(), data)
    assert os.path.isdir(folder)
    del own
    assert not os.path.exists(folder)


def test_a_bag_in_two_files_or_two_places(tmp_path):
    data = made()
    write_dataset(data[:40], tmp_path / "a.parquet")
    write_dataset(data[39:], tmp_path / "b.parquet")
    with pytest.raises(
        FormatError, match=r"b.parquet, row 1: the bag 'bag 39' is also in .*a.parquet, row \d+; put all"
    ):
        BagSource.from_parquet(tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.concat_tables([table, table.slice(0, 1)]), tmp_path / "c.parquet")
    with pytest.raises(FormatError, match="the bag 'bag 0' began at row 1 and was left; sort the rows by bag"):
        BagSource.from_parquet(tmp_path / "c.parquet")


def test_files_that_differ(tmp_path):
    data = made()
    write_dataset(data[:40], tmp_path / "a.parquet")
    other = data[40:]
    write_dataset(replace(other, feature_names=[f"y{i}" for i in range(8)]), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match="b.parquet: its columns differ .* in x1, x2"):
        BagSource.from_parquet(tmp_path)
    write_dataset(replace(other, class_names=["wren", "robin", "owl", "crow", "jay"]), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match=r"b.parquet: its metadata names other classes .*\(jay, tit\)"):
        BagSource.from_parquet(tmp_path)
    write_dataset(other, tmp_path / "b.parquet", "parquet-nested")
    with pytest.raises(FormatError, match="b.parquet: it has nested rows"):
        BagSource.from_parquet(tmp_path)
    write_dataset(replace(other, instance_labels=None), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match="b.parquet: its columns differ .* in instance_label"):
        BagSource.from_parquet(tmp_path)


def test_labels_that_differ_within_a_bag(tmp_path):
    X = np.zeros((5, 1))
    for labels, rows in ((["a", "a", "b", "b", "b"], 5), (["a", "a", "b", "b", "a"], 2)):
        table = pyarrow.table({"bag": [1, 1, 2, 2, 2], "labels": labels, "x": X[:, 0]})
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=rows)
        if labels[-1] == "b":
            BagSource.from_parquet(tmp_path / "a.parquet")
            continue
        with pytest.raises(FormatError, match="row 5: the labels differ from the first row of the same bag"):
            BagSource.from_parquet(tmp_path / "a.parquet")
    for lists in ([["a"], ["a"], ["b", "a"], ["a", "b"], ["a", "b", "b"]], [["a"], ["a"], ["b"], ["b"], ["a"]]):
        table = pyarrow.table({"bag": [1, 1, 2, 2, 2], "labels": lists, "x": X[:, 0]})
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
        if lists[-1] == ["a"]:
            with pytest.raises(FormatError, match="row 5: the labels differ"):
                BagSource.from_parquet(tmp_path / "a.parquet")
        else:
            assert BagSource.from_parquet(tmp_path / "a.parquet").Y.tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("how", ["gone", "longer", "touched", "cut off"])
def test_files_that_change_between_passes(tmp_path, how):
    data, path = made(), tmp_path / "a.parquet"
    write_dataset(data, path)
    source = BagSource.from_parquet(path, memory=100_000)
    assert source.n_pieces > 2
    list(source.pieces())
    if how == "gone":
        path.unlink()
    elif how == "longer":
        write_dataset(made(100), path)
    elif how == "touched":
        os.utime(path, ns=(1, 1))
    else:
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FormatError, match=r"a.parquet, piece 1 of \d+ \(rows 1 to \d+\)"):
        next(source.pieces())
    with pytest.raises(FormatError, match=r"a.parquet, piece 3 of"):
        next(read_pieces([source.describe(2)]))


def test_damage_inside_of_a_piece_names_the_piece(tmp_path):
    """Bytes of features overwritten without a change that the system tells."""
    data, path = made(400), tmp_path / "a.parquet"
    write_dataset(data, path)
    regroup(path, 500)
    before = os.stat(path)
    source = BagSource.from_parquet(path, memory=SHARE_OF_MEMORY * 500 * ROW_BYTES)
    raw = bytearray(path.read_bytes())
    metadata = pyarrow.parquet.read_metadata(path)
    column = metadata.row_group(2).column(metadata.num_columns - 1)
    start = column.dictionary_page_offset or column.data_page_offset
    raw[start : start + 20] = b"\xff" * 20
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(FormatError, match=r"a.parquet, piece \d of \d \(rows .*\): it cannot be read"):
        list(source.pieces())


def test_nowhere_to_read_from_and_no_room(tmp_path, monkeypatch):
    with pytest.raises(FormatError, match="the folder holds no parquet file"):
        BagSource.from_parquet(tmp_path)
    with pytest.raises(FormatError, match="no file has such a name"):
        BagSource.from_parquet(str(tmp_path / "*.parquet"))
    with pytest.raises(InputError, match="No file was named"):
        BagSource.from_parquet([])
    write_dataset(made(), tmp_path / "a.npz")
    monkeypatch.setattr(
        "shutil.disk_usage", lambda path: os.statvfs_result((0,) * 10) and type("U", (), {"free": 10})()
    )
    with pytest.raises(InputError, match="has 0 MB left; make room for about .* MB, or name another folder"):
        BagSource.from_file(tmp_path / "a.npz", scratch=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "is full"), (errno.EACCES, "cannot be used")])
def test_a_scratch_folder_that_fills_up_keeps_nothing(tmp_path, monkeypatch, number, words):
    write_dataset(made(), tmp_path / "a.npz")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def fill(descriptor):  # what was written so far cannot be made to stay
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fill)
    for scratch in (tmp_path / "scratch", None):
        with pytest.raises(InputError, match=rf"The scratch folder .* {words}.*make room for about .* MB, or name"):
            BagSource.from_file(tmp_path / "a.npz", scratch=scratch)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "scratch"]


def test_a_bag_that_no_piece_could_hold_is_refused(tmp_path, monkeypatch):
    write_dataset(BagDataset(Bags(np.zeros((5000, 1)), [0, 2, 5000]), np.ones((2, 1))), tmp_path / "a.parquet")
    assert BagSource.from_parquet(tmp_path / "a.parquet", memory="1kB").n_pieces == 2
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "100kB")
    with pytest.raises(MemoryLimitError, match=r"a.parquet: the bag .*, of 4998 instances, needs .* split this bag"):
        BagSource.from_parquet(tmp_path / "a.parquet", memory="1kB")


def test_memory_as_people_write_it():
    assert parse_memory("2GB") == parse_memory("2 gib") == 2 * 2**30
    assert parse_memory("1.5M") == 1.5 * 2**20
    assert parse_memory("1e6") == 10**6
    assert parse_memory(4096) == parse_memory("4096") == 4096
    for wrong in ("much", "2 apples", "0", "-1", "1..5G", "1e999", ""):
        with pytest.raises(InputError, match="is no amount of memory"):
            parse_memory(wrong)


def test_reading_ahead_stays_one_ahead_and_ends():
    made_so_far = []

    def items():
        for i in range(10):
            made_so_far.append(i)
            yield i

    ahead = read_ahead(items())
    for i in ahead:
        assert made_so_far[-1] <= i + 1
        if i == 4:
            break
    ahead.close()
    assert len(made_so_far) <= 7
    assert not [t for t in threading.enumerate() if t.name == "bagwise-read-ahead"]

    def broken():
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(read_ahead(broken()))
    assert list(read_ahead([])) == []


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 7, 8, 21, 64])
def test_the_tree_is_that_of_neighbours(n):
    """As texts, which show the order of the additions."""

    def by_levels(items):
        while len(items) > 1:
            pairs = [f"({a}{b})" for a, b in zip(items[::2], items[1::2], strict=False)]
            items = pairs + ([items[-1]] if len(items) % 2 else [])
        return items[0] if items else None

    texts = [chr(97 + i % 26) for i in range(n)]
    assert tree_sum(texts, lambda a, b: f"({a}{b})") == by_levels(texts)


def test_files_that_came_in_pieces_of_their_own(tmp_path):
    """A file that another program wrote piece by piece, in float32, with whole numbers as names."""
    data = make_gaussian_bags(n_bags=50, random_state=1)
    data = replace(data, bags=Bags(data.bags.instances.astype(np.float32), data.bags.offsets), instance_labels=None)
    write_parquet((data[i : i + 9] for i in range(0, 50, 9)), tmp_path / "a.parquet", nested=False, numbered=True)
    source = BagSource.from_parquet(tmp_path / "a.parquet")
    assert source.dtype == np.float32
    assert isinstance(source.piece(0), BagDataset)
    whole = read_dataset(tmp_path / "a.parquet")
    assert np.array_equal(next(source.pieces()).bags.instances, whole.bags.instances)
