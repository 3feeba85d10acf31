"""`bagwise annotate`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, end_with, given_path, going_on, print_problems, progress
from bagwise.app.cli._data import check_label_options
from bagwise.app.cli._options import GroupedCommand, GroupedOption, config_option, grid_values, run_options
from bagwise.app.runs.options import OUTPUT


@click.command(
    cls=GroupedCommand, epilog="docs/command-line.md lists more options; a file for --config may hold any of them."
)
@click.argument("source", type=given_path())
@click.option("--out", type=any_path(), required=True, cls=GroupedOption, group=OUTPUT, help="Folder for the results.")
@run_options(grouped=True)
@config_option
@click.option("--quiet", is_flag=True, help="No progress bars.")
def annotate(source: Path, out: Path, quiet: bool, **options: Any) -> None:
    """Find and name every syllable, region or passage of SOURCE: a folder of media, or a file of bags.

    The folder of the results is a run: it can be corrected (bagwise correct) and fitted again (bagwise refit).

    Exit code 0: all is done. 3: done, but some files or labels could not be used; each is named. 130: interrupted
    (Ctrl-C); what is finished is kept, and the same command goes on.
    """
    from bagwise.app.runs.first_look import look_first

    check_label_options(options["labels"], options["columns"], options["sheet"])
    model = Path(options["model"] or "")
    has_model = model.suffix == ".bagwise" or model.is_file()
    look_first(source, options["labels"], options["columns"], options["separator"], has_model=has_model)
    from bagwise.app.runs import Run

    options["grid"] = grid_values(options["select"], options["grid"])
    with (
        going_on(),
        progress(quiet) as report,
        Run.create(source, out, **options, progress=report, say=_print_remark) as run,
    ):
        result = run.result()
    _print_result(result, options["precision"])
    if options["names"] is not None:
        _print_names(result.annotations)
    end_with(result.problems)


def _print_names(annotations: Any) -> None:
    """Which labels have a scientific name."""
    missing = [label for label in annotations.classes if label not in annotations.names]
    others = f"; none for {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}" if missing else ""
    click.echo(f"scientific names: {len(annotations.classes) - len(missing)} of {len(annotations.classes)}{others}")


def _print_result(result: Any, precision: float | None = None) -> None:
    """What was found, what was wrong (to the error output), what was written."""
    from bagwise.app.report.summary import novelty_in_words, precision_in_words
    from bagwise.app.report.tables import format_table

    annotations = result.annotations
    shown = annotations.shown()
    counts = Counter(row["label"] for row in shown)
    named = "labels named" if annotations.label_sets else "named"
    unsure = sum(1 for row in annotations.rows if annotations.is_named(row)) - len(shown)
    click.echo(
        f"{len(annotations.files)} files, {annotations.n_instances} instances, {len(shown)} {named}, "
        + (f"{unsure} not sure enough, " if unsure else "")
        + f"{sum(not any(map(annotations.is_named, own)) for own in annotations.by_instance())} taken for noise"
        + (f"; {result.n_reused} files were done before" if result.n_reused else "")
    )
    if result.form:
        click.echo(f"labels: {result.form}")
    if result.choice:
        from bagwise.app.runs.choose import choice_table

        click.echo(f"\n{choice_table(result.choice)}")
    rows = []
    for name in annotations.classes:
        values = [row["probability"] for row in shown if row["label"] == name and row["probability"] is not None]
        rows.append([name, str(counts[name]), f"{sum(values) / len(values):.2f}" if values else "-"])
    click.echo("\n" + format_table(["label", "instances", "mean probability"], rows, right=(1, 2)) + "\n")
    for line in (precision_in_words(annotations, precision), novelty_in_words(annotations)):
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


def _print_remark(text: str) -> None:
    """What is worth knowing before the fit; no problem, so that the exit code does not change."""
    click.echo(f"Note: {text}", err=True)
