"""Letters with several instances a label, some of which are forgotten: what a forest with a learned rate wins back."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from bagwise.annotation import ORedForest
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from benchmarks.common import Record, data_folder, show
from benchmarks.wrong_labels import spoil, true_rates

N_LETTERS, N_BAGS, N_NEW, N_DRAWS = 13, 250, 150, 3
MEANS = (2.0, 3.0, 4.0)  # instances a label
DROPPED = 0.2


def letters(mean: float, seed: int) -> tuple[BagDataset, BagDataset] | None:
    """Bags to learn from and new ones: one to three of 13 letters, each 1 + Poisson times; no letter is used twice."""
    folder = data_folder()
    if folder is None or not (folder / "letter_recognition.npz").is_file():
        print("  letter_recognition.npz is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return None
    with np.load(folder / "letter_recognition.npz", allow_pickle=False) as file:
        X, y = file["X"].astype(np.float64), file["y"]
    rng = np.random.default_rng(seed)
    chosen = rng.choice(26, N_LETTERS, replace=False)
    left = [rng.permutation(np.flatnonzero(y == letter)).tolist() for letter in chosen]
    bags, labels, Y = [], [], np.zeros((N_BAGS + N_NEW, N_LETTERS), dtype=np.uint8)
    for own in Y:
        classes = rng.choice(N_LETTERS, rng.integers(1, 4), replace=False)
        own[classes] = 1
        labels.append(np.repeat(classes, 1 + rng.poisson(mean - 1.0, len(classes))))
        bags.append(X[[left[c].pop() for c in labels[-1]]])
    whole = BagDataset(Bags.from_list(bags), Y, [chr(ord("A") + c) for c in chosen], Bags.from_list(labels))
    return whole[:N_BAGS], whole[N_BAGS:]


def unnoticed(data: BagDataset, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Label sets of the instances that are noticed, each by itself."""
    rows = np.flatnonzero(rng.random(data.bags.n_instances) >= rate)
    listed = np.zeros_like(data.Y)
    listed[data.bags.bag_index[rows], data.instance_labels.instances[rows]] = 1
    return listed


def main(quick: bool = False) -> list[Record]:
    """Accuracy on new bags, in percent: of right labels, of faulty ones taken for right, and with a learned rate."""
    records: list[Record] = []
    for mean in MEANS:
        found: dict[str, list[dict[str, float]]] = {"labels dropped": [], "instances unnoticed": []}
        for draw in range(1 if quick else N_DRAWS):
            made = letters(mean, draw)
            if made is None:
                return records
            data, new = made
            rng, rate = np.random.default_rng(draw), true_rates(data, DROPPED, 0.0)[0]

            def right(Y: np.ndarray, data: BagDataset = data, new: BagDataset = new, **rates: str) -> float:
                used = Y.any(axis=1) | bool(rates)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # bags that cannot be explained, by design
                    model = ORedForest(100, random_state=0, **rates).fit(data.bags[used], Y[used])
                return 100 * float(np.mean(model.predict_instances(new.bags) == new.instance_labels.instances))

            clean = right(data.Y)
            faulty = (spoil(data.Y, DROPPED, 0.0, rng), unnoticed(data, rate, rng))
            for rows, Y in zip(found.values(), faulty, strict=True):
                rows.append({"right labels": clean, "plain": right(Y), "learned": right(Y, missed="learn")})
        for fault, rows in found.items():
            row = {key: float(np.mean([one[key] for one in rows])) for key in rows[0]}
            won = (row["learned"] - row["plain"]) / (row["right labels"] - row["plain"])
            records.append({"instances a label": mean, "fault": fault, **row, "won back, %": 100 * won})
            print({k: round(v, 2) if isinstance(v, float) else v for k, v in records[-1].items()}, flush=True)
    show("Forgotten letters", records, left=("fault",))
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
