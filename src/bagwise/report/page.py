"""The page of a run: one file with everything in it, opened from the file system, without scripts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.featurize.medium import Medium
from bagwise.featurize.pictures import Picture
from bagwise.io.annotations import Annotations
from bagwise.io.files import atomic_write
from bagwise.report.result import AnnotateResult
from bagwise.report.summary import class_colours, summarize_run

N_PICTURES = 12


def check_page_can_be_made() -> None:
    """Refuse at once, before long work, where a library that pages need is missing."""
    try:
        for name in ("jinja2", "matplotlib", "matplotlib.image"):
            import_module(name)
    except ImportError as error:
        raise ImportError(
            f"The page needs matplotlib and jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error


def write_page(
    result: AnnotateResult, path: Path, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> None:
    """Write the page of a run."""
    check_page_can_be_made()
    import jinja2

    annotations = result.annotations
    pieces = [piece for piece in choose_pieces(annotations) if (annotations.folder / piece[0]).exists()]
    pictures = []
    for i, piece in enumerate(pieces):
        progress("drawing", i, len(pieces))
        pictures.append(draw_piece(annotations, *piece))
    progress("drawing", len(pieces), len(pieces))
    template = files("bagwise.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(lambda name: files("bagwise.report").joinpath(name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.filters["percent"] = _percent
    environment.filters["place"] = annotations.medium.place_in_words
    page = environment.from_string(template).render(
        title=annotations.medium.title, summary=summarize_run(result), pictures=pictures,
        colours=class_colours(annotations.classes), folder=annotations.folder.name,
    )  # fmt: skip
    with atomic_write(path, "w") as file:
        file.write(page)


def choose_pieces(annotations: Annotations[Medium], n: int = N_PICTURES) -> list[tuple[str, float]]:
    """File and start of the pieces to show: half of them with the least sure instances, half spread over all."""
    medium = annotations.medium
    if medium.draw is None:
        return []
    length = medium.picture_length(medium.make_settings(annotations.about["settings"]))
    rows = annotations.shown() or annotations.rows

    def piece(row: dict[str, Any]) -> tuple[str, float]:
        return row["file"], float(row["start"] // length * length) if np.isfinite(length) else 0.0

    unsure = sorted(rows, key=lambda row: 1.0 if row["probability"] is None else row["probability"])
    chosen = list(dict.fromkeys(piece(row) for row in unsure))[: n // 2]
    others = [p for p in dict.fromkeys(piece(row) for row in rows) if p not in chosen]
    picks = np.linspace(0, len(others) - 1, min(n - len(chosen), len(others))).round().astype(int)
    return chosen + [others[i] for i in picks]


def draw_piece(annotations: Annotations[Medium], name: str, start: float) -> Picture:
    """The picture of a piece of a file with the instances that are shown."""
    medium = annotations.medium
    assert medium.draw is not None, f"{medium.name} has nothing to draw"
    rows = [row for row in annotations.rows if row["file"] == name and annotations.is_shown(row)]
    settings = medium.make_settings(annotations.about["settings"])
    return medium.draw(annotations.folder / name, name, rows, settings, start)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"
