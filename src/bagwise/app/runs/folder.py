"""The folder of a run: its manifest, what it wrote, the fits it keeps, and who has it open.

The manifest is replaced in one step, so that a run is always that of some moment, whenever the process is killed: what
it names is complete, and what was half written for people is written again when the run is opened. The folder may be
somebody else's, so what its files hold is checked before anything is taken from them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import load, save
from bagwise.app.formats import write_json
from bagwise.app.media.files import Problem
from bagwise.app.runs._observed import ObserverRates
from bagwise.app.runs.corrections import FILE
from bagwise.app.runs.label_sets import FurtherLabels
from bagwise.app.runs.predictions import Predictions
from bagwise.calibration import CalibratedPrecision, PrecisionModel
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import Attribute, Either, Flag, ListOf, Maybe, Number, Record, Text, TupleOf
from bagwise.io.archive import read_archive, write_archive
from bagwise.io.files import TORN, atomic_write, check_tree, file_fingerprint, inside, parts_of, walk

try:
    import fcntl
except ImportError:  # Windows, where a folder cannot be locked
    fcntl = None  # type: ignore[assignment]

NAME = "manifest.json"
MODEL_FILE = "model.bagwise"
SUPERVISION = "supervision.json"
PREDICTIONS = "predictions.bagwise"
FORMAT, VERSION = "bagwise-run", 3
STATE = ".run"  # what a run needs to be opened again
FEATURES = ".features"  # the bags of each file
HIDDEN = (STATE, FEATURES)
UNFINISHED, WRITING, FINISHED = "unfinished", "writing", "finished"
COLUMNS = {
    **dict.fromkeys(("label", "runner_up"), "i"),
    **dict.fromkeys(("transductive", "checked", "novel"), "b"),
    **dict.fromkeys(("probability", "noise"), "f"),
}
"""Columns of the predictions that are kept, and their kinds of numbers."""
FURTHER = {"row": "i", "label": "i", "probability": "f"}
"""The same of the labels of instances beyond their first."""


class BusyError(InputError):
    """A run that another process has open."""


# ---------------------------------------------------------------------------------------------------------------------
# What its files may hold


class _Name(Text):
    """A name of a file in the run, or in the folder of its media."""

    def problem(self, value: Any, sizes: dict[str, int]) -> str | None:
        found = super().problem(value, sizes)
        try:
            if found is None:
                parts_of(value)
        except InputError as error:
            return f"is no name: {error}"
        return found


class _Path(Text):
    """A path, of media or of a model."""

    def problem(self, value: Any, sizes: dict[str, int]) -> str | None:
        return super().problem(value, sizes) or ("is no path" if "\0" in value else None)


def _all_of(item: Attribute) -> ListOf:
    return ListOf(item, empty=True)


def _at_least(**items: Attribute) -> Record:
    return Record(items, others=True)


_COUNT = Number(0, 10**9, whole=True)  # versions, calls, instances
_TEXTS, _COUNTS, _BY_NAME = _all_of(Text()), _all_of(_COUNT), Record(Text())
_SITE = Record({"site": Text(), "latitude": Attribute(), "longitude": Attribute(), "time_zone": Text()})
_MANIFEST = _at_least(
    identity=_at_least(
        folder=_Path(),
        medium=Text(),
        settings=Record(Attribute()),
        model=_Path(),
        options=Maybe(Record(Attribute())),
        embedded=Maybe(_at_least(name=Text(), size=_COUNT, join=Flag())),
    ),
    status=Text(),
    media=Maybe(_Path()),
    outputs=Maybe(_all_of(_Name())),
    prints=Maybe(_BY_NAME),
    supervision=Maybe(_Name()),
    versions=Maybe(_all_of(_at_least(number=_COUNT, calls=_COUNTS))),
    written=Maybe(_COUNTS),
    options=Maybe(
        _at_least(
            formats=_TEXTS,
            page=Flag(),
            trained=Flag(),
            max_noise=Either(None, Number()),
            precision=Maybe(Either(None, Number())),
            names=Maybe(Record(TupleOf(Text(), Text()))),
            label_studio_root=Maybe(Either(None, _Path())),
            sites=Maybe(_at_least(table=Text(), sites=_all_of(_SITE))),
        )
    ),
    about=Maybe(_at_least(model=Text(), settings=Record(Attribute()))),
    choice=Maybe(Record(Attribute())),
    learned=Maybe(_COUNTS),
    tables=Maybe(_all_of(_at_least(name=Text(), size=_COUNT, join=Flag()))),
    resolution=Maybe(_at_least(asked=Record(Attribute()), chosen=Text(), rows=_all_of(Record(Attribute())))),
)
"""What a manifest says; until the run was fitted much of it is missing."""
_FITTED = ("versions", "options", "about")
_SUPERVISION = _at_least(
    sets=Record(_TEXTS),
    known=_all_of(TupleOf(Text(), _COUNT, Text())),
    marked=Maybe(Record(_TEXTS)),
    observed=Maybe(Record(Record(_TEXTS))),
    whole=_TEXTS,
    files=_all_of(_at_least(file=_Name())),
    entries=_BY_NAME,
    feature_names=Either(None, _TEXTS),
    form=Text(),
    problems=_all_of(TupleOf(Text(), Text())),
    prints=_BY_NAME,
    unread=Maybe(_all_of(_at_least(file=_Name(), seconds=Either(None, Number())))),
)


def _read_json(file: Path) -> Any:
    """What a JSON file holds, if it can be written again; an `OSError` or a `ValueError` if not."""
    text = file.read_text(encoding="utf-8")
    try:
        document = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if "\\ud" in text.lower():  # half a character can only be written so
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds {text}, which is no number")
    return value


def _check(document: Any, form: Record, file: Path) -> None:
    """Refuse a document of another form; the error says where, what came and what was expected."""
    problem = form.problem(document, {})
    if problem is not None:
        raise FormatError(f"{file} is damaged: it {problem}; run the bagwise annotate that made the run once more.")


def _read_manifest(out: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where there is none."""
    path = inside(out, NAME)
    try:
        document = _read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); choose another folder.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or "identity" not in document:
        raise InputError(f"{path} is not a manifest of bagwise; choose another folder.")
    _check(document, _MANIFEST, path)
    return document


def _check_kept(out: Path) -> None:
    """Refuse a folder of a run in which links lead to what the run keeps for itself."""
    for name in HIDDEN:
        check_tree(inside(out, name))


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
    missing = next((key for key in _FITTED if not manifest.get(key)), None)
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
    predictions : Predictions
    problems : list of (name, message)
        Of the fit and of the labels, not of the files.
    rates : ObserverRates or None
        What was learned of observers, where there are several.
    """

    number: int
    calls: list[int]
    predictions: Predictions
    problems: list[Problem] = field(default_factory=list)
    rates: ObserverRates | None = None


def version_folder(run: Path, number: int) -> Path:
    return run / STATE / str(number)


def _write_version(run: Path, version: Version) -> None:
    """Keep the predictions of a fit; its model is saved in the same folder."""
    kept = version.predictions
    columns = {name: values for name in COLUMNS if (values := getattr(kept, name)) is not None}
    new = kept.precision.new
    document = {
        "number": version.number,
        "calls": version.calls,
        "classes": kept.classes,
        "problems": version.problems,
        "uniform": kept.precision.uniform,
        "precision": new and [new.slope, new.offset, new.covariance.tolist(), new.covered.tolist()],
        "columns": list(columns),
        "further": kept.further is not None,
        **({} if version.rates is None else {"observers": vars(version.rates)}),
    }
    further = [] if kept.further is None else [getattr(kept.further, name) for name in FURTHER]
    with atomic_write(version_folder(run, version.number) / PREDICTIONS) as file:
        write_archive(file, document, [*columns.values(), *further])


def _read_version(run: Path, number: int, n_instances: int | None) -> Version:
    """The predictions of a fit, as they were kept; None: of however many instances they are."""
    path = version_folder(run, number) / PREDICTIONS
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        columns = {name: arrays[i] for i, name in enumerate(document["columns"])}
        n_instances = len(columns["label"]) if n_instances is None else n_instances
        _check_columns(document["classes"], columns, n_instances)
        further = None
        if document.get("further"):
            further = FurtherLabels(*(arrays[len(columns) + i] for i in range(len(FURTHER))))
            _check_further(further, len(document["classes"]), n_instances)
        new = document["precision"]
        if new is not None:
            slope, offset, covariance, covered = new
            covariance, covered = np.array(covariance, dtype=np.float64), np.array(covered, dtype=bool)
            new = PrecisionModel(float(slope), float(offset), covariance.reshape(2, 2), covered.reshape(-1))
        precision = CalibratedPrecision(float(document["uniform"]), new)
        predictions = Predictions(document["classes"], **columns, precision=precision, further=further)
        problems = [(str(name), str(message)) for name, message in document["problems"]]
        rates = ObserverRates.of(document["observers"]) if "observers" in document else None
        return Version(int(document["number"]), [int(call) for call in document["calls"]], predictions, problems, rates)
    except Exception as error:  # whatever damage brings up in zip, JSON or numpy
        raise FormatError(
            f"{path} is missing or damaged ({error}); run the bagwise annotate that made the run once more."
        ) from error


def _check_columns(classes: Any, columns: Mapping[str, np.ndarray], n_instances: int) -> None:
    for name, values in columns.items():
        kind = COLUMNS[name]
        if values.shape != (n_instances,) or values.dtype.kind != kind:
            raise InputError(
                f"it holds {values.dtype} of the shape {values.shape} where the run has {n_instances} instances"
            )
        if kind == "f" and not np.all((values >= 0) & (values <= 1)):
            raise InputError("it holds probabilities that are not from 0 to 1")
        if kind == "i" and np.any((values < -1) | (values >= len(classes))):
            raise InputError("it holds labels that are none of its classes")
    kinds_of_names = {*map(type, classes)} if isinstance(classes, list) else {None}
    if not (kinds_of_names <= {str} or kinds_of_names <= {int, float, bool}):
        raise InputError("its classes are not a list of names")


def _check_further(further: FurtherLabels, n_classes: int, n_instances: int) -> None:
    values = {name: getattr(further, name) for name in FURTHER}
    same = all(column.ndim == 1 and len(column) == len(further.row) for column in values.values())
    if not same or any(values[name].dtype.kind != kind for name, kind in FURTHER.items()):
        raise InputError("its further labels are no columns of one length")
    bounds = ((further.row, n_instances - 1), (further.label, n_classes - 1), (further.probability, 1))
    if not all(np.all((column >= 0) & (column <= most)) for column, most in bounds) or np.any(np.diff(further.row) < 0):
        raise InputError("it holds further labels of no instance, of none of its classes, or out of order")


# ---------------------------------------------------------------------------------------------------------------------
# Who has it open

_locks: dict[Path, list[Any]] = {}  # open runs of this process: descriptor of the lock, number of holders


def _lock(out: Path) -> Path:
    """Make the folder of a run if needed, and keep other processes from writing to it; gives the key of the lock.

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


def _try_lock(folder: Path) -> int | None:
    """Descriptor of a lock on a folder; None where another process holds it."""
    if fcntl is None:
        import msvcrt

        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    else:
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is None:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


# ---------------------------------------------------------------------------------------------------------------------
# The folder


class RunFolder:
    """The folder of a run while it is open: its manifest and the fits that it keeps.

    Making one keeps other processes from writing to the folder, until `close`; with `lent` the process that started
    this one sees to that. `open` or `start` comes next.

    Attributes
    ----------
    path : Path
    manifest : dict
        What ``manifest.json`` says.
    count : function of the calls of corrections that a fit knew
        How many instances there were then; predictions must be of as many.
    """

    def __init__(self, path: Path, *, lent: bool = False):
        self.path = path
        self.manifest: dict[str, Any] = {}
        self.count: Callable[[list[int]], int] = lambda calls: 0
        self._lock: Path | None = path.resolve() if lent else _lock(path)
        self._version: Version | None = None
        self._model: Any = None

    @classmethod
    def open(cls, path: Path, *, lent: bool = False) -> RunFolder:
        """That of a run that is there. Nothing is written before it is looked at.

        It must hold what the run keeps, and no links in its place.
        """
        manifest = open_manifest(path)
        _check_kept(path)
        if not (path / STATE).is_dir():
            raise FormatError(f"{path / STATE} is missing; run the bagwise annotate that made the run once more.")
        for name in manifest.get("outputs", []):
            inside(path, name)
        folder = cls(path, lent=lent)
        try:
            folder.manifest = open_manifest(path)  # as it is now that nobody else writes
        except BaseException:
            folder.close()
            raise
        return folder

    def earlier(self) -> dict[str, Any]:
        """The manifest of what is in the folder, empty where that is nothing."""
        return _read_manifest(self.path) or {}

    def start(self, identity: dict[str, Any], overwrite: bool) -> dict[str, Any]:
        """Begin a run, or go on where the folder holds the same one; gives the manifest of that, else nothing.

        Parameters
        ----------
        identity : dict
            What makes two runs the same: folder, media type, settings, table of labels, model.
        overwrite : bool
            Replace another run. Only files that it wrote are removed, as far as nobody changed them.

        Raises
        ------
        InputError
            If the folder holds another run or other files.
        """
        out = self.path
        old = _read_manifest(out)
        if old is None:
            foreign = sorted(
                path.name for path in out.iterdir() if path.name not in HIDDEN and not path.name.endswith(".tmp")
            )
            if foreign:
                with suppress(OSError):
                    (out / STATE).rmdir()
                raise InputError(
                    f"{out} is not empty ({', '.join(foreign[:3])}) and holds no run of bagwise; choose an empty "
                    "folder."
                )
        elif old["identity"] != identity:
            if not overwrite:
                raise InputError(
                    f"{out} holds another run: {_difference(old['identity'], identity)}. Choose another folder, or "
                    "pass --overwrite to replace it."
                )
            if (out / FILE).exists():
                raise InputError(
                    f"{out} holds another run, with corrections that a person made; move {out / FILE} away before "
                    "it is overwritten, or choose another folder."
                )
            self.remove_outputs(old.get("outputs", []), old.get("prints", {}))
            old = None
        if old is None:
            self.write({"identity": identity, "status": UNFINISHED})
        else:
            self.manifest = old
            self._name_supervision_plainly()
        (out / FEATURES).mkdir(exist_ok=True)
        for path in walk(out):
            if TORN.fullmatch(path.name) and path.is_file():  # left by a process that was killed while it wrote
                path.unlink(missing_ok=True)
        return old if old is not None and old.get("version") == VERSION else {}

    def _name_supervision_plainly(self) -> None:
        """Have what was given under its own name, also where files came later; a new fit writes it there."""
        before = self.supervision
        if "supervision" in self.manifest and before.is_file():
            with atomic_write(inside(self.path, f"{STATE}/{SUPERVISION}")) as file:
                file.write(before.read_bytes())
            self.write({key: value for key, value in self.manifest.items() if key != "supervision"})
            if before.name != SUPERVISION:
                before.unlink()

    def write_supervision(self, content: Mapping[str, Any], name: str = SUPERVISION) -> None:
        """Keep what was given when the run was made; under another name it counts once the manifest names it."""
        with atomic_write(inside(self.path, f"{STATE}/{name}"), "w") as file:
            file.write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")

    @property
    def supervision(self) -> Path:
        """The file of what was given when the run was made."""
        return inside(self.path, f"{STATE}/{self.manifest.get('supervision', SUPERVISION)}")

    def read_supervision(self) -> dict[str, Any]:
        """What was given when the run was made."""
        file = self.supervision
        try:
            document = _read_json(file)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{file} is missing or damaged ({error}); run the bagwise annotate that made the run once more."
            ) from error
        _check(document, _SUPERVISION, file)
        if sorted(file["file"] for file in document["files"]) != sorted(document["entries"]):
            raise FormatError(
                f"{file} is damaged: its files are others than those of which something is kept; run the bagwise "
                "annotate that made the run once more."
            )
        return document

    def remove_outputs(self, names: Iterable[str], prints: Mapping[str, str]) -> list[str]:
        """Remove files that a run wrote, and the folders in it that are empty then; gives those that somebody changed.

        `prints` say what the run wrote. A file that differs from that is somebody's work, or was never the run's: it
        stays.
        """
        changed = []
        for name in names:
            path = inside(self.path, name)
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
            self._version = self.read_version(self.versions[-1])
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
        return self.read_version(self.versions[0])

    def read_version(self, version: Mapping[str, Any]) -> Version:
        """What one of `versions` gave."""
        return _read_version(self.path, version["number"], self.count(version["calls"]))

    def read_rates(self) -> ObserverRates | None:
        """What the fit in force learned of observers, however many instances there are."""
        return _read_version(self.path, self.number, None).rates

    def add(self, model: Any, about: dict[str, Any], version: Version) -> None:
        """Keep model and annotations of a fit, then make it the one in force."""
        version_folder(self.path, version.number).mkdir(parents=True, exist_ok=True)
        save(model, version_folder(self.path, version.number) / MODEL_FILE, about)
        _write_version(self.path, version)
        self.commit([*self.versions, {"number": version.number, "calls": version.calls}])
        self._version, self._model = version, model

    def commit(self, versions: list[dict[str, Any]]) -> None:
        """From here on the run is that of the last of these fits, whatever happens."""
        self.write({**self.manifest, "versions": versions, "status": WRITING})
        kept = {str(version["number"]) for version in versions}
        for path in (self.path / STATE).iterdir():
            if path.name.isascii() and path.name.isdigit() and path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def finish(self, content: Mapping[str, Any]) -> None:
        """Say what was written for people: it is that of the fit in force."""
        self.write({**self.manifest, **content, "status": FINISHED})

    def write(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest in one step; the same content gives the same bytes, in whatever order it came."""
        first = {"format": FORMAT, "version": VERSION}
        content = {key: manifest[key] for key in sorted(manifest) if key not in first}
        write_json({**first, **content}, inside(self.path, NAME))
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
        key, self._lock = self._lock, None
        if key not in _locks:
            return
        _locks[key][1] -= 1
        if not _locks[key][1]:
            os.close(_locks.pop(key)[0])
