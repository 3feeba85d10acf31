"""The media: settings from anything, entries kept on disk, and a medium of our own from one object and one line."""

import struct
import zlib
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest
from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.app.formats import FORMATS, Annotations, compare_marks, formats_of, read_marks, write_formats
from bagwise.app.media import AudioSettings, TextSettings
from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import MediaType, Parts
from bagwise.app.media.media_types import MEDIA, check_media_type, find_files, guess_media_type
from bagwise.app.media.pictures import Picture, outline_region
from bagwise.app.media.settings import Settings, number
from bagwise.app.report.page import write_page
from bagwise.app.report.summary import AnnotateResult
from bagwise.app.runs._features import Source, read_entries, read_files, write_entries
from bagwise.core.exceptions import FormatError, InputError
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
    ("media_type", "values", "message"),
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
def test_wrong_settings_are_named(media_type, values, message):
    with pytest.raises(InputError, match=message):
        media_type.make_settings(values)


def test_media_are_complete():
    """What one part of the house asks of a medium because of what another says is there."""
    for name, media_type in MEDIA.items():
        assert media_type.name == name
        assert set(media_type.formats) <= set(FORMATS)
        assert (media_type.label_studio is not None) == ("label-studio" in media_type.formats)
        assert bool(media_type.extensions) == (media_type.read is not None)
    endings = [ending for media_type in MEDIA.values() for ending in media_type.extensions]
    assert len(set(endings)) == len(endings)
    with pytest.raises(InputError, match="no media type 'video'; use one of audio, image, text, series, table"):
        check_media_type("video")


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
    loud: int = number(5, 1, 9)


def read_beats(path, name, settings):
    """A line of digits; an instance is a loud digit, described by itself and the one before."""
    digits = [int(digit) for digit in path.read_text(encoding="utf-8").strip()]
    loud = np.array([i for i, digit in enumerate(digits) if digit >= settings.loud], dtype=int)
    features = np.array([[digits[i], digits[i - 1]] for i in loud], dtype=float).reshape(-1, 2)
    places = {"start": loud, "end": loud + 1}
    return FileBags([name], [len(loud)], features, places, {"beats": len(digits)}, feature_names=["digit", "before"])


def draw_beats(path, name, rows, settings, start):
    regions = [outline_region(row, row["start"], 0, row["end"], 10, 1000) for row in rows]
    return Picture(f"{name} by hand", "beats", 1000, 10, regions=regions)


BEATS = MediaType(
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
    media_type = check_media_type(guess_media_type(media))
    reading = media_type.make_settings({"loud": 7})
    names = find_files(media, media_type, reading)
    done = read_files(Source(media, media_type, reading, names), run, jobs, lambda *_: None)
    assert (list(done.bags), done.errors) == (["a.beat", "quiet.beat", "sub/b.beat"], {})
    dataset = media_type.featurize([media / name for name in names], reading)
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
    scene = Annotations(media_type, rows, files, ["loud", "soft"], about, media)
    paths = write_formats(scene, run, formats_of(media_type))
    assert [path.name for path in paths] == ["annotations.csv", "annotations.parquet"]
    for path in paths:
        assert compare_marks(scene, read_marks(path, scene)) == ([], [])
    write_page(AnnotateResult(scene, [], [], paths, "", 0, {}), run / "report.html")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Beats, annotated: media" in page
    assert "sub/b.beat by hand" in page
    assert "instance 2 of sub/b.beat" in page


# -- what libraries raise ---------------------------------------------------------------------------------------------

ODD = [
    AssertionError("expected name token"), RecursionError("maximum depth"), struct.error("unpack"), KeyError("/Root"),
    zlib.error("Error -3"), MemoryError(), IndexError("out of range"), RuntimeError("two\nlines"), StopIteration(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), NotImplementedError(), EOFError("too early"),
]  # fmt: skip
READ, CUT, PART, JOIN, VECTORS = "read", "cut", "part", "join", "vectors"
WHERE = [(name, READ) for name, media_type in MEDIA.items() if media_type.read is not None]
WHERE += [("audio", place) for place in (CUT, PART, JOIN)] + [("text", VECTORS)]


def failing(media_type, place, error):
    """The medium with readers that make up one instance of every file, and raise the error at one place of bad ones."""
    media_type = replace(media_type, open=nullcontext)

    def at(here, path, given):
        if here == place and path.name.startswith("bad"):
            raise error
        return given

    def bags(name):
        return FileBags(
            [name], [1], np.ones((1, 2)), {"start": np.zeros(1)}, {"seconds": 2.0}, feature_names=["x", "y"]
        )

    parts = Parts(
        cut=lambda path, settings: at(CUT, path, [(0.0, 1.0), (1.0, 2.0)] if place in (PART, JOIN) else [(0.0, 2.0)]),
        read=lambda path, part, settings: at(PART, path, bags("part")),
        join=lambda path, name, found, settings: at(JOIN, path, bags(name)),
    )
    made = replace(media_type, read=lambda path, name, settings: at(READ, path, bags(name)))

    class Vectors:
        about = None

        def of_file(self, name):
            return self

        def describe(self, path, name, found):
            return at(VECTORS, path, found)

    return (made if media_type.parts is None else replace(made, parts=parts)), Vectors() if place == VECTORS else None


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("name", "place"), WHERE, ids=str)
def test_whatever_a_reader_raises_is_a_problem_of_its_file(tmp_path, name, place, error):
    media_type, vectors = failing(MEDIA[name], place, error)
    media, run = tmp_path / "media", tmp_path / "run"
    (run / ".features").mkdir(parents=True)
    media.mkdir()
    names = [f"{stem}{media_type.extensions[0]}" for stem in ("a", "bad", "z")]
    for i, file in enumerate(names):
        (media / file).write_text(str(i), encoding="utf-8")
    done = read_files(
        Source(media, media_type, media_type.make_settings(), names, vectors=vectors), run, 1, lambda *_: None
    )
    assert sorted(done.bags) == [names[0], names[2]]
    (message,) = done.errors.values()
    assert message.startswith(f"{names[1]}: it cannot be read ({type(error).__name__}")
    assert message.count("\n") == 0
    assert " ".join(str(error).split()) in message
    assert message.endswith("please report this as a bug of bagwise.")
    if place == READ:
        with pytest.raises(FormatError, match="bad") as caught:
            media_type.featurize([media / file for file in names])
        assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ImportError("needs pypdf")], ids=repr)
def test_what_concerns_all_files_is_raised(tmp_path, error):
    media_type, _ = failing(MEDIA["text"], READ, error)
    (tmp_path / ".features").mkdir()
    (tmp_path / "bad.txt").write_text("x", encoding="utf-8")
    with pytest.raises(type(error)):
        read_files(Source(tmp_path, media_type, TextSettings(), ["bad.txt"]), tmp_path, 1, lambda *_: None)


@pytest.mark.parametrize("name", [name for name, media_type in MEDIA.items() if media_type.read is not None])
def test_what_reads_a_file_names_it(tmp_path, monkeypatch, name):
    """Also where it only fails after a while, and where it is drawn."""

    def at_once(path, *arguments):
        raise zlib.error("Error -3")

    def later(path, *arguments):
        yield from ()
        raise zlib.error("Error -3")

    file = tmp_path / f"odd{MEDIA[name].extensions[0]}"
    file.write_bytes(b"odd")
    made = replace(MEDIA[name], open=nullcontext, read=at_once)
    with pytest.raises(FormatError, match=rf"{file.name}: it cannot be read \(error: Error -3\)"):
        made.featurize([file])
    with pytest.raises(FormatError, match=rf"{file.name}: it cannot be read"), made.opened(file):
        list(later(file))
    for fails in (at_once, later) if made.stages else ():
        monkeypatch.setitem(MEDIA, name, replace(made, stages=fails))
        result = CliRunner().invoke(main, ["inspect", str(file), "--out", str(tmp_path / "out")])
        assert result.exit_code == 1
        assert f"{file.name}: it cannot be read (error: Error -3)" in result.output
