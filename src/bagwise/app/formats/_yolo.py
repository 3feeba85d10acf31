"""Boxes for YOLO: a text file per picture with the number of a class, center, and size as shares of the picture's."""

from __future__ import annotations

import re
from pathlib import Path

from bagwise.app.formats._annotations import Annotations, plain_cell
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_number, read_text_table, text_lines
from bagwise.core.exceptions import FormatError
from bagwise.io.files import atomic_write, defuse, open_folder, undefuse

COLUMNS = ("class", "x_center", "y_center", "width", "height")
CLASSES = "classes.txt"
_SHARE = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)


def write_yolo(annotations: Annotations, folder: Path) -> list[Path]:
    """``yolo/``: a file per picture, and ``classes.txt``, the classes in the order of their numbers."""
    numbers = {name: i for i, name in enumerate(annotations.classes)}
    sizes = {file["file"]: (file["width"], file["height"]) for file in annotations.files}
    paths = [open_folder(folder, f"yolo/{CLASSES}")]
    with atomic_write(paths[0], "w") as file:
        file.write("".join(f"{plain_cell(name)}\n" for name in annotations.classes))
    for name, rows in annotations.shown_by_file().items():
        paths.append(open_folder(folder, f"yolo/{name}.txt"))
        width, height = sizes[name]
        with atomic_write(paths[-1], "w") as file:
            for row in rows:
                center = (row["left"] + row["width"] / 2) / width, (row["top"] + row["height"] / 2) / height
                cells = (*center, row["width"] / width, row["height"] / height)
                file.write(" ".join([str(numbers[row["label"]]), *(f"{cell:.8f}" for cell in cells)]) + "\n")
    return paths


def read_yolo(path: Path, annotations: Annotations) -> Marks:
    """The folder with ``classes.txt`` in it; a sixth number, the confidence of a detector, is left alone."""
    reader = MarkReader(annotations, plain_cell)
    names = [reader.label(line) for _, line in text_lines(path / CLASSES)]
    sizes = {file["file"]: (file["width"], file["height"]) for file in annotations.files}
    rows: list[Mark] = []
    covered = set()
    for place in sorted(path.rglob("*.txt")):
        if place == path / CLASSES:
            continue
        name = reader.file(place.relative_to(path).as_posix().removesuffix(".txt"))
        covered.add(name)
        for source, line in text_lines(place):
            cells = line.split()
            if len(cells) not in (5, 6) or not cells[0].isdigit() or int(cells[0][:9]) >= len(names):
                raise FormatError(
                    f"{source}: expected the number of one of {len(names)} classes, then {', '.join(COLUMNS[1:])}, not "
                    f"{line[:60]!r}."
                )
            x, y, w, h = (read_number(cell, what, source) for cell, what in zip(cells[1:], COLUMNS[1:], strict=False))
            width, height = sizes.get(name, (1.0, 1.0))
            box = {"left": (x - w / 2) * width, "top": (y - h / 2) * height, "width": w * width, "height": h * height}
            rows.append({"source": source, "file": name, **box, "label": names[int(cells[0])]})
    return Marks(rows, frozenset(covered))


# Boxes in spectrograms of whole recordings: from the left 0 to 1 is the recording, from the top half the rate to 0 Hz.

_RELATIVE = {
    "x": ("x", "x_center", "xc", "cx"),
    "y": ("y", "y_center", "yc", "cy"),
    "w": ("w", "width"),
    "h": ("h", "height"),
    "file": ("file", "filename", "file_name", "path", "recording", "image"),
}


def read_relative(path: Path, annotations: Annotations) -> list[Mark] | None:
    """A file of YOLO per recording (class, x, y, w, h), or a table that names files too; None for anything else."""
    reader = MarkReader(annotations, defuse, undefuse)
    given: list[tuple[str, str, list[str]]] = []
    if path.is_dir() or path.suffix.lower() == ".txt":
        files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        for file in files:
            if file.name == CLASSES:
                continue
            name = reader.file((file.relative_to(path).as_posix() if path.is_dir() else file.name)[: -len(".txt")])
            lines = list(text_lines(file))
            if not all(_is_yolo(line) for _, line in lines):
                return None
            given += [(name, source, line.split()[1:5]) for source, line in lines]
    elif path.suffix.lower() in (".csv", ".tsv"):
        table = read_text_table(path)
        names = {heading.strip().casefold(): heading for heading in table.headings}
        columns = {key: names[name] for key, known in _RELATIVE.items() for name in known[::-1] if name in names}
        if len(columns) < len(_RELATIVE):
            return None
        for source, row in table.records():
            given.append((reader.file(row[columns["file"]]), source, [row[columns[key]] for key in "xywh"]))
    facts = {file["file"]: (file["seconds"] or 0.0, (file["rate"] or 0.0) / 2) for file in annotations.files}
    rows = []
    for name, source, cells in given:
        x, y, w, h = (read_number(cell, what, source) for cell, what in zip(cells, COLUMNS[1:], strict=True))
        if not (0 <= x <= 1 and 0 <= y <= 1 and 0 < w <= 2 and 0 < h <= 2):
            raise FormatError(
                f"{source}: x, y, w and h are {x:g}, {y:g}, {w:g} and {h:g}; expected shares from 0 to 1."
            )
        seconds, top = facts.get(name, (1.0, 1.0))
        place = {"start": (x - w / 2) * seconds, "end": (x + w / 2) * seconds}
        rows.append(
            {"source": source, "file": name, **place, "low": (1 - y - h / 2) * top, "high": (1 - y + h / 2) * top}
        )
    return rows or None


def _is_yolo(line: str) -> bool:
    """Whether a line has the number of a class and four shares, and perhaps a score."""
    cells = line.split()
    return len(cells) in (5, 6) and cells[0].isdigit() and all(_SHARE.fullmatch(cell) for cell in cells[1:])
