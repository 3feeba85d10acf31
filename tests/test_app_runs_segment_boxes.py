"""`--segment TABLE`: the boxes of detectors are the instances, whatever tool drew them."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner

from bagwise import Run
from bagwise.app.cli.main import main
from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media.matching import match_events
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_soundscape

ORDER = ("file", "start", "end", "low", "high")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    made = make_soundscape(14, random_state=8)
    folder = tmp_path_factory.mktemp("scene")
    made.write(folder)
    return made, folder


def write(path, headings, rows, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(headings)
        writer.writerows(rows)
    return path


def annotate(folder, table, out, **options):
    arguments = {"labels": folder / "labels.csv", "page": False, "jobs": 1, "settings": {"frame": 0.032}} | options
    return Run.create(folder / "recordings", out, segment=str(table), **arguments)


def test_boxes_are_the_instances_and_are_named(scene, tmp_path):
    made, folder = scene
    table = write(tmp_path / "boxes.csv", [*ORDER, "score"], [[*(e[k] for k in ORDER), 0.7] for e in made.events])
    with annotate(folder, table, tmp_path / "run") as run:
        rows = run.annotations()
        assert len(rows) == len(made.events)
        for key in ("start", "end"):
            expected = {(e["file"], round(e[key], 3)) for e in made.events}
            assert {(row["file"], round(row[key], 3)) for row in rows} == expected
        matched = match_events(rows, made.events)
        right = [row["label"] == made.events[j]["label"] for row, j in zip(rows, matched, strict=True)]
        assert np.mean(right) > 0.85
        assert run.problems == []
        assert run.remarks() is not None
        before = rows
    with annotate(folder, table, tmp_path / "run") as again:  # nothing is read or learned twice
        assert again.annotations() == before
        assert again.result().n_reused == 14
    with Run.open(tmp_path / "run") as opened:
        opened.correct([(before[0]["bag"], before[0]["instance"], before[0]["label"])])
        assert opened.n_corrections == 1
    with pytest.raises(InputError, match="holds another run: settings: boxes is"):
        annotate(
            folder,
            write(tmp_path / "fewer.csv", ORDER, [[e[k] for k in ORDER] for e in made.events[:-1]]),
            tmp_path / "run",
        )
    model = tmp_path / "run" / "model.bagwise"
    with pytest.raises(InputError, match="instances are boxes of a table, and none is given"):
        Run.create(folder / "recordings", tmp_path / "new", model=model, page=False)
    with annotate(folder, table, tmp_path / "new", model=model, labels=None, settings=None) as new:
        assert len(new.annotations()) == len(before)


@pytest.mark.parametrize("tool", ["raven", "birdnet", "tab"])
def test_tables_of_other_tools(scene, tmp_path, tool):
    made, folder = scene
    events = made.events
    if tool == "raven":
        table = tmp_path / "boxes"
        table.mkdir()
        headings = [
            "Selection",
            "View",
            "Channel",
            "Begin Time (s)",
            "End Time (s)",
            "Low Freq (Hz)",
            "High Freq (Hz)",
            "Annotation",
        ]
        for name in made.names:
            own = [e for e in events if e["file"] == name]
            rows = [[i + 1, "Spectrogram 1", 1, *(e[k] for k in ORDER[1:]), "x"] for i, e in enumerate(own)]
            write(table / f"{name}.selections.txt", headings, rows, "\t")
    elif tool == "birdnet":
        headings = ["Start (s)", "End (s)", "Scientific name", "Common name", "Confidence", "File"]
        rows = [[e["start"], e["end"], "x", "x", 0.3, e["file"]] for e in events]
        table = write(tmp_path / "boxes.csv", headings, rows)
    else:
        headings = ["filename", "start_time", "end_time", "low_freq", "high_freq", "det_prob"]
        table = write(tmp_path / "boxes.tsv", headings, [[*(e[k] for k in ORDER), 0.9] for e in events], "\t")
    with annotate(folder, table, tmp_path / "run") as run:
        rows = run.annotations()
        assert len(rows) == len(events)
        highest = {row["high"] for row in rows}
        assert (highest == {8000.0}) if tool == "birdnet" else (len(highest) > 8)  # of time alone: all frequencies


@pytest.mark.parametrize("form", ["folder", "classes", "table"])
def test_shares_of_spectrograms_as_yolo_has_them(scene, tmp_path, form):
    made, folder = scene
    rate, seconds = 16_000, 10.0
    boxes = [
        (
            e["file"],
            (e["start"] + e["end"]) / 2 / seconds,
            1 - (e["low"] + e["high"]) / rate,
            (e["end"] - e["start"]) / seconds,
            2 * (e["high"] - e["low"]) / rate,
        )
        for e in made.events
    ]
    if form == "table":
        table = write(tmp_path / "boxes.csv", ["file", "class", "x", "y", "w", "h"], [[b[0], 0, *b[1:]] for b in boxes])
    else:
        table = tmp_path / "boxes"
        table.mkdir()
        for name in made.names:
            lines = [f"0 {' '.join(map(repr, b[1:]))} 0.9\n" for b in boxes if b[0] == name]
            (table / f"{name[:-4] if form == 'folder' else name}.txt").write_text("".join(lines))
        if form == "classes":
            (table / "classes.txt").write_text("call\n")
    with annotate(folder, table, tmp_path / "run") as run:
        rows = sorted(run.annotations(), key=lambda row: (row["file"], row["start"], row["low"]))
    expected = sorted(made.events, key=lambda e: (e["file"], e["start"], e["low"]))
    assert [row["file"] for row in rows] == [e["file"] for e in expected]
    for key, within in (("start", 1e-3), ("end", 1e-3), ("low", 0.1), ("high", 0.1)):
        np.testing.assert_allclose([row[key] for row in rows], [e[key] for e in expected], atol=within)
    if form == "table":
        write(table, ["file", "x", "y", "w", "h"], [[made.names[0], 320, 200, 40, 20]])
        with pytest.raises(InputError, match="x, y, w and h are 320, 200, 40 and 20; expected shares from 0 to 1"):
            annotate(folder, table, tmp_path / "other")


def test_what_does_not_fit_is_named(scene, tmp_path):
    made, folder = scene
    rows = [[e[k] for k in ORDER] for e in made.events]
    rows += [[made.names[0], 9.9, 12.0, 100, 90_000], [made.names[0], 20, 21, 100, 900], [made.names[0], 1, 2, 10, 90]]
    table = write(tmp_path / "boxes.csv", ORDER, rows)
    with annotate(folder, table, tmp_path / "run") as run:
        assert len(run.annotations()) == len(rows) - 2
        assert max(row["end"] for row in run.annotations()) <= 10.0
        (problem,) = run.problems
        assert "2 of " in problem[1]
        assert "boxes lie outside of its 10.0 s, or of the 200 to 8000 Hz" in problem[1]
    with pytest.raises(InputError, match="there is no such table; use syllables, windows"):
        annotate(folder, tmp_path / "no.csv", tmp_path / "other")
    with pytest.raises(InputError, match="none of its 1 boxes, such as 'who.wav', is of a file"):
        annotate(folder, write(tmp_path / "who.csv", ORDER, [["who.wav", 1, 2, 300, 400]]), tmp_path / "other")
    with pytest.raises(InputError, match="there are no columns file, start and end; found a, b"):
        annotate(folder, write(tmp_path / "bad.csv", ["a", "b"], [[1, 2]]), tmp_path / "other")
    arguments = ["--segment", "nothing", "--out", str(tmp_path / "o"), "--labels", str(folder / "labels.csv")]
    result = CliRunner().invoke(main, ["annotate", str(folder / "recordings"), *arguments])
    assert result.exit_code == 1


def test_a_box_around_a_syllable_is_described_as_the_syllable(scene, tmp_path):
    """The part of the stretch that is looked at for a box changes nothing of its features."""
    made, folder = scene
    found = featurize_audio([folder / "recordings" / made.names[0]], AudioSettings())
    places = found.locations
    rows = [[made.names[0], *(repr(float(places[key][i])) for key in ORDER[1:])] for i in range(len(places["start"]))]
    table = write(tmp_path / "boxes.csv", ORDER, rows)
    run = annotate(folder, table, tmp_path / "run", settings={"frame": 0.032, "threshold": 4})
    dataset = run.material.dataset
    assert dataset.bags.n_instances == found.bags.n_instances
    alone = [
        i
        for i, row in enumerate(found.bags.instances)
        if np.any(np.all(np.isclose(dataset.bags.instances, row), axis=1))
    ]
    assert len(alone) >= 0.7 * len(rows)  # the others have a neighbor in their box
    run.close()
