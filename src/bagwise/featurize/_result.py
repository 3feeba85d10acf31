"""Old place of `bagwise.featurize.files`, for what still imports it."""

from bagwise.featurize.files import FileBags, assemble

__all__ = ["FileBags", "assemble"]
