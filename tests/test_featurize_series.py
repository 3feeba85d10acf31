"""Series of measurements to stretches: statistics against loops and known signals, bad tables."""

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest

from bagwise.dataset import rows_of
from bagwise.exceptions import FormatError
from bagwise.featurize import SeriesSettings, featurize_series
from bagwise.featurize.series import FREQUENCY_STATISTICS, TIME_STATISTICS, stretch_features

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
    found = stretch_features(values, 25.0)
    for k in range(2):
        np.testing.assert_allclose(
            found[14 * k : 14 * (k + 1)], loop_statistics(values[:, k].tolist(), 25.0), atol=1e-9
        )


def test_a_still_channel_is_flat():
    found = dict(zip(NAMES, stretch_features(np.full((16, 1), 3.0), 1.0), strict=True))
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
        ("x,y\n1,2\n3\n", "row 3: there are 1 cells but 2 columns"),
        ("x,y\n1,2\n3,four\n", "row 3: could not convert"),
        ("x,y\n1,2\n3,nan\n", "row 3: a value is not a finite number"),
        ("x,y\n", "no row below it"),
        ("time\n1\n2\n", "no column beside the time"),
        ("time,x\n1,1\n1,2\n", "row 3: the time does not rise"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(FormatError, match=message):
            featurize_series([tmp_path / "bad.csv"])
