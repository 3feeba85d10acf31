"""A user's script with the public names of bagwise, which `mypy --strict` has to pass (tests/test_core_typing.py)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bagwise
from bagwise import BagDataset, Bags, ORedLogisticRegression, SupportInstanceMachine, make_pipeline, metrics
from bagwise.annotation import CLPL, ORedForest
from bagwise.classification import M3MIML
from bagwise.core.typing import BagsLike, Callback, LabelsLike, Learner
from bagwise.datasets import make_gaussian_bags
from bagwise.model_selection import ModelChoice, choose_model, evaluate, summarize
from bagwise.preprocessing import CLPLScaler, PerInstance

Floats = npt.NDArray[np.float64]


def bags_of_mine(n_bags: int, rng: np.random.Generator) -> list[Floats]:
    return [rng.normal(size=(3, 2)) for _ in range(n_bags)]


def train(X: BagsLike, y: LabelsLike, callback: Callback | None = None) -> ORedLogisticRegression:
    return ORedLogisticRegression(l2=0.5).fit(X, y, callback=callback)


def share_right(model: ORedLogisticRegression, data: BagDataset) -> float:
    given: npt.NDArray[Any] = model.annotate(data)
    assert data.instance_labels is not None
    return metrics.instance_accuracy(data.instance_labels, given)


def best_of(models: dict[str, Learner], data: BagDataset) -> str:
    choice: ModelChoice = choose_model(models, data, cv=2)
    return choice.name


def main() -> dict[str, float]:
    rng = np.random.default_rng(0)
    heard: list[int] = []
    sets: list[set[str]] = [{"a"} if i % 2 else {"a", "b"} for i in range(10)]
    mine = train(bags_of_mine(10, rng), sets, lambda number, objective: heard.append(number))
    predicted: list[set[Any]] = mine.predict_label_sets(bags_of_mine(2, rng))

    data: BagDataset = make_gaussian_bags(n_bags=30, n_features=3, n_classes=5, random_state=0)
    bags: Bags = data.bags
    sizes: npt.NDArray[Any] = bags.sizes
    model = train(data, data)
    pipe = make_pipeline(PerInstance(CLPLScaler()), SupportInstanceMachine(alpha=1e-6)).fit(data)
    scores: float = pipe.score(data.bags, data.Y)
    forest = ORedForest(n_estimators=5, n_rounds=2, random_state=0).fit(bags, data.Y, sample_weight=np.ones(len(bags)))
    bag_level = M3MIML(kernel="linear").fit(bags, y=data.Y)
    error: float = metrics.hamming_loss(np.asarray(data.Y), bag_level.predict(bags))
    records = summarize(evaluate(CLPL(C=1.0), data, cv=2))
    chosen = best_of({"forest": forest, "linear": model}, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bagwise"
        bagwise.save(model, path)
        again = bagwise.load(path)
    everything = Bags.concatenate([bags, bags[:5]])
    return {
        "iterations": float(len(heard)),
        "predicted": float(len(predicted)),
        "bags": float(len(everything)),
        "instances": float(sizes.sum()),
        "right": share_right(model, data),
        "pipe": scores,
        "error": error,
        "records": float(len(records)),
        "chosen": float(chosen in ("forest", "linear")),
        "same": float(bool(np.array_equal(again.predict(bags), model.predict(bags)))),
        "scorer": metrics.get_scorer("average_precision")(model, data),
    }


if __name__ == "__main__":
    print(main())
