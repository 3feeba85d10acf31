"""Which file a row of the table of labels speaks of."""

import unicodedata

import numpy as np
import pytest

from bagwise.app.labels.tables import match_labels
from bagwise.app.media.files import FileBags
from bagwise.io.labels import LabelTable

NAMES = ["a.wav", "b/x.wav", "c/x.wav", "Vögel.wav"]


def match(*names, failed=()):
    bags = {name: FileBags([f"{name}@0", f"{name}@10"], [1, 2], np.zeros((3, 1)), [{}] * 3, {}) for name in NAMES}
    table = LabelTable(list(names), [["l"]] * len(names), list(range(2, len(names) + 2)), "rows", path="t.csv")
    return match_labels(table, NAMES, bags, failed)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.wav", "a.wav"),
        ("a", "a.wav"),
        ("./b/x.wav", "b/x.wav"),
        ("b\\x.wav", "b/x.wav"),
        ("b/x", "b/x.wav"),
        (unicodedata.normalize("NFD", "Vögel.wav"), "Vögel.wav"),
        ("A.WAV", "a.wav"),
        ("vögel", "Vögel.wav"),
        ("C:\\Recordings\\2024\\a.wav", "a.wav"),
        ("/home/ada/b/x.wav", "b/x.wav"),
        ("//server/share/C/X.wav", "c/x.wav"),
    ],
)
def test_spellings(given, name):
    matched = match(given)
    assert matched.sets == {name: {"l"}}
    assert matched.whole == {name}
    assert matched.problems == []


def test_what_fits_no_file_or_several_is_named():
    matched = match("x.wav", "nothing.wav", "a.wav", "a", "c/x.wav@10")
    assert matched.sets == {"a.wav": {"l"}, "c/x.wav@10": {"l"}}
    assert matched.whole == {"a.wav"}
    assert [message.split(":", 1)[0] for _, message in matched.problems] == [
        "t.csv, row 2",
        "t.csv, row 3",
        "t.csv, row 5",
    ]
    assert "several files fit ('x.wav')" in matched.problems[0][1]
    assert "could not be read" in match("a.wav", failed=["a.wav"]).problems[0][1]


@pytest.mark.parametrize("rows", [("a.wav", "a.wav@10"), ("a.wav@10", "a.wav")], ids=["whole first", "piece first"])
def test_a_piece_of_a_file_that_is_named_as_a_whole_is_not_dropped_in_silence(rows):
    matched = match(*rows)
    assert matched.sets == {"a.wav": {"l"}}
    ((name, message),) = matched.problems
    assert name == "a.wav@10"
    assert message.startswith(f"t.csv, row {rows.index('a.wav@10') + 2}: 'a.wav@10' is a piece of 'a.wav'")


def test_labels_of_an_empty_piece_are_named():
    bags = {"a.wav": FileBags(["a.wav@0", "a.wav@10"], [3, 0], np.zeros((3, 1)), [{}] * 3, {})}
    table = LabelTable(["a.wav@0", "a.wav@10"], [["l"], ["l", "m"]], [2, 3], "rows", path="t.csv")
    matched = match_labels(table, ["a.wav"], bags, [])
    assert matched.problems == [
        ("a.wav@10", "t.csv, row 3: nothing was found in 'a.wav@10' that could carry its labels (l, m).")
    ]


def test_a_file_that_is_there_but_not_read_is_named_as_such():
    table = LabelTable(["phone.heic", "b/y.wav"], [["l"]] * 2, [2, 3], "rows", path="t.csv")
    matched = match_labels(table, ["a.wav"], {}, [], ["phone.heic", "notes.txt"])
    supervision = [message for _, message in matched.problems]
    assert "row 2: it is there, but files that end in '.heic' are not read ('phone.heic')" in supervision[0]
    assert "row 3: there is no such file" in supervision[1]
