"""`bagwise fit`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, given_path, going_on, progress
from bagwise.app.cli._data import data_options, json_option, notice, quiet_option
from bagwise.app.cli._options import grid_values, run_options


@click.command(cls=ComputingCommand)
@click.argument("data", type=given_path())
@click.option(
    "--model",
    "name",
    default="ored",
    show_default=True,
    help="Name in the catalogue (docs/command-line.md lists all), or auto to choose one.",
)
@click.option("--out", type=any_path(), required=True, help="The model file to write.")
@run_options("learner", "select", "grid", "folds")
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
@json_option
@quiet_option
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
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a model on DATA, a file of labelled bags, and save it.

    DATA may also be a folder or a pattern of parquet files. Data that does not fit into the memory is read from disk by
    pieces, again at every iteration.
    """
    import scipy.sparse as sp

    from bagwise import save
    from bagwise.app.media.media_types import TABLE
    from bagwise.app.report.facts import remarks_on_labels
    from bagwise.app.runs.choose import AUTO, choice_table, choose_learner, refuse_settings
    from bagwise.app.runs.data import large_source
    from bagwise.app.runs.learner import apply_settings, fit_dataset, labelled_bags, select_setting, settings_of
    from bagwise.app.runs.supervision import hard_labels
    from bagwise.catalog import for_sparse, make_model
    from bagwise.core.exceptions import InputError
    from bagwise.io.data.formats import read_described
    from bagwise.io.files import check_target

    def make(model: str, settings: Mapping[str, Any], sparse: bool = False) -> Any:
        made = for_sparse(make_model(model)) if sparse else make_model(model)
        return apply_settings(made, {**learner, **settings}, seed=seed, jobs=jobs)

    values = grid_values(select, grid)
    check_target(out)
    if name == AUTO:
        refuse_settings(learner, select)
    else:
        make(name, {})  # refuses what is not there before anything is read
    silent = quiet or as_json
    source, why = large_source(data, memory, cluster=cluster, **reading)
    bags: Any
    known, sparse, how = (), False, dict[str, Any]()
    if source is not None:
        if name == AUTO or select is not None:
            raise InputError(
                f"{why}; {'--model auto' if name == AUTO else '--select'} needs all bags in memory, so choose on some "
                "of them, or raise --memory."
            )
        notice(f"{why}; {source.n_bags} bags, {source.n_instances} instances in {source.n_pieces} piece(s)", silent)
        bags = source
        counts = {key: getattr(source, key) for key in ("n_bags", "n_instances", "n_pieces")}
    else:
        bags, understood = read_described(data, **reading)
        notice(f"read {data} as {understood}", silent)
        if use_known and bags.instance_labels is not None:
            known = bags.instance_labels.instances.tolist()
        sparse = sp.issparse(bags.bags.instances)
        counts = {"n_bags": len(bags), "n_instances": bags.bags.n_instances}
    for remark in remarks_on_labels(hard_labels(bags, known), TABLE):
        notice(f"Note: {remark}", silent)
    if name == AUTO:
        with progress(silent) as report:
            choice = choose_learner(partial(make, sparse=sparse), bags, seed=seed, jobs=jobs, progress=report)
        name, how["choice"] = choice["model"], choice
    model = make(name, {}, sparse)
    if select is not None:
        training = labelled_bags(bags)
        how["selected"] = select_setting(model, training, select, values, folds=folds, seed=seed, jobs=jobs)
    with going_on() if checkpoint else nullcontext(), progress(silent) as report:
        state = fit_dataset(
            model,
            bags,
            use_known=use_known,
            checkpoint=checkpoint,
            interval=checkpoint_seconds,
            callback=lambda i, objective: report("iterations", i, 0),
            cluster=cluster,
        )
    about = {
        "model": name,
        **settings_of(model),
        "data": bags.name,
        **counts,
        "feature_names": bags.feature_names,
        "seed": seed,
        **how,
    }
    save(model, out, about)
    if state is not None:
        state.clear()
    if as_json:
        click.echo(json.dumps({**about, "out": str(out)}, ensure_ascii=False, default=str))
        return
    if "choice" in how:
        click.echo(f"{choice_table(how['choice'])}\n")
    for key, value in how.get("selected", {}).items():
        click.echo(f"{name}: {key} = {value:g}" if isinstance(value, float) else f"{name}: {key} = {value}")
    click.echo(f"trained {name} on {about['n_bags']} bags, {about['n_instances']} instances; wrote {out}")
