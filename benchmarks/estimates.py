"""Made surveys: how often the intervals of counts hold the truth, and how wide they are beside the sample alone."""

from __future__ import annotations

import numpy as np

from bagwise.calibration import allocate_answers, draw_rows, estimate_totals, score_strata
from bagwise.metrics import wilson_interval
from benchmarks.common import Record, show

N_INSTANCES, N_ANSWERS, N_SURVEYS = 8000, 800, 500
RATES = np.array([0.15, 0.1, 0.06])  # of three labels
GROUPS = np.array([[0.5, 1.0, 1.5, 1.0], [1.5, 1.0, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0]])  # times the rate, in four sites
SEPARATION = 2.5  # of the labels, in standard deviations
MODELS = ("good", "bad", "miscalibrated")


def make_survey(model: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of a model, the truth, and the site of each instance.

    The good model knows the distribution of the features. The bad one gives each instance the probabilities of
    another. The miscalibrated one is twice too sure, finds too much of the first label, and at one site hardly any of
    the second.
    """
    site = rng.integers(0, GROUPS.shape[1], N_INSTANCES)
    rates = GROUPS.T[site] * RATES
    rates = np.column_stack([rates, 1.0 - rates.sum(axis=1)])
    label = (rng.random((N_INSTANCES, 1)) > np.cumsum(rates, axis=1)).sum(axis=1)
    features = rng.normal(size=rates.shape)
    features[np.arange(N_INSTANCES), label] += SEPARATION
    logits = np.log(rates) + SEPARATION * features
    if model == "bad":
        logits = logits[rng.permutation(N_INSTANCES)]
    if model == "miscalibrated":
        logits *= 2.0
        logits[:, 0] += 2.0
        logits[site == 0, 1] -= 3.0
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    return proba[:, :-1], label[:, None] == np.arange(len(RATES)), site


def run_surveys(model: str, n_surveys: int, n_answers: int = N_ANSWERS) -> tuple[np.ndarray, np.ndarray]:
    """Coverage, and width beside the sample alone, of all instances and of each site (rows) and each label."""
    rng, held, widths, plain = np.random.default_rng(0), [], [], []
    for _ in range(n_surveys):
        proba, truth, site = make_survey(model, rng)
        strata = score_strata(proba, n_answers)
        rows = draw_rows(strata, allocate_answers(proba, strata, n_answers), np.zeros(0, dtype=int), rng)
        alone = rng.choice(N_INSTANCES, len(rows), replace=False)
        found, wide, simple = [], [], []
        for group in (np.zeros(N_INSTANCES, dtype=int), site):
            totals = estimate_totals(proba, strata, rows, truth[rows], group)
            sizes = np.bincount(group)[:, None]
            true, of_sample = (np.stack([np.bincount(g, y, len(sizes)) for y in t.T], axis=1) for g, t in (
                (group, truth), (group[alone], truth[alone])
            ))  # fmt: skip
            n = np.bincount(group[alone], minlength=len(sizes))[:, None]
            low, high = wilson_interval(of_sample / n, n / (1 - n / sizes))
            found.append((totals.low <= true) & (true <= totals.high))
            wide.append(totals.high - totals.low)
            simple.append(sizes * (high - low))
        for kept, new in ((held, found), (widths, wide), (plain, simple)):
            kept.append(np.vstack(new))
    return np.mean(held, axis=0), np.mean(widths, axis=0) / np.mean(plain, axis=0)


def main(quick: bool = False) -> list[Record]:
    records: list[Record] = []
    for model in MODELS:
        held, width = run_surveys(model, 50 if quick else N_SURVEYS)
        for place, of in [("all", slice(0, 1)), ("per site", slice(1, None))]:
            records += [
                {
                    "model": model,
                    "of": place,
                    "label": c + 1,
                    "holds, % (least)": 100 * held[of, c].min(),
                    "mean": 100 * held[of, c].mean(),
                    "most": 100 * held[of, c].max(),
                    "width beside the sample alone": width[of, c].mean(),
                }
                for c in range(len(RATES))
            ]
    show(f"Intervals of 95 %, {N_ANSWERS} answers of {N_INSTANCES} instances", records)
    return records
