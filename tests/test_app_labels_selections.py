"""Selection tables of Raven and results of BirdNET as labels: sets of files, and syllables that are known."""

import csv
from collections import defaultdict

import numpy as np
import pytest
from click.testing import CliRunner

from bagwise import BagDataset, Bags
from bagwise.app.cli import main
from bagwise.app.formats import instances_inside
from bagwise.app.labels.tables import known_by_selections
from bagwise.app.media.matching import match_events
from bagwise.app.runs import Run
from bagwise.core.exceptions import FormatError, InputError
from made import write_scene

RAVEN = ("Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scene"), 8, seconds=8.0, species_per_recording=(1, 2), random_state=3)


def write_tabs(path, headings, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(map(str, row)) for row in [headings, *rows]) + "\n", encoding="utf-8")


def write_raven(made, folder, margin=0.05, column="Species", name="{}.Table.1.selections.txt"):
    """What a person selects in Raven: a box around each call, a little larger than it."""
    for i, file in enumerate(made.names):
        rows = [
            (
                j + 1,
                "Spectrogram 1",
                1,
                e["start"] - margin,
                e["end"] + margin,
                e["low"] - 100,
                e["high"] + 100,
                e["label"],
            )
            for j, e in enumerate(e for e in made.events if e["file"] == file)
        ]
        stem = file if i % 2 else file.removesuffix(".wav")
        write_tabs(folder / name.format(stem), [*RAVEN, column], rows)


def birdnet_rows(made, seed=0):
    """Three-second windows with the species in them, and as many wrong ones that are less sure."""
    rng = np.random.default_rng(seed)
    for file in made.names:
        windows = defaultdict(set)
        for event in made.events:
            if event["file"] == file:
                windows[3 * int(event["start"] // 3)].add(event["label"])
        for start, labels in sorted(windows.items()):
            for label in sorted(labels):
                yield file, start, start + 3, label, 0.6 + 0.4 * rng.random()
            yield file, start, start + 3, str(rng.choice(made.species)), 0.1 + 0.3 * rng.random()


def truths(made, result):
    boxes = result.annotations.rows
    matched = match_events(boxes, made.events)
    return {(b["bag"], b["instance"]): made.events[j]["label"] for b, j in zip(boxes, matched, strict=True) if j >= 0}


def heard(made):
    return {name: set(labels) for name, labels in zip(made.names, made.label_sets, strict=True)}


def annotate(scene, out, labels, **options):
    with Run.create(scene[1] / "recordings", out, labels=labels, jobs=1, page=False, formats=["csv"], **options) as run:
        return run.result(), run.material


@pytest.mark.parametrize("column", ["Annotation", "Species"])
def test_selections_of_raven_are_labels_and_known_syllables(scene, tmp_path, column):
    made, _ = scene
    write_raven(made, tmp_path / "raven", column=column)
    result, material = annotate(scene, tmp_path / "run", tmp_path / "raven")
    assert result.problems == []
    assert {name: set(labels) for name, labels in material.sets.items()} == heard(made)
    truth = truths(made, result)
    known = {(bag, instance): label for bag, instance, label in material.known}
    assert len(known) >= 0.9 * len(truth)
    right = [truth[key] == label for key, label in known.items() if key in truth]
    assert np.mean(right) >= 0.98
    assert f"selections of Raven: {len(made.events)}; {len(known)} syllables known by them" in result.form


def test_a_model_that_needs_known_syllables_learns_from_selections(scene, tmp_path):
    made, _ = scene
    write_raven(made, tmp_path / "raven")
    result, _ = annotate(scene, tmp_path / "run", tmp_path / "raven", model="lr-supervised")
    truth = truths(made, result)
    rows = {(row["bag"], row["instance"]): row["label"] for row in result.annotations.rows}
    assert np.mean([rows[key] == label for key, label in truth.items()]) > 0.9


def test_one_table_of_all_recordings_with_full_paths(scene, tmp_path):
    made, _ = scene
    rows = [
        (
            i + 1,
            "Spectrogram 1",
            1,
            e["start"],
            e["end"],
            0,
            8000,
            f"D:\\field\\{e['file'].upper()}",
            e["start"],
            e["label"],
        )
        for i, e in enumerate(made.events)
    ]
    write_tabs(tmp_path / "all.txt", [*RAVEN, "Begin Path", "File Offset (s)", "Annotation"], rows)
    _, material = annotate(scene, tmp_path / "run", tmp_path / "all.txt")
    assert {name: set(labels) for name, labels in material.sets.items()} == heard(made)


def test_a_folder_of_tables_with_names_of_their_own(scene, tmp_path):
    """BirdNET-Go calls its tables a.wav.txt; notes among them would make it unclear."""
    made, _ = scene
    write_raven(made, tmp_path / "tables", name="{}.txt")
    _, material = annotate(scene, tmp_path / "run", tmp_path / "tables")
    assert {name: set(labels) for name, labels in material.sets.items()} == heard(made)


def test_an_empty_table_says_that_nothing_was_heard(scene, tmp_path):
    made, _ = scene
    write_raven(made, tmp_path / "raven")
    first = sorted((tmp_path / "raven").iterdir())[0]
    first.write_text(first.read_text().splitlines()[0] + "\n")
    result, material = annotate(scene, tmp_path / "run", tmp_path / "raven")
    assert [name for name, labels in material.sets.items() if not labels] == [made.names[0]]
    assert result.problems == []


@pytest.mark.parametrize("form", ["one table", "a table a file", "for R", "selection tables"])
def test_results_of_birdnet_that_are_sure_enough_are_labels(scene, tmp_path, form):
    made, _ = scene
    rows, path = list(birdnet_rows(made)), tmp_path / "birdnet"
    path.mkdir()
    plain = ["Start (s)", "End (s)", "Scientific name", "Common name", "Confidence"]
    if form == "selection tables":
        headings = [*RAVEN, "Common Name", "Species Code", "Confidence", "Begin Path", "File Offset (s)"]
        for file in made.names:
            own = [(i + 1, "Spectrogram 1", 1, s, e, 0, 15000, label, "x", c, f"/home/ada/{file}", s)
                   for i, (f, s, e, label, c) in enumerate(rows) if f == file]  # fmt: skip
            write_tabs(path / f"{file.removesuffix('.wav')}.BirdNET.selection.table.txt", headings, own)
    elif form == "a table a file":
        for file in made.names:
            with (path / f"{file.removesuffix('.wav')}.BirdNET.results.csv").open("w", newline="") as table:
                csv.writer(table).writerows([plain, *((s, e, "", lb, c) for f, s, e, lb, c in rows if f == file)])
    else:
        headings = [*plain, "File"] if form == "one table" else [
            "start", "end", "scientific_name", "common_name", "confidence", "filepath"]  # fmt: skip
        path = tmp_path / "birdnet.csv"
        with path.open("w", newline="") as table:
            csv.writer(table).writerows([headings, *((s, e, "", lb, c, f"/home/ada/{f}") for f, s, e, lb, c in rows)])
    result, material = annotate(scene, tmp_path / "run", path)
    assert {name: set(labels) for name, labels in material.sets.items()} == heard(made)
    n_sure = sum(row[4] >= 0.5 for row in rows)
    assert f"{n_sure} of {len(rows)} detections, those with a confidence of 0.5 or more" in result.form
    assert len(material.known) < 0.1 * len(result.annotations.rows)  # three seconds say nothing of one syllable
    with pytest.raises(FormatError, match="none of its .* detections has a confidence of 1 or more; lower --min-conf"):
        annotate(scene, tmp_path / "none", path, min_confidence=1.0)
    _, all_of_them = annotate(scene, tmp_path / "all", path, min_confidence=0.0)
    assert all(set(all_of_them.sets[name]) >= labels for name, labels in heard(made).items())


def test_tables_may_lie_beside_the_recordings(scene, tmp_path):
    made, _ = scene
    made.write(tmp_path)
    folder = tmp_path / "recordings"
    write_raven(made, folder)
    (folder / "picture.png").write_bytes(b"no picture")
    printed = CliRunner().invoke(
        main,
        ["annotate", str(folder), "--labels", str(folder), "--out", str(tmp_path / "out"),
         "--no-page", "--format", "csv", "--jobs", "1"],
    )  # fmt: skip
    assert printed.exit_code == 0, printed.output
    assert "8 files" in printed.output
    assert "labels: selections of Raven" in printed.output


def test_what_cannot_be_used_is_said(scene, tmp_path):
    made, _ = scene
    write_raven(made, tmp_path / "raven")
    write_tabs(tmp_path / "raven" / "gone.selections.txt", [*RAVEN, "Species"], [(1, "S", 1, 0, 1, 0, 1, "wren")])
    write_tabs(
        tmp_path / "raven" / f"{made.names[0]}.selections.txt", [*RAVEN, "Species"], [(1, "S", 1, 0, 1, 0, 1, "")]
    )
    result, _ = annotate(scene, tmp_path / "run", tmp_path / "raven", model="ored")
    supervision = [message for _, message in result.problems]
    assert any("gone.selections.txt, row 2: there is no such file ('gone')" in message for message in supervision)
    assert any("1 selection(s) have no label and are not used" in message for message in supervision)
    (tmp_path / "empty").mkdir()
    for path, options, kind, message in (
        (tmp_path / "raven", {"columns": ("a", "b")}, InputError, "whose columns are known; leave --columns out"),
        (tmp_path / "empty", {}, FormatError, "no selection table"),
        (scene[1], {}, FormatError, "no selection table"),
        (tmp_path / "raven", {"min_confidence": 2}, InputError, r"from 0 to 1 \(--min-confidence\)"),
    ):
        with pytest.raises(kind, match=message):
            annotate(scene, tmp_path / "other", path, **options)
    write_tabs(tmp_path / "bare.selections.txt", [*RAVEN, "Annotation"], [(1, "S", 1, 0, 1, 0, 1, "")])
    with pytest.raises(FormatError, match="no selection in it has a label; write one into the column Annotation"):
        annotate(scene, tmp_path / "other", tmp_path / "bare.selections.txt")


def test_labels_that_differ_in_case_only_can_be_made_one(scene, tmp_path):
    made, _ = scene
    write_raven(made, tmp_path / "raven")
    for table in sorted((tmp_path / "raven").iterdir())[:2]:
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([head, *(row.upper().replace("SPECTROGRAM", "Spectrogram") for row in rows)]) + "\n")
    plain, _ = annotate(scene, tmp_path / "plain", tmp_path / "raven")
    assert any("--fold-case makes them one" in message for _, message in plain.problems)
    _, material = annotate(scene, tmp_path / "folded", tmp_path / "raven", fold_case=True)
    folded = {name: {label.casefold() for label in labels} for name, labels in material.sets.items()}
    assert folded == {name: {label.casefold() for label in labels} for name, labels in heard(made).items()}
    assert len({label for labels in material.sets.values() for label in labels}) == len(set().union(*folded.values()))


@pytest.mark.parametrize("seed", range(20))
def test_instances_inside_are_those_of_plain_loops(seed):
    rng = np.random.default_rng(seed)
    rows, marks = [], []
    for found, n, widest in ((rows, 60, 1.0), (marks, 25, 3.0)):
        for _ in range(n):
            start, low = rng.uniform(0, 10), rng.uniform(0, 5000)
            box = {
                "start": start,
                "end": start + rng.uniform(0.01, widest),
                "low": low,
                "high": low + rng.uniform(1, 3000),
            }
            found.append({"file": str(rng.choice(["a", "b"])), **box, "label": str(rng.choice(["x", "y"]))})
    for mark in marks[::2]:
        del mark["low"], mark["high"]
    expected = defaultdict(set)
    for i, row in enumerate(rows):
        for mark in (mark for mark in marks if mark["file"] == row["file"]):
            time = max(0.0, min(row["end"], mark["end"]) - max(row["start"], mark["start"]))
            if "low" in mark:
                band = max(0.0, min(row["high"], mark["high"]) - max(row["low"], mark["low"]))
                is_in = time * band >= 0.5 * (row["end"] - row["start"]) * (row["high"] - row["low"])
            else:
                union = row["end"] - row["start"] + mark["end"] - mark["start"] - time
                is_in = time >= 0.5 * union
            if is_in:
                expected[i].add(mark["label"])
    assert instances_inside(rows, marks) == dict(expected)


def test_an_instance_in_selections_of_two_labels_is_known_by_both_where_it_may_carry_them():
    places = {"file": ["a.wav"] * 2, "start": [0.0, 3.0], "end": [3.0, 6.0], "low": [0.0] * 2, "high": [9e3] * 2}
    columns = {name: np.array(values) for name, values in places.items()}
    data = BagDataset(Bags(np.zeros((2, 1)), np.array([0, 2])), bag_names=["a.wav"], locations=columns)
    wren, tit = (
        {"file": "a.wav", "start": 0.0, "end": end, "low": 0.0, "high": 9e3, "label": label}
        for label, end in (("wren", 3.0), ("tit", 6.0))
    )
    known, text = known_by_selections([wren, tit], data)
    assert known == [("a.wav", 1, "tit")]
    assert text == "1 syllables known by them, 1 in selections of different labels"
    known, text = known_by_selections([wren, tit], data, several=True)
    assert known == [("a.wav", 0, "tit"), ("a.wav", 0, "wren"), ("a.wav", 1, "tit")]
    assert text == "2 syllables known by them"
