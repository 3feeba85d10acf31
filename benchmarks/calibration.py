"""Are probabilities right? Before and after calibration, on real sets and on recordings; and what a precision costs."""

from __future__ import annotations

import os
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from bagwise import BagDataset, Bags
from bagwise.app.runs.learner import with_last_step
from bagwise.calibration import CalibratedAnnotator, CalibratedPrecision, select_at_precision
from bagwise.calibration.novelty import Novelty
from bagwise.catalog import make_model
from bagwise.metrics import calibration_error
from bagwise.pipeline import final_step, find_instances
from benchmarks.common import SECONDS, Record, load_real, show, with_ratio
from benchmarks.soundscapes import cosmos_dataset, soundscape_dataset

SETS = ("hja_birdsong_filtered", "msrc_v2", "letter_carroll_rebuilt", "letter_frost_rebuilt")
MODELS = ("ored", "ored-forest")
RECORDED = ("ored-background", "ored-forest")
QUICK_FOREST = {"n_estimators": 100, "n_round_trees": 50, "n_rounds": 6}
PRECISIONS = (0.8, 0.9, 0.95)
NEW, SUPERVISION, SEEN, LABELS = "new instances", "told, new bags", "told, learned from", "bag labels"
BEFORE, AFTER = "before", "after"
Outcomes = dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray, np.ndarray]]]
"""Place and time to what came, how probable it was said to be, and what of that is promised, fold by fold."""


def usable(data: BagDataset) -> BagDataset:
    """The bags that a union of labels can explain."""
    return data[data.Y.any(axis=1) & (data.bags.sizes >= data.Y.sum(axis=1))]


def calibrated(model: Any) -> Any:
    """With its last step calibrated, as `bagwise annotate` does it."""
    return with_last_step(model, CalibratedAnnotator(final_step(model)))


def uncalibrated(model: Any) -> Any:
    """The same fit, its probabilities as they came."""
    return with_last_step(model, final_step(model).estimator_)


def top(truth: np.ndarray, findings: Any, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether the label is right, its probability, and the label."""
    return (findings.labels == truth)[counted].astype(float), findings.probability[counted], findings.labels[counted]


def judge(
    before: Any, after: Any, training: BagDataset, held: BagDataset, out: Outcomes, noise_counts: bool = False
) -> None:
    """Add what came and what was promised, before and after; `noise_counts`: what is of no class is wrong."""
    for when, judged in ((BEFORE, before), (AFTER, after)):
        for where, part, told in ((NEW, held, False), (SUPERVISION, held, True), (SEEN, training, True)):
            truth = part.instance_labels.instances
            counted = np.ones(len(truth), dtype=bool) if noise_counts else truth >= 0
            findings = find_instances(judged, part.bags, part.Y if told else None)
            came, probability, labels = top(truth, findings, counted & (findings.labels >= 0))
            promised = CalibratedPrecision.of_model(final_step(judged)).of(labels, probability, told)
            out.setdefault((where, when), []).append((came, probability, promised))
        said = judged.predict_proba(held.bags).ravel()
        out.setdefault((LABELS, when), []).append((held.Y.ravel(), said, said))


def errors(out: Outcomes) -> Record:
    """Expected calibration errors, all folds together."""
    found: Record = {}
    for where in (NEW, SUPERVISION, SEEN, LABELS):
        for when in (BEFORE, AFTER):
            parts = out[where, when]
            came, promised = (np.concatenate([part[i] for part in parts]) for i in range(2))
            found[f"{where}, {when}"] = calibration_error(came, promised)
    return found


def accuracies(out: Outcomes) -> Record:
    """Percent of the labels that are right: what calibration does to the labels themselves."""
    return {
        f"{where}, {when}": 100 * float(np.mean(np.concatenate([right for right, *_ in out[where, when]])))
        for where in (NEW, SUPERVISION, SEEN)
        for when in (BEFORE, AFTER)
    }


def precision_rows(out: Outcomes, **about: Any) -> list[Record]:
    """Asked and got, and the share of all right labels that is kept; the set is chosen fold by fold."""
    rows = []
    for where in (NEW, SUPERVISION, SEEN):
        for asked in PRECISIONS:
            row: Record = {**about, "instances": where, "asked": asked}
            for when in (BEFORE, AFTER):
                parts = [right[select_at_precision(promised, asked)] for right, _, promised in out[where, when]]
                n_right = sum(right.sum() for right, *_ in out[where, when])
                held = np.concatenate(parts)
                row[f"precision {when}"] = float(held.mean()) if len(held) else None
                row[f"recall {when}"] = float(held.sum() / n_right)
                row[f"kept {when}"] = len(held) / sum(len(right) for right, *_ in out[where, when])
            rows.append(row)
    return rows


def learner(name: str, quick: bool, **settings: Any) -> Any:
    return make_model(name, **({**QUICK_FOREST, **settings} if quick and name == "ored-forest" else settings))


def on_sets(quick: bool, sets: tuple[str, ...], names: tuple[str, ...]) -> tuple[list[Record], list[Record]]:
    """Ten folds of every set."""
    tables: list[Record] = []
    promises: list[Record] = []
    right: list[Record] = []
    for set_name in sets:
        data = load_real(set_name)
        if data is None:
            continue
        data = usable(data)
        for name in names:
            out: Outcomes = {}
            seconds = []
            for train, test in KFold(3 if quick else 10, shuffle=True, random_state=0).split(np.arange(len(data))):
                training, held = data[train], data[test]
                started = time.process_time()
                model = calibrated(learner(name, quick)).fit(training.bags, training.Y)
                seconds.append(time.process_time() - started)
                judge(uncalibrated(model), model, training, held, out)
            started = time.process_time()
            learner(name, quick).fit(training.bags, training.Y)
            ratio = seconds[-1] / (time.process_time() - started)
            row = {"set": set_name, "model": name, **errors(out)}
            print(
                {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True
            )
            tables.append(with_ratio(row, f"{name} calibrated, {set_name}", "not calibrated", ratio, unit=SECONDS))
            right.append({"set": set_name, "model": name, **accuracies(out)})
            promises += precision_rows(out, set=set_name, model=name)
    show("Labels that are right, percent", right, left=("model",))
    return tables, promises


# -- recordings -------------------------------------------------------------------------------------------------------


def soundscapes(quick: bool) -> tuple[BagDataset, BagDataset]:
    """The demo's recordings, and the new ones that it annotates with the model of those."""
    return soundscape_dataset(20 if quick else 60, 0), soundscape_dataset(20, 1_000_003)


def on_recordings(quick: bool, names: tuple[str, ...]) -> tuple[list[Record], list[Record]]:
    """Segments in an event, and all of them, where those outside of events are wrong whatever they are called."""
    rows: list[Record] = []
    promises: list[Record] = []
    right: list[Record] = []
    known, new = soundscapes(quick)
    birds = cosmos_dataset()
    for name in names:
        share = {"background_share": 0.1} if name == "ored-background" else {}

        def both(part: BagDataset, name: str = name, share: Record = share) -> tuple[Any, Any]:
            model = calibrated(learner(name, quick, **share)).fit(part.bags, part.Y)
            return uncalibrated(model), model

        for noise_counts in (False, True):
            if name == "ored-forest" and noise_counts:
                continue  # it knows no noise
            what = "all segments" if noise_counts else "segments in events"
            out: Outcomes = {}
            judge(*both(known), known, new, out, noise_counts)
            rows.append({"recordings": "soundscapes", "model": name, "of": what, **errors(out)})
            if not noise_counts:
                promises += precision_rows(out, recordings="soundscapes", model=name)
                right.append({"recordings": "soundscapes", "model": name, **accuracies(out)})
            if birds is None:
                continue
            out = {}
            for train, test in KFold(5, shuffle=True, random_state=0).split(np.arange(len(birds))):
                judge(*both(birds[train]), birds[train], birds[test], out, noise_counts)
            rows.append({"recordings": "cosmos", "model": name, "of": what, **errors(out)})
            if not noise_counts:
                promises += precision_rows(out, recordings="cosmos", model=name)
                right.append({"recordings": "cosmos", "model": name, **accuracies(out)})
    show("Labels of segments in events that are right, percent", right, left=("model",))
    return rows, promises


# -- strangers --------------------------------------------------------------------------------------------------------


def half_of_the_classes(data: BagDataset, seed: int) -> tuple[BagDataset, BagDataset, np.ndarray]:
    """Bags of half of the classes, three quarters to train on and the others; and the instances of other classes."""
    rng = np.random.default_rng(seed)
    chosen = np.zeros(data.n_classes, dtype=bool)
    chosen[rng.permutation(data.n_classes)[: data.n_classes // 2]] = True
    inside = rng.permutation(np.flatnonzero(~data.Y[:, ~chosen].any(axis=1)))
    truth = data.instance_labels.instances
    strange = data.bags.instances[(truth >= 0) & ~chosen[truth]]
    cut = 3 * len(inside) // 4
    return data[np.sort(inside[:cut])], data[np.sort(inside[cut:])], strange


def strangers_row(name: str, training: BagDataset, held: BagDataset, strange: np.ndarray) -> Record:
    """False alarms on bags of the same kind, strangers that are found, and those that are named without a word."""
    novelty = Novelty.learn(training.bags)
    model = calibrated(make_model("ored-background", background_share=0.1)).fit(training.bags, training.Y)
    bags = Bags(strange, np.arange(len(strange) + 1))
    sure = model.find(bags).probability >= 0.9
    novel = novelty.is_novel(strange)
    return {
        "trained on": name, "training instances": training.bags.n_instances, "strangers": len(strange),
        "false alarms": float(novelty.is_novel(held.bags.instances).mean()), "found": float(novel.mean()),
        "at .9 and more": float(sure.mean()), "of these found": float(novel[sure].mean()) if sure.any() else None,
    }  # fmt: skip


def on_strangers(quick: bool) -> list[Record]:
    data = load_real(SETS[0])
    rows = [
        strangers_row(f"half of HJA's classes, draw {seed}", *half_of_the_classes(usable(data), seed))
        for seed in range(0 if data is None else 1 if quick else 5)
    ]
    known, new = soundscapes(quick)
    birds = cosmos_dataset()
    if birds is not None:
        rows.append(strangers_row("soundscapes; strangers: cosmos", known, new, birds.bags.instances))
        train, test = next(KFold(4, shuffle=True, random_state=0).split(np.arange(len(birds))))
        rows.append(strangers_row("cosmos; strangers: soundscapes", birds[train], birds[test], known.bags.instances))
    return rows


def main(quick: bool = False) -> list[Record]:
    """Print the tables and return their records. BAGWISE_CALIBRATION may name parts, sets and models; if not, all."""
    asked = os.environ.get(
        "BAGWISE_CALIBRATION", " ".join(("sets", "recordings", "strangers", *MODELS, *RECORDED))
    ).split()
    models = tuple(name for name in MODELS if name in asked)
    records: list[Record] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bags that cannot be explained, classes that a fold does not know
        if "sets" in asked:
            sets = tuple(name for name in SETS if name in asked) or (SETS[1:3] if quick else SETS)
            tables, promises = on_sets(quick, sets, models or MODELS)
            show("Expected calibration error", tables, left=("model",))
            show("A wanted precision, and what it costs", promises, left=("model", "instances"))
            records += tables + promises
        if "recordings" in asked:
            rows, promises = on_recordings(quick, tuple(name for name in RECORDED if name in asked) or RECORDED)
            show("Expected calibration error, recordings", rows, left=("model", "of"))
            show("A wanted precision, and what it costs, recordings", promises, left=("model", "instances"))
            records += rows + promises
        if "strangers" in asked:
            rows = on_strangers(quick)
            show("Unlike anything in training", rows)
            records += rows
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
