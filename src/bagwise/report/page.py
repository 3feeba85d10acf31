"""The page of a run: one file, opened from the file system; sounds, if there are any, lie in a folder beside it.

Its weight is bounded, whatever the run: so many pictures of so many points, so many instances one by one, so many bytes
of sound, rows of tables up to a number. The page is made of parts (``parts/*.html.j2``), each from its piece of the
summary.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import InputError
from bagwise.featurize.medium import Medium
from bagwise.featurize.pictures import Picture, time_in_words
from bagwise.io.annotations import Annotations
from bagwise.io.files import atomic_write
from bagwise.report.colours import class_colours
from bagwise.report.gallery import Row, Sounds, choose_gallery, close_ups, key_of, write_sounds
from bagwise.report.result import AnnotateResult
from bagwise.report.summary import summarize_run
from bagwise.report.typical import Features

N_PICTURES = 16
N_DOUBTFUL_PICTURES = 10  # of them those that hold the least sure instances
MOST_REGIONS = 400  # of a picture, the least sure first
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
    annotations = result.annotations
    summary = summarize_run(result)
    features = None if result.dataset is None else Features(result.dataset)
    gallery = choose_gallery(annotations.shown(), annotations.classes, features)
    alone = [*summary["least_sure"], *(row for part in gallery for row in (*part["typical"], *part["doubtful"]))]
    sounds = Sounds(f"{path.stem}-sounds")
    shown = close_ups(annotations, alone, sounds, lambda done, total: progress("drawing", done, total), features)
    pictures = _pictures(annotations, sounds, progress)
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
    page = _environment(annotations).get_template("page.html.j2").render(
        title=annotations.medium.title, summary=summary, folder=annotations.folder.name, gallery=gallery, shown=shown,
        examples="surest" if features is None else "most typical", drawn_features=annotations.medium.close_ups is None,
        pictures=pictures, links=links, numbers=numbers, picture_of=first_of, sounds=sounds, most_lines=MOST_LINES,
        colours=colours, dated=any("recorded" in file for file in annotations.files),
        instances=annotations.about["settings"].get("segment", annotations.medium.instances),
        drawings=annotations.medium.drawings,
        drawn_patterns=any(look.pattern for look in colours.values()), script=_read("page.js"), style=_read("page.css"),
        script_hash=base64.b64encode(hashlib.sha256(_read("page.js").encode()).digest()).decode(),
    )  # fmt: skip
    written = write_sounds(sounds, path)
    with atomic_write(path, "w") as file:
        file.write(page)
    return [path, *written]


def _read(name: str) -> str:
    return files("bagwise.report").joinpath(name).read_text(encoding="utf-8")


def _environment(annotations: Annotations[Medium]) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        "percent": lambda value: "" if value is None else f"{100 * value:.0f} %",
        "place": annotations.medium.place_in_words, "key": key_of, "duration": time_in_words,
        "clock": lambda text: text.replace("T", " ")[:19],
    }  # fmt: skip
    return environment


def _piece_of(annotations: Annotations[Medium]) -> Callable[[Row], Piece | None]:
    """The function that gives the piece of a picture in which a row would be drawn; None without pictures."""
    medium = annotations.medium
    if medium.draw is None:
        return lambda row: None
    length = medium.picture_length(medium.make_settings(annotations.about["settings"]))

    def piece(row: Row) -> Piece:
        return row["file"], float(row["start"] // length * length) if np.isfinite(length) else 0.0

    return piece


def choose_pieces(annotations: Annotations[Medium], n: int = N_PICTURES) -> list[Piece]:
    """File and start of the pieces to show: most of them with the least sure instances, the others spread over all."""
    piece = _piece_of(annotations)
    rows = annotations.shown() or annotations.rows
    unsure = sorted(rows, key=lambda row: 1.0 if row["probability"] is None else row["probability"])
    chosen = list(dict.fromkeys(piece(row) for row in unsure))[: n * N_DOUBTFUL_PICTURES // N_PICTURES]
    others = [p for p in dict.fromkeys(piece(row) for row in rows) if p not in set(chosen)]
    picks = np.linspace(0, len(others) - 1, min(n - len(chosen), len(others))).round().astype(int)
    return [p for p in [*chosen, *(others[i] for i in picks)] if p is not None]


def draw_piece(annotations: Annotations[Medium], name: str, start: float) -> Picture:
    """The picture of a piece of a file with the instances that are shown, of very many the least sure."""
    medium = annotations.medium
    assert medium.draw is not None, f"{medium.name} has nothing to draw"
    piece = _piece_of(annotations)
    length = medium.picture_length(medium.make_settings(annotations.about["settings"]))
    rows = [row for row in annotations.rows if row["file"] == name and annotations.is_shown(row)]
    if np.isfinite(length):  # what begins before and reaches into it is drawn too
        rows = [row for row in rows if row["end"] > start and row["start"] < start + length]
    if medium.joined:
        own = [row for row in annotations.rows if row["file"] == name]
        rows = [row if annotations.is_shown(row) else {**row, "label": ""} for row in own]
    elif len(rows) > MOST_REGIONS:
        rows.sort(key=lambda row: (piece(row) != (name, start), row["probability"] or 0.0))
        rows = sorted(rows[:MOST_REGIONS], key=lambda row: (str(row["bag"]), row["instance"]))
    settings = medium.make_settings(annotations.about["settings"])
    return medium.draw(annotations.folder / name, name, rows, settings, start)


def _pictures(
    annotations: Annotations[Medium], sounds: Sounds, progress: Callable[[str, int, int], None]
) -> list[dict[str, Any]]:
    """The pictures with their address on the page, sound and time; those of files that cannot be read are left out."""
    medium = annotations.medium
    pieces = choose_pieces(annotations)
    files = {file["file"]: file for file in annotations.files}
    settings = medium.make_settings(annotations.about["settings"])
    found: list[dict[str, Any]] = []
    for i, (name, start) in enumerate(pieces):
        progress("drawing", i, len(pieces))
        sound = ""
        try:
            picture = draw_piece(annotations, name, start)
            if medium.cut_sound is not None:
                end = start + medium.picture_length(settings)
                sound = sounds.add(medium.cut_sound(annotations.folder / name, start, end, settings))
        except (OSError, InputError, StopIteration):  # gone, changed or cut off since it was annotated
            continue
        found.append(
            {
                "piece": (name, start), "id": f"p{len(found)}", "picture": picture, "sound": sound,
                "when": _when(files[name], start if medium.timed else 0.0),
                "keys": [region["key"] for region in picture.regions if "key" in region],
            }
        )  # fmt: skip
    progress("drawing", len(pieces), len(pieces))
    return found


def _when(file: dict[str, Any], seconds: float) -> str:
    """Clock time of a moment of a file, "" where it is not known."""
    if "recorded" not in file:
        return ""
    return (datetime.fromisoformat(file["recorded"]) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
