"""Annotations in the formats of the tools people already have, and what people made of them read back.

Each writer takes `Annotations` and a folder, and gives the files it wrote. Files appear whole or not at all, and the
same annotations give the same bytes. Each reader takes a path and the annotations, and gives `Marks`, which
`compare_marks` turns into corrections.
"""

from bagwise.app.formats.annotations import Annotations
from bagwise.app.formats.compare import compare_marks
from bagwise.app.formats.formats import (
    FORMATS,
    Format,
    check_formats,
    formats_of,
    guess_annotation_format,
    read_marks,
    write_formats,
)
from bagwise.app.formats.marks import Marks

__all__ = [
    "FORMATS",
    "Annotations",
    "Format",
    "Marks",
    "check_formats",
    "compare_marks",
    "formats_of",
    "guess_annotation_format",
    "read_marks",
    "write_formats",
]
