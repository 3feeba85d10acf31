"""Long recordings: parts of them are kept, Ctrl-C ends in one line, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from bagwise.app.media import audio
from bagwise.app.media.audio import AUDIO, AudioSettings
from bagwise.app.media.audio_file import open_sound
from bagwise.app.media.media_types import MEDIA
from bagwise.app.runs._features import SOUND, Source, _on_cores, read_entries, read_files

RATE = 8000


def sing(path, seconds, seed=0):
    """Notes of half a second or so over noise, all the way."""
    rng = np.random.default_rng(seed)
    sound = 0.01 * rng.normal(size=seconds * RATE)
    for start in range(1, seconds - 1, 3):
        time_ = np.arange(int(rng.uniform(0.2, 0.6) * RATE)) / RATE
        at = start * RATE + rng.integers(RATE)
        note = 0.3 * np.hanning(len(time_)) * np.sin(2 * np.pi * rng.choice([1000, 2500]) * time_)
        sound[at : at + len(note)] += note[: len(sound) - at]
    soundfile.write(path, sound, RATE)
    return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """One of five minutes and one of ten seconds; parts are two minutes long in these tests."""
    folder = tmp_path_factory.mktemp("recordings")
    sing(folder / "long.wav", 300)
    sing(folder / "short.wav", 10, seed=1)
    return folder


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr(audio, "PART", 120.0)


def same(one, other):
    return (
        one.bag_names == other.bag_names
        and one.sizes == other.sizes
        and np.array_equal(one.features, other.features)
        and all(np.array_equal(one.locations[key], other.locations[key]) for key in other.locations)
        and (one.info, one.problems) == (other.info, other.problems)
    )


def test_parts_are_whole_stretches_and_joined_they_are_the_file(recordings, monkeypatch):
    path, settings = recordings / "long.wav", AudioSettings()
    with open_sound(path) as sound:
        parts = AUDIO.parts.cut(sound, settings)
        assert parts == [(0.0, 180.0), (180.0, 300.0)]
        found = [AUDIO.parts.read(sound, part, settings) for part in parts]
        joined = AUDIO.parts.join(sound, "long.wav", found, settings)
        monkeypatch.setattr(audio, "PART", 1e9)
        assert AUDIO.parts.cut(sound, settings) == [(0.0, 300.0)]
    assert same(joined, AUDIO.read_file(path, "long.wav", settings))
    assert min(part.sizes[0] for part in found) > 20


def test_what_is_kept_of_a_long_file_is_not_read_again(recordings, tmp_path, monkeypatch):
    """Interrupted after the first part: the second time only the second part is read; progress is time of sound."""
    media_type, settings, names = MEDIA["audio"], AudioSettings(), ["long.wav", "short.wav"]
    (tmp_path / ".features").mkdir()
    read, calls = media_type.parts.read, []

    def interrupted(sound, part, settings):
        if part[0] > 0:
            raise KeyboardInterrupt
        return read(sound, part, settings)

    def counted(sound, part, settings):
        calls.append(part)
        return read(sound, part, settings)

    def featurize(read_one):
        supervision = []
        object.__setattr__(media_type.parts, "read", read_one)
        try:
            done = read_files(
                Source(recordings, media_type, settings, names), tmp_path, 1, lambda *step: supervision.append(step)
            )
        finally:
            object.__setattr__(media_type.parts, "read", read)
        return done, supervision

    with pytest.raises(KeyboardInterrupt):
        featurize(interrupted)
    kept = sorted(path.name for path in (tmp_path / ".features").iterdir())
    assert [name.partition("-")[2] for name in kept] == ["1-of-2.zip"]
    done, supervision = featurize(counted)
    assert calls == [(180.0, 300.0)]
    assert supervision[0] == (SOUND, 0, 310)
    assert supervision[1] == (SOUND, 180, 310)
    assert supervision[-1] == (SOUND, 310, 310)
    assert same(done.bags["long.wav"], AUDIO.read_file(recordings / "long.wav", "long.wav", settings))
    assert len(list((tmp_path / ".features").iterdir())) == 2  # the parts went when the whole was there
    again, supervision = featurize(counted)
    assert (again.n_reused, len(calls)) == (2, 1)
    assert supervision == [(SOUND, 310, 310)]


def test_a_part_that_cannot_be_read_is_an_error_of_its_file(recordings, tmp_path):
    sound, _ = soundfile.read(recordings / "long.wav", dtype="float32")
    sound[200 * RATE] = np.nan
    soundfile.write(tmp_path / "bad.wav", sound, RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "good.wav", sound[: 20 * RATE], RATE)
    (tmp_path / "run" / ".features").mkdir(parents=True)
    done = read_files(
        Source(tmp_path, MEDIA["audio"], AudioSettings(), ["bad.wav", "good.wav"]), tmp_path / "run", 1, lambda *_: None
    )
    assert list(done.bags) == ["good.wav"]
    assert "bad.wav: 1 samples from 200.000 s on are not finite numbers" in done.errors["bad.wav"]


def slowly(batch):
    time.sleep(0.2)
    return len(batch)


def test_work_that_is_left_is_ended_without_a_word(recwarn):
    pieces = [SimpleNamespace(n_bytes=2**40, part=None, vectors=None)] * 12
    work = _on_cores(slowly, pieces, 2)
    assert next(work) == 1
    work.close()
    assert not recwarn.list


def command(folder, out):
    return [
        sys.executable, "-c",
        "import bagwise.app.media.audio as a; a.PART = 60; from bagwise.app.cli import main; main()",
        "annotate", str(folder), "--labels", str(folder / "labels.csv"), "--out", str(out), "--format", "csv",
        "--no-page", "--jobs", "2",
    ]  # fmt: skip


def in_environment():
    source = str(Path(audio.__file__).parents[3])
    return os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of Unix")
def test_an_interrupt_ends_in_one_line_and_the_same_command_goes_on(tmp_path):
    folder, out = tmp_path / "recordings", tmp_path / "run"
    folder.mkdir()
    sing(folder / "long.wav", 1800)
    (folder / "labels.csv").write_text("file,label\nlong.wav,low\nlong.wav,high\n")
    process = subprocess.Popen(
        command(folder, out), env=in_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells start background jobs without it
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while not list(out.glob(".features/*-of-30.zip")):  # a part is kept, and most are not read yet
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.strip().splitlines() == ["interrupted; the same command goes on where it was"]
    kept = {path: read_entries(path) for path in out.glob(".features/*.zip")}
    assert 1 <= len(kept) < 30
    assert all(len(entries) == 1 for entries in kept.values())
    times = {path: path.stat().st_mtime_ns for path in kept}
    again = subprocess.Popen(command(folder, out), env=in_environment(), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while any(path.exists() for path in kept):  # until the whole is there nothing that was kept is written again
        for path, when in times.items():
            if path.exists():
                assert path.stat().st_mtime_ns == when
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "1 files, " in again.communicate(timeout=240)[0]
    assert again.returncode in (0, 3)
