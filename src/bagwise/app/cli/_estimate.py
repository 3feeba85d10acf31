"""`bagwise estimate`: how many instances carry each label, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, given_path


@click.command(cls=ComputingCommand)
@click.argument("run", type=given_path(is_run=True))
@click.option("--by", type=click.Choice(["file", "site", "hour", "date"]), help="Count in groups.")
@click.option("--out", type=any_path(), help="Table to write (CSV).")
@click.option("--draw", type=click.IntRange(min=1), metavar="N", help="Draw N more instances for a person to answer.")
@click.option("--seed", type=int, help="Of --draw.")
def estimate(run: Path, by: str | None, out: Path | None, draw: int | None, seed: int | None) -> None:
    """Say how many instances of RUN carry each label, with intervals of 95 %.

    They come from a random sample that a person answers: draw it here (--draw), answer it on the page (bagwise review).
    The intervals hold whatever the model is. Without answers the figures are the model's own, and say so.
    """
    from bagwise.app.report.tables import format_table
    from bagwise.app.runs import Run
    from bagwise.io.tables import write_csv

    with Run.open(run) as opened:
        if draw is not None:
            left = opened.draw_sample(draw, seed)
            click.echo(f"{len(left)} instances are drawn and not answered yet; answer them: bagwise review {run}")
        rows = opened.estimate(by)
    if rows and rows[0]["basis"] == "model":
        click.echo("These figures are the model's own: nobody has looked at a random sample of its instances yet.")
    if out is not None:
        write_csv(rows, out)
        click.echo(f"wrote {out}")
        return
    headings = list(rows[0]) if rows else []
    click.echo(format_table(headings, [[_text(row[name]) for name in headings] for row in rows], right=range(2, 6)))


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.0f}" if isinstance(value, float) else str(value)
