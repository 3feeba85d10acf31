"""Label tables in every form that people keep them in, and what is said where one cannot be understood."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import defuse, undefuse
from bagwise.io.labels import LABEL_HEADINGS, read_labels
from bagwise.io.tables import guess_separator

TRUTH = {"a.wav": {"wren", "robin"}, "b.wav": {"wren"}, "ç.wav": set()}


def write(tmp_path, content, name="labels.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_dict(table):
    return dict(zip(table.names, map(set, table.label_sets), strict=True))


FORMS = {
    "rows": "file,label\na.wav,wren\nb.wav,wren\na.wav,robin\nç.wav,\n",
    "rows without heading": "a.wav,wren\nb.wav,wren\na.wav,robin\nç.wav,\n",
    "list": "file,labels\na.wav,wren;robin\nb.wav,wren\nç.wav,\n",
    "list without heading": "a.wav,wren;robin\nb.wav,wren\nç.wav,\n",
    "list, semicolons": 'file;labels\na.wav;"wren;robin"\nb.wav;wren\nç.wav;\n',
    "list, tabs": "Bag\tLabels\na.wav\twren; robin\nb.wav\twren\nç.wav\t\n",
    "one-hot": "file,wren,robin\na.wav,1,1\nb.wav,1,0\nç.wav,0,0\n",
    "one-hot, semicolons": "anything;wren;robin\na.wav;1;1\nb.wav;1;0\nç.wav;0;0\n",
    "one-hot, words": "file\twren\trobin\na.wav\tTrue\ttrue\nb.wav\tTRUE\tfalse\nç.wav\tFalse\tFalse\n",
    "quoted": '"file","label"\n"a.wav","wren"\n"b.wav","wren"\n"a.wav","robin"\n"ç.wav",""\n',
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order mark"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
def test_every_form_says_the_same(tmp_path, form, mark, ends):
    path = write(tmp_path, mark + FORMS[form].replace("\n", ends).encode())
    table = read_labels(path)
    assert as_dict(table) == TRUTH
    assert table.names == ["a.wav", "b.wav", "ç.wav"]
    assert set(table.class_names) == {"wren", "robin"}
    assert table.rows[0] == (1 if "without heading" in form else 2)
    assert {"rows": "rows of", "list": "one cell", "one-": "column of 0 and 1", "quot": "rows of"}[
        form[:4]
    ] in table.form


def test_form_names_the_separator(tmp_path):
    assert "tabs" in read_labels(write(tmp_path, FORMS["list, tabs"])).form
    assert "semicolons" in read_labels(write(tmp_path, FORMS["one-hot, semicolons"])).form
    assert "without a heading" in read_labels(write(tmp_path, FORMS["rows without heading"])).form


def test_rows_are_lines_even_where_cells_span_several(tmp_path):
    table = read_labels(write(tmp_path, 'file,label\n"a\nb.wav",x\n\nc.wav,y\n'))
    assert table.names == ["a\nb.wav", "c.wav"]
    assert table.rows == [2, 5]


def test_one_class_as_a_column(tmp_path):
    table = read_labels(write(tmp_path, "file,wren\na.wav,1\nb.wav,0\n"))
    assert as_dict(table) == {"a.wav": {"wren"}, "b.wav": set()}
    numbers = read_labels(write(tmp_path, "file,label\na.wav,1\nb.wav,0\n"))
    assert as_dict(numbers) == {"a.wav": {"1"}, "b.wav": {"0"}}


def test_one_hot_classes_keep_the_order_of_the_columns_and_those_nobody_carries(tmp_path):
    table = read_labels(write(tmp_path, "file,z,b,a\nx,0,0,1\ny,1,0,0\n"))
    assert table.class_names == ["z", "b", "a"]


def test_named_columns_of_a_wider_table(tmp_path):
    path = write(tmp_path, "clip,start,who,note\na,0.1,wren,x\na,0.4,robin,\nb,0.2,wren,\n")
    assert as_dict(read_labels(path, name="clip", label="who")) == {"a": {"wren", "robin"}, "b": {"wren"}}
    with pytest.raises(FormatError, match=r"labels.csv, row 1: expected one column 'nobody'.*'clip', 'start'"):
        read_labels(path, name="clip", label="nobody")
    with pytest.raises(FormatError, match="column of the label was not given"):
        read_labels(path, name="clip")


BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n", "is empty"),
    "half utf-8": ("file,label\na,grün\nb,".encode() + b"\xff\n", r"row 3: the byte 0xff is not UTF-8"),
    "half utf-16": ("file,label\na,x\n".encode("utf-16") + b"x", r"is not UTF-16 text"),
    "null": (b"file,label\na,\0\n", "row 2: there is a null character"),
    "one column": (b"file\na\nb\n", "row 1: there is one column, 'file'"),
    "ragged": (b"file,label\na,x\nb\n", "row 3: there are 1 cells but row 1 has 2"),
    "duplicate in lists": (b"file,labels\na,x;y\nb,y\na,z\n", "row 4: the name 'a' stands on row 2 already"),
    "duplicate in columns": (b"file,x,y\na,0,1\nb,0,0\na,1,1\n", "row 4: the name 'a' stands on row 2 already"),
    "mixed forms": (b"file,label\na,x\na,y\nb,x;y\n", "row 3: .* row 4 lists several labels in one cell"),
    "unknown columns": (
        b"file,class,label\na,0.5,x\nb,1.5,y\n",
        r"row 1: besides file and label there are the columns 'file', 'class', 'label'. .*--columns FILE LABEL",
    ),
    "no known columns": (b"u,v,w\na,0.5,x\n", "row 1: the columns 'u', 'v', 'w' are not known"),
    "no heading over columns": (b"a,0,1\nb,1,1\n", "row 1: the first row holds 0 and 1"),
    "unclear heading": (b"eins,zwei\na,x\nb,y\n", "row 1: it is not clear whether"),
    "heading only": (b"file,label\n", "no row below"),
    "no name": (b"file,label\n,x\n", "row 2: the name of the bag is missing"),
    "no class name": (b"file,x,\na,0,1\n", "row 1: column 3 has no name"),
    "two columns of a name": (b"file,x,x\na,0,1\n", "row 1: two columns are named 'x'"),
    "open quote": (b'file,label\na,"x\nb,y\n', "row 2: .*quotes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_name_file_row_and_cure(tmp_path, case):
    content, message = BAD[case]
    with pytest.raises(FormatError, match=rf"labels\.csv.*{message}") as caught:
        read_labels(write(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FormatError, match="nowhere.csv does not exist"):
        read_labels(tmp_path / "nowhere.csv")
    with pytest.raises(FormatError, match="is a folder"):
        read_labels(tmp_path)
    with pytest.raises(FormatError, match="cannot be opened"):
        read_labels("a\0b")


WORD = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8)
LABEL = WORD.filter(lambda text: ";" not in text)


@settings(max_examples=150, deadline=None)
@given(
    truth=st.dictionaries(WORD, st.sets(LABEL, max_size=4), min_size=1, max_size=6),
    form=st.sampled_from(["rows", "list", "one-hot"]),
    separator=st.sampled_from([",", ";", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=st.booleans(),
)
def test_any_labels_come_back(tmp_path_factory, truth, form, separator, quoting, mark):
    classes = sorted(set().union(*truth.values())) or ["none"]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=separator, quoting=quoting)
    safe = {name: defuse(name) for name in [*truth, *classes]}
    if form == "rows":
        rows = [["file", "label"]]
        rows += [[safe[name], safe[x]] for name, labels in truth.items() for x in sorted(labels)]
        rows += [[safe[name], ""] for name, labels in truth.items() if not labels]
    elif form == "list":
        rows = [["file", "labels"]]
        rows += [[safe[name], ";".join(safe[x] for x in sorted(labels))] for name, labels in truth.items()]
    else:
        rows = [["file", *(safe[x] for x in classes)]]
        rows += [[safe[name], *(int(x in labels) for x in classes)] for name, labels in truth.items()]
        if LABEL_HEADINGS & {name.casefold() for name in classes}:  # such a column holds labels
            return
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_bytes(buffer.getvalue().encode("utf-8-sig" if mark else "utf-8"))
    assert as_dict(read_labels(path, separator=separator, list_mark=";")) == truth
    if all(mark not in label for label in classes for mark in ",|/"):
        assert as_dict(read_labels(path)) == truth or guess_separator(buffer.getvalue()) != separator


@given(st.text(max_size=6))
def test_defused_cells_come_back_and_never_start_a_formula(text):
    safe = defuse(text)
    assert undefuse(safe) == text
    assert not safe.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (b"file,labels\na,x;y\nb,y\na,z;x\n", [["x", "y", "z"], ["y"]]),
        (b"file,x,y\na,0,1\nb,0,0\na,1,1\n", [["y", "x"], []]),
    ],
)
def test_repeated_names_can_be_joined_and_are_reported(text, sets, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(text)
    table = read_labels(path, repeats="join")
    assert table.names == ["a", "b"]
    assert table.label_sets == sets
    assert table.rows == [2, 3]
    ((name, message),) = table.problems
    assert name == "a"
    assert "row 4: the name 'a' stands on row 2 already" in message
    assert message.endswith("; it was given the labels of both rows.")
    with pytest.raises(InputError, match="repeats='both' is not known"):
        read_labels(path, repeats="both")


def test_an_empty_file_is_called_empty(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(b"")
    with pytest.raises(FormatError, match=r"labels.csv is empty; there is nothing to read in it.$") as caught:
        read_labels(path)
    assert "cannot be opened" not in str(caught.value)


PARQUET = {
    "rows": {"file": ["a.wav", "b.wav", "a.wav", "ç.wav"], "label": ["wren", "wren", "robin", None]},
    "lists": {"clip_id": ["a.wav", "b.wav", "ç.wav"], "birds": [["wren", "robin"], ["wren"], []]},
    "text": {"file": ["a.wav", "b.wav", "ç.wav"], "labels": ["wren;robin", "wren", ""]},
    "one-hot": {"file": ["a.wav", "b.wav", "ç.wav"], "wren": [1, 1, 0], "robin": [1, 0, 0]},
    "one-hot, truth values": {
        "file": ["a.wav", "b.wav", "ç.wav"],
        "wren": [True, True, False],
        "robin": [1.0, 0.0, 0.0],
    },
}


def write_parquet(path, columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("form", PARQUET)
def test_parquet_tables(tmp_path, form):
    table = read_labels(write_parquet(tmp_path / "labels.parquet", PARQUET[form]))
    assert as_dict(table) == TRUTH
    assert "from a parquet table" in table.form


def test_names_in_parquet_stay_as_they_are(tmp_path):
    names = ["=1+1", "'=1+1", "+x"]
    table = read_labels(
        write_parquet(tmp_path / "labels.parquet", {"file": names, "label": [[name] for name in names]})
    )
    assert table.names == names
    assert table.label_sets == [[name] for name in names]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"file": ["a", "b"], "label": [["x"], ["y;z"]]}, r"row 2: the label 'y;z' holds a ';'"),
        ({"file": ["a", None], "label": ["x", "y"]}, "row 2: the name of the bag is missing"),
        ({"file": ["a", "a"], "w": [1, 0], "r": [0, 1]}, "row 2: the name 'a' stands on row 1 already"),
        ({"file": ["a"], "w": ["x"], "when": [3]}, "row 1: the columns 'w', 'when' are not known"),
    ],
)
def test_bad_parquet_tables_are_named_with_their_row(tmp_path, columns, message):
    with pytest.raises(FormatError, match=f"labels.parquet, {message}"):
        read_labels(write_parquet(tmp_path / "labels.parquet", columns))


def test_cut_parquet_and_spreadsheets(tmp_path):
    raw = write_parquet(tmp_path / "whole.parquet", PARQUET["rows"]).read_bytes()
    with pytest.raises(FormatError, match="cut.parquet: it is damaged, cut off"):
        read_labels(write(tmp_path, raw[:-20], "cut.parquet"))
    with pytest.raises(FormatError, match=r"it is damaged, cut off or no spreadsheet .*save it again, or as CSV"):
        read_labels(write(tmp_path, b"PK\x03\x04\x14\0\x06\0", "labels.xlsx"))
