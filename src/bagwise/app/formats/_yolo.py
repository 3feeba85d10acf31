"""Boxes for YOLO: a text file per picture with the number of a class, center, and size as shares of the picture's."""

from __future__ import annotations

from pathlib import Path

from bagwise.app.formats._annotations import Annotations, plain_cell
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_number, text_lines
from bagwise.core.exceptions import FormatError
from bagwise.io.files import atomic_write, open_folder

COLUMNS = ("class", "x_center", "y_center", "width", "height")
CLASSES = "classes.txt"


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
