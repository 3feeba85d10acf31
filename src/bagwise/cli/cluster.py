"""`bagwise cluster`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import ComputingCommand, any_path, progress
from bagwise.cli._data import data_options, notice, reader_options
from bagwise.cli._settings import parse_pairs

DEFAULT_BALANCE = 0.1
OPTIONS = {
    "n_clusters": "--k", "C": "-C", "balance": "--balance", "kernel": "--kernel", "gamma": "--gamma",
    "n_init": "--starts", "random_state": "--seed", "n_jobs": "--jobs",
}  # fmt: skip


@click.command(cls=ComputingCommand)
@click.argument("data", type=any_path())
@click.option("--k", "n_clusters", default="3", show_default=True, help="Clusters; with --sweep several, as 2,3,4.")
@click.option("-C", "--cost", default=None, help="Cost of small margins [1]; with --sweep several.")
@click.option("--balance", default=None, help="How far the clusters' scores may differ [0.1]; with --sweep several.")
@click.option(
    "--scaling", type=click.Choice(["within-bag", "standard", "length", "none"]), default="within-bag",
    show_default=True, help="Of the features; length suits counts of words.",
)  # fmt: skip
@click.option("--kernel", type=click.Choice(["linear", "rbf"]), default="linear", show_default=True)
@click.option("--gamma", type=float, default=1.0, show_default=True, help="Of the rbf kernel.")
@click.option("--starts", type=click.IntRange(min=1), default=5, show_default=True, help="Random starts of a fit.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--jobs", type=int, default=1, show_default=True, help="In parallel; -1 for all processors.")
@click.option(
    "--out", type=any_path(dir_okay=False), default=Path("clusters.csv"), show_default=True,
    help="Table of bag, cluster, witness and margin.",
)  # fmt: skip
@click.option(
    "--page", type=any_path(dir_okay=False),
    help="Page of the witnesses of every cluster; by default beside the table.",
)  # fmt: skip
@click.option("--no-page", is_flag=True, help="Write no page.")
@click.option(
    "--sweep", "with_sweep", is_flag=True,
    help="Try all settings, print what can be said of each without labels, and cluster with the best.",
)  # fmt: skip
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE",
    help="Another setting of the clusterer, such as tol_outer=0.001; may be repeated.",
)  # fmt: skip
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("--quiet", is_flag=True, help="No progress bars and remarks.")
def cluster(
    data: Path, n_clusters: str, cost: str | None, balance: str | None, scaling: str, kernel: str, gamma: float,
    starts: int, seed: int, jobs: int, out: Path, page: Path | None, no_page: bool, with_sweep: bool,
    settings: tuple[str, ...], format_name: str | None, labels_from: Any, bag: str | None,
    features: str | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Group the bags of DATA by the instance that tells each apart.

    Writes a table with the cluster, the witness (its position in the bag, from 0) and the margin of every bag, what
    made it beside (OUT.json), and a page that shows the witnesses of each cluster.
    """
    if page is not None and no_page:
        raise click.UsageError("--page and --no-page exclude each other.")
    for name in (setting.partition("=")[0] for setting in settings):
        if name in OPTIONS:
            raise click.UsageError(f"--set {name} has an option of its own; use {OPTIONS[name]}.")
    ks = _numbers("--k", n_clusters, int)
    costs = _numbers("-C", cost, float) if cost else None
    balances: Sequence[float] | None = _numbers("--balance", balance, float) if balance else None
    if not with_sweep and any(len(values) > 1 for values in (ks, costs or [1], balances or [1])):
        raise click.UsageError("Several values of --k, -C or --balance go with --sweep.")
    from bagwise.clustering import M3IC
    from bagwise.clustering.scaling import scale_bags
    from bagwise.clustering.sweep import BALANCE_VALUES
    from bagwise.io.data.formats import read_described
    from bagwise.io.files import check_target
    from bagwise.io.results import write_about
    from bagwise.io.tables import write_csv
    from bagwise.report.clusters import cluster_rows, summarize_clusters, write_cluster_page
    from bagwise.workflow.learner import apply_settings, settings_of

    page = None if no_page else page or out.with_suffix(".html")
    if page is not None and page.absolute() == out.absolute():
        raise click.UsageError(f"Table and page would both be {out}; name the table .csv, or give another --page.")
    for target in filter(None, (out, page)):
        check_target(target)
    model = M3IC(ks[0], kernel=kernel, gamma=gamma, n_init=starts, random_state=seed, n_jobs=jobs)
    apply_settings(model, parse_pairs(settings))
    dataset, understood = read_described(data, format_name, **reader_options(labels_from, bag, features))
    quiet = quiet or as_json
    notice(f"read {data} as {understood}", quiet)
    bags = scale_bags(dataset.bags, scaling)
    if with_sweep:
        if balances is None:  # bags whitened within have a mean of zero: there is nothing to balance
            balances = [DEFAULT_BALANCE] if scaling == "within-bag" and kernel == "linear" else BALANCE_VALUES
        model, table = _sweep(bags, model, ks, costs, balances, starts, seed, jobs, quiet)
        click.echo(table, err=as_json)
    else:
        model.set_params(C=(costs or [1.0])[0], balance=(balances or [DEFAULT_BALANCE])[0])
    model.fit(bags)
    write_csv(cluster_rows(dataset, model), out)
    sizes = [int((model.labels_ == c).sum()) for c in range(model.n_clusters)]
    about = {
        "model": "m3ic", **settings_of(model), "scaling": scaling, "data": str(data), "n_bags": len(dataset),
        "n_instances": dataset.bags.n_instances, "seed": seed, "objective": float(model.objective_), "sizes": sizes,
    }  # fmt: skip
    write_about(out, about)
    written = [out]
    if page is not None:
        write_cluster_page(summarize_clusters(dataset, model, scaling=scaling), page)
        written.append(page)
    if as_json:
        click.echo(json.dumps({**about, "out": [str(file) for file in written]}, ensure_ascii=False))
    elif not with_sweep:
        counts = ", ".join(map(str, sizes))
        click.echo(f"{len(dataset)} bags in {model.n_clusters} clusters: {counts} (J {model.objective_:.4g})")
    for file in written:
        notice(f"wrote {file}", quiet)


def _numbers(option: str, text: str, kind: type) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise click.UsageError(f"{option} takes {what} separated by commas, not {text!r}.") from None


def _sweep(
    bags: Any, model: Any, ks: list[int], costs: list[float] | None, balances: Sequence[float],
    starts: int, seed: int, jobs: int, quiet: bool,
) -> tuple[Any, str]:  # fmt: skip
    """The model of the setting that is chosen, and the sweep as a table."""
    from bagwise.clustering import choose_setting, sweep
    from bagwise.clustering.sweep import C_VALUES
    from bagwise.report.tables import format_table

    with progress(quiet) as report:
        records = sweep(
            bags, ks, C=costs or C_VALUES, balance=balances, n_seeds=starts, estimator=model, random_state=seed,
            n_jobs=jobs, progress=lambda done, total: report("sweep", done, total),
        )  # fmt: skip
    chosen = choose_setting(records)
    rows = [
        [
            str(record["n_clusters"]), f"{record['C']:g}", f"{record['balance']:g}", f"{record['objective']:.4g}",
            " ".join(map(str, record["sizes"])), _share(record["silhouette"]), _share(record["stability"]),
            "<- chosen" if record is chosen else "",
        ]
        for record in records
    ]  # fmt: skip
    headings = ["k", "C", "balance", "J", "sizes", "silhouette", "stability", ""]
    table = format_table(headings, rows, right=(0, 1, 2, 3, 5, 6))
    setting = {name: chosen[name] for name in ("n_clusters", "C", "balance")}
    return model.set_params(**setting, n_init=1, random_state=chosen["seed"]), table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
