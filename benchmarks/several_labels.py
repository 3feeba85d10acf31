"""Windows with any number of labels: noisy-or, the model of one label per instance, and every label given.

Made windows hold 0 to 4 sounds whose features add up (Poisson, .5 to 2.5 on average); eight are a bag, whose labels
alone are learned from. Asked for: an average precision per window and label of at least 96 on new bags. Then calls that
overlap in made soundscapes, windows of three seconds described by their own spectrum; and time per iteration, against a
logistic regression of scikit-learn per label that is given the labels of all instances.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy.signal import stft
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.calibration import CalibratedLabelSets
from bagwise.catalog import make_model
from bagwise.core.exceptions import InfeasibleBagWarning
from bagwise.datasets import make_soundscape
from bagwise.metrics import average_precision, reliability_table
from benchmarks.common import Record, load_real, peak_memory, show, with_ratio

N_CLASSES, PER_BAG, MOST = 12, 8, 4
ONE_LABEL_EACH = (
    "hja_birdsong", "hja_birdsong_filtered", "letter_carroll_rebuilt", "letter_frost_rebuilt", "msrc_v2",
)  # fmt: skip
RATES = (0.5, 1.0, 1.5, 2.5)
SECONDS, WINDOW, N_BANDS = 30.0, 3.0, 24


def made_windows(
    rate: float, n_bags: int = 300, seed: int = 0, n_features: int = 20, noise: float = 0.7
) -> tuple[Bags, np.ndarray, np.ndarray]:
    """Bags of windows, the label sets of the bags, and those of the windows."""
    sounds = np.random.default_rng(12).normal(size=(N_CLASSES, n_features))
    rng = np.random.default_rng(seed)
    truth = np.zeros((n_bags * PER_BAG, N_CLASSES), dtype=np.int64)
    for row, number in zip(truth, np.minimum(rng.poisson(rate, len(truth)), MOST), strict=True):
        row[rng.choice(N_CLASSES, number, replace=False)] = 1
    X = truth @ sounds + noise * rng.normal(size=(len(truth), n_features))
    bags = Bags(X, np.arange(0, len(truth) + 1, PER_BAG))
    return bags, np.maximum.reduceat(truth, bags.offsets[:-1], axis=0), truth


def accuracy(n_draws: int) -> list[Record]:
    """Average precision over all windows and labels, new bags (inductive) and those learned from (transductive)."""
    records: list[Record] = []
    for rate in RATES:
        found: dict[str, list[float]] = {}
        for draw in range(n_draws):
            bags, Y, truth = made_windows(rate, seed=2 * draw)
            new, _, new_truth = made_windows(rate, seed=2 * draw + 1)
            models = {
                "noisy-or": NoisyOrLogisticRegression().fit(bags, Y),
                "one label": ORedLogisticRegression(background=True, on_infeasible="relax").fit(bags, Y),
            }
            all_given = OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(bags.instances, truth)
            scores = {f"{name}, new": model.predict_instances_proba(new) for name, model in models.items()}
            scores["every window given, new"] = all_given.predict_proba(new.instances)
            for name, values in scores.items():
                found.setdefault(name, []).append(average_precision_score(new_truth, values, average="micro"))
            for name, model in models.items():
                values = model.annotate_proba(bags, Y)
                found.setdefault(f"{name}, given labels", []).append(
                    average_precision_score(truth, values, average="micro")
                )
        records.append({"sounds per window": rate, **{name: 100 * float(np.mean(v)) for name, v in found.items()}})
    return records


def windows_of_scene(seed: int, n_recordings: int, species: tuple[int, int]) -> tuple[Bags, np.ndarray, np.ndarray]:
    """Recordings of half a minute as bags of windows, the species of each recording, and those of each window.

    A window is described by how far each of some bands of frequency rises above the recording's noise, at its loudest
    and on average. It carries a species of which it holds a tenth of a second.
    """
    scene = make_soundscape(n_recordings, seconds=SECONDS, species_per_recording=species, random_state=seed)
    edges = np.geomspace(250.0, scene.rate / 2, N_BANDS + 1)
    X: list[np.ndarray] = []
    names = {name: i for i, name in enumerate(scene.names)}
    for samples in scene.recordings:
        frequencies, _, spectrum = stft(samples, scene.rate, nperseg=512, noverlap=256)
        band = np.clip(np.searchsorted(edges, frequencies, side="right") - 1, -1, N_BANDS - 1)
        power = np.abs(spectrum) ** 2
        level = 10 * np.log10(np.stack([power[band == b].mean(axis=0) for b in range(N_BANDS)]) + 1e-12)
        level -= np.median(level, axis=1, keepdims=True)
        parts = np.array_split(level, round(SECONDS / WINDOW), axis=1)
        X += [np.concatenate([np.quantile(part, 0.98, axis=1), part.mean(axis=1)]) for part in parts]
    per_bag = round(SECONDS / WINDOW)
    truth = np.zeros((len(X), len(scene.species)), dtype=np.int64)
    for event in scene.events:
        first, last = (event["start"] + 0.1) // WINDOW, (event["end"] - 0.1) // WINDOW
        for window in range(int(first), min(int(last), per_bag - 1) + 1):
            truth[names[event["file"]] * per_bag + window, scene.species.index(event["label"])] = 1
    bags = Bags(np.array(X), np.arange(0, len(X) + 1, per_bag))
    return bags, np.maximum.reduceat(truth, bags.offsets[:-1], axis=0), truth


def overlapping(quick: bool = False) -> list[Record]:
    """Average precision over all windows and species of made soundscapes, those learned from and new ones."""
    records: list[Record] = []
    for species in ((1, 3), (2, 5), (4, 7)):
        found: dict[str, list[float]] = {}
        for draw in range(1 if quick else 5):
            n = 30 if quick else 100
            (bags, Y, truth), (new, _, new_truth) = (windows_of_scene(2 * draw + i, n, species) for i in (0, 1))
            found.setdefault("species per window", []).append(truth.sum(axis=1).mean() / 100)
            scaler = StandardScaler().fit(bags.instances)
            given = OneVsRestClassifier(LogisticRegression(max_iter=1000))
            given.fit(scaler.transform(bags.instances), truth)
            for name in ("noisy-or", "ored-background"):
                model = make_model(name, **({} if name == "noisy-or" else {"on_infeasible": "relax"})).fit(bags, Y)
                scores = {"new": model.predict_instances_proba(new), "given labels": model.annotate_proba(bags, Y)}
                for where, proba in scores.items():
                    labels = new_truth if where == "new" else truth
                    precision = average_precision_score(labels, proba, average="micro")
                    found.setdefault(f"{name}, {where}", []).append(precision)
            proba = given.predict_proba(scaler.transform(new.instances))
            precision = average_precision_score(new_truth, proba, average="micro")
            found.setdefault("every window given, new", []).append(precision)
        record: Record = {"species per recording": "{} to {}".format(*species)}
        record |= {name: 100 * float(np.mean(values)) for name, values in found.items()}
        for where in ("new", "given labels"):
            gaps = 100 * (np.array(found[f"noisy-or, {where}"]) - np.array(found[f"ored-background, {where}"]))
            record[f"ahead, {where}"], record[f"at least, {where}"] = float(gaps.mean()), float(gaps.min())
        records.append(record)
    show("Calls that overlap, windows of 3 s: average precision per window and species, %", records)
    return records


def label_sets(folds: int) -> list[Record]:
    """Average precision of the label sets of new bags: 1 - prod_i (1 - p_ic) of either model."""
    records: list[Record] = []
    for name in ("hja_birdsong", "miml_scene", "msrc_v2"):
        data = load_real(name)
        if data is None:
            continue
        record: Record = {"data": name}
        for model in ("noisy-or", "ored-background"):
            found = []
            for train, test in KFold(folds, shuffle=True, random_state=0).split(np.zeros(len(data))):
                fitted = make_model(model).fit(data.bags[train], data.Y[train])
                found.append(average_precision(data.Y[test], fitted.predict_proba(data.bags[test])))
            record[model] = 100 * float(np.mean(found))
        records.append(record)
    return records


def calibration(n_draws: int) -> list[Record]:
    """Expected calibration error of windows and labels, before and after `CalibratedLabelSets`."""
    records: list[Record] = []
    for n_bags in (40, 100, 300):
        for noise in (0.7, 1.5):
            found: dict[str, list[float]] = {}
            for draw in range(n_draws):
                bags, Y, truth = made_windows(1.0, n_bags, seed=2 * draw, noise=noise)
                new, _, new_truth = made_windows(1.0, seed=2 * draw + 1, noise=noise)
                model = CalibratedLabelSets(NoisyOrLogisticRegression()).fit(bags, Y)
                for name, one in (("as learned", model.estimator_), ("calibrated", model)):
                    pairs = (one.predict_instances_proba(new), new_truth), (one.annotate_proba(bags, Y), truth)
                    for where, (proba, labels) in zip(("new", "labels given"), pairs, strict=True):
                        rows = reliability_table(labels, proba)
                        gaps = [row["count"] * abs(row["accuracy"] - row["confidence"]) for row in rows]
                        found.setdefault(f"{where}, {name}", []).append(sum(gaps) / labels.size)
            means = {name: 100 * float(np.mean(values)) for name, values in found.items()}
            records.append({"bags": n_bags, "noise": noise, **means})
    return records


def which(quick: bool) -> list[Record]:
    """Held-out log loss per bag of its labels, five folds: does it tell what an instance is?

    A difference beyond its standard error over the bags says which of the two models is right.
    """
    made = {f"windows, {rate} sounds, {n} bags": made_windows(rate, n)[:2] for rate in RATES for n in (40, 300)}
    real = {name: load_real(name) for name in (() if quick else ONE_LABEL_EACH)}
    sets = made | {name: (data.bags, data.Y) for name, data in real.items() if data is not None}
    records: list[Record] = []
    for name, (bags, Y) in sets.items():
        losses = {}
        for model in ("noisy-or", "ored-background"):
            proba = np.empty(Y.shape)
            for train, test in KFold(5, shuffle=True, random_state=0).split(np.zeros(len(bags))):
                proba[test] = make_model(model).fit(bags[train], Y[train]).predict_proba(bags[test])
            proba = np.clip(proba, 1e-6, 1 - 1e-6)
            losses[model] = -np.where(Y == 1, np.log(proba), np.log1p(-proba)).sum(axis=1)
        difference = losses["noisy-or"] - losses["ored-background"]
        error = float(difference.std() / np.sqrt(len(Y)))
        means = {model: float(values.mean()) for model, values in losses.items()}
        records.append({"data": name, **means, "difference": float(difference.mean()), "standard error": error})
    return records


def speed(n_instances: int, n_classes: int, n_features: int = 40) -> Record:
    """Seconds per iteration, and for 5,000 classes the memory of a fit beyond its data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_instances, n_features))
    truth = rng.random((n_instances, n_classes)) < 0.05
    offsets = np.arange(0, n_instances + 1, PER_BAG)
    bags, Y = Bags(X, offsets), np.logical_or.reduceat(truth, offsets[:-1]).astype(np.uint8)
    NoisyOrLogisticRegression(max_iter=2, tol=1e-12).fit(bags[:100], Y[:100])  # compiles
    seconds = {}
    for name, few, many in (("noisy-or", 2, 7), ("one logistic regression per label", 2, 7)):
        times = []
        for n in (few, many):
            started = time.perf_counter()
            if name == "noisy-or":
                NoisyOrLogisticRegression(max_iter=n, tol=1e-12).fit(bags, Y)
            else:
                for c in range(min(n_classes, 10)):
                    LogisticRegression(max_iter=n, tol=1e-12).fit(X, truth[:, c])
            times.append(time.perf_counter() - started)
        scale = 1.0 if name == "noisy-or" else n_classes / min(n_classes, 10)
        seconds[name] = scale * (times[1] - times[0]) / (many - few)
    ours, theirs = seconds.values()
    record = {"instances": n_instances, "classes": n_classes, **seconds}
    return with_ratio(
        record, f"noisy-or, an iteration ({n_instances:,} instances, {n_classes} classes)",
        "scikit-learn, one logistic regression per label, all labels given", theirs / ours, asked="1",
    )  # fmt: skip


def memory(n_classes: int = 5_000, n_bags: int = 2_000) -> Record:
    """Of a fit with many classes, beyond its data."""
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(n_bags * PER_BAG, 40)), np.arange(0, n_bags * PER_BAG + 1, PER_BAG))
    Y = (rng.random((n_bags, n_classes)) < 3 / n_classes).astype(np.uint8)
    with peak_memory() as used:
        NoisyOrLogisticRegression(max_iter=5, tol=1e-12).fit(bags, Y)
    return {"classes": n_classes, "bags": n_bags, "GB beyond the data": max(used.values(), default=0) / 1e9}


def main(quick: bool = False) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations are timed
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # more labels than windows: one label each cannot say it
        figures = accuracy(1 if quick else 5)
        show("Average precision per window and label, %", figures)
        heard = overlapping(quick)
        sets = label_sets(2 if quick else 10)
        show("Average precision of the label sets of new bags, %", sets)
        calibrated = calibration(1 if quick else 5)
        show("Expected calibration error of windows and labels, points", calibrated)
        chosen = which(quick)
        show("Held-out log loss per bag", chosen)
        times = [speed(20_000, 20)] if quick else [speed(100_000, 100), speed(1_000_000, 100)]
        show("Seconds per iteration", times)
        needed = [memory(500 if quick else 5_000)]
        show("Memory", needed)
    return [*figures, *heard, *sets, *calibrated, *chosen, *times, *needed]
