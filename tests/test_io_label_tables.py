"""Tables of labels as spreadsheets make them: each read right, or refused with its row and the cure."""

import csv
import datetime
import io
import zipfile
from pathlib import Path

import openpyxl
import pytest

from bagwise.core.exceptions import FormatError, InputError, MemoryLimitError
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
    "a column of a site before the name": (
        "Site,Recording,wren,owl\nNorth,a.wav,1,0\nSouth,b.wav,0,1\n", {"a.wav": {"wren"}, "b.wav": {"owl"}}),
    "columns of numbers that are no labels": (
        "file,wren,year,total\na.wav,1,2024,3\nb.wav,0,2024,0\n", {"a.wav": {"wren"}, "b.wav": set()}),
    "other columns between file and label": (
        "id,file,observer,label\n1,a.wav,Ada,wren\n2,a.wav,Bob,owl\n3,b.wav,,owl\n",
        {"a.wav": {"wren", "owl"}, "b.wav": {"owl"}}),
    "the label first": ("label,file\nwren,a.wav\nowl,b.wav\n", {"a.wav": {"wren"}, "b.wav": {"owl"}}),
    "numbered columns of labels": ("file,species1,Species 2\na.wav,wren,owl\nb.wav,owl,\nc.wav,,\n",
                                   {"a.wav": {"wren", "owl"}, "b.wav": {"owl"}, "c.wav": set()}),
    "rows that stand there twice": ("file,labels\na.wav,wren;owl\na.wav,wren;owl\n", {"a.wav": {"wren", "owl"}}),
    "names of two words": (as_rows({"a.wav": {"hoot owl", "arch wren"}, "b.wav": {"hoot owl"}}),
                           {"a.wav": {"hoot owl", "arch wren"}, "b.wav": {"hoot owl"}}),
    "scientific names": (as_rows({f"{i}.wav": {name} for i, name in enumerate(
        ["Turdus merula", "Turdus philomelos", "Parus major", "Parus ater", "Strix aluco", "Picus viridis"])}),
        {f"{i}.wav": {name} for i, name in enumerate(
            ["Turdus merula", "Turdus philomelos", "Parus major", "Parus ater", "Strix aluco", "Picus viridis"])}),
}  # fmt: skip

REFUSED = {
    "annotations of a run": ("file,bag,instance,label\na.wav,a.wav,0,wren\n",
                             r"row 1: besides file and label .*'instance'.*--columns FILE LABEL"),
    "two columns that could be the label": ("file,species,label\na.wav,wren,x\n",
                                            r"row 1: besides file and label .*'species'.*--columns FILE LABEL"),
    "words and numbers": ("file,wren,when\na.wav,x,3\n", "row 2: the columns 'wren', 'when' are not known"),
    "a slip in a column": ("file,wren,owl\na.wav,1,0\nb.wav,l,1\nc.wav,1,1\n",
                           r"row 3: .*'wren' is no label with 0 and 1, since it holds 'l'"),
    "no heading over columns": ("a.wav,0,1\nb.wav,1,0\n", "row 1: the first row holds 0 and 1"),
    "a short row": ("file,wren,owl\na.wav,1\n", "row 2: there are 2 cells but row 1 has 3"),
    "one column": ("file\na.wav\n", "row 1: there is one column"),
    "a name twice": ("file,labels\na.wav,wren;owl\na.wav,robin\n",
                     r"row 3: the name 'a.wav' stands on row 2 already, but row 2 lists .*one row per name"),
    "a column twice": ("file,wren,wren\na.wav,1,0\n", "row 1: two columns are named 'wren'; remove one of them"),
    "a column without a name": ("file,wren,\na.wav,1,0\n", "row 1: column 3 has no name; write the name of its label"),
    "a heading alone": ("file,label\n", "there is a heading but no row below it; add a row for each bag"),
    "a quote that is open": ('file,label\na.wav,"wren\n', "check the quotes of this row"),
    "nothing": ("\n \n", "is empty"),
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


def test_the_line_that_excel_writes_above(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(b"sep=;\r\nfile;labels\r\na.wav;wren\r\nb.wav;owl, robin\r\nb.wav\r\n")
    with pytest.raises(FormatError, match="row 5: there are 1 cells but row 2 has 2"):
        read_labels(path)
    path.write_bytes(b"sep=;\r\nfile;label\r\na.wav;wren\r\n")
    assert (read_labels(path).label_sets, read_labels(path).rows) == ([["wren"]], [3])


def test_a_separator_that_is_none(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\na,x\n")
    for mark in ("ab", "x", ""):
        with pytest.raises(InputError, match="expected one character that is no letter"):
            read_labels(Path(tmp_path / "labels.csv"), list_mark=mark)
    assert read_labels(tmp_path / "labels.csv", list_mark="blank").label_sets == [["x"]]


def to_xlsx(path, rows, sheet="labels", **others):
    """A spreadsheet with a sheet of these rows, and others by name."""
    book = openpyxl.Workbook()
    book.active.title = sheet
    for name, content in {sheet: rows, **others}.items():
        page = book[name] if name in book.sheetnames else book.create_sheet(name)
        for row in content:
            page.append(row)
    book.save(path)
    return book


def typed(cell):
    """As a spreadsheet takes a cell that is typed: numbers become numbers, TRUE becomes a truth value."""
    if cell in ("TRUE", "FALSE"):
        return cell == "TRUE"
    try:
        return float(cell)
    except ValueError:
        return cell or None


@pytest.mark.parametrize("name", READ)
def test_spreadsheets_are_read_as_the_same_table_in_text(tmp_path, name):
    text, truth = READ[name]
    separator = next((mark for mark in ("\t", ";") if mark in text.splitlines()[0]), ",")
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=separator))
    to_xlsx(tmp_path / "labels.xlsx", [list(map(typed, row)) for row in rows])
    table = read_labels(tmp_path / "labels.xlsx")
    assert {n: set(s) for n, s in zip(table.names, table.label_sets, strict=True)} == truth, table.form
    assert "from the sheet 'labels'" in table.form


def test_what_only_spreadsheets_hold(tmp_path):
    path = tmp_path / "labels.xlsx"
    rows = [["file", "label"], ["a.wav", "wren"], [None, "robin"], ["b.wav", 7], ["c.wav", 7.0], [3, "wren"]]
    book = to_xlsx(path, [[None] * 3, *([None, *row] for row in rows), [None, "=4", "=1+1"]])
    page = book.active
    page.merge_cells("B3:B4")  # one file, two labels
    page["B7"].number_format = "0000"
    for cell in ("B8", "C8"):
        page[cell].data_type, page[cell].quotePrefix = "s", True  # text that looks like a formula
    book.save(path)
    table = read_labels(path)
    assert dict(zip(table.names, table.label_sets, strict=True)) == {
        "a.wav": ["wren", "robin"], "b.wav": ["7"], "c.wav": ["7"], "0003": ["wren"], "=4": ["=1+1"]
    }  # fmt: skip
    assert table.rows == [3, 5, 6, 7, 8]


def edit_member(path, name, old, new):
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    assert old in members[name]
    members[name] = members[name].replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def test_a_stray_cell_at_the_end_of_the_sheet_costs_nothing(tmp_path):
    path = tmp_path / "labels.xlsx"
    book = to_xlsx(path, [["file", "label"], ["a.wav", "wren"], [None, "owl"]])
    page = book.active
    page["XFD1048576"].number_format = "0.00"  # somebody touched it; it holds nothing
    page.merge_cells("A2:A3")
    book.save(path)
    edit_member(path, "xl/worksheets/sheet1.xml", b'ref="A2:A3"', b'ref="A2:A1048576"')
    assert read_labels(path).label_sets == [["wren", "owl"]]
    edit_member(path, "xl/worksheets/sheet1.xml", b'ref="A2:A1048576"', b'ref="A2:XFD1048576"')
    with pytest.raises(FormatError, match="row 2: cells of this row are merged over several columns"):
        read_labels(path)
    edit_member(path, "xl/worksheets/sheet1.xml", b'<row r="3"', b'<row r="999999999999"')
    edit_member(path, "xl/worksheets/sheet1.xml", b'ref="A2:XFD1048576"', b'ref="A2:A3"')
    assert read_labels(path).label_sets == [["wren"]]  # that row is in no spreadsheet
    page["XFD1048576"] = "x"
    page.unmerge_cells("A2:A3")
    book.save(path)
    with pytest.raises(FormatError, match="row 3: the name of the bag is missing"):
        read_labels(path)


def test_spreadsheets_without_a_heading(tmp_path):
    to_xlsx(tmp_path / "labels.xlsx", [["a.wav", "wren"], ["b.wav", "owl"]])
    table = read_labels(tmp_path / "labels.xlsx")
    assert (table.names, table.rows) == (["a.wav", "b.wav"], [1, 2])


CELLS = {
    "a date": (
        [["file", "label"], ["a.wav", datetime.datetime(2024, 5, 1)]],
        r"row 2: the cell B2 holds a date or time \(2024-05-01 00:00:00\); write it as text, with an apost",
    ),
    "a time": ([["file", "label"], [datetime.time(5, 30), "wren"]], r"row 2: the cell A2 holds a date or time \(05:30"),
    "a formula": (
        [["file", "wren"], ["a.wav", 1], ["b.wav", "=B2*2"]],
        r"row 3: the cell B3 holds a formula that was never worked out \('=B2\*2'\); open and save it",
    ),
    "an error": ([["file", "label"], ["a.wav", "#REF!"]], "row 2: the cell B2 holds the error #REF!; write what is"),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_that_can_be_no_name_and_no_label_are_refused(tmp_path, name):
    rows, message = CELLS[name]
    to_xlsx(tmp_path / "labels.xlsx", rows)
    with pytest.raises(FormatError, match=message):
        read_labels(tmp_path / "labels.xlsx")
    with_more = [[*row, value] for row, value in zip(rows, ["site", *["north"] * len(rows)], strict=False)]
    to_xlsx(tmp_path / "more.xlsx", [[row[0], row[2], row[1]] for row in with_more])
    with pytest.raises(FormatError, match=r"row [23]: the cell [AC][23] holds"):
        read_labels(tmp_path / "more.xlsx")
    if isinstance(rows[1][0], str):  # the cell is not in a column that is used
        assert read_labels(tmp_path / "more.xlsx", name="file", label="site").label_sets[0] == ["north"]


def test_merged_cells_over_columns_are_refused(tmp_path):
    path = tmp_path / "labels.xlsx"
    book = to_xlsx(path, [["Survey of 2024"], ["file", "label"], ["a.wav", "wren"]])
    book.active.merge_cells("A1:B1")
    book.save(path)
    with pytest.raises(
        FormatError, match=r"row 1: cells of this row are merged over several columns \(1 to 2\).*remove a title"
    ):
        read_labels(path)


def test_one_of_several_sheets(tmp_path):
    path, rows = tmp_path / "labels.xlsx", [["file", "label"], ["a.wav", "wren"]]
    to_xlsx(path, [["made by Ada"]], "notes", birds=rows, empty=[])
    assert read_labels(path).label_sets == [["wren"]]  # the one that holds a table
    to_xlsx(path, rows, "birds", frogs=[["file", "label"], ["a.wav", "toad"]])
    with pytest.raises(FormatError, match=r"the sheets 'birds', 'frogs' hold a table each; .*\(--sheet 'birds'\)"):
        read_labels(path)
    assert read_labels(path, sheet="frogs").label_sets == [["toad"]]
    with pytest.raises(FormatError, match="no sheet 'fungi'; its sheets are 'birds', 'frogs'"):
        read_labels(path, sheet="fungi")
    to_xlsx(path, [])
    with pytest.raises(FormatError, match="is empty: all of its cells are blank"):
        read_labels(path)
    (tmp_path / "labels.csv").write_text("file,label\na,x\n")
    with pytest.raises(FormatError, match="no spreadsheet .* leave --sheet out"):
        read_labels(tmp_path / "labels.csv", sheet="birds")


def test_other_spreadsheets_and_damaged_ones_are_named(tmp_path, monkeypatch):
    path = tmp_path / "labels.xls"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512))
    with pytest.raises(FormatError, match=r"old kind \(.xls\) or has a password; save it as .xlsx"):
        read_labels(path)
    with zipfile.ZipFile(tmp_path / "labels.ods", "w") as archive:
        archive.writestr("content.xml", "<x/>")
    with pytest.raises(FormatError, match=r"OpenDocument spreadsheet \(.ods\); save it as .xlsx"):
        read_labels(tmp_path / "labels.ods")
    to_xlsx(tmp_path / "labels.xlsx", [["file", "label"], ["a.wav", "wren"]])
    whole = (tmp_path / "labels.xlsx").read_bytes()
    for share in (0.1, 0.5, 0.9):
        (tmp_path / "cut.xlsx").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(FormatError, match="cut.xlsx: it is damaged, cut off or no spreadsheet"):
            read_labels(tmp_path / "cut.xlsx")
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="read as a spreadsheet .*as CSV"):
        read_labels(tmp_path / "labels.xlsx")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"])
def test_tables_in_other_encodings(tmp_path, encoding):
    """Excel writes UTF-16 as "Unicode text", older programs Windows-1252; what was assumed stands in the form."""
    path = tmp_path / "labels.csv"
    label = "Käuzchen \u2013 jung" if encoding == "cp1252" else "Käuzchen"
    path.write_bytes(f"file,label\na.wav,{label}\nb.wav,wren\n".encode(encoding))
    table = read_labels(path)
    assert table.label_sets == [[label], ["wren"]]
    shown = {"latin-1": "Latin-1", "cp1252": "Windows-1252"}.get(encoding, encoding[:6].upper())
    assert table.form == f"rows of bag and label, separated by commas, read as {shown}"
