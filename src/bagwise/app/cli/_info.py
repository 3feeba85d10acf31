"""`bagwise info`: what is in a file of bags, in a model file, or in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, check_output, only_given
from bagwise.app.cli._data import data_options, run_each


@click.command()
@click.argument("files", nargs=-1, required=True, type=any_path(), callback=only_given)
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file.")
def info(files: tuple[Path, ...], reading: dict[str, Any], as_json: bool) -> None:
    """Say what is in FILES: bags, instances, classes, and what may be wrong with them; a model and its settings; or
    the folder of a run, with the labels that may be missing or spurious."""
    from bagwise.app.runs.data import is_several, open_pieces
    from bagwise.app.runs.folder import NAME
    from bagwise.io.files import check_readable
    from bagwise.io.model import is_model_file

    def one(path: Path) -> None:
        issues: list[dict[str, Any]] = []
        is_run = (path / NAME).is_file()
        if is_run:
            facts, issues = _run_facts(path)
        elif not is_several(path) and is_model_file(check_readable(path)):
            facts = _model_facts(path)
        else:
            facts = _data_facts(path, open_pieces(path, **reading))
        if as_json:
            click.echo(json.dumps(facts | ({"label_issues": issues} if is_run else {}), ensure_ascii=False))
        else:
            width = max(len(key) for key in facts)
            click.echo("\n".join(f"{key.replace('_', ' '):<{width}}  {_text(value)}" for key, value in facts.items()))
            if issues:
                click.echo(f"\n{_issues_table(issues)}")

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
    from bagwise import load
    from bagwise.app.media.recipe import RECIPE
    from bagwise.app.runs.learner import settings_of
    from bagwise.io.model import read_about
    from bagwise.pipeline import classes_of

    model, about = load(path), read_about(path)
    classes = classes_of(model)
    facts = {"file": str(path), "kind": "model", **settings_of(model), **about}
    facts |= {f"{name}_": rate for name, rate in _rates(model).items()}
    facts |= _vectors(getattr(model, RECIPE, {}).get("embedded"))
    facts["bagwise"] = about["written_by"].get("bagwise")
    facts["classes"] = classes or []
    facts["steps"] = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    return json.loads(json.dumps(facts, default=str))


def _run_facts(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a run is, and the labels that may be wrong in it."""
    from bagwise.app.runs.run import Run

    with Run.open(path) as run:
        model = run.model()
        dataset = run.material.dataset
        facts = {
            "file": str(path),
            "kind": "run",
            "medium": run.media_type.name,
            "model": run.manifest["about"]["model"],
            "version": run.version,
            "bags": len(dataset),
            "instances": dataset.bags.n_instances,
            "labels": run.labels,
            "corrections": len(run.corrections()),
            "problems": len(run.problems),
            **_vectors(run.manifest["identity"].get("embedded")),
        }
        if observers := run.observers():
            facts["observers"] = {row.pop("observer"): row for row in observers}
        remarks = run.remarks()
        return facts | ({"remarks": remarks} if remarks else {}) | _rates(model), run.label_issues()


def _vectors(embedded: dict[str, Any] | None) -> dict[str, Any]:
    """Which vectors stand for instances, where they are not the features of the media type."""
    if embedded is None:
        return {}
    joined = ", beside features" if embedded["join"] else ""
    licence = {"licence": embedded["licence"]} if embedded.get("licence") else {}
    return {"vectors": f"{embedded['name']}, {embedded['size']} numbers{joined}", **licence}


def _rates(model: Any) -> dict[str, Any]:
    """The rates of label noise that a fitted learner found or was given; nothing where it models none."""
    from bagwise.pipeline import final_step

    final = final_step(model)
    rates = final.noise_rates() if hasattr(final, "noise_rates") else {}
    return {name: rate.tolist() if hasattr(rate, "tolist") else rate for name, rate in rates.items()}


def _issues_table(rows: list[dict[str, Any]]) -> str:
    from bagwise.app.report.tables import format_table

    headings = ("bag", "label", "which is", "in the bag", "instance", "it is that")
    lines = [
        (
            row["bag"],
            row["label"],
            row["kind"],
            f"{row['probability']:.2f}",
            str(row["instance"]),
            f"{row['instance_probability']:.2f}",
        )
        for row in rows
    ]
    return format_table(headings, lines, right=(3, 4, 5))


def _data_facts(path: Path, read: tuple[Iterable[Any], str]) -> dict[str, Any]:
    """Of a file, or of parquet files that are one data set, piece by piece."""
    from bagwise.app.report.facts import DatasetFacts

    pieces, understood = read
    facts = DatasetFacts()
    for piece in pieces:
        facts.add(piece)
    return {"file": str(path), "kind": "data", "read_as": understood, **facts.summary()}
