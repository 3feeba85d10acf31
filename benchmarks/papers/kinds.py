"""What a run does: each kind takes a run and gives records, plain numbers by name."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from bagwise.clustering.scaling import scale_bags
from bagwise.core.bags import Bags
from bagwise.metrics import calibration_error, hamming_loss, instance_accuracy
from bagwise.model_selection import MEASURES, evaluate, measure_bags, selection_curve
from bagwise.pipeline import bag_tags, final_step, fit_parameters
from bagwise.preprocessing import CLPLScaler, PerInstance
from bagwise.solvers.aggregation import Support
from bagwise.solvers.losses import LOSSES
from bagwise.solvers.subgradient import BagProblem
from benchmarks import clustering_figures, clustering_tables
from benchmarks.clustering_tables import KEYS
from benchmarks.papers.bag_learners import BAG_LEARNERS
from benchmarks.papers.data import SOURCES, load, redraw
from benchmarks.papers.methods import METHODS
from benchmarks.papers.runs import Record, Run


def perform(run: Run) -> list[Record]:
    """Do what the run names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the papers fix the number of steps
        warnings.filterwarnings("ignore", message=".*cannot be explained.*")  # training parts without a class
        return KINDS[run.kind](run)


def folds(run: Run) -> list[Record]:
    """Inductive: instance accuracy and bag measures of every fold."""
    records = evaluate(_model(run), load(run.data), "inductive", cv=dict(run.options).get("folds", 10))
    n_classes = load(run.data).n_classes
    kept = [{key: record[key] for key in MEASURES if key in record} for record in records]
    return [{**record, "coverage": record["coverage"] / n_classes} for record in kept]  # as Pham et al. print it


def training(run: Run) -> list[Record]:
    """Transductive: accuracy on the training bags, and the Hamming loss of what would be predicted for them."""
    data, model = load(run.data), _model(run)
    record = evaluate(model, data, "transductive")[0]
    found = {key: record[key] for key in ("accuracy", "fit_seconds") if key in record}
    if dict(run.options).get("hamming"):
        model.fit(data.bags, data.Y)
        found["hamming_loss"] = float(hamming_loss(data.Y, model.predict(data.bags)))
    return [found]


def drawn_anew(run: Run) -> list[Record]:
    """Transductive accuracy on a Letter set whose letters were drawn anew, for several draws."""
    draws = (redraw(run.data, seed) for seed in range(dict(run.options)["draws"]))
    return [{"accuracy": evaluate(_model(run), data, "transductive")[0]["accuracy"]} for data in draws]


def training_size(run: Run) -> list[Record]:
    """Section 4.2 of Zhang and Zhou: one test set of 1,000 bags, N training bags drawn from the others."""
    data, options = load(run.data), dict(run.options)
    order = np.random.default_rng(0).permutation(len(data))
    test, pool = order[:1000], order[1000:]
    train = np.random.default_rng([options["bags"], options["repeat"]]).choice(pool, options["bags"], replace=False)
    return [_bag_measures(run, _model(run), train, test)]


def multi_label_share(run: Run) -> list[Record]:
    """Section 4.3: bags with one label (or several) are left out until the share is right; then it is halved."""
    data, options = load(run.data), dict(run.options)
    assert data.Y is not None
    several = data.Y.sum(axis=1) > 1
    many, one = np.flatnonzero(several), np.flatnonzero(~several)
    share, generator = options["share"], np.random.default_rng([1, options["share"]])
    n_many, n_one = counts_of_share(len(many), len(one), share)
    kept = [generator.choice(many, n_many, replace=False), generator.choice(one, n_one, replace=False)]
    order = np.random.default_rng([share, options["repeat"]]).permutation(np.concatenate(kept))
    return [_bag_measures(run, _model(run), order[: len(order) // 2], order[len(order) // 2 :])]


def repeated_folds(run: Run) -> list[Record]:
    """Bag measures of every fold, the bags being shuffled anew for every repeat; the method is of `BAG_LEARNERS`."""
    options, data = dict(run.options), load(run.data)
    splitter = KFold(options["folds"], shuffle=True, random_state=options["repeat"])
    return [
        _bag_measures(run, BAG_LEARNERS[run.method](), train, test)
        for train, test in splitter.split(np.zeros(len(data)))
    ]


def counts_of_share(n_many: int, n_one: int, share: int) -> tuple[int, int]:
    """How many bags of several labels and of one make the most bags of which `share` percent have several."""
    return min(n_many, round(n_one * share / (100 - share))), min(n_one, round(n_many * (100 - share) / share))


def learning(run: Run) -> list[Record]:
    """Section 6.3 of Pham et al.: a share of the bags for training, the others for testing, several draws."""
    data, options = load(run.data), dict(run.options)
    assert data.instance_labels is not None
    records = []
    for repeat in range(options["repeats"]):
        order = np.random.default_rng([options["percent"], repeat]).permutation(len(data))
        n_train = max(2, round(len(data) * options["percent"] / 100))
        part, rest = data[order[:n_train]], data[order[n_train:]]
        model = _model(run)
        given = {}
        if bag_tags(model).needs_instance_labels:
            given = fit_parameters(model, instance_labels=part.instance_labels)
        model.fit(part.bags, part.Y, **given)
        assert rest.instance_labels is not None
        truth, labels = rest.instance_labels.instances, model.predict_instances(rest.bags)
        records.append({"accuracy": float(instance_accuracy(truth, labels))})
    return records


def history(run: Run) -> list[Record]:
    """The objective after every phase (Figure 4 of Briggs et al. 2013)."""
    data, model = load(run.data), _model(run)
    model.fit(data.bags, data.Y)
    return [{"objective": float(value)} for value in final_step(model).objective_history_]


def steps(run: Run) -> list[Record]:
    """The convex objective along one descent with the bags' means (Figure 1 of Briggs et al. 2012)."""
    data = load(run.data)
    assert data.Y is not None
    bags = PerInstance(CLPLScaler()).fit_transform(data.bags)
    problem = BagProblem.build(bags, data.Y, LOSSES["rank"], dict(run.settings)["alpha"])._means()
    descent = problem.descend(Support(weights=np.ones(data.Y.shape)), problem.start, n_steps=100)
    return [{"objective": float(value)} for value in descent.values]


def curve(run: Run) -> list[Record]:
    """Accuracy and cross-validated rank loss against alpha (Figure 5 of Briggs et al. 2013)."""
    options = dict(run.options)
    values = [10.0**exponent for exponent in options["exponents"]]
    return selection_curve(_model(run), load(run.data), "alpha", values, cv=options["folds"])


def complexity(run: Run) -> list[Record]:
    """The sums of Table 9 and the ratio of Table 10 of Pham et al."""
    data = load(run.data)
    assert data.Y is not None
    n, labels = data.bags.sizes.astype(float), data.Y.sum(axis=1).astype(float)
    exponential = labels * 2.0**labels * n
    cheapest = np.sort(exponential)[: int(0.8 * len(n))]
    return [
        {
            "sum |Y| 2^|Y| n^2": float(np.sum(exponential * n)),
            "sum |Y| 2^|Y| n": float(np.sum(exponential)),
            "sum n c d": float(np.sum(n) * data.n_classes * data.bags.n_features),
            "ratio": float(np.sum(exponential) / np.sum(cheapest)),
        }
    ]


def description(run: Run) -> list[Record]:
    """The figures of the papers' tables of data sets."""
    data = load(run.data)
    assert data.Y is not None
    sizes, labels = data.bags.sizes, data.Y.sum(axis=1)
    return [
        {
            "bags": len(data), "instances": data.bags.n_instances, "features": data.bags.n_features,
            "classes": data.n_classes, "instances per bag": float(sizes.mean()), "labels per bag": float(labels.mean()),
            "fewest instances": int(sizes.min()), "most instances": int(sizes.max()),
            "deviation of instances": float(sizes.std(ddof=1)), "one label": int(np.sum(labels == 1)),
            "two labels": int(np.sum(labels == 2)), "three or more": int(np.sum(labels >= 3)),
        }
    ]  # fmt: skip


def description_of_clusters(run: Run) -> list[Record]:
    """The same where bags have one class each and are grouped by it."""
    bags, truth = _clusters(run)
    counts = np.unique(truth, return_counts=True)[1]
    return [
        {
            "categories": len(counts), "features": bags.n_features, "bags": len(bags), "instances": bags.n_instances,
            "fewest bags of a class": int(counts.min()), "most bags of a class": int(counts.max()),
            "mean bags of a class": float(counts.mean()),
        }
    ]  # fmt: skip


def cluster(run: Run) -> list[Record]:
    """One clusterer on one data set (Tables 4 to 6 of Zhang, Wang, Si and Li)."""
    bags, truth = _clusters(run)
    name, method = SOURCES[run.data].title, {key: known for known, key in KEYS.items()}[run.method]
    options = dict(run.options)
    return [clustering_tables.run_method(name, method, bags, truth, options["quick"], options.get("scaling"))]


def cluster_sizes(run: Run) -> list[Record]:
    """Accuracy and time against the number of bags (Figures 1 to 3)."""
    options = dict(run.options)
    bags, truth = _scaled_clusters(run)
    setting = clustering_figures.chosen_setting(bags, truth, options["quick"])
    title = SOURCES[run.data].title
    return clustering_figures.against_size(title, bags, truth, setting, options["quick"], options["repeats"])


def cluster_sensitivity(run: Run) -> list[Record]:
    """Accuracy against C and l (Figures 4 to 6); the first record is the setting that stays fixed."""
    quick = dict(run.options)["quick"]
    bags, truth = _scaled_clusters(run)
    setting = clustering_figures.chosen_setting(bags, truth, quick)
    fixed = {name: float(setting[name]) for name in ("C", "balance")}
    return [fixed, *clustering_figures.against_parameters(SOURCES[run.data].title, bags, truth, setting, quick)]


def _clusters(run: Run) -> tuple[Bags, np.ndarray]:
    built = clustering_tables.build(SOURCES[run.data].title)
    assert built is not None  # only runs whose data is there are asked for
    return built


def _scaled_clusters(run: Run) -> tuple[Bags, np.ndarray]:
    bags, truth = _clusters(run)
    return scale_bags(bags, clustering_tables.scaling_of(SOURCES[run.data].title)), truth


def _model(run: Run) -> Any:
    return METHODS[run.method](**dict(run.settings))


def _bag_measures(run: Run, model: Any, train: np.ndarray, test: np.ndarray) -> Record:
    data = load(run.data)
    assert data.Y is not None
    started = time.perf_counter()
    model.fit(data.bags[train], data.Y[train])
    seconds = time.perf_counter() - started
    measures = measure_bags(data.Y[test], model.predict(data.bags[test]), model.decision_function(data.bags[test]))
    if hasattr(model, "predict_proba"):
        measures["calibration_error"] = calibration_error(data.Y[test], model.predict_proba(data.bags[test]))
    return {**measures, "fit_seconds": seconds}


KINDS: dict[str, Callable[[Run], list[Record]]] = {
    "folds": folds,
    "training": training,
    "drawn-anew": drawn_anew,
    "training-size": training_size,
    "multi-label-share": multi_label_share,
    "repeated-folds": repeated_folds,
    "learning": learning,
    "history": history,
    "steps": steps,
    "curve": curve,
    "complexity": complexity,
    "description": description,
    "description-of-clusters": description_of_clusters,
    "cluster": cluster,
    "cluster-sizes": cluster_sizes,
    "cluster-sensitivity": cluster_sensitivity,
}
