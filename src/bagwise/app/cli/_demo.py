"""`bagwise demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, open_browser, progress
from bagwise.app.cli._common import console as make_console


@click.command(cls=ComputingCommand)
@click.option(
    "--out",
    type=any_path(file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for what is made and found.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the data.")
@click.option("--letters", is_flag=True, help="Letters from words instead of birds from recordings.")
@click.option("--no-browser", is_flag=True, help="Do not open the page in the browser.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def demo(out: Path, seed: int, letters: bool, no_browser: bool, quiet: bool) -> None:
    """Make a soundscape, learn from the species of each recording alone, and compare with the truth.

    On a terminal the page that shows it opens in the browser.
    """
    console = make_console()
    with progress(quiet) as report:
        if letters:
            from bagwise.app.demo.letters import run_demo

            result: Any = run_demo(out, seed, report)
        else:
            from bagwise.app.demo.soundscape import run_soundscape_demo

            result = run_soundscape_demo(out, seed, report)
    (_print_letters if letters else _print_soundscape)(console, result)
    if not letters and not no_browser and sys.stdout.isatty():
        open_browser(result.page.resolve().as_uri())


def _print_soundscape(console: Any, result: Any) -> None:
    from bagwise.app.report.tables import format_table

    scene, labelled = result.scene, result.labelled
    minutes = sum(map(len, scene.recordings)) / scene.rate / 60
    console.print(
        f"\n[bold]{len(scene.recordings)} recordings, {minutes:.0f} minutes, {labelled.by_species['all'][0]} calls of "
        f"{len(scene.species)} species.[/bold] For each recording only the list of its species was given,\n"
        "not when or at what pitch they call. bagwise found and named:\n"
    )
    rows = [
        [name, str(calls), _percent(found, calls), str(matched), _percent(right, matched)]
        for name, (calls, found, matched, right) in labelled.by_species.items()
    ]
    console.print(format_table(["species", "calls", "found", "syllables", "named right"], rows, right=(1, 2, 3, 4)))
    noise, recognised = labelled.noise
    console.print(
        f"\n  named right, species of the recording given    {100 * labelled.accuracy:5.1f} %\n"
        f"  the same by guessing the commonest of them     {100 * result.guessed.accuracy:5.1f} %\n"
        f"  new recordings, nothing labeled                {100 * result.new.accuracy:5.1f} %\n"
        f"  noises of no species taken for background      {recognised:5d} of {noise}\n"
    )
    folder = result.page.parent
    console.print(f"wrote Raven, Audacity, BirdNET, Label Studio and long tables to {folder}")
    console.print(f"open {result.page.resolve().as_uri()}")
    console.print(f"put it right on a page of your own machine: {sys.argv[0]} review {folder}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _print_letters(console: Any, result: Any) -> None:
    from bagwise.app.demo.letters import MODELS
    from bagwise.app.report.tables import format_table

    dataset = result.dataset
    console.print(
        f"\n[bold]{len(dataset)} words, {dataset.bags.n_instances} letters.[/bold] For each word only the set of its "
        "letters was given,\nnot which drawn letter is which. bagwise worked out (wrong ones in brackets):\n"
    )
    for given, guesses, truths in result.words:
        letters_of = "{" + " ".join(given) + "}"
        letters = [
            f"[green]{guess}[/green]" if guess == truth else rf"[red]\[{guess}][/red]"
            for guess, truth in zip(guesses, truths, strict=True)
        ]
        console.print(f"  {letters_of:<22} {' '.join(letters)}   [dim]{''.join(truths)}[/dim]")
    console.print("\nShare of the letters that are right, in percent:\n")
    rows = [
        (
            name,
            what,
            *(f"{100 * result.accuracies[name][mode]:.1f}" for mode in ("transductive", "inductive")),
        )
        for name, what in MODELS.items()
    ]
    console.print(format_table(["model", "learns from", "these words", "new words"], rows, right=(2, 3)))
    console.print(
        "\n[dim]these words: the set of the word's letters is given. new words: nothing but the drawing\nis known "
        "(ten folds).[/dim]\n"
    )
    for file in result.files:
        console.print(f"wrote {file}", highlight=False)
