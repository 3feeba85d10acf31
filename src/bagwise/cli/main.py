"""The group of all commands. Heavy imports wait inside the commands."""

from __future__ import annotations

import click

from bagwise._version import __version__
from bagwise.cli._common import BagwiseGroup
from bagwise.cli.annotate import annotate
from bagwise.cli.cluster import cluster
from bagwise.cli.compare import compare
from bagwise.cli.convert import convert
from bagwise.cli.correct import correct, refit
from bagwise.cli.demo import demo
from bagwise.cli.doctor import doctor
from bagwise.cli.evaluate import evaluate
from bagwise.cli.featurize import featurize
from bagwise.cli.fit import fit
from bagwise.cli.info import info
from bagwise.cli.inspect import inspect
from bagwise.cli.predict import annotate_table, predict
from bagwise.cli.reproduce import reproduce
from bagwise.cli.review import review

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
