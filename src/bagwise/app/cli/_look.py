"""`bagwise FOLDER`: what lies there, and the command to go on with."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from bagwise.app.cli._common import any_path


@click.command(hidden=True)
@click.argument("path", type=any_path())
def look(path: Path) -> None:
    """Say what PATH holds, and which command comes next."""
    lines, following = _describe_file(path) if path.is_file() else _describe_folder(path)
    click.echo("\n".join(lines))
    if following:
        click.echo("\nNext:")
        for arguments, why in following:
            click.echo(f"  bagwise {shlex.join(arguments)}\n      {why}")


Described = tuple[list[str], list[tuple[list[str], str]]]


def _describe_file(path: Path) -> Described:
    from bagwise.app.media.media_types import MEDIA

    name, ending = str(path), path.suffix.lower()
    if ending == ".bagwise":
        return [f"{name}: a model."], [(["info", name], "what it is and what it was trained on")]
    staged = [one.name for one in MEDIA.values() if one.stages is not None and ending in one.extensions]
    if staged:
        return [f"{name}: {_article(staged[0])}."], [(["inspect", name], "how instances are found in it, in pictures")]
    return [f"{name}: a file."], [(["info", name], "what is in it, if it is a file of bags")]


def _describe_folder(path: Path) -> Described:
    from bagwise.app.runs.look import look_at

    found, name = look_at(path), str(path)
    if found.is_run:
        return [f"{name}: a run of bagwise."], [
            (["review", name], "look, listen, correct and learn again in the browser"),
            (["info", name], "what it is made of, and which labels may be missing or spurious"),
        ]
    if found.media_type is None:
        return [f"{name}: no files that bagwise can annotate (recordings, pictures, texts, series)."], []
    others = ", ".join(f"{count} of type {kind}" for kind, count in found.others.items())
    lines = [f"{name}: {found.n_files} files of type {found.media_type}" + (f" (and {others})" if others else "") + "."]
    out = f"run-{path.resolve().name}"
    if not found.tables:
        lines.append(
            "No table of labels was found here or next to the folder. Write one, a row per file: file,labels with the "
            "labels of a file separated by semicolons."
        )
        return lines, [
            (["annotate", name, "--labels", "labels.csv", "--out", out], "once there is such a table"),
            (["cluster", name], "without any labels: which files belong together, if any do"),
        ]
    best = found.tables[0]
    shown = ", ".join(f"{label} ({count})" for label, count in list(best.labels.items())[:5])
    lines += [
        f"{best.path} names {best.n_found} of them: {best.form}.",
        f"{len(best.labels)} labels: {shown}{', ...' if len(best.labels) > 5 else ''}.",
    ]
    if best.missing:
        lines.append(f"{best.n_rows - best.n_found} of its rows name no file here, such as {best.missing[0]!r}.")
    return lines, [
        (["annotate", name, "--labels", best.path, "--out", out], "which instance carries which label of its file"),
        (["review", out], "then look, listen and correct, in the browser"),
    ]


def _article(media_type: str) -> str:
    return {"audio": "a recording", "image": "a picture"}.get(media_type, f"a file of type {media_type}")
