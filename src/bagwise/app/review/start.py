"""Before there is a run: the page on which a folder and a table of labels are picked, and a run is made or opened."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bagwise.app.media.media_types import MEDIA
from bagwise.app.review._create import Creation, Report
from bagwise.app.review._errors import ConflictError, RequestError
from bagwise.app.runs.look import look_at
from bagwise.core.exceptions import InputError

CHOOSING, CREATING, FAILED, DONE = "choosing", "creating", "failed", "done"
MOST_FOLDERS = 1000  # that one list shows
Body = Mapping[str, Any]


class StartPage:
    """What the page is answered while there is no run.

    Parameters
    ----------
    folder : path
        Where looking for files begins.
    open_run : callable
        Called with the folder of a run, to show it from then on in place of this.

    Attributes
    ----------
    addresses : dict
        The functions that answer each address of each method, for `make_plain_app`.
    """

    def __init__(self, folder: Path, open_run: Callable[[Path], None]):
        self._folder, self._open_run = folder, open_run
        self._lock, self._opening, self._is_open = threading.Lock(), threading.Lock(), False
        self._creation: Creation | None = None
        self._state: dict[str, Any] = {"stage": CHOOSING}

    @property
    def addresses(self) -> dict[str, dict[str, Callable[[Body], dict[str, Any]]]]:
        return {
            "GET": {"/api/start": lambda body: self.state()},
            "POST": {
                "/api/start": self.create,
                "/api/start/cancel": lambda body: self.cancel(),
                "/api/folders": self.folders,
                "/api/look": self.look,
                "/api/open": self.open,
            },
        }

    def state(self) -> dict[str, Any]:
        """How far it is: the stage, the steps of the work, remarks, and what came of it."""
        with self._lock:
            steps = [
                {"what": what, "done": done, "total": n} for what, (done, n) in self._state.get("steps", {}).items()
            ]
            return {**self._state, "steps": steps}

    def folders(self, body: Body) -> dict[str, Any]:
        """The folders in a folder, and how many files of which media type lie there (and not below)."""
        path = _path(body, "path", self._folder)
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name.casefold())
        except OSError as error:
            raise InputError(f"{path} cannot be listed ({error.strerror}); choose another folder.") from error
        below = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
        endings = [Path(entry.name).suffix.lower() for entry in entries if entry.is_file()]
        counts = {name: sum(map(endings.count, media.extensions)) for name, media in MEDIA.items()}
        return {
            "path": str(path),
            "parent": None if path.parent == path else str(path.parent),
            "folders": below[:MOST_FOLDERS],
            "files": {name: count for name, count in counts.items() if count},
        }

    def look(self, body: Body) -> dict[str, Any]:
        """What a folder holds with all below it, and which tables fit, `table` among them if one is named."""
        folder, table = _path(body, "path"), _path(body, "table", None)
        return {**look_at(folder, table).to_dict(), "out": str(folder.parent / f"run-{folder.name}")}

    def create(self, body: Body) -> dict[str, Any]:
        """Begin to make a run of the folder `path` with the table `labels` in the folder `out`."""
        source, labels, out = (_path(body, name) for name in ("path", "labels", "out"))
        with self._lock:
            if self._state["stage"] == CREATING:
                raise ConflictError("A run is being made already; cancel it first.")
            self._state = {"stage": CREATING, "out": str(out), "steps": {}, "remarks": []}
            self._creation = Creation(source, labels, out, self._note)
        return self.state()

    def cancel(self) -> dict[str, Any]:
        """Stop making the run; files that are read already need not be read again."""
        with self._lock:
            creation, self._creation = self._creation, None
            self._state = {"stage": CHOOSING}
        if creation is not None:
            creation.stop()
        return self.state()

    def open(self, body: Body) -> dict[str, Any]:
        """Show a run from now on."""
        with self._opening:
            if not self._is_open:
                self._open_run(_path(body, "path"))
                self._is_open = True
        return {"opened": True}

    def close(self) -> None:
        self.cancel()

    def _note(self, creation: Creation, report: Report) -> None:
        with self._lock:
            state = self._state
            if creation is not self._creation or state["stage"] != CREATING:  # it was cancelled, or has said all
                return
            if "step" in report:
                what, done, total = report["step"]
                state["steps"][what] = (done, total)
            elif "remark" in report:
                state["remarks"].append(report["remark"])
            elif "done" in report:
                self._state = {**state, "stage": DONE, "found": report["done"]}
            else:
                why = report.get("failed") or f"The process ended with code {report['ended']}; the terminal shows why."
                self._state = {"stage": FAILED, "error": why}


def _path(body: Body, name: str, *default: Path | None) -> Any:
    """A path of the body; the default, if there is one, where it is missing or empty."""
    value = body.get(name) or None
    if value is None and default:
        return default[0]
    if not isinstance(value, str) or "\0" in value:
        raise RequestError(f"{name!r} is {str(value)[:80]!r}; give the path of a file or folder.")
    return Path(value).expanduser().absolute()
