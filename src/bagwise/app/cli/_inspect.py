"""`bagwise inspect`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import any_path, given_path, progress
from bagwise.app.cli._options import run_options


@click.command()
@click.argument("file", type=given_path())
@click.option("--out", type=any_path(), help="Folder for the pictures; inspect-FILE here if not given.")
@click.option(
    "--start", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Seconds to begin at (audio)."
)
@click.option("--pieces", type=click.IntRange(min=1), default=1, show_default=True, help="Pieces to draw (audio).")
@run_options("settings")
def inspect(file: Path, out: Path | None, start: float, pieces: int, settings: dict[str, Any]) -> None:
    """Draw every stage that FILE, a recording or a picture, goes through before its instances are described.

    Of a folder of recordings it says what is found in all of them, with shorter and longer frames, and whether calls
    run together.
    """
    if file.is_dir():
        _print_segments(file, settings)
        return
    from bagwise.app.media.media_types import MEDIA
    from bagwise.core.exceptions import InputError

    staged = [media_type for media_type in MEDIA.values() if media_type.stages is not None]
    media_type = next((media_type for media_type in staged if file.suffix.lower() in media_type.extensions), None)
    if media_type is None or media_type.stages is None:
        endings = ", ".join(ending for media_type in staged for ending in media_type.extensions)
        raise InputError(f"{file}: only recordings and pictures have stages to draw; their files end in {endings}.")
    if not file.is_file():
        raise InputError(f"{file}: there is no such file.")
    made = media_type.make_settings(settings)
    folder = out or Path(f"inspect-{file.stem}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {folder} for the pictures cannot be made ({error}); choose another (--out)."
        ) from error
    try:
        with media_type.opened(file) as opened:
            for line in media_type.stages(opened, folder, made, start, pieces):
                click.echo(line)
    finally:
        n = sum(1 for _ in folder.iterdir())
        if not n:  # nothing was drawn
            folder.rmdir()
    click.echo(f"{n} picture(s) in {folder}{os.sep}")


RUN_TOGETHER = 0.25  # share of segments that hold several


def _print_segments(folder: Path, settings: dict[str, Any]) -> None:
    """What is found in all recordings of a folder."""
    from bagwise.app.report.tables import format_table
    from bagwise.app.runs.look import look_at_segments
    from bagwise.app.runs.options import RunOptions

    with progress(quiet=False) as report:
        rows = look_at_segments(folder, RunOptions(settings=settings), report)
    headings = ["frames", "found", "per file", "share of time", "median s", "longest s", "hold several"]
    lines = [
        [
            row["scale"] + (" (default)" if row["given"] else ""),
            *(str(row["instances"]), f"{row['per_file']:.1f}", f"{100 * row['share']:.1f} %"),
            *(f"{row['median']:.3f}", f"{row['longest']:.2f}"),
            "-" if row["merged"] is None else f"{100 * row['merged']:.1f} %",
        ]
        for row in rows
    ]
    click.echo(format_table(headings, lines, right=range(1, len(headings))))
    click.echo("\nhold several: of the instances those that hold several of the ones found with the shortest frames")
    used = next(row for row in rows if row["given"])
    if used["merged"] is not None and used["merged"] >= RUN_TOGETHER:
        click.echo(
            f"calls run together with frames of {used['scale']}; annotate with labels chooses the frames by itself, "
            "else give shorter ones (--media-set frame=...)"
        )
