"""`bagwise featurize`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, end_with, given_path, print_problems, progress
from bagwise.app.cli._data import check_label_options, notice, quiet_option
from bagwise.app.cli._options import run_options


@click.command()
@click.argument("folder", type=given_path())
@click.option("--out", type=any_path(dir_okay=False), required=True, help="File of bags, such as bags.parquet.")
@click.option("--to", metavar="NAME", help="Its format; by default that of its ending.")
@run_options(
    "labels",
    "columns",
    "separator",
    "fold_case",
    "sheet",
    "media_type",
    "window",
    "settings",
    "segment",
    "embed",
    "embed_settings",
    "embeddings",
    "join",
    "jobs",
)
@quiet_option
def featurize(folder: Path, out: Path, to: str | None, quiet: bool, **given: Any) -> None:
    """Cut the recordings, pictures, texts or series of FOLDER into instances, describe each by numbers, write a file.

    Every format of bagwise convert can be written; all other commands read the file. Exit code 3: files or labels
    that could not be used are named, and the others were written.
    """
    from bagwise.app.runs.data import read_bags
    from bagwise.app.runs.options import RunOptions
    from bagwise.io.data.formats import find_format, format_for_writing, write_dataset
    from bagwise.io.files import check_target

    check_label_options(given["labels"], given["columns"], given["sheet"])
    find_format(to or format_for_writing(out))
    check_target(out)
    with progress(quiet) as report:
        found = read_bags(folder, RunOptions(**given), exclude=[out], progress=report)
    notice(f"read {folder} as {found.understood}", quiet)
    write_dataset(found.dataset, out, to)
    notice(f"wrote {out}", quiet)
    print_problems(found.problems)
    end_with(found.problems)
