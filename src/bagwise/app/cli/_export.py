"""`bagwise export`: a model for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from bagwise.app.cli._common import any_path


@click.command()
@click.argument("model", type=any_path())
@click.option("--to", required=True, type=any_path(), help="File to write: .onnx, or .tflite for BirdNET-Analyzer.")
def export(model: Path, to: Path) -> None:
    """Write MODEL, a model file or a run, for programs that know nothing of bagwise.

    Linear models only: ORed and noisy-or logistic regressions, calibrated or not, with the scaling before them. As
    .onnx the numbers are those of bagwise; a .tflite of a model on vectors of BirdNET is a custom classifier that
    BirdNET-Analyzer loads, with its table of labels. What the licence of the vectors asks for stands in the file.
    """
    from bagwise.app.runs.export import export_model

    for path in export_model(model, to):
        click.echo(f"wrote {path}")
