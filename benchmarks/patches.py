"""Syllables as patches of the spectrogram, learned by a convolutional network, beside their 38 features.

`python -m benchmarks patches`, with BAGWISE_DEVICE=cuda on a GPU; with --quick some made recordings alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import numpy as np

from bagwise.app.media import AudioSettings
from bagwise.catalog import make_model
from bagwise.core.dataset import BagDataset
from bagwise.model_selection import evaluate
from benchmarks.common import Record, show
from benchmarks.soundscapes import cosmos_dataset, soundscape_dataset

MODELS = {
    "ored-background": "shape", "ored-forest-background": "shape", "ored-network": "shape", "ored-patch": "patch",
}  # fmt: skip
FOLDS = 3
MADE = 60


def measured(name: str, made: Callable[[AudioSettings], BagDataset | None], device: str) -> list[Record]:
    """Percent of the segments inside of an event that get its species, by every model on its features."""
    records = []
    data = {features: made(AudioSettings(features=features)) for features in dict.fromkeys(MODELS.values())}
    for model, features in MODELS.items():
        bags = data[features]
        if bags is None:
            return []
        own = {"background": True, **({"device": device} if features == "patch" or "network" in model else {})}
        learner = make_model(model, **own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a clip may list more species than it has segments
            folds = evaluate(learner, bags, cv=FOLDS, name=model)
            whole = evaluate(learner, bags, mode="transductive", name=model)
        records.append({
            "data": name, "model": model, "features": features, "segments": bags.bags.n_instances,
            "new recordings %": 100.0 * float(np.mean([fold["accuracy"] for fold in folds])),
            "species told %": 100.0 * whole[0]["accuracy"], "s a fit": whole[0]["fit_seconds"],
        })  # fmt: skip
        show(f"{name}: {model}", records[-1:], left=("model", "features"))
    return records


def main(quick: bool = False) -> list[Record]:
    try:
        import torch  # noqa: F401
    except ImportError:
        print("  torch is not there (make test-torch makes an environment with it): left out")
        return []
    device = os.environ.get("BAGWISE_DEVICE", "cpu")
    records = measured(
        "soundscapes", lambda settings: soundscape_dataset(20 if quick else MADE, 0, settings=settings), device
    )
    if not quick:
        records += measured("cosmos", cosmos_dataset, device)
    show(f"Species of segments inside of an event, percent right, on {device}", records, left=("model", "features"))
    return records
