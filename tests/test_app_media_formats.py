"""Sound as it comes from recorders and telephones: cut-off wav files, and what only ffmpeg reads."""

import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.app.media import _ffmpeg as ffmpeg
from bagwise.app.media.audio import AUDIO, AudioSettings
from bagwise.app.media.audio_file import FOR_FFMPEG, audio_info, open_sound
from bagwise.core.exceptions import FormatError

RATE = 16_000
has_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


def song(seconds=8, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    sound = 0.005 * rng.normal(size=(seconds * RATE, channels))
    for start in range(1, seconds, 2):
        t = np.arange(RATE // 2) / RATE
        note = 0.4 * np.hanning(len(t)) * np.sin(2 * np.pi * 3000 * t)
        sound[start * RATE : start * RATE + len(t)] += note[:, None]
    return sound


def whole(path):
    with open_sound(path) as sound:
        return np.concatenate([block for _, block in sound.blocks(1.0)])


# -- wav files of a recorder that lost its power ----------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_U8", "FLOAT", "DOUBLE", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("damage", ["cut", "no sizes", "old sizes"])
def test_the_readable_part_of_a_wav_file_is_used_and_named(tmp_path, subtype, channels, damage):
    """Cut off; written with sizes of zero that were never filled in; with sizes of an earlier moment."""
    path = tmp_path / "a.wav"
    soundfile.write(path, song(channels=channels), RATE, subtype=subtype)
    expected, raw = whole(path), bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    width = len(raw[at + 4 :]) // len(expected)
    if damage == "cut":
        raw = raw[: at + 4 + 5 * RATE * width]
        expected = expected[: 5 * RATE]
    else:
        size = 0 if damage == "no sizes" else 2 * RATE * width
        raw[at : at + 4] = struct.pack("<I", size)
        raw[4:8] = struct.pack("<I", at + 4 + size - 8)
    path.write_bytes(raw)
    info = audio_info(path)
    assert info.n_samples == len(expected)
    assert np.array_equal(whole(path), expected)
    assert "it is cut off" in info.problem if damage == "cut" else "the recorder did not finish it" in info.problem
    assert f"the {len(expected) / RATE:.1f} s that can be read are used" in info.problem
    found = AUDIO.read_file(path, "a.wav", AudioSettings())
    assert found.problems == [info.problem]
    assert found.sizes[0] >= len(expected) // (2 * RATE)


def test_chunks_behind_the_samples_are_no_samples(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, song(), RATE)
    expected, raw = whole(path), path.read_bytes()
    for name, content in ((b"LIST", b"INFOx"), (b"guan", b"GUANO|Version: 1.0 " * 20)):
        raw += name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)
    raw = raw[:4] + struct.pack("<I", len(raw) - 8) + raw[8:]
    path.write_bytes(raw)
    assert audio_info(path).problem == ""
    assert np.array_equal(whole(path), expected)


def test_cut_anywhere_gives_a_sound_or_an_error_that_names_it(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, song(seconds=1), RATE)
    raw = path.read_bytes()
    for size in (*range(1, 60), 1000, 1001, len(raw) - 1):
        path.write_bytes(raw[:size])
        if size < 46:  # not one whole sample
            with pytest.raises(FormatError, match="a.wav: "):
                audio_info(path)
        else:
            assert audio_info(path).n_samples == (size - 44) // 2
            assert "it is cut off" in audio_info(path).problem


def test_a_cut_off_recording_is_annotated_and_named(tmp_path):
    folder = tmp_path / "sounds"
    folder.mkdir()
    for i in range(3):
        soundfile.write(folder / f"{i}.wav", song(seed=i), RATE)
    raw = (folder / "0.wav").read_bytes()
    (folder / "0.wav").write_bytes(raw[: len(raw) // 2])
    (folder / "night.wac").write_bytes(b"wac")
    (tmp_path / "labels.csv").write_text("file,label\n0.wav,wren\n1.wav,wren\n2.wav,\n")
    result = CliRunner().invoke(
        main,
        ["annotate", str(folder), "--labels", str(tmp_path / "labels.csv"), "--out", str(tmp_path / "run"), "--no-page",
         "--jobs", "1"],
    )  # fmt: skip
    assert result.exit_code == 3, result.output
    assert "3 files" in result.output
    assert "Problem: 0.wav: it is cut off: its heading announces 256000 bytes of sound and" in result.stderr
    assert "the 4.0 s that can be read are used." in result.stderr
    assert "Problem: night.wac: it is a recorder's own format; convert it to WAV" in result.stderr


# -- ffmpeg -----------------------------------------------------------------------------------------------------------

FAKE = """#!{python}
import struct, sys, time
path = sys.argv[sys.argv.index("-i") + 1].removeprefix("file:")
said = open(path, "rb").read()
out = sys.stdout.buffer
if said.startswith(b"hang"):
    time.sleep(60)
if said.startswith(b"bad"):
    sys.exit("first\\nInvalid data found when processing input")
if said.startswith(b"text"):
    out.write(b"not what was asked for at all" * 10)
    sys.exit(0)
count, rate, channels = struct.unpack("<3I", said[:12])
out.write(b".snd" + struct.pack(">5I", 32, 0xFFFFFFFF, 6, rate, channels) + bytes(8))
for i in range(count * channels):
    out.write(struct.pack(">f", ((i // channels) % 1000) / 1000))
out.flush()
if len(said) > 12:
    sys.exit(said[12:].decode())
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """An ffmpeg that decodes a format of its own: number of samples, rate and channels, and what it says at the end."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ffmpeg"
    program.write_text(FAKE.replace("{python}", sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="a script stands for a program")
def test_what_ffmpeg_decodes_can_be_read_from_anywhere(fake):
    path = fake / "a.m4a"
    path.write_bytes(struct.pack("<3I", 30_000, 1000, 2))
    expected = (np.arange(30_000) % 1000 / 1000).astype(np.float32)
    info = audio_info(path)
    assert (info.rate, info.channels, info.n_samples, info.problem) == (1000, 2, 30_000, "")
    assert np.array_equal(whole(path), expected)
    rng = np.random.default_rng(0)
    with open_sound(path) as sound:
        for _ in range(30):
            begin = int(rng.integers(29_000))
            n = int(rng.integers(1, 30_000 - begin))
            assert np.array_equal(sound.read(begin, n), expected[begin : begin + n])


@pytest.mark.skipif(os.name == "nt", reason="a script stands for a program")
def test_what_ffmpeg_cannot_decode_is_named(fake, monkeypatch):
    cases = {
        "bad.m4a": (b"bad", r"bad.m4a: ffmpeg cannot read it \(Invalid data found when processing input\)"),
        "text.wma": (b"text", "text.wma: ffmpeg cannot read it"),
        "none.aac": (struct.pack("<3I", 0, 1000, 1), "none.aac: it holds no samples"),
    }
    for name, (content, message) in cases.items():
        (fake / name).write_bytes(content)
        with pytest.raises(FormatError, match=message):
            audio_info(fake / name)
    (fake / "cut.m4a").write_bytes(struct.pack("<3I", 5000, 1000, 1) + b"moov atom lost")
    assert audio_info(fake / "cut.m4a").problem == (
        "ffmpeg could not decode all of it (moov atom lost); the 5.0 s that can be read are used."
    )
    monkeypatch.setattr(ffmpeg, "TIMEOUT", 0.3)
    (fake / "hang.m4a").write_bytes(b"hang")
    with pytest.raises(FormatError, match="hang.m4a: ffmpeg gave nothing for 0.3 s and was ended"):
        audio_info(fake / "hang.m4a")


def test_without_ffmpeg_the_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for ending in FOR_FFMPEG:
        (tmp_path / f"a{ending}").write_bytes(b"x")
        with pytest.raises(FormatError, match=f"end in '{ending}' are read by ffmpeg, which is not there; install it"):
            audio_info(tmp_path / f"a{ending}")


@has_ffmpeg
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.m4a", ["-c:a", "aac"]),
        ("-b.M4A", ["-c:a", "alac"]),
        ("a.aac", ["-c:a", "aac"]),
        ("a.wma", ["-c:a", "wmav2"]),
        ("a.mka", ["-c:a", "flac"]),
        ("a.wv", ["-c:a", "wavpack"]),
    ],
)
def test_files_of_telephones_give_the_same_syllables(tmp_path, name, options):
    soundfile.write(tmp_path / "a.wav", song(channels=2), RATE)
    path = tmp_path / name
    subprocess.run(
        ["ffmpeg", "-loglevel", "error", "-i", str(tmp_path / "a.wav"), *options, f"file:{path}"], check=True
    )
    info = audio_info(path)
    assert (info.rate, info.channels) == (RATE, 2)
    assert abs(info.seconds - 8) < 0.2
    plain, found = (AUDIO.read_file(p, "a", AudioSettings(min_area=200)) for p in (tmp_path / "a.wav", path))
    assert found.sizes == plain.sizes
    assert np.allclose(found.locations["start"], plain.locations["start"], atol=0.15)
    if "alac" in options or name in ("a.mka", "a.wv"):  # without loss
        assert np.array_equal(whole(path), whole(tmp_path / "a.wav"))


@has_ffmpeg
def test_a_playlist_is_not_followed(tmp_path):
    """A file that names others is no sound, whatever it is called."""
    soundfile.write(tmp_path / "secret.wav", song(), RATE)
    (tmp_path / "a.m4a").write_text(f"ffconcat version 1.0\nfile {tmp_path / 'secret.wav'}\n")
    (tmp_path / "b.m4a").write_text(f"#EXTM3U\n#EXTINF:8,\n{tmp_path / 'secret.wav'}\n#EXT-X-ENDLIST\n")
    for name in ("a.m4a", "b.m4a"):
        with pytest.raises(FormatError, match=f"{name}: ffmpeg cannot read it"):
            audio_info(tmp_path / name)
