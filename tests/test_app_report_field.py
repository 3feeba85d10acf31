"""Labels by file, hour and date: against plain loops over the annotations, whatever was recorded when."""

import csv
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.app.formats import Annotations
from bagwise.app.labels.sites import in_field
from bagwise.app.media.media_types import MEDIA
from bagwise.app.report.field import _labels_by_file, _Survey, summarize_field, write_field_tables
from media_examples import ABOUT, finding, pictures, sounds, table, texts

LABELS = ["ant", "bee", "cat"]


@st.composite
def recordings(draw):
    """Files at sites, some without a time, with instances that are named or noise."""
    files, rows = [], []
    for i in range(draw(st.integers(1, 6))):
        seconds = draw(st.sampled_from([10.0, 1800.0, 7200.0, 90_000.0]))
        file = {"file": f"{draw(st.sampled_from('xyz'))}/{i}.wav", "seconds": seconds}
        if draw(st.booleans()):
            start = draw(st.datetimes(datetime(2023, 12, 30), datetime(2024, 1, 2)))
            file["recorded"] = start.isoformat() + draw(st.sampled_from(["", "+02:00"]))
        files.append(file)
        for j in range(draw(st.integers(0, 5))):
            start = round(draw(st.floats(0, seconds - 1)), 4)
            probability = draw(st.none() | st.floats(0, 1))
            found = finding(draw(st.sampled_from([*LABELS, ""])), probability, noise=draw(st.sampled_from([0.1, 0.9])))
            place = {"start": start, "end": round(start + draw(st.floats(0.01, 1)), 4), "low": 1e3, "high": 2e3}
            rows.append({"file": file["file"], **place, **found, "bag": file["file"], "instance": j})
    return in_field(Annotations(MEDIA["audio"], rows, files, LABELS, ABOUT, max_noise=0.5), [])


@given(recordings())
@settings(deadline=None)
def test_rows_by_file_are_those_of_a_plain_loop(annotations):
    rows = _labels_by_file(annotations)
    assert {row["file"] for row in rows} == {file["file"] for file in annotations.files}
    assert sum(row["instances"] for row in rows) == len(annotations.shown())
    for row in rows:
        own = [r for r in annotations.shown() if r["file"] == row["file"] and r["label"] == row["label"]]
        assert row["instances"] == len(own)
        assert row["label"] or all(r["file"] != row["file"] for r in annotations.shown())
        if own:
            assert row["first"] == min(r["start"] for r in own)
            assert row["longest"] == round(max(r["end"] - r["start"] for r in own), 4)
            sure = [r["probability"] for r in own if r["probability"] is not None]
            assert row["highest_probability"] == (max(sure) if sure else "")
            assert row.get("first_time", "") == min(own, key=lambda r: r["start"]).get("time", "")
    assert len({(row["file"], row["label"]) for row in rows}) == len(rows)


@given(recordings())
@settings(deadline=None)
def test_hours_and_dates_are_those_of_a_plain_loop(annotations):
    survey = _Survey(annotations)
    dated = {file["file"]: file for file in annotations.files if "recorded" in file}
    assert survey.undated == len(annotations.files) - len(dated)
    for by, of in (("hour", lambda t: t.hour), ("date", lambda t: t.date().isoformat())):
        rows = survey.rows(by)
        for row in rows:
            own = [
                r for r in annotations.shown()
                if r["file"] in dated and r["label"] == row["label"] and r["site"] == row["site"]
                and of(datetime.fromisoformat(dated[r["file"]]["recorded"]) + timedelta(seconds=r["start"])) == row[by]
            ]  # fmt: skip
            assert (row["instances"], row["files"]) == (len(own), len({r["file"] for r in own}))
            assert row["files"] <= row["files_recorded"]
        minutes = sum(row["minutes_recorded"] for row in rows if row["label"] == "ant")
        assert minutes == pytest.approx(sum(file["seconds"] for file in dated.values()) / 60, abs=0.01)
        assert sum(row["instances"] for row in rows) == sum(r["file"] in dated for r in annotations.shown())


@given(recordings())
@settings(deadline=None)
def test_the_pictures_hold_what_the_tables_hold(annotations):
    summary = summarize_field(annotations)
    dated = {file["file"] for file in annotations.files if "recorded" in file}
    assert (summary["grids"] == []) == (not dated)
    for grid in summary["grids"]:
        assert sum(sum(row["counts"]) for row in grid["rows"]) == sum(r["file"] in dated for r in annotations.shown())
        assert all(len(row["counts"]) == len(grid["columns"]) == len(grid["recorded"]) for row in grid["rows"])
        for row in grid["rows"]:  # nothing was found where nothing was recorded
            assert all(recorded for count, recorded in zip(row["counts"], grid["recorded"], strict=True) if count)
    assert sum(site["files"] for site in summary["sites"]) == (len(annotations.files) if dated else 0)


def test_a_recording_counts_for_each_hour_it_reaches_into():
    file = {"file": "a.wav", "seconds": 3600.0, "recorded": "2024-05-01T23:45:00"}
    row = {"file": "a.wav", "start": 1000.0, "end": 1001.0, "low": 1e3, "high": 2e3, **finding("ant", bag="a.wav")}
    annotations = in_field(Annotations(MEDIA["audio"], [row], [file], ["ant"], ABOUT), [])
    assert annotations.rows[0]["time"] == "2024-05-02T00:01:40.000"
    by_hour = {row["hour"]: row for row in _Survey(annotations).rows("hour")}
    assert {hour: (row["instances"], row["minutes_recorded"]) for hour, row in by_hour.items()} == {
        0: (1, 45.0), 23: (0, 15.0)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("days", "unit", "n"), [(30, "date", 30), (200, "week from Monday", 29), (2000, "month", 66), (9000, "year", 25)]
)
def test_many_dates_become_weeks_months_and_years(days, unit, n):
    first = datetime(2000, 1, 3, 5, 30)
    files = [
        {"file": f"{i}.wav", "seconds": 1.0, "recorded": (first + timedelta(days=i)).isoformat()} for i in range(days)
    ]
    summary = summarize_field(in_field(Annotations(MEDIA["audio"], [], files, ["ant"], ABOUT), []))
    grid = summary["grids"][1]
    assert (grid["unit"], len(grid["columns"]), sum(grid["recorded"])) == (unit, n, days)


def test_tables_are_written_for_files_and_by_time_only_where_it_is_known(tmp_path):
    (tmp_path / "texts").mkdir()
    for scene, extra in ((sounds(), ["first", "longest"]), (pictures(), []), (texts(tmp_path), ["first", "longest"])):
        (path,) = write_field_tables(scene, tmp_path)
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["file", "label", "instances", *extra, "highest_probability"]
        assert {row["file"] for row in rows} == {file["file"] for file in scene.files}
        before = path.read_bytes()
        write_field_tables(scene, tmp_path)
        assert path.read_bytes() == before
    assert write_field_tables(table(), tmp_path) == []
    assert summarize_field(sounds()) == {"dated": 0, "undated": 3, "grids": [], "sites": []}
    assert summarize_field(table()) is None
