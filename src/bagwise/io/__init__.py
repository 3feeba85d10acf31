"""Reading and writing: data sets in many formats, labels, results and the model file."""

from bagwise.io.model import load, save

__all__ = ["load", "save"]
