"""What other tools need: addresses that play, paths, lengths of what could not be read, scientific names."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import openpyxl
import pytest
import soundfile
from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.app.formats import compare_marks, read_marks, write_formats
from bagwise.app.formats.names import read_names
from bagwise.app.runs import Run
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_soundscape
from made import read_csv
from media_examples import finding, sounds


def placed(names, folder, unread=()):
    """One syllable in each of these recordings of ten seconds."""
    place = {"start": 1.0, "end": 2.0, "low": 1000.0, "high": 2000.0}
    rows = [{"file": name, **place, **finding("wren", bag=name)} for name in names]
    files = [{"file": name, "seconds": 10.0, "rate": 8000, "channels": 1} for name in names]
    return replace(sounds(), rows=rows, files=files, classes=["robin", "wren"], folder=folder, unread=list(unread))


# -- Raven ------------------------------------------------------------------------------------------------------------


def test_raven_gets_the_bare_name_and_the_path(tmp_path):
    scene = placed(["a.wav", "x/b.wav", "y/b.wav"], tmp_path / "field")
    write_formats(scene, tmp_path, ["raven"])
    rows = read_csv(tmp_path / "raven" / "all.selections.txt", "\t")
    assert [row["Begin File"] for row in rows] == ["a.wav", "b.wav", "b.wav"]
    assert [Path(row["Begin Path"]) for row in rows] == [
        tmp_path / "field" / name for name in ("a.wav", "x/b.wav", "y/b.wav")
    ]
    # the folders tell the two apart
    assert compare_marks(scene, read_marks(tmp_path / "raven" / "all.selections.txt", scene)) == ([], [])


@pytest.mark.parametrize("keep_names", [True, False])
def test_files_that_could_not_be_read_count_in_the_sound_of_all(tmp_path, keep_names):
    unread = [{"file": "b.wav", "seconds": 7.5}, {"file": "c.wav", "seconds": None}, {"file": "z.wav", "seconds": 3.0}]
    scene = placed(["a.wav", "d.wav", "e.wav"], tmp_path, unread)
    write_formats(scene, tmp_path, ["raven"])
    path = tmp_path / "raven" / "all.selections.txt"
    rows = read_csv(path, "\t")
    assert [float(row["Begin Time (s)"]) for row in rows] == [1.0, 10 + 7.5 + 1.0, 10 + 7.5 + 10 + 1.0]
    if not keep_names:
        headings = [name for name in rows[0] if name not in ("Begin File", "Begin Path", "File Offset (s)")]
        lines = ["\t".join(headings), *("\t".join(row[name] for name in headings) for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([], [])


# -- Label Studio -----------------------------------------------------------------------------------------------------


def test_label_studio_gets_addresses_under_which_it_serves_files(tmp_path):
    names = ["a.wav", "sub/Zaunkönig & Co #1.wav", "50 %.wav", "a+b=c?.wav"]
    folder = tmp_path / "my field" / "2024"
    scene = replace(placed(names, folder), served_from=tmp_path)
    write_formats(scene, tmp_path, ["label-studio"])
    tasks = json.loads((tmp_path / "label-studio.json").read_text(encoding="utf-8"))
    addresses = [urlsplit(task["data"]["audio"]) for task in tasks]
    assert {address.path for address in addresses} == {"/data/local-files/"}
    assert [parse_qs(address.query)["d"] for address in addresses] == [[f"my field/2024/{name}"] for name in names]
    assert compare_marks(scene, read_marks(tmp_path / "label-studio.json", scene)) == ([], [])
    with pytest.raises(InputError, match="does not lie in .*--label-studio-root"):
        write_formats(replace(scene, served_from=tmp_path / "elsewhere"), tmp_path, ["label-studio"])


# -- names ------------------------------------------------------------------------------------------------------------

NAMES = {
    "label and scientific": ("label,scientific name\nwren,Troglodytes troglodytes\nrobin,Erithacus rubecula\n", "wren"),
    "all three": (
        "Code;Common name;Scientific name\nwren;Eurasian Wren;Troglodytes troglodytes\nrobin;European Robin;"
        "Erithacus rubecula\n", "Eurasian Wren",
    ),
    "common and scientific": ("scientific_name\tcommon_name\nTroglodytes troglodytes\twren\n", "wren"),
    "a list of BirdNET": ("Erithacus rubecula_robin\nTroglodytes troglodytes_wren\n", "wren"),
}  # fmt: skip


@pytest.mark.parametrize("form", NAMES)
def test_scientific_names_of_a_table(tmp_path, form):
    text, common = NAMES[form]
    path = tmp_path / "names.csv"
    path.write_text(text, encoding="utf-8")
    names = read_names(path)
    assert names["wren"] == ("Troglodytes troglodytes", common)
    scene = replace(placed(["a.wav", "b.wav"], tmp_path), names=names)
    write_formats(scene, tmp_path, ["birdnet"])
    rows = read_csv(tmp_path / "birdnet.csv")
    assert {(row["Scientific name"], row["Common name"]) for row in rows} == {("Troglodytes troglodytes", common)}
    assert compare_marks(scene, read_marks(tmp_path / "birdnet.csv", scene)) == ([], [])


def test_names_in_a_spreadsheet(tmp_path):
    book = openpyxl.Workbook()
    for row in (["label", "latin"], ["wren", "Troglodytes troglodytes"], ["rain", None]):
        book.active.append(row)
    book.save(tmp_path / "names.xlsx")
    assert read_names(tmp_path / "names.xlsx") == {"wren": ("Troglodytes troglodytes", "wren")}


def test_a_common_name_that_is_another_label_is_not_taken(tmp_path):
    names = {"wren": ("Troglodytes troglodytes", "robin"), "robin": ("Erithacus rubecula", "European Robin")}
    scene = replace(placed(["a.wav"], tmp_path), names=names)
    write_formats(scene, tmp_path, ["birdnet"])
    assert read_csv(tmp_path / "birdnet.csv")[0]["Common name"] == "wren"
    assert compare_marks(scene, read_marks(tmp_path / "birdnet.csv", scene)) == ([], [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,colour\nwren,brown\n", "row 1: the columns are 'label', 'colour'; expected a heading with the columns"),
        ("label,scientific name\nwren,A b\nwren,C d\n", "row 3: the label 'wren' stands there a second time"),
        ("label,common name,scientific name\na,wren,A b\nb,wren,C d\n", "row 3: the common name 'wren' stands there"),
        ("label,scientific name\nwren,\n", "it names no species"),
    ],
)
def test_tables_of_names_that_cannot_be_used_are_refused(tmp_path, text, message):
    (tmp_path / "names.csv").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_names(tmp_path / "names.csv")


# -- the whole way ----------------------------------------------------------------------------------------------------


def test_annotate_passes_it_all_on_and_a_run_that_is_opened_keeps_it(tmp_path):
    made = make_soundscape(6, seconds=6.0, species_per_recording=(1, 2), random_state=1)
    made.write(tmp_path)
    folder = tmp_path / "recordings"
    (folder / "recording-000a.wav").write_text("no sound")
    broken = np.zeros(2 * made.rate, dtype=np.float32)
    broken[100] = np.nan
    soundfile.write(folder / "recording-000b.wav", broken, made.rate, subtype="FLOAT")
    heard = sorted(set().union(*made.label_sets))
    (tmp_path / "names.csv").write_text(f"label,scientific name\n{heard[0]},Avis prima\n")

    def annotate(*options):
        return CliRunner().invoke(
            main,
            ["annotate", str(folder), "--labels", str(tmp_path / "labels.csv"), "--out", str(tmp_path / "run"),
             "--jobs", "1", "--no-page", *map(str, options)],
        )  # fmt: skip

    (tmp_path / "elsewhere").mkdir()
    for options, message in (
        (["--names", tmp_path / "names.csv", "--format", "csv"], "--names is for the format birdnet"),
        (["--label-studio-root", tmp_path, "--format", "csv"], "--label-studio-root is for the format label-studio"),
        (["--label-studio-root", tmp_path / "elsewhere"], "does not lie in"),
    ):
        refused = annotate(*options)
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    result = annotate("--names", tmp_path / "names.csv", "--label-studio-root", tmp_path)
    assert result.exit_code == 3, result.output
    assert f"scientific names: 1 of {len(heard)}; none for {heard[1]}" in result.output
    assert "1 file(s) that could not be read, such as recording-000a.wav, have no known length" in result.stderr

    def check():
        rows = read_csv(tmp_path / "run" / "raven" / "all.selections.txt", "\t")
        second = next(row for row in rows if row["Begin File"] == made.names[1])
        assert float(second["Begin Time (s)"]) == pytest.approx(float(second["File Offset (s)"]) + 6.0 + 2.0)
        assert Path(second["Begin Path"]) == folder / made.names[1]
        told = read_csv(tmp_path / "run" / "birdnet.csv")
        assert {row["Scientific name"] for row in told if row["Common name"] == heard[0]} == {"Avis prima"}
        tasks = json.loads((tmp_path / "run" / "label-studio.json").read_text())
        assert tasks[0]["data"]["audio"] == f"/data/local-files/?d=recordings/{made.names[0]}"

    check()
    with Run.open(tmp_path / "run") as run:
        for name in ("raven", "label-studio.json", "birdnet.csv"):
            assert run.compare(tmp_path / "run" / name) == ([], [])
        row = next(row for row in run.annotations() if row["label"] and row["noise"] < 0.5)
        run.correct([(row["bag"], row["instance"], row["label"])])
        run.refit()
    check()
