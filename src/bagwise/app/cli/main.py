"""The group of all commands. Heavy imports wait inside the commands."""

from __future__ import annotations

import click

from bagwise._version import __version__
from bagwise.app.cli._annotate import annotate
from bagwise.app.cli._cluster import cluster
from bagwise.app.cli._common import BagwiseGroup
from bagwise.app.cli._compare import compare
from bagwise.app.cli._convert import convert
from bagwise.app.cli._correct import correct, refit
from bagwise.app.cli._demo import demo
from bagwise.app.cli._doctor import doctor
from bagwise.app.cli._evaluate import evaluate
from bagwise.app.cli._featurize import featurize
from bagwise.app.cli._fit import fit
from bagwise.app.cli._info import info
from bagwise.app.cli._inspect import inspect
from bagwise.app.cli._predict import annotate_table, predict
from bagwise.app.cli._reproduce import reproduce
from bagwise.app.cli._review import review

COMMANDS = (
    demo,
    annotate,
    correct,
    refit,
    review,
    compare,
    inspect,
    featurize,
    fit,
    predict,
    annotate_table,
    evaluate,
    convert,
    info,
    reproduce,
    cluster,
    doctor,
)


@click.group(cls=BagwiseGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bagwise")
def main() -> None:
    """Learn from bags of instances: which syllable, region or passage carries which label of its bag."""


for command in COMMANDS:
    main.add_command(command)
