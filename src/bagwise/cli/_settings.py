"""Settings given as name=value: of the learner, and of the medium."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from bagwise.cli._common import any_path


def set_option(command: Any) -> Any:
    """The option --set."""
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE",
        help="A setting of the learner, such as l2=0.1, or of a step before it as step__name=value; may be repeated.",
    )(command)  # fmt: skip


def medium_set_option(command: Any) -> Any:
    """The option --medium-set."""
    return click.option(
        "--medium-set", "medium_settings", multiple=True, metavar="NAME=VALUE",
        help="A setting of the medium, such as threshold=5; may be repeated.",
    )(command)  # fmt: skip


def medium_options(command: Any) -> Any:
    """The options --medium, --window and --medium-set: how files of a folder are read."""
    options = (
        click.option("--medium", metavar="NAME", help="audio, image, text, ...: found out from the files."),
        click.option("--window", type=float, help="Seconds of a piece of a recording (audio; 10 by default)."),
        medium_set_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def embed_options(command: Any) -> Any:
    """The options of vectors that networks trained elsewhere make."""
    options = (
        click.option(
            "--embed", type=any_path(), metavar="MODEL.onnx",
            help="Describe instances by a network that was trained elsewhere.",
        ),
        click.option(
            "--embed-set", "embed_settings", multiple=True, metavar="NAME=VALUE",
            help="How the network is given its input, such as rate=32000; may be repeated.",
        ),
        click.option(
            "--embeddings", type=any_path(), metavar="TABLE",
            help="Vectors that were made already: a .parquet or .npz with file, start, end and vector.",
        ),
        click.option(
            "--segment", type=click.Choice(["syllables", "windows"]),
            help="What the instances of recordings are; windows go with --embed or --embeddings.",
        ),
        click.option("--join", is_flag=True, help="Keep the features of the medium beside the vectors."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def parse_medium(window: float | None, pairs: Iterable[str]) -> dict[str, Any]:
    """Settings of the medium, from --window and --medium-set."""
    settings: dict[str, Any] = parse_pairs(pairs, "--medium-set")
    return settings if window is None else settings | {"window": window}


def select_options(command: Any) -> Any:
    """The options --select, --grid and --folds."""
    options = (
        click.option(
            "--select", metavar="NAME", help="Choose this setting by cross-validated rank loss, from bag labels alone."
        ),
        click.option("--grid", help="Values to choose from, separated by commas; for alpha 1e-9 to 1 by default."),
        click.option("--folds", type=click.IntRange(min=2), default=10, show_default=True, help="Folds of --select."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def parse_pairs(pairs: Iterable[str], option: str = "--set") -> dict[str, str]:
    """Settings given as NAME=VALUE."""
    settings = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {pair!r}.")
        settings[name] = value
    return settings


def grid_values(select: str | None, grid: str | None) -> list[float]:
    """The values to select from."""
    if select is None and grid is not None:
        raise click.UsageError("--grid goes with --select.")
    if grid is None:
        if select not in (None, "alpha"):
            raise click.UsageError(f"--select {select} needs --grid with the values to choose from.")
        return [10.0**exponent for exponent in range(-9, 1)]
    try:
        return [_number(value) for value in grid.split(",")]
    except ValueError:
        raise click.UsageError(f"--grid takes numbers separated by commas, not {grid!r}.") from None


def _number(text: str) -> float:
    try:
        return int(text)  # some settings are whole numbers, and the others take them too
    except ValueError:
        return float(text)
