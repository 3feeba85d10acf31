"""`bagwise review`: the page on one's own machine to look, listen, put right and learn again."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, given_path, open_browser

PASSWORD = "BAGWISE_REVIEW_PASSWORD"
WAIT = 5.0  # seconds for a process of a review that was killed to let go of the run


@click.command()
@click.argument("run", type=given_path(is_run=True))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; by default a free one.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--media", type=any_path(), help="Where the media (or the table) are now, if they were moved.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; another needs a password.")
def review(run: Path, port: int, no_browser: bool, media: Path | None, host: str) -> None:
    """Look at the annotations of RUN in the browser, put them right, and learn again.

    Prints one line with the address and serves until Ctrl-C. Only this machine is answered unless --host says
    otherwise, and then with a password, which is asked for here or taken from the environment variable
    BAGWISE_REVIEW_PASSWORD. Everything is saved as it is said.
    """
    if sys.stderr.isatty():
        click.echo(f"opening {run} ...", err=True)
    from bagwise.app.review.guard import THIS_MACHINE, Guard
    from bagwise.app.review.review import Review
    from bagwise.app.review.server import bind, make_app, make_server

    password = os.environ.get(PASSWORD) or None
    if host not in THIS_MACHINE:
        password = password or _ask_password()
        click.echo(
            f"Warning: {host} answers other machines, and what they send and get can be read on the way (there is no "
            "encryption). Do this in a network that you trust only.",
            err=True,
        )
    opened = open_run(run, media)
    try:
        listener = bind(host, port)
        guard = Guard(host, listener.getsockname()[1], password)
        under_review = Review(opened)

        try:
            make_server(make_app(under_review, guard), partial(say_address, guard, no_browser)).run(sockets=[listener])
        finally:
            say_if_not_written(under_review)
    finally:
        opened.close()


def say_address(guard: Any, no_browser: bool) -> None:
    """Where the page is, once it answers."""
    click.echo(guard.address)
    if not no_browser:
        threading.Thread(target=open_browser, args=(guard.address,), daemon=True).start()


def _ask_password() -> str:
    """A password by keyboard: as an option it would stand in the list of processes, for all to read."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            "--host lets other machines in, so it needs a password, and there is no terminal to ask for one; put it "
            f"into the environment variable {PASSWORD}."
        )
    words = "Password for those who open the page"
    password: str = click.prompt(words, hide_input=True, confirmation_prompt=True, err=True)
    return password


def say_if_not_written(under_review: Any) -> None:
    """End a review; says so where the files for people are older than what was learned."""
    path = under_review.run.path
    if not under_review.close():
        click.echo(
            f"The files for people in {path} are older than what was learned; they are written when the run is opened "
            f"next (bagwise refit {path} does it now).",
            err=True,
        )


def open_run(path: Path, media: Path | None) -> Any:
    """Open the run; after a review was killed, its process that learns needs a moment to notice."""
    from bagwise.app.runs import Run
    from bagwise.app.runs.folder import BusyError

    until = time.monotonic() + WAIT
    while True:
        try:
            return Run.open(path, media=media)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
