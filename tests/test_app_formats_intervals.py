"""Windows of one label as intervals, and intervals back to windows."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bagwise.app.formats import Annotations, compare_marks, read_marks, write_formats
from bagwise.app.formats._tables import intervals_by_file
from bagwise.app.media.media_types import MEDIA
from bagwise.app.media.windows import own_parts
from media_examples import CLOCK


def made(rng, window=20.0, step=10.0, n=40, clock=None):
    """Windows of two recordings with gaps; labels in runs, some of them noise."""
    rows = []
    for file in ("a.csv", "b.csv"):
        start = 5.0
        for i in range(n):
            label = ["rest", "walk", "run"][int(rng.integers(3))] if i == 0 or rng.random() < 0.3 else rows[-1]["label"]
            noise = float(rng.random() < 0.15)
            rows.append({
                "file": file, "bag": file, "instance": i, "start": start, "end": start + window, "label": label,
                "probability": round(float(rng.random()), 4), "runner_up": "", "noise": noise, "mode": "inductive",
            })  # fmt: skip
            start += step + (100.0 if rng.random() < 0.1 else 0.0)
    files = [
        {"file": file, "rows": 1, "seconds": 5000.0, "channels": ["x"], **CLOCK, **(clock or {})}
        for file in ("a.csv", "b.csv")
    ]
    return Annotations(MEDIA["series"], rows, files, ["rest", "run", "walk"], {}, Path(), 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_intervals_are_what_every_moment_says(seed):
    annotations = made(np.random.default_rng(seed))
    for file, found in intervals_by_file(annotations).items():
        own = [row for row in annotations.rows if row["file"] == file]
        for moment in np.arange(0.25, max(row["end"] for row in own), 0.5):
            covering = [row for row in own if row["start"] <= moment <= row["end"]]
            nearest = min(covering, key=lambda row: abs(row["start"] + 10 - moment), default=None)
            expected = nearest["label"] if nearest is not None and nearest["noise"] < 0.5 else None
            told = [interval["label"] for interval in found if interval["start"] <= moment < interval["end"]]
            assert told == ([] if expected is None else [expected])
        assert sum(interval["windows"] for interval in found) == sum(row["noise"] < 0.5 for row in own)
        for one, other in pairwise(found):
            assert one["label"] != other["label"] or one["end"] < other["start"]


@pytest.mark.parametrize("step", [4.0, 10.0, 20.0, 30.0])
def test_parts_share_out_the_time(step):
    annotations = made(np.random.default_rng(0), step=step)
    parts = own_parts(row for row in annotations.rows if row["file"] == "a.csv")
    assert all(start < end for start, end, _ in parts)
    assert all(one[1] <= other[0] for one, other in pairwise(parts))


CLOCKS = {
    "none": {"clock_kind": "none", "clock_heading": "", "rate": 50.0},
    "seconds": {"clock_kind": "seconds", "clock_unit": "s", "clock_first": 5.0},
    "milliseconds": {"clock_kind": "seconds", "clock_unit": "ms", "clock_first": 5000.0},
    "epoch": {"clock_kind": "epoch", "clock_unit": "ms", "clock_first": 1714541400000.0},
    "text": {"clock_kind": "clock", "clock_pattern": "%Y-%m-%dT%H:%M:%S.%f", "recorded": "2024-05-01T05:30:00"},
    "zone": {"clock_kind": "clock", "clock_pattern": "", "recorded": "2024-05-01T05:30:00+02:00"},
}


@pytest.mark.parametrize("name", ["intervals", "label-studio"])
@pytest.mark.parametrize("clock", CLOCKS)
def test_what_was_written_is_read_back_and_changes_are_corrections(tmp_path, name, clock):
    for seed in range(3):
        annotations = made(np.random.default_rng(seed), clock=CLOCKS[clock])
        path = write_formats(annotations, tmp_path, [name])[0]
        assert compare_marks(annotations, read_marks(path, annotations)) == ([], [])
        interval = max(intervals_by_file(annotations)["a.csv"], key=lambda found: found["windows"])
        text = path.read_text(encoding="utf-8")
        if name == "intervals":
            lines = text.splitlines()
            line = next(x for x in lines if x.startswith(f"a.csv,a.csv,{interval['start']},"))
            text = text.replace(line, line.replace(f",{interval['label']},", ",sleep,"))
            path.write_text(text, encoding="utf-8")
            corrections, problems = compare_marks(annotations, read_marks(path, annotations))
            assert problems == []
            assert corrections == [("a.csv", row["instance"], "sleep") for row in interval["rows"]]
            path.write_text(
                text.replace(line.replace(f",{interval['label']},", ",sleep,") + "\n", ""), encoding="utf-8"
            )
            corrections, _ = compare_marks(annotations, read_marks(path, annotations))
            assert corrections == [("a.csv", row["instance"], "") for row in interval["rows"]]


def test_the_interface_tells_how_times_are_written(tmp_path):
    clock = {**CLOCKS["text"], "clock_heading": "when"}
    write_formats(made(np.random.default_rng(0), clock=clock), tmp_path, ["label-studio"])
    assert 'timeColumn="when" timeFormat="%Y-%m-%dT%H:%M:%S.%f"' in (tmp_path / "label-studio.xml").read_text()
    several = made(np.random.default_rng(0), clock={**CLOCKS["none"], "recordings": ["a", "b"]})
    path = write_formats(several, tmp_path, ["label-studio"])[0]
    assert path.read_text().strip() == "[]"  # it shows one recording a file


def test_marks_on_nothing_are_named(tmp_path):
    annotations = made(np.random.default_rng(0))
    table = tmp_path / "intervals.csv"
    table.write_text("file,start,end,label,windows\na.csv,90000,90001,walk,1\nz.csv,0,10,walk,1\n")
    corrections, problems = compare_marks(annotations, read_marks(table, annotations))
    assert sorted(message.partition(": ")[2] for _, message in problems) == [
        "no instance was found there (a.csv, start 90000, end 90001).",
        "the run has no file 'z.csv', or several of that name.",
    ]
    assert {label for *_, label in corrections} == {""}
