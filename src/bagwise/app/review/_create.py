"""Making a run in a process of its own, which reports by lines of JSON: ``step``, ``remark``, ``done`` or ``failed``.

It can be killed at any moment: what is finished is kept, and making the same run again goes on from there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from bagwise.app.review._refit import end_with_parent, reporter, what_failed

Report = dict[str, Any]
GRACE = 10.0  # seconds to end in


class Creation:
    """The process that makes a run.

    Parameters
    ----------
    source, labels, out : path
    tell : callable
        Called from another thread with each report; with ``ended`` and the exit code after the last.
    """

    def __init__(self, source: Path, labels: Path, out: Path, tell: Callable[[Creation, Report], None]):
        self._tell, self._is_ending = tell, False
        started: Future[subprocess.Popen[str]] = Future()
        arguments = [str(source), str(labels), str(out), str(os.getpid())]
        threading.Thread(target=self._live, args=(started, arguments), daemon=True).start()
        self._process = started.result()

    def stop(self) -> None:
        """End it, as Ctrl-C would, so that its own processes end too."""
        if sys.platform != "win32" and not self._is_ending:
            self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._process.kill()
        self._process.wait()

    def _live(self, started: Future[subprocess.Popen[str]], arguments: list[str]) -> None:
        """Start the process and listen to it, in one thread: to Linux the one that starts a process is its parent."""
        command = [sys.executable, "-m", "bagwise.app.review._create", *arguments]
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                report = json.loads(line)
                self._is_ending = "done" in report or "failed" in report
                self._tell(self, report)
        self._tell(self, {"ended": process.wait()})


def main(source: Path, labels: Path, out: Path, server: int) -> None:
    """Make the run."""
    end_with_parent(server)
    tell = reporter()
    try:
        from bagwise.app.runs.first_look import look_first

        look_first(source, labels, None, None, has_model=False)
        from bagwise.app.runs import Run

        with Run.create(
            source,
            out,
            labels=labels,
            progress=lambda what, done, total: tell(step=[what, done, total]),
            say=lambda text: tell(remark=text),
        ) as run:
            result = run.result()
            shown = result.annotations.shown()
            tell(
                done={
                    "files": len(result.annotations.files),
                    "instances": result.annotations.n_instances,
                    "named": len(shown),
                    "expected": result.expected or "",
                    "problems": [message for _, message in result.problems],
                }
            )
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        tell(failed=what_failed(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
