"""`bagwise fit`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, going_on, progress
from bagwise.app.cli._data import data_options, notice, reader_options
from bagwise.app.cli._options import grid_values, run_options


@click.command(cls=ComputingCommand)
@click.argument("data", type=any_path())
@click.option(
    "--model",
    "name",
    default="ored",
    show_default=True,
    help="Name in the catalogue (docs/command-line.md lists all), or auto to choose one.",
)
@click.option("--out", type=any_path(), required=True, help="The model file to write.")
@run_options("learner")
@run_options("select", "grid", "folds")
@click.option("--instance-labels", "use_known", is_flag=True, help="Learn from the known instance labels too.")
@click.option(
    "--checkpoint",
    type=any_path(file_okay=False),
    help="A folder that keeps the state of a long fit; the same command goes on from there.",
)
@click.option(
    "--checkpoint-seconds",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="How often the state is kept.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="What the fit may take, such as 2GB (default: half of the machine's); data that needs more is read by pieces.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Read and compute on the workers of a Dask cluster: tcp://host:8786, or local:4 for four of this machine.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is random.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Parallel jobs; -1 for all processors.")
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("--quiet", is_flag=True, help="No remarks and no progress bars.")
def fit(
    data: Path,
    name: str,
    out: Path,
    learner: dict[str, Any],
    select: str | None,
    grid: list[float] | None,
    folds: int,
    use_known: bool,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    memory: str | None,
    cluster: str | None,
    seed: int,
    jobs: int,
    format_name: str | None,
    labels_from: Any,
    bag: str | None,
    features: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a model on DATA, a file of labelled bags, and save it.

    DATA may also be a folder or a pattern of parquet files. Data that does not fit into the memory is read from disk by
    pieces, again at every iteration.
    """
    import scipy.sparse as sp

    from bagwise import save
    from bagwise.app.runs.choose import AUTO, choose_learner, refuse_settings
    from bagwise.app.runs.fit import fit_dataset, labelled_bags, select_setting
    from bagwise.app.runs.large import find_source, fit_large
    from bagwise.app.runs.learner import apply_settings, settings_of
    from bagwise.app.runs.remarks import dataset_remarks, source_remarks
    from bagwise.catalog import for_sparse, make_model
    from bagwise.core.exceptions import InputError
    from bagwise.io.data.formats import read_described
    from bagwise.io.files import check_target

    def make(model: str, sparse: bool = False) -> Any:
        made = for_sparse(make_model(model)) if sparse else make_model(model)
        return apply_settings(made, learner, seed=seed, jobs=jobs)

    values = grid_values(select, grid)
    check_target(out)
    if name == AUTO:
        refuse_settings(learner, select)
    else:
        model = make(name)
    silent = quiet or as_json
    options = reader_options(labels_from, bag, features)
    source, why = find_source(data, memory, format_name, cluster=cluster, **options)
    if source is not None:
        if name == AUTO or select is not None:
            raise InputError(
                f"{why}; {'--model auto' if name == AUTO else '--select'} needs all bags in memory, so choose on some "
                "of them, or raise --memory."
            )
        notice(f"{why}; {source.n_bags} bags, {source.n_instances} instances in {source.n_pieces} piece(s)", silent)
        for remark in source_remarks(source):
            notice(f"Note: {remark}", silent)
        with going_on() if checkpoint else nullcontext(), progress(silent) as report:
            state = fit_large(
                model,
                source,
                use_known=use_known,
                checkpoint=checkpoint,
                interval=checkpoint_seconds,
                callback=lambda i, objective: report("iterations", i, 0),
                cluster=cluster,
            )
        about = {
            "model": name,
            **settings_of(model),
            "data": source.name,
            "n_bags": source.n_bags,
            "n_instances": source.n_instances,
            "n_pieces": source.n_pieces,
            "feature_names": source.feature_names,
            "seed": seed,
        }
        save(model, out, about)
        if state is not None:
            state.clear()
        _say(name, about, {}, {}, out, as_json)
        return
    dataset, understood = read_described(data, format_name, **options)
    notice(f"read {data} as {understood}", silent)
    for remark in dataset_remarks(dataset, use_known):
        notice(f"Note: {remark}", silent)
    choice: dict[str, Any] = {}
    sparse = sp.issparse(dataset.bags.instances)
    if name == AUTO:
        with progress(silent) as report:
            choice = choose_learner(partial(make, sparse=sparse), dataset, seed=seed, jobs=jobs, progress=report)
        name = choice["model"]
    model = make(name, sparse)
    chosen: dict[str, Any] = {}
    if select is not None:
        chosen = select_setting(model, labelled_bags(dataset), select, values, folds=folds, seed=seed, jobs=jobs)
    with going_on() if checkpoint else nullcontext(), progress(silent) as report:
        state = fit_dataset(
            model,
            dataset,
            use_known=use_known,
            checkpoint=checkpoint,
            interval=checkpoint_seconds,
            callback=lambda i, objective: report("iterations", i, 0),
        )
    about = {
        "model": name,
        **settings_of(model),
        "data": dataset.name,
        "n_bags": len(dataset),
        "n_instances": dataset.bags.n_instances,
        "feature_names": dataset.feature_names,
        "seed": seed,
    }
    if chosen:
        about["selected"] = chosen
    if choice:
        about["choice"] = choice
    save(model, out, about)
    if state is not None:
        state.clear()
    _say(name, about, chosen, choice, out, as_json)


def _say(
    name: str, about: dict[str, Any], chosen: dict[str, Any], choice: dict[str, Any], out: Path, as_json: bool
) -> None:
    from bagwise.app.runs.choose import choice_table

    if as_json:
        click.echo(json.dumps({**about, "out": str(out)}, ensure_ascii=False, default=str))
        return
    if choice:
        click.echo(f"{choice_table(choice)}\n")
    for key, value in chosen.items():
        click.echo(f"{name}: {key} = {value:g}" if isinstance(value, float) else f"{name}: {key} = {value}")
    click.echo(f"trained {name} on {about['n_bags']} bags, {about['n_instances']} instances; wrote {out}")
