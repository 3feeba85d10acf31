"""Boxes that were drawn, moved and deleted in Raven, Audacity and Label Studio come home as what they are."""

import json
import shutil

import pytest
from click.testing import CliRunner

from bagwise import Run
from bagwise.app.cli import main
from bagwise.datasets import make_soundscape


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    make_soundscape(4, seconds=6.0, species_per_recording=(2, 3), random_state=5).write(folder)
    options = {"labels": folder / "labels.csv", "page": False, "jobs": 1, "model": "ored-background"}
    Run.create(folder / "recordings", folder / "run", **options).close()
    return folder / "run"


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made, tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as opened:
        yield opened


def shown(run):
    annotations = run.result().annotations
    name = next(name for name, rows in annotations.shown_by_file().items() if len(rows) >= 4)
    return name, annotations.shown_by_file()[name]


def edited(rows):
    """Four edits: the first is longer by a third, the second has another label, the third is gone, and one is new."""
    first, second, third, *rest = [dict(row) for row in rows]
    first["end"] = round(first["end"] + 0.3 * (first["end"] - first["start"]), 4)
    second["label"] = "odd one"
    new = {"start": 0.05, "end": 0.25, "low": 7000.0, "high": 7600.0, "label": "newcomer"}
    return [first, second, *rest, new], (first, second, third)


def raven(run, name, rows):
    path = run.path / "raven" / f"{name}.selections.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    heading = lines[0].split("\t")
    made = []
    for i, row in enumerate(rows, 1):
        cells = {
            "Selection": i, "View": "Spectrogram 1", "Channel": 1, "Begin Time (s)": row["start"],
            "End Time (s)": row["end"], "Low Freq (Hz)": row["low"], "High Freq (Hz)": row["high"],
            "Annotation": row["label"],
        }  # fmt: skip
        made.append("\t".join(str(cells.get(key, "")) for key in heading))
    path.write_text("\n".join([lines[0], *made]) + "\n", encoding="utf-8")
    return path


def audacity(run, name, rows):
    path = run.path / "audacity" / f"{name}.txt"
    lines = [f"{row['start']}\t{row['end']}\t{row['label']}\n\\\t{row['low']}\t{row['high']}\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def label_studio(run, name, rows):
    tasks = json.loads((run.path / "label-studio.json").read_text(encoding="utf-8"))
    (task,) = [task for task in tasks if task["data"]["audio"] == name]
    results = [
        {"type": "labels", "value": {"start": row["start"], "end": row["end"], "labels": [row["label"]]}}
        for row in rows
    ]
    path = run.path.parent / "export.json"
    path.write_text(json.dumps([{"data": task["data"], "annotations": [{"result": results}]}]), encoding="utf-8")
    return path


@pytest.mark.parametrize("write", [raven, audacity, label_studio])
def test_every_edit_comes_home_in_one_step(run, write):
    before = run.annotations()
    name, rows = shown(run)
    now, (first, second, third) = edited(rows)
    edits = run.read_edits(write(run, name, now))
    assert [(bag, instance) for bag, instance, *_ in edits.moved] == [(first["bag"], first["instance"])]
    assert [(file, label) for file, _, label in edits.drawn] == [(name, "newcomer")]
    assert edits.problems == []
    assert edits.corrections == [
        (second["bag"], second["instance"], "odd one"), (third["bag"], third["instance"], "")
    ]  # fmt: skip
    assert run.take_edits(edits, by="Ada") == []
    found = {(row["bag"], row["instance"]): row for row in run.annotations()}
    assert len(found) == len(before) + 1
    moved = found[first["bag"], first["instance"]]
    assert moved["end"] == first["end"]
    assert moved["low"] == first["low"]
    assert (moved["label"], moved["checked"]) == (first["label"], True)
    assert found[second["bag"], second["instance"]]["label"] == "odd one"
    assert found[third["bag"], third["instance"]]["label"] == ""
    (drawn,) = [row for key, row in found.items() if key not in {(r["bag"], r["instance"]) for r in before}]
    assert (drawn["file"], drawn["start"], drawn["end"], drawn["label"]) == (name, 0.05, 0.25, "newcomer")
    if write is not label_studio:  # which has no frequencies
        assert (drawn["low"], drawn["high"]) == (7000.0, 7600.0)
    run.refit()
    assert run.read_edits(run.path / "raven").corrections == []
    run.undo()
    assert run.annotations() == before


def test_one_that_was_moved_far_keeps_its_key(run):
    """It overlaps where it was by less than half: neither is a new one drawn, nor is the old one background."""
    name, rows = shown(run)
    far = dict(rows[0])
    shift = 0.7 * (far["end"] - far["start"])
    far |= {"start": round(far["start"] + shift, 4), "end": round(far["end"] + shift, 4)}
    edits = run.read_edits(raven(run, name, [far, *rows[1:]]))
    assert (edits.corrections, edits.drawn, edits.problems) == ([], [], [])
    assert [(bag, i, place["start"]) for bag, i, place, _ in edits.moved] == [
        (far["bag"], far["instance"], far["start"])
    ]


def test_what_was_written_and_not_edited_says_nothing(run):
    for name in ("raven", "audacity", "label-studio.json", "annotations.csv", "birdnet.csv"):
        edits = run.read_edits(run.path / name)
        assert (edits.corrections, edits.moved, edits.drawn, edits.problems) == ([], [], [], [])


def test_boxes_that_cannot_be_are_named(run):
    name, rows = shown(run)
    outside = {"start": 5.9, "end": 6.5, "low": 1000.0, "high": 2000.0, "label": rows[0]["label"]}
    path = raven(run, name, [*rows, outside])
    run.close()
    done = CliRunner().invoke(main, ["correct", str(run.path), "--from", str(path)])
    assert done.exit_code == 3
    assert "lies outside of the recording, which has 6 s" in done.output
    assert not (run.path / "corrections.csv").exists()


def test_the_command_line_says_what_was_drawn(run):
    name, rows = shown(run)
    now, _ = edited(rows)
    path = raven(run, name, now)
    run.close()
    dry = CliRunner().invoke(main, ["correct", str(run.path), "--from", str(path), "--new-labels", "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert f"{name}: drawn at start 0.05, end 0.25, low 7000, high 7600, newcomer" in dry.output
    assert "moved to start" in dry.output
    assert "would write 2 corrections, 1 drawn and 1 moved boxes" in dry.output
    strange = CliRunner().invoke(main, ["correct", str(run.path), "--from", str(path)])
    assert strange.exit_code == 1
    assert "2 such label(s) in all" in strange.output
    done = CliRunner().invoke(main, ["correct", str(run.path), "--from", str(path), "--new-labels"])
    assert done.exit_code == 0, done.output
    with Run.open(run.path) as again:
        assert "newcomer" in {row["label"] for row in again.annotations()}
