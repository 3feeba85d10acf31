"""A format of annotations: recording, channel, begin, duration and word in a line, as speech tools write them."""

from bagwise.app.formats import AnnotationFormat, MarkReader, Marks
from bagwise.io.files import atomic_write


def write_ctm(annotations, folder):
    with atomic_write(folder / "annotations.ctm", "w") as file:
        for row in annotations.shown():
            length = row["end"] - row["start"]
            file.write(f"{row['file']}\t1\t{row['start']:.4f}\t{length:.4f}\t{row['label']}\n")
    return [folder / "annotations.ctm"]


def read_ctm(path, annotations):
    reader, rows = MarkReader(annotations), []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        name, _, start, length, label = line.split("\t")
        place = {"start": float(start), "end": float(start) + float(length)}
        rows.append(
            {"source": f"{path}, row {number}", "file": reader.file(name), **place, "label": reader.label(label)}
        )
    return Marks(rows, frozenset(row["file"] for row in rows))


CTM = AnnotationFormat(write_ctm, read_ctm, media_types=("audio",))
