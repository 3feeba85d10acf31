"""Formats that are written where they are asked for: round trips, the example files of the documentation, readers of
others (make test-formats installs those that are not in the lock), and damaged files."""

import csv
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from bagwise.app.formats import FORMATS, check_formats, compare_marks, guess_annotation_format, read_marks
from bagwise.app.formats import write_formats as write
from bagwise.app.formats._occurrences import EBIRD, MOST_BYTES
from bagwise.app.media.media_types import MEDIA
from bagwise.core.exceptions import FormatError, InputError
from media_examples import finding, pictures, sounds

EXAMPLES = Path(__file__).parents[1] / "docs" / "annotation-formats"
READ_FROM = {
    "kaleidoscope": "kaleidoscope.csv", "aoef": "aoef.json", "generic-seq": "generic-seq.csv",
    "camtrap-dp": "camtrap-dp", "darwin-core": "occurrence.csv", "yolo": "yolo",
}  # fmt: skip
CREATED = "2026-01-01T00:00:00Z"


def in_field():
    """The recordings of `sounds`, whose times and places are known, with scientific names for some."""
    scene = sounds()
    spot = {"site": "north", "latitude": 48.25, "longitude": 16.5}
    files = [{**file, **spot, "recorded": f"2026-05-0{day}T05:00:00+02:00"} for day, file in enumerate(scene.files, 1)]
    names = {"Zaunkönig": ("Troglodytes troglodytes", "Eurasian Wren")}
    return replace(scene, files=files, names=names, folder=Path("recordings"))


def scene_of(name):
    return pictures() if name == "yolo" else in_field()


def test_they_are_there_for_their_media_and_not_written_unasked():
    for name in [*READ_FROM, "ebird"]:
        kind = "image" if name == "yolo" else "audio"
        assert check_formats([name], MEDIA[kind]) == [name]
        assert name not in MEDIA[kind].formats
        with pytest.raises(InputError, match="There is no format"):
            check_formats([name], MEDIA["text"])


@pytest.mark.parametrize("name", READ_FROM)
def test_what_was_written_says_nothing_new(tmp_path, name):
    scene = scene_of(name)
    write(scene, tmp_path, [name])
    path = tmp_path / READ_FROM[name]
    assert guess_annotation_format(path) == name
    marks = read_marks(path, scene)
    assert len(marks.rows) == len(scene.shown())
    assert compare_marks(scene, marks) == ([], [])


@pytest.mark.parametrize("name", READ_FROM)
def test_every_changed_label_and_every_deletion_is_found(tmp_path, name):
    scene = scene_of(name)
    for i, row in enumerate(scene.shown()):
        other = next(label for label in scene.classes if label != row["label"])
        for label in (other, ""):
            edited = replace(scene, rows=[{**r, "label": label} if r is row else r for r in scene.rows])
            folder = tmp_path / f"out{i}{label == ''}"
            write(edited, folder, [name])
            corrections, problems = compare_marks(scene, read_marks(folder / READ_FROM[name], scene))
            assert (corrections, problems) == ([(row["bag"], row["instance"], label)], [])


@pytest.mark.parametrize("name", [*READ_FROM, "ebird"])
def test_the_example_of_the_documentation_is_what_is_written(tmp_path, name):
    """To write the examples again: remove them, and run this with --basetemp to copy them from."""
    for path in write(scene_of(name), tmp_path, [name]):
        text = path.read_text(encoding="utf-8")
        if path.name == "datapackage.json":
            document = json.loads(text)
            text = text.replace(document["created"], CREATED)
        assert text == (EXAMPLES / path.relative_to(tmp_path)).read_text(encoding="utf-8")


# -- read by the libraries of others -----------------------------------------------------------------------------------


def test_soundevent_reads_aoef():
    io = pytest.importorskip("soundevent.io", reason="make test-formats installs it")
    scene = in_field()
    found = io.load(EXAMPLES / "aoef.json", audio_dir="recordings")
    clips = {str(one.clip.recording.path): one for one in found.clip_annotations}
    assert sorted(clips) == sorted(f"recordings/{file['file']}" for file in scene.files)
    events = [
        (str(clip.clip.recording.path), *event.sound_event.geometry.coordinates, event.tags[0].value)
        for clip in found.clip_annotations
        for event in clip.sound_events
    ]
    expected = [
        (f"recordings/{row['file']}", row["start"], row["low"], row["end"], row["high"], row["label"])
        for row in scene.shown()
    ]
    assert sorted(events) == sorted(expected)


def test_what_soundevent_writes_is_read(tmp_path):
    io = pytest.importorskip("soundevent.io", reason="make test-formats installs it")
    scene = in_field()
    found = io.load(EXAMPLES / "aoef.json", audio_dir="recordings")
    io.save(found, tmp_path / "saved.json", audio_dir="recordings")
    assert guess_annotation_format(tmp_path / "saved.json") == "aoef"
    assert compare_marks(scene, read_marks(tmp_path / "saved.json", scene)) == ([], [])


def test_frictionless_finds_the_data_package_valid():
    frictionless = pytest.importorskip("frictionless", reason="make test-formats installs it")
    descriptor = json.loads((EXAMPLES / "camtrap-dp" / "datapackage.json").read_text(encoding="utf-8"))
    del descriptor["profile"]  # an address, which a test does not fetch
    report = frictionless.Package(descriptor, basepath=str(EXAMPLES / "camtrap-dp")).validate()
    assert report.valid, report.flatten(["type", "message"])
    descriptor["resources"][1]["path"] = "observations.csv"  # the check can fail
    assert not frictionless.Package(descriptor, basepath=str(EXAMPLES / "camtrap-dp")).validate().valid


def test_crowsetta_reads_generic_sequences():
    crowsetta = pytest.importorskip("crowsetta")
    scene = in_field()
    found = crowsetta.formats.seq.GenericSeq.from_file(EXAMPLES / "generic-seq.csv").to_annot()
    segments = [
        (Path(one.notated_path).as_posix(), s.onset_s, s.offset_s, s.label) for one in found for s in one.seq.segments
    ]
    expected = [(row["file"], row["start"], row["end"], row["label"].replace("=", "'=")) for row in scene.shown()]
    assert sorted(segments) == sorted(expected)


def test_ebird_gets_what_its_record_format_asks_for(tmp_path):
    scene = in_field()
    (path,) = write(scene, tmp_path, ["ebird"])
    text = path.read_text(encoding="utf-8")
    assert '"' not in text
    rows = [dict(zip(EBIRD, line.split(","), strict=True)) for line in text.splitlines()]
    assert [(row["Common Name"], row["Genus"], row["Species"]) for row in rows] == [
        ("Eurasian Wren", "Troglodytes", "troglodytes"), ("=1+1", "", ""), ("tab here", "", ""),
    ]  # fmt: skip
    assert {row["Date"] for row in rows} == {"05/01/2026", "05/03/2026"}
    assert {(row["Start Time"], row["All observations reported?"]) for row in rows} == {("05:00", "N")}
    many = [f"r{i}" for i in range(9000)]
    place = {"start": 0.5, "end": 1.25, "low": 2000.0, "high": 3500.5}
    files = [{**scene.files[0], "file": name} for name in many]
    large = replace(scene, files=files, rows=[{"file": n, **place, **finding("Zaunkönig", bag=n)} for n in many])
    paths = write(large, tmp_path / "large", ["ebird"])
    assert len(paths) > 1
    assert max(path.stat().st_size for path in paths) < MOST_BYTES
    assert sum(len(path.read_text().splitlines()) for path in paths) == len(many)


# -- what is missing, or damaged ---------------------------------------------------------------------------------------


def test_records_without_time_or_place_are_refused(tmp_path):
    scene = in_field()
    for key in ("recorded", "latitude"):
        files = [{name: value for name, value in file.items() if name != key} for file in scene.files]
        for name in ("ebird", "camtrap-dp"):
            with pytest.raises(InputError, match="--sites"):
                write(replace(scene, files=files), tmp_path, [name])
    files = [{**file, "recorded": "2026-05-01T05:00:00"} for file in scene.files]
    with pytest.raises(InputError, match="its zone"):
        write(replace(scene, files=files), tmp_path, ["camtrap-dp"])
    with pytest.raises(FormatError, match="name no single call"):
        read_marks(tmp_path, scene, "ebird")
    # without them an occurrence is still one
    write(sounds(), tmp_path, ["darwin-core"])
    assert compare_marks(sounds(), read_marks(tmp_path / "occurrence.csv", sounds())) == ([], [])


def test_kaleidoscope_of_others(tmp_path):
    scene = in_field()
    path = tmp_path / "cluster.csv"
    path.write_text(
        "INDIR,FOLDER,IN FILE,OFFSET,DURATION,TOP1MATCH,MANUAL ID\n"
        "x,,a.wav,0.5,0.75,cluster.01,Zaunkönig\n"
        "x,,a.wav,2.0,0.5,=1+1,Noise\n"
        "x,sub,c.wav,0.5,0.75,tab\there,\n",
        encoding="utf-8",
    )
    assert compare_marks(scene, read_marks(path, scene)) == ([("a.wav", 1, "")], [])


@pytest.mark.parametrize("name", READ_FROM)
def test_cut_and_scrambled_files_raise_nothing_but_format_errors(tmp_path, name):
    scene = scene_of(name)
    write(scene, tmp_path, [name])
    path = tmp_path / READ_FROM[name]
    target = path / {"camtrap-dp": "observations.csv", "yolo": "a.png.txt"}[name] if path.is_dir() else path
    raw = target.read_bytes()
    rng = random.Random(0)
    refused = []
    for i in range(60):
        damaged = bytearray(raw[: rng.randrange(len(raw))] if i % 2 else raw)
        for _ in range(0 if i % 4 == 1 else rng.randrange(1, 6)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.choice(b'0x"[]{},:\t\n-\xff')
        target.write_bytes(bytes(damaged))
        try:
            compare_marks(scene, FORMATS[name].read(path, scene))
        except FormatError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(path.name in message for message in refused)


def test_columns_that_are_missing_are_named(tmp_path):
    for name, file in READ_FROM.items():
        if file.endswith(".csv"):
            write(in_field(), tmp_path, [name])
            with (tmp_path / file).open(encoding="utf-8", newline="") as table:
                rows = list(csv.reader(table))
            with (tmp_path / file).open("w", encoding="utf-8", newline="") as table:
                csv.writer(table).writerows([["other", *row[1:]] if name == "x" else [*row[:2]] for row in rows])
            with pytest.raises(FormatError, match="there is no column"):
                read_marks(tmp_path / file, in_field(), name)
