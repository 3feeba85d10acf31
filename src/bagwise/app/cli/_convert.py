"""`bagwise convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, given_path
from bagwise.app.cli._data import data_options, notice, quiet_option


@click.command()
@click.argument("source", type=given_path())
@click.argument("target", type=any_path())
@click.option("--to", metavar="NAME", help="Format to write; by default that of the ending of TARGET.")
@data_options
@quiet_option
def convert(source: Path, target: Path, to: str | None, reading: dict[str, Any], quiet: bool) -> None:
    """Read bags from SOURCE and write them to TARGET in another format.

    Between parquet files, and from parquet to CSV, a file may be larger than the memory.
    """
    from bagwise.io.data.formats import convert_file

    understood = convert_file(source, target, reading.pop("format", None), to, **reading)
    notice(f"read {source} as {understood}", quiet)
    notice(f"wrote {target}", quiet)
