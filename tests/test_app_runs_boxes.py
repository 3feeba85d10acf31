"""Boxes that people draw, split, merge, move and remove: over recordings, series and texts."""

import csv
import math
import shutil

import numpy as np
import pytest

from bagwise import Run, write_dataset
from bagwise.app.runs.folder import FEATURES
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags, make_soundscape
from bagwise.io.files import file_fingerprint


def contents(run):
    """Everything that the run wrote for people, and what it says."""
    return {path.name: file_fingerprint(path) for path in run.path.glob("*.csv") if path.name != "corrections.csv"}


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """Eight recordings, one of them silent, and a run over them; not to be changed: copy them."""
    folder = tmp_path_factory.mktemp("sounds")
    made = make_soundscape(8, seconds=6.0, species_per_recording=(2, 3), random_state=1)
    made.write(folder)
    import soundfile

    soundfile.write(folder / "recordings" / "silent.wav", np.zeros(48000), 16000, subtype="PCM_16")
    rows = (folder / "labels.csv").read_text(encoding="utf-8").splitlines()
    (folder / "labels.csv").write_text("\n".join([*rows, f"silent.wav,{rows[-1].split(',')[1]}"]) + "\n")
    Run.create(folder / "recordings", folder / "run", labels=folder / "labels.csv", page=False, jobs=1).close()
    return folder


@pytest.fixture
def run(media, tmp_path):
    shutil.copytree(media / "run", tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as opened:
        yield opened


def row_at(run, key):
    (row,) = [row for row in run.annotations() if (row["bag"], row["instance"]) == key]
    return row


def keys_of(run):
    return [(row["bag"], row["instance"]) for row in run.annotations()]


def place_of(row):
    return [row[name] for name in ("start", "end", "low", "high")]


def features_of(run, key):
    return run.material.dataset.bags.instances[run.row_of(*key)]


def alone(run):
    """A key of an instance whose box no other one of its file touches."""
    rows = run.annotations()
    for row in rows:
        others = [other for other in rows if other["file"] == row["file"] and other is not row]
        apart = all(
            other["end"] < row["start"] or other["start"] > row["end"] or other["high"] < row["low"]
            or other["low"] > row["high"] for other in others
        )  # fmt: skip
        if apart and row["end"] - row["start"] > 0.2:
            return row["bag"], row["instance"]
    raise AssertionError("the example must hold one")


def test_a_box_around_a_syllable_has_its_features(run):
    """Drawn exactly where the detector found one, it is described exactly as that."""
    key = alone(run)
    row = row_at(run, key)
    run.remove(key)
    assert key not in keys_of(run)
    new = run.add_instance(row["file"], *place_of(row))
    assert new != key
    assert place_of(row_at(run, new)) == place_of(row)
    with Run.open(run.path) as again:
        assert keys_of(again) == keys_of(run)
        assert again.annotations() == run.annotations()
        old = again.boxes.found.dataset
        first = old.bags.instances[old.bags.offsets[old.bag_names.index(key[0])] + key[1]]
        np.testing.assert_array_equal(features_of(again, new), first)
    assert row_at(run, new)["label"] == row["label"]


def test_each_edit_is_one_step_of_undo(run):
    before, first = run.annotations(), contents(run)
    key = alone(run)
    row = row_at(run, key)
    middle = round((row["start"] + row["end"]) / 2, 3)
    left, right = run.split(key, at=middle)
    assert left == key
    assert place_of(row_at(run, left)) == [row["start"], middle, row["low"], row["high"]]
    assert place_of(row_at(run, right)) == [middle, row["end"], row["low"], row["high"]]
    assert len(run.annotations()) == len(before) + 1
    assert run.merge([right, left]) == key
    assert place_of(row_at(run, key)) == place_of(row)
    assert len(run.annotations()) == len(before)
    run.move(key, end=row["end"] + 0.05, low=row["low"] - 50)
    assert place_of(row_at(run, key)) == [
        row["start"],
        round(row["end"] + 0.05, 4),
        round(row["low"] - 50, 1),
        row["high"],
    ]
    run.remove(key)
    drawn = run.add_instance(row["file"], 0.1, 0.4, label="odd one")
    assert row_at(run, drawn)["label"] == "odd one"
    assert row_at(run, drawn)["checked"]
    assert keys_of(run) == sorted(keys_of(run), key=lambda k: ([row["bag"] for row in before].index(k[0]), k[1]))
    for n in (len(before) - 1, len(before), len(before), len(before) + 1, len(before)):
        run.undo()
        assert len(run.annotations()) == n
    assert run.annotations() == before
    run.write()
    assert contents(run) == first
    other = run.add_instance(row["file"], 0.1, 0.4)
    assert other[1] > drawn[1]  # a number that was taken back has no second meaning
    assert not row_at(run, other)["checked"]


def test_edits_are_in_force_after_learning_and_taken_back_past_it(run):
    before, version = run.annotations(), run.version
    label = run.labels[0]
    key = alone(run)
    row = row_at(run, key)
    run.split(key, at=(row["start"] + row["end"]) / 2)
    new = run.add_instance(row["file"], 0.1, 0.4, 1000.0, 3000.0, label=label)
    gone = next(k for k in keys_of(run) if k[0] != key[0])
    run.remove(gone)
    said = keys_of(run)
    done = run.refit()
    assert done.version == version + 1
    assert keys_of(run) == said
    assert row_at(run, new)["label"] == label
    with (run.path / "annotations.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    written = [(row["bag"], int(row["instance"])) for row in rows]
    assert written == said
    with Run.open(run.path) as again:
        assert again.annotations() == run.annotations()
    run.add_instance(row["file"], 0.5, 0.7)
    assert run.version == 1  # what no fit knows is taken back first
    run.undo()
    assert keys_of(run) == said
    run.undo()
    assert run.version == version
    for _ in range(2):
        run.undo()
    assert run.annotations() == before
    with Run.open(run.path) as again:
        assert again.annotations() == before
        assert again.problems == run.problems


def test_a_label_that_a_person_gave_goes_with_the_box(run):
    key = alone(run)
    row = row_at(run, key)
    run.correct([(*key, "odd one")])
    left, right = run.split(key, at=(row["start"] + row["end"]) / 2)
    assert {row_at(run, left)["label"], row_at(run, right)["label"]} == {"odd one"}
    run.correct([(*right, "")])
    with pytest.raises(InputError, match="People labelled these instances '' and 'odd one'; say which"):
        run.merge([left, right])
    merged = run.merge([left, right], label="odd one")
    assert row_at(run, merged)["label"] == "odd one"
    run.move(merged, start=row["start"] + 0.01)
    assert row_at(run, merged)["checked"]
    run.remove(merged)
    assert "odd one" not in {other["label"] for other in run.annotations()}


def test_a_box_in_a_recording_in_which_nothing_was_found(run):
    assert "silent.wav" not in {row["file"] for row in run.annotations()}
    key = run.add_instance("silent.wav", 0.5, 1.0, 1000, 2000)
    assert key == ("silent.wav", 0)
    assert row_at(run, key)["file"] == "silent.wav"
    dataset = run.supervision().dataset
    listed = dataset.label_sets[dataset.bag_names.index("silent.wav")]  # of the table, which speaks of it
    assert row_at(run, key)["label"] in listed
    run.refit()
    assert key in keys_of(run)
    run.remove(key)
    assert key not in keys_of(run)
    with pytest.raises(InputError, match="'silent.wav'"):
        run.correct([(*key, run.labels[0])])
    run.refit()
    assert key not in keys_of(run)


WRONG = {
    "an unknown file": (lambda run, key: run.add_instance("nobody.wav", 0, 1), "The run has no file 'nobody.wav'"),
    "outside": (lambda run, key: run.add_instance(key[0], 5.9, 6.4), "lies outside of the recording, which has 6 s"),
    "before the start": (lambda run, key: run.add_instance(key[0], -0.5, 1), "lies outside of the recording"),
    "no length": (lambda run, key: run.add_instance(key[0], 1, 1), "its end must come after its start"),
    "backwards": (lambda run, key: run.add_instance(key[0], 2, 1), "its end must come after its start"),
    "upside down": (lambda run, key: run.add_instance(key[0], 1, 2, 3000, 2000), "high be above low"),
    "too high": (lambda run, key: run.add_instance(key[0], 1, 2, 3000, 1e6), "lies outside of the recording"),
    "not a number": (lambda run, key: run.add_instance(key[0], math.nan, 2), "start is 'nan'; expected a number"),
    "infinite": (lambda run, key: run.add_instance(key[0], 1, math.inf), "end is 'inf'; expected a number"),
    "text": (lambda run, key: run.add_instance(key[0], "1", 2), "start is '1'; expected a number"),
    "a label": (lambda run, key: run.add_instance(key[0], 1, 2, label=" x"), "has blanks around it"),
    "a label of another kind": (lambda run, key: run.add_instance(key[0], 1, 2, label=3), "The label is 3"),
    "split outside": (lambda run, key: run.split(key, at=0.0), "cannot be split at 0; name a point inside"),
    "split at no number": (lambda run, key: run.split(key, at=math.nan), "at is 'nan'; expected a number"),
    "no such key": (lambda run, key: run.split((key[0], 999), at=1), "has no instance 999"),
    "no key": (lambda run, key: run.remove(key[0]), "A key is (bag, instance)"),
    "a key of text": (lambda run, key: run.remove((key[0], "1")), "A key is (bag, instance)"),
    "no such bag": (lambda run, key: run.remove(("nobody", 0)), "The run has no bag 'nobody'"),
    "one alone": (lambda run, key: run.merge([key]), "two or more different instances; got 1"),
    "twice the same": (lambda run, key: run.merge([key, key]), "two or more different instances; got 2, 1 of them"),
    "two files": (lambda run, key: run.merge([key, other(run, key)]), "Instances of 2 files or recordings"),
    "nowhere": (lambda run, key: run.move(key), "Say where the instance is to be"),
    "moved outside": (lambda run, key: run.move(key, end=99), "lies outside of the recording"),
}


def other(run, key):
    return next(k for k in keys_of(run) if k[0] != key[0])


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_refused_and_nothing_is_written(run, what):
    work, expected = WRONG[what]
    before = run.annotations()
    with pytest.raises(InputError) as error:
        work(run, alone(run))
    assert expected in str(error.value)
    assert not (run.path / "corrections.csv").exists()
    assert run.annotations() == before


def test_what_is_gone_cannot_be_named_again(run):
    key = alone(run)
    run.remove(key)
    for work in (lambda: run.remove(key), lambda: run.correct([(*key, "x")]), lambda: run.move(key, start=0)):
        with pytest.raises(InputError, match=f"The instance {key[1]} of the bag '{key[0]}' was removed; undo that"):
            work()


def test_media_that_are_gone_and_files_that_changed(run, media, tmp_path):
    row = row_at(run, alone(run))
    drawn = run.add_instance(row["file"], 0.1, 0.4)
    said = run.annotations()
    moved = tmp_path / "elsewhere"
    shutil.copytree(media / "recordings", moved, copy_function=shutil.copy2)
    run.close()
    with Run.open(run.path, media=tmp_path / "nowhere") as lost:
        assert lost.annotations() == said
        with pytest.raises(InputError, match="is not there any more, and a new box is described from it; say where"):
            lost.add_instance(row["file"], 0.5, 0.8)
        lost.remove(drawn)
        assert drawn not in keys_of(lost)
        lost.undo()
        assert lost.annotations() == said
    (moved / row["file"]).write_bytes((moved / row["file"]).read_bytes() + b"\0\0")
    with Run.open(run.path, media=moved) as changed:
        with pytest.raises(InputError, match="changed since it was annotated"):
            changed.add_instance(row["file"], 0.5, 0.8)
        with pytest.raises(InputError, match="changed since it was annotated"):
            changed.remove(drawn)


def test_features_that_are_lost_are_read_once_more(run, tmp_path):
    row = row_at(run, alone(run))
    run.add_instance(row["file"], 0.1, 0.4)
    said = run.annotations()
    (kept,) = (run.path / FEATURES / "boxes").glob("*.zip")
    before = kept.read_bytes()
    for damage in (before[:50], b"", None):
        kept.unlink() if damage is None else kept.write_bytes(damage)
        with Run.open(run.path) as again:
            assert again.annotations() == said
        assert kept.exists()
    kept.unlink()
    with pytest.raises(FormatError, match=r"what describes the box \d+ of .* is missing or damaged"):
        Run.open(run.path, media=tmp_path / "nowhere").annotations()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ('{bag},{n},,box,"0.5 99 500 900"', "reaches from 0.5 to 99, and its file from 0 to 6"),
        ('{bag},{n},,box,"2 1 500 900"', "the second number must be the larger one"),
        ('{bag},{n},,box,"1 2"', "has 2 numbers for its place, and 4 are expected"),
        ('{bag},0,,box,"1 2 500 900"', "is taken, or is too large"),
        ('{bag},99999999999999999999999,,box,"1 2 500 900"', "is taken, or is too large"),
        ('nobody,0,,box,"1 2 500 900"', "has no bag 'nobody' in which boxes can be drawn"),
        ('{bag},999,,moved,"1 2 500 900"', "has no instance 999"),
        ("{bag},999,,removed,", "has no instance 999"),
        ("{bag},0,,removed,\n{bag},0,,removed,", "The instance 0 of the bag '{bag}' was removed"),
    ],
)
def test_rows_of_a_person_that_fit_no_file_are_named(run, rows, expected):
    bag, before = alone(run)[0], run.annotations()
    n = sum(row["bag"] == bag for row in before)
    text = "bag,instance,label,action,place\n" + rows.format(bag=bag, n=n) + "\n"
    (run.path / "corrections.csv").write_text(text, encoding="utf-8")
    with Run.open(run.path) as again:
        assert len(again.problems) == len(run.problems) + 1
        assert expected.format(bag=bag) in again.problems[-1][1]
        assert len(again.annotations()) == len(before) - ("removed,\n" in rows)


@pytest.mark.parametrize("place", ["", "1", "nan 2 500 900", "1 inf 500 900", "a b c d", "1 2 3 4 5"])
def test_places_that_are_none_are_refused(run, place):
    (run.path / "corrections.csv").write_text(f"bag,instance,label,action,place\n{alone(run)[0]},9,,box,{place}\n")
    with pytest.raises(FormatError, match=r"row 2: the place is .*; expected the numbers start and end"):
        Run.open(run.path)


def test_a_table_has_no_boxes(tmp_path):
    write_dataset(make_gaussian_bags(n_bags=20, random_state=0), tmp_path / "made.csv")
    with Run.create(tmp_path / "made.csv", tmp_path / "run", page=False, model="ored") as run:
        key = keys_of(run)[0]
        for work in (
            lambda: run.add_instance("made.csv", 0, 1), lambda: run.split(key, at=1), lambda: run.merge([key, key]),
            lambda: run.move(key, start=1), lambda: run.remove(key),
        ):  # fmt: skip
            with pytest.raises(InputError, match="is a file of bags, whose instances have no place"):
                work()


def test_a_box_in_a_file_that_was_silent_is_outdated_when_that_is_another(media, tmp_path):
    """Else the label of the box would be that of the instance which bears its number now."""
    for name in ("recordings", "labels.csv"):
        (shutil.copytree if name == "recordings" else shutil.copy2)(media / name, tmp_path / name)
    options = {"labels": tmp_path / "labels.csv", "page": False, "jobs": 1}
    with Run.create(tmp_path / "recordings", tmp_path / "run", **options) as first:
        assert first.add_instance("silent.wav", 0.5, 1.0, 2000, 4000, label="drawn") == ("silent.wav", 0)
    sounds = tmp_path / "recordings"
    shutil.copyfile(sounds / "recording-000.wav", sounds / "silent.wav")
    with Run.create(sounds, tmp_path / "run", **options) as again:
        assert ("silent.wav", 0) in keys_of(again)
        assert not any(row["checked"] for row in again.annotations())
        assert again.problems == []


def test_what_the_model_says_of_a_box_is_the_same_when_the_run_is_opened_again(run):
    """It follows from all that was said of its bag, not from what was said when it was drawn."""
    row = row_at(run, alone(run))
    new = run.add_instance(row["file"], *place_of(row))
    label = row_at(run, new)["label"]
    assert label
    for step in (lambda: run.reject(row["bag"], label), lambda: run.undo()):
        step()
        with Run.open(run.path) as again:
            assert again.annotations() == run.annotations()
    assert row_at(run, new)["label"] == label
