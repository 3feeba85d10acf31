"""`bagwise gui`: from files to a review without another command."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from bagwise.app.cli._common import given_path
from bagwise.app.cli._review import open_run, say_address, say_if_not_written


@click.command()
@click.argument("folder", type=given_path(), default=".")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; by default a free one.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def gui(folder: Path, port: int, no_browser: bool) -> None:
    """Choose files and labels in the browser, annotate them, and review the result there.

    Begins in FOLDER, by default the folder in which it is started. Prints one line with the address and serves until
    Ctrl-C; only this machine is answered. What `bagwise annotate` and `bagwise review` do is done, with their defaults.
    """
    if sys.stderr.isatty():
        click.echo("starting ...", err=True)
    from bagwise.app.review.guard import Guard
    from bagwise.app.review.review import Review
    from bagwise.app.review.server import bind, make_plain_app, make_router, make_server
    from bagwise.app.review.start import StartPage

    with ExitStack() as opened:

        def show(run: Path) -> None:
            with ExitStack() as opening:
                review = Review(opening.enter_context(open_run(run, None)))
                opened.push(opening.pop_all())
            opened.callback(say_if_not_written, review)
            app.app = make_router(review)

        start = StartPage(folder.resolve(), show)
        opened.callback(start.close)
        listener = bind("127.0.0.1", port)
        guard = Guard("127.0.0.1", listener.getsockname()[1])
        app = make_plain_app(start.addresses, guard, page="start.html")

        make_server(app, partial(say_address, guard, no_browser)).run(sockets=[listener])
