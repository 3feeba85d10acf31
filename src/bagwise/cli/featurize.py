"""`bagwise featurize`."""

from __future__ import annotations

from pathlib import Path

import click

from bagwise.cli._common import any_path, progress
from bagwise.cli._data import EXIT_SOME_FAILED, check_label_options, label_options, notice
from bagwise.cli._settings import embed_options, medium_options, parse_medium, parse_pairs
from bagwise.cli.annotate import print_problems


@click.command()
@click.argument("folder", type=any_path())
@click.option("--out", type=any_path(dir_okay=False), required=True, help="File of bags, such as bags.parquet.")
@click.option("--to", metavar="NAME", help="Its format; by default that of its ending.")
@click.option(
    "--labels", type=any_path(),
    help="Labels of each file or bag, to be written with the features: a table, or tables of Raven or BirdNET.",
)  # fmt: skip
@label_options
@medium_options
@embed_options
@click.option("--jobs", type=int, default=-1, show_default=True, help="Files read at a time; -1 for all cores.")
@click.option("--quiet", is_flag=True, help="No progress bars and remarks.")
def featurize(
    folder: Path, out: Path, to: str | None, labels: Path | None, columns: tuple[str, str] | None,
    separator: str | None, fold_case: bool, sheet: str | None, medium: str | None, window: float | None,
    medium_settings: tuple[str, ...], embed: Path | None, embed_settings: tuple[str, ...], embeddings: Path | None,
    segment: str | None, join: bool, jobs: int, quiet: bool,
) -> None:  # fmt: skip
    """Cut the recordings, pictures, texts or series of FOLDER into instances, describe each by numbers, write a file.

    Every format of bagwise convert can be written; all other commands read the file. Exit code 3: files or labels
    that could not be used are named, and the others were written.
    """
    from bagwise.io.data.formats import find_format, format_for_writing, write_dataset
    from bagwise.io.files import check_target
    from bagwise.workflow.embed import Asked
    from bagwise.workflow.material import read_label_table
    from bagwise.workflow.unlabelled import read_collection

    check_label_options(labels, columns, sheet)
    find_format(to or format_for_writing(out))
    check_target(out)
    table = read_label_table(labels, columns, separator=separator, fold_case=fold_case, sheet=sheet)
    settings = parse_medium(window, medium_settings) | ({} if segment is None else {"segment": segment})
    asked = Asked(embed, embeddings, parse_pairs(embed_settings, "--embed-set"), join, "segment" in settings)
    with progress(quiet) as report:
        found = read_collection(
            folder, medium=medium, settings=settings, labels=table, jobs=jobs, progress=report, asked=asked,
            exclude=[path for path in (out, labels, embed, embeddings) if path is not None],
        )  # fmt: skip
    notice(f"read {folder} as {found.understood}", quiet)
    write_dataset(found.dataset, out, to)
    notice(f"wrote {out}", quiet)
    print_problems(found.problems)
    if found.problems:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)
