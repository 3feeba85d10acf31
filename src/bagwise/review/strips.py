"""The files of a run as strips: each with its bags, their labels, and where their instances are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bagwise.review.snapshot import Snapshot, plain

ALONG = ("start", "end", "low", "high")


def list_files(
    now: Snapshot, files: Sequence[Mapping[str, Any]], search: str, limit: int, offset: int
) -> dict[str, Any]:
    """A page of the files whose names hold a text."""
    wanted = search.casefold()
    found = [i for i, file in enumerate(files) if wanted in file["file"].casefold()]
    return {
        "total": len(found),
        "revision": now.revision,
        "labels": now.labels,
        "files": [
            {"file": files[i]["file"], "seconds": files[i].get("seconds"), "bags": _bags(now, i)}
            for i in found[offset : offset + limit]
        ],
    }


def _bags(now: Snapshot, file: int) -> list[dict[str, Any]]:
    places, found = now.places, now.found
    rows = places.in_file(file)
    probability = np.full(len(rows), np.nan) if found.probability is None else found.probability[rows]
    columns = [
        places.position[rows].tolist(),
        *([plain(value) for value in places.columns[key][rows]] if key in places.columns else [None] * len(rows)
          for key in ALONG),
        now.codes[rows].tolist(),
        [plain(value) for value in probability],
        found.checked[rows].tolist(),
    ]  # fmt: skip
    by_bag: dict[int, list[Any]] = {}
    for bag, *cells in zip(places.bag_of[rows].tolist(), *columns, strict=True):
        by_bag.setdefault(bag, []).append(cells)
    return [
        {"bag": places.bag_names[bag], "labels": now.listed(bag), "instances": instances}
        for bag, instances in by_bag.items()
    ]
