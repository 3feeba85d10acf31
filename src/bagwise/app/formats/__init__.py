"""Annotations in the formats of the tools people already have, and what people made of them read back.

Each writer takes `Annotations` and a folder, and gives the files it wrote. Files appear whole or not at all, and the
same annotations give the same bytes. Each reader takes a path and the annotations, and gives `Marks`, which
`compare_marks` turns into corrections.
"""

from bagwise.app.formats._annotations import Annotations, write_json
from bagwise.app.formats._compare import Correction, Edits, compare_marks, find_edits, instances_inside, match_instances
from bagwise.app.formats._formats import (
    EVENTS,
    FORMATS,
    AnnotationFormat,
    check_formats,
    formats_of,
    guess_annotation_format,
    read_boxes,
    read_marks,
    selections_format,
    write_formats,
)
from bagwise.app.formats._label_studio import (
    Interface,
    file_finder,
    marks_of_tasks,
    plain_interface,
    prediction_of,
    rows_by_file,
)
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_number, read_text_table, require_columns
from bagwise.core.plugins import ANNOTATION_FORMATS, add_installed

__all__ = [
    "EVENTS",
    "FORMATS",
    "AnnotationFormat",
    "Annotations",
    "Correction",
    "Edits",
    "Interface",
    "Mark",
    "MarkReader",
    "Marks",
    "check_formats",
    "compare_marks",
    "file_finder",
    "find_edits",
    "formats_of",
    "guess_annotation_format",
    "instances_inside",
    "marks_of_tasks",
    "match_instances",
    "plain_interface",
    "prediction_of",
    "read_boxes",
    "read_marks",
    "read_number",
    "read_text_table",
    "require_columns",
    "rows_by_file",
    "selections_format",
    "write_formats",
    "write_json",
]

add_installed(FORMATS, ANNOTATION_FORMATS, AnnotationFormat)  # here, so that they may import what stands above
