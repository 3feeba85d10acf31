"""Retraining in a process of its own: started beforehand, commanded and reporting by lines, killed at any moment.

The run is lent to the process, which inherits its lock: should the server die, nobody opens the run before the process
has noticed and ended too. Reports are lines of JSON; the model is the run's as soon as one says ``done``, and what is
written for people follows.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bagwise.core.exceptions import BagwiseError, in_words

if TYPE_CHECKING:  # for the process that learns takes seconds to import it, and has to watch its server meanwhile
    from bagwise.app.runs import Run

REFIT, WRITE = "refit", "write"
OPENED, FITTED = 0.1, 0.9  # share of the work when the run was opened, and when the model is fitted
PR_SET_PDEATHSIG = 1  # of Linux's prctl
HALF = 15  # iterations after which half of the fit is taken to be done: nobody knows how many it will be

Report = dict[str, Any]


class RefitProcess:
    """The process that learns.

    Parameters
    ----------
    run : Run
        Open in this process.
    tell : callable
        Called from another thread with each report, and with a function that says whether it is still that of the
        process in force: it may have been stopped while the report was on its way.
    """

    def __init__(self, run: Run, tell: Callable[[Report, Callable[[], bool]], None]):
        self._run = run
        self._tell = tell
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process if there is none; it imports what it needs and waits."""
        if self._process is not None and self._process.poll() is None:
            return
        started: Future[None] = Future()
        threading.Thread(target=self._live, args=(started,), daemon=True).start()
        started.result()

    def _live(self, started: Future[None]) -> None:
        """Start the process and listen to it, in one thread: to Linux the one that starts a process is its parent."""
        command = [sys.executable, "-m", "bagwise.app.review._refit", str(self._run.path), str(self._run.media)]
        descriptors = self._run.lock_descriptors if sys.platform != "win32" else ()
        try:
            self._process = process = subprocess.Popen(
                [*command, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                pass_fds=descriptors,
            )
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        self._listen(process)

    def ask(self, what: str) -> None:
        """Ask for `REFIT` or `WRITE`."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it just died, which is reported next
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        """Kill the process; what it had not finished is not there."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._close(process)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        def is_current() -> bool:
            return self._process is process

        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._tell(json.loads(line), is_current)
        code = process.wait()
        self._close(process)
        self._tell({"ended": code}, is_current)

    @staticmethod
    def _close(process: subprocess.Popen[str]) -> None:
        if process.stdin is not None:
            with suppress(OSError):  # what was asked last may still be in it
                process.stdin.close()


# ---------------------------------------------------------------------------------------------------------------------
# Inside of the process


def main(path: Path, media: Path, server: int) -> None:
    """Do what is asked on standard input until it ends."""
    end_with_parent(server)
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process itself
    tell = reporter()
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, asked), daemon=True).start()
    from bagwise.app.runs import Run

    warm_up()
    while True:
        what = asked.get()
        try:
            with Run.open(path, media=media, lent=True) as run:
                if what == REFIT:
                    _refit(run, tell)
                run.write()
            tell(written=True)
        except Exception as error:
            tell(failed=what_failed(error))


def what_failed(error: Exception) -> str:
    """An error for the person in front of the page; one that should not be goes to the terminal."""
    if isinstance(error, (BagwiseError, ImportError, OSError)):
        return in_words(error)
    traceback.print_exception(error)
    return f"Something is wrong in bagwise itself ({type(error).__name__}); the terminal shows what."


def _refit(run: Run, tell: Callable[..., None]) -> None:
    tell(fraction=OPENED)

    def step(iteration: int, objective: float) -> None:
        tell(fraction=round(OPENED + (FITTED - OPENED) * iteration / (iteration + HALF), 3))

    done = run.refit(step, write=False)
    tell(done=done.version, changed=done.changed)


def reporter() -> Callable[..., None]:
    """A function that reports a line of JSON on standard output, to which nobody else can print from now on."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes to the terminal

    def tell(**report: Any) -> None:
        reports.write(json.dumps(report) + "\n")
        reports.flush()

    return tell


def end_with_parent(server: int) -> None:
    """Have the system end this process with the server: compiled code may keep `_read` from noticing for long."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it ended before this was asked
            os._exit(0)


def _read(stream: IO[str], asked: queue.Queue[str]) -> None:
    for line in stream:
        asked.put(line.strip())
    os._exit(0)  # the server is gone, so nobody waits for what this process does


def warm_up() -> None:
    """Load compiled code before it is needed."""
    from bagwise.annotation import ORedLogisticRegression

    ORedLogisticRegression(background=True, max_iter=2, tol=1.0).fit(
        [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0]]], [["a", "b"], ["a"]], instance_labels=None
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
