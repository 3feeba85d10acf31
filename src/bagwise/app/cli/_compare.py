"""`bagwise compare`: two runs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, check_output, end_with, given_path

N_CHANGES = 10  # that are printed
NOISE = "(background)"


@click.command()
@click.argument("first", type=given_path(is_run=True))
@click.argument("second", type=given_path(is_run=True))
@click.option("--out", type=any_path(), help="Write every instance of both runs, with both labels, to this CSV file.")
def compare(first: Path, second: Path, out: Path | None) -> None:
    """Say what the runs FIRST and SECOND name otherwise, and how well they agree.

    Instances are found by file and by overlap in time, frequency or the picture, those of tables by bag and number.

    Exit code 3: some files are in one of the runs only; each is named, the others are compared.
    """
    from bagwise.app.runs import Run
    from bagwise.app.runs.compare import compare_annotations
    from bagwise.io.files import check_target

    if out is None:
        check_output()
    else:
        check_target(out)
    with Run.open(first) as run:
        one = run.result().annotations
    with Run.open(second) as run:
        two = run.result().annotations
    found = compare_annotations(one, two)
    _print(found)
    if out is not None:
        found.write(out)
        click.echo(f"\nwrote {out}")
    for names, run_path in ((found.only_first, first), (found.only_second, second)):
        for name in names[:N_CHANGES]:
            click.echo(f"Problem: {name} is in {run_path} only.", err=True)
        if len(names) > N_CHANGES:
            click.echo(f"Problem: ... and {len(names) - N_CHANGES} more files in {run_path} only.", err=True)
    end_with(found.only_first or found.only_second)


def _print(found: Any) -> None:
    from bagwise.app.report.tables import format_table

    pairs = found.pairs
    alone = [sum(row[f"{other}_label"] is None for row in found.rows) for other in ("second", "first")]
    click.echo(f"{len(pairs)} instances are in both runs, {alone[0]} in the first only, {alone[1]} in the second only")
    if found.agreement is not None:
        kappa = "not defined (one label only)" if found.kappa is None else f"{found.kappa:.3f}"
        same = sum(a == b for a, b in pairs)
        click.echo(f"the same label: {same} ({100 * found.agreement:.1f} %), Cohen's kappa {kappa}")
    rows = [
        [row["label"] or NOISE, str(row["first"]), str(row["second"]), str(row["both"]), _percent(row["agreement"])]
        for row in found.by_label()
    ]
    click.echo("\n" + format_table(["label", "first", "second", "both", "agreement"], rows, right=(1, 2, 3, 4)))
    changes = found.changes()
    if changes:
        lines = [[a or NOISE, b or NOISE, str(n)] for a, b, n in changes[:N_CHANGES]]
        click.echo("\n" + format_table(["in the first", "in the second", "instances"], lines, right=(2,)))
        if len(changes) > N_CHANGES:
            click.echo(f"... and {len(changes) - N_CHANGES} more kinds of change")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
