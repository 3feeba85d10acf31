"""What one fit of a run gave: its model and its findings, kept so that the run can be opened and a refit taken back."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError, InputError
from bagwise.findings import Promise, Trust
from bagwise.io.files import atomic_write, read_archive, write_archive
from bagwise.report.result import Problem
from bagwise.workflow.find import Found
from bagwise.workflow.manifest import STATE

MODEL_FILE = "model.bagwise"
FINDINGS = "findings.bagwise"


@dataclass(frozen=True)
class Version:
    """What one fit gave.

    Attributes
    ----------
    number : int
    calls : list of int
        The calls of corrections that the fit knew.
    found : Found
    problems : list of (name, message)
        Of the fit and of the labels, not of the files.
    """

    number: int
    calls: list[int]
    found: Found
    problems: list[Problem] = field(default_factory=list)


def version_folder(run: Path, number: int) -> Path:
    return run / STATE / str(number)


def write_version(run: Path, version: Version) -> None:
    """Keep the findings; the model is saved beside them by who has it."""
    found, trust = version.found, version.found.promise.trust
    optional = {"probability": found.probability, "noise": found.noise, "unlike": found.unlike}
    arrays = [found.label, found.runner_up, found.transductive, found.checked]
    arrays += [values for values in optional.values() if values is not None]
    document = {
        "number": version.number,
        "calls": version.calls,
        "classes": found.classes,
        "problems": version.problems,
        "doubt": found.promise.doubt,
        "trust": trust and [trust.slope, trust.offset, trust.covariance.tolist(), trust.witnessed.tolist()],
        "columns": [name for name, values in optional.items() if values is not None],
    }
    with atomic_write(version_folder(run, version.number) / FINDINGS) as file:
        write_archive(file, document, arrays)


def read_version(run: Path, number: int, n_instances: int) -> Version:
    """The findings that were kept."""
    path = version_folder(run, number) / FINDINGS
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        label, runner_up, transductive, checked, *rest = (arrays[i] for i in range(len(arrays)))
        optional = dict(zip(document["columns"], rest, strict=True))
        found = Found(
            document["classes"], label, runner_up, optional.get("probability"), optional.get("noise"), transductive,
            checked, optional.get("unlike"), _read_promise(document),
        )  # fmt: skip
        _check(found, n_instances)
        problems = [(str(name), str(message)) for name, message in document["problems"]]
        return Version(int(document["number"]), [int(call) for call in document["calls"]], found, problems)
    except Exception as error:  # whatever damage brings up in zip, JSON or numpy
        raise FormatError(
            f"{path} is missing or damaged ({error}); run the bagwise annotate that made the run once more."
        ) from error


def _read_promise(document: dict[str, Any]) -> Promise:
    """What earlier versions did not keep is nothing to promise by."""
    trust = document.get("trust")
    if trust is not None:
        slope, offset, covariance, witnessed = trust
        trust = Trust(
            float(slope), float(offset), np.array(covariance, dtype=np.float64).reshape(2, 2),
            np.array(witnessed, dtype=bool).reshape(-1),
        )  # fmt: skip
    return Promise(float(document.get("doubt", 0.0)), trust)


def _check(found: Found, n_instances: int) -> None:
    columns = (found.label, found.runner_up, found.transductive, found.checked)
    for values in (*columns, found.probability, found.noise, found.unlike):
        if values is not None and values.shape != (n_instances,):
            raise InputError(f"it is of {len(values)} instances and the run has {n_instances}")
    for codes in (found.label, found.runner_up):
        if codes.dtype.kind != "i" or np.any(codes < -1) or np.any(codes >= len(found.classes)):
            raise InputError("it holds labels that are none of its classes")


def forget_versions(run: Path, kept: Sequence[int]) -> None:
    """Remove the folders of all versions but these."""
    for path in (run / STATE).iterdir():
        if path.name.isdigit() and int(path.name) not in kept:
            shutil.rmtree(path, ignore_errors=True)
