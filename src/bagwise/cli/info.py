"""`bagwise info`: what is in a file of bags or in a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path
from bagwise.cli._data import data_options, reader_options, run_each


@click.command()
@click.argument("files", nargs=-1, required=True, type=any_path())
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file.")
def info(
    files: tuple[Path, ...], format_name: str | None, labels_from: Path | None, bag: str | None, features: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Say what is in FILES: bags, instances, classes, and what may be wrong with them; or a model and its settings."""
    from bagwise.io.model import is_model_file
    from bagwise.io.text import check_readable

    def one(path: Path) -> None:
        check_readable(path)
        if is_model_file(path):
            facts = _model_facts(path)
        else:
            facts = _data_facts(path, format_name, reader_options(labels_from, bag, features))
        if as_json:
            click.echo(json.dumps(facts, ensure_ascii=False))
        else:
            width = max(len(key) for key in facts)
            click.echo("\n".join(f"{key.replace('_', ' '):<{width}}  {_text(value)}" for key, value in facts.items()))

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
    from bagwise.workflow.learner import settings_of

    model, about = load(path), read_about(path)
    classes = getattr(final_step(model), "classes_", None)
    facts = {"file": str(path), "kind": "model", **settings_of(model), **about}
    facts["bagwise"] = about["written_by"].get("bagwise")
    facts["classes"] = [] if classes is None else plain_value(classes)
    facts["steps"] = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    return json.loads(json.dumps(facts, default=str))


def _data_facts(path: Path, format_name: str | None, options: dict[str, Any]) -> dict[str, Any]:
    from bagwise.io.data.pieces import iter_dataset
    from bagwise.report.facts import DatasetFacts

    pieces, understood = iter_dataset(path, format_name, **options)
    facts = DatasetFacts()
    for piece in pieces:
        facts.add(piece)
    return {"file": str(path), "kind": "data", "read_as": understood, **facts.summary()}
