"""bagwise: learning from bags of instances.

Public names are imported when they are first used, so that ``import bagwise`` and the command line start at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bagwise._version import __version__
from bagwise.core.backends import MEMBERS, OBJECTIVES

if TYPE_CHECKING:  # what type checkers see of the names below
    from bagwise import (
        annotation,
        app,
        calibration,
        catalog,
        classification,
        clustering,
        core,
        datasets,
        inspection,
        io,
        kernels,
        metrics,
        model_selection,
        pipeline,
        plotting,
        preprocessing,
        scale,
        solvers,
        union,
    )
    from bagwise.annotation import ORedForest, ORedLogisticRegression, SupportInstanceMachine
    from bagwise.app.runs import Run
    from bagwise.catalog import make_model
    from bagwise.classification import M3MIML, BagStack
    from bagwise.clustering import M3IC
    from bagwise.core.bags import Bags
    from bagwise.core.dataset import BagDataset
    from bagwise.core.evidence import Absent, Certain, OneOf, Possible
    from bagwise.core.exceptions import BagwiseError, FormatError, InputError
    from bagwise.io.data import read_table
    from bagwise.io.data.formats import read_dataset, write_dataset
    from bagwise.io.model import load, save
    from bagwise.metrics import get_scorer
    from bagwise.pipeline import make_pipeline
    from bagwise.preprocessing import PerInstance

_NAMES = {
    "Bags": "bagwise.core.bags",
    "BagDataset": "bagwise.core.dataset",
    "Certain": "bagwise.core.evidence",
    "Possible": "bagwise.core.evidence",
    "Absent": "bagwise.core.evidence",
    "OneOf": "bagwise.core.evidence",
    "BagwiseError": "bagwise.core.exceptions",
    "InputError": "bagwise.core.exceptions",
    "FormatError": "bagwise.core.exceptions",
    "ORedForest": "bagwise.annotation",
    "ORedLogisticRegression": "bagwise.annotation",
    "SupportInstanceMachine": "bagwise.annotation",
    "BagStack": "bagwise.classification",
    "M3MIML": "bagwise.classification",
    "M3IC": "bagwise.clustering",
    "make_model": "bagwise.catalog",
    "get_scorer": "bagwise.metrics",
    "PerInstance": "bagwise.preprocessing",
    "make_pipeline": "bagwise.pipeline",
    "Run": "bagwise.app.runs",
    "save": "bagwise.io.model",
    "load": "bagwise.io.model",
    "read_dataset": "bagwise.io.data.formats",
    "read_table": "bagwise.io.data",
    "write_dataset": "bagwise.io.data.formats",
}
# What a model file may hold is declared by the modules that make it; no file names a module.
_SAVABLE = (
    "annotation",
    "calibration",
    "classification",
    "clustering",
    "pipeline",
    "preprocessing",
    "nn.network",
    "app.media.recipe",
)
__all__ = [
    "M3IC",
    "M3MIML",
    "Absent",
    "BagDataset",
    "BagStack",
    "Bags",
    "BagwiseError",
    "Certain",
    "FormatError",
    "InputError",
    "ORedForest",
    "ORedLogisticRegression",
    "OneOf",
    "PerInstance",
    "Possible",
    "Run",
    "SupportInstanceMachine",
    "__version__",
    "annotation",
    "app",
    "calibration",
    "catalog",
    "classification",
    "clustering",
    "core",
    "datasets",
    "get_scorer",
    "inspection",
    "io",
    "kernels",
    "load",
    "make_model",
    "make_pipeline",
    "metrics",
    "model_selection",
    "pipeline",
    "plotting",
    "preprocessing",
    "read_dataset",
    "read_table",
    "save",
    "scale",
    "solvers",
    "union",
    "write_dataset",
]
_MODULES = {*__all__} - {*_NAMES, "__version__"}


def _device_objective(*args: Any, **options: Any) -> Any:
    """The objective of ORed logistic regression on a device; its room is entered when the first one is asked for."""
    from bagwise.nn import check_torch

    check_torch()
    from bagwise.nn.device import DeviceObjective

    return DeviceObjective(*args, **options)


def _device_noisy_or(*args: Any, **options: Any) -> Any:
    """The same of noisy-or logistic regression."""
    from bagwise.nn import check_torch

    check_torch()
    from bagwise.nn.device_noisy_or import DeviceNoisyOr

    return DeviceNoisyOr(*args, **options)


def _stack_members() -> list[Any]:
    """Those of "bag-stack"; the catalog is entered when a stack is fitted without members."""
    from bagwise.catalog import stack_members

    return stack_members()


OBJECTIVES["ORedLogisticRegression"] = _device_objective
OBJECTIVES["NoisyOrLogisticRegression"] = _device_noisy_or
MEMBERS["BagStack"] = _stack_members


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        for module in _SAVABLE if name in ("load", "save") else ():
            importlib.import_module(f"bagwise.{module}")
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"bagwise.{name}")
    else:
        raise AttributeError(f"module 'bagwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES, *_MODULES])
