"""A media type: a file is a bag, each line of numbers in it an instance."""

import numpy as np

from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import MediaType
from bagwise.app.media.settings import Settings


def read_points(path, name, settings):
    rows = np.loadtxt(path, delimiter=",", ndmin=2)
    return FileBags([name], [len(rows)], rows, {"line": np.arange(1, len(rows) + 1)}, {"lines": len(rows)})


def names_of(files, settings):
    return [f"x{i}" for i in range(files[0].features.shape[1])]


POINTS = MediaType(
    "points", "Points, annotated", "points", Settings,
    extensions=(".points",), read=read_points, feature_names=names_of, places=("line",), whole=True,
)  # fmt: skip
