"""Every real data set through every format and back: what comes back, to the last bit.

Asked for: equal where the format can hold it; docs/formats says where it cannot.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.data.formats import BAG_NAMES, FORMATS, INSTANCE_LABELS, SAME_NAMES, read_dataset, write_dataset
from benchmarks.common import Record, data_folder, show

QUICK = ("letter_frost_rebuilt", "musk1")


def differences(back: BagDataset, data: BagDataset, name: str) -> list[str]:
    """What the format should have kept and did not."""
    holds = FORMATS[name].holds
    out = []
    if back.bags.instances.tobytes() != data.bags.instances.tobytes() or back.bags != data.bags:
        out.append("features")
    if not np.array_equal(back.Y, data.Y):
        out.append("labels")
    if len(back.class_names) > 1 and back.class_names != [str(name) for name in data.class_names]:
        out.append("class names")
    names, found = ([str(x) for x in which.bag_names] for which in (data, back))
    keeps_names = BAG_NAMES in holds and (SAME_NAMES in holds or len(set(names)) == len(names))
    if keeps_names and found != names:
        out.append("bag names")
    keeps_instances = INSTANCE_LABELS in holds and data.instance_labels is not None and data.n_classes > 1
    if keeps_instances and back.instance_labels != data.instance_labels:
        out.append("instance labels")
    return out


def round_trip(data: BagDataset, name: str, folder: Path) -> Any:
    """Size and seconds, or why it was refused."""
    path = folder / f"x{FORMATS[name].extension}"
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            write_dataset(data, path, name)
    except InputError as error:
        return f"refused: {error}"[:60]
    lost = differences(read_dataset(path, name), data, name)
    seconds = time.perf_counter() - started
    return f"{'LOST ' + ', '.join(lost) if lost else 'equal'}, {path.stat().st_size / 1e6:.1f} MB, {seconds:.1f} s"


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return records."""
    folder = data_folder()
    if folder is None:
        print("  no real data (set BAGWISE_DATA to its folder): left out")
        return []
    records = []
    with tempfile.TemporaryDirectory() as temporary:
        for file in sorted(folder.glob("*.npz")):
            if file.stem == "letter_recognition" or (quick and file.stem not in QUICK):  # the first has no bags
                continue
            data = read_dataset(file)
            records += [
                {"data": file.stem, "format": name, "outcome": round_trip(data, name, Path(temporary))}
                for name in FORMATS
            ]
    show("Round trips; asked for: equal where the format can hold it", records)
    return records


if __name__ == "__main__":
    main()
