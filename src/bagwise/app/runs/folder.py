"""The folder of a run: its manifest, what it wrote, the fits it keeps, and who has it open.

The manifest is replaced in one step, so that a run is always that of some moment, whenever the process is killed: what
it names is complete, and what was half written for people is written again when the run is opened.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import load, save
from bagwise.app.formats import write_json
from bagwise.app.media.files import Problem
from bagwise.app.runs._checked import FITTED, MANIFEST, check, read_checked
from bagwise.app.runs.find import Found
from bagwise.calibration import CalibratedPrecision, PrecisionModel
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.archive import read_archive, write_archive
from bagwise.io.files import TORN, atomic_write, check_tree, file_fingerprint, inside, walk

NAME = "manifest.json"
MODEL_FILE = "model.bagwise"
_ANNOTATIONS = "findings.bagwise"
FORMAT, VERSION = "bagwise-run", 2
STATE = ".run"  # what a run needs to be opened again
FEATURES = ".features"  # the bags of each file
HIDDEN = (STATE, FEATURES)
UNFINISHED, WRITING, FINISHED = "unfinished", "writing", "finished"


class BusyError(InputError):
    """A run that another process has open."""


_locks: dict[Path, list[Any]] = {}  # open runs of this process: descriptor of the lock, number of holders


def start_run(out: Path, identity: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """Begin a run in a folder that is locked, or go on in one that holds the same run and give its manifest.

    Parameters
    ----------
    out : path
    identity : dict
        What makes two runs the same: folder, media type, settings, table of labels, model.
    overwrite : bool
        Replace another run. Only files that it wrote are removed, as far as nobody changed them.

    Raises
    ------
    InputError
        If the folder holds another run or other files.
    """
    old = _read_manifest(out)
    if old is None:
        foreign = sorted(
            path.name for path in out.iterdir() if path.name not in HIDDEN and not path.name.endswith(".tmp")
        )
        if foreign:
            with suppress(OSError):
                (out / STATE).rmdir()
            raise InputError(
                f"{out} is not empty ({', '.join(foreign[:3])}) and holds no run of bagwise; choose an empty folder."
            )
    elif old["identity"] != identity:
        if not overwrite:
            raise InputError(
                f"{out} holds another run: {_difference(old['identity'], identity)}. Choose another folder, or pass "
                "--overwrite to replace it."
            )
        _check_no_corrections(out)
        remove_outputs(out, old.get("outputs", []), old.get("prints", {}))
        old = None
    if old is None:
        write_manifest(out, {"identity": identity, "status": UNFINISHED})
    (out / FEATURES).mkdir(exist_ok=True)
    for path in walk(out):
        if TORN.fullmatch(path.name) and path.is_file():  # left by a process that was killed while it wrote
            path.unlink(missing_ok=True)
    return old if old is not None and old.get("version") == VERSION else None


def _check_no_corrections(out: Path) -> None:
    from bagwise.app.runs.corrections import FILE

    if (out / FILE).exists():
        raise InputError(
            f"{out} holds another run, with corrections that a person made; move {out / FILE} away before it is "
            "overwritten, or choose another folder."
        )


def write_manifest(out: Path, content: dict[str, Any]) -> None:
    """Replace the manifest in one step; the same content gives the same bytes, in whatever order it came."""
    first = {"format": FORMAT, "version": VERSION}
    write_json({**first, **{key: content[key] for key in sorted(content) if key not in first}}, inside(out, NAME))


def remove_outputs(out: Path, names: Iterable[str], prints: Mapping[str, str]) -> list[str]:
    """Remove files that a run wrote, and the folders in it that are empty then; gives those that somebody changed.

    `prints` say what the run wrote. A file that differs from that is somebody's work, or was never the run's: it stays.
    """
    changed = []
    for name in names:
        path = inside(out, name)
        if not path.is_file():
            continue
        if file_fingerprint(path) != prints.get(name):
            changed.append(name)
            continue
        path.unlink()
        for folder in list(path.parents)[: len(Path(name).parts) - 1]:
            if not any(folder.iterdir()):
                folder.rmdir()
    return changed


def _read_manifest(out: Path) -> dict[str, Any] | None:
    """The manifest of a folder, checked (`bagwise.app.runs._checked`); None where there is none."""
    path = inside(out, NAME)
    try:
        document = read_checked(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); choose another folder.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or "identity" not in document:
        raise InputError(f"{path} is not a manifest of bagwise; choose another folder.")
    check(document, MANIFEST, path)
    return document


def _check_kept(out: Path) -> None:
    """Refuse a folder of a run in which links lead to what the run keeps for itself."""
    for name in HIDDEN:
        check_tree(inside(out, name))


def check_run(out: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a folder before anything is written to it: it must hold what the run keeps, and no links in its place."""
    _check_kept(out)
    if not (out / STATE).is_dir():
        raise FormatError(f"{out / STATE} is missing; run the bagwise annotate that made the run once more.")
    for name in manifest.get("outputs", []):
        inside(out, name)


def open_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a run that was finished once; an error says why there is none and what to do."""
    manifest = _read_manifest(out)
    if manifest is None:
        raise InputError(
            f"{out} holds no run of bagwise: there is no {NAME} in it; give the folder that annotate wrote."
        )
    version = manifest.get("version")
    if version != VERSION:
        raise InputError(
            f"{out} was written by another bagwise (version {version} of the run's form, this one knows {VERSION}); "
            "upgrade bagwise, or run the bagwise annotate that made it once more: it goes on in the same folder."
        )
    if manifest.get("status") == UNFINISHED:
        raise InputError(
            f"The run in {out} is not finished: it is being written, or was interrupted; wait, or run the bagwise "
            "annotate that made it once more."
        )
    missing = next((key for key in FITTED if not manifest.get(key)), None)
    if missing is not None:
        raise FormatError(
            f"{out / NAME} is damaged: it has no {missing!r}; run the bagwise annotate that made the run once more."
        )
    return manifest


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first thing in which two runs differ, in words."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
                return f"{key}: {_difference(old[key], new[key])}"
            return f"{key} is {old.get(key)!r} there and {new.get(key)!r} now"
    return "nothing differs"


# ---------------------------------------------------------------------------------------------------------------------
# The fits that it keeps


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


def _write_version(run: Path, version: Version) -> None:
    """Keep the annotations of a fit; its model is saved in the same folder."""
    found, trust = version.found, version.found.promise.new
    optional = {"probability": found.probability, "noise": found.noise, "novel": found.novel}
    arrays = [found.label, found.runner_up, found.transductive, found.checked]
    arrays += [values for values in optional.values() if values is not None]
    document = {
        "number": version.number,
        "calls": version.calls,
        "classes": found.classes,
        "problems": version.problems,
        "doubt": found.promise.uniform,
        "trust": trust and [trust.slope, trust.offset, trust.covariance.tolist(), trust.covered.tolist()],
        "columns": [name for name, values in optional.items() if values is not None],
    }
    with atomic_write(version_folder(run, version.number) / _ANNOTATIONS) as file:
        write_archive(file, document, arrays)


def read_version(run: Path, number: int, n_instances: int) -> Version:
    """The annotations of a fit, as they were kept."""
    path = version_folder(run, number) / _ANNOTATIONS
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        label, runner_up, transductive, checked, *rest = (arrays[i] for i in range(len(arrays)))
        optional = dict(zip(document["columns"], rest, strict=True))
        found = Found(
            document["classes"],
            label,
            runner_up,
            optional.get("probability"),
            optional.get("noise"),
            transductive,
            checked,
            optional.get("novel"),
            _read_promise(document),
        )
        _check_columns(found, n_instances)
        problems = [(str(name), str(message)) for name, message in document["problems"]]
        return Version(int(document["number"]), [int(call) for call in document["calls"]], found, problems)
    except Exception as error:  # whatever damage brings up in zip, JSON or numpy
        raise FormatError(
            f"{path} is missing or damaged ({error}); run the bagwise annotate that made the run once more."
        ) from error


def _read_promise(document: dict[str, Any]) -> CalibratedPrecision:
    trust = document["trust"]
    if trust is not None:
        slope, offset, covariance, covered = trust
        trust = PrecisionModel(
            float(slope),
            float(offset),
            np.array(covariance, dtype=np.float64).reshape(2, 2),
            np.array(covered, dtype=bool).reshape(-1),
        )
    return CalibratedPrecision(float(document["doubt"]), trust)


def _check_columns(found: Found, n_instances: int) -> None:
    coded, supervision = (found.label, found.runner_up), (found.transductive, found.checked, found.novel)
    kinds = [*((values, "i") for values in coded), *((values, "b") for values in supervision)]
    for values, kind in [*kinds, (found.probability, "f"), (found.noise, "f")]:
        if values is not None and (values.shape != (n_instances,) or values.dtype.kind != kind):
            raise InputError(
                f"it holds {values.dtype} of the shape {values.shape} where the run has {n_instances} instances"
            )
    for values in (found.probability, found.noise):
        if values is not None and np.any((values < 0) | (values > 1)):
            raise InputError("it holds probabilities that are not from 0 to 1")
    kinds_of_names = {*map(type, found.classes)} if isinstance(found.classes, list) else {None}
    if not (kinds_of_names <= {str} or kinds_of_names <= {int, float, bool}):
        raise InputError("its classes are not a list of names")
    for codes in coded:
        if np.any(codes < -1) or np.any(codes >= len(found.classes)):
            raise InputError("it holds labels that are none of its classes")


def _forget_versions(run: Path, kept: Sequence[int]) -> None:
    """Remove the folders of all versions but these."""
    for path in (run / STATE).iterdir():
        if path.name.isascii() and path.name.isdigit() and int(path.name) not in kept:
            shutil.rmtree(path, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------------------------
# Who has it open


def lock_run(out: Path) -> Path:
    """Make the folder of a run if needed, and keep other processes from writing to it; `unlock_run` lets go.

    Before anything is made, `_check_kept` looks at what is there.

    The system lets go of the lock when the process ends, however it ends. Within one process a run may be opened again.
    """
    key = out.resolve()
    if key in _locks:
        _locks[key][1] += 1
        return key
    _check_kept(out)
    try:
        (out / STATE).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} for the results cannot be made ({error}); choose another.") from error
    descriptor = _try_lock(out / STATE)
    if descriptor is None:
        raise BusyError(
            f"The run in {out} is open in another process (a review, a refit, another Python); close it there first."
        )
    _locks[key] = [descriptor, 1]
    return key


def unlock_run(key: Path) -> None:
    """Let others have the run."""
    holder = _locks.get(key)
    if holder is None:
        return
    holder[1] -= 1
    if holder[1] == 0:
        del _locks[key]
        os.close(holder[0])


def _try_lock(folder: Path) -> int | None:
    """Descriptor of a lock on a folder; None where another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows, where a folder cannot be locked
        return _try_lock_file(folder / "lock")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _try_lock_file(path: Path) -> int | None:
    import msvcrt

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


# ---------------------------------------------------------------------------------------------------------------------
# The folder of a run that is open


class RunFolder:
    """The folder of a run while it is open: its manifest and the fits that it keeps.

    Attributes
    ----------
    path : Path
    manifest : dict
        What ``manifest.json`` says.
    n_instances : int
        Of the run; annotations of a fit must be of as many.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], lock: Path, n_instances: int):
        self.path = path
        self.manifest = manifest
        self.n_instances = n_instances
        self._lock: Path | None = lock
        self._version: Version | None = None
        self._model: Any = None

    @property
    def versions(self) -> list[dict[str, Any]]:
        """Number and calls of every fit that is kept, the one in force last."""
        return self.manifest.get("versions", [])

    @property
    def number(self) -> int:
        """Of the fit in force."""
        return self.versions[-1]["number"]

    @property
    def version(self) -> Version:
        """What the fit in force gave."""
        if self._version is None:
            self._version = read_version(self.path, self.number, self.n_instances)
        return self._version

    @property
    def model_path(self) -> Path:
        return version_folder(self.path, self.number) / MODEL_FILE

    @property
    def model(self) -> Any:
        """The fitted model in force; who changes it loads one of its own (`model_path`)."""
        if self._model is None:
            self._model = load(self.model_path)
        return self._model

    def first_version(self) -> Version:
        """What the fit of `bagwise annotate` gave."""
        return read_version(self.path, self.versions[0]["number"], self.n_instances)

    def add(self, model: Any, about: dict[str, Any], version: Version) -> None:
        """Keep model and annotations of a fit, then make it the one in force."""
        version_folder(self.path, version.number).mkdir(parents=True, exist_ok=True)
        save(model, version_folder(self.path, version.number) / MODEL_FILE, about)
        _write_version(self.path, version)
        self.commit([*self.versions, {"number": version.number, "calls": version.calls}])
        self._version, self._model = version, model

    def commit(self, versions: list[dict[str, Any]]) -> None:
        """From here on the run is that of the last of these fits, whatever happens."""
        self._write({**self.manifest, "versions": versions, "status": WRITING})
        _forget_versions(self.path, [version["number"] for version in versions])

    def finish(self, content: Mapping[str, Any]) -> None:
        """Say what was written for people: it is that of the fit in force."""
        self._write({**self.manifest, **content, "status": FINISHED})

    def _write(self, manifest: dict[str, Any]) -> None:
        write_manifest(self.path, manifest)
        self._take(manifest)

    def leave_fits(self, calls: Collection[int]) -> bool:
        """Go back, in memory, to the last fit that knew only of these calls of corrections; gives whether it did."""
        versions = list(self.versions)
        while len(versions) > 1 and not set(versions[-1]["calls"]) <= set(calls):
            versions.pop()
        is_other = len(versions) < len(self.versions)
        if is_other:
            self._take({**self.manifest, "versions": versions})
        return is_other

    def reload(self) -> None:
        """Take over what another process wrote."""
        media = self.manifest.get("media")
        self.manifest = open_manifest(self.path) | ({} if media is None else {"media": media})
        self._version = self._model = None  # another fit may bear the number of one that was taken back

    def _take(self, manifest: dict[str, Any]) -> None:
        if manifest.get("versions", [])[-1:] != self.versions[-1:]:
            self._version = self._model = None
        self.manifest = manifest

    # -- who has it open ----------------------------------------------------------------------------------------------

    @property
    def lock_descriptors(self) -> tuple[int, ...]:
        """The lock as a descriptor, which a process that is started may inherit; then it holds the lock too."""
        return (_locks[self._lock][0],) if self._lock in _locks else ()

    def check_open(self) -> None:
        if self._lock is None:
            raise InputError(f"The run in {self.path} was closed; open it again with Run.open.")

    def close(self) -> None:
        """Let others have the run."""
        if self._lock is not None:
            unlock_run(self._lock)
            self._lock = None
