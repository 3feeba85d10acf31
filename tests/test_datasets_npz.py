"""`load_npz`: what it reads, and how it refuses what it cannot read."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bagwise.core.exceptions import FormatError, MemoryLimitError
from bagwise.datasets import load_npz

# Bags, instances, labelled instances (None: no key y), features, classes, labels per bag: data/README.md.
REAL_SETS = {
    "hja_birdsong": (548, 10232, 4998, 38, 13, 2.022),
    "hja_birdsong_filtered": (548, 4998, 4998, 38, 13, 2.022),
    "msrc_v2": (591, 1758, 1758, 48, 23, 2.508),
    "letter_frost_rebuilt": (144, 565, 565, 16, 26, 3.604),
    "letter_carroll_rebuilt": (166, 717, 717, 16, 26, 3.934),
    "miml_scene": (2000, 18000, None, 15, 5, 1.236),
    "miml_reuters": (2000, 7119, None, 243, 7, 1.154),
    "musk1": (92, 476, None, 166, 1, 0.511),
}


@pytest.fixture
def data_folder():
    repository = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("BAGWISE_DATA") or repository.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no real data: neither BAGWISE_DATA nor ../shared/data is a folder")
    return folder


def small_arrays():
    """Three bags of 1, 2 and 3 instances, two features, two classes."""
    return {
        "X": np.arange(12.0).reshape(6, 2),
        "bag": np.array([0, 1, 1, 2, 2, 2]),
        "Y": np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8),
        "y": np.array([0, 1, -1, 0, 1, 1]),
        "class_names": np.array(["owl", "wren"]),
        "feature_names": np.array(["pitch", "length"]),
        "bag_names": np.array(["dawn", "noon", "dusk"]),
    }


def write(folder, drop=(), **changes):
    arrays = {key: value for key, value in (small_arrays() | changes).items() if key not in drop}
    path = folder / "small.npz"
    np.savez_compressed(path, **arrays)
    return path


def npy_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header_bytes(description, version=1):
    """A hand-made .npy header."""
    text = description.encode("latin1") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


def write_members(folder, compression=zipfile.ZIP_DEFLATED, **members):
    """An .npz file some of whose members are given as raw bytes."""
    raw = {key: npy_bytes(array) for key, array in small_arrays().items()} | members
    path = folder / "made.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for key, content in raw.items():
            archive.writestr(f"{key}.npy", content)
    return path


# ------------------------------------------------------------------------------------------------------------
# What is read


def test_reads_every_array(tmp_path):
    data = load_npz(write(tmp_path, something_else=np.ones((9, 9))))
    assert data.name == "small"
    assert data.bags.sizes.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(data.bags.instances, np.arange(12.0).reshape(6, 2))
    assert data.label_sets == [{"owl"}, {"wren"}, {"owl", "wren"}]
    assert data.instance_labels.instances.tolist() == [0, 1, -1, 0, 1, 1]
    assert data.instance_labels.sizes.tolist() == [1, 2, 3]
    assert data.class_names == ["owl", "wren"]
    assert type(data.class_names[0]) is str
    assert data.feature_names == ["pitch", "length"]
    assert data.bag_names == ["dawn", "noon", "dusk"]
    assert data.locations is None


def test_optional_arrays_may_be_absent(tmp_path):
    data = load_npz(str(write(tmp_path, drop=("y", "class_names", "feature_names", "bag_names"))))
    assert data.instance_labels is None
    assert data.feature_names is None
    assert data.bag_names == list(range(len(data)))
    assert data.labelled.all()
    assert data.class_names == [0, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"X": np.arange(12).reshape(6, 2)},
        {"X": np.arange(12, dtype=">f8").reshape(6, 2)},
        {"X": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(6, 2))},
        {"bag": np.array([0, 1, 1, 2, 2, 2], dtype=np.uint64)},
        {"bag": np.array([0, 1, 1, 2, 2, 2], dtype=np.int8)},
        {"Y": np.array([[True, False], [False, True], [True, True]])},
        {"Y": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])},
        {"y": np.array([0, 1, -1, 0, 1, 1], dtype=np.int8)},
    ],
    ids=lambda changes: f"{next(iter(changes))}-{next(iter(changes.values())).dtype}",
)
def test_any_fitting_dtype_gives_the_same(tmp_path, changes):
    expected, got = load_npz(write(tmp_path)), load_npz(write(tmp_path, **changes))
    assert got.bags == expected.bags
    assert got.instance_labels == expected.instance_labels
    np.testing.assert_array_equal(got.Y, expected.Y)
    assert got.Y.dtype == np.uint8


def test_integer_class_names_become_python_ints(tmp_path):
    data = load_npz(write(tmp_path, class_names=np.array([7, 9])))
    assert data.class_names == [7, 9]
    assert type(data.class_names[0]) is int


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8), seed=st.integers(0, 2**32 - 1))
def test_round_trip(tmp_path, sizes, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(sum(sizes), 3)), rng.integers(0, 2, (len(sizes), 4))
    path = tmp_path / "random.npz"
    np.savez(path, X=X, bag=np.repeat(np.arange(len(sizes)), sizes), Y=Y)
    data = load_npz(path)
    for i, (got, expected) in enumerate(zip(data.bags, np.split(X, np.cumsum(sizes)[:-1]), strict=True)):
        np.testing.assert_array_equal(got, expected)
        assert data.label_sets[i] == set(np.flatnonzero(Y[i]).tolist())


@pytest.mark.parametrize("name", REAL_SETS)
def test_real_files_have_the_published_counts(data_folder, name):
    path = data_folder / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the real data")
    n_bags, n_instances, n_labelled, n_features, n_classes, labels_per_bag = REAL_SETS[name]
    data = load_npz(path)
    assert (len(data), data.bags.n_instances, data.bags.n_features) == (n_bags, n_instances, n_features)
    assert data.Y.shape == (n_bags, n_classes)
    assert data.Y.sum(axis=1).mean() == pytest.approx(labels_per_bag, abs=5e-4)
    labelled = None if data.instance_labels is None else int((data.instance_labels.instances >= 0).sum())
    assert labelled == n_labelled


# ------------------------------------------------------------------------------------------------------------
# What is refused


def test_bags_without_labels(tmp_path):
    data = load_npz(write(tmp_path, drop=("Y", "y", "class_names")))
    assert data.Y is None
    assert data.instance_labels is None
    assert len(data) == len(load_npz(write(tmp_path)))


@pytest.mark.parametrize("key", ["X", "bag"])
def test_missing_array(tmp_path, key):
    with pytest.raises(FormatError, match=rf"small\.npz has no array '{key}' \(arrays found: .*savez_compressed"):
        load_npz(write(tmp_path, drop=(key,)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.ones(6)}, r"X has shape \(6,\) .* expected a 2-d array of numbers"),
        ({"X": np.full((6, 2), "a")}, "X has .* dtype <U1; expected a 2-d array of numbers"),
        ({"X": np.ones((6, 2), dtype=complex)}, "X has .* dtype complex128; expected"),
        ({"X": np.ones((6, 0))}, "X has shape .*at least one instance and one feature"),
        ({"X": np.ones((0, 2)), "bag": np.ones(0, dtype=int)}, "X has shape .*at least one instance"),
        ({"bag": np.zeros((6, 1), dtype=int)}, r"bag has shape \(6, 1\) .* expected a 1-d array of integers"),
        (
            {"bag": np.array([0, 1, 1, 2, 2, 2.0])},
            "bag has .* dtype float64; expected a 1-d array of integers",
        ),
        ({"bag": np.array([0, 1, 1, 2, 2])}, "bag has 5 entries but X has 6 rows; save the bag index"),
        ({"bag": np.array([1, 1, 1, 2, 2, 2])}, "bag starts at 1; expected 0"),
        ({"bag": np.array([-1, 0, 1, 2, 2, 2])}, "bag starts at -1; expected 0"),
        ({"bag": np.array([0, 1, 2, 1, 2, 2])}, "not sorted: row 2 has 2 and row 3 has 1; sort X, bag and y"),
        ({"bag": np.array([0, 2, 1, 2, 2, 2], dtype=np.uint8)}, "not sorted: row 1 has 2 and row 2 has 1"),
        (
            {"bag": np.array([0, 1, 1, 3, 3, 3])},
            "bag goes from 1 to 3 at row 3.*number the bags without gaps",
        ),
        ({"Y": np.ones((2, 2))}, "Y has 2 rows but bag counts 3 bags; save one row for each bag"),
        ({"Y": np.ones(3)}, r"Y has shape \(3,\) .* expected a 2-d array of zeros and ones"),
        ({"Y": np.ones((3, 0))}, "Y has no columns; save one column for each class"),
        ({"Y": np.array([[1, 0], [0, 2], [1, 1]])}, "holds 2 at bag 1, class 1; expected only 0 and 1"),
        (
            {"Y": np.array([[1, 0], [0, 1], [np.nan, 1]])},
            "holds nan at bag 2, class 0; expected only 0 and 1",
        ),
        ({"y": np.array([0, 1, 2, 0, 1, 1])}, "y holds 2 at row 2 but there are 2 classes; use 0 to 1, and -1"),
        ({"y": np.array([0, 1, 1, 0, -2, 1])}, "y holds -2 at row 4 but"),
        ({"y": np.zeros(5, dtype=int)}, "y has 5 entries but X has 6 rows; save one class index"),
        ({"y": np.zeros(6)}, "y has .* dtype float64; expected a 1-d array of integers"),
        ({"class_names": np.array(["owl"])}, "class_names has 1 entries but there are 2 columns of Y"),
        ({"class_names": np.array(["owl", "owl"])}, "one distinct name per column"),
        ({"class_names": np.array([b"owl", b"wren"])}, r"class_names has .* dtype \|S4; .*astype\(str\)"),
        ({"feature_names": np.array(["a", "b", "c"])}, "feature_names has 3 entries but there are 2 columns"),
        ({"bag_names": np.array(["a", "b"])}, "bag_names has 2 entries but there are 3 bags; save one name"),
        ({"bag_names": np.array("dawn")}, r"bag_names has shape \(\) .* expected a 1-d array of strings"),
    ],
)
def test_inconsistent_arrays(tmp_path, changes, message):
    with pytest.raises(FormatError, match=r"small\.npz: .*" + message):
        load_npz(write(tmp_path, **changes))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_not_finite_names_bag_and_row(tmp_path, value, word):
    X = small_arrays()["X"]
    X[4, 1] = value
    with pytest.raises(FormatError, match=rf"small\.npz: .*{word}.* in bag 2, row 1 of that bag, feature 1"):
        load_npz(write(tmp_path, X=X))


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    names = np.array([Trap(), Trap()], dtype=object)
    with pytest.raises(FormatError, match=r"small\.npz: .*'class_names' holds Python objects.*astype\(str\)"):
        load_npz(write(tmp_path, class_names=names))


def test_missing_file(tmp_path):
    with pytest.raises(FormatError, match=r"nowhere\.npz does not exist; check the path") as caught:
        load_npz(tmp_path / "nowhere.npz")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_folder(tmp_path):
    with pytest.raises(FormatError, match=r"is a folder; give the path of one file"):
        load_npz(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; there is nothing to read in it"),
        (b"X,bag,Y\n1,0,1\n", "is no .npz file .*another kind of file; write it with numpy.savez_compressed"),
        (
            npy_bytes(np.ones((3, 2))),
            "is no .npz file .*a single .npy array; write it with numpy.savez_compressed",
        ),
    ],
    ids=["empty", "text", "npy"],
)
def test_not_a_zip(tmp_path, content, message):
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"other\.npz " + message):
        load_npz(path)


def test_truncated_anywhere(tmp_path):
    path = write(tmp_path)
    whole = path.read_bytes()
    for length in range(2, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"small\.npz .*copy or download it again"):
            load_npz(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_raise_anything_else(tmp_path, data):
    content = bytearray(write(tmp_path).read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.npz"
    path.write_bytes(content)
    try:
        loaded = load_npz(path)
    except FormatError:  # the only error that may come
        return
    assert len(loaded) == 3


def test_damaged_contents_fail_the_checksum(tmp_path):
    path = write_members(tmp_path, compression=zipfile.ZIP_STORED)
    content = path.read_bytes()
    value = np.float64(7.0).tobytes()
    assert content.count(value) == 1
    path.write_bytes(content.replace(value, np.float64(8.5).tobytes()))
    with pytest.raises(FormatError, match=r"'X': it is damaged.*Bad CRC-32"):
        load_npz(path)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ("(10**12, 2)", "<f8"),
        ("(1000000000000, 2)", "<f8"),
        ("(7, 2)", "<f8"),
        ("(-6, -2)", "<f8"),
        ("(6, 2)", "<U0"),
    ],
)
def test_header_that_claims_more_than_there_is(tmp_path, shape, dtype):
    header = header_bytes(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}")
    path = write_members(tmp_path, X=header + small_arrays()["X"].tobytes())
    with pytest.raises(FormatError, match=r"made\.npz: the array 'X'( claims shape|: it is damaged)"):
        load_npz(path)


def test_huge_array_of_zeros_meets_the_memory_limit(tmp_path, monkeypatch):
    path = write(tmp_path, X=np.zeros((6, 20000)))
    assert path.stat().st_size < 20000
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "500000")
    with pytest.raises(MemoryLimitError, match=r"small\.npz: the array 'X' needs"):
        load_npz(path)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (b"", "it is damaged"),
        (b"not an array at all", "it is damaged.*magic string"),
        (header_bytes("{'descr': '<f8'}"), "it is damaged"),
        (header_bytes("{" * 500), "it is damaged"),
        (
            header_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", version=3),
            "format version",
        ),
        (header_bytes("a" * 20000), "it is damaged"),
    ],
    ids=["nothing", "text", "keys", "brackets", "version", "long"],
)
def test_foreign_member(tmp_path, member, message):
    with pytest.raises(FormatError, match=rf"made\.npz: the array 'X': .*{message}"):
        load_npz(write_members(tmp_path, X=member))


def test_names_that_are_no_characters(tmp_path):
    header = header_bytes("{'descr': '<U1', 'fortran_order': False, 'shape': (2,)}")
    path = write_members(tmp_path, class_names=header + np.array([0x41, 0x7FFFFFFF], "<u4").tobytes())
    with pytest.raises(FormatError, match=r"made\.npz: class_names is no valid text"):
        load_npz(path)


def test_foreign_compression(tmp_path):
    path = write_members(tmp_path, compression=zipfile.ZIP_BZIP2)
    with pytest.raises(FormatError, match="'X' is compressed in a way that numpy does not write"):
        load_npz(path)
