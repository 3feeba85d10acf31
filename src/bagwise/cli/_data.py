"""Options that say how a data file is read, and what several commands do with files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path

EXIT_ERROR, EXIT_SOME_FAILED = 1, 3


def data_options(command: Any) -> Any:
    """--format, --labels, --bag and --features."""
    options = (
        click.option("--format", "format_name", metavar="NAME", help="Format of the data; by default it is found out."),
        click.option(
            "--labels", "labels_from", type=any_path(),
            help="A table of bag labels, matched by the bags' names.",
        ),
        click.option("--bag", metavar="COLUMN", help="The column of a table that names the bag."),
        click.option(
            "--features", metavar="A,B,...", help="The columns of a table that are features; by default all others."
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def reader_options(labels_from: Path | None, bag: str | None, features: str | None) -> dict[str, Any]:
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
    from bagwise.exceptions import BagwiseError, in_words

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
