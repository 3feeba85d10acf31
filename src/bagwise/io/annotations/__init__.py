"""Annotations in the formats of the tools people already have.

Each writer takes `Annotations` and a folder, and gives the files it wrote. Files appear whole or not at all, and the
same annotations give the same bytes.
"""

from bagwise.io.annotations.annotations import Annotations
from bagwise.io.annotations.formats import FORMATS, check_formats, formats_of, write_formats

__all__ = ["FORMATS", "Annotations", "check_formats", "formats_of", "write_formats"]
