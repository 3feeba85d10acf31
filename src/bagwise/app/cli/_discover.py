"""`bagwise discover`: groups of instances that belong to no listed label."""

from __future__ import annotations

from pathlib import Path

import click

from bagwise.app.cli._common import ComputingCommand, any_path, given_path

PLACES = ("file", "start", "end", "low", "high")


@click.command(cls=ComputingCommand)
@click.argument("run", type=given_path(is_run=True))
@click.option("--out", type=any_path(), help="Table of the instances of all groups (CSV); RUN/novel.csv by default.")
def discover(run: Path, out: Path | None) -> None:
    """Find what nobody listed: groups of instances of RUN that belong together and to no listed label.

    Each may be a species, a thing or a topic of its own. Look at them, name them or mark them as background on the page
    (bagwise review, Novel groups), and learn again.
    """
    from bagwise.app.report.tables import format_table
    from bagwise.app.runs import Run
    from bagwise.io.files import inside
    from bagwise.io.tables import write_csv

    with Run.open(run) as opened:
        groups = opened.discover()
        where = {(row["bag"], row["instance"]): row for row in opened.annotations()}
    if not groups:
        click.echo("No group was found: what belongs to no listed label hangs together nowhere.")
        return
    path = inside(run, "novel.csv") if out is None else out
    rows = [
        {"group": group["group"], "bag": bag, "instance": instance}
        | {name: where[bag, instance][name] for name in PLACES if name in where[bag, instance]}
        for group in groups
        for bag, instance in group["members"]
    ]
    headings = [name for name in groups[0] if name != "members"]
    click.echo(format_table(headings, [[str(group[name]) for name in headings] for group in groups], right=range(4)))
    write_csv(rows, path)
    click.echo(f"wrote {path}; see, hear and name them on the page: bagwise review {run}")
