"""More labels than can be summed over: how far belief propagation is off, what it costs, what a fit with it reaches."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from bagwise import BagDataset, Bags, ORedLogisticRegression
from bagwise.catalog import make_model
from bagwise.core.bags import offsets_of
from bagwise.solvers import minimize_lbfgs
from bagwise.union import UnionProblem, softmax_in_place, union_posterior
from bagwise.union._exact import inclusion_exclusion
from benchmarks.common import Record, load_real, show

N_LABELS, N_INSTANCES = (12, 16, 20, 24), (20, 100, 1000)
SHARPNESS = {"diffuse": 1.0, "sharp": 0.1}  # of the rows' Dirichlet law
MOST_MEMORY = 1.5e9  # bytes that forward-backward may take for one bag
MOST_FITTED = 18  # labels of a bag up to which exact fits are waited for
ENOUGH = 1e-6  # certified error of the truth where there is no memory for forward-backward


# -- the truth, and what stood in this place before ---------------------------------------------------------------


def exact_posterior(proba: np.ndarray) -> tuple[float, np.ndarray] | None:
    """log P and posterior of a bag that carries all of its columns; None where nothing here can say for sure."""
    n, k = proba.shape
    if (n + 8) * 8.0 * 2.0**k <= MOST_MEMORY:
        likelihood, posterior = union_posterior(proba, [0, n], np.ones((1, k), np.uint8), method="inclusion-exclusion")
        return float(likelihood[0]), posterior
    mass = proba.sum(axis=1)
    A, free, nothing = proba / mass[:, None], np.zeros(n), np.empty(0)
    work = [np.empty(1 << k) for _ in range(3)]
    result, done = inclusion_exclusion(A, free, n, k, np.zeros(k), *work, ENOUGH, nothing)
    return (result + float(np.log(mass).sum()), A) if done else None


def factorised(proba: np.ndarray, offsets: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihoods of prod_c (1 - prod_i (1 - p_ic / s_i)) and its gradient's weights: labels as if independent."""
    index = np.repeat(np.arange(len(Y)), np.diff(offsets))
    listed = Y[index] == 1
    shares = np.where(listed, proba, 0.0)
    mass = shares.sum(axis=1, keepdims=True)
    shares /= mass
    log_spared = np.log1p(-np.minimum(shares, 1.0 - 1e-15))
    log_absent = np.add.reduceat(log_spared, offsets[:-1], axis=0)
    present = np.where(Y == 1, -np.expm1(np.minimum(log_absent, -1e-300)), 1.0)
    push = np.where(listed, np.exp(log_absent[index] - log_spared) / present[index], 0.0)
    weights = shares * (1.0 + push - (push * shares).sum(axis=1, keepdims=True))
    return np.log(present).sum(axis=1) + np.add.reduceat(np.log(mass[:, 0]), offsets[:-1]), weights


def propagated(proba: np.ndarray) -> tuple[float, np.ndarray, float, float]:
    """log P, posterior, estimated error, and milliseconds without the estimate."""
    n, k = proba.shape
    problem = UnionProblem.build(np.array([0, n]), np.ones((1, k), np.uint8))
    posterior, errors, seconds = proba.copy(), np.zeros(1), []
    likelihood = problem.infer_in_place(posterior, softmax=False, residual=False, max_exact_labels=1, errors=errors)
    for _ in range(5):
        work = proba.copy()
        started = time.perf_counter()
        problem.infer_in_place(work, softmax=False, residual=False, max_exact_labels=1)
        seconds.append(time.perf_counter() - started)
    return float(likelihood[0]), posterior, float(errors[0]), 1e3 * min(seconds)


# -- error and cost, bag by bag -----------------------------------------------------------------------------------


def compare(bags: list[np.ndarray]) -> dict[str, Any]:
    """Errors over some bags, each a matrix of probabilities of the labels it carries; the worst of all entries."""
    rows = []
    for proba in bags:
        started = time.perf_counter()
        truth = exact_posterior(proba)
        exact_ms = 1e3 * (time.perf_counter() - started)
        likelihood, posterior, estimate, own_ms = propagated(proba)
        row = {"exact, ms": exact_ms, "propagated, ms": own_ms, "estimated": estimate}
        if truth is not None:
            ones = np.ones((1, proba.shape[1]), np.uint8)
            plain_likelihood, plain = factorised(proba, np.array([0, len(proba)]), ones)
            plain = np.maximum(plain, 0.0)
            plain /= plain.sum(axis=1, keepdims=True)
            row |= {
                "worst": np.abs(posterior - truth[1]).max(),
                "mean": np.abs(posterior - truth[1]).sum(axis=1).mean() / 2,
                "log P": likelihood - truth[0],
                "factorised, worst": np.abs(plain - truth[1]).max(),
                "factorised, mean": np.abs(plain - truth[1]).sum(axis=1).mean() / 2,
                "factorised, log P": plain_likelihood[0] - truth[0],
            }
        rows.append(row)
    known = [row for row in rows if "worst" in row]
    summary: dict[str, Any] = {
        "exact, ms": float(np.median([row["exact, ms"] for row in rows])) if known else None,
        "propagated, ms": float(np.median([row["propagated, ms"] for row in rows])),
        "estimated": float(max(row["estimated"] for row in rows)),
    }
    for name in ("worst", "mean", "log P", "factorised, worst", "factorised, mean", "factorised, log P"):
        values = [row[name] for row in known]
        summary[name] = float(np.mean(values) if name.endswith("mean") else max(values, key=abs)) if known else None
    return summary


def made_bags(quick: bool) -> list[Record]:
    """Made bags: rows from a Dirichlet law, labels of unequal frequency."""
    records: list[Record] = []
    for k in N_LABELS[:-1] if quick else N_LABELS:
        for n in N_INSTANCES:
            if k > n:  # nothing explains such a bag
                continue
            n_bags = {12: 20, 16: 5, 20: 2, 24: 1}[k]
            for name, concentration in SHARPNESS.items():
                bags = []
                for seed in range(n_bags):
                    rng = np.random.default_rng(seed)
                    bags.append(rng.dirichlet(concentration * np.exp(0.5 * rng.normal(size=k)), n) + 1e-12)
                records.append({"made bags": name, "labels": k, "instances": n, "bags": n_bags, **compare(bags)})
    return records


def merge(data: BagDataset, groups: list[np.ndarray]) -> tuple[Bags, np.ndarray]:
    """Bags that hold all instances of several, and the union of their labels."""
    order = np.concatenate(groups)
    sizes = [int(data.bags.sizes[group].sum()) for group in groups]
    bags = Bags(data.bags[order].instances, offsets_of(np.array(sizes)))
    return bags, np.array([data.Y[group].max(axis=0) for group in groups])


def until(data: BagDataset, k: int, rng: np.random.Generator) -> np.ndarray | None:
    """Bags drawn until they have k labels together; None where they pass it."""
    order = rng.permutation(len(data))
    counts = np.maximum.accumulate(data.Y[order], axis=0).sum(axis=1)
    reached = np.flatnonzero(counts == k)
    return order[: reached[0] + 1] if len(reached) else None


def merged_bags(quick: bool) -> list[Record]:
    """Real bags merged until they carry that many labels, probabilities of a model fitted to the single ones."""
    records: list[Record] = []
    for name, sizes in (
        ("hja_birdsong_filtered", (8, 12)), ("msrc_v2", (12, 16, 20)), ("letter_carroll_rebuilt", (12, 16, 20)),
    ):  # fmt: skip
        data = load_real(name)
        if data is None:
            continue
        proba = Bags(make_model("ored").fit(data.bags, data.Y).predict_instances_proba(data.bags), data.bags.offsets)
        for k in sizes[:-1] if quick else sizes:
            bags: list[np.ndarray] = []
            for seed in range(200):
                drawn = until(data, k, np.random.default_rng(seed))
                if drawn is not None and len(bags) < (3 if k == 20 else 20):
                    labels = np.flatnonzero(data.Y[drawn].max(axis=0))
                    bags.append(np.ascontiguousarray(proba[drawn].instances[:, labels]))
            n_instances = f"{min(map(len, bags))} to {max(map(len, bags))}"
            records.append({"merged": name, "labels": k, "instances": n_instances, "bags": len(bags), **compare(bags)})
    return records


# -- fits ---------------------------------------------------------------------------------------------------------


def fit_factorised(bags: Bags, Y: np.ndarray, l2: float = 1.0) -> np.ndarray:
    """(c, d + 1) weights of the same model under the factorised approximation."""
    X = np.hstack([bags.instances, np.ones((bags.n_instances, 1))])

    def negative_mean(weights: np.ndarray) -> tuple[float, np.ndarray]:
        proba = X @ weights.T
        softmax_in_place(proba)
        values, posterior = factorised(proba, bags.offsets, Y)
        gradient = (posterior - proba).T @ X
        gradient[:, :-1] -= l2 * weights[:, :-1]
        value = values.sum() - 0.5 * l2 * np.sum(weights[:, :-1] ** 2)
        return -value / len(X), -gradient / len(X)

    return minimize_lbfgs(negative_mean, np.zeros((Y.shape[1], X.shape[1])), max_iter=500, tol=1e-4).weights


def accuracy(scores: np.ndarray, truth: np.ndarray) -> float:
    return 100 * float(np.mean(scores.argmax(axis=1)[truth >= 0] == truth[truth >= 0]))


def fits(quick: bool) -> list[Record]:
    """Fits on bags merged at random: accuracy on new instances and, given the merged labels, on their own."""
    records: list[Record] = []
    for name in ("hja_birdsong_filtered", "msrc_v2", "letter_carroll_rebuilt"):
        data = load_real(name)
        if data is None:
            continue
        for n_merged in (5, 10):
            found: dict[str, list[list[float]]] = {}
            n_labels = []
            for fold, (train, test) in enumerate(KFold(3 if quick else 5, shuffle=True, random_state=0).split(data.Y)):
                scaler = StandardScaler().fit(data.bags[train].instances)
                order = np.random.default_rng(fold).permutation(train)
                groups = np.array_split(order, len(order) // n_merged)
                bags, Y = merge(data, groups)
                bags = Bags(scaler.transform(bags.instances), bags.offsets)
                own, new = data.instance_labels[order].instances, data.instance_labels[test].instances
                new_instances = scaler.transform(data.bags[test].instances)
                n_labels.append(Y.sum(axis=1))
                for variant, limit in (("exact", MOST_FITTED), ("propagated", 1)):
                    if variant == "exact" and Y.sum(axis=1).max() > limit:
                        continue
                    started = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model = ORedLogisticRegression(max_exact_labels=limit).fit(bags, Y)
                        seconds = time.perf_counter() - started
                        right = accuracy(model.annotate_proba(bags, Y), own)
                    scores = model.instance_decision_function(new_instances)
                    found.setdefault(variant, []).append([accuracy(scores, new), right, seconds])
                weights = fit_factorised(bags, Y)
                scores = [X @ weights[:, :-1].T + weights[:, -1] for X in (new_instances, bags.instances)]
                softmax_in_place(scores[1])
                given = factorised(scores[1], bags.offsets, Y)[1]
                found.setdefault("factorised", []).append([accuracy(scores[0], new), accuracy(given, own), np.nan])
            record: Record = {"fit on merged bags": name, "merged": n_merged,
                              "labels": f"{np.concatenate(n_labels).mean():.1f}"}  # fmt: skip
            for column, title in enumerate(("new", "own", "fit, s")):
                for variant in ("exact", "propagated", "factorised"):
                    values = [row[column] for row in found.get(variant, [])]
                    if variant != "factorised" or column < 2:
                        record[f"{title}: {variant}"] = float(np.mean(values)) if len(values) == len(n_labels) else None
            records.append(record)
    return records


def cost_by_labels(quick: bool = False) -> list[Record]:
    """Milliseconds of the processor per bag of 20 instances, and how many times as much as with one label less."""
    rng, n_bags, n, records, before = np.random.default_rng(0), 4 if quick else 12, 20, [], np.nan
    proba = rng.lognormal(size=(n_bags * n, n))
    proba /= proba.sum(axis=1, keepdims=True)
    for k in range(10, 18):
        Y = np.zeros((n_bags, n), dtype=np.uint8)
        Y[:, :k] = 1
        problem, seconds = UnionProblem.build(n * np.arange(n_bags + 1), Y), []
        for _ in range(5):
            work = proba.copy()
            started = time.process_time()
            problem.infer_in_place(work, softmax=False, residual=False)
            seconds.append(time.process_time() - started)
        now = 1e3 * min(seconds) / n_bags
        records.append({"labels": k, "ms": now, "times": now / before})
        before = now
    return records


def main(quick: bool = False) -> list[Record]:
    records = []
    for part in (cost_by_labels, merged_bags, fits, made_bags):
        found = part(quick)
        show(part.__doc__.splitlines()[0], found)
        sys.stdout.flush()
        records += found
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
