"""Prediction from a parquet file of 5,000,000 instances by 64 features, beside the same prediction on arrays in memory.

Asked for: under 600 MB of memory, and at least a third of the speed in memory. The file is made here, in a temporary
folder. Both sides run in processes of their own, one after the other, so that each one's memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import bagwise
from bagwise import BagDataset, Bags
from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data._parquet_write import write_parquet
from benchmarks.common import Record, show, with_ratio

N_FEATURES, N_CLASSES, PIECE = 64, 10, 100_000
MEGABYTE = 1_000_000
ROUNDS = 3

_CHILD = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
import bagwise
model, source, target = bagwise.load(sys.argv[2]), sys.argv[3], sys.argv[4]
if sys.argv[1] == "file":
    from bagwise.io.data.formats import iter_dataset
    from bagwise.app.runs.predictions import predict_piece
    from bagwise.app.formats.results import write_results
    warm = next(iter_dataset(source, with_labels=False)[0])
    model.predict(warm.bags[:10])
    started, busy = time.perf_counter(), time.process_time()
    pieces = (predict_piece(model, piece) for piece in iter_dataset(source, with_labels=False)[0])
    write_results(pieces, target, {})
else:
    from bagwise.io.data.formats import read_dataset
    bags = read_dataset(source).bags
    model.predict(bags[:10])
    started, busy = time.perf_counter(), time.process_time()
    labels = model.predict(bags)
seconds, processor = time.perf_counter() - started, time.process_time() - busy
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "processor": processor, "peak": peak}))
"""


def make_pieces(n_instances: int, rng: np.random.Generator) -> Iterator[BagDataset]:
    """Bags of 1 to 19 instances in pieces, as they would come from a long recording."""
    done = 0
    while done < n_instances:
        sizes = rng.integers(1, 20, PIECE // 10)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        offsets = offsets[: np.searchsorted(offsets, min(PIECE, n_instances - done), side="right")]
        left = min(PIECE, n_instances - done) - offsets[-1]
        offsets = np.append(offsets, offsets[-1] + left) if left else offsets
        X = rng.normal(size=(offsets[-1], N_FEATURES)).astype(np.float32)
        yield BagDataset(Bags(X, offsets), bag_names=[f"clip{done + start:08d}" for start in offsets[:-1]])
        done += int(offsets[-1])


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return records."""
    n_instances = 500_000 if quick else 5_000_000
    train = make_gaussian_bags(n_bags=300, n_features=N_FEATURES, n_classes=N_CLASSES, random_state=0)
    model = make_model("ored").fit(train.bags, train.Y)
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        bagwise.save(model, folder / "m.bagwise")
        started = time.perf_counter()
        pieces = make_pieces(n_instances, np.random.default_rng(0))
        write_parquet(pieces, folder / "x.parquet", nested=False, numbered=False)
        size = (folder / "x.parquet").stat().st_size
        print(f"  made {n_instances} instances, {size / MEGABYTE:.0f} MB, in {time.perf_counter() - started:.0f} s")
        figures: dict[str, dict[str, float]] = {}
        for _ in range(ROUNDS):  # in turns, so that a noisy spell hits both
            for side in ("memory", "file"):
                command = [
                    sys.executable,
                    "-c",
                    _CHILD,
                    side,
                    *(folder / n for n in ("m.bagwise", "x.parquet", "o.csv")),
                ]
                done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
                figure = json.loads(done.stdout)
                best = figures.setdefault(side, figure)
                for key in ("seconds", "processor"):
                    best[key] = min(best[key], figure[key])
                best["peak"] = max(best["peak"], figure["peak"])
        ratio = figures["memory"]["seconds"] / figures["file"]["seconds"]
        for side, figure in figures.items():
            records.append({
                "from": side, "instances": n_instances, "seconds": figure["seconds"],
                "processor_seconds": figure["processor"],
                "instances_a_second": n_instances / figure["seconds"], "peak_mb": figure["peak"] / MEGABYTE,
                "speed_beside_memory": 1.0 if side == "memory" else ratio,
            })  # fmt: skip
        what = f"prediction from a file of {n_instances:,} instances"
        records[-1] = with_ratio(records[-1], what, "arrays in memory", ratio, asked=">= 0.33")
    show("Prediction; asked for: from the file under 600 MB, and at least 0.33 of the speed in memory", records)
    return records


if __name__ == "__main__":
    main()
