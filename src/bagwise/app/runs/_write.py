"""What a run writes for people: annotations in all formats, the model, tables of the field, the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bagwise.app.formats import Annotations, write_formats
from bagwise.app.media.files import Problem
from bagwise.app.report.field import write_field_tables
from bagwise.app.report.page import write_page
from bagwise.app.report.summary import AnnotateResult
from bagwise.app.runs.folder import MODEL_FILE, NAME, WRITING, RunFolder, remove_outputs
from bagwise.core.exceptions import InputError
from bagwise.io.files import atomic_write, file_fingerprint, inside

_PAGE = "report.html"


def write_run(
    folder: RunFolder,
    result: AnnotateResult,
    formats: Sequence[str],
    media: Path,
    *,
    page: bool,
    calls: list[int],
    progress: Callable[[str, int, int], None] | None = None,
) -> AnnotateResult:
    """Write all of it; files of an earlier fit that are not written any more are removed, unless somebody changed them.

    Parameters
    ----------
    folder : RunFolder
        Its manifest says what was written last, and then what was written now.
    result : AnnotateResult
    formats : list of str
    media : path
        Where the media were; a format that needs them stays as it was where they are gone.
    page : bool
    calls : list of int
        Of the corrections that `result` knows.

    Returns
    -------
    AnnotateResult
        The same with its outputs, and with problems of writing.
    """
    if folder.manifest.get("status") != WRITING:  # should this end half-way, it is done again when the run is opened
        folder.commit(folder.versions)
    path, prints, annotations = folder.path, folder.manifest.get("prints", {}), result.annotations
    earlier = folder.manifest.get("outputs", [])
    outputs, problems, left = _write_formats(annotations, path, formats, media, earlier)
    result = replace(result, problems=result.problems + problems)
    outputs += write_field_tables(annotations, path)
    if not folder.manifest["options"]["trained"] or folder.number > 0:
        outputs.append(inside(path, MODEL_FILE))
        with atomic_write(outputs[-1]) as file:
            file.write(folder.model_path.read_bytes())
    if page:
        outputs += write_page(result, inside(path, _PAGE), progress or (lambda what, done, total: None))
    new = {output.relative_to(path).as_posix(): file_fingerprint(output) for output in outputs}
    new |= {name: prints.get(name, "") for name in left}
    changed = remove_outputs(path, sorted({*earlier} - {*new}), prints)
    result = replace(result, problems=result.problems + [(name, _not_removed(name)) for name in changed])
    folder.finish(
        {
            "written": calls,
            "max_noise": annotations.max_noise,
            "classes": annotations.classes,
            "files": annotations.files,
            "instances": len(annotations.rows),
            "problems": [{"name": name, "message": message} for name, message in result.problems],
            "unexplained": [{"bag": name, "labels": labels} for name, labels in result.unexplained],
            "remarks": result.remarks,
            "outputs": list(new),
            "prints": new,
        }
    )
    return replace(result, outputs=[*(path / name for name in new), path / NAME])


def _write_formats(
    annotations: Annotations, path: Path, formats: Sequence[str], media: Path, earlier: Sequence[str]
) -> tuple[list[Path], list[Problem], list[str]]:
    """Write the formats; one that needs media which are gone stays as it was.

    Gives the files that were written, what went wrong, and the names of files that stay.
    """
    outputs: list[Path] = []
    problems: list[Problem] = []
    left: list[str] = []
    for name in formats:
        try:
            outputs += write_formats(annotations, path, [name])
        except (OSError, InputError) as error:
            if media.exists():
                raise
            left += [old for old in earlier if old.startswith(name) and inside(path, old).exists()]
            problems.append((name, f"{name} was not written again, since the media are gone: {error}"))
    return outputs, problems, left


def _not_removed(name: str) -> str:
    return f"{name} is not written any more, but differs from what was written last, so it stays; remove it if need be."
