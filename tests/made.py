"""What several test files make or call in the same way: the command line, tables of results, soundscapes on disk."""

import csv

from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.datasets import make_soundscape


def run(*arguments):
    """A command of bagwise in this process; its exit code and output."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def read_csv(path, delimiter=","):
    """The rows of a table as dicts."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def write_scene(folder, *arguments, **options):
    """A soundscape, and the folder to which its recordings and labels.csv were written."""
    scene = make_soundscape(*arguments, **options)
    scene.write(folder)
    return scene, folder
