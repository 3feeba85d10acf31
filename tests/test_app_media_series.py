"""Series of measurements to stretches: statistics against loops and known signals, bad tables."""

import math
import re
import statistics
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

from bagwise.app.media import SeriesSettings, featurize_series
from bagwise.app.media.series import (
    FREQUENCY_STATISTICS,
    SERIES,
    TIME_STATISTICS,
    _draw_series,
    _notes,
    _read_stretches,
    _stretch_features,
    draw_stretch,
)
from bagwise.app.media.series_file import read_recordings, read_series
from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import FormatError, InputError

NAMES = [*TIME_STATISTICS, *FREQUENCY_STATISTICS]


def write(path, columns, separator=","):
    rows = zip(*columns.values(), strict=True)
    lines = [separator.join(columns), *(separator.join(map(repr, map(float, row))) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def loop_statistics(x, rate):
    """The statistics of one channel with the standard library, its spectrum from the definition."""
    n, mean = len(x), statistics.fmean(x)
    out = {
        "mean": mean, "deviation": statistics.pstdev(x), "least": min(x), "greatest": max(x),
        "median": statistics.median(x), "step": statistics.fmean(abs(b - a) for a, b in pairwise(x)),
        "crossings": statistics.fmean(((a - mean) < 0) != ((b - mean) < 0) for a, b in pairwise(x)),
    }  # fmt: skip
    power = []
    for k in range(1, n // 2 + 1):
        turns = [2 * math.pi * k * t / n for t in range(n)]
        real = sum((v - mean) * math.cos(a) for v, a in zip(x, turns, strict=True))
        imaginary = sum((v - mean) * math.sin(a) for v, a in zip(x, turns, strict=True))
        power.append(real**2 + imaginary**2)
    share = [p / sum(power) for p in power]
    hertz = [k * rate / n for k in range(1, n // 2 + 1)]
    out["peak"] = hertz[share.index(max(share))]
    out["centroid"] = sum(h * s for h, s in zip(hertz, share, strict=True))
    out["entropy"] = -sum(s * math.log(s) for s in share) / math.log(len(share))
    for i in range(4):
        out[f"band{i}"] = sum(share[i * len(share) // 4 : (i + 1) * len(share) // 4])
    return [out[name] for name in NAMES]


@pytest.mark.parametrize("seed", range(4))
def test_statistics_are_those_of_loops(seed):
    values = np.random.default_rng(seed).normal(size=(32, 2)).cumsum(axis=0)
    found = _stretch_features(values, 25.0)
    for k in range(2):
        np.testing.assert_allclose(
            found[14 * k : 14 * (k + 1)], loop_statistics(values[:, k].tolist(), 25.0), atol=1e-9
        )


def test_a_still_channel_is_flat():
    found = dict(zip(NAMES, _stretch_features(np.full((16, 1), 3.0), 1.0), strict=True))
    assert found["entropy"] == pytest.approx(1.0)
    assert found["deviation"] == found["crossings"] == 0
    assert all(np.isfinite(list(found.values())))


def test_windows_places_and_rate(tmp_path):
    time = 5.0 + np.arange(300) / 50.0
    path = write(tmp_path / "a.csv", {"time": time, "x": np.sin(2 * np.pi * 7.8125 * time), "y": np.zeros(300)})
    data = featurize_series([path])
    assert data.bags.sizes.tolist() == [3]
    assert rows_of(data.locations)[1] == {"file": "a.csv", "start": 6.28, "end": 8.84}
    assert len(data.feature_names) == 28
    assert data.bags.instances[:, data.feature_names.index("x_peak")] == pytest.approx(7.8125)
    plain = featurize_series(
        [write(tmp_path / "b.csv", {"x": time}, ";")], SeriesSettings(window=100, step=100, rate=10)
    )
    assert [place["end"] for place in rows_of(plain.locations)] == [10, 20, 30]


def test_bad_tables_are_named(tmp_path):
    good = write(tmp_path / "good.csv", {"x": np.arange(200.0)})
    other = write(tmp_path / "other.csv", {"z": np.arange(200.0)})
    with pytest.raises(FormatError, match="other.csv: its columns differ from those of good.csv"):
        featurize_series([good, other])
    for text, message in (
        ("x,y\n1,2\n3\n", "row 3: there are 1 cells but row 1 has 2"),
        ("x,y\n1,2\n3,four\n", "row 3: 'four' in the column 'y' is no number"),
        ("x,y\n1,2\n3,inf\n", "row 3: the column 'y' is not a finite number"),
        ("x,y\n1,2\n3,nan\n4,\n", r"row 3: the column 'y' is blank, one of 2 blank cell\(s\).*fill=linear"),
        ("x;y\n1,5;2\n3.5;2\n", "row 2: '1,5' in the column 'x' has a comma, and others have decimal points"),
        ("time,x\n2024-05-01T05:30,1\n1 May,2\n", r"row 3: the time \('time'\) is '1 May'; expected seconds, or ISO"),
        ("time,x\n2024-05-01T05:30Z,1\n2024-05-01T05:31,2\n", "row 3: some times have an offset from UTC"),
        ("time,x\n1,1\n,2\n", r"row 3: the time \('time'\) is no number; give every row its time"),
        ("x,y\n", "no row below it"),
        ("time\n1\n2\n", "no column besides the time"),
        ("time,x\n1,1\n1,2\n", "row 3: the time does not rise"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(FormatError, match=message):
            featurize_series([tmp_path / "bad.csv"])


# -- times ------------------------------------------------------------------------------------------------------------


def read(path, text, **settings):
    path.write_text(text, encoding="utf-8")
    return read_series(path, SeriesSettings(**settings))


def test_stretches_carry_the_true_time_and_end_at_gaps(tmp_path):
    times = np.concatenate([np.arange(93.0), 692.0 + np.arange(92.0)])  # a row a second, to 92 s, then 600 s nothing
    path = write(tmp_path / "a.csv", {"time": times, "x": np.sin(times)})
    settings = SeriesSettings(window=20, step=10)
    file = _read_stretches(path, "a.csv", settings)
    places = list(zip(file.locations["start"].tolist(), file.locations["end"].tolist(), strict=True))
    assert places[0] == (0.0, 20.0)
    assert places[7:9] == [(70.0, 90.0), (692.0, 712.0)]  # none reaches across the gap
    assert places[-1] == (762.0, 782.0)
    assert all(end - start == 20.0 for start, end in places)
    assert (file.info["seconds"], file.info["gaps"], file.info["seconds_of_gaps"]) == (784.0, 1, 599.0)
    for (start, _), features in zip(places, file.features, strict=True):
        i = int(np.searchsorted(times, start))
        np.testing.assert_allclose(features, _stretch_features(np.sin(times[i : i + 20])[:, None], 1.0))
    assert _notes([{"file": "a.csv", **file.info}]) == [
        "1 gap(s) in time in 1 file(s) (a.csv): no stretch reaches across one."
    ]


@pytest.mark.parametrize("seed", range(6))
def test_windows_of_series_with_gaps_are_those_of_a_plain_walk(seed, tmp_path):
    rng = np.random.default_rng(seed)
    steps = np.where(rng.random(200) < 0.04, rng.uniform(5, 50, 200), rng.uniform(0.8, 1.2, 200))
    times = np.cumsum(steps)
    path = write(tmp_path / "a.csv", {"time": times, "x": rng.normal(size=200)})
    settings = SeriesSettings(window=8, step=5)
    file = _read_stretches(path, "a.csv", settings)
    gap = 4 * np.median(np.diff(times))
    expected, piece = [], [0]
    for i in range(1, 201):
        if i == 200 or times[i] - times[i - 1] > gap:
            expected += [piece[j] for j in range(0, len(piece) - 7, 5)]
            piece = []
        piece.append(i)
    np.testing.assert_allclose(file.locations["start"], times[expected], atol=1e-6)
    assert file.info["gaps"] == int(np.sum(np.diff(times) > gap))
    whole = _read_stretches(path, "a.csv", SeriesSettings(window=8, step=5, max_gap=1e6))
    assert len(whole.features) == len(range(0, 193, 5))


@pytest.mark.parametrize(
    ("cells", "unit", "seconds", "recorded"),
    [
        (("0", "0.5", "1"), "s", [0, 0.5, 1], ""),
        (("5", "6", "7"), "s", [5, 6, 7], ""),
        (("1714541400", "1714541401", "1714541402"), "s", [0, 1, 2], "2024-05-01T05:30:00+00:00"),
        (("1714541400000", "1714541400020", "1714541400040"), "ms", [0, 0.02, 0.04], "2024-05-01T05:30:00+00:00"),
        (("1714541400000000", "1714541400020000"), "us", [0, 0.02], "2024-05-01T05:30:00+00:00"),
        (("1714541400000000000", "1714541400020000000"), "ns", [0, 0.02], "2024-05-01T05:30:00+00:00"),
        (("2024-05-01T05:30:00", "2024-05-01T05:30:00.250"), "s", [0, 0.25], "2024-05-01T05:30:00"),
        (("2024-05-01 05:30", "2024-05-01 05:31"), "s", [0, 60], "2024-05-01T05:30:00"),
        (("2024-05-01T05:30:00Z", "2024-05-01T07:30:01+02:00"), "s", [0, 1], "2024-05-01T05:30:00+00:00"),
        (("2024-05-01T05:30:00+02:00", "2024-05-01T05:30:02+02:00"), "s", [0, 2], "2024-05-01T05:30:00+02:00"),
    ],
)
def test_times_are_told_apart(tmp_path, cells, unit, seconds, recorded):
    series = read(tmp_path / "a.csv", "time,x\n" + "".join(f"{cell},1\n" for cell in cells))
    np.testing.assert_allclose(series.times, seconds, atol=1e-6)
    assert (series.clock.unit, series.clock.recorded) == (unit, recorded)


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("time_ms", 0.02), ("Time (ms)", 0.02), ("timestamp[ms]", 0.02), ("t", 20.0), ("seconds", 20.0),
        ("Time [s]", 20.0),
        ("milliseconds", 0.02), ("time_us", 2e-5), ("datetime", 20.0),
    ],
)  # fmt: skip
def test_headings_tell_the_unit(tmp_path, heading, expected):
    series = read(tmp_path / "a.csv", f"x,{heading}\n1,0\n2,20\n3,40\n")
    assert series.channels == ["x"]
    assert series.times[1] == pytest.approx(expected)
    if heading == "t":
        assert read(tmp_path / "a.csv", "x,t\n1,0\n2,20\n", time_unit="ms").times[1] == pytest.approx(0.02)


def test_zones_are_told_and_clocks_change(tmp_path):
    naive = ["2024-10-27T02:30:00", "2024-10-27T02:59:30", "2024-10-27T02:10:00", "2024-10-27T03:00:00"]
    text = "time,x\n" + "".join(f"{cell},1\n" for cell in naive)
    series = read(tmp_path / "a.csv", text, time_zone="Europe/Berlin")  # the hour comes twice that night
    assert series.times.tolist() == [0.0, 1770.0, 2400.0, 5400.0]
    assert series.clock.recorded == "2024-10-27T02:30:00+02:00"
    with pytest.raises(FormatError, match="row 4: the time does not rise"):
        read(tmp_path / "a.csv", text)
    epoch = read(tmp_path / "b.csv", "time,x\n1714541400,1\n1714541401,2\n", time_zone="Europe/Berlin")
    assert epoch.clock.recorded == "2024-05-01T07:30:00+02:00"
    with pytest.raises(InputError, match=r"no time zone 'Mars/Olympus' \(--media-set time_zone=Mars/Olympus\)"):
        read(tmp_path / "b.csv", "time,x\n2024-05-01T05:30,1\n", time_zone="Mars/Olympus")


def test_columns_of_times_are_found_or_named(tmp_path):
    both = read(tmp_path / "a.csv", "Date;Time;x\n2024-05-01;05:30:00;1,5\n2024-05-01;05:30:02;2,5\n")
    assert (both.times.tolist(), both.channels, both.values.ravel().tolist()) == ([0.0, 2.0], ["x"], [1.5, 2.5])
    named = read(tmp_path / "a.csv", "when,x\n3,1\n4,2\n", time="when")
    assert (named.times.tolist(), named.channels) == ([3.0, 4.0], ["x"])
    with pytest.raises(FormatError, match=r"no column 'clock' \(--media-set time=clock\); its columns are 'when', 'x'"):
        read(tmp_path / "a.csv", "when,x\n3,1\n", time="clock")
    for name, value in (("time_unit", "years"), ("fill", "zero")):
        with pytest.raises(InputError, match=f"The setting '{name}' is '{value}'; use one of"):
            SeriesSettings(**{name: value})


# -- cells ------------------------------------------------------------------------------------------------------------


def test_decimal_commas_are_read(tmp_path):
    for separator in (";", "\t"):
        rows = [["time", "x", "y"], ["0,5", "1,25", "3"], ["1,0", "-2,5e1", "4"]]
        series = read(tmp_path / "a.csv", "\n".join(separator.join(row) for row in rows))
        assert series.values.tolist() == [[1.25, 3.0], [-25.0, 4.0]]
        assert series.times.tolist() == [0.5, 1.0]
    assert read(tmp_path / "a.csv", 'x,y\n"1,5",2\n"2,5",3\n').values.tolist() == [[1.5, 2.0], [2.5, 3.0]]


def test_blank_cells_are_filled_on_request(tmp_path):
    text = "time,x,y\n0,,5\n1,2,5\n2,NA,5\n4,8,5\n5,,5\n"
    linear = read(tmp_path / "a.csv", text, fill="linear")
    assert linear.values[:, 0].tolist() == [2.0, 2.0, 4.0, 8.0, 8.0]  # by time, not by row
    previous = read(tmp_path / "a.csv", text, fill="previous")
    assert previous.values[:, 0].tolist() == [2.0, 2.0, 2.0, 8.0, 8.0]
    assert previous.n_filled == 3
    note = _notes([{"file": "a.csv", "filled": 3}, {"file": "b.csv", "filled": 0}])
    assert note == ["3 blank cell(s) were filled in 1 file(s) (a.csv)."]
    with pytest.raises(FormatError, match="the column 'x' is blank from here to the end; remove it"):
        read(tmp_path / "a.csv", "x,y\n,1\n,2\n", fill="linear")


def test_tables_in_other_encodings_are_read(tmp_path):
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / "a.csv").write_bytes("time,°C\n0,1\n1,2\n".encode(encoding))
        assert read_series(tmp_path / "a.csv", SeriesSettings()).channels == ["°C"]


def test_parquet_is_read_as_csv_is(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    moments = [datetime(2024, 5, 1, 5, 30, second, tzinfo=UTC) for second in (0, 1, 2)]
    columns = {"x": [1, 2, 3], "y": [0.5, None, 1.5], "w": [True, False, True]}
    for kind, recorded in (
        (arrow.timestamp("us"), "2024-05-01T05:30:00"),
        (arrow.timestamp("ms", "Europe/Berlin"), "2024-05-01T07:30:00+02:00"),
    ):
        table = arrow.table({"time": arrow.array(moments, kind), **columns})
        parquet.write_table(table, tmp_path / "a.parquet")
        series = read_series(tmp_path / "a.parquet", SeriesSettings(fill="linear"))
        assert series.values.tolist() == [[1.0, 0.5, 1.0], [2.0, 1.0, 0.0], [3.0, 1.5, 1.0]]
        assert (series.times.tolist(), series.clock.recorded) == ([0.0, 1.0, 2.0], recorded)
    parquet.write_table(arrow.table({"t_ms": [0, 20], "x": ["1,5", "2,5"]}), tmp_path / "b.parquet")
    series = read_series(tmp_path / "b.parquet", SeriesSettings())
    assert (series.times.tolist(), series.values.ravel().tolist()) == ([0.0, 0.02], [1.5, 2.5])
    with pytest.raises(FormatError, match="row 2: the column 'y' is blank"):
        read_series(tmp_path / "a.parquet", SeriesSettings())
    parquet.write_table(arrow.table({"x": [[1], [2]]}), tmp_path / "c.parquet")
    with pytest.raises(FormatError, match="the column 'x' holds list.*expected numbers, times or text"):
        read_series(tmp_path / "c.parquet", SeriesSettings())
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FormatError, match="damaged, cut off or no parquet"):
        read_series(tmp_path / "d.parquet", SeriesSettings())


def test_too_short_names_the_window(tmp_path):
    path = write(tmp_path / "a.csv", {"time": np.r_[np.arange(60.0), 500 + np.arange(40.0)], "x": np.arange(100.0)})
    file = _read_stretches(path, "a.csv", SeriesSettings())
    assert file.problems == [
        "it has 60 rows in its longest piece without a gap (2 pieces), and a stretch takes window=128; lower it "
        "(--media-set window=60)."
    ]
    plain = _read_stretches(write(tmp_path / "b.csv", {"x": np.arange(100.0)}), "b.csv", SeriesSettings())
    assert plain.problems == ["it has 100 rows, and a stretch takes window=128; lower it (--media-set window=100)."]
    some = _read_stretches(path, "a.csv", SeriesSettings(window=50, step=50))
    assert (some.sizes, some.info["rows_lost"]) == ([1], 40)


# -- one table of several recordings ----------------------------------------------------------------------------------


def test_a_column_tells_recordings_apart(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{t},{name},{rng.normal():.3f}" for name, n in (("anna", 40), ("ben", 30)) for t in range(n)]
    path = tmp_path / "all.csv"
    path.write_text("time,who,x\n" + "\n".join(rows) + "\n")
    settings = SeriesSettings(window=10, step=10, recording="who")
    file = _read_stretches(path, "all.csv", settings)
    assert (file.bag_names, file.sizes) == (["all.csv@anna", "all.csv@ben"], [4, 3])
    assert file.locations["start"].tolist() == [0, 10, 20, 30, 0, 10, 20]
    assert file.locations["recording"].tolist() == ["anna"] * 4 + ["ben"] * 3
    alone = write(tmp_path / "ben.csv", {"time": np.arange(30.0), "x": [float(r.split(",")[2]) for r in rows[40:]]})
    np.testing.assert_allclose(
        file.features[4:], _read_stretches(alone, "b", SeriesSettings(window=10, step=10)).features
    )
    with pytest.raises(FormatError, match="no column 'subject'"):
        _read_stretches(path, "all.csv", SeriesSettings(recording="subject"))
    path.write_text("time,who,x\n0,a,1\n1,,2\n")
    with pytest.raises(FormatError, match="row 3: the column 'who' is blank; name the recording of every row"):
        _read_stretches(path, "all.csv", settings)


def test_recordings_of_a_table_share_one_clock(tmp_path):
    text = "time,who,x\n2024-05-01T06:00,b,1\n2024-05-01T06:01,b,1\n2024-05-01T05:30,a,1\n2024-05-01T05:31,a,1\n"
    (tmp_path / "a.csv").write_text(text)
    found = read_recordings(tmp_path / "a.csv", SeriesSettings(recording="who"))
    assert {name: series.times.tolist() for name, series in found.items()} == {"b": [1800, 1860], "a": [0, 60]}
    assert {series.clock.recorded for series in found.values()} == {"2024-05-01T05:30:00"}


# -- pictures ---------------------------------------------------------------------------------------------------------


def rows_of_windows(times, labels, bag="a.csv"):
    return [
        {
            "file": "a.csv",
            "bag": bag,
            "instance": i,
            "start": start,
            "end": start + 20.0,
            "label": label,
            "probability": 0.8,
        }
        for i, (start, label) in enumerate(zip(times, labels, strict=True))
    ]


def test_channels_are_stacked_and_windows_joined(tmp_path):
    times = np.arange(100.0)
    path = write(tmp_path / "a.csv", {"time": times, "x": np.sin(times), "y": np.cos(times)})
    rows = rows_of_windows(range(0, 80, 10), ["a", "a", "a", "", "b", "b", "b", "b"])
    picture = _draw_series(path, "a.csv", rows, SeriesSettings(window=20, step=10), 0.0)
    edges = [[float(x) for x in re.findall(r"[\d.]+", region["path"])[::2]] for region in picture.regions]
    assert [(region["label"], min(x), max(x)) for region, x in zip(picture.regions, edges, strict=True)] == [
        ("a", 0.0, 350.0), ("b", 450.0, 900.0),
    ]  # fmt: skip
    heights = [[float(point.split(",")[1]) for point in line.split()] for line in picture.lines]
    assert max(heights[0]) < min(heights[1])  # a lane of its own for each channel
    assert [text for _, text in picture.levels] == ["x", "y"]
    assert draw_stretch(read_series(path, SeriesSettings()), rows[0], 60).size == (60, 60)


def test_long_recordings_are_drawn_in_strips_without_losing_peaks(tmp_path):
    n = 30_000
    times, values = np.arange(n) / 10.0, np.zeros(n)
    values[12_345] = 9.0  # one row of thirty thousand
    times[20_000:] += 50_000.0
    path = write(tmp_path / "a.csv", {"time": times, "x": values})
    rows = rows_of_windows(times[: n - 200 : 100].tolist(), ["walk"] * 298)
    picture = _draw_series(path, "a.csv", rows, SeriesSettings(window=200, step=100), 0.0)
    points = [[tuple(map(float, point.split(","))) for point in line.split()] for line in picture.lines]
    assert len(points) >= 4  # strips
    assert all(0 <= x <= 1000 and 0 <= y <= picture.height for line in points for x, y in line)
    assert max(np.ptp([y for _, y in line]) for line in points) > 30  # the peak is there
    assert sum(len(line) for line in points) < 3 * 1000 * len(points)
    assert "1 gap, drawn short where long" in picture.title
    assert len(picture.regions) <= len(points) + 2
    assert any(text.startswith("from ") for _, text in picture.levels)
    assert SERIES.place_in_words({"start": 100.0, "end": 120.0}) == "1:40.00 to 2:00.00"
