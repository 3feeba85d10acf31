"""Tables of labels as spreadsheets make them: each read right, or refused with its row and the cure."""

from pathlib import Path

import pytest

from bagwise.exceptions import FormatError, InputError
from bagwise.io.labels import read_labels

FILES = [f"{letter}.wav" for letter in "abcdefgh"]
SETS = [{"wren", "robin"}, {"wren"}, {"robin", "owl"}, {"owl"}, {"wren", "owl"}, {"robin"}, {"wren", "robin"}, set()]
TRUTH = dict(zip(FILES, SETS, strict=True))
MANY = dict(zip(FILES, [{"cow", "grass"}, {"cow", "sky"}, {"grass", "sky"}, {"cow", "tree"}, {"tree", "sky"},
                        {"grass", "tree"}, {"cow", "grass", "sky"}, {"tree"}], strict=True))  # fmt: skip


def as_lists(truth, mark, quote='"'):
    return "file,labels\n" + "".join(f"{name},{quote}{mark.join(sorted(s))}{quote}\n" for name, s in truth.items())


def as_rows(truth, end="\n"):
    rows = [f"{name},{label}" for name, labels in truth.items() for label in sorted(labels) or [""]]
    return end.join(["file,label", *rows]) + end


def as_columns(truth, yes, no, separator=","):
    classes = sorted(set().union(*truth.values()))
    rows = [separator.join([name, *(yes if c in s else no for c in classes)]) for name, s in truth.items()]
    return separator.join(["file", *classes]) + "\n" + "\n".join(rows) + "\n"


READ = {
    "rows": (as_rows(TRUTH), TRUTH),
    "rows of Windows": (as_rows(TRUTH, "\r\n"), TRUTH),
    "rows with a byte-order mark": ("\ufeff" + as_rows(TRUTH), TRUTH),
    "semicolons in a cell": (as_lists(TRUTH, ";"), TRUTH),
    "semicolons and blanks": (as_lists(TRUTH, "; "), TRUTH),
    "commas in a cell": (as_lists(TRUTH, ","), TRUTH),
    "commas and blanks": (as_lists(TRUTH, ", "), TRUTH),
    "bars": (as_lists(TRUTH, "|"), TRUTH),
    "bars and blanks": (as_lists(TRUTH, " | "), TRUTH),
    "slashes": (as_lists(TRUTH, "/"), TRUTH),
    "slashes and blanks": (as_lists(TRUTH, " / "), TRUTH),
    "line ends in a cell": (as_lists(TRUTH, "\n"), TRUTH),
    "blanks": (as_lists(MANY, " "), MANY),
    "commas of tags": (as_lists(MANY, ", "), MANY),
    "semicolons between cells, commas in them": (as_lists(TRUTH, ", ", "").replace("wav,", "wav;").replace(
        "file,labels", "file;labels"), TRUTH),
    "0 and 1": (as_columns(TRUTH, "1", "0"), TRUTH),
    "0.0 and 1.0": (as_columns(TRUTH, "1.0", "0.0"), TRUTH),
    "1 and nothing": (as_columns(TRUTH, "1", ""), TRUTH),
    "x and nothing": (as_columns(TRUTH, "x", ""), TRUTH),
    "X and nothing, semicolons": (as_columns(TRUTH, "X", "", ";"), TRUTH),
    "yes and no": (as_columns(TRUTH, "yes", "no"), TRUTH),
    "Y and N, tabs": (as_columns(TRUTH, "Y", "N", "\t"), TRUTH),
    "ja and nein": (as_columns(TRUTH, "ja", "nein"), TRUTH),
    "TRUE and FALSE": (as_columns(TRUTH, "TRUE", "FALSE"), TRUTH),
    "plus and minus": (as_columns(TRUTH, "+", "-"), TRUTH),
    "counts": (as_columns(TRUTH, "17", "0"), TRUTH),
    "counts and nothing": (as_columns(TRUTH, "3", ""), TRUTH),
    "names of two words": (as_rows({"a.wav": {"hoot owl", "arch wren"}, "b.wav": {"hoot owl"}}),
                           {"a.wav": {"hoot owl", "arch wren"}, "b.wav": {"hoot owl"}}),
    "scientific names": (as_rows({f"{i}.wav": {name} for i, name in enumerate(
        ["Turdus merula", "Turdus philomelos", "Parus major", "Parus ater", "Strix aluco", "Picus viridis"])}),
        {f"{i}.wav": {name} for i, name in enumerate(
            ["Turdus merula", "Turdus philomelos", "Parus major", "Parus ater", "Strix aluco", "Picus viridis"])}),
}  # fmt: skip

REFUSED = {
    "an extra column": ("file,observer,label\na.wav,Ada,wren\n",
                        r"row 1: beside file and label .*'observer'.*--columns FILE LABEL"),
    "words and numbers": ("file,wren,when\na.wav,x,3\n", "row 2: the columns 'wren', 'when' are not known"),
    "a column of text": ("file,wren,site\na.wav,1,north\n", r"'site' is no label with 0 and 1, since it holds 'north'"),
    "no heading over columns": ("a.wav,0,1\nb.wav,1,0\n", "row 1: the first row holds 0 and 1"),
    "a short row": ("file,wren,owl\na.wav,1\n", "row 2: there are 2 cells but row 1 has 3"),
    "one column": ("file\na.wav\n", "row 1: there is one column"),
    "no file": ("file,label\n,wren\n", "row 2: the name of the bag is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_read_right(tmp_path, name):
    text, truth = READ[name]
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode())
    table = read_labels(path)
    assert {n: set(s) for n, s in zip(table.names, table.label_sets, strict=True)} == truth, table.form


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_row_and_the_cure(tmp_path, name):
    text, message = REFUSED[name]
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        read_labels(path)


def test_what_is_in_doubt_is_said(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text('file,label\na.wav,"Amsel, Specht"\nb.wav,Kauz\n', encoding="utf-8")
    table = read_labels(path)
    assert table.label_sets == [["Amsel, Specht"], ["Kauz"]]
    assert "hold commas, such as 'Amsel, Specht'" in table.problems[0][1]
    assert "--separator ','" in table.problems[0][1]
    told = read_labels(path, list_mark=",")
    assert (told.label_sets, told.problems) == ([["Amsel", "Specht"], ["Kauz"]], [])
    path.write_text("file,label\n" + "".join(f"{i}.wav,label-{i}\n" for i in range(9)))
    assert "of 9 labels 9 occur once only" in read_labels(path).problems[0][1]


def test_labels_that_differ_in_case_or_blanks_only(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file,label\na.wav,Great Tit\nb.wav,great  tit\nc.wav,Great Tit\nc.wav,owl\n")
    table = read_labels(path)
    assert len(table.class_names) == 3
    assert "'Great Tit' and 'great  tit' differ in case or blanks only; --fold-case" in table.problems[0][1]
    folded = read_labels(path, fold_case=True)
    assert folded.class_names == ["Great Tit", "owl"]
    assert folded.label_sets == [["Great Tit"], ["Great Tit"], ["Great Tit", "owl"]]
    assert folded.problems == []


def test_a_separator_that_is_none(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\na,x\n")
    for mark in ("ab", "x", ""):
        with pytest.raises(InputError, match="expected one character that is no letter"):
            read_labels(Path(tmp_path / "labels.csv"), list_mark=mark)
    assert read_labels(tmp_path / "labels.csv", list_mark="blank").label_sets == [["x"]]
