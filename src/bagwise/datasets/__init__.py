"""Data sets, each a `BagDataset`: read from a file, made up at random, or drawn from a text."""

from bagwise.datasets.letter_drawing import draw_letters
from bagwise.datasets.letter_features import letter_features
from bagwise.datasets.letters import make_letter_bags
from bagwise.datasets.soundscape import Soundscape, make_soundscape
from bagwise.datasets.synthetic import make_gaussian_bags
from bagwise.io.data.npz import load_npz

__all__ = [
    "Soundscape",
    "draw_letters",
    "letter_features",
    "load_npz",
    "make_gaussian_bags",
    "make_letter_bags",
    "make_soundscape",
]
