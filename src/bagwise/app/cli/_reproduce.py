"""`bagwise reproduce`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from bagwise.app.cli._common import ComputingCommand, any_path, going_on, progress


@click.command(cls=ComputingCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--data",
    type=any_path(file_okay=False, exists=True),
    help="Folder of the papers' data sets; else the variable BAGWISE_DATA, else ../shared/data next to the checkout.",
)
@click.option("--quick", is_flag=True, help="Few settings, folds and data sets: minutes instead of hours.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Runs in parallel; -1 for all processors.")
@click.option("--minutes", type=click.FloatRange(min=0), help="After these no run begins; the command goes on later.")
@click.option(
    "--out",
    type=any_path(file_okay=False),
    help="Folder of all that is written: runs, pages, pictures, and each table as CSV and LaTeX.",
)
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="NAME=V1,V2,...",
    help="Values of a setting in place of those of the papers' grids, such as alpha=1e-6,1e-7.",
)
@click.option(
    "--page",
    "page_only",
    is_flag=True,
    help="Run nothing; write the page, or the sections of NAME, from the finished runs.",
)
@click.option("--list", "as_list", is_flag=True, help="Print the names and stop.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def reproduce(
    names: tuple[str, ...],
    data: Path | None,
    quick: bool,
    jobs: int,
    minutes: float | None,
    out: Path | None,
    grids: tuple[str, ...],
    page_only: bool,
    as_list: bool,
    quiet: bool,
) -> None:
    """Print the papers' tables and figures, ours next to the published.

    NAME is an experiment or a paper (`--list` shows them); none means all. Finished runs are kept, so that an
    interrupted reproduction goes on where it stopped. Needs a checkout of the project, since the published figures
    are part of its benchmarks.
    """
    if data is not None:
        os.environ["BAGWISE_DATA"] = str(data)
    root = _checkout()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    from benchmarks.papers.catalog import EXPERIMENTS
    from benchmarks.papers.reproduce import reproduce as run

    if as_list:
        for name, experiment in EXPERIMENTS.items():
            click.echo(f"{name:<28} {experiment.title}")
        return
    with going_on(), progress(quiet) as report:
        run(
            names,
            quick=quick,
            jobs=jobs,
            minutes=minutes,
            out=out,
            page_only=page_only,
            grid=dict(map(_values, grids)),
            say=click.echo,
            progress=lambda what, done, total: report("runs", done, total),
        )


def _values(given: str) -> tuple[str, list[float]]:
    """A setting and its values."""
    name, _, values = given.partition("=")
    try:
        return name.strip(), [float(value) for value in values.split(",")]
    except ValueError:
        raise click.BadParameter(f"{given!r} is no list of numbers; write alpha=1e-6,1e-7.") from None


def _checkout() -> Path:
    """The folder that holds benchmarks/: above this file, or the current one."""
    for folder in (Path(__file__).parents[4], Path.cwd()):
        if (folder / "benchmarks" / "papers").is_dir():
            return folder
    raise click.ClickException(
        "the published figures are not part of the installed package; clone the project and run the command there."
    )
