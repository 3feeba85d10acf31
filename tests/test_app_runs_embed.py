"""From a folder to the report with vectors of networks trained elsewhere: made here, or brought along as a table."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pandas
import pytest
import soundfile
from click.testing import CliRunner
from joblib.externals.loky import get_reusable_executor
from PIL import Image

import onnx_examples as nets
from bagwise import load
from bagwise.app.cli import main
from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media.embedding import read_embedding
from bagwise.app.media.media_types import MEDIA
from bagwise.app.review.review import Review
from bagwise.app.runs import Run
from bagwise.app.runs._features import Source, read_files
from bagwise.core.exceptions import InputError
from bagwise.io.data.vectors import read_vector_file

pytest.importorskip("onnxruntime")

TONES = {"low": 1000, "middle": 3000, "high": 6000}
PAIRS = [
    ("low",),
    ("high",),
    ("middle",),
    ("low", "high"),
    ("low", "middle"),
    ("middle", "high"),
    ("high", "low"),
    ("low",),
    ("middle",),
    ("high", "middle"),
]


def write_labels(folder, names, sets):
    rows = [f"{name},{';'.join(sorted(labels))}" for name, labels in zip(names, sets, strict=True)]
    (folder / "labels.csv").write_text("\n".join(["file,labels", *rows]) + "\n")


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Ten recordings of three seconds with three calls each, and the network beside them."""
    folder = tmp_path_factory.mktemp("sounds")
    (folder / "media").mkdir()
    rng, t = np.random.default_rng(0), np.arange(3 * nets.RATE) / nets.RATE
    truth = {}
    for i, labels in enumerate(PAIRS):
        samples = 0.002 * rng.standard_normal(len(t))
        sung = [labels[j % len(labels)] for j in range(3)]
        for start, label in zip((0.3, 1.25, 2.2), sung, strict=True):
            inside = (t >= start) & (t < start + 0.3)
            samples[inside] += 0.3 * np.sin(2 * np.pi * TONES[label] * t[inside])
        soundfile.write(folder / "media" / f"{i}.wav", samples, nets.RATE)
        truth[f"{i}.wav"] = sung
    write_labels(folder, truth, PAIRS)
    nets.sound_network(folder / "net.onnx", notes={"rate": str(nets.RATE)})
    return folder, truth


def annotate(folder, out, **options):
    options = {"labels": folder / "labels.csv", "jobs": 1, "page": False, "formats": ["csv"], **options}
    return Run.create(folder / "media", out, **options)


@pytest.fixture(scope="module")
def run_of_sounds(sounds, tmp_path_factory):
    folder, _ = sounds
    out = tmp_path_factory.mktemp("run") / "out"
    annotate(folder, out, embed=folder / "net.onnx", join=False, page=True).close()
    return out


def named_right(rows, truth):
    """Share of the syllables that bear the name of the call in which their middle lies."""
    calls = np.array([0.45, 1.4, 2.35])
    right = [
        row["label"] == truth[row["file"]][int(np.abs(calls - (row["start"] + row["end"]) / 2).argmin())]
        for row in rows
    ]
    return np.mean(right)


def test_sounds_from_folder_to_report(sounds, run_of_sounds):
    folder, truth = sounds
    page = (run_of_sounds / "report.html").read_text(encoding="utf-8")
    assert "net.onnx" in page
    manifest = json.loads((run_of_sounds / "manifest.json").read_text())
    about = read_embedding(folder / "net.onnx", MEDIA["audio"], {}, join=False).about
    assert manifest["identity"]["embedded"] == about
    with Run.open(run_of_sounds) as run:
        rows = run.annotations()
        assert named_right(rows, truth) > 0.9
        dataset = run.material.dataset
        assert dataset.feature_names == [f"embed{i}" for i in range(nets.BANDS)]
    recipe = load(run_of_sounds / "model.bagwise").featurizer_
    assert recipe["embedded"] == about
    # the vectors are those of the network, file by file
    embedding = read_embedding(folder / "net.onnx", MEDIA["audio"], {}, join=False)
    for name in ("0.wav", "5.wav"):
        path = folder / "media" / name
        found = MEDIA["audio"].read_file(path, name, MEDIA["audio"].make_settings())
        own = np.array(dataset.locations["file"]) == name
        with MEDIA["audio"].opened(path) as sound:
            vectors = embedding.describe(sound, name, found).vectors
        np.testing.assert_array_equal(dataset.bags.instances[own], vectors)


def test_scores_of_a_network_that_knows_the_labels(sounds, tmp_path):
    """Labels of its list get a feature of their own, which linear learners are given; others do without."""
    folder, truth = sounds
    network = nets.scoring_network(tmp_path / "net.onnx", [1, 4])
    (tmp_path / "net_Labels.txt").write_text("Vox ima_LOW\nVox media_Middle\nVox alia_Other\nVox altera_Another\n")
    with annotate(folder, tmp_path / "run", embed=network, model="auto", page=True) as run:
        dataset, rows, result = run.material.dataset, run.annotations(), run.result()
        assert dataset.feature_names[-3:] == [f"embed{nets.BANDS - 1}", "score of low", "score of middle"]
        loud = dataset.bags.instances[:, -nets.BANDS - 2 :]
        np.testing.assert_allclose(loud[:, -2:], np.clip(2 * loud[:, [1, 4]], -15, 15), rtol=1e-5)
        assert named_right(rows, truth) > 0.9
        (itself,) = [row for row in result.choice["rows"] if row["model"] == "the network itself"]
        assert itself["labels"] == 2
        assert itself["explained"] < 1.0  # it knows nothing of one of the three
        assert any("knows 2 of the labels" in remark for remark in result.remarks)
    assert "the network itself" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    labels = (folder / "labels.csv").read_text() + "8.wav,other\n"  # known too, but the run goes on as it is
    (tmp_path / "more.csv").write_text(labels.replace("8.wav,middle\n", ""))
    with annotate(folder, tmp_path / "same", embed=network, labels=tmp_path / "more.csv") as run:
        assert run.material.dataset.feature_names[-2:] == ["score of middle", "score of other"]
    shutil.copy(folder / "labels.csv", tmp_path / "more.csv")
    with annotate(folder, tmp_path / "same", embed=network, labels=tmp_path / "more.csv") as run:
        assert run.result().n_reused == len(PAIRS)
        assert run.material.dataset.feature_names[-2:] == ["score of middle", "score of other"]
    (tmp_path / "net_Labels.txt").unlink()  # the model knows which of its scores it takes
    with annotate(folder, tmp_path / "linear", embed=network) as run:
        assert not any(name.startswith("score of") for name in run.material.dataset.feature_names)
    again = {"labels": None, "model": tmp_path / "run" / "model.bagwise", "embed": network}
    with annotate(folder, tmp_path / "again", **again) as run:
        np.testing.assert_array_equal(run.material.dataset.bags.instances, dataset.bags.instances)


def test_learner_knows_of_scores_in_folds_and_after_corrections(sounds, tmp_path):
    folder, _ = sounds
    network = nets.scoring_network(tmp_path / "net.onnx", [1, 4, 9])
    (tmp_path / "labels.csv").write_text("name,code\nlow,l\nmiddle,m\nhigh,h\nother,o\nanother,a\n")
    with annotate(folder, tmp_path / "run", embed=network, join=False) as run:
        d = nets.BANDS
        assert run.model()[-1].estimator.own_features == [d, d + 1, d + 2]  # high, low, middle
        row = run.annotations()[0]
        run.correct([(row["bag"], row["instance"], "lower")])
        run.refit(page=False)
        assert run.model()[-1].estimator.own_features == [d, d + 1, -1, d + 2]
    with annotate(folder, tmp_path / "without", embed=network, embed_settings={"classes": "none"}, join=False) as run:
        assert run.material.dataset.bags.n_features == d
    (tmp_path / "labels.csv").write_text("low\n" * 7)
    with pytest.raises(InputError, match="has 7 lines, and no output '' a score for each"):
        annotate(folder, tmp_path / "short", embed=network, embed_settings={"classes": "labels.csv"})
    with pytest.raises(InputError, match="there is no such file; give the list of the network's classes"):
        annotate(folder, tmp_path / "none", embed=network, embed_settings={"classes": "list.txt"})


def test_a_run_with_vectors_is_corrected_refitted_and_gone_on_with(sounds, run_of_sounds, tmp_path):
    folder, _ = sounds
    out = tmp_path / "out"
    shutil.copytree(run_of_sounds, out)
    away = tmp_path / "net.onnx"
    shutil.copy(folder / "net.onnx", away)
    with annotate(folder, out, embed=away, join=False, page=True) as run:  # another place, the same network
        assert run.result().n_reused == len(PAIRS)
        row = run.annotations()[0]
        run.correct([(row["bag"], row["instance"], "new")])
        assert run.refit(page=False).version == 1
    with Run.open(out) as run:
        assert run.annotations()[0]["label"] == "new"
        assert load(out / "model.bagwise").featurizer_["embedded"]["name"] == "net.onnx"
        run.undo()
        assert run.version == 0
    with pytest.raises(InputError, match="embedded: join is False there and True now"):
        annotate(folder, out, embed=away)  # what joins syllables if not said otherwise


def test_new_recordings_need_the_network_of_the_model(sounds, run_of_sounds, tmp_path):
    folder, truth = sounds
    model = run_of_sounds / "model.bagwise"
    shutil.copy(model, tmp_path / "model.bagwise")
    options = {"labels": None, "model": tmp_path / "model.bagwise"}
    with pytest.raises(InputError, match="trained with vectors of the network net.onnx; give that file"):
        annotate(folder, tmp_path / "a", **options)
    with annotate(folder, tmp_path / "a", embed=folder / "net.onnx", **options) as run:
        assert named_right(run.annotations(), truth) > 0.9
        assert {row["mode"] for row in run.annotations()} == {"inductive"}
    with annotate(folder, tmp_path / "again", labels=None, model=model, embed=folder / "net.onnx") as run:
        row = run.annotations()[0]  # learns again with the bags of the run that trained the model
        run.correct([(row["bag"], row["instance"], "new")])
        run.refit()
        assert run.annotations()[0]["label"] == "new"
    shown = CliRunner().invoke(main, ["info", str(model)]).output
    assert "net.onnx, 12 numbers" in shown
    shutil.copy(folder / "net.onnx", tmp_path / "net.onnx")
    annotate(folder, tmp_path / "b", **options).close()  # it lies beside the model
    nets.sound_network(tmp_path / "net.onnx", notes={"rate": "16000", "other": "weights"})
    with pytest.raises(InputError, match="is not the network that the model was trained with"):
        annotate(folder, tmp_path / "c", **options)
    for extra, match in (
        ({"embed_settings": {"gain": 2}, "embed": folder / "net.onnx"}, "leave --embed-set and --join out"),
        ({"embeddings": tmp_path / "x.npz"}, "give that file"),
    ):
        with pytest.raises(InputError, match=match):
            annotate(folder, tmp_path / "d", **options, **extra)
    assert not any((tmp_path / name).exists() for name in "cd")


def test_vectors_beside_our_own_features(sounds, tmp_path):
    folder, truth = sounds
    with annotate(folder, tmp_path / "out", embed=folder / "net.onnx") as run:  # joined if not said otherwise
        names = run.material.dataset.feature_names
        assert len(names) == 38 + nets.BANDS
        assert (names[0], names[38]) == ("freq_gini", "embed0")
        assert named_right(run.annotations(), truth) > 0.9
    with annotate(folder, tmp_path / "plain") as run:
        own = run.material.dataset.bags.instances
    with Run.open(tmp_path / "out") as run:
        np.testing.assert_array_equal(run.material.dataset.bags.instances[:, :38], own)
    with pytest.raises(InputError, match="trained without vectors"):
        annotate(
            folder, tmp_path / "x", labels=None, model=tmp_path / "plain" / "model.bagwise", embed=folder / "net.onnx"
        )


def test_windows_as_instances(sounds, tmp_path):
    folder, truth = sounds
    settings = {"segment": "windows", "step": "0.25"}
    with annotate(folder, tmp_path / "out", embed=folder / "net.onnx", settings=settings, page=True) as run:
        rows = run.annotations()
        assert [(row["start"], row["end"]) for row in rows[:3]] == [(0.0, 0.5), (0.25, 0.75), (0.5, 1.0)]
        assert len(rows) == 11 * len(PAIRS)
        sung = [row for row in rows if any(row["start"] <= a and row["end"] >= a + 0.3 for a in (0.3, 1.25, 2.2))]
        assert len(sung) >= 2 * len(PAIRS)
        assert named_right(sung, truth) > 0.8
        assert run.manifest["identity"]["settings"]["length"] == 0.5
        review = Review(run)  # windows can be looked at, heard and answered one by one
        first = review.instances(1)["instances"][0]
        assert review.show(first["bag"], first["instance"])
        review.correct([{"bag": first["bag"], "instance": first["instance"], "label": "low"}])
        assert run.n_corrections == 1
        review.close()
    assert (tmp_path / "out" / "report.html").exists()
    for more, match in (
        ({"settings": {**settings, "length": "2"}}, "the network hears 0.5 s, and windows of 2 s"),
        ({"settings": {**settings, "step": "0.6"}}, "sound between windows would be lost"),
        ({"settings": settings, "join": True}, "leave --join out"),
        ({"settings": settings, "embed": None}, "add --embed or --embeddings"),
        ({"embed": None, "join": True}, "add --embed or --embeddings"),
        ({"embed": None, "embed_settings": {"rate": 1}}, "add --embed"),
        ({"embeddings": folder / "x.npz"}, "give one of the two"),
        ({"embed": folder / "labels.csv"}, "no ONNX file"),
        ({"embed": folder / "nothing.onnx"}, "there is no such file"),
    ):
        with pytest.raises(InputError, match=match):
            annotate(folder, tmp_path / "bad", **{"embed": folder / "net.onnx", **more})
    assert not (tmp_path / "bad").exists()
    for length in (None, 0.5):
        with pytest.raises(InputError, match="vectors of a network alone"):
            featurize_audio([folder / "media" / "0.wav"], AudioSettings(segment="windows", length=length))


def test_long_recordings_give_the_same_vectors_in_parts(sounds, tmp_path):
    folder, _ = sounds
    media = tmp_path / "media"
    media.mkdir()
    samples = np.concatenate([soundfile.read(folder / "media" / f"{i % 8}.wav")[0] for i in range(84)])
    soundfile.write(media / "long.wav", samples, nets.RATE)
    (tmp_path / "labels.csv").write_text("file,labels\nlong.wav,low;high;middle\n")
    options = {"embed": folder / "net.onnx", "settings": {"segment": "windows", "step": "0.5"}, "seed": 0}
    with annotate(tmp_path, tmp_path / "out", **options) as run:
        dataset = run.material.dataset
    embedding = read_embedding(folder / "net.onnx", MEDIA["audio"], {}, join=False)
    settings = MEDIA["audio"].make_settings({"segment": "windows", "length": 0.5, "step": 0.5})
    found = MEDIA["audio"].read_file(media / "long.wav", "long.wav", settings)
    with MEDIA["audio"].opened(media / "long.wav") as sound:
        vectors = embedding.describe(sound, "long.wav", found).vectors
        assert len(MEDIA["audio"].parts.cut(sound, settings)) > 1
    np.testing.assert_array_equal(dataset.bags.instances, vectors)


# -- tables -----------------------------------------------------------------------------------------------------------


def window_rows(folder, names, length=0.5, step=0.5):
    """File, start, end and vector of windows, as another program would work them out."""
    import onnxruntime

    session = onnxruntime.InferenceSession((folder / "net.onnx").read_bytes())
    rows = []
    for name in names:
        samples, _ = soundfile.read(folder / "media" / name, dtype="float32")
        for start in np.arange(0, 3 - length + 1e-9, step):
            window = samples[round(start * nets.RATE) :][: nets.N_SAMPLES][None]
            rows.append((name, start, start + length, session.run(None, {"sound": window})[0][0]))
    return rows


def write_npz(path, rows):
    files, start, end, vectors = zip(*rows, strict=True)
    np.savez(path, files=np.array(files), start=np.array(start), end=np.array(end), embedding=np.array(vectors))


def write_parquet(path, rows, wide=False):
    import pyarrow as pa
    import pyarrow.parquet as pq

    files, start, end, vectors = zip(*rows, strict=True)
    columns = {"file": list(files), "start_time": list(start), "end_time": list(end)}
    if wide:  # as opensoundscape's tables become
        columns |= {str(i): [float(v[i]) for v in vectors] for i in range(len(vectors[0]))}
    else:
        columns["vector"] = pa.array([v.tolist() for v in vectors], pa.list_(pa.float32()))
    pq.write_table(pa.table(columns), path)


def write_csv(path, rows, wide):
    """As BirdNET-Analyzer does, or a column for each number."""
    vectors = [[repr(float(value)) for value in row[3]] for row in rows]
    head = ",".join(map(str, range(nets.BANDS))) if wide else "embedding"
    lines = [
        f"{name},{start},{end}," + (",".join(own) if wide else f'"{",".join(own)}"')
        for (name, start, end, _), own in zip(rows, vectors, strict=True)
    ]
    path.write_text("\n".join([f"file_path,start,end,{head}", *lines]) + "\n")


def write_birdnet(folder, rows):
    for name, start, end, vector in rows:
        folder.mkdir(exist_ok=True)
        with (folder / f"{name[:-4]}.birdnet.embeddings.txt").open("a") as file:
            file.write(f"{start}\t{end}\t{','.join(repr(float(value)) for value in vector)}\n")


class Index:
    """In place of usearch, where that is not installed: what is asked of it here."""

    @staticmethod
    def restore(path, view):
        index = Index()
        with np.load(path) as file:
            index.vectors = dict(zip(file["keys"].tolist(), file["vectors"], strict=True))
        return index

    def contains(self, keys):
        return np.array([key in self.vectors for key in keys.tolist()])

    def get(self, keys, dtype):
        return np.array([self.vectors[key] for key in keys.tolist()], dtype=dtype)


def write_hoplite(folder, rows, before, monkeypatch):
    """The tables of today or of its first year, and the index."""
    folder.mkdir()
    keys, vectors = np.arange(len(rows), dtype=np.uint64) + 7, np.array([row[3] for row in rows], dtype=np.float32)
    try:
        from usearch.index import Index as Real
    except ImportError:
        monkeypatch.setitem(sys.modules, "usearch", types.ModuleType("usearch"))
        monkeypatch.setitem(sys.modules, "usearch.index", types.SimpleNamespace(Index=Index))
        with (folder / "usearch.index").open("wb") as file:
            np.savez(file, keys=keys, vectors=vectors)
    else:
        index = Real(ndim=vectors.shape[1], metric="ip", dtype="f32")
        index.add(keys, vectors)
        index.save(str(folder / "usearch.index"))
    own, name, table, of = ("source", "hoplite_sources", "hoplite_embeddings", "source_idx") if before else (
        "filename", "recordings", "windows", "recording_id"
    )  # fmt: skip
    names = sorted({row[0] for row in rows})
    with contextlib.closing(sqlite3.connect(folder / "hoplite.sqlite")) as base:
        base.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {own} TEXT)")
        base.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {of} INTEGER, offsets BLOB)")
        base.executemany(f"INSERT INTO {name} VALUES (?, ?)", enumerate(names))
        for key, (file, start, end, _) in zip(keys.tolist(), rows, strict=True):
            offsets = np.array([start, end], dtype="<f2" if before else "<f8").tobytes()
            base.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (key, names.index(file), offsets))
        base.commit()


@pytest.mark.parametrize("form", ["npz", "list", "wide", "csv", "wide csv", "birdnet", "hoplite", "old hoplite"])
def test_vectors_that_somebody_made_already(sounds, tmp_path, form, monkeypatch):
    folder, _ = sounds
    rows = window_rows(folder, [f"{i}.wav" for i in range(len(PAIRS))], step=0.25)
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    endings = {"npz": ".npz", "list": ".parquet", "wide": ".parquet", "csv": ".csv", "wide csv": ".csv"}
    path = tmp_path / f"vectors{endings.get(form, '')}"
    if form == "npz":
        write_npz(path, shuffled)
    elif path.suffix == ".csv":
        write_csv(path, shuffled, wide=form == "wide csv")
    elif form == "birdnet":
        write_birdnet(path, shuffled)
    elif not path.suffix:
        write_hoplite(path, shuffled, form == "old hoplite", monkeypatch)
    else:
        write_parquet(path, [(f"C:\\rec\\{name}", *rest) for name, *rest in shuffled], wide=form == "wide")
    with annotate(folder, tmp_path / "out", embeddings=path) as run:
        dataset = run.material.dataset
        assert run.problems == []
        assert run.manifest["identity"]["settings"]["segment"] == "windows"
    expected = {(name, round(start, 3)): vector for name, start, _, vector in rows}
    for i in range(dataset.bags.n_instances):
        key = (dataset.locations["file"][i], round(float(dataset.locations["start"][i]), 3))
        np.testing.assert_allclose(dataset.bags.instances[i], expected[key], rtol=1e-6)
    assert dataset.bags.n_instances == len(rows)


def test_syllables_take_the_vector_of_the_nearest_window(sounds, tmp_path):
    folder, truth = sounds
    rows = window_rows(folder, [f"{i}.wav" for i in range(len(PAIRS))], step=0.25)
    gap = [row for row in rows if not (row[0] == "3.wav" and row[1] > 0.9)]
    write_npz(tmp_path / "v.npz", gap)
    options = {"embeddings": tmp_path / "v.npz", "settings": {"segment": "syllables"}, "join": True}
    with annotate(folder, tmp_path / "out", **options) as run:
        assert [name for name, _ in run.problems] == ["3.wav"]
        assert "of its instances, such as that at 1.40, lie in no window of v.npz" in run.problems[0][1]
        dataset = run.material.dataset
        assert named_right(run.annotations(), truth) > 0.8
    assert dataset.bags.n_features == 38 + nets.BANDS
    for i in range(dataset.bags.n_instances):
        file, middle = dataset.locations["file"][i], (dataset.locations["start"][i] + dataset.locations["end"][i]) / 2
        own = [row for row in gap if row[0] == file]
        best = min(abs(row[1] + 0.25 - middle) for row in own)
        fitting = [row[3] for row in own if abs(row[1] + 0.25 - middle) <= best + 1e-9]
        assert any(np.allclose(dataset.bags.instances[i, 38:], vector, rtol=1e-6) for vector in fitting)
    # a model that was trained with a table asks for one
    options = {"labels": None, "model": tmp_path / "out" / "model.bagwise"}
    with pytest.raises(InputError, match="give such a table for the new files"):
        annotate(folder, tmp_path / "x", **options)
    annotate(folder, tmp_path / "y", embeddings=tmp_path / "v.npz", **options).close()
    write_npz(tmp_path / "w.npz", [(*row[:3], row[3][:5]) for row in rows])
    with pytest.raises(InputError, match="its vectors have 5 numbers, and the model was trained with 12"):
        annotate(folder, tmp_path / "x", embeddings=tmp_path / "w.npz", **options)


def test_tables_that_name_unknown_files_or_leave_gaps(sounds, tmp_path):
    folder, _ = sounds
    rows = window_rows(folder, [f"{i}.wav" for i in range(len(PAIRS) - 1)])
    rows = [row for row in rows if not (row[0] == "1.wav" and 0.9 < row[1] < 2.1)]
    rows += [("other.wav", 0.0, 0.5, rows[0][3]), ("2.wav", 7.0, 7.5, rows[0][3])]
    write_npz(tmp_path / "v.npz", rows)
    with annotate(folder, tmp_path / "out", embeddings=tmp_path / "v.npz") as run:
        problems = {}
        for name, text in run.problems:
            problems[name] = f"{problems.get(name, '')} {text}"
        assert "there is no such file ('other.wav'); its 1 row(s) are not used" in problems["other.wav"]
        assert "no window of v.npz covers 1.00 to 2.50 s of it" in problems["1.wav"]
        assert "1 window(s) of v.npz begin after its end at 3.00 s" in problems["2.wav"]
        assert "no row of v.npz names it" in problems[f"{len(PAIRS) - 1}.wav"]
        assert {row["file"] for row in run.annotations()} == {f"{i}.wav" for i in range(len(PAIRS) - 1)}


def test_folders_and_texts_that_are_none(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"no hoplite\.sqlite in it, as hoplite has, and no file that ends in"):
        read_vector_file(tmp_path)
    for text, match in [
        ("file,start,end,vector\na.wav,0,3,1 2\n", "row 2: its place and vector are no numbers"),
        ("file,start,end\na.wav,0,3\n", "there is no column 'vector', nor columns 0, 1"),
        ('file,start,end,vector\na.wav,0,3,"1,2"\na.wav,3,6,1\n', "have 1 to 2 numbers"),
        ("file,start,end,vector\n", "it holds no vectors"),
    ]:
        (tmp_path / "v.csv").write_text(text)
        with pytest.raises(InputError, match=match):
            read_vector_file(tmp_path / "v.csv")
    write_hoplite(tmp_path / "base", [("a.wav", 0.0, 3.0, np.ones(4))], False, monkeypatch)
    (tmp_path / "base" / "hoplite.sqlite").write_bytes(b"SQLite format 3\0 cut off")
    with pytest.raises(InputError, match="it is damaged, or no folder of hoplite"):
        read_vector_file(tmp_path / "base")
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ImportError, match="pip install usearch"):
        read_vector_file(tmp_path / "base")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a: a.update(start=a["end"]), "the end after the start"),
        (lambda a: a.update(embedding=np.where(a["embedding"] > 0, np.nan, np.nan)), "row 1: its vector is no finite"),
        (lambda a: a.pop("end"), "there is no column 'end'"),
        (lambda a: a.update(embedding=a["embedding"][:3]), "expected a row for each of"),
        (lambda a: a.update(files=np.array([object()] * len(a["files"]))), "Python objects"),
        (lambda a: a.update(files=np.array(["x.wav"] * len(a["files"]))), "none of its 1 files"),
    ],
)
def test_tables_that_cannot_be_used(sounds, tmp_path, change, match):
    folder, _ = sounds
    write_npz(tmp_path / "v.npz", window_rows(folder, ["0.wav"]))
    arrays = dict(np.load(tmp_path / "v.npz"))
    change(arrays)
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(InputError, match=match):
        annotate(folder, tmp_path / "out", embeddings=tmp_path / "v.npz")
    assert not (tmp_path / "out").exists()


# -- pictures and texts -----------------------------------------------------------------------------------------------

COLOURS = {"red": (210, 40, 30), "green": (40, 190, 60), "blue": (30, 60, 220)}


def test_pictures_from_folder_to_report(tmp_path):
    media, rng = tmp_path / "media", np.random.default_rng(0)
    media.mkdir()
    sets = [("red", "green"), ("red", "blue"), ("green", "blue"), ("red",), ("green",), ("blue",)]
    truth = {}
    for i, labels in enumerate(sets):
        image, mask = rng.integers(90, 110, (40, 60, 3)), np.zeros((40, 60), dtype=np.uint8)
        truth[f"{i}.png"] = [labels[j % len(labels)] for j in range(3)]
        for j, label in enumerate(truth[f"{i}.png"]):
            image[10:30, 4 + 18 * j : 18 + 18 * j] = np.array(COLOURS[label]) + rng.integers(-8, 8, (20, 14, 3))
            mask[10:30, 4 + 18 * j : 18 + 18 * j] = j + 1
        Image.fromarray(image.astype(np.uint8)).save(media / f"{i}.png")
        Image.fromarray(mask).save(media / f"{i}_mask.png")
    write_labels(tmp_path, truth, sets)
    nets.picture_network(tmp_path / "net.onnx")
    (tmp_path / "net.toml").write_text("mean = [0.4, 0.4, 0.4]\nstd = [0.2, 0.2, 0.2]\nmasked = true\n")
    arguments = [
        "annotate", media, "--labels", tmp_path / "labels.csv", "--out", tmp_path / "out", "--embed",
        tmp_path / "net.onnx", "--embed-set", "margin=0.1", "--media-set", "regions=mask", "--jobs", 1, "--join",
    ]  # fmt: skip
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    with Run.open(tmp_path / "out") as run:
        rows = run.annotations()
        assert np.mean([row["label"] == truth[row["file"]][row["instance"]] for row in rows]) == 1
        assert run.manifest["identity"]["embedded"]["settings"]["masked"] is True
        assert run.manifest["identity"]["embedded"]["settings"]["margin"] == 0.1
        own = MEDIA["image"].feature_names([], MEDIA["image"].make_settings())
        assert run.material.dataset.feature_names == [*own, *(f"embed{i}" for i in range(12))]
    assert "most typical" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:The expected share of background")
def test_the_recipe_of_a_vision_network_names_own_regions(tmp_path):
    """The TOML of docs/embeddings.md, of a network whose pictures and patches are smaller."""
    media, rng, sets = tmp_path / "media", np.random.default_rng(0), [*itertools.permutations(COLOURS, 2)] * 2
    media.mkdir()
    for i, labels in enumerate(sets):
        image = np.repeat([[COLOURS[labels[0]]] * 32 + [COLOURS[labels[1]]] * 32], 48, axis=0)
        Image.fromarray((image + rng.integers(-8, 8, image.shape)).astype(np.uint8)).save(media / f"{i:02}.png")
    write_labels(tmp_path, [f"{i:02}.png" for i in range(len(sets))], sets)
    nets.patch_network(tmp_path / "dinov2.onnx")
    page = (Path(__file__).parents[1] / "docs" / "embeddings.md").read_text(encoding="utf-8")
    (recipe,) = [part for part in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if 'pool = "regions"' in part]
    recipe = recipe.replace("patch = 14", "patch = 4").replace("448", str(nets.SIDE))
    (tmp_path / "dinov2.toml").write_text(recipe, encoding="utf-8")
    options = {"labels": tmp_path / "labels.csv", "jobs": 1, "page": False, "formats": ["csv"]}
    with Run.create(media, tmp_path / "out", embed=tmp_path / "dinov2.onnx", **options) as run:
        rows = run.annotations()
    assert len(rows) == 2 * len(sets)
    assert [row["label"] for row in rows] == [sets[int(row["file"][:2])][row["left"] > 0] for row in rows]


def test_texts_from_folder_to_report(tmp_path):
    media, rng = tmp_path / "media", np.random.default_rng(0)
    media.mkdir()
    words = {"farm": ["cow", "grass", "milk", "barn"], "sea": ["ship", "sea", "sail", "wave"]}
    sets = [("farm",), ("sea",), ("farm", "sea"), ("farm", "sea"), ("farm",), ("sea",)]
    for i, labels in enumerate(sets):
        parts = [" ".join(rng.choice(words[labels[j % len(labels)]], 10)) for j in range(4)]
        (media / f"{i}.txt").write_text(" ".join(parts), encoding="utf-8")
    write_labels(tmp_path, [f"{i}.txt" for i in range(6)], sets)
    nets.text_network(tmp_path / "net.onnx")
    options = {"embed": tmp_path / "net.onnx", "settings": {"window": 10, "step": 10, "keep": 1.0}}
    with annotate(tmp_path, tmp_path / "out", page=True, **options) as run:
        rows = run.annotations()
        right = [
            row["label"] == sets[int(row["file"][0])][row["instance"] % len(sets[int(row["file"][0])])] for row in rows
        ]
        assert len(rows) == 24
        assert np.mean(right) > 0.9
        assert run.material.dataset.bags.n_features == nets.TEXT_SIZE
    assert "tokenizer.json" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    with annotate(tmp_path, tmp_path / "joined", join=True, **options) as run:
        assert run.material.dataset.bags.n_features > nets.TEXT_SIZE
        names = run.material.dataset.feature_names
    with Run.open(tmp_path / "joined") as run:
        assert run.material.dataset.feature_names == names
    new = {"labels": None, "model": tmp_path / "joined" / "model.bagwise", "embed": tmp_path / "net.onnx"}
    with annotate(tmp_path, tmp_path / "new", **new) as run:
        assert run.material.dataset.feature_names == names


# -- processes within processes ---------------------------------------------------------------------------------------


def of_networks(process):
    """The processes of networks that a process and those that it started have."""
    import psutil

    found = []
    for other in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "bagwise.app.networks._child" in " ".join(other.cmdline()):
                found.append(other)
    return found


def test_vectors_are_the_same_from_one_process_and_from_several_and_none_is_left(sounds, tmp_path):
    psutil = pytest.importorskip("psutil")
    folder, truth = sounds
    audio = MEDIA["audio"]
    embedding = read_embedding(folder / "net.onnx", audio, {}, join=False)
    assert of_networks(psutil.Process()) == []

    def vectors(jobs):
        run = tmp_path / str(jobs)
        (run / ".features").mkdir(parents=True)
        done = read_files(
            Source(folder / "media", audio, audio.make_settings(), sorted(truth), vectors=embedding),
            run, jobs, lambda *_: None,
        )  # fmt: skip
        assert not done.errors
        return np.concatenate([done.bags[name].vectors for name in sorted(truth)])

    alone = vectors(1)
    assert of_networks(psutil.Process()) == []
    np.testing.assert_array_equal(vectors(2), alone)
    kept = of_networks(psutil.Process())  # for the next files, by the processes that read them
    assert len(kept) >= 1
    get_reusable_executor().shutdown(wait=True)
    _, left = psutil.wait_procs(kept, timeout=120)
    assert left == []


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of Unix")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_networks_that_compute(sounds, tmp_path, jobs):
    psutil = pytest.importorskip("psutil")
    folder, _ = sounds
    path = nets.without_end(tmp_path / "net.onnx", silence_too=False)
    command = [
        sys.executable, "-m", "bagwise.app.cli", "featurize", str(folder / "media"), "--embed", str(path),
        "--embed-set", "rate=16000", "--out", str(tmp_path / "bags.parquet"), "--jobs", str(jobs),
    ]  # fmt: skip
    asking = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells start background jobs without it
    )  # fmt: skip
    here = psutil.Process(asking.pid)

    def computing():
        return [other for other in of_networks(here) if other.cpu_times().user > 1.0]  # more than it takes to start

    while len(computing()) < jobs:
        assert asking.poll() is None, asking.communicate()
        time.sleep(0.05)
    networks = of_networks(here)
    os.killpg(asking.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    _, errors = asking.communicate(timeout=240)
    assert asking.returncode == 130, errors
    assert errors.strip().splitlines() == ["interrupted"]
    _, left = psutil.wait_procs(networks, timeout=120)
    assert left == []


@pytest.mark.parametrize("form", ["csv", "parquet", "npz"])
def test_passages_and_regions_take_the_vectors_of_a_table(tmp_path, form):
    """Each the one of the row whose place is nearest to its middle."""
    rng = np.random.default_rng(0)
    texts, pictures = tmp_path / "texts", tmp_path / "pictures"
    for folder in (texts, pictures):
        folder.mkdir()
    for i in range(6):
        (texts / f"{i}.txt").write_text(" ".join(f"word{j}" for j in range(20)), encoding="utf-8")
        image, mask = np.zeros((30, 30, 3), dtype=np.uint8), np.zeros((30, 30), dtype=np.uint8)
        mask[2:12, 2:12], mask[2:12, 18:28], mask[18:28, 2:12] = 1, 2, 3
        Image.fromarray(image).save(pictures / f"{i}.png")
        Image.fromarray(mask).save(pictures / f"{i}_mask.png")
    sets = [("a",), ("b",), ("a", "b")] * 2
    spans = [(f"{i}.txt", {"start": k * 35, "end": k * 35 + 35}) for i in range(6) for k in range(4)]
    corners = [(0, 0), (16, 0), (0, 16)]
    boxes = [(f"{i}.png", {"left": x, "top": y, "width": 14, "height": 14}) for i in range(6) for x, y in corners]
    for folder, rows, settings in ((texts, spans, {"window": 5, "step": 5}), (pictures, boxes, {"regions": "mask"})):
        write_labels(tmp_path, list(dict.fromkeys(name for name, _ in rows)), sets)
        vectors = rng.standard_normal((len(rows), 4)).astype(np.float32)
        order = rng.permutation(len(rows))
        columns = {"files": [rows[i][0] for i in order]}
        columns |= {key: np.array([rows[i][1][key] for i in order], dtype=float) for key in rows[0][1]}
        path = tmp_path / f"vectors.{form}"
        if form == "npz":
            np.savez(path, vector=vectors[order], **columns)
        elif form == "csv":
            texts_of = [",".join(map(repr, map(float, vector))) for vector in vectors[order]]
            pandas.DataFrame({**columns, "vector": texts_of}).to_csv(path, index=False)
        else:
            pandas.DataFrame({**columns, "vector": list(vectors[order])}).to_parquet(path)
        options = {"labels": tmp_path / "labels.csv", "settings": settings, "jobs": 1, "page": False}
        with Run.create(folder, tmp_path / f"run of {folder.name}", embeddings=path, formats=["csv"], **options) as run:
            dataset = run.material.dataset
            assert run.problems == []
        assert dataset.bags.n_instances == len(rows)
        at = {key: np.asarray(values) for key, values in dataset.locations.items()}
        for i in range(len(rows)):
            place = {key: at[key][i] for key in rows[0][1]}
            own = [j for j, (name, _) in enumerate(rows) if name == at["file"][i]]

            def middle(place):
                return np.array(
                    [(place["start"] + place["end"]) / 2] if "start" in place
                    else [place["left"] + place["width"] / 2, place["top"] + place["height"] / 2]
                )  # fmt: skip

            nearest = min(own, key=lambda j: np.linalg.norm(middle(rows[j][1]) - middle(place)))
            np.testing.assert_allclose(dataset.bags.instances[i], vectors[nearest], rtol=1e-6)
    write_spans(tmp_path / f"spans.{form}", form)
    with pytest.raises(InputError, match="there is no column 'left'"):
        Run.create(pictures, tmp_path / "x", embeddings=tmp_path / f"spans.{form}", **options)


def write_spans(path, form):
    columns = {"files": ["0.png"], "start": [0.0], "end": [1.0]}
    if form == "npz":
        np.savez(path, vector=np.ones((1, 4)), **columns)
    elif form == "csv":
        pandas.DataFrame({**columns, "vector": ["1,2,3,4"]}).to_csv(path, index=False)
    else:
        pandas.DataFrame({**columns, "vector": [[1.0, 2.0]]}).to_parquet(path)


def test_a_sentence_model_is_taken_from_its_folder(tmp_path):
    folder = tmp_path / "model"
    (folder / "onnx").mkdir(parents=True)
    nets.text_network(folder / "onnx" / "model.onnx")
    shutil.copy(folder / "onnx" / "model.onnx", folder / "onnx" / "model_O4.onnx")
    (folder / "onnx" / "tokenizer.json").rename(folder / "tokenizer.json")
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    modules += [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    inputs = read_embedding(folder, MEDIA["text"], {}, join=False).inputs
    assert (inputs.pool, inputs.unit, inputs.tokens, inputs.tokenizer) == ("first", False, 7, "../tokenizer.json")
    modules += [{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    inputs = read_embedding(folder, MEDIA["text"], {"tokens": 5}, join=False).inputs
    assert (inputs.pool, inputs.unit, inputs.tokens) == ("mean", True, 5)
    (folder / "modules.json").write_text("{")
    with pytest.raises(InputError, match="it is not JSON"):
        read_embedding(folder, MEDIA["text"], {}, join=False)
    shutil.rmtree(folder / "onnx")
    (folder / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(InputError, match="model.safetensors holds weights alone.*optimum-cli export onnx"):
        read_embedding(folder, MEDIA["text"], {}, join=False)
