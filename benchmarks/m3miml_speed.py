"""Speed of the bag-level learners' kernels, as ratios within one run.

Four figures: libsvm against Frank and Wolfe's method on M3MIML's dual to the same duality gap; the Hausdorff kernel
against scipy's `directed_hausdorff` in a double loop; all distances of the 2,000 Scene bags in one call, with the
memory that it takes; MIMLBoost against the same with libsvm as its weak learner. Scene is looked for in the folder
BAGWISE_DATA, else in ../shared/data.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from scipy.spatial.distance import directed_hausdorff
from sklearn.svm import SVC

from bagwise.classification import MIMLBoost
from bagwise.classification import _m3miml_solvers as dual
from bagwise.classification import _mimlboost as mimlboost
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.kernels.hausdorff import hausdorff_distances
from bagwise.solvers import maximize_svm_dual
from benchmarks.common import load_real, show, with_ratio

N_BAGS = 400
SMO_TOL = 1e-2  # libsvm's stopping rule; what gap that is, is measured


def main(quick: bool = False) -> list[dict[str, Any]]:
    """Measure, print and return one record a figure."""
    scene = load_scene()
    if scene is None:
        return []
    records = [
        solver_ratio(scene, quick),
        hausdorff_ratio(scene, quick),
        all_distances(scene),
        *(boosting_ratio(scene, coding, quick) for coding in mimlboost.LABEL_CODINGS),
    ]
    show("Bag-level learners: speed, ratios within one run", records)
    return records


def load_scene() -> BagDataset | None:
    scene = load_real("miml_scene")
    if scene is None:
        return None
    return scene[np.random.default_rng(0).permutation(len(scene))]  # the file is sorted by class


def solver_ratio(scene: BagDataset, quick: bool) -> dict[str, Any]:
    """M3MIML's dual (C = 1, gamma = 1, features in [0, 1]) on 400 bags; quick: one class.

    libsvm first; Frank and Wolfe then go on until their duality gap is as small.
    """
    assert scene.Y is not None
    bags, Y = scaled(scene.bags[:N_BAGS]), scene.Y[:N_BAGS].astype(bool)
    columns = Y.T[:1] if quick else Y.T
    fast = slow = 0.0
    gaps = []
    for column in columns:
        examples = dual.Examples(bags, column, ~column)
        gram, signs = dual.mean_map_gram(examples, "rbf", 1.0), examples.signs
        seconds, result = shortest(lambda g=gram, s=signs: dual.solve_smo(g, s, 1.0, max_iter=-1, tol=SMO_TOL), 3)
        fast += seconds
        gaps.append(relative_gap(gram, signs, result.weights))
        tol = gaps[-1]
        seconds, result = shortest(
            lambda g=gram, s=signs, t=tol: maximize_svm_dual(g, s, 1.0, max_iter=10**6, tol=t), 1
        )
        slow += seconds
        assert relative_gap(gram, signs, result.weights) <= 1.01 * tol
    note = f"{len(columns)} class(es), relative duality gap {min(gaps):.1e} to {max(gaps):.1e}"
    line = record("M3MIML dual, smo v. frank-wolfe, 400 bags", fast, slow, ">= 20", note)
    return with_ratio(line, "M3MIML's dual by SMO, 400 Scene bags", "Frank-Wolfe, same gap", slow / fast, asked=">= 20")


def relative_gap(gram: np.ndarray, signs: np.ndarray, variables: np.ndarray) -> float:
    """(Problem 3 - Problem 4) / Problem 4 at these variables, C = 1."""
    outputs = gram @ (signs * variables)
    norm = float((signs * variables) @ outputs)
    slack = np.maximum(0.0, 1.0 - signs * (outputs + dual.best_bias(outputs, signs, np.ones(len(signs))))).sum()
    value = float(variables.sum()) - 0.5 * norm
    return (0.5 * norm + float(slack) - value) / value


def hausdorff_ratio(scene: BagDataset, quick: bool) -> dict[str, Any]:
    """Both compute each pair of different bags once; quick: 80 of the 400 bags."""
    bags = scene.bags[: 80 if quick else N_BAGS]
    hausdorff_distances(bags.instances, bags.offsets)  # compile
    fast, distances = shortest(lambda: hausdorff_distances(bags.instances, bags.offsets), 5)

    def double_loop() -> np.ndarray:
        out = np.zeros((len(bags), len(bags)))
        for i in range(len(bags)):
            for j in range(i + 1, len(bags)):
                A, B = bags[i], bags[j]
                out[i, j] = out[j, i] = max(directed_hausdorff(A, B)[0], directed_hausdorff(B, A)[0])
        return out

    slow, expected = shortest(double_loop, 1)
    difference = float(np.abs(distances - expected).max())
    note = f"largest difference {difference:.0e}"
    line = record(f"Hausdorff v. scipy, {len(bags)} bags", fast, slow, ">= 20", note)
    what = f"Hausdorff distances of {len(bags)} Scene bags"
    return with_ratio(line, what, "scipy's directed_hausdorff in a loop", slow / fast, asked=">= 20", note=note)


def all_distances(scene: BagDataset) -> dict[str, Any]:
    bags = scene.bags
    seconds, _ = shortest(lambda: hausdorff_distances(bags.instances, bags.offsets), 2)
    tracemalloc.start()
    hausdorff_distances(bags.instances, bags.offsets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return record(f"all distances of {len(bags)} Scene bags", seconds, None, "<= 2 GB", f"peak {peak / 1e9:.3f} GB")


def boosting_ratio(scene: BagDataset, label_coding: str, quick: bool) -> dict[str, Any]:
    """Ten rounds (quick: three) of MIMLBoost with its own solver and with libsvm, each round from nothing."""
    n_bags = {"separate": N_BAGS, "feature": N_BAGS // 2}[label_coding]
    assert scene.Y is not None
    bags, Y = scaled(scene.bags[:n_bags]), scene.Y[:n_bags]
    model = MIMLBoost(n_rounds=3 if quick else 10, label_coding=label_coding)
    MIMLBoost(n_rounds=1, label_coding=label_coding).fit(bags[:20], Y[:20])  # compile
    fast, _ = shortest(lambda: model.fit(bags, Y), 2)
    with mock.patch.object(mimlboost, "_train_weak_learner", partial(libsvm_learner, bags.instances)):
        slow, _ = shortest(lambda: model.fit(bags, Y), 1)
    what = f"MIMLBoost, labels {label_coding}, {n_bags} Scene bags"
    line = record(f"{what}, v. libsvm", fast, slow, "", f"{model.n_rounds} rounds")
    return with_ratio(line, what, "the same with libsvm", slow / fast)


def libsvm_learner(
    instances: np.ndarray,
    kernel: np.ndarray,
    between: np.ndarray,
    targets: np.ndarray,
    bounds: np.ndarray,
    relative: np.ndarray,
) -> mimlboost._WeakLearner:
    """`mimlboost._train_weak_learner` by libsvm: on the kernel matrix, or on pairs with the label's number."""
    sides, weights = targets.ravel(), np.maximum(bounds.ravel(), 1e-12)
    if len(targets) == 1:
        machine = SVC(kernel="precomputed").fit(kernel, sides, sample_weight=weights)
    else:
        numbers = np.sqrt(-np.log(between[0]))  # the labels' kernel is exp(-(number - number')^2), the first number 0
        pairs = np.column_stack([np.tile(instances, (len(targets), 1)), np.repeat(numbers, len(kernel))])
        machine = SVC(gamma=1.0, cache_size=1000).fit(pairs, sides, sample_weight=weights)
    duals = np.zeros(targets.size)
    duals[machine.support_] = machine.dual_coef_[0]
    coefficients, bias = between @ duals.reshape(targets.shape), float(machine.intercept_[0])
    biases = np.full(len(targets), bias)
    return mimlboost._WeakLearner(coefficients, biases, coefficients @ kernel + bias, np.zeros(targets.shape))


def scaled(bags: Bags) -> Bags:
    low, high = bags.instances.min(axis=0), bags.instances.max(axis=0)
    return Bags((bags.instances - low) / np.where(high > low, high - low, 1.0), bags.offsets)


def shortest(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Least seconds of the repeats, and the last result."""
    best, result = np.inf, None
    for _ in range(repeats):
        started = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - started)
    return best, result


def record(figure: str, seconds: float, other: float | None, asked: str, note: str) -> dict[str, Any]:
    ratio = None if other is None else other / seconds
    return {"figure": figure, "seconds": seconds, "other_seconds": other, "ratio": ratio, "asked": asked, "note": note}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
