"""A format of bags: a line of JSON per bag, with its name, labels and instances."""

import json
from pathlib import Path

from bagwise import BagDataset, Bags
from bagwise.io.data.formats import BAG_NAMES, CLASS_NAMES, DataFormat
from bagwise.io.files import atomic_write


def read_jsonl(path):
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    classes = sorted({label for row in rows for label in row["labels"]})
    Y = [[int(name in row["labels"]) for name in classes] for row in rows]
    bags = Bags.from_list([row["instances"] for row in rows])
    return BagDataset(bags, Y, classes, bag_names=[row["bag"] for row in rows]), f"{len(rows)} lines"


def write_jsonl(dataset, path):
    with atomic_write(path, "w") as file:
        for name, labels, bag in zip(dataset.bag_names, dataset.label_sets, dataset.bags, strict=True):
            row = {"bag": name, "labels": sorted(labels), "instances": bag.tolist()}
            file.write(json.dumps(row) + "\n")


JSONL = DataFormat("a line of JSON per bag", ".jsonl", read_jsonl, write_jsonl, frozenset({BAG_NAMES, CLASS_NAMES}))
