"""Sites and clock times of a run: tables of sites, read or refused; columns, tables and problems that come of them."""

import csv
import json
import shutil

import pytest
from click.testing import CliRunner

from bagwise import Run
from bagwise.app.cli import main
from bagwise.app.formats import FORMATS
from bagwise.app.labels.sites import Site, find_site, read_sites, site_time
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_soundscape
from made import read_csv

SITES = "site,latitude,longitude,time_zone\nPond,52.1,11.5,Europe/Berlin\nhill,-33.5,151.25,\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_tables_of_sites_are_read(tmp_path):
    pond, hill = Site("Pond", 52.1, 11.5, "Europe/Berlin"), Site("hill", -33.5, 151.25)
    assert read_sites(write(tmp_path / "a.csv", SITES)) == [pond, hill]
    swapped = "longitude;note;site;latitude\n11.5;by the water;Pond;52.1\n"
    assert read_sites(write(tmp_path / "b.csv", swapped)) == [Site("Pond", 52.1, 11.5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("place,lat,lon\na,1,2\n", "no column 'site'; expected site, latitude, longitude, and found place, lat, lon"),
        ("site,latitude,longitude\na,1,2\nb,91,2\n", r"row 3: latitude is 91; .* -90 to 90 \(latitude and"),
        ("site,latitude,longitude\na,1,-181\n", "row 2: longitude is -181; expected degrees from -180 to 180"),
        ("site,latitude,longitude\na,north,2\n", "row 2: latitude is 'north'; expected a number"),
        ("site,latitude,longitude\na,nan,2\n", "row 2: latitude is 'nan'; expected a number"),
        ("site,latitude,longitude\na,1,2\nA ,3,4\n", "row 3: the site 'A' stands there twice"),
        ("site,latitude,longitude\n,1,2\n", "row 2: the site has no name"),
        ("site,latitude,longitude\n", "there is no site in it"),
        ("site,latitude,longitude,time_zone\na,1,2,Mars/Olympus\n", "row 2: there is no time zone 'Mars/Olympus'"),
        ("site,latitude,longitude,time_zone\na,1,2,../../etc\n", "row 2: there is no time zone"),
        ("", "is empty"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_with_the_row(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_sites(write(tmp_path / "sites.csv", text))


def test_a_missing_table_is_an_error(tmp_path):
    with pytest.raises((FormatError, InputError), match=r"none\.csv"):
        read_sites(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("pond/20240501_053000.WAV", "Pond"), ("2024/pond/card1/20240501_053000.WAV", "Pond"),
        ("x/HILL_20240501_053000.wav", "hill"),
        ("meadow/a.wav", "meadow"), ("MEADOW_20240501_053000.wav", "MEADOW"),
        ("a/b/c.wav", "a"), ("20240501_053000.wav", ""),
    ],
)  # fmt: skip
def test_the_site_is_what_the_table_knows_of_name_and_folders(tmp_path, name, site):
    assert find_site(name, read_sites(write(tmp_path / "sites.csv", SITES))).site == site


def test_times_of_a_zone():
    assert site_time("2024-05-01T05:30:00", "").isoformat() == "2024-05-01T05:30:00"
    assert site_time("2024-05-01T05:30:00", "Europe/Berlin").isoformat() == "2024-05-01T05:30:00+02:00"
    assert site_time("2024-01-01T05:30:00", "Europe/Berlin").isoformat() == "2024-01-01T05:30:00+01:00"
    assert site_time("2024-05-01T05:30:00+00:00", "Europe/Berlin").isoformat() == "2024-05-01T07:30:00+02:00"
    assert site_time("2024-05-01T05:30:00-03:00", "").isoformat() == "2024-05-01T05:30:00-03:00"


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """Recordings at two sites and one that tells nothing; and their labels."""
    folder = tmp_path_factory.mktemp("field")
    made = folder / "made"
    recordings, labels, _ = make_soundscape(8, seconds=4.0, random_state=0).write(made)
    names = [f"pond/2024050{i + 1}_053000.WAV" for i in range(4)] + [
        f"HILL_2024050{i + 1}_190000.wav" for i in range(3)
    ]
    new = dict(zip(sorted(path.name for path in recordings.iterdir()), [*names, "song.wav"], strict=True))
    (folder / "media" / "pond").mkdir(parents=True)
    for old, name in new.items():
        shutil.copy(recordings / old, folder / "media" / name)
    with open(labels, encoding="utf-8", newline="") as file:
        rows = [[new.get(row[0], row[0]), *row[1:]] for row in csv.reader(file)]
    with open(folder / "labels.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    write(folder / "sites.csv", SITES)
    return folder


def test_a_run_in_the_field(media, tmp_path):
    command = ["annotate", str(media / "media"), "--labels", str(media / "labels.csv"), "--out", str(tmp_path / "run")]
    command += ["--sites", str(media / "sites.csv"), "--jobs", "1", "--quiet", "--no-page"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 3, done.output
    assert "1 file(s) belong to no site" in done.stderr
    rows = read_csv(tmp_path / "run" / "annotations.csv")
    for row in rows:
        if row["file"].startswith("pond"):
            assert row["site"] == "Pond"
            assert row["time"].startswith(f"{row['file'][5:9]}-05-0{row['file'][12]}T05:30:0")
            assert row["time"].endswith("+02:00")
            assert float(row["time"][17:23]) == pytest.approx(float(row["start"]), abs=6e-4)
        elif row["file"].startswith("HILL"):
            assert (row["site"], len(row["time"])) == ("hill", 23)
        else:
            assert (row["site"], row["time"]) == ("", "")
    by_file = read_csv(tmp_path / "run" / "labels-by-file.csv")
    assert {(row["site"], row["latitude"]) for row in by_file} == {("Pond", "52.1"), ("hill", "-33.5"), ("", "")}
    assert {row["hour"] for row in read_csv(tmp_path / "run" / "labels-by-hour.csv")} == {"5", "19"}
    assert len({row["date"] for row in read_csv(tmp_path / "run" / "labels-by-date.csv")}) == 4
    _written_again_to_the_byte(tmp_path / "run")


def _written_again_to_the_byte(path):
    """After a refit the tables follow, and after undo they are as before; the table of sites is not needed again."""
    tables = {
        name: (path / name).read_bytes() for name in ("labels-by-file.csv", "labels-by-hour.csv", "annotations.csv")
    }
    with Run.open(path) as run:
        shown = run.result().annotations.shown()[0]
        run.correct([(shown["bag"], shown["instance"], "")])
        run.refit()
        assert (path / "labels-by-file.csv").read_bytes() != tables["labels-by-file.csv"]
        run.undo()
    assert {name: (path / name).read_bytes() for name in tables} == tables
    outputs = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["outputs"]
    assert {"labels-by-file.csv", "labels-by-hour.csv", "labels-by-date.csv"} <= {*outputs}


def test_the_long_table_with_times_is_read_back_in_every_format(media, tmp_path):
    with Run.create(
        media / "media", tmp_path / "run", labels=media / "labels.csv", sites=media / "sites.csv", page=False, jobs=1
    ) as run:
        annotations = run.result().annotations
        for name, path in (("csv", "annotations.csv"), ("parquet", "annotations.parquet"), ("raven", "raven")):
            assert FORMATS[name].read(tmp_path / "run" / path, annotations).rows
            assert run.compare(tmp_path / "run" / path) == ([], [])


def test_without_times_there_is_one_table_and_no_column(tmp_path):
    sounds, labels, _ = make_soundscape(4, seconds=3.0, random_state=0).write(tmp_path / "made")
    with Run.create(sounds, tmp_path / "run", labels=labels, page=False, jobs=1, formats=["csv"]):
        pass
    assert sorted(path.name for path in (tmp_path / "run").glob("labels-by-*")) == ["labels-by-file.csv"]
    assert "time" not in read_csv(tmp_path / "run" / "annotations.csv")[0]


def test_sites_that_no_file_has_and_tables_without_files_are_refused(media, tmp_path):
    strange = write(tmp_path / "strange.csv", "site,latitude,longitude\nmoor,1,2\n")
    with pytest.raises(InputError, match="none of its sites \\('moor'\\) is the folder of a file"):
        Run.create(media / "media", tmp_path / "run", labels=media / "labels.csv", sites=strange)
    bags = write(tmp_path / "bags.csv", "bag,label,x\na,l,1\nb,m,2\n")
    with pytest.raises(InputError, match="leave --sites out"):
        Run.create(bags, tmp_path / "run", sites=media / "sites.csv")
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_another_table_of_sites_writes_the_run_anew_without_learning_again(media, tmp_path):
    options = {"labels": media / "labels.csv", "page": False, "jobs": 1, "formats": ["csv"]}
    Run.create(media / "media", tmp_path / "run", **options).close()
    model = (tmp_path / "run" / ".run" / "0" / "model.bagwise").stat()
    assert "latitude" not in read_csv(tmp_path / "run" / "labels-by-file.csv")[0]
    for latitude in ("52.1", "48.0"):
        sites = write(tmp_path / "sites.csv", SITES.replace("52.1", latitude))
        Run.create(media / "media", tmp_path / "run", sites=sites, **options).close()
        assert latitude in {row["latitude"] for row in read_csv(tmp_path / "run" / "labels-by-file.csv")}
    after = (tmp_path / "run" / ".run" / "0" / "model.bagwise").stat()
    assert (after.st_mtime_ns, after.st_ino) == (model.st_mtime_ns, model.st_ino)
