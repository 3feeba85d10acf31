"""The soundscape: its truth is what its sound holds."""

import csv

import numpy as np
import pytest
import soundfile

from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media.matching import covered_share
from bagwise.app.media.spectrogram import spectrogram
from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_soundscape


def test_shape_and_truth():
    scene = make_soundscape(8, random_state=3)
    assert len(scene.recordings) == len(scene.names) == len(scene.label_sets) == 8
    assert len(scene.species) >= 6
    assert all(len(r) == 160_000 and np.abs(r).max() <= 0.7001 for r in scene.recordings)
    for event in scene.events:
        assert 0 <= event["start"] < event["end"] <= 10
        assert 0 < event["low"] < event["high"] < 8000
        assert event["label"] in scene.species
    assert all(1 <= len(labels) <= 4 for labels in scene.label_sets)
    again = make_soundscape(8, random_state=3)
    assert again.events == scene.events
    assert all(np.array_equal(a, b) for a, b in zip(scene.recordings, again.recordings, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_calls_are_louder_than_their_surroundings(seed):
    """In the box of a call the power is above that of the same band at other times, by the independent eye of scipy."""
    scene = make_soundscape(6, species_per_recording=(1, 1), calls_per_species=(1, 1), thumps=0, random_state=seed)
    for event in scene.events:
        picture = spectrogram(scene.recordings[scene.names.index(event["file"])], scene.rate, AudioSettings(smooth=0))
        rows = (picture.frequencies >= event["low"]) & (picture.frequencies <= event["high"])
        inside = (picture.times >= event["start"] + 0.02) & (picture.times <= event["end"] - 0.02)
        power = 10 ** (picture.level / 10)
        ratio = power[rows][:, inside].mean() / power[rows][:, ~inside].mean()
        assert 10 * np.log10(ratio) > 5.0, event


def test_files_are_what_was_made(tmp_path):
    scene = make_soundscape(6, random_state=0)
    sounds, labels, truth = scene.write(tmp_path)
    read, rate = soundfile.read(sounds / scene.names[2])
    assert rate == scene.rate
    np.testing.assert_allclose(read, scene.recordings[2], atol=1 / 30000)  # 16 bits
    with labels.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [set(row["labels"].split(";")) for row in rows] == scene.label_sets
    with truth.open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(scene.events)
    data = featurize_audio([sounds / name for name in scene.names])
    assert np.mean(covered_share(rows_of(data.locations), scene.events) >= 0.5) > 0.9


def test_recordings_in_which_nobody_calls():
    scene = make_soundscape(3, species_per_recording=(0, 0), thumps=5.0, random_state=0)
    assert scene.label_sets == [set(), set(), set()]
    assert scene.events == []
    mixed = make_soundscape(40, seconds=2.0, species_per_recording=(0, 1), calls_per_species=(1, 1), random_state=0)
    assert {len(labels) for labels in mixed.label_sets} == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_recordings": 0}, "n_recordings=0"),
        ({"seconds": 1.0}, "seconds=1.0"),
        ({"rate": 8000}, "rate=8000"),
        ({"calls_per_species": (3, 2)}, "calls_per_species"),
        ({"species_per_recording": (-1, 2)}, "species_per_recording"),
    ],
    ids=str,
)
def test_wrong_requests(arguments, message):
    with pytest.raises(InputError, match=message):
        make_soundscape(**{"n_recordings": 2, **arguments})
