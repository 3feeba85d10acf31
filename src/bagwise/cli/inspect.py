"""`bagwise inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bagwise.cli._common import any_path
from bagwise.cli.annotate import parse_pairs


@click.command()
@click.argument("file", type=any_path())
@click.option("--out", type=any_path(), help="Folder for the pictures; that of FILE if not given.")
@click.option(
    "--start", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Seconds to begin at (audio)."
)
@click.option("--pieces", type=click.IntRange(min=1), default=1, show_default=True, help="Pieces to draw (audio).")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting of the medium; may be repeated.")
def inspect(file: Path, out: Path | None, start: float, pieces: int, pairs: tuple[str, ...]) -> None:
    """Draw every stage that FILE, a recording or a picture, goes through before its instances are described."""
    from bagwise.exceptions import InputError
    from bagwise.workflow.media import MEDIA

    medium = next((name for name, kind in MEDIA.items() if file.suffix.lower() in kind.extensions), None)
    if medium not in ("audio", "image"):
        raise InputError(f"{file}: only recordings and pictures have stages to draw; their files end in "
                         f"{', '.join(MEDIA['audio'].extensions + MEDIA['image'].extensions)}.")  # fmt: skip
    if not file.is_file():
        raise InputError(f"{file}: there is no such file.")
    settings = MEDIA[medium].settings.from_text(parse_pairs(pairs))
    folder = out or file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} for the pictures cannot be made ({error}); choose another.") from error
    if medium == "audio":
        _inspect_sound(file, folder, settings, start, pieces)
    else:
        _inspect_picture(file, folder, settings)


def _inspect_sound(file: Path, folder: Path, settings: Any, start: float, pieces: int) -> None:
    from itertools import islice

    from bagwise.exceptions import InputError
    from bagwise.featurize.audio import find_syllables, piece_name
    from bagwise.featurize.audio_file import audio_info, read_blocks
    from bagwise.report.stages import draw_sound_stages

    info = audio_info(file)
    click.echo(f"{file.name}: {info.seconds:.2f} s, {info.rate} Hz, {info.channels} channel(s)")
    if start >= info.seconds:
        raise InputError(f"{file} is {info.seconds:.2f} s long; it cannot be drawn from {start:g} s on.")
    for begin, samples in islice(read_blocks(file, settings.window, start), pieces):
        stages = find_syllables(samples, info.rate, settings)
        path = folder / f"{piece_name(file.stem, begin)}.stages.png"
        draw_sound_stages(stages, begin, f"{file.name}, from {begin:g} s", path, settings.to_dict())
        click.echo(f"from {begin:g} s: {int(stages.labels.max(initial=0))} regions, threshold {stages.decibels:.1f} dB")
        click.echo(f"wrote {path}")


def _inspect_picture(file: Path, folder: Path, settings: Any) -> None:
    from bagwise.featurize.image import find_regions
    from bagwise.featurize.image_file import read_image
    from bagwise.report.stages import draw_image_stages

    image = read_image(file)
    labels = find_regions(file, file.name, image, settings)
    n = int(labels.max(initial=0))
    path = folder / f"{file.stem}.stages.png"
    draw_image_stages(image, labels, [str(i + 1) for i in range(n)], file.name, path)
    click.echo(f"{file.name}: {image.shape[1]} x {image.shape[0]} points, {n} regions")
    click.echo(f"wrote {path}")
