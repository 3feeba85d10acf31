"""`bagwise inspect`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bagwise.cli._common import any_path
from bagwise.cli._settings import medium_set_option, parse_pairs


@click.command()
@click.argument("file", type=any_path())
@click.option("--out", type=any_path(), help="Folder for the pictures; inspect-FILE here if not given.")
@click.option(
    "--start", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Seconds to begin at (audio)."
)
@click.option("--pieces", type=click.IntRange(min=1), default=1, show_default=True, help="Pieces to draw (audio).")
@medium_set_option
def inspect(file: Path, out: Path | None, start: float, pieces: int, medium_settings: tuple[str, ...]) -> None:
    """Draw every stage that FILE, a recording or a picture, goes through before its instances are described."""
    from bagwise.exceptions import InputError
    from bagwise.featurize.media import MEDIA

    staged = [medium for medium in MEDIA.values() if medium.stages is not None]
    medium = next((medium for medium in staged if file.suffix.lower() in medium.extensions), None)
    if medium is None or medium.stages is None:
        endings = ", ".join(ending for medium in staged for ending in medium.extensions)
        raise InputError(f"{file}: only recordings and pictures have stages to draw; their files end in {endings}.")
    if not file.is_file():
        raise InputError(f"{file}: there is no such file.")
    settings = medium.make_settings(parse_pairs(medium_settings, "--medium-set"))
    folder = out or Path(f"inspect-{file.stem}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {folder} for the pictures cannot be made ({error}); choose another (--out)."
        ) from error
    try:
        for line in medium.stages(file, folder, settings, start, pieces):
            click.echo(line)
    finally:
        n = sum(1 for _ in folder.iterdir())
        if not n:  # nothing was drawn
            folder.rmdir()
    click.echo(f"{n} picture(s) in {folder}{os.sep}")
