"""Speed of union inference and of ORed logistic regression, as ratios in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, ORedForest, ORedLogisticRegression
from bagwise.datasets import make_gaussian_bags
from bagwise.union import LabelNoise, UnionProblem
from benchmarks.common import SECONDS, Record, fastest, load_real, peak_memory, show, with_ratio


@njit(cache=True, error_model="numpy")
def plain_forward_substitution(proba, offsets, Y, posterior, log_likelihood):
    """Algorithm 2 of Pham et al. written plainly: subsets in order of cardinality, substitution over all of them."""
    for b in range(Y.shape[0]):
        start, n = offsets[b], offsets[b + 1] - offsets[b]
        labels = np.flatnonzero(Y[b])
        k = len(labels)
        size = 1 << k
        cardinality = np.zeros(size, np.int64)
        for t in range(size):
            for j in range(k):
                if t & (1 << j):
                    cardinality[t] += 1
        order = np.argsort(cardinality)
        law = np.zeros(size)
        for j in range(k):
            law[1 << j] = proba[start, labels[j]]
        for i in range(1, n):
            new = np.zeros(size)
            for t in range(1, size):
                for j in range(k):
                    if t & (1 << j):
                        new[t] += proba[start + i, labels[j]] * (law[t] + law[t ^ (1 << j)])
            law = new
        log_likelihood[b] = np.log(law[size - 1])
        for i in range(n):
            rest = np.zeros(size)
            if n == 1:
                rest[0] = 1.0
            else:
                for u in range(1, size):
                    t = order[u]
                    diagonal, value = 0.0, law[t]
                    for j in range(k):
                        if t & (1 << j):
                            diagonal += proba[start + i, labels[j]]
                            value -= proba[start + i, labels[j]] * rest[t ^ (1 << j)]
                    rest[t] = value / diagonal
            total = 0.0
            for j in range(k):
                joint = proba[start + i, labels[j]] * (rest[size - 1] + rest[(size - 1) ^ (1 << j)])
                posterior[start + i, labels[j]] = joint
                total += joint
            for j in range(k):
                posterior[start + i, labels[j]] /= total


def standardized(data) -> Bags:
    return Bags(StandardScaler().fit_transform(data.bags.instances), data.bags.offsets)


def e_step(quick: bool) -> list[Record]:
    """One E-step on the Letter-Carroll bags: probabilities in, posteriors out."""
    data = load_real("letter_carroll_rebuilt")
    if data is None:
        return []
    bags = standardized(data)
    problem = UnionProblem.build(bags.offsets, data.Y)
    fitted = ORedLogisticRegression().fit(bags, data.Y)
    records = []
    for stage, proba in (
        ("at the start (uniform)", np.full((bags.n_instances, data.n_classes), 1.0 / data.n_classes)),
        ("at the fitted weights", fitted.predict_instances_proba(bags)),
    ):
        posterior, likelihood, work = np.zeros_like(proba), np.empty(len(bags)), np.empty_like(proba)

        def plain(proba=proba, posterior=posterior, likelihood=likelihood):
            plain_forward_substitution(proba, bags.offsets, data.Y, posterior, likelihood)

        def ours(method, proba=proba, work=work):
            np.copyto(work, proba)
            problem.infer_in_place(work, softmax=False, residual=False, method=method)

        methods = ("auto", "forward-backward", "forward-substitution", "forward")
        seconds = fastest(
            {"plain": plain, **{method: partial(ours, method) for method in methods}}, 50 if quick else 300
        )
        records += [
            with_ratio(
                {
                    "E-step, Letter-Carroll": stage,
                    "method": method,
                    "ms": 1e3 * seconds[method],
                    "plain forward-substitution, ms": 1e3 * seconds["plain"],
                    "times faster": seconds["plain"] / seconds[method],
                    "asked": "10" if method == "auto" else "",
                },
                f"E-step of ORed {stage}, {method}",
                "forward-substitution written plainly",
                seconds["plain"] / seconds[method],
                asked=">= 10" if method == "auto" else "",
            )
            for method in methods
        ]
    return records


def e_step_with_rates(quick: bool) -> list[Record]:
    """One E-step of a fit, scores in and residuals out, with labels that may be wrong and without."""
    records = []
    for name in ("letter_carroll_rebuilt", "hja_birdsong_filtered", "msrc_v2"):
        data = load_real(name)
        if data is None:
            continue
        bags = standardized(data)
        problem, rates = UnionProblem.build(bags.offsets, data.Y), LabelNoise.of(0.1, 0.01, data.n_classes)
        scores = ORedLogisticRegression().fit(bags, data.Y).instance_decision_function(bags)
        work = np.empty_like(scores)

        def infer(rates, scores=scores, work=work, problem=problem):
            np.copyto(work, scores)
            problem.infer_in_place(work, softmax=True, residual=True, rates=rates)

        seconds = fastest({"without": partial(infer, None), "with": partial(infer, rates)}, 50 if quick else 300)
        ratio = seconds["with"] / seconds["without"]
        records.append(
            with_ratio(
                {
                    "E-step with rates": name,
                    "without, ms": 1e3 * seconds["without"],
                    "with, ms": 1e3 * seconds["with"],
                    "ratio": ratio,
                    "asked at most": "1.3",
                },
                f"E-step of ORed with missed and spurious labels, {name}",
                "without",
                ratio,
                unit=SECONDS,
                asked="<= 1.3",
            )
        )
    return records


def fit_beside_logistic_regression(quick: bool) -> list[Record]:
    """Seconds an iteration on HJA, beside scikit-learn's LogisticRegression on the same instances with labels."""
    data = load_real("hja_birdsong_filtered")
    if data is None:
        return []
    bags, y = standardized(data), data.instance_labels.instances
    n_iter, repeats = 50, 3 if quick else 9

    models: dict[str, Any] = {}

    def ours() -> None:
        models["ours"] = ORedLogisticRegression(max_iter=n_iter).fit(bags, data.Y)

    def theirs() -> None:
        models["theirs"] = LogisticRegression(max_iter=n_iter, tol=1e-12).fit(bags.instances, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both are stopped early on purpose
        seconds = fastest({"ours": ours, "theirs": theirs}, repeats)
    one = seconds["ours"] / models["ours"].n_iter_
    other = seconds["theirs"] / int(np.max(models["theirs"].n_iter_))
    return [
        with_ratio(
            {
                "fit, HJA filtered": f"{n_iter} iterations",
                "ours, ms an iteration": 1e3 * one,
                "LogisticRegression, ms": 1e3 * other,
                "ratio": one / other,
                "asked at most": "1.5",
            },
            "an iteration of ORed on HJA",
            "scikit-learn's LogisticRegression, told every instance",
            one / other,
            unit=SECONDS,
            asked="<= 1.5",
        )
    ]


def scale_once(n_bags: int, n_iter: int) -> Record:
    """One fit on about ten instances a bag, d = 40, c = 20, 2.5 labels a bag: time an iteration and memory."""
    data = make_gaussian_bags(
        n_bags=n_bags, n_features=40, n_classes=20, instances_per_bag=(5, 15), labels_per_bag=(1, 4), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ORedLogisticRegression(max_iter=2).fit(data.bags[:200], data.Y[:200])
        with peak_memory() as memory:
            times = []
            model = ORedLogisticRegression(max_iter=n_iter, tol=0.0)
            model.fit(data.bags, data.Y, callback=lambda *_: times.append(time.perf_counter()))
    steps = np.diff(times)
    array = data.bags.n_instances * (data.n_classes) * 8
    return {
        "n_bags": n_bags,
        "instances": data.bags.n_instances,
        "labels": float(data.Y.sum(1).mean()),
        "seconds": float(np.median(steps)),
        "arrays": memory.get("growth", 0) / array if memory else None,
    }


def growth(quick: bool) -> list[Record]:
    """From 100,000 to 1,000,000 instances, each in a process of its own."""
    results = []
    for n_bags in (10_000, 100_000):
        call = f"scale_once({n_bags}, {6 if quick else 15})"
        code = f"import json; from benchmarks.ored_speed import scale_once; print(json.dumps({call}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    small, large = results
    expected = large["instances"] / small["instances"]
    records: list[Record] = [
        {
            "growth (d 40, c 20)": f"{row['instances']:,} instances, {row['labels']:.2f} labels a bag",
            "s an iteration": row["seconds"],
            "times the first": row["seconds"] / small["seconds"],
            "beside the data's growth": row["seconds"] / small["seconds"] / (row["instances"] / small["instances"]),
            "memory, arrays of (m, c)": row["arrays"],
            "asked": "" if row is small else f"within 15 % of {expected:.1f}, 5 arrays",
        }
        for row in results
    ]
    records[1] = with_ratio(
        records[1],
        f"an iteration of ORed, {large['instances']:,} instances: seconds an instance",
        f"{small['instances']:,} instances",
        records[1]["beside the data's growth"],
        unit=SECONDS,
        asked="<= 1.15",
    )
    return records


def imports(quick: bool) -> list[Record]:
    """Processor seconds of importing ORed logistic regression, beside scikit-learn's."""
    lines = {
        "ours": "from bagwise import ORedLogisticRegression",
        "theirs": "from sklearn.linear_model import LogisticRegression",
    }
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # what is imported has been imported before
    times: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(3 if quick else 10):
        for name, line in lines.items():
            code = f"import time; {line}; print(time.process_time())"
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            times[name].append(float(done.stdout))
    ours, theirs = min(times["ours"]), min(times["theirs"])
    record = {
        "import": "ORed",
        "s": ours,
        "LogisticRegression, s": theirs,
        "ratio": ours / theirs,
        "asked at most": 1.1,
    }
    what, beside = "importing ORed logistic regression", "scikit-learn's LogisticRegression"
    return [with_ratio(record, what, beside, ours / theirs, unit=SECONDS, asked="<= 1.1")]


def forest_prediction(quick: bool) -> list[Record]:
    """Probabilities of instances by 100 trees on HJA, beside scikit-learn's trees that were given every instance."""
    data = load_real("hja_birdsong_filtered")
    if data is None:
        return []
    forest = ORedForest(100, n_rounds=2, n_round_trees=20, n_jobs=1, random_state=0).fit(data.bags, data.Y)
    theirs = ExtraTreesClassifier(100, n_jobs=1, random_state=0)
    theirs.fit(data.bags.instances, data.instance_labels.instances)
    records = []
    for n_bags in (10, len(data.bags)):
        bags = data.bags[:n_bags]
        calls = {
            "ours": partial(forest.predict_instances_proba, bags),
            "theirs": partial(theirs.predict_proba, bags.instances),
        }
        seconds = fastest(calls, 10 if quick else 50)
        ratio = seconds["ours"] / seconds["theirs"]
        record = {
            "prediction of a forest, HJA": f"{bags.n_instances:,} instances", "ours, ms": 1e3 * seconds["ours"],
            "ExtraTreesClassifier, ms": 1e3 * seconds["theirs"], "ratio": ratio, "asked at most": 1,
        }  # fmt: skip
        what = f"ORedForest's probabilities of {bags.n_instances:,} instances"
        records.append(
            with_ratio(record, what, "ExtraTreesClassifier of as many trees", ratio, unit=SECONDS, asked="<= 1")
        )
    return records


def main(quick: bool = False) -> list[Record]:
    records = []
    for part in (imports, e_step, e_step_with_rates, fit_beside_logistic_regression, forest_prediction, growth):
        found = part(quick)
        show(part.__doc__.splitlines()[0], found)
        records += found
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
