"""`--model auto` beside the learners that it chooses from: how far what it takes is behind the best of them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from bagwise import BagDataset
from bagwise.app.runs.choose import choose_learner
from bagwise.app.runs.learner import make_learner
from bagwise.catalog import USUAL
from bagwise.core.exceptions import BackgroundShareWarning, InfeasibleBagWarning
from benchmarks.common import Record, load_real, show
from benchmarks.soundscapes import cosmos_dataset, soundscape_dataset

NOISE_SHARE = 0.1  # as `bagwise annotate` has it
JUDGES = ("letter_carroll_rebuilt", "letter_frost_rebuilt", "msrc_v2", "hja_birdsong_filtered")
"""Sets that nothing about the choice was made with."""
SOUNDSCAPES, COSMOS = tuple(f"soundscapes-{seed}" for seed in range(3)), "cosmos"


def data_sets(names: Sequence[str]) -> Iterator[BagDataset]:
    for name in names:
        if name in SOUNDSCAPES:
            data: BagDataset | None = soundscape_dataset(60, SOUNDSCAPES.index(name))
        else:
            data = cosmos_dataset() if name == COSMOS else load_real(name)
        if data is not None:
            yield data


def judge(data: BagDataset) -> Record:
    """Percent of the instances with a known class that are named right, the labels of their bag told."""
    assert data.instance_labels is not None
    truth = data.instance_labels.instances
    known = truth >= 0
    record: Record = {"data": data.name, "bags": len(data), "instances": data.bags.n_instances}
    with warnings.catch_warnings():
        for category in (InfeasibleBagWarning, BackgroundShareWarning):
            warnings.simplefilter("ignore", category)
        choice = choose_learner(lambda name, settings: make_learner(name, settings, NOISE_SHARE), data)
        for name in USUAL:
            labels = make_learner(name, {}, NOISE_SHARE).fit(data.bags, data.Y).annotate(data.bags, data.Y)
            record[name] = 100 * float(np.mean(labels[known] == truth[known]))
    best = max(record[name] for name in USUAL)
    scores = {row["model"]: 100 * row["score"] for row in choice["rows"]}
    return record | {
        "chosen": choice["model"], "behind the best": best - record[choice["model"]],
        "means": " / ".join(f"{scores[name]:.1f}" for name in USUAL),
    }  # fmt: skip


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records. BAGWISE_WHICH_MODEL may name the data sets, by default all."""
    default = (SOUNDSCAPES[0], COSMOS) if quick else (*SOUNDSCAPES, COSMOS, *JUDGES)
    names = os.environ.get("BAGWISE_WHICH_MODEL", " ".join(default)).split()
    records = []
    for data in data_sets(names):
        records.append(judge(data))
        print(f"  {data.name}: {records[-1]['chosen']}", flush=True)
    title = "Instances named right, percent, labels of the bags told; what --model auto takes"
    show(title, records, ("chosen", "means"))
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
