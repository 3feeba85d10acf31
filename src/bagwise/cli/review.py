"""`bagwise review`: the page on one's own machine to look, listen, put right and learn again."""

from __future__ import annotations

import threading
import time
import webbrowser
from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path

WAIT = 5.0  # seconds for a process of a review that was killed to let go of the run


@click.command()
@click.argument("run", type=any_path())
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; by default a free one.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--media", type=any_path(), help="Where the media (or the table) are now, if they were moved.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; another needs --password.")
@click.option("--password", metavar="TEXT", help="Asked for beside the token of the address.")
def review(run: Path, port: int, no_browser: bool, media: Path | None, host: str, password: str | None) -> None:
    """Look at the annotations of RUN in the browser, put them right, and learn again.

    Prints one line with the address and serves until Ctrl-C. Only this machine is answered unless --host says
    otherwise. Everything is saved as it is said.
    """
    from bagwise.review.guard import THIS_MACHINE, Guard
    from bagwise.review.review import Review
    from bagwise.review.server import bind, serve

    if host not in THIS_MACHINE:
        if not password:
            raise click.UsageError("--host lets other machines in, so it needs --password.")
        click.echo(
            f"Warning: {host} answers other machines, and what they send and get can be read on the way (there is no "
            "encryption). Do this in a network that you trust only.",
            err=True,
        )
    opened = _open(run, media)
    try:
        listener = bind(host, port)
        guard = Guard(host, listener.getsockname()[1], password)
        under_review = Review(opened)

        def ready() -> None:
            click.echo(guard.address)
            if not no_browser:
                threading.Thread(target=_open_browser, args=(guard.address,), daemon=True).start()

        try:
            serve(under_review, listener, guard, ready)
        finally:
            if not under_review.close():
                click.echo(
                    f"The files for people in {run} are older than what was learned; they are written when the run is "
                    f"opened next (bagwise refit {run} does it now).",
                    err=True,
                )
    finally:
        opened.close()


def _open(path: Path, media: Path | None) -> Any:
    """Open the run; after a review was killed, its process that learns needs a moment to notice."""
    from bagwise.workflow import Run
    from bagwise.workflow.manifest import BusyError

    until = time.monotonic() + WAIT
    while True:
        try:
            return Run.open(path, media=media)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _open_browser(address: str) -> None:
    try:
        opened = webbrowser.open(address)
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        click.echo("No browser could be opened; open the address above in one.", err=True)
