"""`bagwise predict` and `bagwise annotate-table`: apply a model to files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, check_output, given_path, only_given, progress
from bagwise.app.cli._data import data_options, file_options, labels_option, notice, quiet_option, run_each


def _output_options(command: Any) -> Any:
    options = (
        click.argument("model", type=given_path()),
        click.argument("data", nargs=-1, required=True, type=any_path(), callback=only_given),
        click.option("--out", type=any_path(), help="A .csv, .jsonl or .parquet file to write."),
        click.option(
            "--out-dir",
            type=any_path(file_okay=False),
            help="A folder for the results of several files, each named after its data.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON lines instead of CSV."),
        quiet_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(cls=ComputingCommand)
@click.option("--scores", is_flag=True, help="Add a column score:NAME for every class.")
@labels_option
@file_options
@_output_options
def predict(scores: bool, labels_from: Path | None, reading: dict[str, Any], **given: Any) -> None:
    """Predict the label sets of the bags in DATA with MODEL, a file that fit wrote.

    DATA are files of bags; a folder or a pattern of parquet files is one data set.
    """
    from bagwise.app.runs.predictions import predict_piece

    if labels_from is not None:
        raise click.UsageError("predict does not look at labels; --labels belongs to annotate-table and fit.")
    _apply(partial(predict_piece, with_scores=scores), {**reading, "with_labels": False}, "predicted", **given)


@click.command("annotate-table", cls=ComputingCommand)
@click.option(
    "--inductive", is_flag=True, help="Do not look at the labels of the bags; by default they are used where known."
)
@data_options
@_output_options
def annotate_table(inductive: bool, reading: dict[str, Any], **given: Any) -> None:
    """Label every instance of the bags in DATA with MODEL, a file that fit wrote.

    DATA are files of bags; a folder or a pattern of parquet files is one data set.
    """
    from bagwise.app.runs.predictions import annotate_piece

    def annotate(estimator: Any, piece: Any) -> Any:
        return annotate_piece(estimator, piece, piece.Y is not None and not inductive)

    _apply(annotate, reading, "annotated", annotates=True, **given)


def _apply(
    work: Callable[[Any, Any], Any],
    reading: dict[str, Any],
    suffix: str,
    model: Path,
    data: tuple[Path, ...],
    out: Path | None,
    out_dir: Path | None,
    as_json: bool,
    quiet: bool,
    annotates: bool = False,
) -> None:
    """Run `work` on every piece of every file and write or print what it gives."""
    from bagwise.app.formats.results import write_csv_pieces, write_json_pieces, write_results
    from bagwise.app.runs.data import open_pieces
    from bagwise.app.runs.learner import load_model
    from bagwise.app.runs.predictions import in_parts
    from bagwise.io.data.formats import select_features
    from bagwise.io.files import check_target

    if out is not None and (out_dir is not None or len(data) > 1):
        raise click.UsageError("--out takes the result of one file; use --out-dir for several.")
    if out is None and out_dir is None and len(data) > 1:
        raise click.UsageError("Several files need --out-dir, a folder for their results.")
    if out is None and out_dir is None:
        check_output()
    estimator, about = load_model(model, annotates=annotates)
    written_by = about["written_by"].get("bagwise")
    notice(f"model {about.get('model', type(estimator).__name__)} of {model}, by bagwise {written_by}", quiet)
    if out is not None:
        check_target(out)
    if out_dir is not None:
        out_dir.mkdir(parents=True, exist_ok=True)

    def one(path: Path) -> None:
        name = re.sub(r"[*?\[\]]", "_", path.name)  # of a pattern
        target = out if out_dir is None else out_dir / f"{name}.{suffix}.{'jsonl' if as_json else 'csv'}"
        datasets, understood = open_pieces(path, **reading)
        notice(f"read {path} as {understood}", quiet)
        with progress(quiet) as report:

            def pieces() -> Iterator[Any]:
                done = 0
                for dataset in datasets:
                    for part in in_parts(estimator, select_features(dataset, about.get("feature_names"), path)):
                        yield work(estimator, part)
                        done += len(part)
                        report(f"bags of {path.name}", done, 0)

            if target is None:
                (write_json_pieces if as_json else write_csv_pieces)(pieces(), sys.stdout)
                return
            n_rows = write_results(pieces(), target, {**about, "model_file": str(model), "data": str(path)})
        notice(f"wrote {target} ({n_rows} rows)", quiet)

    if len(data) == 1:
        one(data[0])
    else:
        run_each(data, one)
