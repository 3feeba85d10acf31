"""Files of bags: readers and writers of every format, whole or in pieces; `bagwise.io.data.formats.FORMATS`."""

from bagwise.io.data._hdf5 import load_slides
from bagwise.io.data._long import dense_features, read_table, sorted_names, unique_names
from bagwise.io.data._npz import load_npz

__all__ = ["dense_features", "load_npz", "load_slides", "read_table", "sorted_names", "unique_names"]
