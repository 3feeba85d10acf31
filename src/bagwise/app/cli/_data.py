"""Options that say how a data file is read, and what several commands do with files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import EXIT_ERROR, EXIT_SOME_FAILED, any_path
from bagwise.app.cli._options import run_options
from bagwise.app.runs.options import RunOptions

json_option = click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
quiet_option = click.option("--quiet", is_flag=True, help="No remarks and no progress bars.")


def check_label_options(labels: Path | None, columns: Any, sheet: str | None) -> None:
    """Refuse options of a table of labels where there is none."""
    for option, value in (("--columns", columns), ("--sheet", sheet)):
        if value and labels is None:
            raise click.UsageError(f"{option} speaks of the table of labels; give it with --labels.")


def data_options(command: Any) -> Any:
    """How files of bags are read, with --labels and its options; see `file_options`."""

    @wraps(command)
    def with_labels(
        *,
        labels_from: Path | None,
        columns: Any,
        fold_case: bool,
        sheet: str | None,
        separator: str | None,
        **others: Any,
    ) -> Any:
        check_label_options(labels_from, columns, sheet)
        if labels_from is not None:
            from bagwise.io.labels import read_labels

            name, label = columns or (None, None)
            others["reading"]["labels_from"] = read_labels(
                labels_from, name=name, label=label, list_mark=separator, fold_case=fold_case, sheet=sheet
            )
        return command(**others)

    return file_options(labels_option(run_options("columns", "separator", "fold_case", "sheet")(with_labels)))


labels_option = click.option(
    "--labels",
    "labels_from",
    type=any_path(),
    help="A table of bag labels (CSV, .xlsx or parquet), matched by the bags' names.",
)


def file_options(command: Any) -> Any:
    """--format, --bag and --features; the command gets `reading`, those that were given as arguments of the readers."""

    @wraps(command)
    def with_reading(*, bag: str | None, features: str | None, read_as: str | None, **others: Any) -> Any:
        reading = dict(RunOptions(bag=bag, features=features, read_as=read_as).reading)
        return command(reading=reading, **others)

    format_option = click.option(
        "--format", "read_as", metavar="NAME", help="Format of the data; by default it is found out."
    )
    return format_option(run_options("bag", "features")(with_reading))


def notice(text: str, quiet: bool) -> None:
    """A remark for people; not part of the output."""
    if not quiet:
        click.echo(text, err=True)


def run_each(paths: Iterable[Path], work: Callable[[Path], None]) -> None:
    """Do the work for every file; one that fails is reported and does not stop the others.

    Exit code 0 if all went well, 1 if none did, 3 if some did not.
    """
    from bagwise.core.exceptions import BagwiseError, in_words

    paths = list(paths)
    failed = 0
    for path in paths:
        try:
            work(path)
        except (BagwiseError, OSError, ImportError) as error:
            failed += 1
            click.echo(f"Error: {in_words(error)}", err=True)
    if failed:
        context = click.get_current_context()
        context.exit(EXIT_ERROR if failed == len(paths) else EXIT_SOME_FAILED)
