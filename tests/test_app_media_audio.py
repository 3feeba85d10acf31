"""Recordings to syllables: bad files, places, the 38 features against loops, streaming."""

import struct
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import ShortTimeFFT

from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media._features import (
    SYLLABLE_NAMES,
    boundary_length,
    gradient_histograms,
    region_boxes,
    syllable_features,
)
from bagwise.app.media.audio import AUDIO, _hear, _hear_piece, _piece_name, _stretches
from bagwise.app.media.audio_file import audio_info, open_sound
from bagwise.app.media.spectrogram import (
    Spectrogram,
    _fast_size,
    _foreground,
    _noise_level,
    _power,
    _segment,
    _threshold_of,
    _transform,
    find_syllables,
    spectrogram,
)
from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import FormatError, InputError


def tone_over_noise(rate=16_000, seconds=3.0, start=1.0, end=1.5, hertz=3000.0, seed=0):
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    sound = 0.001 * rng.standard_normal(len(time))
    ramp = 0.5 - 0.5 * np.cos(np.pi * np.clip(np.minimum(time - start, end - time) / 0.02, 0, 1))  # no click
    return sound + 0.02 * ramp * np.sin(2 * np.pi * hertz * time)


def write(path, samples, rate=16_000, **options):
    soundfile.write(path, samples, rate, **options)
    return path


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 192_000])
def test_a_tone_is_found_where_it_is(tmp_path, rate):
    path = write(tmp_path / "tone.wav", tone_over_noise(rate), rate)
    data = featurize_audio([path])
    assert data.bags.n_instances == 1
    place = rows_of(data.locations)[0]
    assert place["file"] == "tone.wav"
    assert abs(place["start"] - 1.0) < 0.035
    assert abs(place["end"] - 1.5) < 0.035
    assert place["low"] < 3000 < place["high"]
    assert place["high"] - place["low"] < 500
    features = dict(zip(data.feature_names, data.bags.instances[0], strict=True))
    assert abs(features["freq_mean"] - 3.0) < 0.04
    assert abs(features["freq_max"] - 3.0) < 0.04
    assert abs(features["time_mean"] - 0.5) < 0.02


KINDS = {"AIF": "AIFF"}  # what soundfile calls it


@pytest.mark.parametrize(
    ("name", "options", "channels"),
    [
        ("a.WAV", {"subtype": "PCM_U8"}, 1),
        ("a.wav", {"subtype": "PCM_24"}, 8),
        ("a.Flac", {}, 2),
        ("a.ogg", {}, 1),
        ("a.mp3", {}, 2),
        ("a.wav", {"subtype": "DOUBLE"}, 1),
        ("a.aiff", {}, 2),
        ("a.AIF", {}, 1),
        ("a.w64", {}, 2),
        ("a.rf64", {}, 1),
        ("a.caf", {}, 1),
        ("a.au", {}, 2),
        ("a.opus", {}, 1),
    ],
    ids=str,
)
def test_every_format_gives_the_same_syllable(tmp_path, name, options, channels):
    sound = np.repeat(tone_over_noise()[:, None], channels, axis=1)
    kind = name.split(".")[1].upper()
    options = {"format": "OGG", "subtype": "OPUS"} if kind == "OPUS" else {"format": KINDS.get(kind, kind), **options}
    path = write(tmp_path / name, sound, **options)
    data = featurize_audio([path])
    best = int(np.argmax(data.bags.instances[:, SYLLABLE_NAMES.index("area")]))
    assert abs(rows_of(data.locations)[best]["start"] - 1.0) < 0.08  # mp3 and ogg shift and smear a little
    assert abs(data.bags.instances[best, SYLLABLE_NAMES.index("freq_mean")] - 3.0) < 0.05
    assert audio_info(path).channels == channels


def test_long_files_are_cut_into_bags_or_kept_whole(tmp_path):
    sound = np.concatenate([tone_over_noise(seconds=10, start=2, end=2.5, seed=i) for i in range(3)])
    path = write(tmp_path / "long.wav", sound[: 25 * 16_000])
    cut = featurize_audio([path])
    assert cut.bag_names == ["long.wav@0", "long.wav@10", "long.wav@20"]
    assert [round(p["start"]) for p in rows_of(cut.locations)] == [2, 12, 22]
    whole = featurize_audio([path], AudioSettings(bags="file"))
    assert whole.bag_names == ["long.wav"]
    assert np.array_equal(whole.bags.instances, cut.bags.instances)


@pytest.mark.parametrize("seconds", [30, 150])
def test_what_is_found_does_not_depend_on_the_window(tmp_path, seconds):
    """Dense song now and then, which a short window takes for noise, with syllables across the edges of windows."""
    song = [(0.05, 0.85) if i % 15 < 5 else (0.0, 0.0) for i in range(seconds)]
    parts = [tone_over_noise(seconds=1, start=start, end=end, seed=i) for i, (start, end) in enumerate(song)]
    sound = np.roll(np.concatenate(parts), 8_000)  # a tone over every full second of the song
    path = write(tmp_path / "dense.wav", sound)
    whole = featurize_audio([path], AudioSettings(bags="file"))
    assert whole.bags.n_instances >= seconds / 3
    for window in (1.0, 3.0, 10.0, 60.0):
        cut = featurize_audio([path], AudioSettings(window=window))
        order = np.lexsort([cut.locations["low"], cut.locations["start"]])
        same = np.lexsort([whole.locations["low"], whole.locations["start"]])
        assert np.array_equal(cut.bags.instances[order], whole.bags.instances[same])
        middle = (cut.locations["start"] + cut.locations["end"]) / 2
        starts = np.array([float(str(name).partition("@")[2] or 0) for name in cut.bag_names])
        assert np.all(np.abs(starts[cut.bags.bag_index] + window / 2 - middle) <= window / 2 + 1e-3)


def test_stretches_cover_a_recording_once():
    for seconds in (0.5, 59.9, 60.0, 119.0, 120.0, 3600.7):
        spans = _stretches(seconds)
        assert spans[0][0] == 0.0
        assert spans[-1][1] == seconds
        assert all(a[1] == b[0] for a, b in pairwise(spans))
        assert all(60.0 <= last - first < 120.0 for first, last in spans) or seconds < 60


def test_pictures_show_what_annotation_hears(tmp_path):
    """The stages of a piece are its part of the stretch, with the threshold of the whole."""
    sound = np.concatenate([tone_over_noise(seconds=10, start=2, end=2.5, seed=i) for i in range(3)])
    path = write(tmp_path / "long.wav", sound)
    settings = AudioSettings()
    with open_sound(path) as sound:
        _, _, whole = _hear(sound, (0.0, 30.0), settings)
        piece = _hear_piece(sound, 10.0, 10.0, settings)
    assert piece.decibels == whole.decibels
    assert piece.labels.max() == 1
    assert abs(piece.picture.edges[0]) < 0.05
    inside = (whole.picture.times >= 10) & (whole.picture.times < 20)
    assert np.array_equal(piece.picture.intensity, whole.picture.intensity[:, inside])


def test_names_of_pieces_differ_in_files_of_days():
    assert _piece_name("a.wav", 0.0) == "a.wav@0"
    assert _piece_name("a.wav", 2.5) == "a.wav@2.5"
    assert _piece_name("a.wav", 1_000_000.0) == "a.wav@1000000"
    assert _piece_name("a.wav", 100_000.5) == "a.wav@100000.5"
    assert _piece_name("a.wav", 10 / 3) == "a.wav@3.333"


def test_blocks_cover_the_file_once(tmp_path):
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, 10_007).astype(np.float32)
    path = write(tmp_path / "x.wav", sound, 1000, subtype="FLOAT")
    with open_sound(path) as opened:
        blocks, later = list(opened.blocks(1.5)), next(opened.blocks(1.0, start=3.0))
    assert [start for start, _ in blocks] == [1.5 * i for i in range(7)]
    assert np.array_equal(np.concatenate([block for _, block in blocks]), sound)
    assert np.array_equal(later[1], sound[3000:4000])


# -- spectrogram and regions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_power_is_that_of_scipy(rate):
    sound = np.random.default_rng(1).standard_normal(rate).astype(np.float32)
    transform = _transform(rate, 0.032, 0.75)
    assert isinstance(transform, ShortTimeFFT)
    first, last = transform.lower_border_end[1], transform.upper_border_begin(len(sound))[1]
    expected = transform.spectrogram(sound.astype(float), p0=first, p1=last)
    np.testing.assert_allclose(_power(sound, transform, first, last), expected, rtol=1e-3, atol=1e-6 * expected.max())


@given(st.integers(8, 20_000))
def test_fast_sizes_are_near_and_even(size):
    fast = _fast_size(size)
    assert fast % 2 == 0
    assert abs(fast - size) <= max(4, 0.07 * size)


def test_noise_is_flat_after_whitening():
    rng = np.random.default_rng(0)
    white = rng.standard_normal(160_000)
    pink = np.fft.irfft(np.fft.rfft(white) / np.sqrt(np.arange(80_001) + 100))
    picture = spectrogram(pink, 16_000)
    by_row = np.median(picture.above_noise, axis=1)
    assert by_row.max() - by_row.min() < 1.0  # decibels; before, the lowest row is 15 dB over the highest
    by_row = np.median(picture.level, axis=1)
    assert by_row.max() - by_row.min() > 10.0


def test_noise_level_leaves_digital_silence_out():
    level = np.full((4, 100), -140.0, dtype=np.float32)
    level[:, 50:] = np.array([-60, -50, -40, -30], dtype=np.float32)[:, None]
    np.testing.assert_array_equal(_noise_level(level, 0.3), [-60, -50, -40, -30])
    level[0, 50:] = -130  # a band that a coder emptied
    assert _noise_level(level, 0.3)[0] == np.median([-130, -50, -40, -30]) - 20


@pytest.mark.parametrize("seed", range(5))
def test_threshold_is_that_of_a_gaussian(seed):
    noise = np.random.default_rng(seed).normal(2.0, 3.0, (300, 400))
    assert abs(_threshold_of(noise, AudioSettings(threshold=4.0, least_decibels=0.0)) - 14.0) < 0.4
    assert _threshold_of(noise, AudioSettings(threshold=4.0, least_decibels=20.0)) == 20.0
    assert _threshold_of(np.empty((3, 0)), AudioSettings(threshold=4.0, least_decibels=7.0)) == 7.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.2, 1.0))
def test_foreground_is_what_a_flood_finds(seed, grow):
    """Every kept point is reached from a loud one over points above the lower threshold, and nothing else is."""
    values = np.random.default_rng(seed).normal(0, 5, (9, 11))
    level = _threshold_of(values, AudioSettings(threshold=2.0, least_decibels=0.0))
    mask = _foreground(values, level, grow)
    stack = [tuple(p) for p in np.argwhere((values > level) & (values > grow * level))]
    flood = set(stack)
    while stack:
        r, c = stack.pop()
        for q in [(r + i, c + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]:
            if 0 <= q[0] < 9 and 0 <= q[1] < 11 and q not in flood and values[q] > grow * level:
                flood.add(q)
                stack.append(q)
    assert {tuple(p) for p in np.argwhere(mask)} == flood


def test_segment_bridges_cuts_and_drops():
    mask = np.zeros((20, 60), dtype=bool)
    mask[3:8, 2:12] = True
    mask[3:8, 14:24] = True  # two frames further: one region with the first
    mask[10:15, 40:50] = True  # on its own
    mask[12, 26:40] = True  # a thin bridge
    mask[17:19, 5:7] = True  # a speck
    labels = _segment(mask, AudioSettings(close=3, thin=2, min_area=20))
    assert labels.max() == 2
    assert set(labels[3:8, 2:24].ravel()) == {1}
    assert set(labels[10:15, 40:50].ravel()) == {2}
    assert not labels[12, 26:38].any()
    assert not labels[17:19].any()
    assert _segment(mask, AudioSettings(close=0, thin=2, min_area=20)).max() == 3
    assert not _segment(np.zeros((5, 5), dtype=bool), AudioSettings()).any()
    assert _segment(mask, AudioSettings(close=3, thin=2, min_area=4, min_frames=3)).max() == 2


# -- features ---------------------------------------------------------------------------------------------------------


def loop_features(picture, labels, number):
    """The 38 features by plain loops over the points."""
    points = [(r, c) for r, c in np.argwhere(labels == number)]
    rows, columns = [r for r, _ in points], [c for _, c in points]
    r0, r1, c0, c1 = min(rows), max(rows), min(columns), max(columns)
    by_row, by_column = dict.fromkeys(range(r0, r1 + 1), 0.0), dict.fromkeys(range(c0, c1 + 1), 0.0)
    for r, c in points:
        by_row[r] += float(picture.intensity[r, c])
        by_column[c] += float(picture.intensity[r, c])
    total = sum(by_row.values())
    axes = [
        [(picture.frequencies[r] / 1000, v / total) for r, v in by_row.items()],
        [((c - c0 + 0.5) / (c1 - c0 + 1), v / total) for c, v in by_column.items()],
    ]
    out = {}
    for name, profile in zip(("freq", "time"), axes, strict=True):
        mean = sum(x * p for x, p in profile)
        out[f"{name}_gini"] = 1 - sum(p * p for _, p in profile)
        out[f"{name}_mean"] = mean
        for k, moment in ((2, "variance"), (3, "skewness"), (4, "kurtosis")):
            out[f"{name}_{moment}"] = sum(p * (x - mean) ** k for x, p in profile)
        out[f"{name}_max"] = max(profile, key=lambda pair: pair[1])[0]
    values = [float(picture.intensity[r, c]) for r, c in points]
    out["mask_mean"] = sum(values) / len(values)
    out["mask_stddev"] = (sum((v - out["mask_mean"]) ** 2 for v in values) / len(values)) ** 0.5
    out["min_freq"] = (picture.frequencies[r0] - picture.frequency_step / 2) / 1000
    out["max_freq"] = (picture.frequencies[r1] + picture.frequency_step / 2) / 1000
    out["bandwidth"] = out["max_freq"] - out["min_freq"]
    out["duration"] = (c1 - c0 + 1) * picture.time_step
    out["area"] = len(points)
    inside = set(points)
    sides = [(r + i, c + j) for r, c in points for i, j in ((0, 1), (1, 0), (0, -1), (-1, 0))]
    out["perimeter"] = sum(q not in inside for q in sides)
    out["non_compactness"] = out["perimeter"] ** 2 / out["area"]
    out["rectangularity"] = out["area"] / ((r1 - r0 + 1) * (c1 - c0 + 1))
    out.update(zip((f"hog{i}" for i in range(16)), loop_gradients(picture.intensity, points), strict=True))
    return [out[name] for name in SYLLABLE_NAMES]


def loop_gradients(image, points):
    kernel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    padded = np.pad(np.asarray(image, dtype=float), 1, mode="symmetric")
    bins = [0.0] * 16
    for r, c in points:
        patch = padded[r : r + 3, c : c + 3]
        x, y = (patch * kernel).sum(), (patch * kernel.T).sum()
        degrees = np.degrees(np.arctan2(y, x)) % 360
        bins[int((degrees + 11.25) % 360 // 22.5)] += np.hypot(x, y)
    return [b / sum(bins) for b in bins]


@pytest.mark.parametrize("seed", range(4))
def test_features_are_those_of_plain_loops(seed):
    rng = np.random.default_rng(seed)
    intensity = rng.random((24, 40)).astype(np.float32)
    labels = np.zeros((24, 40), dtype=np.int32)
    labels[2:10, 3:15][rng.random((8, 12)) < 0.8] = 1
    labels[12:22, 20:38][rng.random((10, 18)) < 0.7] = 2
    picture = Spectrogram(
        level=intensity, above_noise=40 * intensity, intensity=intensity, frequencies=1000 + 31.25 * np.arange(24),
        times=0.016 + 0.008 * np.arange(40), frequency_step=31.25, time_step=0.008,
    )  # fmt: skip
    features, boxes = syllable_features(picture, labels), region_boxes(picture, labels)
    for i in range(2):
        np.testing.assert_allclose(features[i], loop_features(picture, labels, i + 1), rtol=2e-5, atol=1e-7)
    assert boxes[0, 1] - boxes[0, 0] == pytest.approx(features[0][SYLLABLE_NAMES.index("duration")])
    assert len(SYLLABLE_NAMES) == 38


def test_flat_regions_have_features_too():
    labels = np.ones((4, 5), dtype=np.int32)
    assert gradient_histograms(np.zeros((4, 5)), labels, 1).tolist() == [[0.0] * 16]
    picture = Spectrogram(*[np.zeros((4, 5), np.float32)] * 3, np.arange(4.0), np.arange(5.0), 1.0, 1.0)
    assert np.isfinite(syllable_features(picture, labels)).all()
    assert boundary_length(np.ones((3, 4), bool)) == 14


def test_direction_of_gradients():
    ramp = np.tile(np.arange(9.0), (9, 1))
    labels = np.pad(np.ones((7, 7), np.int32), 1)
    for turns, expected in ((0, 0), (3, 4), (2, 8), (1, 12)):  # brighter to the right, down, left, up
        assert gradient_histograms(np.rot90(ramp, turns), labels, 1)[0].argmax() == expected


# -- bad input --------------------------------------------------------------------------------------------------------


def test_bad_files_are_named(tmp_path):
    good = write(tmp_path / "good.wav", tone_over_noise())
    raw = good.read_bytes()
    nan = tone_over_noise()
    nan[20_000] = np.nan
    bad = {
        "text.wav": (b"this is no sound", "not a sound file"),
        "empty.wav": (b"", "empty"),
        "head.wav": (raw[:20], "not a sound file"),
        "heading.wav": (
            raw[:44],
            "it is cut off: its heading announces 96000 bytes of sound and 0 are there; it holds no",
        ),
    }
    for name, (content, message) in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FormatError, match=f"{name}.*({message})"):
            featurize_audio([tmp_path / name])
    write(tmp_path / "none.wav", np.empty(0))
    with pytest.raises(FormatError, match="none.wav: it holds no samples"):
        featurize_audio([tmp_path / "none.wav"])
    write(tmp_path / "nan.wav", nan, subtype="FLOAT")
    with pytest.raises(FormatError, match="nan.wav: 1 samples from 1.250 s on are not finite"):
        featurize_audio([tmp_path / "nan.wav"])
    write(tmp_path / "huge.wav", 1e30 * tone_over_noise(), subtype="FLOAT")
    with pytest.raises(FormatError, match="huge.wav: .* above 1e"):
        featurize_audio([tmp_path / "huge.wav"])
    flac = write(tmp_path / "whole.flac", tone_over_noise())
    (tmp_path / "cut.flac").write_bytes(flac.read_bytes()[:20_000])
    with pytest.raises(FormatError, match="cut.flac"):
        featurize_audio([tmp_path / "cut.flac"])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.999])
def test_ogg_files_that_lost_their_end_are_named(tmp_path, share):
    whole = write(tmp_path / "whole.ogg", tone_over_noise(seconds=20.0))
    assert len(featurize_audio([whole])) > 0
    raw = whole.read_bytes()
    (tmp_path / "cut.ogg").write_bytes(raw[: round(share * len(raw))])
    with pytest.raises(FormatError, match="cut.ogg: it is cut off"):
        featurize_audio([tmp_path / "cut.ogg"])


def test_a_recorder_that_does_not_know_the_length_is_read(tmp_path):
    path = write(tmp_path / "stream.wav", tone_over_noise())
    raw = bytearray(path.read_bytes())
    raw[4:8] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(raw)
    assert featurize_audio([path]).bags.n_instances == 1


def test_silence_is_a_result_with_a_remark(tmp_path):
    zero = AUDIO.read_file(write(tmp_path / "zero.wav", np.zeros(160_000)), "zero.wav", AudioSettings())
    assert (zero.sizes, zero.features.shape) == ([0], (0, 38))
    assert "every sample is zero" in zero.problems[0]
    noise = 0.01 * np.random.default_rng(0).standard_normal(160_000)
    quiet = AUDIO.read_file(write(tmp_path / "quiet.wav", noise), "quiet.wav", AudioSettings(min_area=200))
    assert quiet.sizes == [0]
    assert "no syllable" in quiet.problems[0]
    with pytest.raises(InputError, match="Nothing was found in any of the 1 files"):
        featurize_audio([tmp_path / "zero.wav"])


def test_sound_after_digital_silence_is_found_once(tmp_path):
    sound = tone_over_noise()
    sound[:12_000] = 0.0
    data = featurize_audio([write(tmp_path / "x.wav", sound)])
    assert [round(p["start"], 1) for p in rows_of(data.locations)] == [1.0]


@pytest.mark.parametrize("n", [1, 5, 100, 600])
def test_very_short_sounds(tmp_path, n):
    path = write(tmp_path / "short.wav", np.random.default_rng(0).uniform(-1, 1, n))
    assert AUDIO.read_file(path, "short.wav", AudioSettings()).sizes == [0]


def test_settings_are_checked():
    for wrong, message in (
        ({"window": 0}, "'window' is 0"),
        ({"bags": "x"}, "'bags' is 'x'"),
        ({"high": 100.0}, "'high' is 100.0"),
        ({"grow": float("nan")}, "'grow' is nan"),
    ):
        with pytest.raises(InputError, match=message):
            AudioSettings(**wrong)
    assert AudioSettings.from_text({"window": "5", "high": "none", "bags": "file"}) == AudioSettings(5.0, "file")
    with pytest.raises(InputError, match="no setting 'x'"):
        AudioSettings.from_text({"x": "1"})
    with pytest.raises(InputError, match="takes a number"):
        AudioSettings.from_text({"window": "ten"})
    with pytest.raises(InputError, match="takes a whole number"):
        AudioSettings.from_text({"min_area": "7.5"})
    assert AudioSettings.from_text({"min_area": "70.0"}).min_area == 70
    with pytest.raises(InputError, match="rate of 8000 Hz"):
        find_syllables(np.zeros(8000), 8000, AudioSettings(low=4000))
