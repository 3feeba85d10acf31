"""Selection tables of Raven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bagwise.io.annotations.annotations import Annotations, open_folder, probability_text, write_tabbed
from bagwise.io.text import defuse

HEADINGS = (
    "Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)",
    "Begin File", "File Offset (s)", "Annotation", "Probability",
)  # fmt: skip


def write_raven(annotations: Annotations, folder: Path) -> list[Path]:
    """One table a recording in ``raven/``, and ``raven/all.selections.txt`` for all of them opened as one sound.

    Raven strings the recordings together in the order of their names, so in the combined table the times of each go on
    from the end of the one before; recordings without any selection count with their full length.
    """
    paths: list[Path] = []
    combined: list[dict[str, Any]] = []
    passed = 0.0
    seconds = {file["file"]: file["seconds"] for file in annotations.files}
    for name, rows in annotations.shown_by_file().items():
        path = open_folder(folder, "raven", *f"{name}.selections.txt".split("/"))
        write_tabbed([_selection(i + 1, row, 0.0) for i, row in enumerate(rows)], HEADINGS, path)
        paths.append(path)
        combined += [_selection(len(combined) + i + 1, row, passed) for i, row in enumerate(rows)]
        passed += seconds[name]
    path = open_folder(folder, "raven", "all.selections.txt")
    write_tabbed(combined, HEADINGS, path)
    return [path, *paths]


def _selection(number: int, row: dict[str, Any], passed: float) -> dict[str, Any]:
    return {
        "Selection": number,
        "View": "Spectrogram 1",
        "Channel": 1,
        "Begin Time (s)": f"{passed + row['start']:.4f}",
        "End Time (s)": f"{passed + row['end']:.4f}",
        "Low Freq (Hz)": f"{row['low']:.1f}",
        "High Freq (Hz)": f"{row['high']:.1f}",
        "Begin File": defuse(row["file"]),
        "File Offset (s)": f"{row['start']:.4f}",
        "Annotation": defuse(row["label"]),
        "Probability": probability_text(row),
    }
