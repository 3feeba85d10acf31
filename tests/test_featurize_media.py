"""The media: settings from anything, entries kept on disk, and a medium of our own from one object and one line."""

from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest

from bagwise.exceptions import InputError
from bagwise.featurize import AudioSettings, TextSettings
from bagwise.featurize.files import FileBags
from bagwise.featurize.media import MEDIA, check_medium, find_files, guess_medium
from bagwise.featurize.medium import Medium
from bagwise.featurize.pictures import Picture, outline_region
from bagwise.featurize.settings import Settings
from bagwise.io.annotations import FORMATS, Annotations, compare_marks, formats_of, read_marks, write_formats
from bagwise.report.page import write_page
from bagwise.report.result import AnnotateResult
from bagwise.workflow.featurize import featurize_folder, refuse_files
from bagwise.workflow.store import read_entries, write_entries
from media_examples import finding

AUDIO, TEXT, TABLE = (MEDIA[name] for name in ("audio", "text", "table"))


@pytest.mark.parametrize(
    "values",
    [
        {"high": 8000, "window": 5, "close": 2, "bags": "file"},
        {"high": "8000", "window": "5.0", "close": "2", "bags": "file"},
        {"high": np.float64(8000), "window": np.int64(5), "close": 2.0, "bags": "file"},
        AudioSettings(high=8000.0, window=5.0, close=2, bags="file"),
    ],
    ids=["numbers", "text", "numpy", "object"],
)
def test_settings_are_taken_as_text_as_numbers_and_as_they_are(values):
    expected = AudioSettings(high=8000.0, window=5.0, close=2, bags="file")
    made = AUDIO.make_settings(values)
    assert made == expected
    assert AUDIO.make_settings(made.to_dict()) == expected
    assert [type(value) for value in made.to_dict().values()] == [type(value) for value in expected.to_dict().values()]


def test_settings_of_each_kind():
    assert AUDIO.make_settings(None) == AUDIO.make_settings({}) == AudioSettings()
    assert AUDIO.make_settings({"high": None}) == AUDIO.make_settings({"high": "None"}) == AudioSettings()
    for no in (False, "false", "False"):
        assert TEXT.make_settings({"stems": no}).stems is False
    assert TABLE.make_settings() == Settings()


@pytest.mark.parametrize(
    ("medium", "values", "message"),
    [
        (AUDIO, {"hihg": 1}, "no setting 'hihg'; the settings are window, bags"),
        (TABLE, {"window": 1}, "no setting 'window'; there are none"),
        (AUDIO, {"window": True}, "'window' takes a number, not True"),
        (AUDIO, {"window": "x"}, "'window' takes a number, not 'x'"),
        (AUDIO, {"window": None}, "'window' takes a number, not None"),
        (AUDIO, {"window": [3]}, "'window' takes a number"),
        (AUDIO, {"window": "nan"}, "'window' is nan"),
        (AUDIO, {"close": 2.5}, "'close' takes a whole number, not 2.5"),
        (AUDIO, {"bags": 3}, "'bags' takes text, not 3"),
        (TEXT, {"stems": 1}, "'stems' takes true or false, not 1"),
        (TEXT, {"stems": "yes"}, "'stems' takes true or false, not 'yes'"),
        (AUDIO, {"high": 100}, "'high' is 100"),
        (AUDIO, TextSettings(), "TextSettings, but audio takes AudioSettings"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(medium, values, message):
    with pytest.raises(InputError, match=message):
        medium.make_settings(values)


def test_media_are_complete():
    """What one part of the house asks of a medium because of what another says is there."""
    for name, medium in MEDIA.items():
        assert medium.name == name
        assert set(medium.formats) <= set(FORMATS)
        assert (medium.label_studio is not None) == ("label-studio" in medium.formats)
        assert bool(medium.extensions) == (medium.read is not None)
    endings = [ending for medium in MEDIA.values() for ending in medium.extensions]
    assert len(set(endings)) == len(endings)
    with pytest.raises(InputError, match="no medium 'video'; use one of audio, image, text, series, table"):
        check_medium("video")


@pytest.mark.parametrize("n", [0, 3])
def test_entries_keep_columns_of_numbers_and_of_lists(tmp_path, n):
    polygons = np.empty(n, dtype=object)
    polygons[:] = [[[0.5, i], [2.0, 3.0]] for i in range(n)]
    locations = {
        "start": np.arange(n) / 7,
        "line": np.arange(n),
        "polygon": polygons,
        "who": np.array(["ä"] * n, object),
    }
    bags = FileBags(["a"], [n], np.ones((n, 2)), locations, {"seconds": 1.5}, ["odd"], ["x", "y"])
    (tmp_path / ".features").mkdir()
    back = read_entries(write_entries(tmp_path, {"key": bags}))["key"]
    assert list(back.locations) == list(locations)
    for key, column in locations.items():
        assert back.locations[key].tolist() == column.tolist()
    assert back.locations["start"].dtype == np.float64
    assert (back.bag_names, back.sizes, back.info, back.problems, back.feature_names) == (
        ["a"], [n], {"seconds": 1.5}, ["odd"], ["x", "y"],
    )  # fmt: skip
    whole = FileBags(["a@0", "a@10"], [1, 2], np.ones((3, 2)), {}, {}).as_one_bag("a")
    assert (whole.bag_names, whole.sizes) == (["a"], [3])


# -- a medium of our own ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BeatSettings(Settings):
    loud: int = 5

    def __post_init__(self):
        self.check_ranges({"loud": (1, 9)})


def read_beats(path, name, settings):
    """A line of digits; an instance is a loud digit, described by itself and the one before."""
    digits = [int(digit) for digit in path.read_text(encoding="utf-8").strip()]
    loud = np.array([i for i, digit in enumerate(digits) if digit >= settings.loud], dtype=int)
    features = np.array([[digits[i], digits[i - 1]] for i in loud], dtype=float).reshape(-1, 2)
    places = {"start": loud, "end": loud + 1}
    return FileBags([name], [len(loud)], features, places, {"beats": len(digits)}, feature_names=["digit", "before"])


def draw_beats(path, name, rows, settings, start):
    regions = [outline_region(row, [(row["start"], 0), (row["end"], 0), (row["end"], 10)], 1000) for row in rows]
    return Picture(f"{name} by hand", "beats", 1000, 10, regions=regions)


BEATS = Medium(
    name="beats", title="Beats, annotated", instances="beats", settings=BeatSettings, extensions=(".beat",),
    read=read_beats, places=("start", "end"), whole=True, draw=draw_beats,
)  # fmt: skip


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_new_medium_is_one_object_and_one_line(tmp_path, monkeypatch, jobs):
    monkeypatch.setitem(MEDIA, "beats", BEATS)
    media, run = tmp_path / "media", tmp_path / "run"
    (media / "sub").mkdir(parents=True)
    (run / ".features").mkdir(parents=True)
    for name, digits in (("a.beat", "1929"), ("sub/b.beat", "0080"), ("quiet.beat", "000")):
        (media / name).write_text(digits, encoding="utf-8")
    medium = check_medium(guess_medium(media))
    reading = medium.make_settings({"loud": 7})
    names = find_files(media, medium, reading)
    done = refuse_files(featurize_folder(media, names, medium, reading, run, jobs, lambda *_: None), medium, None)
    assert (list(done.bags), done.errors) == (["a.beat", "quiet.beat", "sub/b.beat"], {})
    dataset = medium.featurize([media / name for name in names], reading)
    assert dataset.feature_names == ["digit", "before"]
    assert dataset.locations["file"].tolist() == ["a.beat", "a.beat", "sub/b.beat"]
    assert dataset.locations["start"].tolist() == [1, 3, 2]
    number = count()
    rows = [
        {"file": name, "start": int(start), "end": int(start) + 1, **finding("loud", bag=name, instance=next(number))}
        for name, start in zip(dataset.locations["file"], dataset.locations["start"], strict=True)
    ]
    files = [{"file": name, **file.info} for name, file in done.bags.items()]
    about = {"model": "by hand", "version": "0", "settings": reading.to_dict()}
    scene = Annotations(medium, rows, files, ["loud", "soft"], about, media)
    paths = write_formats(scene, run, formats_of(medium))
    assert [path.name for path in paths] == ["annotations.csv", "annotations.parquet"]
    for path in paths:
        assert compare_marks(scene, read_marks(path, scene)) == ([], [])
    write_page(AnnotateResult(scene, [], [], paths, "", 0, {}), run / "report.html")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Beats, annotated: media" in page
    assert "sub/b.beat by hand" in page
    assert "instance 2 of sub/b.beat" in page
