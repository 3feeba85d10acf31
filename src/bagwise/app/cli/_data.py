"""Options that say how a data file is read, and what several commands do with files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path
from bagwise.app.cli._options import run_options

EXIT_ERROR, EXIT_SOME_FAILED = 1, 3


def check_label_options(labels: Path | None, columns: Any, sheet: str | None) -> None:
    """Refuse options of a table of labels where there is none."""
    for option, value in (("--columns", columns), ("--sheet", sheet)):
        if value and labels is None:
            raise click.UsageError(f"{option} speaks of the table of labels; give it with --labels.")


def data_options(command: Any) -> Any:
    """--format, --labels with its options, --bag and --features; the command gets the table as it was read."""

    @wraps(command)
    def with_labels(
        *,
        labels_from: Path | None,
        columns: tuple[str, str] | None,
        separator: str | None,
        fold_case: bool,
        sheet: str | None,
        **others: Any,
    ) -> Any:
        check_label_options(labels_from, columns, sheet)
        if labels_from is None:
            return command(labels_from=None, **others)
        from bagwise.io.labels import read_labels

        name, label = columns or (None, None)
        table = read_labels(labels_from, name=name, label=label, list_mark=separator, fold_case=fold_case, sheet=sheet)
        return command(labels_from=table, **others)

    return file_options(run_options("columns", "separator", "fold_case", "sheet")(with_labels))


def file_options(command: Any) -> Any:
    """--format, --labels, --bag and --features."""
    options = (
        click.option("--format", "format_name", metavar="NAME", help="Format of the data; by default it is found out."),
        click.option(
            "--labels",
            "labels_from",
            type=any_path(),
            help="A table of bag labels (CSV, .xlsx or parquet), matched by the bags' names.",
        ),
        click.option("--bag", metavar="COLUMN", help="The column of a table that names the bag."),
        click.option(
            "--features", metavar="A,B,...", help="The columns of a table that are features; by default all others."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def reader_options(labels_from: Any, bag: str | None, features: str | None) -> dict[str, Any]:
    """Arguments for the readers, those given only."""
    options: dict[str, Any] = {}
    if labels_from is not None:
        options["labels_from"] = labels_from
    if bag is not None:
        options["bag"] = bag
    if features is not None:
        options["features"] = [name.strip() for name in features.split(",")]
    return options


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
