"""The page of a run: one file with everything in it, opened from the file system, without scripts."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from bagwise.io.files import atomic_write
from bagwise.report.pictures import choose_pieces, make_pictures
from bagwise.report.summary import class_colours, summarize_run
from bagwise.workflow.result import AnnotateResult

TITLES = {
    "audio": "Recordings, annotated", "image": "Pictures, annotated", "text": "Texts, annotated",
    "series": "Series, annotated",
}  # fmt: skip


def write_page(
    result: AnnotateResult, path: Path, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> None:
    """Write the page of a run."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            f"The page needs matplotlib and jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error
    annotations = result.annotations
    pieces = choose_pieces(annotations)
    pictures = []
    for i, piece in enumerate(pieces):
        progress("drawing", i, len(pieces))
        pictures += make_pictures(annotations, [piece])
    progress("drawing", len(pieces), len(pieces))
    template = files("bagwise.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["percent"] = _percent
    environment.filters["place"] = _place
    page = environment.from_string(template).render(
        title=TITLES[annotations.medium], summary=summarize_run(result), pictures=pictures, medium=annotations.medium,
        colours=class_colours(annotations.classes), folder=annotations.folder.name,
    )  # fmt: skip
    with atomic_write(path, "w") as file:
        file.write(page)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _place(row: dict[str, Any]) -> str:
    """Where an instance is, in words."""
    if "low" in row:
        return f"{row['start']:.2f} to {row['end']:.2f} s, {row['low'] / 1000:.1f} to {row['high'] / 1000:.1f} kHz"
    if "polygon" in row:
        return f"{row['width']} x {row['height']} points at {row['left']}, {row['top']}"
    unit = "s" if isinstance(row["start"], float) else "characters"
    return f"{row['start']} to {row['end']} {unit}"
