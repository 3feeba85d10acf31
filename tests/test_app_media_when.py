"""When files were recorded: names that are made and read again, names that tell nothing, notes in WAV files."""

import struct
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.app.media.audio_file import MOST_BYTES, _content, _riff_chunks
from bagwise.app.media.files import NOTES, _time_in_name, name_before_time, noted_time, recorded

times = st.datetimes(datetime(1990, 1, 1), datetime(2099, 12, 31, 23, 59, 59)).map(lambda t: t.replace(microsecond=0))
sites = st.from_regex(r"[A-Za-z]{1,8}", fullmatch=True)
LAYOUTS = (
    "{site}_%Y%m%d_%H%M%S.wav", "{site}/%Y%m%d_%H%M%S.WAV", "{site}_%Y-%m-%d_%H-%M-%S.flac", "%Y-%m-%dT%H:%M:%S.mp3",
    "%Y%m%dT%H%M%S_{site}.ogg", "{site}_0+1_%Y%m%d_%H%M%S.wav", "{site}_%Y%m%d_%H%M%S_000.wav", "%Y%m%d%H%M%S.wav",
    "a/{site} %Y-%m-%d %H.%M.%S.wav",
)  # fmt: skip


def time_of(path):
    return noted_time(notes_of(path))


def notes_of(path):
    with path.open("rb") as file:
        chunks = _riff_chunks(file, path.stat().st_size)
        return {name: _content(file, chunks[name]) for name in NOTES if name in chunks}


@given(times, sites, st.sampled_from(LAYOUTS))
@settings(deadline=None)
def test_times_are_read_from_names_as_they_were_written(time, site, layout):
    assert _time_in_name(time.strftime(layout).format(site=site)) == time


@given(times, st.integers(-14 * 4, 14 * 4), st.booleans())
@settings(deadline=None)
def test_offsets_of_iso_names_are_kept(time, quarters, colon):
    zone = timezone(timedelta(minutes=15 * quarters))
    text = time.replace(tzinfo=zone).isoformat()
    name = text if colon else text[:-6].replace(":", "").replace("-", "") + text[-6:].replace(":", "")
    found = _time_in_name(f"{name}.wav")
    assert found == time.replace(tzinfo=zone)
    assert found.utcoffset() == zone.utcoffset(None)


@given(st.integers(0x58684680, 2**31 - 1))
@settings(deadline=None)
def test_names_of_early_audiomoths_are_unix_time(seconds):
    name = f"{seconds:08X}"
    found = _time_in_name(f"card/{name}.WAV")
    if any(letter in "ABCDEF" for letter in name):
        assert found == datetime.fromtimestamp(seconds, UTC)
    else:
        assert found is None  # a plain number


@given(st.text(st.characters(exclude_categories=("Nd", "Cs"), exclude_characters="/")))
@settings(deadline=None)
def test_names_without_digits_tell_nothing(name):
    assert _time_in_name(f"{name}.wav") is None
    assert name_before_time(f"{name}.wav") == ""


@pytest.mark.parametrize(
    "name",
    [
        "song12.wav", "20241301_053000.wav", "20240230_000000.wav", "20240501_253000.wav", "20240501_0001.wav",
        "20240501.wav", "19700101_000000.WAV", "120240501_0530001.wav", "12345678.WAV", "60000001.WAV", "deadbeef.wav",
        "FFFFFFFF.WAV", "20240501_053000/song.wav", "202405010530001.wav", "",
    ],
)  # fmt: skip
def test_names_that_only_look_like_times_tell_nothing(name):
    assert _time_in_name(name) is None


def test_the_first_time_of_a_name_that_is_one_counts():
    assert _time_in_name("20241399_999999_20240501_053000.wav") == datetime(2024, 5, 1, 5, 30)
    assert _time_in_name("S4A04271_20190706_073000.wav") == datetime(2019, 7, 6, 7, 30)


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("MEADOW_20240501_053000.wav", "MEADOW"), ("x/POND-2_20240501_053000.wav", "POND-2"),
        ("20240501_053000.WAV", ""),
        ("SM4_0+1_20240501_053000.wav", "SM4"),
        ("two words 2024-05-01T05-30-00.wav", "two words"), ("5B2F7A10.WAV", ""),
    ],
)  # fmt: skip
def test_what_stands_before_the_time(name, site):
    assert name_before_time(name) == site


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def with_chunks(path, *chunks, before=()):
    """A WAV file with chunks after (and before) its sound."""
    soundfile.write(path, np.zeros(1600), 16_000, subtype="PCM_16")
    raw = path.read_bytes()
    body = b"".join(before) + raw[12:] + b"".join(chunks)
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body)
    return path


def guano(time):
    return chunk(b"guan", f"GUANO|Version: 1.0\nTimestamp: {time}\nNote: überall\n".encode())


def bext(date, time):
    return chunk(b"bext", bytes(320) + date.encode() + time.encode() + bytes(300))


def comment(text):
    return chunk(b"LIST", b"INFO" + chunk(b"ICMT", text.encode() + b"\0"))


AUDIOMOTH = "Recorded at 05:30:00 01/05/2024 ({zone}) by AudioMoth 24F3190361AABBCC at medium gain"
PLUS_TWO = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("note", "time", "source"),
    [
        (guano("2024-05-01T05:30:00.250+02:00"), datetime(2024, 5, 1, 5, 30, 0, 250_000, PLUS_TWO), "GUANO"),
        (guano("2024-05-01T05:30:00"), datetime(2024, 5, 1, 5, 30), "GUANO"),
        (comment(AUDIOMOTH.format(zone="UTC")), datetime(2024, 5, 1, 5, 30, tzinfo=UTC), "comment"),
        (comment(AUDIOMOTH.format(zone="UTC+2")), datetime(2024, 5, 1, 5, 30, tzinfo=PLUS_TWO), "comment"),
        (
            comment(AUDIOMOTH.format(zone="UTC-3:30")),
            datetime(2024, 5, 1, 5, 30, tzinfo=timezone(-timedelta(hours=3, minutes=30))), "comment",
        ),
        (bext("2024-05-01", "05:30:00"), datetime(2024, 5, 1, 5, 30), "bext"),
        (bext("2024_05_01", "05-30-00"), datetime(2024, 5, 1, 5, 30), "bext"),
    ],
)  # fmt: skip
def test_notes_of_recorders_tell_the_time(tmp_path, note, time, source):
    path = with_chunks(tmp_path / "a.wav", note)
    assert time_of(path) == (time, source)
    assert time_of(path)[0].utcoffset() == time.utcoffset()
    assert recorded("a.wav", time_of(path)) == {"recorded": time.isoformat(), "recorded_from": source}
    assert time_of(with_chunks(tmp_path / "b.wav", before=[note])) == (time, source)


def test_guano_comes_before_the_others(tmp_path):
    path = with_chunks(
        tmp_path / "a.wav", bext("2020-01-01", "00:00:00"), guano("2024-05-01T05:30:00"), comment("Recorded at nine")
    )
    assert time_of(path) == (datetime(2024, 5, 1, 5, 30), "GUANO")


@pytest.mark.parametrize(
    ("note", "expected", "source"),
    [
        ("2024-05-01T05:30:00.5+02:00", datetime(2024, 5, 1, 5, 30, 0, 500_000, PLUS_TWO), "GUANO"),
        ("2024-05-01T06:45:00+02:00", datetime(2024, 5, 1, 5, 30), "name"),  # the name was put right
        ("1970-01-01T00:00:00", datetime(2024, 5, 1, 5, 30), "name"),
        ("nonsense", datetime(2024, 5, 1, 5, 30), "name"),
    ],
)
def test_the_name_counts_unless_the_note_tells_the_same_moment(tmp_path, note, expected, source):
    path = with_chunks(tmp_path / "20240501_053000.wav", guano(note))
    found = recorded(path.name, time_of(path))
    assert found == {"recorded": expected.isoformat(), "recorded_from": source}


def test_bext_without_a_date_tells_nothing(tmp_path):
    for date, time in (("0000-00-00", "00:00:00"), ("\0" * 10, "\0" * 8), ("2024-13-01", "05:30:00"), ("no", "no")):
        assert time_of(with_chunks(tmp_path / "a.wav", bext(date, time))) is None


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_files_never_raise(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    path = with_chunks(
        folder / "damaged.wav", guano("2024-05-01T05:30:00"), bext("2024-05-01", "05:30:00"), comment(AUDIOMOTH)
    )
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 12))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    notes_of(path)
    time_of(path)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_after_the_heading_are_read(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.wav"
    path.write_bytes(b"RIFF\xff\xff\xff\xffWAVE" + content)
    time_of(path)


def test_what_is_read_is_bounded(tmp_path, monkeypatch):
    huge = with_chunks(tmp_path / "a.wav", chunk(b"guan", b"x" * (3 * MOST_BYTES)))
    assert len(notes_of(huge)[b"guan"]) == MOST_BYTES
    monkeypatch.setattr("bagwise.app.media.audio_file.MOST_CHUNKS", 3)
    many = with_chunks(tmp_path / "b.wav", *[chunk(b"junk", b"")] * 5, guano("2024-05-01T05:30:00"))
    assert time_of(many) is None
    (tmp_path / "c.wav").write_bytes(b"RIFF\0\0\0\0WAVEguan\xff\xff\xff\xffTimestamp: 2024-05-01T05:30:00\n")
    assert time_of(tmp_path / "c.wav") == (datetime(2024, 5, 1, 5, 30), "GUANO")
    (tmp_path / "none.wav").write_bytes(b"")
    assert notes_of(tmp_path / "none.wav") == {}


def test_files_larger_than_four_gigabytes_tell_the_size_of_their_sound_elsewhere(tmp_path):
    sound = b"data" + struct.pack("<I", 0xFFFFFFFF) + bytes(100)
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, 100, 50, 0))
    body = sizes + sound + guano("2024-05-01T05:30:00")
    (tmp_path / "a.wav").write_bytes(b"RF64\xff\xff\xff\xffWAVE" + body)
    assert time_of(tmp_path / "a.wav")[0] == datetime(2024, 5, 1, 5, 30)
