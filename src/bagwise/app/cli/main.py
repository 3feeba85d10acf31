"""The group of all commands. Heavy imports wait inside the commands."""

from __future__ import annotations

from itertools import chain

import click

from bagwise._version import __version__
from bagwise.app.cli._annotate import annotate
from bagwise.app.cli._cluster import cluster
from bagwise.app.cli._common import BagwiseGroup
from bagwise.app.cli._compare import compare
from bagwise.app.cli._completion import install_completion
from bagwise.app.cli._convert import convert
from bagwise.app.cli._correct import correct, refit
from bagwise.app.cli._demo import demo
from bagwise.app.cli._discover import discover
from bagwise.app.cli._doctor import doctor
from bagwise.app.cli._estimate import estimate
from bagwise.app.cli._evaluate import evaluate
from bagwise.app.cli._export import export
from bagwise.app.cli._featurize import featurize
from bagwise.app.cli._fit import fit
from bagwise.app.cli._gui import gui
from bagwise.app.cli._info import info
from bagwise.app.cli._inspect import inspect
from bagwise.app.cli._labels_backend import labels_backend
from bagwise.app.cli._look import look
from bagwise.app.cli._predict import annotate_table, predict
from bagwise.app.cli._reproduce import reproduce
from bagwise.app.cli._review import review

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Annotate your files": (
        gui,
        annotate,
        review,
        discover,
        estimate,
        correct,
        refit,
        compare,
        inspect,
        cluster,
        featurize,
        labels_backend,
    ),
    "Files of bags and models": (fit, predict, annotate_table, evaluate, convert, export, info),
    "Getting started": (demo, doctor, reproduce),
}


@click.group(
    cls=BagwiseGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="bagwise FOLDER says what lies in a folder, and which command comes next.",
)
@click.version_option(__version__, prog_name="bagwise")
@click.option(
    "--install-completion",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=install_completion,
    help="Let the tab key complete commands and options in this shell.",
)
def main() -> None:
    """Learn from bags of instances: which syllable, region or passage carries which label of its bag."""


main.sections = SECTIONS
for command in (*chain.from_iterable(SECTIONS.values()), look):
    main.add_command(command)
