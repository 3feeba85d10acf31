"""AnnData and features of slides, where h5py is installed (make test-formats); files that are made to harm."""

import json
import random
import sys
import zlib
from base64 import b64decode

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from bagwise import Run
from bagwise.app.cli import main
from bagwise.app.formats import read_marks
from bagwise.core.exceptions import FormatError, InputError, MemoryLimitError
from bagwise.datasets import load_slides
from bagwise.io.data import _hdf5
from bagwise.io.data.formats import guess_format, read_dataset, write_dataset

h5py = pytest.importorskip("h5py", reason="make test-formats installs it")
PATIENTS = ["p2", "p1", "p2", "p1", "p3", "p2"]
LABELS = {"p1": "ill", "p2": "ill;old", "p3": ""}
KINDS = ["T", "B", "", "T", "B", "B"]


def cells(path, X, column_of=None):
    """An .h5ad as AnnData lays it out, with plain h5py."""
    text = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        obs, var = file.create_group("obs"), file.create_group("var")
        obs.attrs["_index"] = var.attrs["_index"] = "_index"
        obs.create_dataset("_index", data=[f"cell{i}" for i in range(len(PATIENTS))], dtype=text)
        var.create_dataset("_index", data=[f"gene{i}" for i in range(X.shape[1])], dtype=text)
        patient = obs.create_group("patient")
        names = sorted(set(PATIENTS))
        patient.create_dataset("categories", data=names, dtype=text)
        patient.create_dataset("codes", data=np.array([names.index(p) for p in PATIENTS], dtype=np.int8))
        obs.create_dataset("state", data=[LABELS[p] for p in PATIENTS], dtype=text)
        obs.create_dataset("kind", data=KINDS, dtype=text)
        if sp.issparse(X):
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = f"{X.format}_matrix", X.shape
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(X, name))
        else:
            file.create_dataset("X", data=X)
    return path


def matrix():
    X = np.arange(18.0).reshape(6, 3)
    X[::2, 1] = 0.0
    return X


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_patients_are_bags(tmp_path, form):
    path, X = cells(tmp_path / "a.h5ad", form(matrix())), matrix()
    assert guess_format(path) == "h5ad"
    data = read_dataset(path, bag="patient", labels="state", instance_label="kind")
    assert data.bag_names == ["p2", "p1", "p3"]  # in order of appearance
    for name, bag, kinds in zip(data.bag_names, data.bags, data.instance_labels, strict=True):
        rows = [i for i, patient in enumerate(PATIENTS) if patient == name]
        np.testing.assert_array_equal(bag.toarray() if sp.issparse(bag) else bag, X[rows])
        assert [data.class_names[k] if k >= 0 else "" for k in kinds] == [KINDS[i] for i in rows]
    sets = dict(zip(data.bag_names, data.label_sets, strict=True))
    assert sets == {"p1": {"ill"}, "p2": {"ill", "old"}, "p3": None}
    assert data.feature_names == ["gene0", "gene1", "gene2"]
    assert list(data.locations["cell"]) == ["cell0", "cell2", "cell5", "cell1", "cell3", "cell4"]


def test_what_anndata_writes_is_read(tmp_path):
    anndata = pytest.importorskip("anndata", reason="make test-formats installs it")
    import pandas as pd

    given = {"patient": PATIENTS, "state": [LABELS[p] for p in PATIENTS]}
    columns = {name: pd.Categorical(pd.Series(column, dtype=object)) for name, column in given.items()}
    obs = pd.DataFrame(columns, index=pd.Index([f"cell{i}" for i in range(6)], dtype=object))
    var = pd.DataFrame(index=pd.Index(["gene0", "gene1", "gene2"], dtype=object))
    for form in (np.asarray, sp.csr_matrix):
        made = anndata.AnnData(X=form(matrix()), obs=obs, var=var)
        made.write_h5ad(tmp_path / "b.h5ad")
        data = read_dataset(tmp_path / "b.h5ad", bag="patient", labels="state")
        again = read_dataset(cells(tmp_path / "a.h5ad", form(matrix())), bag="patient", labels="state")
        assert data.bag_names == again.bag_names
        assert abs(data.bags.instances - again.bags.instances).max() == 0
        np.testing.assert_array_equal(data.Y, again.Y)


def slide(path, n, seed, size=512.0, batch=False):
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(n, 4)) + seed % 2).astype(np.float32)
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=features[None] if batch else features)
        coords = file.create_dataset("coords", data=512 * np.column_stack([np.arange(n), np.arange(n) % 3]))
        coords.attrs["patch_size_level0"] = size
    return features


def test_slides_to_annotations_in_qupath(tmp_path):
    (tmp_path / "slides").mkdir()
    made = [slide(tmp_path / "slides" / f"s{i:02}.h5", 5 + i % 3, i, batch=i == 0) for i in range(12)]
    data = load_slides(tmp_path / "slides")
    np.testing.assert_array_equal(data.bags.instances, np.concatenate(made))
    assert data.bag_names == [f"s{i:02}" for i in range(12)]
    assert [data.locations[key][1] for key in ("left", "top", "width", "height")] == [512.0, 512.0, 512.0, 512.0]
    labels = "bag,label\n" + "".join(f"s{i:02},{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "labels.csv").write_text(labels)
    write_dataset(data, tmp_path / "slides.parquet")
    options = {"labels": tmp_path / "labels.csv", "page": False, "formats": ["csv", "qupath"], "max_noise": 0.5}
    with Run.create(tmp_path / "slides.parquet", tmp_path / "run", **options) as run:
        rows = run.annotations()
        documents = [json.loads((tmp_path / "run" / "qupath" / f"s{i:02}.geojson").read_text()) for i in range(12)]
        shapes = {one["properties"]["name"]: one for document in documents for one in document["features"]}
        named = [row for row in rows if row["label"] and (row["noise"] or 0) <= 0.5]
        assert shapes.keys() == {f"{row['bag']}#{row['instance']}" for row in named}
        for row in named:
            shape = shapes[f"{row['bag']}#{row['instance']}"]
            (ring,) = shape["geometry"]["coordinates"]
            assert [min(x for x, _ in ring), max(y for _, y in ring)] == [row["left"], row["top"] + 512]
            assert shape["properties"]["classification"]["name"] == row["label"]
        assert run.compare(tmp_path / "run" / "qupath", "qupath") == ([], [])
        path = tmp_path / "run" / "qupath" / f"{named[0]['bag']}.geojson"
        other = "b" if named[0]["label"] == "a" else "a"
        document = json.loads(path.read_text())
        document["features"][0]["properties"]["classification"]["name"] = other
        document["features"].append({"type": "Feature", "properties": {"name": "drawn by hand"}})
        path.write_text(json.dumps(document))
        assert run.compare(path, "qupath") == ([(named[0]["bag"], named[0]["instance"], other)], [])


def test_one_slide_is_a_bag_for_every_command(tmp_path):
    slide(tmp_path / "s.h5", 7, 0)
    done = CliRunner().invoke(main, ["convert", str(tmp_path / "s.h5"), str(tmp_path / "s.parquet")])
    assert "a slide of 7 patches" in done.output
    with pytest.raises(InputError, match="read only"):
        write_dataset(read_dataset(tmp_path / "s.h5"), tmp_path / "t.h5")


# -- files that are made to harm ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "say which column names the bag .--bag.; there are kind, patient, state"),
        ({"bag": "donor"}, "there is no 'donor' in it"),
        ({"bag": "patient", "labels": "kind"}, "have different 'kind'"),
    ],
)
def test_columns_that_do_not_fit(tmp_path, options, words):
    with pytest.raises(FormatError, match=words):
        read_dataset(cells(tmp_path / "a.h5ad", matrix()), **options)


def test_nothing_outside_of_the_file_is_opened(tmp_path):
    path = tmp_path / "s.h5"
    slide(tmp_path / "other.h5", 3, 0)
    (tmp_path / "raw").write_bytes(bytes(96))

    def external(file):
        file["features"] = h5py.ExternalLink("other.h5", "/features")

    def soft(file):
        file["features"] = h5py.SoftLink("/coords")

    def raw(file):
        file.create_dataset("features", (3, 4), "f8", external=[(str(tmp_path / "raw"), 0, 96)])

    def virtual(file):
        layout = h5py.VirtualLayout((3, 4), "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "features", (3, 4))
        file.create_virtual_dataset("features", layout)

    for make, words in ((external, "no links"), (soft, "no links"), (raw, "other files"), (virtual, "other files")):
        with h5py.File(path, "w") as file:
            make(file)
            file.create_dataset("coords", data=np.zeros((3, 2)))
        with pytest.raises(FormatError, match=words):
            read_dataset(path)


def test_sizes_are_looked_at_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "200MB")
    with h5py.File(tmp_path / "s.h5", "w") as file:  # a terabyte that nobody wrote takes no room in the file
        file.create_dataset("features", (2**30, 256), "f4", chunks=(1024, 256), compression="gzip")
        file.create_dataset("coords", data=np.zeros((3, 2)))
    with pytest.raises(MemoryLimitError, match="features"):
        read_dataset(tmp_path / "s.h5")


@pytest.mark.parametrize(
    "features", [np.zeros((0, 4)), np.zeros((2, 3, 4)), np.zeros(3), np.array([["a"]], dtype="S1"), np.zeros((4, 4))]
)
def test_arrays_that_are_no_features(tmp_path, features):
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("features", data=features)
        file.create_dataset("coords", data=np.zeros((3, 2)))
    with pytest.raises(FormatError, match=r"s\.h5"):
        read_dataset(tmp_path / "s.h5")


def test_texts_that_all_lie_in_one_place_are_counted(tmp_path, monkeypatch):
    """A file of two megabytes whose names would take four gigabytes."""
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "200MB")
    path = cells(tmp_path / "a.h5ad", matrix())
    with h5py.File(path, "r+") as file:
        del file["obs/state"]
        file["obs"].create_dataset("state", data=["x" * 2**20] + [""] * 4095, dtype=h5py.string_dtype())
        place = file["obs/state"].id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[place : place + 16 * 4096] = raw[place : place + 16] * 4096
    path.write_bytes(bytes(raw))
    with pytest.raises(MemoryLimitError, match="'state'"):
        read_dataset(path, bag="patient", labels="state")


@pytest.mark.parametrize("name", ["obs", "var"])
def test_columns_that_are_an_array_without_end(tmp_path, name):
    with h5py.File(cells(tmp_path / "a.h5ad", matrix()), "r+") as file:
        del file[name]
        file.create_dataset(name, (2**40,), "f4", chunks=(1024,))
    with pytest.raises(FormatError, match=rf"a\.h5ad: '{name}' is an array; expected a group"):
        read_dataset(tmp_path / "a.h5ad", bag="patient")


HOLDS_UP = (
    "eNrtWs1PE0EUn9l+F4otn6WIEgwfBtHyYWLigaqAPSg0ikZPsLYVGmvbtBsC/gV4MSTePXPiaDh5NP4NnjwZjp684n68aWee3bZUQqid3+Xte/M6"
    "0539vTdvZvd9fHE54I/4iQGvlzhJkPA4AXyfEXXWvgGSgtwDeaAwOzXbwmAPQf/Yb+3J0pLhfYLAxvnhsqT47yTaBfGlewlDvgB9BOQ3RfTLvyqZ"
    "clstEt6f8fPOKcelxCHwNwgMPPaJ/K/H36MhS4blo5T81THJ8qVL9FvP5FLpHUIKqpZJ5zRS0lQtrdvf6Haex9EGx326srpocJjxbvy6GA8roOem"
    "LOll8eUQ/eKgb6E8POkR/RKgF3z/1/OzywPxyOnyQOGKOM8S7Z0HWBzt+6rngXL8/eO4rO7CcdxJYsBvD+nVWcnGHaTU/EWwHNteIc7dRl/+Suw/"
    "fLD6iHI3xPvx96PY2OFvEZYOk+lsdk6Xzir2eU7n7be5fnn7rC49VewzXBzydiO3+lDd8A6kH9l3QXYg+w5h82uB3XdhzpIBbJ+1ZBe2Q919CXQ2"
    "T5lstmo9HALpqfjdzWdTpNvG3mPTb6+Nfx+6zzWQ/ch+H+SAjR3XQYOEfFx59jjxkop+EZvxhtDzSJaK629VrZjZEfstBGTOkZCQkJCQkJCQkJCQ"
    "OEuw8wV8/ncW5wuKaXdZbZTtB60dJKVUOE9wl/ezYdPVbhyXLg1dUSyzF/pzUDJs9bCB7nDvQs23da7rLJ9fHERq+4+A/DxR24+dJxxfFffdQegg"
    "Oiru35fHW5u3Lo5nXqR7kO5GugPpTqS7GuCtgxAkm+XtETyxaAvwlpZ5uzEsc2czoBzPOpDuR7qP2L+Hx3Fd9z3mNTH+JdoLdu/hE6OiX1LV0pv5"
    "YiZdAj2fMi+bfw9/XnmUjLVOHlUq6/9obX8Wr9ExyWEeCpcnu5AeQHpnU3Vo0HQNeu34pyD+xcbFHhj2L+g6pLOQnl91/nyiFapzD8eaXshKTO9B"
    "7d2onb3pY3oQ+YfOdTf0dbIV5puvdiJIH0TzGUbtfUjvR/qAqTurfv3xE76aOSKNVU+H07J6ktXT39XThynRL6VqqiEzuVQmqddNuixoxearJ1bt"
    "46+9OuG7EqqvfcbpTDqn12mZ3Oa0tltIk/qnNH4uToaE/tz6dZiUtlSzH2P1s34ZE/KUwq3CYr5qrOpjX0t0oTwXGlkojzffQeZPHKTOqvv7Jpxb"
    "tUDV5yhXfZ9uNHaa8/pWY9XhYbSdovHXAlzE4PwHZDB21u2n53GlanRymcKev9vR6pnholaNlZinVWwKslVk7Xn0cPVXc/P4Bb63utwS88jmygn3"
    "7INdisGjPxCeEf8="
)
"""An .h5ad with an attribute that libhdf5 reads for ever, compressed; `make fuzz` found it."""


CRASHES = (
    "eNrr9HBx4+WS4mIAAQ4OBhYGAQZk8B8KcoRR+TD5BCjNCKU7oPQKJpg4I1hOAiouCDUfXV1IkKsrSPV/NACzx4AFQnMwjIKRCDxcHQNAdASUrwCl"
    "TzChqktLTSwpLUothvGT8/OLUooR6dOCRHsZGdggehlhfIgJjMyMKOmeFUqzoOUHdHFmYE4AyQkqyEPFFBjEORjE6+HqOcDyTMxMYCO4gfIgBiMj"
    "TD8k/6TlpJYkZ6QWGRvB8gUkRJiZWCpYEU5ghVrNgvCRBUXxEOzn78LIwATPzzxC+NXD8qsC82gaRgag8o4Ro7zjI1r/DkH0dIo9vbGMBvUoGAWj"
    "YBSMglEwCkbBKBgFQx7k7Gewq3dj37f3k7L9/avXbBcqcu7/q7TTrvLlMvtnxUX2/9RN9of+XLj/VZ/8/jxXTVu/syIH3nAl7GOumr//Qan1/v4Q"
    "7v0Snxbusz14yU6ksNVecGG4JWZfVwNCQ7qi8L4FE1pfg4kB0TcFqRTggPX7HFD7tEwQgzigvUdmRhnoqFIAit94GDyg9gsxiABVFyQCu7rxxZlV"
    "qfE5qWWpOQZQdYIK9nB7TLgZTP4zo/aFIKAB6AgDisKaEcOfqH0rWDiwQWl2tL4vJ5QGANTPfCQ="
)
"""A slide over which libhdf5 2.0 crashes, likewise."""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing limits what a process may compute there")
def test_files_that_hold_up_the_library(tmp_path, monkeypatch):
    monkeypatch.setattr(_hdf5, "SECONDS", 3.0)
    path = tmp_path / "it.h5ad"
    path.write_bytes(zlib.decompress(b64decode(HOLDS_UP)))
    with pytest.raises(FormatError, match=r"it\.h5ad: it is damaged: the HDF5 library crashed"):
        read_dataset(path, bag="patient")


def test_files_over_which_the_library_crashes(tmp_path):
    """The second of two; what another version of the library says is in order too."""
    slide(tmp_path / "a.h5", 4, 0)
    (tmp_path / "b.h5").write_bytes(zlib.decompress(b64decode(CRASHES)))
    with pytest.raises(FormatError, match=r"b\.h5: it is damaged"):
        load_slides(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no process copies itself there")
def test_damaged_bytes_raise_nothing_but_our_errors(tmp_path, monkeypatch):
    from benchmarks.fuzz.hdf5 import try_first

    monkeypatch.setattr(_hdf5, "_try_first", try_first)
    makers = (lambda p: cells(p.with_suffix(".h5ad"), sp.csr_matrix(matrix())), lambda p: slide(p, 6, 0))
    rng, refused = random.Random(0), []
    for make, name, options in zip(
        makers, ("a.h5ad", "a.h5"), ({"bag": "patient", "labels": "state"}, {}), strict=True
    ):
        make(tmp_path / "a.h5")
        raw = (tmp_path / name).read_bytes()
        for i in range(150):
            damaged = bytearray(raw[: rng.randrange(1, len(raw))] if i % 3 == 0 else raw)
            for _ in range(rng.randrange(1, 12)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            (tmp_path / name).write_bytes(bytes(damaged))
            try:
                read_dataset(tmp_path / name, **options)
            except (FormatError, InputError, MemoryLimitError) as error:
                refused.append((name, str(error)))
    assert len(refused) > 50
    assert all(name in message for name, message in refused)


def test_marks_of_qupath_need_features(tmp_path):
    (tmp_path / "x.geojson").write_text("3")
    slide(tmp_path / "s.h5", 7, 0)
    write_dataset(read_dataset(tmp_path / "s.h5"), tmp_path / "s.parquet")
    from bagwise.app.formats import Annotations
    from bagwise.app.media.media_types import TABLE

    scene = Annotations(TABLE, [], [], [])
    with pytest.raises(FormatError, match="no features of GeoJSON"):
        read_marks(tmp_path / "x.geojson", scene, "qupath")
