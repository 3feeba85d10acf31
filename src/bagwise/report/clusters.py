"""What a clustering found: a row for each bag, a summary as plain data, and one self-contained page from it."""

from __future__ import annotations

import os
from collections import Counter
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._version import __version__
from bagwise.clustering import M3IC
from bagwise.dataset import BagDataset, rows_of
from bagwise.exceptions import InputError
from bagwise.io.files import atomic_write

N_WITNESSES = 12  # shown of each cluster
N_FEATURES = 8  # told of each cluster
MOST_STRIP_FEATURES = 300  # a strip of more features would be wider than a screen


def cluster_rows(dataset: BagDataset, model: M3IC) -> list[dict[str, Any]]:
    """One row a bag: its name, its cluster, the position of its witness in it and its margin.

    Parameters
    ----------
    dataset : BagDataset
        The bags that `model` was fitted on, in their order.
    model : fitted M3IC
    """
    if len(model.labels_) != len(dataset):
        raise InputError(
            f"The model was fitted on {len(model.labels_)} bags and the data set holds {len(dataset)}; pass the bags "
            "of the fit."
        )
    columns = (dataset.bag_names, model.labels_, model.witnesses_, model.margins_)
    return [
        {"bag": name, "cluster": int(cluster), "witness": int(witness), "margin": round(float(margin), 6)}
        for name, cluster, witness, margin in zip(*columns, strict=True)
    ]


def summarize_clusters(dataset: BagDataset, model: M3IC, *, scaling: str = "none") -> dict[str, Any]:
    """The figures of the page.

    Returns
    -------
    dict
        ``about`` (name and value of what was done), ``clusters`` (a dict for each cluster: number, size, share, the
        rows of its surest witnesses, and the features by which its witnesses differ most from all others), ``located``
        (whether the data say where instances are) and ``labels`` (for each label of the data, its bags in each
        cluster) or None.
    """
    rows = cluster_rows(dataset, model)
    scores = _standard_witnesses(dataset, model)
    feature_names = dataset.feature_names or [f"feature {j}" for j in range(dataset.bags.n_features)]
    clusters = []
    for c in range(model.n_clusters):
        members = np.flatnonzero(model.labels_ == c)
        surest = members[np.argsort(-model.margins_[members], kind="stable")][:N_WITNESSES]
        clusters.append(
            {
                "cluster": c,
                "size": len(members),
                "share": len(members) / len(dataset),
                "below_margin": int((model.margins_[members] < 1.0).sum()),
                "witnesses": [
                    {**rows[i], "where": _where(dataset, i, rows[i]["witness"]), "strip": _strip(scores[i])}
                    for i in surest
                ],
                "features": _telling_features(scores, members, feature_names),
            }
        )
    return {
        "about": {
            "data": dataset.name,
            "bags": len(dataset),
            "instances": dataset.bags.n_instances,
            "features": dataset.bags.n_features,
            "clusters": model.n_clusters,
            "scaling": scaling,
            "C": model.C,
            "balance": model.balance,
            "kernel": model.kernel if model.kernel == "linear" else f"{model.kernel}, gamma {model.gamma:g}",
            "starts": model.n_init,
            "seed": model.random_state,
            "J": f"{model.objective_:.4g}",
        },
        "clusters": clusters,
        "located": dataset.locations is not None,
        "labels": _label_counts(dataset, model),
    }


def write_cluster_page(summary: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the page of a `summarize_clusters`: one file without scripts, everything from the data escaped."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            f"The page needs jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error
    template = files("bagwise.report").joinpath("clusters.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    page = environment.from_string(template).render(summary=summary, version=__version__)
    with atomic_write(path, "w") as file:
        file.write(page)


def _standard_witnesses(dataset: BagDataset, model: M3IC) -> np.ndarray:
    """(n, d) witnesses in standard deviations of all instances."""
    bags = dataset.bags
    X = bags.instances
    witnesses = X[bags.offsets[:-1] + model.witnesses_]
    if sp.issparse(X):
        witnesses = witnesses.toarray()
        mean = np.asarray(X.mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))
    else:
        mean, spread = X.mean(axis=0), X.std(axis=0)
    return (witnesses - mean) / np.where(spread > 0.0, spread, 1.0)


def _telling_features(scores: np.ndarray, members: np.ndarray, names: list[str]) -> list[dict[str, Any]]:
    """The features whose mean over the cluster's witnesses differs most from that over the other clusters'."""
    others = np.setdiff1d(np.arange(len(scores)), members)
    if not len(members) or not len(others):
        return []
    own, rest = scores[members].mean(axis=0), scores[others].mean(axis=0)
    order = np.argsort(-np.abs(own - rest), kind="stable")[:N_FEATURES]
    return [{"name": str(names[j]), "here": float(own[j]), "elsewhere": float(rest[j])} for j in order]


def _where(dataset: BagDataset, bag: int, witness: int) -> str:
    """Where the instance was found, in words; long values such as outlines are left out."""
    if dataset.locations is None:
        return ""
    row = int(dataset.bags.offsets[bag]) + witness
    location = rows_of({name: values[row : row + 1] for name, values in dataset.locations.items()})[0]
    parts = [f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in location.items()]
    return ", ".join(part for part in parts if len(part) <= 80)


def _strip(scores: np.ndarray) -> list[str] | None:
    """A colour for each feature: blue below the mean of all instances, red above, white at it."""
    if len(scores) > MOST_STRIP_FEATURES:
        return None
    strengths = np.clip(scores / 3.0, -1.0, 1.0)
    return [
        f"rgb({255 - round(170 * max(-s, 0.0))},{255 - round(150 * abs(s))},{255 - round(170 * max(s, 0.0))})"
        for s in strengths
    ]


def _label_counts(dataset: BagDataset, model: M3IC) -> list[dict[str, Any]] | None:
    if dataset.Y is None:
        return None
    rows = []
    for j, name in enumerate(dataset.class_names):
        carriers = np.flatnonzero(dataset.Y[:, j])
        counts = Counter(model.labels_[carriers].tolist())
        rows.append({"label": str(name), "bags": len(carriers), "counts": [counts[c] for c in range(model.n_clusters)]})
    return rows
