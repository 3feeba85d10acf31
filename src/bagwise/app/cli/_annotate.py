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
@click.option("--out", type=any_path(), cls=GroupedOption, group=OUTPUT, help="Folder for the results.")
@click.option("--into", type=any_path(), hidden=True, help="A run to which new files of SOURCE are added.")
@click.option("--refit", is_flag=True, hidden=True, help="With --into: learn again.")
@run_options(grouped=True)
@config_option
@click.option("--quiet", is_flag=True, help="No progress bars.")
@click.pass_context
def annotate(
    ctx: click.Context, source: Path, out: Path | None, into: Path | None, refit: bool, quiet: bool, **options: Any
) -> None:
    """Find and name every syllable, region or passage of SOURCE: a folder of media, or a file of bags.

    The folder of the results is a run: it can be corrected (bagwise correct) and fitted again (bagwise refit). With
    --into RUN in place of --out, files that RUN does not have yet are added to it; with --refit it then learns again.

    Exit code 0: all is done. 3: done, but some files or labels could not be used; each is named. 130: interrupted
    (Ctrl-C); what is finished is kept, and the same command goes on.
    """
    from bagwise.app.runs.first_look import look_first

    if (out is None) == (into is None) or (refit and into is None):
        raise click.UsageError("Say where the results go: --out FOLDER, or --into RUN (and --refit) to add to a run.")
    check_label_options(options["labels"], options["columns"], options["sheet"])
    model = Path(options["model"] or "")
    has_model = model.suffix == ".bagwise" or model.is_file()
    if into is None:
        look_first(source, options["labels"], options["columns"], options["separator"], has_model=has_model)
    from bagwise.app.runs import Run

    options["grid"] = grid_values(options["select"], options["grid"])
    with going_on(), progress(quiet) as report:
        if into is None:
            made = Run.create(source, out or Path(), **options, progress=report, say=_print_remark)
        else:
            from bagwise.app.runs.extend import extend_run

            made = extend_run(into, source, **_given(ctx, options), refit=refit, progress=report, say=_print_remark)
        with made as run:
            result = run.result()
    _print_result(result, options["precision"])
    if options["names"] is not None:
        _print_names(result.annotations)
    end_with(result.problems)


FOR_MORE = ("labels", "columns", "separator", "fold_case", "sheet", "min_confidence", "embed", "embeddings", "jobs")
"""Options that a run which is there can be given with more files; all others it has already."""


def _given(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """What was given with --into."""
    sources = click.core.ParameterSource
    default = (sources.DEFAULT, sources.DEFAULT_MAP)
    others = [name for name in options if name not in FOR_MORE and ctx.get_parameter_source(name) not in default]
    if others:
        flag = next(param.opts[0] for param in ctx.command.params if param.name == others[0])
        raise click.UsageError(f"{flag} is a matter of the run that --into names, and was settled when it was made.")
    return {name: options[name] for name in FOR_MORE}


def _print_names(annotations: Any) -> None:
    """Which labels have a scientific name."""
    missing = [label for label in annotations.classes if label not in annotations.names]
    others = f"; none for {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}" if missing else ""
    click.echo(f"scientific names: {len(annotations.classes) - len(missing)} of {len(annotations.classes)}{others}")


def _print_result(result: Any, precision: float | None = None) -> None:
    """What was found, what was wrong (to the error output), what was written."""
    from bagwise.app.report.summary import novelty_in_words, observer_table, precision_in_words, resolution_in_words
    from bagwise.app.report.tables import format_table

    annotations = result.annotations
    shown = annotations.shown()
    counts = Counter(row["label"] for row in shown)
    named = "labels named" if annotations.label_sets else "named"
    unsure = sum(1 for row in annotations.rows if annotations.is_named(row)) - len(shown)
    click.echo(
        f"{len(annotations.files)} files, {annotations.n_instances} instances, {len(shown)} {named}, "
        + (f"{unsure} not sure enough, " if unsure else "")
        + f"{sum(not any(map(annotations.is_named, own)) for own in annotations.by_instance())} taken for background"
        + (f"; {result.n_reused} files were done before" if result.n_reused else "")
    )
    if result.expected:
        click.echo(result.expected)
    if result.form:
        click.echo(f"labels: {result.form}")
    if (line := resolution_in_words(result.resolution)) is not None:
        click.echo(f"resolution: {line}")
    if result.choice:
        from bagwise.app.runs.choose import choice_table

        click.echo(f"\n{choice_table(result.choice)}")
    rows = []
    for name in annotations.classes:
        values = [row["probability"] for row in shown if row["label"] == name and row["probability"] is not None]
        rows.append([name, str(counts[name]), f"{sum(values) / len(values):.2f}" if values else "-"])
    click.echo("\n" + format_table(["label", "instances", "mean probability"], rows, right=(1, 2)) + "\n")
    if result.observers:
        headings, cells = observer_table(result.observers, annotations.media_type.bags)
        click.echo(format_table(headings, cells, right=range(1, len(headings))) + "\n")
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
