"""Run lengths of regions: against brute force, and against pycocotools."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from bagwise.app.media.rle import compress_counts, expand_counts, ring_area, ring_counts, sample_counts


def brute_force(rings, height, width):
    """Middles of points from which a line upwards crosses the rings an odd number of times."""
    y, x = np.mgrid[:height, :width] + 0.5
    inside = np.zeros((height, width), dtype=bool)
    for ring in rings:
        for (x1, y1), (x2, y2) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            if x1 != x2:
                inside ^= ((x1 > x) != (x2 > x)) & (y1 + (x - x1) / (x2 - x1) * (y2 - y1) < y)
    return inside


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000))
def test_rings_are_filled_as_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 50, 2)
    rings = [rng.random((rng.integers(3, 9), 2)) * [width + 4, height + 4] - 2 for _ in range(rng.integers(1, 4))]
    expected = brute_force(rings, height, width)
    counts = ring_counts(rings, height, width)
    assert (sample_counts(counts, (height, width), (height, width)) == expected).all()
    assert ring_area(rings, height, width) == expected.sum()
    encoded = coco_mask.encode(np.asfortranarray(expected.astype(np.uint8)))
    assert compress_counts(counts) == encoded["counts"].decode()
    assert expand_counts(encoded["counts"].decode()) == counts


def test_a_copy_is_sampled_at_the_middles():
    whole = np.zeros((40, 60), dtype=np.uint8)
    whole[10:20, 15:45] = 1
    counts = expand_counts(coco_mask.encode(np.asfortranarray(whole))["counts"].decode())
    assert (sample_counts(counts, (40, 60), (20, 30)) == whole[1::2, 1::2].astype(bool)).all()


def test_what_are_no_run_lengths_is_refused():
    with pytest.raises(ValueError, match="no part of run lengths"):
        expand_counts("é")
    with pytest.raises(ValueError, match="break off"):
        expand_counts(compress_counts([1000, 7])[:1])
    with pytest.raises(ValueError, match="those of 7 points, not of 2 x 3"):
        sample_counts([3, 4], (2, 3), (2, 3))
