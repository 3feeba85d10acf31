"""Files of a run folder that somebody else made: the run is opened, looked at, corrected, written and fitted again."""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from unittest import mock

from bagwise import Run
from bagwise.app.review import review
from bagwise.app.review.review import Review
from bagwise.app.runs.corrections import CorrectionLog
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_soundscape
from bagwise.io.checkpoint import Checkpoint
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import PATHS, TOKENS, change_archive, change_json

REFIT = 16  # one of so many is fitted again


class _Idle:
    """In place of the process that learns."""

    def __init__(self, run: Run, tell: Callable[..., None]):
        pass

    def start(self) -> None:
        pass

    stop = start

    def ask(self, what: str) -> None:
        pass


def review_of(run: Run) -> Review:
    """A review of a run in which nothing is learned."""
    with mock.patch.object(review, "RefitProcess", _Idle):
        return Review(run)


def make_run(folder: Path) -> Path:
    """A run over three recordings with two corrections and a refit."""
    make_soundscape(3, species_per_recording=(1, 2), random_state=5).write(folder)
    with Run.create(
        folder / "recordings", folder / "run", labels=folder / "labels.csv", model="ored", learner={"max_iter": 5},
        formats=["csv", "raven", "audacity"], page=False, jobs=1,
    ) as run:  # fmt: skip
        rows = run.annotations()
        run.correct([(row["bag"], row["instance"], "") for row in rows[:2]], by="=1+1")
        run.reject(rows[0]["bag"], sorted(run.supervision().dataset.label_sets[0])[0])
        run.undo()
        run.refit()
        drawn = run.draw_sample(4, seed=0)
        run.correct([(bag, instance, "") for bag, instance in drawn[:2]])
    with closing(review_of(Run.open(folder / "run"))) as page:
        page.draw_sample(None, 3, 0)
        page.name_reviewer("Ada")
    return folder / "run"


def use_run(path: Path, fit: bool) -> None:
    """Open a run and do what people do with it."""
    with Run.open(path) as run:
        rows = run.annotations()
        run.result()
        assert run.labels is not None
        if rows:
            run.correct([(rows[0]["bag"], rows[0]["instance"], rows[-1]["label"])], by="x")
        if fit:
            run.refit()
        run.write()
        run.undo()
        run.estimate()
        with suppress(InputError):  # all of them were drawn
            run.draw_sample(2, seed=0)
        run.estimate()
    with closing(review_of(Run.open(path))) as page:
        page.summary()
        page.history()


def of_run(pattern: str, folder: Path) -> Ready:
    """A file of a run, in place of which each input is put."""
    made = make_run(folder)
    place = sorted(made.glob(pattern))[-1].relative_to(made)  # that of the last fit

    def read(path: Path) -> None:
        out = path.parent / "run"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out, copy_function=shutil.copy2)
        shutil.copy(path, out / place)
        use_run(out, fit=zlib.crc32(path.read_bytes()) % REFIT == 0)

    return Ready([(made / place).read_bytes()], read)


def table_of_corrections(folder: Path) -> Ready:
    """A table as `bagwise correct RUN TABLE` takes it, also such as people write."""
    seeds = [
        b"bag,instance,label,action,before,by,call,time\na,0,x,label,y,me,1,2024\na,,x,absent,x,,2,\n,,,undo,2,,3,\n",
        b"bag;instance;label\na;0;x\nb;1;\n",
        b"bag,instance,label,note\na,0,x,mine\nb,,y,\n",
    ]

    def read(path: Path) -> None:
        log = CorrectionLog(path)
        log.in_force()
        log.undo()
        again = CorrectionLog(path)
        assert [entry.label for entry in again.in_force()] == [entry.label for entry in log.in_force()]

    return Ready(seeds, read)


def state_of_fit(folder: Path) -> Ready:
    """What a fit keeps to go on from."""
    import numpy as np

    Checkpoint(folder / "kept", {}, 0).save(W=np.eye(3), step=np.array(2))

    def read(path: Path) -> None:
        out = path.parent / "kept"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "kept", out)
        shutil.copy(path, out / "state.bagwise")
        Checkpoint(out, {}, 0).load()

    return Ready([(folder / "kept" / "state.bagwise").read_bytes()], read)


JSON = [*TOKENS["json"], *(f'"{path}"'.encode() for path in PATHS)]
LINES = [*TOKENS["text"], b"undo", b"absent", b"present", b"outdated", b"bag,instance,label\n", b"9" * 30, b"-1", b".0"]
Change = Callable[[bytes, random.Random], bytes]
FILES: dict[str, tuple[str, list[bytes], Change | None]] = {
    "told": (".run/supervision.json", JSON, change_json),
    "manifest": ("manifest.json", JSON, change_json),
    "corrections": ("corrections.csv", LINES, None),
    "predictions": (".run/*/predictions.bagwise", TOKENS["binary"], change_archive),
    "survey": (".run/survey.bagwise", TOKENS["binary"], change_archive),
    "samples": (".run/samples.json", JSON, change_json),
    "reviewer": (".run/reviewer.json", JSON, change_json),
    "features": (".features/*.zip", TOKENS["binary"], change_archive),
    "model": (".run/*/model.bagwise", TOKENS["binary"], change_archive),
}
KINDS = [
    *(
        Kind(f"run-{name}", partial(of_run, pattern), (Path(pattern).suffix,), tokens, deep, 0.8, names_file=False)
        for name, (pattern, tokens, deep) in FILES.items()
    ),
    Kind("corrections", table_of_corrections, (".csv",), LINES),
    Kind("checkpoint", state_of_fit, (".bagwise",), TOKENS["binary"], change_archive, names_file=False),
]
