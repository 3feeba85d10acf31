"""Which event a syllable lies in, and how much of an event was found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bagwise.app.media.matching import _union_length, covered_share, match_events


def box(start, end, low=0.0, high=1.0, file="a"):
    return {"file": file, "start": start, "end": end, "low": low, "high": high}


def test_the_larger_overlap_wins():
    events = [box(0, 2, 0, 10), box(1, 5, 0, 10), box(0, 9, 50, 60), box(0, 9, file="b")]
    places = [box(1.5, 3, 0, 5), box(0, 1.4, 2, 3), box(6, 7, 0, 10), box(0, 1, 40, 51), box(0, 1, file="c")]
    assert match_events(places, events).tolist() == [1, 0, -1, 2, -1]
    in_time = [{k: e[k] for k in ("file", "start", "end")} for e in events]
    assert match_events([box(0, 9, 200, 300)], in_time).tolist() == [2]


def test_coverage_counts_time_once_and_in_the_band():
    events = [box(0, 10, 0, 10)]
    places = [box(1, 3, 0, 5), box(2, 4, 5, 9), box(5, 8, 20, 30), box(0, 9, file="b")]
    assert covered_share(places, events) == pytest.approx([0.3])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8))
def test_union_length_counts_cells(spans):
    cells = {c for start, end in spans for c in range(start, end)}
    assert _union_length([(float(a), float(b)) for a, b in spans]) == len(cells)
    assert np.isfinite(_union_length([]))
