"""Patches of spectrograms: against loops, the same hertz and seconds at every rate, the same syllables as otherwise."""

import numpy as np
import pytest
import soundfile

from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media._features import BEND, SECONDS, SPECTROGRAM_PATCH_NAMES, region_boxes, spectrogram_patches
from bagwise.app.media.spectrogram import Spectrogram
from bagwise.core.exceptions import InputError
from bagwise.nn.patch_shape import COLUMNS, LAYERS, N_FEATURES, ROWS


def made(seed, n_frequencies=90, n_frames=120):
    """A spectrogram of noise and some rectangular regions."""
    rng = np.random.default_rng(seed)
    intensity = rng.random((n_frequencies, n_frames), dtype=np.float32)
    labels = np.zeros(intensity.shape, dtype=np.int64)
    for number in range(1, 5):
        row, column = rng.integers(0, n_frequencies - 12), 28 * (number - 1) + rng.integers(0, 10)
        labels[row : row + rng.integers(2, 12), column : column + rng.integers(2, 16)] = number
    step = float(rng.choice([31.25, 62.5, 125.0]))
    return Spectrogram(
        intensity, intensity, intensity, step * np.arange(1, n_frequencies + 1), 0.02 + 0.008 * np.arange(n_frames),
        step, 0.008,
    ), labels  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("low", "high"), [(200.0, None), (1000.0, 5000.0)])
def test_patches_are_those_of_loops(seed, low, high):
    picture, labels = made(seed)
    found, boxes = spectrogram_patches(picture, labels, low, high), region_boxes(picture, labels)
    assert found.shape == (4, N_FEATURES) == (4, len(SPECTROGRAM_PATCH_NAMES))
    assert found.dtype == np.float32
    top = 12_000.0 if high is None else high
    edges = BEND * np.expm1(np.linspace(np.log1p(low / BEND), np.log1p(top / BEND), ROWS + 1))
    for i, (first, last, _, _) in enumerate(boxes):
        patch = found[i].reshape(len(LAYERS), ROWS, COLUMNS)
        start = (first + last) / 2 - SECONDS / 2
        expected = np.zeros_like(patch)
        for f, hertz in enumerate(picture.frequencies):
            for t, second in enumerate(picture.times):
                row = int(np.searchsorted(edges, hertz, side="right")) - 1
                column = int(np.floor((second - start) / SECONDS * COLUMNS))
                if 0 <= row < ROWS and 0 <= column < COLUMNS:
                    expected[0, row, column] = max(expected[0, row, column], picture.intensity[f, t])
                    expected[1, row, column] = max(expected[1, row, column], labels[f, t] == i + 1)
        assert np.array_equal(patch, expected)


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    """Half a second of 3 kHz at three rates."""
    folder = tmp_path_factory.mktemp("tones")
    paths = []
    for rate in (8_000, 16_000, 44_100):
        time = np.arange(3 * rate) / rate
        ramp = 0.5 - 0.5 * np.cos(np.pi * np.clip(np.minimum(time - 1.0, 1.5 - time) / 0.02, 0, 1))
        noise = 0.001 * np.random.default_rng(0).standard_normal(len(time))
        paths.append(folder / f"{rate}.wav")
        soundfile.write(paths[-1], noise + 0.02 * ramp * np.sin(2 * np.pi * 3000 * time), rate)
    return paths


def test_a_tone_is_at_the_same_place_whatever_the_rate(tones):
    data = featurize_audio(tones, AudioSettings(features="patch"))
    assert data.feature_names == SPECTROGRAM_PATCH_NAMES
    patches = data.bags.instances.reshape(3, len(LAYERS), ROWS, COLUMNS)
    loudest = patches[:, 0].sum(axis=2).argmax(axis=1)
    assert loudest.max() - loudest.min() <= 1  # the frequency lies at the edge of a row
    expected = np.floor((np.log1p(3000 / BEND) - np.log1p(200 / BEND)) / np.log1p(11_800 / (200 + BEND)) * ROWS)
    assert abs(loudest[0] - expected) <= 1
    assert (patches[:, 1, loudest[1]].sum(axis=1) >= COLUMNS - 2).all()  # half a second fills a patch


def test_the_syllables_are_the_same_as_with_other_features(tones):
    patch, shape = (featurize_audio(tones, AudioSettings(features=name)) for name in ("patch", "shape"))
    assert list(patch.bag_names) == list(shape.bag_names)
    assert np.array_equal(patch.bags.offsets, shape.bags.offsets)
    for column in shape.locations:
        assert np.array_equal(patch.locations[column], shape.locations[column])
    assert shape.bags.n_features == 38


def test_features_that_are_not_there_are_named():
    with pytest.raises(InputError, match="'features' is 'mel'; use one of 'shape', 'patch'"):
        AudioSettings(features="mel")
