"""What a run gave, as plain data: the page is made from this and from nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from bagwise.report.colours import class_colours
from bagwise.report.field import summarize_field
from bagwise.report.file_rows import file_rows
from bagwise.report.result import AnnotateResult
from bagwise.report.trust import summarize_trust

KEPT = "kept"  # column of annotations that a precision was promised of
N_LEAST_SURE = 30
BARS = 10  # bins of the histogram of probabilities


def summarize_run(result: AnnotateResult) -> dict[str, Any]:
    """The figures of the page.

    Returns
    -------
    dict
        ``about``, ``counts`` (files, bags, instances and so on), ``classes`` (a dict for each class), ``least_sure``
        (rows, the least sure first), ``files`` (see `file_rows`), ``n_files``, ``field`` (see `summarize_field`),
        ``problems``, ``unexplained``, ``doubtful``, ``trust``, ``remarks``, ``choice``, ``form``.
    """
    annotations = result.annotations
    shown = annotations.shown()
    labelled = [labels for labels in result.label_sets.values() if labels is not None]
    unlabelled = len(result.label_sets) - len(labelled)
    counts = {
        "files": len(annotations.files),
        "bags": len(result.label_sets),
        "bags labelled": len(labelled),
        "bags annotated by the model alone": unlabelled,
        "instances": len(annotations.rows),
        "instances named": len(shown),
        "instances taken for noise": sum(1 for row in annotations.rows if not annotations.is_named(row)),
    }
    if KEPT in annotations.extra:
        counts["instances not sure enough"] = sum(1 for row in annotations.rows if annotations.is_named(row)) - len(
            shown
        )
    if annotations.medium.timed:
        seconds = sum(file["seconds"] - file.get("seconds_of_gaps", 0.0) for file in annotations.files)
        counts["minutes"] = round(seconds / 60, 1)
    return {
        "about": annotations.about,
        "counts": counts,
        "classes": _classes(annotations.classes, shown, labelled),
        "least_sure": sorted(
            (row for row in shown if row["probability"] is not None),
            key=lambda row: (row["probability"], row.get("file", ""), str(row["bag"]), row["instance"]),
        )[:N_LEAST_SURE],
        "files": file_rows(annotations),
        "n_files": len(annotations.files) if annotations.medium.places else 0,
        "field": summarize_field(annotations),
        "problems": result.problems,
        "unexplained": result.unexplained,
        "doubtful": result.doubtful,
        "trust": None if result.trust is None else summarize_trust(result.trust, annotations),
        "remarks": result.remarks,
        "notes": annotations.medium.notes(annotations.files),
        "choice": result.choice,
        "form": result.form,
        "max_noise": annotations.max_noise,
    }


def _classes(names: list[str], shown: list[dict[str, Any]], labelled: list[set[str]]) -> list[dict[str, Any]]:
    listed = Counter(label for labels in labelled for label in labels)
    sureness: dict[str, list[float]] = defaultdict(list)
    instances = Counter(row["label"] for row in shown)
    for row in shown:
        if row["probability"] is not None:
            sureness[row["label"]].append(row["probability"])
    colours = class_colours(names)
    return [
        {
            "name": name,
            "colour": colours[name].colour,
            "pattern": colours[name].pattern,
            "bags": listed[name],
            "instances": instances[name],
            "mean_probability": sum(sureness[name]) / len(sureness[name]) if sureness[name] else None,
            "histogram": _histogram(sureness[name]),
        }
        for name in names
    ]


def _histogram(values: list[float]) -> list[int]:
    counts = [0] * BARS
    for value in values:
        counts[min(int(value * BARS), BARS - 1)] += 1
    return counts
