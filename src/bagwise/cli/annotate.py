"""`bagwise annotate`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path, progress

EXIT_SOME_FAILED = 3


@click.command()
@click.argument("folder", type=any_path())
@click.option("--out", type=any_path(), required=True, help="Folder for the results.")
@click.option("--labels", type=any_path(), help="Table of the labels of each file (CSV or parquet).")
@click.option(
    "--columns", nargs=2, metavar="FILE LABEL",
    help="Headings of the columns of the table that hold file and label, where there are others too.",
)  # fmt: skip
@click.option(
    "--model", default="ored-background", show_default=True,
    help="Name in the catalogue, to be trained; or a model file of an earlier run.",
)  # fmt: skip
@click.option(
    "--medium", type=click.Choice(["audio", "image", "text", "series"]), help="Found out from the files if not given."
)
@click.option("--window", type=float, help="Seconds of a piece of a recording (audio; 10 by default).")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting of the medium; may be repeated.")
@click.option("--format", "formats", multiple=True, help="Formats to write; all of the medium if not given.")
@click.option(
    "--noise-share", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.1, show_default=True,
    help="Expected share of instances that belong to no label.",
)  # fmt: skip
@click.option(
    "--max-noise", type=click.FloatRange(0, 1), default=0.5, show_default=True,
    help="What is more probably noise stands in the long table only.",
)  # fmt: skip
@click.option("--jobs", type=int, default=-1, show_default=True, help="Files read at a time; -1 for all cores.")
@click.option("--no-page", is_flag=True, help="Write no report.html.")
@click.option("--overwrite", is_flag=True, help="Replace another run in the folder for the results.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def annotate(
    folder: Path, out: Path, labels: Path | None, columns: tuple[str, str] | None, model: str, medium: str | None,
    window: float | None, pairs: tuple[str, ...], formats: tuple[str, ...], noise_share: float, max_noise: float,
    jobs: int, no_page: bool, overwrite: bool, quiet: bool,
) -> None:  # fmt: skip
    """Find and name every syllable, region or passage in the files of FOLDER.

    Exit code 0: all is done. 3: done, but some files or labels could not be used; each is named.
    """
    from bagwise.workflow import annotate_media

    if columns and labels is None:
        raise click.UsageError("--columns speaks of the table of labels; give it with --labels.")
    settings = parse_pairs(pairs)
    if window is not None:
        settings["window"] = str(window)
    with progress(quiet) as report:
        result = annotate_media(
            folder, out, labels=labels, columns=columns, model=model, medium=medium, settings=settings,
            formats=list(formats) or None, noise_share=noise_share, max_noise=max_noise, jobs=jobs, page=not no_page,
            overwrite=overwrite, progress=report,
        )  # fmt: skip
    print_result(result)
    if result.problems:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)


def parse_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    """Settings given as NAME=VALUE."""
    settings = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, not {pair!r}.")
        settings[name] = value
    return settings


def print_result(result: Any) -> None:
    """What was found, what was wrong (to the error output), what was written."""
    from bagwise.report.tables import format_table

    annotations = result.annotations
    shown = annotations.shown()
    counts = Counter(row["label"] for row in shown)
    click.echo(
        f"{len(annotations.files)} files, {len(annotations.rows)} instances, {len(shown)} named, "
        f"{len(annotations.rows) - len(shown)} taken for noise"
        + (f"; {result.n_reused} files were done before" if result.n_reused else "")
    )
    if result.form:
        click.echo(f"labels: {result.form}")
    rows = []
    for name in annotations.classes:
        values = [row["probability"] for row in shown if row["label"] == name and row["probability"] is not None]
        rows.append([name, str(counts[name]), f"{sum(values) / len(values):.2f}" if values else "-"])
    click.echo("\n" + format_table(["label", "instances", "mean probability"], rows, right=(1, 2)) + "\n")
    for _, message in result.problems:
        click.echo(f"Problem: {message}", err=True)
    if result.unexplained:
        bag, labels = result.unexplained[0]
        click.echo(
            f"{len(result.unexplained)} bag(s) list labels that no instance was given, such as {bag} "
            f"({', '.join(labels)}); manifest.json names them."
        )
    folders = {path.parent for path in result.outputs}
    for parent in sorted(folders):
        files = [path for path in result.outputs if path.parent == parent]
        for path in files if len(files) <= 10 else files[:1]:
            click.echo(f"wrote {path}")
        if len(files) > 10:
            click.echo(f"wrote {len(files) - 1} more files in {parent}")
