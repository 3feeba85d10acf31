"""A model for other programs: a linear head as ONNX, or as a custom classifier of BirdNET-Analyzer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bagwise import __version__, load
from bagwise.app.media.recipe import RECIPE
from bagwise.app.networks.heads import write_onnx, write_tflite
from bagwise.app.runs.folder import NAME
from bagwise.app.runs.run import Run
from bagwise.core.exceptions import InputError
from bagwise.io.files import atomic_write
from bagwise.pipeline import bag_tags, classes_of
from bagwise.preprocessing import linear_head

BIRDNET_SIZE = 1024


def export_model(source: Path, target: Path) -> list[Path]:
    """Write the linear head of a model file, or of the model in force of a run; gives the files.

    The ending of the target says which: ``.onnx``, from features to probabilities of labels, or ``.tflite``, from the
    vectors of BirdNET to log-odds, with a table of labels next to it, as BirdNET-Analyzer takes its custom classifiers.
    """
    if target.suffix not in (".onnx", ".tflite"):
        raise InputError(f"A model is exported as .onnx or .tflite, not as {target.name!r}; name the file so.")
    names: dict[str, Any] = {}
    if (source / NAME).is_file():
        with Run.open(source) as run:
            model, names = run.model(), run.manifest["options"]["names"]
    else:
        model = load(source)
    head, recipe = linear_head(model), getattr(model, RECIPE, {})
    classes, embedded = [str(name) for name in classes_of(model) or []], recipe.get("embedded") or {}
    about = {
        "classes": json.dumps(classes, ensure_ascii=False),
        "background": "yes" if bag_tags(model).background else "no",
        "version": __version__,
        "vectors": embedded.get("name", ""),
        "licence": embedded.get("licence", ""),
        "medium": recipe.get("medium", ""),
        "settings": json.dumps(recipe.get("settings", {}), ensure_ascii=False),
        "feature_names": json.dumps(recipe.get("feature_names") or [], ensure_ascii=False),
    }
    about = {key: value for key, value in about.items() if value not in ("", "{}", "[]")}
    if target.suffix == ".onnx":
        write_onnx(head, target, about)
        return [target]
    _check_vectors(head.weights.shape[1] - 1, embedded)
    write_tflite(head, target, about)
    labels = target.with_name(f"{target.stem}_Labels.txt")
    with atomic_write(labels, "w") as file:
        file.write("".join(f"{'_'.join(names.get(label, [label]))}\n" for label in classes))
    return [target, labels]


def _check_vectors(size: int, embedded: dict[str, Any]) -> None:
    """Refuse a head of other features than the vectors of BirdNET, which BirdNET-Analyzer would run all the same."""
    is_birdnet = not embedded or ("BirdNET" in embedded.get("licence", "") and not embedded["join"])
    if size == BIRDNET_SIZE and is_birdnet:
        return
    came = f"those of {embedded['name']}" if embedded else f"{size} features"
    joined = ", with features next to them" if embedded.get("join") else ""
    if embedded.get("scores"):
        joined += ", with its own scores at their end (--embed-set classes=none leaves them out)"
    raise InputError(
        f"BirdNET-Analyzer gives a classifier the {BIRDNET_SIZE} numbers of BirdNET 2.4, and this model takes "
        f"{came}{joined}; export it as .onnx, or annotate with --embed birdnet."
    )
