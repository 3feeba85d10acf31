"""`bagwise doctor`: what is installed, for reports of faults."""

from __future__ import annotations

import json

import click

from bagwise.cli._common import check_output


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Say what is installed and what is missing.

    Prints versions, extras, threads, and where compiled code is kept: put it into a report of a fault.
    """
    from bagwise.doctor import as_dict, as_lines, examine

    check_output()
    found = examine()
    click.echo(json.dumps(as_dict(found), indent=2) if as_json else "\n".join(as_lines(found)))
