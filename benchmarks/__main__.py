"""`make bench`: all benchmarks, or those named; tables to the terminal, records to bench-output/ as JSON lines."""

from __future__ import annotations

import importlib
import platform
from pathlib import Path

import click

from bagwise.io.tables import write_json_lines

BENCHMARKS = {
    "ored-speed": "benchmarks.ored_speed",
    "ored-background": "benchmarks.ored_background",
    "sim-speed": "benchmarks.sim_speed",
    "m3miml-speed": "benchmarks.m3miml_speed",
    "audio-speed": "benchmarks.audio_speed",
    "media-accuracy": "benchmarks.media_accuracy",
    "clustering-speed": "benchmarks.clustering_speed",
    "clustering-tables": "benchmarks.clustering_tables",
    "clustering-scaling": "benchmarks.clustering_scaling",
    "clustering-figures": "benchmarks.clustering_figures",
    "io-speed": "benchmarks.io_speed",
    "io-roundtrips": "benchmarks.io_roundtrips",
    "kills": "benchmarks.kills",
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--quick", is_flag=True, help="Fewer repeats and settings.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench-output"), show_default=True)
def main(names: tuple[str, ...], quick: bool, out: Path) -> None:
    """Run benchmarks; ratios are taken in one run, so noise hits both sides. Nothing here fails a build."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names or BENCHMARKS:
        click.secho(f"\n== {name}", bold=True)
        records = importlib.import_module(BENCHMARKS[name]).main(quick)
        rows = [{"benchmark": name, "python": platform.python_version(), **record} for record in records]
        write_json_lines(rows, out / f"{name}.jsonl")


if __name__ == "__main__":
    main()
