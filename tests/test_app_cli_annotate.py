"""`bagwise annotate`, `inspect` and `demo` as a user meets them: what is printed, exit codes, every medium."""

import json
import os
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import scipy.sparse as sp
import soundfile
from PIL import Image

from bagwise.app.media.documents import document_text
from bagwise.app.review.review import Review
from bagwise.app.runs import Run
from bagwise.datasets import make_soundscape
from made import read_csv, run, write_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scene"), 6, seconds=6.0, species_per_recording=(1, 2), random_state=1)


def test_annotate_prints_what_it_found(scene, tmp_path):
    made, folder = scene
    out = tmp_path / "run"
    arguments = ("annotate", folder / "recordings", "--labels", folder / "labels.csv", "--out", out, "--jobs", 1)
    result = run(*arguments, "--no-page")
    assert result.exit_code == 0, result.output
    assert re.match(r"6 files, \d+ instances, \d+ named, \d+ taken for background\n", result.stdout)
    assert "labels: one row per bag" in result.output
    for label in {label for labels in made.label_sets for label in labels}:
        assert re.search(rf"^{label} +\d+ +[\d.]+$", result.output, re.MULTILINE)
    assert not (out / "report.html").exists()
    again = run(*arguments, "--no-page")
    assert "6 files were done before" in again.output


def test_problems_of_a_kind_are_counted(scene, tmp_path):
    _, folder = scene
    strangers = [f"nowhere-{i}.wav" for i in range(30)]
    text = (folder / "labels.csv").read_text(encoding="utf-8") + "".join(f"{name},x\n" for name in strangers)
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    result = run(
        "annotate", folder / "recordings", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run",
        "--jobs", 1, "--no-page", "--format", "csv",
    )  # fmt: skip
    assert result.exit_code == 3
    assert all(f"there is no such file ({name!r})" in result.stderr for name in strangers[:10])
    assert result.stderr.count("there is no such file") == 10
    assert "... and 20 more of this kind; manifest.json names all." in result.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert {problem["name"] for problem in manifest["problems"]} == set(strangers)


def test_the_medium_is_what_the_table_names(scene, tmp_path):
    """Pictures that somebody drew of recordings do not turn them into pictures."""
    _, folder = scene
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    for path in sorted((folder / "recordings").iterdir()):
        (sounds / path.name).write_bytes(path.read_bytes())
    for i in range(20):
        Image.new("RGB", (20, 20)).save(sounds / f"picture-{i}.png")
    result = run(
        "annotate", sounds, "--labels", folder / "labels.csv", "--out", tmp_path / "run", "--jobs", 1, "--no-page",
        "--format", "csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("6 files, ")


def test_exit_codes(scene, tmp_path):
    _, folder = scene
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    for path in (folder / "recordings").iterdir():
        (sounds / path.name).write_bytes(path.read_bytes())
    (sounds / "bad.wav").write_text("x")
    base = ("annotate", sounds, "--labels", folder / "labels.csv", "--jobs", 1, "--no-page", "--format", "csv")
    some = run(*base, "--out", tmp_path / "a")
    assert some.exit_code == 3
    assert "Problem: bad.wav: it is not a sound file" in some.output
    assert len({row["file"] for row in read_csv(tmp_path / "a" / "annotations.csv")}) == 6
    for arguments, code, message in (
        ((*base, "--out", tmp_path / "a", "--window", 3), 1, "holds another run"),
        ((*base, "--out", tmp_path / "b", "--media-set", "window"), 2, "--media-set takes NAME=VALUE"),
        ((*base, "--out", tmp_path / "b", "--media-set", "window=x"), 1, "takes a number"),
        (base, 2, "Say where the results go: --out FOLDER"),
        (("annotate", tmp_path / "nowhere", "--labels", folder / "labels.csv", "--out", tmp_path / "b"), 1, "nowhere"),
        (("annotate", sounds, "--out", tmp_path / "b"), 1, "nothing to learn from"),
    ):
        result = run(*arguments)
        assert (result.exit_code, message in result.output) == (code, True), result.output
        assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "table",
    [
        "file;species\n{0};Wren\n{0};Ürson\n{1};Wren\n{2};Ürson\n",
        "\ufefffile\tWren\tÜrson\n{0}\t1\t1\n{1}\t1\t0\n{2}\t0\t1\n",
        "file,labels\n{0},Wren;Ürson\n{1},Wren\n{2},Ürson\n",
    ],
    ids=["rows, semicolons", "one-hot, tabs, mark", "lists, commas"],
)
def test_tables_in_all_forms(scene, tmp_path, table):
    _, folder = scene
    names = [f"recording-00{i}.wav" for i in range(3)]
    (tmp_path / "labels.csv").write_text(table.format(*names), encoding="utf-8")
    out = tmp_path / "run"
    result = run(
        "annotate", folder / "recordings", "--labels", tmp_path / "labels.csv", "--out", out, "--jobs", 1, "--no-page",
        "--format", "csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = read_csv(out / "annotations.csv")
    assert {row["label"] for row in rows} <= {"Wren", "Ürson"}
    assert {row["mode"] for row in rows if row["file"] in names} == {"transductive"}
    assert {row["mode"] for row in rows if row["file"] not in names} == {"inductive"}


def test_unknown_columns_are_named_with_their_row(scene, tmp_path):
    _, folder = scene
    (tmp_path / "labels.csv").write_text("file,species,label\nrecording-000.wav,sunny,Wren\n")
    result = run("annotate", folder / "recordings", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert "labels.csv, row 1" in result.output
    assert "'species'" in result.output


def test_columns_to_use_can_be_named(scene, tmp_path):
    _, folder = scene
    table, out = tmp_path / "labels.csv", tmp_path / "run"
    table.write_text("weather,sound,who\nsunny,recording-000.wav,Wren\nrain,recording-001.wav,Wren\n")
    base = ("annotate", folder / "recordings", "--out", out, "--jobs", 1, "--no-page", "--format", "csv")
    result = run(*base, "--labels", table, "--columns", "sound", "who")
    assert result.exit_code == 0, result.output
    assert "from the columns 'sound' and 'who'" in result.output
    assert {row["label"] for row in read_csv(out / "annotations.csv")} == {"Wren"}
    wrong = run(*base, "--labels", table, "--columns", "sound", "whom")
    assert (wrong.exit_code, "expected one column 'whom'" in wrong.output) == (1, True)
    assert run(*base, "--columns", "sound", "who").exit_code == 2


def test_pictures(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    colours = {"sky": (90, 140, 230), "grass": (50, 140, 40), "road": (110, 105, 100)}
    rows = []
    for i in range(9):
        names = list(rng.choice(list(colours), 2, replace=False))
        image = np.zeros((40, 60, 3))
        image[:20], image[20:] = colours[names[0]], colours[names[1]]
        mask = np.repeat([[1], [2]], 20, axis=0) * np.ones((1, 60))
        noisy = np.clip(image + rng.normal(0, 12, image.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{i}.png")
        Image.fromarray(mask.astype(np.uint8)).save(folder / f"{i}_mask.png")
        rows.append((f"{i}.png", names))
    text = "".join(f"{name},{';'.join(names)}\n" for name, names in rows)
    (tmp_path / "labels.csv").write_text("image,labels\n" + text)
    (folder / "void.png").write_bytes((folder / "0.png").read_bytes())
    Image.fromarray(np.zeros((40, 60), np.uint8)).save(folder / "void_mask.png")
    out = tmp_path / "run"
    result = run(
        "annotate",
        folder,
        "--labels",
        tmp_path / "labels.csv",
        "--out",
        out,
        "--media-set",
        "regions=mask",
        "--model",
        "ored",
    )
    assert result.exit_code == 3, result.output
    assert "void.png: no region was found in it" in result.output
    told = dict(rows)
    found = read_csv(out / "annotations.csv")
    right = [row["label"] == told[row["file"]][int(row["instance"])] for row in found]
    assert np.mean(right) > 0.9
    coco = json.loads((out / "coco.json").read_text())
    assert len(coco["images"]) == 10
    assert len(coco["annotations"]) == 18
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count('<path class="region"') == 18
    drawn = run("inspect", folder / "0.png", "--out", tmp_path / "stages", "--media-set", "regions=mask")
    assert "60 x 40 points, 2 regions" in drawn.output
    assert (tmp_path / "stages" / "001-0.png").read_bytes().startswith(b"\x89PNG")


def test_masks_beside_pictures_are_no_pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.jpg", "a_mask.png", "b.png", "gas_mask.png"):
        picture = np.zeros((40, 60, 3), np.uint8)
        picture[:, 30:] = 200
        Image.fromarray(picture).save(folder / name)
    (tmp_path / "labels.csv").write_text("file,label\na,dark\na,light\nb,dark\nb,light\ngas_mask,dark\n")
    out = tmp_path / "run"
    run("annotate", folder, "--labels", tmp_path / "labels.csv", "--out", out, "--jobs", 1, "--format", "csv")
    assert {row["file"] for row in read_csv(out / "annotations.csv")} == {"a.jpg", "b.png", "gas_mask.png"}


def test_texts(tmp_path):
    rng = np.random.default_rng(1)
    words = {"sea": ["wave", "ship", "salt", "tide", "sail"], "wood": ["tree", "leaf", "bark", "root", "moss"]}
    folder = tmp_path / "texts"
    folder.mkdir()
    truth = {}
    for i in range(12):
        topics = ["sea", "wood"] if i % 3 == 0 else [["sea"], ["wood"]][i % 2]
        parts = [" ".join(rng.choice(words[topic], 60)) for topic in topics]
        (folder / f"{i}.txt").write_text(". ".join(parts), encoding="utf-8")
        truth[f"{i}.txt"] = topics
    (folder / "blank.txt").write_text("")
    (folder / "page.html").write_bytes(f"<h1>Über See</h1><p>{' '.join(words['sea'] * 12)}</p>".encode("latin-1"))
    truth["page.html"] = ["sea"]
    table = "".join(f"{name},{';'.join(topics)}\n" for name, topics in truth.items() if name != "11.txt")
    (tmp_path / "labels.csv").write_text("document,labels\n" + table)
    out = tmp_path / "run"
    result = run("annotate", folder, "--labels", tmp_path / "labels.csv", "--out", out, "--jobs", 1)
    assert result.exit_code == 3
    assert "blank.txt is empty" in result.output
    assert "Note: 1 of 13 texts read as HTML (Latin-1): page.html." in result.output
    assert "1 of 13 texts read as HTML (Latin-1): page.html." in (out / "report.html").read_text(encoding="utf-8")
    with Run.open(out) as opened:
        assert sp.issparse(opened.material.dataset.bags.instances)
    rows = read_csv(out / "annotations.csv")
    for row in rows:
        text = document_text(folder / row["file"])[int(row["start"]) : int(row["end"])].split()
        share = np.mean([word.strip(".") in words["sea"] for word in text])
        if abs(share - 0.5) > 0.3:
            assert row["label"] == ("sea" if share > 0.5 else "wood"), row
    assert {row["mode"] for row in rows if row["file"] == "11.txt"} == {"inductive"}
    spans = [json.loads(line) for line in (out / "spans.jsonl").read_text().splitlines()]
    assert {span["file"] for span in spans} == {*truth}
    assert all(document_text(folder / s["file"])[s["start"] : s["end"]] == s["text"] for s in spans)
    assert "<mark" in (out / "report.html").read_text(encoding="utf-8")
    new = tmp_path / "new"
    new.mkdir()
    (new / "x.txt").write_text("the tide and the sail and a wave of unheard things " * 4)
    applied = run("annotate", new, "--model", out / "model.bagwise", "--out", tmp_path / "run2", "--no-page")
    assert applied.exit_code == 0, applied.output
    assert {row["label"] for row in read_csv(tmp_path / "run2" / "annotations.csv")} == {"sea"}


def test_series(tmp_path):
    rng = np.random.default_rng(2)
    folder = tmp_path / "series"
    folder.mkdir()
    rates, rows = {"still": 0.0, "walk": 2.0, "run": 5.0}, []
    for i in range(8):
        acts = list(rng.choice(list(rates), 2, replace=False))
        time = np.arange(512) / 50
        x = np.concatenate([
            (rates[a] > 0) * np.sin(2 * np.pi * rates[a] * time[:256]) + 0.1 * rng.normal(size=256) for a in acts
        ])  # fmt: skip
        lines = ["time,x", *(f"{t:.3f},{v:.5f}" for t, v in zip(time, x, strict=True))]
        (folder / f"{i}.csv").write_text("\n".join(lines))
        rows.append((f"{i}.csv", acts))
    (folder / "labels.csv").write_text("file,labels\n" + "".join(f"{n},{';'.join(a)}\n" for n, a in rows))
    out = tmp_path / "run"
    result = run(
        "annotate",
        folder,
        "--labels",
        folder / "labels.csv",
        "--out",
        out,
        "--model",
        "ored",
        "--media-set",
        "step=128",
        "--jobs",
        1,
    )
    assert result.exit_code == 0, result.output
    told = dict(rows)
    found = read_csv(out / "annotations.csv")
    assert len(found) == 32
    assert np.mean([row["label"] == told[row["file"]][int(row["instance"]) // 2] for row in found]) > 0.9
    assert "<polyline" in (out / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def table_of_recordings(tmp_path_factory):
    """One table of eight people, half of them at rest first; clock times, a gap in the middle of each."""
    folder = tmp_path_factory.mktemp("table")
    rng, lines, labels = np.random.default_rng(3), ["when;who;x;y"], ["who,labels"]
    for i in range(8):
        begin = datetime(2024, 5, 1 + i, 6, 0, tzinfo=UTC)
        for k in range(400):
            moves = (k < 200) == (i % 2 == 0) if i < 6 else i == 6
            moment = begin + timedelta(seconds=k / 10 + (600 if k >= 200 else 0))
            x = np.sin(2 * np.pi * 2 * k / 10) * moves + 0.1 * rng.normal()
            cells = [moment.isoformat(), f"p{i}", f"{x:.3f}", f"{rng.normal():.3f}"]
            lines.append(";".join(cell.replace(".", ",") if j > 1 else cell for j, cell in enumerate(cells)))
        labels.append(f"p{i},{'move;rest' if i < 6 else 'move' if i == 6 else 'rest'}")
    (folder / "all.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "labels.csv").write_text("\n".join(labels) + "\n", encoding="utf-8")
    result = run(
        "annotate", folder / "all.csv", "--media-type", "series", "--labels", folder / "labels.csv", "--out",
        folder / "run", "--model", "ored", "--jobs", 1, "--media-set", "recording=who", "--media-set", "time=when",
        "--media-set", "window=40", "--media-set", "step=20",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return folder, result.output


def test_one_table_of_several_recordings(table_of_recordings):
    folder, output = table_of_recordings
    assert "Note: 8 gap(s) in time in 1 file(s) (all.csv): no stretch reaches across one." in output
    rows = read_csv(folder / "run" / "annotations.csv")
    assert {row["bag"] for row in rows} == {f"all.csv@p{i}" for i in range(8)}
    told = [row for row in rows if int(row["bag"][-1]) < 6]
    right = [(row["label"] == "move") == ((int(row["instance"]) < 9) == (int(row["bag"][-1]) % 2 == 0)) for row in told]
    assert np.mean(right) > 0.9
    second = next(row for row in rows if row["bag"] == "all.csv@p1" and row["instance"] == "9")  # after the gap
    assert second["time"] == "2024-05-02T06:10:20.000+00:00"
    assert float(second["end"]) - float(second["start"]) == pytest.approx(4.0)
    intervals = read_csv(folder / "run" / "intervals.csv")
    assert len(intervals) < len(rows) / 4
    assert sum(int(row["windows"]) for row in intervals) == len(rows)
    assert json.loads((folder / "run" / "label-studio.json").read_text()) == []
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "<polyline" in page
    assert "8 gaps" in page or "gaps, drawn short" in page


def test_recordings_of_a_table_are_shown_one_by_one(table_of_recordings):
    folder, _ = table_of_recordings
    review = Review(Run.open(folder / "run"))
    try:
        shown = review.show("all.csv@p1", 9)
        assert shown["channels"] == ["x", "y"]
        assert {span["bag"] for span in shown["spans"]} == {"all.csv@p1"}
        assert shown["times"] == sorted(shown["times"])
        i = review.places.row("all.csv@p1", 9)
        assert review.media.thumb("all.csv", review.places.place(i), 64)[:4] == b"\x89PNG"
    finally:
        review.close()


def test_series_of_other_channels_are_named_and_the_rest_is_done(tmp_path):
    rng = np.random.default_rng(0)
    folder, new = tmp_path / "series", tmp_path / "new"
    folder.mkdir()
    new.mkdir()

    def write(path, heading):
        values = rng.normal(size=(300, heading.count(",") + 1))
        path.write_text("\n".join([heading, *(",".join(f"{v:.4f}" for v in row) for row in values)]))

    write(folder / "a-other.csv", "z")
    for i in range(4):
        write(folder / f"s{i}.csv", "x,y")
    write(new / "right.csv", "x,y")
    write(new / "turned.csv", "y,x")
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"s{i}.csv,{'ab'[i % 2]}\n" for i in range(4)))
    base = ("annotate", "--jobs", 1, "--no-page", "--format", "csv")
    told = run(*base, folder, "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run")
    assert told.exit_code == 3, told.output
    assert "Problem: a-other.csv: its columns (z) are not those of most files" in told.output
    assert {row["file"] for row in read_csv(tmp_path / "run" / "annotations.csv")} == {f"s{i}.csv" for i in range(4)}
    alone = run(*base, new, "--model", tmp_path / "run" / "model.bagwise", "--out", tmp_path / "run-new")
    assert alone.exit_code == 3, alone.output
    assert "Problem: turned.csv: its columns (y, x) are not those of the files that the model" in alone.output
    assert {row["file"] for row in read_csv(tmp_path / "run-new" / "annotations.csv")} == {"right.csv"}


def test_inspect_draws_the_pieces_asked_for(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    rng = np.random.default_rng(0)
    path = tmp_path / "a.wav"
    soundfile.write(path, 0.1 * rng.normal(size=16_000 * 5), 16_000)
    result = run("inspect", path, "--media-set", "window=2", "--start", 2, "--pieces", 2)
    assert result.exit_code == 0, result.output
    drawn = tmp_path / "here" / "inspect-a"
    assert sorted(p.name for p in drawn.iterdir()) == ["001-a@2.png", "002-a@4.png"]
    assert result.output.endswith(f"2 picture(s) in inspect-a{os.sep}\n")
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["a.wav"]  # nothing beside the recording
    run("inspect", path, "--media-set", "threshold=6")  # with other settings: one more, none replaced
    assert sorted(p.name for p in drawn.iterdir()) == ["001-a@2.png", "002-a@4.png", "003-a@0.png"]
    for arguments, message in (
        ((path, "--start", 9), "5.00 s long"),
        ((tmp_path / "no.wav",), "does not exist; check the path"),
        ((tmp_path / "a.txt",), "does not exist"),
        ((path, "--out", path), "for the pictures cannot be made"),
        (
            (path, "--media-set", "low=1005", "--media-set", "high=1020"),
            "no point of the spectrogram from low=1005 to high=1020",
        ),
    ):
        failed = run("inspect", *arguments)
        assert failed.exit_code == 1
        assert message in failed.output
    run("inspect", path, "--start", 9, "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_pictures_that_inspect_drew_do_not_change_the_medium(tmp_path, monkeypatch):
    made = make_soundscape(3, seconds=6.0, species_per_recording=(1, 2), random_state=1)
    made.write(tmp_path)
    monkeypatch.chdir(tmp_path / "recordings")
    for name in made.names:
        assert run("inspect", name, "--pieces", 2, "--media-set", "window=3").exit_code == 0
        run("inspect", name, "--out", ".")  # beside the recordings
    assert len(list((tmp_path / "recordings").rglob("*.png"))) == 3 * len(made.names)
    result = run(
        "annotate", ".", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run", "--jobs", 1, "--no-page",
        "--format", "csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("3 files, ")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["identity"]["medium"] == "audio"


def test_inspect_draws_very_short_sounds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    soundfile.write(tmp_path / "short.wav", np.full(50, 0.1), 16_000)
    result = run("inspect", tmp_path / "short.wav")  # warnings are errors here
    assert result.exit_code == 0, result.output
    assert (tmp_path / "inspect-short" / "001-short@0.png").exists()


def test_demo_names_the_singers(tmp_path):
    result = run("demo", "--out", tmp_path, "--seed", 2, "--quiet")
    assert result.exit_code == 0, result.output
    assert "60 recordings, 10 minutes" in result.output
    last = next(line for line in result.output.splitlines() if line.startswith("all "))
    found, right = (float(number) for number in re.findall(r"([\d.]+) %", last))
    assert found >= 90
    assert right >= 85
    guess = float(re.search(r"guessing .* ([\d.]+) %", result.output)[1])
    assert guess < right - 15
    assert max(map(len, result.output.splitlines()[:-3])) <= 110
    assert (tmp_path / "run" / "report.html").is_file()
