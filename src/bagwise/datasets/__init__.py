"""Data sets, each a `BagDataset`: read from a file, downloaded, generated at random, or drawn from a text."""

from bagwise.datasets._fetch import fetch_lost, fetch_miml_reuters, fetch_miml_scene
from bagwise.datasets._letters import draw_letters, letter_features, make_letter_bags
from bagwise.datasets._soundscape import Soundscape, make_soundscape
from bagwise.datasets._synthetic import make_gaussian_bags
from bagwise.io.data import load_npz, load_slides

__all__ = [
    "Soundscape",
    "draw_letters",
    "fetch_lost",
    "fetch_miml_reuters",
    "fetch_miml_scene",
    "letter_features",
    "load_npz",
    "load_slides",
    "make_gaussian_bags",
    "make_letter_bags",
    "make_soundscape",
]
