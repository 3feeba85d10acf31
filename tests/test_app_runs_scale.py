"""The resolution of segmentation: its figures against loops, its choice on made songs, and what a run keeps of it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.segmentation import SONGS, make_songs
from click.testing import CliRunner

from bagwise import BagDataset, Bags, Run
from bagwise.app.cli.main import main
from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media.audio import AUDIO
from bagwise.app.media.matching import count_inside
from bagwise.app.media.spectrogram import spectrogram
from bagwise.app.report.facts import remarks_on_lengths
from bagwise.app.report.summary import resolution_in_words
from bagwise.app.runs._scale import FEWEST_FILES, FOLDS, SURE, _held_out_loss, _Trial
from bagwise.app.runs.data import read_bags
from bagwise.app.runs.options import RunOptions
from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags


@pytest.mark.parametrize("rate", [8000, 22_050, 44_100, 48_000, 192_000, 250_000, 384_000])
@pytest.mark.parametrize("frame", [0.001, 0.002, 0.004, 0.016, 0.032])
def test_frames_of_any_length_lie_wholly_inside(rate, frame):
    """Hops that do not divide half a frame once gave frames before the first sample."""
    samples = np.sin(np.arange(rate // 3) * 0.7).astype(np.float32)
    picture = spectrogram(samples, rate, AudioSettings(frame=frame))
    assert picture.level.shape[1] == len(picture.times)
    assert picture.times[0] >= 0.4 * frame
    assert picture.times[-1] <= len(samples) / rate - 0.4 * frame


def test_parts_of_boxes_are_counted_as_by_hand():
    rng = np.random.default_rng(0)

    def places(n):
        start, low = rng.uniform(0, 9, n), rng.uniform(0, 4000, n)
        columns = {
            "start": start,
            "end": start + rng.uniform(0, 2, n),
            "low": low,
            "high": low + rng.uniform(0, 3000, n),
        }
        return {"file": np.array([f"{i}.wav" for i in rng.integers(3, size=n)], dtype=object), **columns}

    boxes, others = places(40), places(90)
    middle = {a: (others[a] + others[b]) / 2 for a, b in (("start", "end"), ("low", "high"))}
    expected = [
        sum(
            boxes["file"][i] == others["file"][j]
            and boxes["start"][i] <= middle["start"][j] <= boxes["end"][i]
            and boxes["low"][i] <= middle["low"][j] <= boxes["high"][i]
            for j in range(90)
        )
        for i in range(40)
    ]
    assert count_inside(boxes, others).tolist() == expected
    assert sum(expected) > 20


def test_the_frames_to_choose_from():
    usual = AudioSettings()
    for rate, shortest in ((8000, 0.004), (16_000, 0.002), (48_000, 0.001), (96_000, 0.001)):
        settings, begin = AUDIO.scales.settings(usual, {"threshold"}, [rate, 2 * rate])
        assert settings[begin[0]] == usual
        assert len(begin) == 1
        assert settings[0].frame == shortest
        assert [one.frame for one in settings] == sorted(one.frame for one in settings)
    settings, begin = AUDIO.scales.settings(usual, {}, [250_000])
    assert (settings[begin[0]].frame, settings[begin[0]].low) == (0.002, 10_000.0)
    assert settings[begin[1]] == usual
    assert AUDIO.scales.settings(replace(usual, low=5.0), {"low"}, [250_000])[0][0].low == 5.0
    for name in ("frame", "close", "min_area"):
        assert AUDIO.scales.settings(usual, {name}, [48_000]) == ([usual], [0])


def test_the_held_out_loss_is_that_of_a_loop():
    made = make_gaussian_bags(n_bags=30, n_classes=4, random_state=3)
    files = np.array([f"{i // 2}.wav" for i in made.bags.bag_index], dtype=object)
    data = replace(made, locations={"file": files})
    names = np.unique([f"{i // 2}.wav" for i in range(30)])
    of_file = dict(zip(names, np.random.default_rng(1).permutation(15) % FOLDS, strict=True))
    fold = np.array([of_file[f"{i // 2}.wav"] for i in range(30)])
    expected = np.empty(30)
    for i in range(30):
        train = data[fold != fold[i]]
        p = np.clip(
            make_model("ored-background").fit(train.bags, train.Y).predict_proba(data[[i]].bags)[0], SURE, 1 - SURE
        )
        y = data.Y[i].astype(bool)
        left = int(y.sum()) - data.bags.sizes[i]
        if left > 0:
            p[sorted(np.flatnonzero(y), key=lambda c: p[c])[:left]] = SURE
        expected[i] = -np.mean(np.where(y, np.log(p), np.log(1 - p)))
    np.testing.assert_allclose(_held_out_loss(data, 1), expected, rtol=1e-6)


def test_a_bag_in_which_nothing_is_found_is_guessed_by_the_shares_of_labels():
    bags = {"a": frozenset("x"), "b": frozenset("xy"), "c": frozenset("x"), "d": frozenset()}
    losses = _Trial(by_bag={"a": 0.125}).losses(bags)
    expected = -np.mean([np.log(0.75), np.log(0.25)])
    assert losses.tolist()[:2] == [0.125, pytest.approx(expected)]


def test_long_instances_are_said_to_be_several():
    places = {
        "file": np.array(["a"] * 4, dtype=object),
        "start": np.arange(4.0),
        "end": np.arange(4.0) + np.array([0.1, 0.1, 3.0, 0.2]),
    }
    data = BagDataset(Bags(np.zeros((4, 1)), [0, 4]), locations=places)
    (remark,) = remarks_on_lengths(data, AUDIO, 2.0)
    assert remark.startswith("1 of 4 syllables are longer than 2 s (up to 3.0 s) and hold 88 % of the time")
    assert "frame=0.008" in remark
    assert remarks_on_lengths(data, AUDIO, 3.5) == []


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """Songs of fast syllables: recordings and labels."""
    folder = tmp_path_factory.mktemp("songs")
    songs = replace(SONGS["songs, 20 to 40 ms"], n_files=24, seconds=5.0, rate=16_000)
    return make_songs(songs, 5).write(folder)


def test_fast_songs_get_short_frames_and_the_run_says_why(fast, tmp_path):
    sounds, labels, _ = fast
    with Run.create(sounds, tmp_path / "run", labels=labels, page=True, jobs=1) as run:
        resolution, rows = run.manifest["resolution"], run.annotations()
        assert run.source.settings.frame < 0.032
        assert run.manifest["about"]["settings"]["frame"] == run.source.settings.frame
        assert run.result().n_reused == 0
        losses = {row["scale"]: row["loss"] for row in resolution["rows"]}
        assert losses[resolution["chosen"]] == min(losses.values())
        assert f"instead of {resolution['default']}" in resolution_in_words(resolution)
        page = (tmp_path / "run" / "report.html").read_text()
        assert f"<b>{resolution['chosen']}</b>" in page
        assert sum(path.suffix == ".zip" for path in (tmp_path / "run" / ".features").iterdir()) <= 24
    with Run.create(sounds, tmp_path / "run", labels=labels, jobs=1) as again:  # nothing is chosen twice
        assert again.manifest["resolution"] == resolution
        assert again.annotations() == rows
        assert again.result().n_reused == 24
    with Run.create(
        sounds, tmp_path / "given", labels=labels, settings={"frame": 0.128, "close": 40}, page=False
    ) as given:
        assert given.source.settings.frame == 0.128
        assert "resolution" not in given.manifest
        assert any("calls may run together" in message for _, message in given.problems)
    new = Run.create(sounds, tmp_path / "new", model=tmp_path / "run" / "model.bagwise", page=False, jobs=1)
    assert new.source.settings == run.source.settings  # a model brings its own
    new.close()


@pytest.mark.slow
def test_the_sample_is_opened_once_for_all_resolutions(fast, tmp_path, monkeypatch):
    """Opened to measure it, to hold it and to draw it; what is found is the same where nothing can be held."""
    sounds, labels, _ = fast
    paths, plain = [], open

    def counted(path, *rest, **options):
        paths.append(str(path))
        return plain(path, *rest, **options)

    monkeypatch.setattr("builtins.open", counted)
    with Run.create(sounds, tmp_path / "held", labels=labels, page=True, jobs=1) as run:
        rows, resolution = run.annotations(), run.manifest["resolution"]
    opened = Counter(path for path in paths if path.endswith(".wav"))
    assert (len(opened), max(opened.values())) == (24, 3)
    assert len(resolution["rows"]) > 2
    monkeypatch.setattr("bagwise.app.runs._scale.MOST_HELD", 0)
    with Run.create(sounds, tmp_path / "read", labels=labels, page=False, jobs=1) as run:
        assert (run.annotations(), run.manifest["resolution"]) == (rows, resolution)


def test_few_files_keep_the_default(fast, tmp_path):
    sounds, labels, _ = fast
    few = tmp_path / "few"
    few.mkdir()
    for path in sorted(sounds.iterdir())[: FEWEST_FILES - 1]:
        (few / path.name).write_bytes(path.read_bytes())
    with Run.create(few, tmp_path / "run", labels=labels, page=False, jobs=1) as run:
        assert run.source.settings == AudioSettings()
        assert f"{FEWEST_FILES - 1} labelled files are too few" in resolution_in_words(run.manifest["resolution"])


def test_inspect_of_a_folder_says_that_calls_run_together(fast):
    sounds, _, _ = fast
    result = CliRunner().invoke(main, ["inspect", str(sounds)])
    assert result.exit_code == 0, result.output
    rows = {line.split(" ms")[0]: line for line in result.output.splitlines() if " ms " in line}
    assert list(rows)[:4] == ["8", "16", "32", "64"]
    assert "(default)" in rows["32"]
    assert "calls run together with frames of 32 ms" in result.output
    counted = [
        len(featurize_audio(sorted(sounds.glob("*.wav")), AudioSettings(frame=f)).locations["start"])
        for f in (0.008, 0.032)
    ]
    assert [int(rows[name].replace("(default)", "").split()[2]) for name in ("8", "32")] == counted
    result = CliRunner().invoke(main, ["inspect", str(sounds), "--media-set", "frame=0.01", "--media-set", "low=1000"])
    assert "10 ms (default)" in result.output


def test_bats_without_labels_have_the_frames_of_their_rate(tmp_path):
    """`bagwise cluster` and `featurize` have nothing to judge others by."""
    bats = replace(SONGS["bats"], n_files=3, seconds=1.0)
    sounds, *_ = make_songs(bats, 1).write(tmp_path)
    found = read_bags(sounds, RunOptions(jobs=1), exclude=[], progress=lambda what, done, total: None)
    assert (found.media.settings.frame, found.media.settings.low) == (0.002, 10_000.0)
    lengths = found.dataset.locations["end"] - found.dataset.locations["start"]
    assert np.median(lengths) < 0.01  # of calls of 3 to 5 ms
    given = RunOptions(jobs=1, settings={"frame": 0.004, "low": 20_000})
    found = read_bags(sounds, given, exclude=[], progress=lambda what, done, total: None)
    assert (found.media.settings.frame, found.media.settings.low) == (0.004, 20_000)
