"""`make bench`: all benchmarks, or those named; tables to the terminal, records to bench-output/ as JSON lines."""

from __future__ import annotations

import importlib
import json
import platform
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

import click

from bagwise.io.files import atomic_write
from bagwise.io.tables import plain_value, write_json_lines
from benchmarks.common import SUMMARY, Record, show

BENCHMARKS = {  # modules, and the function where it is not main
    "ored-speed": "benchmarks.ored_speed",
    "ored-background": "benchmarks.ored_background",
    "detection": "benchmarks.detection",
    "which-model": "benchmarks.which_model",
    "device": "benchmarks.device",
    "scale-disk": "benchmarks.scale:disk",
    "scale-limit": "benchmarks.scale:limit",
    "scale-cluster": "benchmarks.scale:cluster",
    "scale-model": "benchmarks.scale_check",
    "many-classes": "benchmarks.many_classes",
    "forest-file": "benchmarks.forest_file",
    "threads": "benchmarks.threads",
    "networks": "benchmarks.networks",
    "network-fit": "benchmarks.networks:one_fit",
    "patches": "benchmarks.patches",
    "sim-speed": "benchmarks.sim_speed",
    "m3miml-speed": "benchmarks.m3miml_speed",
    "audio-speed": "benchmarks.audio_speed",
    "embeddings": "benchmarks.embeddings",
    "birdnet": "benchmarks.birdnet",
    "media-accuracy": "benchmarks.media_accuracy",
    "pictures": "benchmarks.pictures",
    "new-noise": "benchmarks.new_noise",
    "windows": "benchmarks.windows",
    "segmentation": "benchmarks.segmentation",
    "several-labels": "benchmarks.several_labels",
    "overlapping-calls": "benchmarks.several_labels:overlapping",
    "texts": "benchmarks.texts",
    "clustering-speed": "benchmarks.clustering_speed",
    "clustering-tables": "benchmarks.clustering_tables",
    "clustering-scaling": "benchmarks.clustering_scaling",
    "clustering-figures": "benchmarks.clustering_figures",
    "clustering-methods": "benchmarks.clustering_methods",
    "clustering-noise": "benchmarks.clustering_noise",
    "io-speed": "benchmarks.io_speed",
    "io-roundtrips": "benchmarks.io_roundtrips",
    "kills": "benchmarks.kills",
    "corrections": "benchmarks.corrections",
    "lost": "benchmarks.lost",
    "observers": "benchmarks.observers",
    "wrong-labels": "benchmarks.wrong_labels",
    "forgotten-letters": "benchmarks.forgotten_letters",
    "calibration": "benchmarks.calibration",
    "novelty": "benchmarks.novelty",
    "novel-classes": "benchmarks.novel_classes",
    "more-labels": "benchmarks.more_labels",
    "application": "benchmarks.application",
    "review-load": "benchmarks.review_load",
    "estimates": "benchmarks.estimates",
    "review": "benchmarks.review",
    "worth-of-an-answer": "benchmarks.review:worth",
    "review-speed": "benchmarks.review_speed",
    "page": "benchmarks.page",
    "peers": "benchmarks.peers",
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--quick", is_flag=True, help="Fewer repeats and settings.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench-output"), show_default=True)
def main(names: tuple[str, ...], quick: bool, out: Path) -> None:
    """Run benchmarks; ratios are taken in one run, so noise hits both sides. No figure fails a build, a crash does."""
    out.mkdir(parents=True, exist_ok=True)
    ratios, failed = run_all(names or BENCHMARKS, quick, out)
    summary = {"python": platform.python_version(), "quick": quick, "ratios": ratios, "failed": failed}
    with atomic_write(out / "summary.json", "w") as file:
        file.write(json.dumps(summary, ensure_ascii=False, indent=1, default=plain_value) + "\n")
    show("All ratios of this run", ratios, left=("what", "beside", "is", "asked", "note"))
    for name, reason in failed.items():
        click.echo(f"{name} failed: {reason}")
    click.echo(f"\nwrote {out / 'summary.json'}")
    sys.exit(1 if failed else 0)


def run_all(names: Iterable[str], quick: bool, out: Path) -> tuple[list[Record], dict[str, str]]:
    """Run one after the other; gives the ratios that their records declare, and why a benchmark crashed."""
    ratios: list[Record] = []
    failed: dict[str, str] = {}
    for name in names:
        click.secho(f"\n== {name}", bold=True)
        try:
            module, _, function = BENCHMARKS[name].partition(":")
            records = getattr(importlib.import_module(module), function or "main")(quick)
        except Exception as error:  # whatever it is, the other benchmarks still run
            traceback.print_exc()
            failed[name] = f"{type(error).__name__}: {error}"
            continue
        rows = [{"benchmark": name, "python": platform.python_version(), **record} for record in records]
        write_json_lines(rows, out / f"{name}.jsonl")
        ratios += [{"benchmark": name, **record[SUMMARY]} for record in records if SUMMARY in record]
    return ratios, failed


if __name__ == "__main__":
    main()
