"""The page of a clustering: one file without scripts; sounds, if there are any, lie in a folder beside it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from bagwise._version import __version__
from bagwise.io.files import atomic_write
from bagwise.report.gallery import MediaFiles, Shown, Sounds, show_rows, write_sounds


def write_cluster_page(
    summary: dict[str, Any],
    path: Path,
    media: MediaFiles | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Path]:
    """Write the page of a `summarize_clusters` and its sounds, everything from the data escaped; gives their paths.

    Parameters
    ----------
    summary : what `summarize_clusters` gives
    path : of the page
    media : MediaFiles or None
        Where witnesses can be seen and heard: thumbnails of regions, clips of sounds, the words of passages.
    progress : called with what is done, how much and of how much
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            f"The page needs jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error
    sounds = Sounds(f"{path.stem}-sounds")
    shown = {} if media is None else _show_witnesses(summary, media, sounds, progress)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    page = environment.get_template("clusters.html.j2").render(
        summary=summary, shown=shown, sounds=sounds, style=_read("page.css"), version=__version__,
        instances="instances" if media is None else media.medium.instances,
        place="" if media is None else media.medium.place_in_words,
    )  # fmt: skip
    written = write_sounds(sounds, path)
    with atomic_write(path, "w") as file:
        file.write(page)
    return [path, *written]


def _show_witnesses(
    summary: dict[str, Any], media: MediaFiles, sounds: Sounds, progress: Callable[[str, int, int], None]
) -> dict[tuple[Any, int], Shown]:
    """What is seen and heard of each witness that the page shows."""
    rows = [
        {**row["place"], "bag": row["bag"], "instance": row["witness"]}
        for cluster in summary["clusters"]
        for row in cluster["witnesses"]
    ]
    return show_rows(media, rows, sounds, lambda done, total: progress("drawing", done, total))


def _read(name: str) -> str:
    return files("bagwise.report").joinpath(name).read_text(encoding="utf-8")
