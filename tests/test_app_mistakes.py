"""Mistakes in tables, files and commands: each is done right all the same, or answered with the cure."""

import csv
import re
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from bagwise.app.cli import main
from made import read_csv

RATE = 16_000
HEARD = {
    "0101": ("robin", "wren"),
    "0102": ("wren",),
    "0103": ("robin",),
    "0104": ("robin", "wren"),
    "0105": ("wren",),
    "0106": ("robin",),
}
FILES = {f"{name}.wav": labels for name, labels in HEARD.items()}
CALLS = {"wren": 5000, "robin": 2000}
STARTS = (0.5, 1.5, 2.5, 3.5)  # a call each, of the labels in turn


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes") / "rec"
    folder.mkdir()
    rng, t = np.random.default_rng(0), np.arange(5 * RATE) / RATE
    for name, labels in FILES.items():
        sound = 0.002 * rng.standard_normal(len(t))
        for i, start in enumerate(STARTS):
            inside = (t >= start) & (t < start + 0.4)
            pitch = CALLS[labels[i % len(labels)]] * (1 + 0.02 * rng.standard_normal())
            sound[inside] += 0.3 * np.sin(2 * np.pi * pitch * t[inside]) * np.hanning(inside.sum())
        soundfile.write(folder / name, sound, RATE)
    return folder


def rows(text="{name},{label}", heading="file,label", names=None):
    """A row per file and label, or per file where only ``{labels}`` is asked for."""
    of_files = dict(zip(names, FILES.values(), strict=True)) if names else FILES
    lines = dict.fromkeys(
        text.format(
            name=name,
            label=label,
            labels=";".join(labels),
            wren=int("wren" in labels),
            robin=int("robin" in labels),
            stem=name.removesuffix(".wav"),
            n=len(labels),
        )
        for name, labels in of_files.items()
        for label in labels
    )
    return "\n".join([heading, *lines]) + "\n"


def events(heading="file,start,end,label"):
    calls = [(n, s, s + 0.4, labels[i % len(labels)]) for n, labels in FILES.items() for i, s in enumerate(STARTS)]
    return "\n".join([heading, *(",".join(map(str, call)) for call in calls)]) + "\n"


# Tables that are understood: the content, and what is printed about them.
UNDERSTOOD = {
    "a column of the site": (rows("{name},North,{wren},{robin}", "Recording,Site,wren,robin"), "not used: Site"),
    "a site before the file": (rows("North,{name},{wren},{robin}", "Site,File,wren,robin"), "not used: Site"),
    "notes and dates": (rows("{name},2024-05-01,{label},windy", "file,date,label,notes"), "not used: date, notes"),
    "the label first": (rows("{label},{name}", "label,file"), "rows of bag and label"),
    "numbers that are no labels": (rows("{name},{wren},{robin},2024", "file,wren,robin,year"), "not used: year"),
    "numbered columns of labels": (rows("{name},{label},", "file,species1,species2"), "rows of bag and label"),
    "events": (events(), "events in a table: 24; 24 syllables known by them"),
    "events with other headings": (events("Filename,Start_s,End_s,Species"), "events in a table: 24"),
    "Latin-1": (rows().replace("wren", "Zaunkönig").encode("latin-1"), "read as Latin-1"),
    "UTF-16": (rows().encode("utf-16"), "read as UTF-16"),
    "UTF-16 without a mark": (rows().encode("utf-16-le"), "read as UTF-16"),
    "a byte-order mark": (rows().encode("utf-8-sig"), "rows of bag and label"),
    "the line of Excel": (rows("{name};{label}", "sep=;\nfile;label"), "separated by semicolons"),
    "rows twice": (rows() + rows(heading="")[1:], "rows of bag and label"),
    "lists twice": (rows("{name},{labels}") + rows("{name},{labels}", "")[1:], "one row per bag"),
    "names without ending": (rows("{stem},{label}"), "rows of bag and label"),
    "paths of another machine": (rows(r"C:\data\{name},{label}"), "rows of bag and label"),
    "names in capitals": (rows(names=[name.upper() for name in FILES]), "rows of bag and label"),
}

# Tables that cannot be used: the content, and what the error says. Nothing is read or written.
REFUSED = {
    "names of other files": (rows("x{name},{label}"), r"none of its 6 names \('x0101.wav', .*, which holds '0101.wav'"),
    "another ending": (rows("{stem}.mp3,{label}"), r"there is no such file; '0101.wav' is there; write that"),
    "leading zeros lost": (rows(names=[str(int(n[:4])) for n in FILES]), r"'0101.wav' is there; write that"),
    "turned round": (
        "\n".join(
            [",".join(["species", *FILES]), *(",".join([c, *("01"[c in s] for s in FILES.values())]) for c in CALLS)]
        ),
        "turn the table round: a row per file, the file first",
    ),
    "no label at all": (rows("{name},"), "no row has a label.*fill in that column"),
    "nothing but a heading": ("file,label\n", "no row below it; add a row for each bag"),
    "an empty file": ("", "is empty"),
    "one column": (rows("{name}", "file"), "there is one column, 'file'; expected"),
    "a row too long": (rows() + "0101.wav,wren,x\n", "row 10: there are 3 cells but row 1 has 2.*repair the row"),
    "an open quote": (rows() + '0101.wav,"wren\n', "row 10: .*check the quotes of this row"),
    "annotations of a run": ("file,bag,instance,label\n0101.wav,0101.wav,0,wren\n", "--columns FILE LABEL"),
    "probabilities": (rows("{name},0.{wren},0.9", "file,wren,robin"), "is no label with 0 and 1, since it holds '0.1'"),
}  # fmt: skip

# Tables of which some rows cannot be used: what is said of these, with exit code 3.
NAMED = {
    "a row of a file that is not there": (rows() + "0199.wav,wren\n", r"row 10: there is no such file \('0199.wav'\)"),
    "pieces where there are none": (
        rows() + "0101.wav@2,wren\n",
        "the file is one piece .*name the file alone, or cut",
    ),
    "labels in two spellings": (
        rows() + "0106.wav,Robin\n",
        "differ in case or blanks only; --fold-case makes them one",
    ),
    "two rows that differ": (rows("{name},{labels}") + "0101.wav,owl\n", "it was given the labels of both rows"),
}


def annotate(source, table, out, *options):
    given = ["annotate", str(source), *(["--labels", str(table)] if table else []), "--out", str(out), "--jobs", "1"]
    return CliRunner().invoke(main, [*given, "--no-page", "--format", "csv", *map(str, options)])


def write(folder, content):
    path = folder / "labels.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def names_right(out):
    """Share of the calls that have the name of their pitch."""
    found = [row for row in read_csv(out / "annotations.csv") if row["label"]]
    middle = [(float(row["low"]) + float(row["high"])) / 2 for row in found]
    truth = [min(CALLS, key=lambda name: abs(CALLS[name] - value)) for value in middle]
    return np.mean([row["label"] in (name, "Zaunkönig") for row, name in zip(found, truth, strict=True)])


@pytest.mark.parametrize("mistake", UNDERSTOOD)
def test_tables_that_are_understood(mistake, media, tmp_path):
    content, said = UNDERSTOOD[mistake]
    done = annotate(media, write(tmp_path, content), tmp_path / "run")
    assert (done.exit_code, said in done.output) == (0, True), done.output
    assert names_right(tmp_path / "run") > 0.9


@pytest.mark.parametrize("mistake", REFUSED)
def test_tables_that_cannot_be_used(mistake, media, tmp_path):
    content, message = REFUSED[mistake]
    done = annotate(media, write(tmp_path, content), tmp_path / "run")
    assert done.exit_code == 1, done.output
    assert done.output.startswith("Error: ")
    assert done.output.count("\n") == 1
    assert_said(message, done.output)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mistake", NAMED)
def test_rows_that_cannot_be_used_are_named(mistake, media, tmp_path):
    content, message = NAMED[mistake]
    done = annotate(media, write(tmp_path, content), tmp_path / "run")
    assert done.exit_code == 3, done.output
    assert_said(message, done.output)


def assert_said(pattern, text):
    assert re.search(pattern, text), text


def test_a_piece_that_does_not_begin_there(media, tmp_path):
    table = write(tmp_path, rows("{name}@0,{label}") + "0101.wav@3,wren\n")
    done = annotate(media, table, tmp_path / "run", "--window", "2")
    assert done.exit_code == 3, done.output
    assert "no piece of the file begins there ('0101.wav@3')" in done.output
    assert "its pieces begin at 0, 2, 4 s (--window)" in done.output


def test_a_recording_in_place_of_a_folder(media, tmp_path):
    done = annotate(media / "0101.wav", write(tmp_path, events()), tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert {row["file"] for row in read_csv(tmp_path / "run" / "annotations.csv")} == {"0101.wav"}
    done = annotate(media, write(tmp_path, rows()), tmp_path / "all")
    new = annotate(media / "0102.wav", None, tmp_path / "new", "--model", tmp_path / "all" / "model.bagwise")
    assert new.exit_code == 0, new.output
    assert {row["file"] for row in read_csv(tmp_path / "new" / "annotations.csv")} == {"0102.wav"}


def test_a_channel_that_is_inverted(media, tmp_path):
    for path in media.iterdir():
        sound, rate = soundfile.read(path)
        (tmp_path / "rec").mkdir(exist_ok=True)
        soundfile.write(tmp_path / "rec" / path.name, np.stack([sound, -sound], axis=1), rate)
    done = annotate(tmp_path / "rec", write(tmp_path, rows()), tmp_path / "run")
    assert done.exit_code == 3
    assert "0101.wav: its channels cancel each other, so one is inverted; the first alone is used." in done.output
    plain = annotate(media, write(tmp_path, rows()), tmp_path / "plain")
    assert plain.exit_code == 0
    inverted, other = (read_csv(tmp_path / name / "annotations.csv") for name in ("run", "plain"))
    assert inverted == other


def test_files_of_one_name_in_several_folders(media, tmp_path):
    for i, path in enumerate(sorted(media.iterdir())):
        folder = tmp_path / "rec" / ("north" if i % 2 else "south")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
        (folder / "same.wav").write_bytes(path.read_bytes())
    done = annotate(tmp_path / "rec", write(tmp_path, rows() + "same.wav,wren\n"), tmp_path / "run")
    assert done.exit_code == 3
    assert (
        "several files fit ('same.wav'); its labels are not used: write the folder too, such as 'north/" in done.output
    )
    done = annotate(tmp_path / "rec", write(tmp_path, rows() + "south/same.wav,wren\n"), tmp_path / "other")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("source", "table", "message"),
    [
        ("nowhere", "labels.csv", "nowhere does not exist; check the path"),
        ("rec", "nowhere.csv", "nowhere.csv does not exist; check the path"),
        ("rec", None, "give labels (--labels), or a trained model (--model)"),
        ("empty", "labels.csv", "There is no file in"),
        ("labels.csv", "rec", "the media go before --labels"),
        ("rec", "rec/0101.wav", "it is a recording and no text"),
    ],
)
def test_folders_and_tables_that_are_not_what_they_should_be(source, table, message, media, tmp_path):
    write(tmp_path, rows())
    (tmp_path / "empty").mkdir()
    (tmp_path / "rec").symlink_to(media)
    done = annotate(tmp_path / source, table and tmp_path / table, tmp_path / "run")
    assert (done.exit_code, message in done.output) == (1, True), done.output


def test_what_is_wrong_is_said_before_anything_heavy_is_imported(media, tmp_path):
    write(tmp_path, REFUSED["names of other files"][0])
    heavy = ("sklearn", "numba", "scipy.signal", "bagwise.app.runs.run")
    for source, table in (("nowhere", "labels.csv"), (media, "labels.csv"), (media, "nowhere.csv")):
        code = (
            "import sys; from click.testing import CliRunner; from bagwise.app.cli import main\n"
            f"done = CliRunner().invoke(main, ['annotate', {str(source)!r}, '--labels', {table!r}, '--out', 'run'])\n"
            f"print(done.exit_code, [name for name in {heavy} if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "1 []\n"


def test_events_written_by_a_spreadsheet_are_the_same(media, tmp_path):
    table = tmp_path / "labels.csv"
    with table.open("w", newline="") as file:
        csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL).writerows(line.split(",") for line in events().split())
    done = annotate(media, table, tmp_path / "run")
    assert (done.exit_code, "24 syllables known by them" in done.output) == (0, True), done.output
