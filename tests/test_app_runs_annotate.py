"""The whole job on small soundscapes: what comes out, what is done again, what bad input does."""

import json
import os
import random
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

import bagwise
from bagwise.app.media.matching import match_events
from bagwise.app.media.media_types import MEDIA
from bagwise.app.runs import Run
from bagwise.app.runs._features import Source, archive_path, read_entries
from bagwise.app.runs.predictions import never_given
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_soundscape
from made import write_scene


def annotate_media(source, out, **options):
    """What a run gave; it is closed again."""
    with Run.create(source, out, **options) as run:
        return run.result()


KILLS = int(os.environ.get("BAGWISE_KILLS", "0"))  # more than once, and with the page, where there is time


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Twelve recordings of three species at most, written to disk."""
    return write_scene(tmp_path_factory.mktemp("scene"), 12, species_per_recording=(1, 2), random_state=5)


@pytest.fixture(scope="module")
def run(scene, tmp_path_factory):
    """That soundscape annotated, with everything written."""
    _, folder = scene
    out = tmp_path_factory.mktemp("run") / "out"
    return annotate_media(folder / "recordings", out, labels=folder / "labels.csv", jobs=1), out


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_syllables_get_the_species_that_sang_them(scene, run):
    made, _ = scene
    result, out = run
    rows = result.annotations.rows
    events = match_events(rows, made.events)
    truth = [made.events[j]["label"] if j >= 0 else None for j in events]
    right = [row["label"] == label for row, label in zip(rows, truth, strict=True) if label]
    assert np.mean(right) > 0.85
    sets = dict(zip(made.names, made.label_sets, strict=True))
    assert all(row["label"] in sets[row["file"]] for row in rows)
    assert all(row["mode"] == "transductive" for row in rows)
    assert all(0 <= row["probability"] <= 1 and 0 <= row["noise"] <= 1 for row in rows)
    assert all(row["probability"] + row["noise"] <= 1.0002 for row in rows)  # each is rounded
    assert all(row["runner_up"] in sets[row["file"]] - {row["label"]} | {""} for row in rows)
    assert result.problems == []
    names = {path.relative_to(out).parts[0] for path in result.outputs}
    assert names == {
        "annotations.csv", "annotations.parquet", "birdnet.csv", "raven", "audacity", "label-studio.json",
        "label-studio.xml", "labels-by-file.csv", "model.bagwise", "report.html", "report-sounds", "manifest.json",
    }  # fmt: skip
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "finished"
    assert manifest["about"]["model"] == "ored-background"
    assert manifest["about"]["settings"]["window"] == 10.0
    assert manifest["about"]["version"] == bagwise.__version__


def test_the_same_again_does_nothing_twice_and_gives_the_same_bytes(scene, run):
    _, folder = scene
    result, out = run
    before = contents(out)
    again = annotate_media(folder / "recordings", out, labels=folder / "labels.csv", jobs=1)
    assert (result.n_reused, again.n_reused) == (0, 12)
    assert contents(out) == before


def test_new_recordings_by_the_model_alone(scene, run, tmp_path):
    made, _ = scene
    _, out = run
    new = make_soundscape(4, species_per_recording=(1, 2), random_state=77)
    sounds, *_ = new.write(tmp_path / "new")
    result = annotate_media(sounds, tmp_path / "out", model=out / "model.bagwise", page=False, jobs=1)
    rows = result.annotations.rows
    assert {row["mode"] for row in rows} == {"inductive"}
    assert result.annotations.classes == sorted({label for labels in made.label_sets for label in labels})
    assert not (tmp_path / "out" / "model.bagwise").exists()
    with pytest.raises(InputError, match="leave --media-type and --media-set out"):
        annotate_media(sounds, tmp_path / "x", model=out / "model.bagwise", settings={"window": "5"})
    strange = tmp_path / "labels.csv"
    strange.write_text("file,label\nrecording-000.wav,unicorn\n")
    supervision = annotate_media(
        sounds, tmp_path / "y", model=out / "model.bagwise", labels=strange, page=False, jobs=1
    )
    assert supervision.problems == [
        ("recording-000.wav", "recording-000.wav: the model does not know unicorn; its labels are not used.")
    ]


def test_files_without_a_row_and_long_files(scene, tmp_path):
    """Unlabelled files are annotated inductively; the labels of a long file speak of the whole of it."""
    made, _ = scene
    folder = tmp_path / "sounds"
    (folder / "sub").mkdir(parents=True)
    long = np.concatenate(made.recordings[:2])
    soundfile.write(folder / "sub" / "long.wav", long, made.rate)
    soundfile.write(folder / "other.wav", long, made.rate)
    for name, samples in zip(made.names[2:], made.recordings[2:], strict=True):
        soundfile.write(folder / name, samples, made.rate)
    rows = [f"long,{';'.join(sorted(made.label_sets[0] | made.label_sets[1]))}"]
    rows += [f"{name},{';'.join(sorted(s))}" for name, s in zip(made.names[2:], made.label_sets[2:], strict=True)]
    (tmp_path / "labels.csv").write_text("file,labels\n" + "\n".join(rows) + "\n", encoding="utf-8")
    result = annotate_media(
        folder, tmp_path / "out", labels=tmp_path / "labels.csv", formats=["csv"], page=False, jobs=1
    )
    found = {(row["bag"], row["mode"]) for row in result.annotations.rows}
    assert ("sub/long.wav", "transductive") in found
    assert {bag for bag, mode in found if mode == "inductive"} == {"other.wav@0", "other.wav@10"}
    assert not any(bag.startswith("sub/long.wav@") for bag, _ in found)
    # a row may also name a piece
    (tmp_path / "labels2.csv").write_text("file,labels\n" + "\n".join(rows[1:]) + "\nother.wav@10,hoot owl\n")
    result = annotate_media(
        folder, tmp_path / "out2", labels=tmp_path / "labels2.csv", formats=["csv"], page=False, jobs=1
    )
    modes = {row["bag"]: row["mode"] for row in result.annotations.rows}
    assert (modes["other.wav@0"], modes["other.wav@10"]) == ("inductive", "transductive")


def test_bad_files_are_named_and_the_rest_is_done(scene, tmp_path):
    made, _ = scene
    folder = tmp_path / "sounds"
    made.write(tmp_path / "made")
    (tmp_path / "made" / "recordings").rename(folder)
    raw = (folder / made.names[0]).read_bytes()
    (folder / "text.wav").write_text("no sound")
    (folder / "empty.WAV").write_bytes(b"")
    (folder / "cut.wav").write_bytes(raw[:5000])
    soundfile.write(folder / "zero.wav", np.zeros(32_000), 16_000)
    soundfile.write(folder / "slow.wav", np.ones(500), 300)
    rows = [f"{name},{';'.join(sorted(s))}" for name, s in zip(made.names, made.label_sets, strict=True)]
    rows += ["zero.wav,hoot owl", "missing.wav,hoot owl", "text.wav,hoot owl"]
    table = tmp_path / "labels.csv"
    table.write_bytes(b"\xef\xbb\xbf" + ("file,labels\n" + "\n".join(rows) + "\n").encode())
    result = annotate_media(folder, tmp_path / "out", labels=table, page=False, formats=["csv", "raven"], jobs=1)
    supervision = "\n".join(message for _, message in result.problems)
    for expected in (
        "text.wav: it is not a sound file",
        "empty.WAV: the file is empty",
        "cut.wav: it is cut off: its heading announces 320000 bytes of sound and 4956 are there; the 0.2 s that can be",
        "slow.wav: The recording has a rate of 300 Hz",
        "zero.wav: every sample is zero",
        "row 14: nothing was found in 'zero.wav' that could carry its labels (hoot owl)",
        "row 15: there is no such file ('missing.wav')",
        "row 16: the file 'text.wav' could not be read",
    ):
        assert expected in supervision
    assert not any(message.startswith(str(folder)) for _, message in result.problems)
    assert {row["file"] for row in result.annotations.rows} == set(made.names)
    assert (tmp_path / "out" / "raven" / "zero.wav.selections.txt").read_text().count("\n") == 1


def test_what_may_not_be_read_is_named(scene, tmp_path, monkeypatch):
    _, folder = scene
    sounds = folder / "recordings"
    bad = sounds / "recording-001.wav"

    def read(sound, name, settings):
        if Path(sound.path) == bad:
            raise PermissionError(13, "Permission denied", str(sound.path))
        return AUDIO.read(sound, name, settings)

    AUDIO = MEDIA["audio"]

    monkeypatch.setitem(MEDIA, "audio", replace(MEDIA["audio"], read=read))
    result = annotate_media(sounds, tmp_path / "out", labels=folder / "labels.csv", jobs=1, page=False, formats=["csv"])
    assert result.problems[0][1] == "recording-001.wav: Permission denied; check the path and its permissions."
    monkeypatch.setattr("bagwise.app.media.media_types.os.access", lambda path, mode: False)
    with pytest.raises(InputError, match="The folder .* may not be read; change its permissions"):
        annotate_media(sounds, tmp_path / "other", labels=folder / "labels.csv")


def test_names_that_are_no_text_are_skipped(scene, tmp_path):
    _, folder = scene
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    for name in ("recording-000.wav", "recording-001.wav"):
        (sounds / name).write_bytes((folder / "recordings" / name).read_bytes())
    try:
        (sounds / os.fsdecode(b"b\xe4d.wav")).write_bytes((sounds / "recording-000.wav").read_bytes())
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    result = annotate_media(
        sounds, tmp_path / "out", labels=folder / "labels.csv", page=False, formats=["csv", "raven"], jobs=1
    )
    assert ("b\\udce4d.wav", "b\\udce4d.wav: its name is not UTF-8; rename it.") in result.problems
    assert len(result.annotations.files) == 2


@pytest.mark.parametrize(("module", "extra"), [("soundfile", "audio"), ("jinja2", "report"), ("PIL.Image", "report")])
def test_what_is_not_installed_is_named(scene, tmp_path, monkeypatch, module, extra):
    _, folder = scene
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    (sounds / "recording-000.wav").write_bytes((folder / "recordings" / "recording-000.wav").read_bytes())
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'bagwise\[{extra}\]'"):
        annotate_media(sounds, tmp_path / "out", labels=folder / "labels.csv", formats=["csv"], jobs=1)


def test_a_label_that_nothing_can_explain_is_named(scene, tmp_path):
    made, folder = scene
    rows = [f"{name},{';'.join(sorted(s))}" for name, s in zip(made.names, made.label_sets, strict=True)]
    size = 12  # more labels than recording-000 has syllables
    rows[0] = f"{made.names[0]},{';'.join(f'x{i}' for i in range(size))}"
    (tmp_path / "labels.csv").write_text("file,labels\n" + "\n".join(rows) + "\n", encoding="utf-8")
    result = annotate_media(
        folder / "recordings", tmp_path / "out", labels=tmp_path / "labels.csv", page=False, formats=["csv"], jobs=1
    )
    (problem,) = result.problems
    assert problem[1].startswith(f"{made.names[0]}: {size} labels but ")
    assert result.unexplained[0][0] == made.names[0]


def test_labels_that_no_file_can_explain_end_the_run_with_their_reason(scene, tmp_path):
    _, folder = scene
    many = ";".join(f"label {i}" for i in range(300))
    (tmp_path / "labels.csv").write_text(f"file,labels\nrecording-000.wav,{many}\n")
    with pytest.raises(InputError, match=r"No bag is left.*problem\(s\): recording-000.wav: 300 labels but \d+ inst"):
        annotate_media(folder / "recordings", tmp_path / "out", labels=tmp_path / "labels.csv", jobs=1, page=False)


def test_labels_that_cannot_be_told_apart_are_remarked_and_blamed_on_no_file(scene, tmp_path):
    made, folder = scene
    rows = [f"{name},{';'.join(sorted(s))}" for name, s in zip(made.names, made.label_sets, strict=True)]
    # a label that is always listed beside another one cannot be told apart from it, so one of them goes without
    rows = [f"{row};twin" if "buzz cricket" in row else row for row in rows]
    (tmp_path / "labels.csv").write_text("file,labels\n" + "\n".join(rows) + "\n", encoding="utf-8")
    said = []
    options = {"labels": tmp_path / "labels.csv", "page": False, "formats": ["csv"], "jobs": 1, "say": said.append}
    result = annotate_media(folder / "recordings", tmp_path / "out", **options)
    given = {row["label"] for row in result.annotations.rows}
    listed = {label for _, labels in result.unexplained for label in labels}
    assert listed - given, "the example must hold a label that is given to nothing"
    assert {name for name, _ in result.problems} == listed - given
    assert "'buzz cricket' + 'twin'" in result.remarks[0]
    assert said == result.remarks
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["remarks"] == said
    new = annotate_media(folder / "recordings", tmp_path / "new", model=tmp_path / "out" / "model.bagwise", page=False)
    assert new.remarks == []  # nothing was learned there


def test_a_label_that_is_given_to_nothing_is_named():
    annotations = SimpleNamespace(rows=[{"label": "wren"}, {"label": ""}], media_type=MEDIA["audio"])
    unexplained = [("a.wav", ["owl", "wren"]), ("b.wav", ["crow", "owl"]), ("c.wav", ["twin"])]
    problems = never_given(annotations, unexplained, [])
    assert [name for name, _ in problems] == ["crow", "owl", "twin"]
    assert problems[1][1] == (
        "The label 'owl' was given to no instance of the 2 recordings that list it, such as a.wav; check what was "
        "found there, or label some syllables of it."
    )
    named = [("b.wav", "b.wav: 9 labels but 1 instance(s)")]
    assert [name for name, _ in never_given(annotations, unexplained, named)] == ["twin"]


def test_empty_recordings_do_not_switch_the_noise_off(tmp_path):
    """Where more than the expected share of all syllables lay in files in which nothing was heard, noise was 0.0."""
    heard = make_soundscape(16, species_per_recording=(1, 3), thumps=2.0, random_state=3)
    sounds, labels, _ = heard.write(tmp_path)
    alone = annotate_media(sounds, tmp_path / "alone", labels=labels, page=False, formats=["csv"], jobs=1)
    silent = make_soundscape(16, species_per_recording=(0, 0), thumps=12.0, random_state=4)
    silent = replace(silent, names=[f"empty-{name}" for name in silent.names])
    silent.write(tmp_path / "more")
    for path in (tmp_path / "more" / "recordings").iterdir():
        path.rename(sounds / path.name)
    labels.write_text(labels.read_text() + "".join(f"{name},\n" for name in silent.names))
    both = annotate_media(sounds, tmp_path / "both", labels=labels, page=False, formats=["csv"], jobs=1)
    names = set(heard.names)
    first, second = ([r for r in result.annotations.rows if r["file"] in names] for result in (alone, both))
    assert len(both.annotations.rows) - len(second) > 0.3 * len(both.annotations.rows)
    inside = match_events(first, heard.events) >= 0
    for rows in (first, second):
        noise = np.array([row["noise"] for row in rows])
        assert abs(noise.mean() - 0.1) < 0.005
        assert noise[~inside].mean() > noise[inside].mean() + 0.3
    species = [heard.events[j]["label"] for j in match_events(first, heard.events)[inside]]
    right = [np.mean([r["label"] == s for r, s in zip(np.array(rows)[inside], species, strict=True)])
             for rows in (first, second)]  # fmt: skip
    assert right[1] >= right[0] - 0.02


def test_nothing_stays_of_what_the_same_run_wrote_before(scene, tmp_path):
    _, folder = scene
    small, out = tmp_path / "small", tmp_path / "out"
    small.mkdir()
    for name in ("recording-000.wav", "recording-001.wav", "recording-002.wav"):
        (small / name).write_bytes((folder / "recordings" / name).read_bytes())
    options = {"labels": folder / "labels.csv", "page": False, "jobs": 1}
    annotate_media(small, out, formats=["csv", "raven", "birdnet", "audacity"], **options)
    (small / "recording-002.wav").unlink()
    (out / "raven" / "notes.txt").write_text("mine")
    annotate_media(small, out, formats=["csv", "raven"], **options)
    assert len(list((out / ".features").iterdir())) == 2
    assert not (out / "birdnet.csv").exists()
    assert not (out / "audacity").exists()
    assert sorted(path.name for path in (out / "raven").iterdir()) == [
        "all.selections.txt", "notes.txt", "recording-000.wav.selections.txt", "recording-001.wav.selections.txt",
    ]  # fmt: skip
    assert json.loads((out / "manifest.json").read_text())["max_noise"] <= 0.5


def test_results_do_not_replace_the_model_or_hide_the_media(scene, run):
    _, folder = scene
    _, out = run
    before = contents(out)
    with pytest.raises(InputError, match="The model .* must not lie in the folder for the results"):
        annotate_media(folder / "recordings", out, model=out / "model.bagwise", overwrite=True)
    with pytest.raises(InputError, match="The media .* must not lie in the folder for the results"):
        annotate_media(folder / "recordings", folder, labels=folder / "labels.csv")
    assert contents(out) == before


def test_another_run_is_not_overwritten_unasked(scene, tmp_path):
    _, folder = scene
    small = tmp_path / "small"
    small.mkdir()
    for name in ("recording-000.wav", "recording-001.wav", "recording-002.wav"):
        (small / name).write_bytes((folder / "recordings" / name).read_bytes())
    out, labels = tmp_path / "out", folder / "labels.csv"
    options = {"labels": labels, "page": False, "formats": ["csv", "birdnet"], "jobs": 1}
    annotate_media(small, out, **options)
    with pytest.raises(InputError, match=r"holds another run: settings: window is 10.0 there and 5.0 now"):
        annotate_media(small, out, settings={"window": "5"}, **options)
    annotate_media(small, out, settings={"window": "5"}, overwrite=True, **{**options, "formats": ["csv"]})
    assert not (out / "birdnet.csv").exists()  # of the run that was replaced
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"not empty \(thesis.txt\)"):
        annotate_media(small, foreign, overwrite=True, **options)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be made"):
        annotate_media(small, tmp_path / "file" / "run", **options)


def test_what_cannot_be_started_says_why(scene, run, tmp_path):
    _, folder = scene
    sounds, labels = folder / "recordings", folder / "labels.csv"
    for arguments, message in (
        ({}, "nothing to learn from"),
        ({"labels": labels, "model": "no-such"}, "no model 'no-such'"),
        ({"labels": labels, "model": "mimlsvm"}, "labels bags, not instances"),
        ({"labels": labels, "media_type": "smell"}, "no media type 'smell'"),
        ({"labels": labels, "settings": {"x": "1"}}, "no setting 'x'"),
        ({"labels": labels, "formats": ["coco"]}, "no format 'coco'"),
        ({"labels": tmp_path / "no.csv"}, "no.csv does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            annotate_media(sounds, tmp_path / "out", **arguments)
        assert not (tmp_path / "out").exists()
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no file in .*none that can be annotated"):
        annotate_media(tmp_path / "none", tmp_path / "out", labels=labels)
    with pytest.raises(InputError, match="is not a folder"):
        annotate_media(tmp_path / "nowhere", tmp_path / "out", labels=labels)
    (tmp_path / "other.csv").write_text("file,label\nno.wav,x\n")
    with pytest.raises(
        InputError, match="other.csv: none of its 1 names .*row 2: there is no such file; write the names"
    ):
        annotate_media(sounds, tmp_path / "out", labels=tmp_path / "other.csv", page=False, jobs=1)
    from bagwise import ORedLogisticRegression

    learned = ORedLogisticRegression().fit(np.eye(3), np.array([0, 1, 1]))
    bagwise.save(learned, tmp_path / "plain.bagwise")
    with pytest.raises(InputError, match="does not say how media become features"):
        annotate_media(sounds, tmp_path / "out3", model=tmp_path / "plain.bagwise")


@pytest.mark.parametrize("name", ["sim-softmax", "ored", "most-frequent"])
def test_other_annotators(scene, tmp_path, name):
    _, folder = scene
    result = annotate_media(
        folder / "recordings", tmp_path / "out", labels=folder / "labels.csv", model=name, jobs=1,
        formats=["csv", "label-studio"], page=name == "sim-softmax",
    )  # fmt: skip
    rows = result.annotations.rows
    assert all(row["label"] and row["noise"] is None for row in rows)
    assert all((row["probability"] is None) == (name != "ored") for row in rows)


def test_damaged_entries_are_computed_again(scene, tmp_path):
    from bagwise.app.media import AudioSettings

    _, folder = scene
    sounds, out = folder / "recordings", tmp_path / "out"
    options = {"labels": folder / "labels.csv", "page": False, "formats": ["csv"], "jobs": 1}
    annotate_media(sounds, out, **options)
    whole = contents(out)
    key = Source(sounds, MEDIA["audio"], AudioSettings(), []).key("recording-003.wav")
    archive = archive_path(out, [key])
    assert list(read_entries(archive)) == [key]
    archive.write_bytes(archive.read_bytes()[:-100])
    assert read_entries(archive) == {}
    (out / ".features" / ".0123456789abcdef.tmp").write_bytes(b"torn")
    assert annotate_media(sounds, out, **options).n_reused == 11
    assert contents(out) == whole


def test_killed_at_random_and_started_again_gives_the_same_bytes(scene, tmp_path):
    _, folder = scene
    command = [
        sys.executable, "-m", "bagwise.app.cli", "annotate", str(folder / "recordings"), "--labels",
        str(folder / "labels.csv"), "--quiet", "--jobs", "1", *([] if KILLS else ["--no-page"]), "--out",
    ]  # fmt: skip
    started = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    duration = time.monotonic() - started
    expected = contents(tmp_path / "whole")
    chance = random.Random(0)
    for i in range(max(KILLS, 1)):
        out = tmp_path / f"killed-{i}"
        process = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 1.0) * duration)
        process.kill()
        process.wait()
        for name, data in contents(out).items() if out.exists() else ():
            torn = Path(name).name.startswith(".") and name.endswith(".tmp")
            torn |= name.startswith(".run/fit/")  # the state of a fit that is under way
            if name.startswith(".features/") and name not in expected:  # of a resolution that is tried
                assert torn or zipfile.ZipFile(out / name).testzip() is None, name
            else:
                assert torn or data == expected[name] or name == "manifest.json", name  # what has a name is whole
        subprocess.run([*command, str(out)], check=True, capture_output=True)
        assert contents(out) == expected
