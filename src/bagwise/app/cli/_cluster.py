"""`bagwise cluster`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, end_with, given_path, print_problems, progress
from bagwise.app.cli._data import data_options, json_option, notice, quiet_option
from bagwise.app.cli._options import run_options, setting_option

DEFAULT_BALANCE = 0.1


@click.command(cls=ComputingCommand)
@click.argument("source", type=given_path())
@click.option(
    "--k",
    "n_clusters",
    default="2,3,4,5,6",
    show_default=True,
    help="Clusters; of several the number whose stability exceeds that of noise most is taken.",
)
@click.option(
    "--method",
    type=click.Choice(["mixture", "m3ic", "cpm3c", "bamic", "kmeans", "mean-kmeans", "plain-kmeans"]),
    default="mixture",
    show_default=True,
    help="plain-kmeans, k-means of TF-IDF or statistics of whole bags, is always shown too.",
)
@click.option("-C", "--cost", "C", default=None, help="Cost of small margins [1] (m3ic, cpm3c); with --sweep several.")
@click.option(
    "--balance",
    default=None,
    help="How far the clusters' scores may differ [0.1] (m3ic, cpm3c); with --sweep several.",
)
@click.option(
    "--scaling",
    type=click.Choice(["auto", "within-bag", "standard", "length", "none"]),
    default="auto",
    show_default=True,
    help="Of the features; auto is length for counts of words and the like, within-bag for all else.",
)
@click.option("--kernel", type=click.Choice(["linear", "rbf"]), default=None, help="Of m3ic [linear].")
@click.option("--gamma", type=float, default=None, help="Of the rbf kernel [1].")
@click.option(
    "--starts",
    "n_init",
    type=click.IntRange(min=1),
    default=None,
    help="Random starts of a fit [as the method has it].",
)
@click.option(
    "--noise",
    type=click.IntRange(min=0),
    default=19,
    show_default=True,
    help="Sets of noise of the same shape to test against, at least 19; 0 for no test.",
)
@click.option("--seed", "random_state", type=int, default=0, show_default=True)
@click.option("--jobs", "n_jobs", type=int, default=1, show_default=True, help="In parallel; -1 for all processors.")
@click.option(
    "--out",
    type=any_path(dir_okay=False),
    default=Path("clusters.csv"),
    show_default=True,
    help="Table of bag, cluster, witness, margin, share of half fits in which it stays, and plain-kmeans' cluster.",
)
@click.option(
    "--page",
    type=any_path(dir_okay=False),
    help="Page of the witnesses of every cluster; by default next to the table.",
)
@click.option("--no-page", is_flag=True, help="Write no page.")
@click.option(
    "--sweep",
    "with_sweep",
    is_flag=True,
    help="Try several C and balances for each number of clusters, and take those of the largest silhouette.",
)
@setting_option("Another setting of the clusterer, such as tol_outer=0.001; may be repeated.")
@data_options
@run_options("media_type", "window", "settings")
@json_option
@quiet_option
def cluster(
    source: Path,
    n_clusters: str,
    method: str,
    C: str | None,
    balance: str | None,
    scaling: str,
    kernel: str | None,
    gamma: float | None,
    n_init: int | None,
    noise: int,
    random_state: int,
    n_jobs: int,
    out: Path,
    page: Path | None,
    no_page: bool,
    with_sweep: bool,
    learner: dict[str, Any],
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
    **media: Any,
) -> None:
    """Group the bags of SOURCE, a file of bags or a folder of recordings, pictures, texts or series.

    Writes a table with the cluster, the witness (its position in the bag, from 0), the margin of every bag and how
    often it stays in its cluster, what made it (OUT.json), and a page that shows the witnesses of each cluster. Labels,
    where there are any, are not used. Says so where noise of the same shape gives clusters as stable: "No stable
    clusters", and where those of plain-kmeans are more stable.
    """
    if page is not None and no_page:
        raise click.UsageError("--page and --no-page exclude each other.")
    flags = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    for name in learner:
        if name in flags:
            raise click.UsageError(f"--set {name} has an option of its own; use {flags[name]}.")
    if 0 < noise < 19:
        raise click.UsageError(f"--noise {noise} sets prove nothing; give at least 19, or 0 for no test.")
    ks = _numbers("--k", n_clusters, int)
    costs: Sequence[float] | None = _numbers("-C", C, float) if C else None
    balances: Sequence[float] | None = _numbers("--balance", balance, float) if balance else None
    if not with_sweep and any(len(values) > 1 for values in (costs or [1], balances or [1])):
        raise click.UsageError("Several values of -C or --balance go with --sweep.")
    from bagwise.app.formats.results import write_about
    from bagwise.app.report.clusters import (
        cluster_rows,
        clusters_in_words,
        describe_clusters,
        summarize_clusters,
        write_cluster_page,
    )
    from bagwise.app.runs.data import read_bags
    from bagwise.app.runs.learner import apply_settings, settings_of
    from bagwise.app.runs.options import RunOptions
    from bagwise.clustering.find import find_clusters, make_clusterer
    from bagwise.clustering.scaling import are_words
    from bagwise.clustering.sweep import BALANCE_VALUES, C_VALUES
    from bagwise.io.files import check_target
    from bagwise.io.tables import write_csv

    page = None if no_page else page or out.with_suffix(".html")
    if page is not None and page.absolute() == out.absolute():
        raise click.UsageError(f"Table and page would both be {out}; name the table .csv, or give another --page.")
    for target in filter(None, (out, page)):
        check_target(target)
    model = make_clusterer(
        method, n_clusters=ks[0], kernel=kernel, gamma=gamma, n_init=n_init, random_state=random_state
    )
    given = {"C": costs, "balance": balances, "kernel": kernel, "gamma": gamma}
    known = model.get_params()
    for name, value in given.items():
        if value is not None and name not in known:
            raise click.UsageError(f"{flags[name]} is no option of --method {method}; leave it out.")
    if with_sweep and "C" not in known:
        raise click.UsageError(f"--sweep is for m3ic and cpm3c; --method {method} has no settings to try.")
    apply_settings(model, learner)
    if not with_sweep and "C" in model.get_params():
        model.set_params(C=(costs or [1.0])[0], balance=(balances or [DEFAULT_BALANCE])[0])
    quiet = quiet or as_json
    options = RunOptions(jobs=n_jobs, **media)
    if source.is_dir():
        for name in ("format", "bag", "features"):
            if name in reading:
                raise click.UsageError(f"--{name} is for files of bags, and {source} is a folder; leave it out.")
    with progress(quiet) as report:
        found = read_bags(source, options, reading, exclude=[out], progress=report)
        notice(f"read {source} as {found.understood}", quiet)
        if with_sweep:
            costs = costs or C_VALUES
            linear = model.get_params().get("kernel", "linear") == "linear"
            whitened = scaling == "within-bag" or (scaling == "auto" and not are_words(found.dataset.bags))
            if balances is None:  # bags whitened within have a mean of zero: there is nothing to balance
                balances = [DEFAULT_BALANCE] if whitened and linear else BALANCE_VALUES
        result = find_clusters(
            found.dataset.bags,
            model,
            ks,
            scaling=scaling,
            costs=costs if with_sweep else None,
            balances=balances if with_sweep else None,
            n_noise=noise,
            seed=random_state,
            jobs=n_jobs,
            progress=report,
        )
        write_csv(cluster_rows(found.dataset, result), out)
        about = {
            "model": method,
            **settings_of(result.model),
            "data": str(source),
            "seed": random_state,
            **describe_clusters(found.dataset, result),
        }
        write_about(out, about)
        written = [out]
        if page is not None:
            summary = summarize_clusters(found.dataset, result, method)
            written += write_cluster_page(summary, page, found.media, report)
        about["out"] = [str(file) for file in written]
    if as_json:
        click.echo(json.dumps(about, ensure_ascii=False))
    else:
        click.echo(clusters_in_words(about))
    for file in about["out"]:
        notice(f"wrote {file}", quiet)
    print_problems(found.problems)
    end_with(found.problems)


def _numbers(option: str, text: str, kind: type) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise click.UsageError(f"{option} takes {what} separated by commas, not {text!r}.") from None
