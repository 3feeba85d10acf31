"""`bagwise labels-backend`: a run as the machine learning backend of Label Studio."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bagwise.app.cli._common import any_path
from bagwise.app.cli._review import open_run, say_if_not_written

PASSWORD = "BAGWISE_BACKEND_PASSWORD"


@click.command("labels-backend")
@click.argument("run", type=any_path())
@click.option("--port", type=click.IntRange(0, 65535), default=9090, show_default=True, help="Port to listen on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--media", type=any_path(), help="Where the media are now, if they were moved.")
@click.option("--learn-every", type=click.IntRange(min=1), metavar="N", help="Learn again after N annotated tasks.")
def labels_backend(run: Path, port: int, host: str, media: Path | None, learn_every: int | None) -> None:
    """Serve RUN to a Label Studio project: predictions out, annotations in as corrections, learning in between.

    Prints the address to give Label Studio (Settings, Model) and serves until Ctrl-C. There is a password in it, which
    every request must bring: new at each start, or that of the environment variable BAGWISE_BACKEND_PASSWORD. Only this
    machine is answered unless --host says otherwise; nothing is encrypted.
    """
    from urllib.parse import quote

    from bagwise.app.review.labels_backend import LARGEST, USER, LabelsBackend, PasswordGuard
    from bagwise.app.review.review import Review
    from bagwise.app.review.server import bind, make_plain_app, make_server

    guard = PasswordGuard(os.environ.get(PASSWORD) or None)
    opened = open_run(run, media)
    try:
        listener = bind(host, port)
        review = Review(opened)

        def ready() -> None:
            click.echo(f"http://{USER}:{quote(guard.password, safe='')}@{host}:{listener.getsockname()[1]}")

        try:
            app = make_plain_app(LabelsBackend(review, learn_every).addresses, guard, LARGEST)
            make_server(app, ready).run(sockets=[listener])
        finally:
            say_if_not_written(review)
    finally:
        opened.close()
