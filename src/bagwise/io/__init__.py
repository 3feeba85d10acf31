"""Reading and writing: the model file."""

from bagwise.io.model import load, save

__all__ = ["load", "save"]
