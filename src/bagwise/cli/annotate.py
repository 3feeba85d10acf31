"""`bagwise annotate`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import ComputingCommand, any_path, going_on, progress
from bagwise.cli._data import check_label_options, label_options, reader_options
from bagwise.cli._settings import (
    embed_options,
    grid_values,
    medium_options,
    parse_medium,
    parse_pairs,
    select_options,
    set_option,
)

EXIT_SOME_FAILED = 3
N_OF_A_KIND = 10  # problems that are printed


@click.command(cls=ComputingCommand)
@click.argument("source", type=any_path())
@click.option("--out", type=any_path(), required=True, help="Folder for the results.")
@click.option(
    "--labels", type=any_path(),
    help="Labels of each file or bag: a table (CSV, .xlsx, parquet), or tables of Raven or BirdNET.",
)  # fmt: skip
@label_options
@click.option(
    "--min-confidence", type=click.FloatRange(0, 1), default=0.5, show_default=True,
    help="Detections of BirdNET that are less sure are no labels.",
)  # fmt: skip
@click.option(
    "--model", default="ored-background", show_default=True,
    help="Name in the catalogue, to be trained; auto to choose one; or a model file of an earlier run.",
)  # fmt: skip
@set_option
@select_options
@medium_options
@embed_options
@click.option("--format", "formats", multiple=True, help="Formats to write; all of the medium if not given.")
@click.option("--names", type=any_path(), help="Table of the scientific names of labels, for birdnet.csv.")
@click.option(
    "--label-studio-root", type=any_path(), metavar="FOLDER",
    help="Folder from which Label Studio serves files, so that its tasks play and show them.",
)  # fmt: skip
@click.option("--instance-labels", "use_known", is_flag=True, help="Learn from the instance labels in a table, too.")
@click.option(
    "--known", type=any_path(), help="Instances that are known: a table or folder of Raven, Audacity, COCO, ..."
)
@click.option(
    "--noise-share", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.1, show_default=True,
    help="Expected share of instances that belong to no label.",
)  # fmt: skip
@click.option(
    "--max-noise", type=click.FloatRange(0, 1), default=0.5, show_default=True,
    help="What is more probably noise stands in the long table only.",
)  # fmt: skip
@click.option(
    "--sites", type=any_path(),
    help="Table of the sites of recording: columns site, latitude, longitude and, if wanted, time_zone.",
)  # fmt: skip
@click.option(
    "--precision", type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Keep the instances of which this share is expected to be right, such as 0.95; the others are marked.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of all that is random; by default as the catalogue has it.")
@click.option("--jobs", type=int, default=-1, show_default=True, help="Files read at a time; -1 for all cores.")
@click.option(
    "--cluster", metavar="ADDRESS",
    help="Read the files on the workers of a Dask cluster: tcp://host:8786, or local:4 for four of this machine.",
)  # fmt: skip
@click.option("--no-page", is_flag=True, help="Write no report.html.")
@click.option("--overwrite", is_flag=True, help="Replace another run in the folder for the results.")
@click.option("--bag", metavar="COLUMN", help="The column of a file of bags that names the bag.")
@click.option("--features", metavar="A,B,...", help="Its columns that are features; by default all others.")
@click.option("--read-as", metavar="NAME", help="Format of a file of bags; by default it is found out.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def annotate(
    source: Path, out: Path, labels: Path | None, columns: tuple[str, str] | None, separator: str | None,
    fold_case: bool, sheet: str | None, min_confidence: float, model: str, settings: tuple[str, ...],
    select: str | None, grid: str | None, folds: int, medium: str | None, window: float | None,
    medium_settings: tuple[str, ...], embed: Path | None, embed_settings: tuple[str, ...], embeddings: Path | None,
    segment: str | None, join: bool, formats: tuple[str, ...], names: Path | None, label_studio_root: Path | None,
    use_known: bool, known: Path | None, noise_share: float, max_noise: float, precision: float | None,
    sites: Path | None, seed: int | None, jobs: int, cluster: str | None, no_page: bool, overwrite: bool,
    bag: str | None, features: str | None, read_as: str | None, quiet: bool,
) -> None:  # fmt: skip
    """Find and name every syllable, region or passage of SOURCE: a folder of media, or a file of bags.

    The folder of the results is a run: it can be corrected (bagwise correct) and fitted again (bagwise refit).

    Exit code 0: all is done. 3: done, but some files or labels could not be used; each is named. 130: interrupted
    (Ctrl-C); what is finished is kept, and the same command goes on.
    """
    from bagwise.workflow import Run

    check_label_options(labels, columns, sheet)
    reading = parse_medium(window, medium_settings)
    if segment is not None:
        reading["segment"] = segment
    options = reader_options(None, bag, features) | ({} if read_as is None else {"format": read_as})
    with (
        going_on(),
        progress(quiet) as report,
        Run.create(
            source, out, labels=labels, columns=columns, separator=separator, fold_case=fold_case, sheet=sheet,
            min_confidence=min_confidence, model=model, learner=parse_pairs(settings), select=select,
            grid=grid_values(select, grid), folds=folds, medium=medium, settings=reading, reading=options,
            embed=embed, embed_settings=parse_pairs(embed_settings, "--embed-set"), embeddings=embeddings, join=join,
            use_known=use_known, known=known, formats=list(formats) or None, noise_share=noise_share,
            max_noise=max_noise, precision=precision, sites=sites, seed=seed, jobs=jobs, cluster=cluster,
            page=not no_page, names=names, label_studio_root=label_studio_root, overwrite=overwrite, progress=report,
            say=print_remark,
        ) as run,
    ):  # fmt: skip
        result = run.result()
    print_result(result, precision)
    if names is not None:
        _print_names(result.annotations)
    if result.problems:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)


def _print_names(annotations: Any) -> None:
    """Which labels have a scientific name."""
    missing = [label for label in annotations.classes if label not in annotations.names]
    others = f"; none for {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}" if missing else ""
    click.echo(f"scientific names: {len(annotations.classes) - len(missing)} of {len(annotations.classes)}{others}")


def print_result(result: Any, precision: float | None = None) -> None:
    """What was found, what was wrong (to the error output), what was written."""
    from bagwise.report.tables import format_table
    from bagwise.report.trust import precision_in_words, unlike_in_words

    annotations = result.annotations
    shown = annotations.shown()
    counts = Counter(row["label"] for row in shown)
    unsure = sum(1 for row in annotations.rows if annotations.is_named(row)) - len(shown)
    click.echo(
        f"{len(annotations.files)} files, {len(annotations.rows)} instances, {len(shown)} named, "
        + (f"{unsure} not sure enough, " if unsure else "")
        + f"{len(annotations.rows) - len(shown) - unsure} taken for noise"
        + (f"; {result.n_reused} files were done before" if result.n_reused else "")
    )
    if result.form:
        click.echo(f"labels: {result.form}")
    if result.choice:
        from bagwise.workflow.choose import choice_table

        click.echo(f"\n{choice_table(result.choice)}")
    rows = []
    for name in annotations.classes:
        values = [row["probability"] for row in shown if row["label"] == name and row["probability"] is not None]
        rows.append([name, str(counts[name]), f"{sum(values) / len(values):.2f}" if values else "-"])
    click.echo("\n" + format_table(["label", "instances", "mean probability"], rows, right=(1, 2)) + "\n")
    for line in (precision_in_words(annotations, precision), unlike_in_words(annotations)):
        if line is not None:
            click.echo(line)
    print_problems(result.problems)
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


def print_remark(text: str) -> None:
    """What is worth knowing before the fit; no problem, so that the exit code does not change."""
    click.echo(f"Note: {text}", err=True)


def print_problems(problems: Any) -> None:
    """Each on a line of the error output; of many of one kind the first ten and how many more there are."""
    kinds: dict[str, list[str]] = {}
    for name, message in problems:
        kind = re.sub(r"\d+", "#", re.sub(r"'[^']*'", "*", message.replace(str(name), "*")))
        kinds.setdefault(kind, []).append(message)
    for messages in kinds.values():
        for message in messages[:N_OF_A_KIND]:
            click.echo(f"Problem: {message}", err=True)
        if len(messages) > N_OF_A_KIND:
            more = len(messages) - N_OF_A_KIND
            click.echo(f"Problem: ... and {more} more of this kind; manifest.json names all.", err=True)
