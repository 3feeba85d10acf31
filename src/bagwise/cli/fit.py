"""`bagwise fit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path, progress
from bagwise.cli._data import data_options, notice, reader_options
from bagwise.cli._settings import apply_settings, set_option


@click.command()
@click.argument("data", type=any_path())
@click.option(
    "--model", "name", default="ored", show_default=True, help="Name in the catalogue; an unknown one lists all."
)
@click.option("--out", type=any_path(), required=True, help="The model file to write.")
@set_option
@click.option(
    "--select", metavar="NAME", help="Choose this setting by cross-validated rank loss, from bag labels alone."
)
@click.option("--grid", help="Values to choose from, separated by commas; for alpha 1e-9 to 1 by default.")
@click.option("--folds", type=click.IntRange(min=2), default=10, show_default=True, help="Folds of --select.")
@click.option("--instance-labels", "use_known", is_flag=True, help="Learn from the known instance labels too.")
@click.option(
    "--checkpoint", type=any_path(file_okay=False),
    help="A folder that keeps the state of a long fit; the same command goes on from there.",
)  # fmt: skip
@click.option(
    "--checkpoint-seconds", type=click.FloatRange(min=0), default=10.0, show_default=True,
    help="How often the state is kept.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is random.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Parallel jobs; -1 for all processors.")
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("--quiet", is_flag=True, help="No remarks and no progress bars.")
def fit(
    data: Path, name: str, out: Path, settings: tuple[str, ...], select: str | None, grid: str | None, folds: int,
    use_known: bool, checkpoint: Path | None, checkpoint_seconds: float, seed: int, jobs: int,
    format_name: str | None, labels_from: Path | None, bag: str | None, features: str | None, as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Train a model on DATA, a file of labelled bags, and save it."""
    from bagwise.batch import settings_of
    from bagwise.catalog import make_model
    from bagwise.cli.evaluate import grid_values
    from bagwise.io.data.formats import read_described
    from bagwise.io.files import check_target
    from bagwise.io.model import save
    from bagwise.model_selection import search_by_rank_loss
    from bagwise.training import fit_dataset

    if select is None and grid is not None:
        raise click.UsageError("--grid goes with --select.")
    check_target(out)
    model = apply_settings(make_model(name), settings, seed, jobs)
    dataset, understood = read_described(data, format_name, **reader_options(labels_from, bag, features))
    notice(f"read {data} as {understood}", quiet or as_json)
    chosen: dict[str, Any] = {}
    if select is not None:
        search = search_by_rank_loss(model, select, grid_values(select, grid), cv=folds, random_state=seed)
        best = search.set_params(refit=False, n_jobs=jobs).fit(dataset.bags, dataset.Y).best_params_
        chosen = {key.rsplit("__", 1)[-1]: value for key, value in best.items()}
        model.set_params(**best)
    with progress(quiet or as_json) as report:
        callback = _iteration_reporter(report)
        keeper = fit_dataset(
            model, dataset, use_known=use_known, checkpoint=checkpoint, callback=callback, interval=checkpoint_seconds
        )
    about = {
        "model": name, **settings_of(model), "data": dataset.name, "n_bags": len(dataset),
        "n_instances": dataset.bags.n_instances, "feature_names": dataset.feature_names, "seed": seed,
    }  # fmt: skip
    if chosen:
        about["selected"] = chosen
    save(model, out, about)
    if keeper is not None:
        keeper.clear()
    if as_json:
        click.echo(json.dumps({**about, "out": str(out)}, ensure_ascii=False, default=str))
        return
    for key, value in chosen.items():
        click.echo(f"{name}: {key} = {value:g}" if isinstance(value, float) else f"{name}: {key} = {value}")
    click.echo(f"trained {name} on {len(dataset)} bags, {dataset.bags.n_instances} instances; wrote {out}")


def _iteration_reporter(report: Any) -> Any:
    def callback(iteration: int, objective: float) -> None:
        report("iterations", iteration, 0)

    return callback
