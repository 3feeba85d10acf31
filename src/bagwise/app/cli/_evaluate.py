"""`bagwise evaluate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, check_output, given_path, progress
from bagwise.app.cli._data import data_options, notice, quiet_option
from bagwise.app.cli._options import grid_values, run_options


@click.command(cls=ComputingCommand)
@click.argument("data", type=given_path())
@click.option(
    "--model",
    "models",
    multiple=True,
    default=("ored",),
    show_default=True,
    help="Name in the catalogue; may be given several times.",
)
@click.option(
    "--mode",
    type=click.Choice(["inductive", "transductive"]),
    default="inductive",
    show_default=True,
    help="inductive: folds over bags, test labels unknown. transductive: annotate the training bags.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Shuffles the folds.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Folds in parallel; -1 for all processors.")
@click.option("--records", type=any_path(dir_okay=False), help="Write one JSON line a fold here.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON lines instead of a table.")
@run_options("select", "grid", "folds")
@click.option(
    "--curve",
    type=any_path(dir_okay=False),
    help="With --select: a picture (PNG) of rank loss and transductive accuracy against the parameter.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="What it may take, such as 2GB (default: half of the machine's); data that needs more is read by pieces.",
)
@run_options("learner")
@data_options
@quiet_option
def evaluate(
    data: Path,
    models: tuple[str, ...],
    mode: str,
    folds: int,
    seed: int,
    jobs: int,
    records: Path | None,
    as_json: bool,
    select: str | None,
    grid: list[float] | None,
    curve: Path | None,
    memory: str | None,
    learner: dict[str, Any],
    reading: dict[str, Any],
    quiet: bool,
) -> None:
    """Train and score models on DATA, a file of labelled bags, by the papers' protocols.

    DATA may also be a folder or a pattern of parquet files. Data that does not fit into the memory is read from disk by
    pieces, fold after fold.
    """
    from bagwise.app.report.figures import draw_selection_curves
    from bagwise.app.report.tables import format_summary
    from bagwise.app.runs.data import large_source
    from bagwise.app.runs.learner import apply_settings, settings_of
    from bagwise.catalog import make_model
    from bagwise.core.exceptions import InputError
    from bagwise.io.data.formats import read_described
    from bagwise.io.files import check_target
    from bagwise.io.tables import json_lines, write_json_lines
    from bagwise.model_selection import evaluate as evaluate_in_memory
    from bagwise.model_selection import search_by_rank_loss, selection_curve, summarize
    from bagwise.scale import evaluate_source

    if select is None and (grid is not None or curve is not None):
        raise click.UsageError("--grid and --curve go with --select.")
    if records is None:
        check_output()
    for target in filter(None, (records, curve)):
        check_target(target)
    estimators = {name: apply_settings(make_model(name), learner) for name in models}
    made_by = {name: settings_of(estimator) for name, estimator in estimators.items()}
    values = grid_values(select, grid)
    source, why = large_source(data, memory, **reading)
    if source is not None:
        if select is not None:
            raise InputError(f"{why}; --select needs all bags in memory, so choose on some of them, or raise --memory.")
        notice(f"{why}; {source.n_bags} bags in {source.n_pieces} piece(s)", quiet or as_json)
        run = partial(evaluate_source, source=source)
    else:
        dataset, understood = read_described(data, **reading)
        notice(f"read {data} as {understood}", quiet or as_json)
        run = partial(evaluate_in_memory, dataset=dataset, n_jobs=jobs)
    if select is not None:
        if curve is not None:
            curves = {
                name: selection_curve(estimator, dataset, select, values, cv=folds, random_state=seed, n_jobs=jobs)
                for name, estimator in estimators.items()
            }
            draw_selection_curves(curves, curve, dataset.name)
        estimators = {
            name: search_by_rank_loss(estimator, select, values, cv=folds, random_state=seed)
            for name, estimator in estimators.items()
        }
    results = []
    with progress(quiet) as report:
        for name, estimator in estimators.items():
            results += run(estimator, mode=mode, cv=folds, random_state=seed, name=name, progress=partial(report, name))
    if records is not None:
        write_json_lines([{**record, **made_by[record["model"]]} for record in results], records)
    rows = summarize(results)
    if as_json:
        click.echo(json_lines({**row, **made_by[row["model"]]} for row in rows), nl=False)
        return
    click.echo(format_summary(rows))
    for name in estimators if select is not None else ():
        chosen = [record["selected"][select] for record in results if record["model"] == name]
        click.echo(f"{name}: {select} = {', '.join(f'{value:g}' for value in chosen)}")
    for file in filter(None, (records, curve)):
        click.echo(f"wrote {file}")
