"""The command line: parses, calls public functions, prints. Heavy imports wait inside the commands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from bagwise._version import __version__

EXIT_ERROR = 1


class BagwiseGroup(click.Group):
    """Turns errors that bagwise raises on purpose into one line and exit code 1; usage errors stay click's 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _plain_warnings():
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            from bagwise.exceptions import BagwiseError

            if isinstance(error, (BagwiseError, ImportError, OSError)):
                click.echo(f"Error: {error}", err=True)
                ctx.exit(EXIT_ERROR)
            raise


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show a warning as one line without the place in the code, and the same one once."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            click.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@click.group(cls=BagwiseGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bagwise")
def main() -> None:
    """Learn from bags of instances: which syllable, region or passage carries which label of its bag."""


@main.command()
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("demo-output"), show_default=True,
    help="Folder for the annotated table, the picture and the model.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the letters and the folds.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """Make letter bags, learn from their bag labels alone, and show what was worked out."""
    from bagwise.demo import MODELS, run_demo, word_lines
    from bagwise.report.tables import format_table

    with _progress(quiet) as report:
        result = run_demo(out, seed, report)
    console = _console()
    dataset = result.dataset
    console.print(
        f"\n[bold]{len(dataset)} words, {dataset.bags.n_instances} letters.[/bold] For each word only the set of its "
        "letters was told,\nnot which drawn letter is which. bagwise worked out (wrong ones in brackets):\n"
    )
    for line in word_lines(result):
        told = "{" + " ".join(line["told"]) + "}"
        letters = [
            f"[green]{guess}[/green]" if guess == truth else rf"[red]\[{guess}][/red]"
            for guess, truth in zip(line["worked_out"], line["truth"], strict=True)
        ]
        console.print(f"  {told:<22} {' '.join(letters)}   [dim]{''.join(line['truth'])}[/dim]")
    console.print("\nShare of the letters that are right, in percent:\n")
    rows = [
        (
            name,
            what,
            *(f"{100 * result.accuracies[name][mode]:.1f}" for mode in ("transductive", "inductive")),
        )
        for name, what in MODELS.items()
    ]
    console.print(format_table(["model", "learns from", "these words", "new words"], rows, right=(2, 3)))
    console.print(
        "\n[dim]these words: the set of the word's letters is told. new words: nothing but the drawing\nis known "
        "(ten folds).[/dim]\n"
    )
    for file in result.files:
        console.print(f"wrote {file}", highlight=False)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--model", "models", multiple=True, default=("ored",), show_default=True,
    help="Name in the catalogue; may be given several times. An unknown name lists all.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["inductive", "transductive"]), default="inductive", show_default=True,
    help="inductive: folds over bags, test labels unknown. transductive: annotate the training bags.",
)  # fmt: skip
@click.option("--folds", type=click.IntRange(min=2), default=10, show_default=True, help="Folds (inductive).")
@click.option("--seed", type=int, default=0, show_default=True, help="Shuffles the folds.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Folds in parallel; -1 for all processors.")
@click.option("--records", type=click.Path(path_type=Path, dir_okay=False), help="Write one JSON line a fold here.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON lines instead of a table.")
@click.option(
    "--select", metavar="NAME", help="Choose this parameter by cross-validated rank loss, without instance labels."
)
@click.option("--grid", help="Values to choose from, separated by commas; for alpha 1e-9 to 1 by default.")
@click.option(
    "--curve", type=click.Path(path_type=Path, dir_okay=False),
    help="With --select: a picture (PNG) of rank loss and transductive accuracy against the parameter.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress bars.")
def evaluate(
    data: Path, models: tuple[str, ...], mode: str, folds: int, seed: int, jobs: int,
    records: Path | None, as_json: bool, select: str | None, grid: str | None, curve: Path | None, quiet: bool,
) -> None:  # fmt: skip
    """Train and score models on DATA (an .npz file) by the papers' protocols."""
    from bagwise.catalog import make_model
    from bagwise.datasets import load_npz
    from bagwise.io.tables import json_lines, write_json_lines
    from bagwise.model_selection import evaluate as run
    from bagwise.model_selection import search_by_rank_loss, summarize
    from bagwise.report.tables import format_summary

    estimators = {name: make_model(name) for name in models}
    dataset = load_npz(data)
    if select is None and (grid is not None or curve is not None):
        raise click.UsageError("--grid and --curve go with --select.")
    values = _grid_values(select, grid)
    if select is not None and curve is not None:
        _draw_curves(estimators, dataset, select, values, curve, folds, seed, jobs)
    if select is not None:
        estimators = {
            name: search_by_rank_loss(estimator, select, values, cv=folds, random_state=seed)
            for name, estimator in estimators.items()
        }
    results = []
    with _progress(quiet) as report:
        for name, estimator in estimators.items():
            results += run(
                estimator, dataset, mode, cv=folds, random_state=seed, n_jobs=jobs, name=name,
                progress=partial(report, name),
            )  # fmt: skip
    if records is not None:
        write_json_lines(results, records)
    rows = summarize(results)
    if as_json:
        click.echo(json_lines(rows), nl=False)
        return
    click.echo(format_summary(rows))
    for name in estimators if select is not None else ():
        chosen = [record["selected"][select] for record in results if record["model"] == name]
        click.echo(f"{name}: {select} = {', '.join(f'{value:g}' for value in chosen)}")
    for file in filter(None, (records, curve)):
        click.echo(f"wrote {file}")


def _grid_values(select: str | None, grid: str | None) -> list[float]:
    """The values to select from."""
    if grid is None:
        if select not in (None, "alpha"):
            raise click.UsageError(f"--select {select} needs --grid with the values to choose from.")
        return [10.0**exponent for exponent in range(-9, 1)]
    try:
        return [float(value) for value in grid.split(",")]
    except ValueError:
        raise click.UsageError(f"--grid takes numbers separated by commas, not {grid!r}.") from None


def _draw_curves(
    estimators: dict[str, Any], dataset: Any, parameter: str, values: list[float], path: Path,
    folds: int, seed: int, jobs: int,
) -> None:  # fmt: skip
    from bagwise.model_selection import selection_curve
    from bagwise.report.curves import draw_selection_curves

    curves = {
        name: selection_curve(estimator, dataset, parameter, values, cv=folds, random_state=seed, n_jobs=jobs)
        for name, estimator in estimators.items()
    }
    draw_selection_curves(curves, path, dataset.name)


def _console() -> Any:
    """A rich console; piped output is plain and never broken into lines."""
    from rich.console import Console

    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows how far each named piece of work is; on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


if __name__ == "__main__":
    main()
