"""`bagwise correct` and `bagwise refit`: put annotations right, and learn from that."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, end_with, given_path, print_problems, progress


@click.command()
@click.argument("run", type=given_path(is_run=True))
@click.argument("table", type=given_path(), required=False)
@click.option(
    "--from",
    "source",
    type=any_path(),
    help="Annotations that were put right elsewhere: the file or folder of Raven, Audacity, Label Studio, COCO, ...",
)
@click.option("--format", "format_name", metavar="NAME", help="Format of --from; by default it is found out.")
@click.option("--undo", is_flag=True, help="Take the last corrections back instead.")
@click.option("--new-labels", is_flag=True, help="Take labels that the run does not have yet.")
@click.option("--by", default="", metavar="NAME", help="Who says so; kept with each correction.")
@click.option("--dry-run", is_flag=True, help="Only say what would be corrected.")
def correct(
    run: Path,
    table: Path | None,
    source: Path | None,
    format_name: str | None,
    undo: bool,
    new_labels: bool,
    by: str,
    dry_run: bool,
) -> None:
    """Put annotations of RUN right: by TABLE, with columns bag, instance and label (empty for noise), or --from a tool.

    Each correction is kept in corrections.csv in the folder of the run. bagwise refit then learns from them.

    Exit code 3: some of the marks of --from fit no instance; each is named.
    """
    from bagwise.app.runs import Run
    from bagwise.app.runs.corrections import ABSENT, CorrectionLog
    from bagwise.app.runs.label_sets import joined_labels
    from bagwise.app.runs.layout import EDITS
    from bagwise.core.exceptions import InputError

    if sum((table is not None, source is not None, undo)) != 1:
        raise click.UsageError("Give one of TABLE, --from and --undo.")
    with Run.open(run) as opened:
        if undo:
            taken = opened.undo()
            click.echo(f"took back {_count(taken)}" if taken else "there is nothing to take back")
            return
        problems: list[Any] = []
        given: list[Any]
        rejected: list[tuple[str, str]] = []
        edits: Any = None
        if source is not None:
            edits = opened.read_edits(source, format_name)
            given, problems = edits.corrections, edits.problems
        else:
            assert table is not None
            from bagwise.io.files import check_readable

            log = CorrectionLog(check_readable(table).resolve())
            entries, problems = log.in_force(), log.problems
            answers = [entry for entry in entries if entry.action not in (ABSENT, *EDITS)]
            given = joined_labels(answers, opened.label_sets)
            rejected = [(entry.bag, entry.label) for entry in entries if entry.action == ABSENT]
        boxes = [] if edits is None else [*edits.moved, *edits.drawn]
        every = [label for *_, label in [*given, *boxes]]
        named = {name for label in every for name in ([label] if isinstance(label, str) else label) if name}
        strange = sorted(named - set(opened.labels))
        if strange and not new_labels:
            raise InputError(_strange(strange, opened.labels))
        for bag, instance, label in given if dry_run else ():
            what = "noise" if label == "" else label if isinstance(label, str) else ", ".join(label)
            click.echo(f"{bag}, instance {instance}: {what}" if instance is not None else f"{bag}: {what}")
        for bag, instance, place, label in edits.moved if dry_run and edits else ():
            click.echo(f"{bag}, instance {instance}: moved to {_place(place)}, {_words(label)}")
        for file, place, label in edits.drawn if dry_run and edits else ():
            click.echo(f"{file}: drawn at {_place(place)}, {_words(label)}")
        if not dry_run:  # one call: all of it or nothing
            if edits is None:
                opened.correct(given, absent=rejected, by=by)
            else:
                problems = [*problems, *opened.take_edits(edits, by=by)]
        print_problems(problems)
        done = "would write" if dry_run else "wrote"
        counts = _count([*given, *rejected])
        if boxes:
            counts += f", {len(edits.drawn)} drawn and {len(edits.moved)} moved boxes"
        click.echo(f"{done} {counts} to {opened.path / 'corrections.csv'}")
    end_with(problems)


def _place(place: Any) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in place.items())


def _words(label: Any) -> str:
    return ", ".join([label] if isinstance(label, str) else label) or "no label"


def _count(corrections: Any) -> str:
    return f"{len(corrections)} correction{'' if len(corrections) == 1 else 's'}"


def _strange(labels: list[str], known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(labels[0], known, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"The run has no label {labels[0]!r}{hint}; its labels are {', '.join(map(repr, known[:8]))}"
        f"{', ...' if len(known) > 8 else ''}. {len(labels)} such label(s) in all: fix them, or pass --new-labels to "
        "add them. Nothing was written."
    )


@click.command(cls=ComputingCommand)
@click.argument("run", type=given_path(is_run=True))
@click.option("--media", type=any_path(), help="Where the media (or the table) are now, if they were moved.")
@click.option("--no-page", is_flag=True, help="Do not write report.html again.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def refit(run: Path, media: Path | None, no_page: bool, quiet: bool) -> None:
    """Learn again with all corrections of RUN, and write model, annotations and page again.

    The model before is kept: bagwise correct RUN --undo goes back to it.
    """
    from bagwise.app.runs import Run

    with progress(quiet) as report, Run.open(run, media=media) as opened:
        actions = Counter(correction["action"] for correction in opened.corrections())
        done = opened.refit(
            callback=lambda i, objective: report("learning", i, 0), progress=report, page=False if no_page else None
        )
        problems = opened.problems
    counts = ", ".join(f"{count} {action}" for action, count in sorted(actions.items())) or "none"
    click.echo(f"corrections: {counts}")
    click.echo(f"version {done.version}: {done.changed} instances have another label than before; wrote {run}")
    print_problems(problems)
