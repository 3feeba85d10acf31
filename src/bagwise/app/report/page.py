"""The page of a run: one file, opened from the file system; sounds, if there are any, lie in a folder next to it.

Its weight is bounded, whatever the run: so many pictures of so many points, so many instances one by one, so many bytes
of sound, rows of tables up to a number. The page is made of parts (``parts/*.html.j2``), each from its piece of the
summary.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.formats import Annotations
from bagwise.app.media.pictures import Picture, time_in_words
from bagwise.app.report._gallery import (
    CloseUps,
    Features,
    Key,
    Row,
    Shown,
    Sounds,
    Step,
    choose_gallery,
    key_of,
    profiles,
    write_with_sounds,
)
from bagwise.app.report.result import AnnotateResult, MediaFiles
from bagwise.app.report.summary import class_colours, summarize_run

N_PICTURES = 16
N_UNCERTAIN_PICTURES = 10  # of them those that hold the least certain instances
MOST_REGIONS = 400  # of a picture, the least certain first
MOST_LINES = 200  # of lists of what is wrong
Piece = tuple[str, float]
"""A file, and where in it the picture begins."""


def check_page_can_be_made() -> None:
    """Refuse at once, before long work, where a library that pages need is missing."""
    try:
        for name in ("jinja2", "PIL.Image"):
            import_module(name)
    except ImportError as error:
        raise ImportError(
            f"The page needs pillow and jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error


def write_page(
    result: AnnotateResult, path: Path, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> list[Path]:
    """Write the page of a run and its sounds; gives the paths of all of them."""
    check_page_can_be_made()
    annotations, media_type = result.annotations, result.annotations.media_type
    summary = summarize_run(result)
    features = None if result.dataset is None else Features(result.dataset)
    gallery = choose_gallery(annotations.shown(), annotations.classes, features)
    alone = [*summary["least_sure"], *(row for part in gallery for row in (*part["typical"], *part["uncertain"]))]
    sounds = Sounds(f"{path.stem}-sounds")
    shown, pictures = _drawn(annotations, alone, sounds, features, lambda done, total: progress("drawing", done, total))
    # a row leads to its region in the picture that holds it, where there is one; texts to the picture
    regions = {key for picture in pictures for key in picture["keys"]}
    piece_of = _piece_of(annotations)
    by_piece = {picture["piece"]: picture["id"] for picture in pictures}
    numbers = {key_of(row): f"i{i}" for i, row in enumerate(alone) if key_of(row) in regions}
    links = {
        key_of(row): numbers.get(key_of(row)) or by_piece[piece_of(row)] for row in alone if piece_of(row) in by_piece
    }
    first_of: dict[str, str] = {}
    for picture in pictures:
        first_of.setdefault(picture["piece"][0], picture["id"])
    colours = class_colours(annotations.classes)
    script = _read("page.js")
    page = render(
        "page.html.j2",
        {"place": media_type.place_in_words, "key": key_of, "duration": time_in_words},
        title=media_type.title,
        summary=summary,
        folder=annotations.folder.name,
        gallery=gallery,
        shown=shown,
        is_typical=features is not None,
        drawn_features=media_type.close_ups is None,
        pictures=pictures,
        links=links,
        numbers=numbers,
        picture_of=first_of,
        sounds=sounds,
        most_lines=MOST_LINES,
        colours=colours,
        dated=any("recorded" in file for file in annotations.files),
        instances=annotations.about["settings"].get("segment", media_type.instances),
        drawings=media_type.drawings,
        drawn_patterns=any(look.pattern for look in colours.values()),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return write_with_sounds(page, path, sounds)


def _read(name: str) -> str:
    return files("bagwise.app.report").joinpath(name).read_text(encoding="utf-8")


def render(template: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any) -> str:
    """The text of a template of this room with values, all escaped but our own style and script."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "percent": lambda value: "" if value is None else f"{100 * value:.0f} %",
        "clock": lambda text: text.replace("T", " ")[:19],
        **(filters or {}),
    }
    return environment.get_template(template).render(style=_read("page.css"), **values)


def _piece_of(annotations: Annotations) -> Callable[[Row], Piece | None]:
    """The function that gives the piece of a picture in which a row would be drawn; None without pictures."""
    media_type = annotations.media_type
    if media_type.draw is None:
        return lambda row: None
    length = media_type.picture_length(media_type.make_settings(annotations.about["settings"]))

    def piece(row: Row) -> Piece:
        return row["file"], float(row["start"] // length * length) if np.isfinite(length) else 0.0

    return piece


def choose_pieces(annotations: Annotations, n: int = N_PICTURES) -> list[Piece]:
    """File and start of the pieces to show: most with the least certain instances, the others spread over all."""
    piece = _piece_of(annotations)
    rows = annotations.shown() or annotations.rows
    unsure = sorted(rows, key=lambda row: 1.0 if row["probability"] is None else row["probability"])
    chosen = list(dict.fromkeys(piece(row) for row in unsure))[: n * N_UNCERTAIN_PICTURES // N_PICTURES]
    others = [p for p in dict.fromkeys(piece(row) for row in rows) if p not in set(chosen)]
    picks = np.linspace(0, len(others) - 1, min(n - len(chosen), len(others))).round().astype(int)
    return [p for p in [*chosen, *(others[i] for i in picks)] if p is not None]


def rows_of_piece(annotations: Annotations, name: str, start: float) -> list[Row]:
    """Instances drawn in the picture of a piece of a file: those that are shown, of very many the least certain."""
    media_type = annotations.media_type
    piece = _piece_of(annotations)
    length = media_type.picture_length(media_type.make_settings(annotations.about["settings"]))
    rows = [row for row in annotations.rows if row["file"] == name and annotations.is_shown(row)]
    if np.isfinite(length):  # what begins before and reaches into it is drawn too
        rows = [row for row in rows if row["end"] > start and row["start"] < start + length]
    if media_type.joined:
        own = [row for row in annotations.rows if row["file"] == name]
        rows = [row if annotations.is_shown(row) else {**row, "label": ""} for row in own]
    elif len(rows) > MOST_REGIONS:
        rows.sort(key=lambda row: (piece(row) != (name, start), row["probability"] or 0.0))
        rows = sorted(rows[:MOST_REGIONS], key=lambda row: (str(row["bag"]), row["instance"]))
    return rows


def _drawn(
    annotations: Annotations, alone: Sequence[Row], sounds: Sounds, features: Features | None, step: Step
) -> tuple[dict[Key, Shown], list[dict[str, Any]]]:
    """What is seen and heard of single rows, and of pieces of files; each file is opened once for both."""
    files, media_type = MediaFiles.of(annotations), annotations.media_type
    close_ups, pieces = CloseUps(files, alone), choose_pieces(annotations)
    drawn: dict[Piece, tuple[Picture, bytes | None]] = {}

    def draw(name: str, file: Any) -> None:
        for piece in pieces:
            if piece[0] == name and media_type.draw is not None:
                start = piece[1]
                picture = media_type.draw(file, name, rows_of_piece(annotations, name, start), files.settings, start)
                end = start + media_type.picture_length(files.settings)
                sound = None if media_type.cut_sound is None else media_type.cut_sound(file, start, end, files.settings)
                drawn[piece] = picture, sound

    files.visit([*close_ups.names, *(name for name, _ in pieces)], [close_ups.look, draw], step)
    shown = close_ups.shown(sounds)
    if media_type.close_ups is None and features is not None:
        shown = profiles(annotations, alone, features)
    return shown, _pictures(annotations, [(piece, *drawn[piece]) for piece in pieces if piece in drawn], sounds)


def _pictures(
    annotations: Annotations, drawn: Sequence[tuple[Piece, Picture, bytes | None]], sounds: Sounds
) -> list[dict[str, Any]]:
    """The pictures with their address on the page, sound and time."""
    files = {file["file"]: file for file in annotations.files}
    return [
        {
            "piece": (name, start),
            "id": f"p{i}",
            "picture": picture,
            "sound": "" if sound is None else sounds.add(sound),
            "when": _when(files[name], start if annotations.media_type.timed else 0.0),
            "keys": [region["key"] for region in picture.regions if "key" in region],
        }
        for i, ((name, start), picture, sound) in enumerate(drawn)
    ]


def _when(file: dict[str, Any], seconds: float) -> str:
    """Clock time of a moment of a file, "" where it is not known."""
    if "recorded" not in file:
        return ""
    return (datetime.fromisoformat(file["recorded"]) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
