"""bagwise: learning from bags of instances.

Public names are imported when they are first used, so that ``import bagwise`` and the command line start at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bagwise._version import __version__

if TYPE_CHECKING:  # what type checkers see of the names below
    from bagwise import (
        annotation,
        catalog,
        classification,
        clustering,
        datasets,
        exceptions,
        featurize,
        io,
        kernels,
        metrics,
        model_selection,
        pipeline,
        preprocessing,
        report,
        scale,
        workflow,
    )
    from bagwise.annotation import ORedLogisticRegression, SupportInstanceMachine
    from bagwise.bags import Bags
    from bagwise.classification import M3MIML
    from bagwise.clustering import M3IC
    from bagwise.dataset import BagDataset
    from bagwise.io import load, save
    from bagwise.io.data.formats import read_dataset, write_dataset
    from bagwise.io.data.frames import read_table
    from bagwise.pipeline import make_pipeline
    from bagwise.workflow import Run

_NAMES = {
    "Bags": "bagwise.bags",
    "BagDataset": "bagwise.dataset",
    "ORedLogisticRegression": "bagwise.annotation",
    "SupportInstanceMachine": "bagwise.annotation",
    "M3MIML": "bagwise.classification",
    "M3IC": "bagwise.clustering",
    "make_pipeline": "bagwise.pipeline",
    "Run": "bagwise.workflow",
    "save": "bagwise.io",
    "load": "bagwise.io",
    "read_dataset": "bagwise.io.data.formats",
    "read_table": "bagwise.io.data.frames",
    "write_dataset": "bagwise.io.data.formats",
}
_MODULES = (
    "annotation",
    "catalog",
    "classification",
    "clustering",
    "datasets",
    "exceptions",
    "featurize",
    "io",
    "kernels",
    "metrics",
    "model_selection",
    "pipeline",
    "preprocessing",
    "report",
    "scale",
    "workflow",
)

__all__ = [
    "M3IC",
    "M3MIML",
    "BagDataset",
    "Bags",
    "ORedLogisticRegression",
    "Run",
    "SupportInstanceMachine",
    "__version__",
    "annotation",
    "catalog",
    "classification",
    "clustering",
    "datasets",
    "exceptions",
    "featurize",
    "io",
    "kernels",
    "load",
    "make_pipeline",
    "metrics",
    "model_selection",
    "pipeline",
    "preprocessing",
    "read_dataset",
    "read_table",
    "report",
    "save",
    "scale",
    "workflow",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"bagwise.{name}")
    else:
        raise AttributeError(f"module 'bagwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES, *_MODULES])
