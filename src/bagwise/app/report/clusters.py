"""A clustering as rows, as plain data for JSON, as text for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from bagwise._version import __version__
from bagwise.app.report.page import (
    MediaFiles,
    Sounds,
    check_page_can_be_made,
    render,
    show_rows,
    write_with_sounds,
)
from bagwise.app.report.tables import format_table
from bagwise.clustering.find import BASELINE, Clustering, make_clusterer
from bagwise.clustering.scaling import are_words
from bagwise.core.dataset import BagDataset, rows_of
from bagwise.core.exceptions import InputError
from bagwise.metrics import clustering_accuracy

N_WITNESSES = 12  # shown of each cluster
N_FEATURES = 8  # listed for each cluster
UNLISTED = ("n_clusters", "n_jobs", "random_state")  # settings that stand elsewhere
MOST_STRIP_FEATURES = 300  # a strip of more features would be wider than a screen
CLEAR_FROM = 0.9  # share of half fits from which on a bag is clearly in its cluster
N_WORDS = 10  # named of each cluster of texts
MARGINS = {  # what a margin is
    "mixture": "1 minus the likelihood of the second cluster over that of its own, for a mean instance",
    "m3ic": "the margin of M3IC, of which the fit asks 1",
    "cpm3c": "the share of the bag's instances in its cluster less that in the second",
    "bamic": "1 minus the distance to its medoid over that to the second",
    "kmeans": "the share of the bag's instances in its cluster less that in the second",
    "mean-kmeans": "1 minus the distance to its centre over that to the second",
    "plain-kmeans": "1 minus the distance to its centre over that to the second",
}
SWEEP: dict[
    str, tuple[str, Callable[[Any], str]]
] = {  # columns of the table of all settings that were tried: heading, and how a value is written
    "n_clusters": ("k", str),
    "C": ("C", "{:g}".format),
    "balance": ("balance", "{:g}".format),
    "objective": ("objective", "{:.4g}".format),
    "sizes": ("sizes", lambda sizes: " ".join(map(str, sizes))),
    "silhouette": ("silhouette", "{:.3f}".format),
    "stability": ("stability", "{:.3f}".format),
    "noise": ("in noise", "{:.3f}".format),
    "gap": ("gap", "{:.3f}".format),
}


def cluster_rows(dataset: BagDataset, result: Clustering) -> list[dict[str, Any]]:
    """One row per bag: its name, cluster, witness and margin, how often it stays there, and the baseline's cluster.

    Parameters
    ----------
    dataset : BagDataset
        The bags that were clustered, in their order.
    result : Clustering
    """
    if len(result.labels) != len(dataset):
        raise InputError(
            f"The model was fitted on {len(result.labels)} bags and the dataset holds {len(dataset)}; pass the bags "
            "of the fit."
        )
    columns = {
        "bag": dataset.bag_names,
        "cluster": result.labels.tolist(),
        "witness": result.witnesses.tolist(),
        "margin": result.margins.round(6).tolist(),
        "stays": [None] * len(dataset) if result.halves is None else result.halves.shares.round(3).tolist(),
        "plain_kmeans": result.baseline.labels.tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def describe_clusters(dataset: BagDataset, result: Clustering) -> dict[str, Any]:
    """What was done and found as plain data, for JSON: sizes, the sweep, the test against noise, the baseline."""
    trial, baseline, halves = result.trial, result.baseline, result.halves
    return {
        "scaling": result.scaling,
        "n_bags": len(dataset),
        "n_instances": dataset.bags.n_instances,
        "objective": result.objective,
        "sizes": result.sizes,
        "sweep": result.records,
        "test": None
        if trial is None
        else {"p_value": trial.p_value, "n_noise": trial.n_noise, "has_clusters": trial.has_clusters},
        "verdict": None if trial is None else trial.in_words("--noise 99"),
        "stays": None
        if halves is None
        else {
            "mean": float(halves.shares.mean()),
            "unclear": int((halves.shares < CLEAR_FROM).sum()),
            "stability": halves.stability,
        },
        "words": _words_of_clusters(dataset, result.labels, len(result.sizes)),
        "baseline": {
            "model": BASELINE,
            "rows": baseline.rows,
            "sizes": baseline.sizes,
            "agreement": float(baseline.agreement),
            "stability": None if baseline.halves is None else baseline.halves.stability,
            "sweep": None if baseline.trial is None else baseline.trial.records,
            "words": _words_of_clusters(dataset, baseline.labels, len(baseline.sizes)),
        },
        "recommended": BASELINE if baseline.is_better else None,
        "accuracy": _accuracies(dataset, result),
    }


def _advice(about: Mapping[str, Any]) -> str | None:
    baseline = about["baseline"]
    if about["recommended"] is None:
        return None
    return (
        f"Take {BASELINE} instead: its {len(baseline['sizes'])} clusters are more stable between halves of the bags "
        f"({baseline['stability']:.2f}) than the {len(about['sizes'])} above ({about['stays']['stability']:.2f}), and "
        f"exceed noise by more. They are the column plain_kmeans; --method {BASELINE} shows them."
    )


def _words_of_clusters(dataset: BagDataset, labels: np.ndarray, k: int) -> list[list[str]] | None:
    """Of each cluster the words of which its bags hold more than others, by TF-IDF; None without words."""
    names = dataset.feature_names
    if not names or not are_words(dataset.bags):
        return None
    rows = make_clusterer(BASELINE).rows_of(dataset.bags)
    found: list[list[str]] = []
    for c in range(k):
        members, others = np.flatnonzero(labels == c), np.flatnonzero(labels != c)
        if not len(members) or not len(others):
            found.append([])
            continue
        more = np.asarray(rows[members].mean(axis=0) - rows[others].mean(axis=0)).ravel()
        best = np.argsort(-more, kind="stable")[:N_WORDS]
        found.append([str(names[j]) for j in best if more[j] > 0.0])
    return found


def _accuracies(dataset: BagDataset, result: Clustering) -> dict[str, float] | None:
    """Share of bags in the right cluster, of the method and the baseline, where every labelled bag has one label."""
    if dataset.Y is None or not dataset.labelled.any():
        return None
    rows = np.flatnonzero(dataset.labelled)
    if (dataset.Y[rows].sum(axis=1) != 1).any():
        return None
    truth = dataset.Y[rows].argmax(axis=1)
    found = {"clusters": result.labels, BASELINE: result.baseline.labels}
    return {name: clustering_accuracy(truth, labels[rows]) for name, labels in found.items()}


def clusters_in_words(about: Mapping[str, Any]) -> str:
    """What `describe_clusters` tells, for a terminal: the sweep, the clusters, the baseline, the verdict."""
    headings, rows = _sweep_table(about["sweep"])
    counts = ", ".join(map(str, about["sizes"]))
    lines = [
        format_table(headings, rows, right=[i for i, heading in enumerate(headings) if heading not in ("sizes", "")]),
        "",
        f"{about['n_bags']} bags in {len(about['sizes'])} clusters: {counts} ({about['model']}, scaled by "
        f"{about['scaling']})",
        *_words_in_lines(about["words"]),
        *([_stays_in_words(about)] if about["stays"] else []),
        _baseline_in_words(about["baseline"]),
    ]
    if about["accuracy"]:
        shares = about["accuracy"]
        lines.append(
            f"by the labels in the data, which were not used: {100 * shares['clusters']:.1f} % right, {BASELINE} "
            f"{100 * shares[BASELINE]:.1f} %"
        )
    if about["verdict"]:
        lines.append(about["verdict"])
    advice = _advice(about)
    if advice:
        lines.append(advice)
    return "\n".join(lines)


def _words_in_lines(words: list[list[str]] | None) -> list[str]:
    return [f"  {c}: {', '.join(own)}" for c, own in enumerate(words or []) if own]


def _stays_in_words(about: Mapping[str, Any]) -> str:
    stays = about["stays"]
    return (
        f"learned from halves of the other bags, {100 * stays['mean']:.0f} % of the bags stay in their cluster; "
        f"{stays['unclear']} of {about['n_bags']} stay in fewer than {100 * CLEAR_FROM:.0f} % of the fits"
    )


def _baseline_in_words(baseline: Mapping[str, Any]) -> str:
    return (
        f"baseline {baseline['model']}, k-means of {baseline['rows']}: {', '.join(map(str, baseline['sizes']))} "
        f"(agreement {baseline['agreement']:.2f})"
    )


def _sweep_table(records: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table of all settings that were tried."""
    columns = [name for name in SWEEP if any(record.get(name) is not None for record in records)]
    rows = []
    for record in records:
        cells = ["-" if record.get(name) is None else SWEEP[name][1](record[name]) for name in columns]
        rows.append([*cells, "<- chosen" if record["chosen"] else ""])
    return [*(SWEEP[name][0] for name in columns), ""], rows


def summarize_clusters(dataset: BagDataset, result: Clustering, method: str) -> dict[str, Any]:
    """The figures of the page.

    Returns
    -------
    dict
        ``about`` (name and value of what was done), ``described`` (what `describe_clusters` gives), ``baseline`` (in
        words), ``margin`` and ``stays``, in words, what a margin is and how often bags stay, ``sweep`` (headings and
        rows), ``clusters`` (a dict per cluster: number, size, share, words, rows of its surest witnesses, and the
        features by which they differ most from those of all others), ``located`` (whether the data say where instances
        are) and ``labels`` (for each label of the data, its bags in each cluster) or None.
    """
    rows, scores = cluster_rows(dataset, result), _standard_witnesses(dataset, result)
    feature_names = dataset.feature_names or [f"feature {j}" for j in range(dataset.bags.n_features)]
    stays = np.ones(len(rows)) if result.halves is None else result.halves.shares
    settings, described = result.model.get_params(), describe_clusters(dataset, result)
    clusters = []
    for c, size in enumerate(result.sizes):
        members = np.flatnonzero(result.labels == c)
        surest = members[np.lexsort((-result.margins[members], -stays[members]))][:N_WITNESSES]
        witnesses = [{**rows[i], **_place(dataset, i, rows[i]["witness"]), "strip": _strip(scores[i])} for i in surest]
        clusters.append(
            {
                "cluster": c,
                "size": size,
                "share": size / len(dataset),
                "unclear": int((stays[members] < CLEAR_FROM).sum()),
                "words": described["words"][c] if described["words"] else [],
                "witnesses": witnesses,
                "features": _telling_features(scores, members, feature_names),
            }
        )
    shown = [f"{name} {value}" for name, value in settings.items() if name not in UNLISTED]
    return {
        "about": {
            "data": dataset.name,
            "bags": len(dataset),
            "instances": dataset.bags.n_instances,
            "features": dataset.bags.n_features,
            "method": method,
            "clusters": len(clusters),
            "scaling": result.scaling,
            "settings": ", ".join(shown),
            "seed": settings["random_state"],
            "objective": f"{result.objective:.4g}",
        },
        "described": described,
        "advice": _advice(described),
        "baseline": _baseline_in_words(described["baseline"]),
        "margin": MARGINS[method],
        "stays": _stays_in_words(described) if described["stays"] else "",
        "clear_from": f"{100 * CLEAR_FROM:.0f} %",
        "sweep": _sweep_table(result.records),
        "clusters": clusters,
        "located": dataset.locations is not None,
        "labels": _label_counts(dataset, result),
    }


def _standard_witnesses(dataset: BagDataset, result: Clustering) -> np.ndarray:
    """(n, d) witnesses in standard deviations of all instances."""
    X = dataset.bags.instances
    scaler = StandardScaler(with_mean=False).fit(X)
    witnesses = X[dataset.bags.offsets[:-1] + result.witnesses]
    dense = witnesses.toarray() if sp.issparse(witnesses) else witnesses
    return (dense - scaler.mean_) / scaler.scale_


def _telling_features(scores: np.ndarray, members: np.ndarray, names: list[str]) -> list[dict[str, Any]]:
    """The features whose mean over the cluster's witnesses differs most from that over the other clusters'."""
    others = np.setdiff1d(np.arange(len(scores)), members)
    if not len(members) or not len(others):
        return []
    own, rest = scores[members].mean(axis=0), scores[others].mean(axis=0)
    order = np.argsort(-np.abs(own - rest), kind="stable")[:N_FEATURES]
    return [{"name": str(names[j]), "here": float(own[j]), "elsewhere": float(rest[j])} for j in order]


def _place(dataset: BagDataset, bag: int, witness: int) -> dict[str, Any]:
    """Where the instance was found: as data, and in words without long values such as outlines."""
    if dataset.locations is None:
        return {"place": {}, "where": ""}
    row = int(dataset.bags.offsets[bag]) + witness
    location = rows_of({name: values[row : row + 1] for name, values in dataset.locations.items()})[0]
    parts = [f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in location.items()]
    return {"place": location, "where": ", ".join(part for part in parts if len(part) <= 80)}


def _strip(scores: np.ndarray) -> list[str] | None:
    """A colour for each feature: blue below the mean of all instances, red above, white at it."""
    if len(scores) > MOST_STRIP_FEATURES:
        return None
    strengths = np.clip(scores / 3.0, -1.0, 1.0)
    return [
        f"rgb({255 - round(170 * max(-s, 0.0))},{255 - round(150 * abs(s))},{255 - round(170 * max(s, 0.0))})"
        for s in strengths
    ]


def _label_counts(dataset: BagDataset, result: Clustering) -> list[dict[str, Any]] | None:
    if dataset.Y is None:
        return None
    clusters = np.eye(len(result.sizes), dtype=np.int64)[result.labels]
    counts = (dataset.Y != 0).T.astype(np.int64) @ clusters
    return [
        {"label": str(name), "bags": sum(row), "counts": row}
        for name, row in zip(dataset.class_names, counts.tolist(), strict=True)
    ]


def write_cluster_page(
    summary: dict[str, Any],
    path: Path,
    media: MediaFiles | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Path]:
    """Write the page of a `summarize_clusters` and its sounds, everything from the data escaped; gives their paths.

    The page is one file without scripts; sounds, if there are any, lie in a folder next to it.

    Parameters
    ----------
    summary : what `summarize_clusters` gives
    path : of the page
    media : MediaFiles or None
        Where witnesses can be seen and heard: thumbnails of regions, clips of sounds, the words of passages.
    progress : called with what is done, how much and of how much
    """
    check_page_can_be_made()
    sounds, shown = Sounds(f"{path.stem}-sounds"), {}
    if media is not None:
        rows = [
            {**row["place"], "bag": row["bag"], "instance": row["witness"]}
            for cluster in summary["clusters"]
            for row in cluster["witnesses"]
        ]
        shown = show_rows(media, rows, sounds, lambda done, total: progress("drawing", done, total))
    page = render(
        "clusters.html.j2",
        summary=summary,
        shown=shown,
        sounds=sounds,
        version=__version__,
        instances="instances" if media is None else media.media_type.instances,
        place="" if media is None else media.media_type.place_in_words,
    )
    return write_with_sounds(page, path, sounds)
