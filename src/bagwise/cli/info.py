"""`bagwise info`: what is in a file of bags, in a model file, or in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path, check_output
from bagwise.cli._data import data_options, reader_options, run_each


@click.command()
@click.argument("files", nargs=-1, required=True, type=any_path())
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file.")
def info(
    files: tuple[Path, ...], format_name: str | None, labels_from: Any, bag: str | None, features: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Say what is in FILES: bags, instances, classes, and what may be wrong with them; a model and its settings; or
    the folder of a run, with the labels that somebody may have forgotten or made up."""
    from bagwise.io.data.pieces import iter_dataset
    from bagwise.io.model import is_model_file
    from bagwise.io.text import check_readable
    from bagwise.workflow.large import is_several, iter_several
    from bagwise.workflow.manifest import NAME

    def one(path: Path) -> None:
        doubtful: list[dict[str, Any]] = []
        is_run = (path / NAME).is_file()
        if is_run:
            facts, doubtful = _run_facts(path)
        elif is_several(path):
            facts = _data_facts(path, iter_several(path, **reader_options(labels_from, bag, features)))
        else:
            check_readable(path)
            options = reader_options(labels_from, bag, features)
            is_model = is_model_file(path)
            facts = _model_facts(path) if is_model else _data_facts(path, iter_dataset(path, format_name, **options))
        if as_json:
            click.echo(json.dumps(facts | ({"doubtful_labels": doubtful} if is_run else {}), ensure_ascii=False))
        else:
            width = max(len(key) for key in facts)
            click.echo("\n".join(f"{key.replace('_', ' '):<{width}}  {_text(value)}" for key, value in facts.items()))
            if doubtful:
                click.echo(f"\n{_doubtful_table(doubtful)}")

    check_output()
    if len(files) == 1:
        one(files[0])
    else:
        run_each(files, one)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:12]))
        return f"{shown}, ... ({len(value)} in all)" if len(value) > 12 else shown or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _model_facts(path: Path) -> dict[str, Any]:
    from bagwise.io.model import load, read_about
    from bagwise.io.tables import plain_value
    from bagwise.pipeline import final_step
    from bagwise.workflow.learner import RECIPE, settings_of

    model, about = load(path), read_about(path)
    classes = getattr(final_step(model), "classes_", None)
    facts = {"file": str(path), "kind": "model", **settings_of(model), **about}
    facts |= {f"{name}_": rate for name, rate in rates_of(final_step(model)).items()}
    facts |= _vectors(getattr(model, RECIPE, {}).get("embedded"))
    facts["bagwise"] = about["written_by"].get("bagwise")
    facts["classes"] = [] if classes is None else plain_value(classes)
    facts["steps"] = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    return json.loads(json.dumps(facts, default=str))


def _run_facts(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a run is, and the labels that may be wrong in it."""
    from bagwise.io import load
    from bagwise.pipeline import final_step
    from bagwise.workflow.remarks import label_remarks
    from bagwise.workflow.run import Run
    from bagwise.workflow.version import MODEL_FILE, version_folder

    with Run.open(path) as run:
        dataset = run.material.dataset
        final = final_step(load(version_folder(path, run.version) / MODEL_FILE))
        facts = {
            "file": str(path), "kind": "run", "medium": run.medium.name, "model": run.manifest["about"]["model"],
            "version": run.version, "bags": len(dataset), "instances": dataset.bags.n_instances, "labels": run.labels,
            "corrections": len(run.corrections()), "problems": len(run.problems),
            **_vectors(run.manifest["identity"].get("embedded")),
        }  # fmt: skip
        remarks = label_remarks(run.told(), run.medium)
        return facts | ({"remarks": remarks} if remarks else {}) | rates_of(final), run.doubtful_labels()


def _vectors(embedded: dict[str, Any] | None) -> dict[str, Any]:
    """Which vectors stand for instances, where they are not the features of the medium."""
    if embedded is None:
        return {}
    beside = ", beside features" if embedded["join"] else ""
    return {"vectors": f"{embedded['name']}, {embedded['size']} numbers{beside}"}


def rates_of(final: Any) -> dict[str, Any]:
    """The rates of wrong labels that a fitted learner found or was given; nothing where it knows none."""
    rates = {name: getattr(final, f"{name}_", None) for name in ("missed", "spurious")}
    return {name: getattr(rate, "tolist", lambda rate=rate: rate)() for name, rate in rates.items() if rate is not None}


def _doubtful_table(rows: list[dict[str, Any]]) -> str:
    from bagwise.report.tables import format_table

    headings = ("bag", "label", "which is", "in the bag", "instance", "it is that")
    lines = [
        (row["bag"], row["label"], row["kind"], f"{row['probability']:.2f}", str(row["instance"]),
         f"{row['instance_probability']:.2f}")
        for row in rows
    ]  # fmt: skip
    return format_table(headings, lines, right=(3, 4, 5))


def _data_facts(path: Path, read: tuple[Iterable[Any], str]) -> dict[str, Any]:
    """Of a file, or of parquet files that are one data set, piece by piece."""
    from bagwise.report.facts import DatasetFacts

    pieces, understood = read
    facts = DatasetFacts()
    for piece in pieces:
        facts.add(piece)
    return {"file": str(path), "kind": "data", "read_as": understood, **facts.summary()}
