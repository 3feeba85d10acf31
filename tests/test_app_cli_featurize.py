"""`bagwise featurize`: what it writes is what Python reads from the same files."""

import numpy as np
import pytest
import soundfile
from PIL import Image

import made
from bagwise.app.media.media_types import MEDIA
from bagwise.io.data.formats import read_dataset

TEXTS = {
    "a.txt": "The cow eats grass. The cow sleeps.\n\nThe moon is bright tonight.",
    "sub/b.txt": "A bright moon over grass.\n\nNo cow here.\n\nThe grass grows.",
    "c.txt": "The cow and the moon.\n\nThe cow eats.",
}


def run(*arguments):
    return made.run("featurize", *arguments)


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(2):
        values = np.repeat(rng.integers(0, 255, size=(1, 4, 3)), 60, axis=0).repeat(20, axis=1)
        Image.fromarray(values.astype(np.uint8)).save(folder / f"{i}.png")
    return folder


@pytest.mark.filterwarnings("ignore:Of .* terms")  # so short a corpus has few
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_texts(tmp_path, texts, ending):
    out = tmp_path / f"bags.{ending}"
    result = run(texts, "--out", out, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "as text: 3 files, 3 " in result.output
    written, expected = read_dataset(out), MEDIA["text"].featurize([texts / name for name in sorted(TEXTS)])
    assert written.bag_names == expected.bag_names == ["a.txt", "c.txt", "sub/b.txt"]
    assert written.feature_names == expected.feature_names
    features = expected.bags.instances
    np.testing.assert_allclose(
        written.bags.instances, features if isinstance(features, np.ndarray) else features.toarray()
    )
    assert written.locations["start"].tolist() == expected.locations["start"].tolist()
    assert written.Y is None


def test_pictures_with_labels(tmp_path, pictures):
    (tmp_path / "labels.csv").write_text("file,labels\n0.png,sky;cow\n", encoding="utf-8")
    out = tmp_path / "bags.parquet"
    result = run(pictures, "--out", out, "--labels", tmp_path / "labels.csv", "--jobs", 1)
    assert result.exit_code == 0, result.output
    written = read_dataset(out)
    assert written.bag_names == ["0.png", "1.png"]
    assert written.class_names == ["cow", "sky"]
    assert written.labelled.tolist() == [True, False]
    assert written.Y[0].tolist() == [1, 1]


def test_files_that_cannot_be_read_are_named(tmp_path, pictures):
    (pictures / "torn.png").write_bytes(b"\x89PNG no picture")
    out = tmp_path / "bags.parquet"
    result = run(pictures, "--out", out, "--jobs", 1, "--quiet")
    assert result.exit_code == 3, result.output
    assert "torn.png" in result.stderr
    assert read_dataset(out).bag_names == ["0.png", "1.png"]


@pytest.mark.filterwarnings("ignore:Of .* terms")  # so short a corpus has few
def test_a_reader_that_fails_does_not_end_the_work(tmp_path, monkeypatch, texts):
    (texts / "bad.html").write_text("<p>more</p><![<!--CDATA[table><p>x", encoding="utf-8")
    out = tmp_path / "bags.parquet"
    assert run(texts, "--out", out, "--jobs", 2).exit_code == 0
    assert read_dataset(out).bag_names == ["a.txt", "bad.html", "c.txt", "sub/b.txt"]

    def fails(page):
        raise AssertionError("expected name token")

    monkeypatch.setattr("bagwise.app.media.documents.html_text", fails)
    result = run(texts, "--out", out, "--jobs", 1)
    assert result.exit_code == 3, result.output
    assert result.stderr.count("bad.html: it cannot be read (AssertionError: expected name token)") == 1
    assert read_dataset(out).bag_names == sorted(TEXTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "bags.what"], "tells no format"),
        (["--out", "no/such/bags.csv"], "there is no folder"),
        (["--out", "bags.csv", "--media-type", "smell"], "There is no media type 'smell'"),
        (["--out", "bags.csv", "--media-set", "nothing=1"], "nothing"),
        (["--out", "bags.csv", "--join"], "add --embed or --embeddings"),
    ],
    ids=lambda value: str(value[-1]),
)
def test_errors_are_one_line_and_nothing_is_written(tmp_path, monkeypatch, texts, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run(texts, *arguments, "--jobs", 1)
    assert result.exit_code == 1, result.output
    assert message in result.output
    assert not list(tmp_path.glob("bags*"))


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "bags.csv"
    path.write_text("bag,x\na,1\n", encoding="utf-8")
    result = run(path, "--out", tmp_path / "other.csv")
    assert result.exit_code == 1
    assert "bagwise convert" in result.output


def test_vectors_that_somebody_made_already(tmp_path):
    folder = tmp_path / "sounds"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(2):
        soundfile.write(folder / f"{i}.wav", 0.1 * rng.normal(size=16_000), 8_000)
    start = np.tile([0.0, 1.0], 2)
    vectors = rng.normal(size=(4, 3)).astype(np.float32)
    files = np.repeat(["0.wav", "1.wav"], 2)
    np.savez(tmp_path / "v.npz", files=files, start=start, end=start + 1.0, embedding=vectors)
    result = run(folder, "--out", tmp_path / "bags.parquet", "--embeddings", tmp_path / "v.npz", "--jobs", 1)
    assert result.exit_code == 0, result.output
    written = read_dataset(tmp_path / "bags.parquet")
    np.testing.assert_allclose(written.bags.instances, vectors, rtol=1e-6)
    assert written.locations["start"].tolist() == start.tolist()
