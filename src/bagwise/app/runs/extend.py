"""More recordings for a run that is there: found and annotated with the model in force, corrections kept."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from bagwise.app.labels.tables import Selections
from bagwise.app.media.files import FileNames
from bagwise.app.media.recipe import RECIPE
from bagwise.app.runs._features import Progress
from bagwise.app.runs._material import (
    Labels,
    Material,
    find_source,
    holds,
    read_label_table,
    read_material,
    reopen_material,
    reopen_source,
)
from bagwise.app.runs.corrections import FILE, CorrectionLog
from bagwise.app.runs.folder import SUPERVISION, RunFolder, Version
from bagwise.app.runs.options import RunOptions
from bagwise.app.runs.predictions import predict_labels
from bagwise.app.runs.run import Run
from bagwise.core.exceptions import InputError
from bagwise.io.files import open_ended
from bagwise.pipeline import bag_tags


def extend_run(
    path: str | Path,
    more: str | Path,
    *,
    refit: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Run:
    """Add files to a run: those of a folder in the folder of its media that it does not have yet.

    What was found in the other files, the labels that were given and the corrections stay. The earlier fits are not
    kept: `Run.undo` takes corrections back, and the model stays that of now until the next refit. Should this end
    half-way, the same call does the rest.

    Parameters
    ----------
    path : folder of the run
    more : folder of media
    refit : bool
        Learn again, with the labels of the new files. Without it the model in force annotates them.
    progress, say : callable or None
        As of `Run.create`.
    **options
        Fields of `RunOptions`: those of the table of labels of the new files (it may name the others too), `embed`,
        `embeddings` and `jobs`.
    """
    place, step, say = Path(path), progress or (lambda what, done, total: None), say or (lambda text: None)
    folder = RunFolder.open(place)
    try:
        folder.leave_fits(CorrectionLog(open_ended(place, FILE)).calls)  # what was taken back counts no more
        model, source = folder.model, reopen_source(folder.manifest)
        if source.is_table or folder.manifest["identity"].get("file"):
            raise InputError(f"{place} is a run of one file, to which no others can be added; make a new run.")
        if not holds(source.folder, Path(more)):
            raise InputError(
                f"{more} does not lie in {source.folder}, whose files the run annotates; move it there, as a folder of "
                "its own."
            )
        asked = RunOptions(model=folder.model_path, **options)
        kept = folder.read_supervision()
        exclude = [place, *(given for given in (asked.labels, asked.embed, asked.embeddings) if given is not None)]
        found = find_source(source.folder, asked, exclude=exclude, trained=getattr(model, RECIPE))
        names = [
            name for name in found.names if name not in kept["entries"] and holds(Path(more), source.folder / name)
        ]
        if not names:
            raise InputError(
                f"The run has all files of {more} already; there is nothing to add. Labels come with new files, or on "
                "the page of `bagwise review`."
            )
        labels = _of_files(read_label_table(asked), names, [*kept["entries"]])
        new = read_material(
            replace(found, names=names),
            place,
            labels,
            asked,
            step,
            keep=kept["entries"].values(),
            several=bag_tags(model).label_sets,
        )
        for note in found.media_type.notes(new.files):
            say(note)
        merged = _merged(kept, new)
        material = reopen_material(place, source, merged)  # finds what does not go together; nothing is written yet
        rates, number = folder.read_rates() if material.observed else None, folder.number + 1
        given = material.supervision(rates=rates)
        version = Version(
            number, [], predict_labels(model, given), rates=rates
        )  # corrections come on top of it, and can be undone
        before, name = folder.supervision, f"{number}-{SUPERVISION}"
        folder.write_supervision(merged, name)
        run = Run(folder, material)
        learned = sorted({*folder.manifest.get("learned", []), *folder.versions[-1]["calls"]})
        same = {key: value for key, value in folder.manifest.items() if key != "fitted"}  # it is of other files now
        if found.embedded is not None and found.embedded != source.embedded:
            same["tables"] = [*same.get("tables", []), found.embedded]
        folder.manifest = {**same, "versions": [], "supervision": name, "extended": True, "learned": learned}
        run.add_version(model, version)  # this replaces the manifest, and all of it counts
        before.unlink(missing_ok=True)
        if refit:
            run.refit(progress=step)
        else:
            run.write(progress=step)
    except BaseException:
        folder.close()
        raise
    return run


def _of_files(labels: Labels | None, names: list[str], others: Collection[str]) -> Labels | None:
    """A table of labels without the rows of files that the run has already, whose labels stay as they were given."""
    if labels is None or isinstance(labels, Selections):
        return labels
    files, old = FileNames([*names, *others]), set(others)
    rows = [
        i
        for i, given in enumerate(labels.names)
        if not (files.find(given) or files.find(given.rpartition("@")[0])) & old
    ]
    return labels.part(rows)


def _merged(kept: dict[str, Any], new: Material) -> dict[str, Any]:
    """What was given when the run was made, and what came with more files."""
    more = new.to_dict()
    merged = {name: kept[name] | more[name] for name in ("sets", "entries", "prints")}
    merged |= {name: [*kept.get(name, []), *more[name]] for name in ("known", "whole", "files", "problems", "unread")}
    if marked := kept.get("marked", {}) | new.marked:
        merged["marked"] = marked
    before, later = kept.get("observed", {}), new.observed.lists
    if before or later:
        merged["observed"] = {who: {**before.get(who, {}), **later.get(who, {})} for who in {**before, **later}}
    return {**kept, **merged}
