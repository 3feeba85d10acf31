"""`bagwise demo`."""

from __future__ import annotations

from pathlib import Path

import click

from bagwise.cli._common import console as make_console
from bagwise.cli._common import progress


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("demo-output"), show_default=True,
    help="Folder for the annotated table, the picture and the model.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the letters and the folds.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """Make letter bags, learn from their bag labels alone, and show what was worked out."""
    from bagwise.demo import MODELS, run_demo, word_lines
    from bagwise.report.tables import format_table

    with progress(quiet) as report:
        result = run_demo(out, seed, report)
    console = make_console()
    dataset = result.dataset
    console.print(
        f"\n[bold]{len(dataset)} words, {dataset.bags.n_instances} letters.[/bold] For each word only the set of its "
        "letters was told,\nnot which drawn letter is which. bagwise worked out (wrong ones in brackets):\n"
    )
    for line in word_lines(result):
        told = "{" + " ".join(line["told"]) + "}"
        letters = [
            f"[green]{guess}[/green]" if guess == truth else rf"[red]\[{guess}][/red]"
            for guess, truth in zip(line["worked_out"], line["truth"], strict=True)
        ]
        console.print(f"  {told:<22} {' '.join(letters)}   [dim]{''.join(line['truth'])}[/dim]")
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
        "\n[dim]these words: the set of the word's letters is told. new words: nothing but the drawing\nis known "
        "(ten folds).[/dim]\n"
    )
    for file in result.files:
        console.print(f"wrote {file}", highlight=False)
