"""The application half beside an earlier revision of it: files that a command walks through, places to touch, speed.

The earlier revision is checked out from the repository's own history (`BAGWISE_BEFORE` names another one), and both run
in turns in processes of their own, on data that the project makes and, where it is there, on HJA.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bagwise.datasets import make_soundscape
from benchmarks.common import SECONDS, Record, data_folder, show, with_ratio

ROOT = Path(__file__).parents[1]
BEFORE = os.environ.get("BAGWISE_BEFORE", "ef82c31")
HALF = ("workflow", "io", "report", "cli", "featurize", "demo", "review")
LOOSE = ("batch.py", "training.py", "demo.py", "soundscape_demo.py", "columns.py", "datasets/npz.py")
EXAMPLES = {  # an old member of each kind: word by which it is known, and its own files
    "a medium": ("series", ("featurize/series.py",)),
    "an annotation format": ("raven", ("io/media/raven.py", "io/annotations/raven.py")),
    "an annotator": ("CLPL", ("annotation/clpl.py",)),
}
WALK = """
import json, sys, threading
from pathlib import Path
seen = set()
def look(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # of functions, not of modules and classes that are imported
        seen.add(frame.f_code.co_filename)
from bagwise.app.cli import main
threading.setprofile(look)
sys.setprofile(look)
try:
    main(sys.argv[1:])
except SystemExit:
    pass
sys.setprofile(None)
print("\\n" + json.dumps(sorted({p for p in seen if "/bagwise/" in p and p.endswith(".py")})))
"""


@contextmanager
def earlier() -> Iterator[Path | None]:
    """A checkout of the earlier revision, None where the history does not hold it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "before"
        made = subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(place), BEFORE],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            print(f"  the revision {BEFORE} is not in this repository: only today's figures")
            yield None
            return
        try:
            yield place
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(place)], check=False)


def call(tree: Path, code: list[str]) -> tuple[float, str]:
    """Seconds and output of Python on one of the trees."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *code], env=environment, capture_output=True, text=True, check=False, cwd=tree
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr[-2000:])
    return time.perf_counter() - started, done.stdout


def walks(trees: dict[str, Path], folder: Path) -> list[Record]:
    """Files of the package in which a function runs while a command does."""
    made = make_soundscape(4, seconds=4.0, random_state=0)
    sounds, labels, _ = made.write(folder / "small")
    table = ROOT / "docs" / "formats" / "examples" / "birds.csv"
    records = []
    for name, tree in trees.items():
        out = folder / f"walk-{name}"
        commands = {
            "annotate": ["annotate", str(sounds), "--labels", str(labels), "--out", str(out), "--jobs", "1", "--quiet"],
            "fit": ["fit", str(table), "--out", str(folder / f"{name}.bagwise"), "--quiet"],
        }
        for command, arguments in commands.items():
            _, output = call(tree, ["-c", WALK, *arguments])
            records.append(
                {"version": name, "command": command, "files walked": len(json.loads(output.split("\n")[-2]))}
            )
    return records


def places(trees: dict[str, Path]) -> list[Record]:
    """Lines of the package, outside of its own file, that name a member of each kind: what a new one has to touch."""
    records = []
    for name, tree in trees.items():
        package = tree / "src" / "bagwise"
        for kind, (word, own) in EXAMPLES.items():
            found = {
                (path.relative_to(package).as_posix(), line)
                for path in package.rglob("*.py")
                if path.relative_to(package).as_posix() not in own
                for line in naming_lines(path, word)
            }
            files = {file for file, _ in found}
            records.append({"version": name, "for": kind, "places": len(found), "in files": len(files)})
    return records


def naming_lines(path: Path, word: str) -> set[int]:
    """Lines of code, not of text, in which a word stands alone: a name, a key, an import."""
    lines = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[Any] = []
        if isinstance(node, ast.Constant):
            names = [node.value]
        elif isinstance(node, ast.Name):
            names = [node.id]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.alias):
            names = [node.name]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = node.module.split(".")
        if any(isinstance(name, str) and name.strip(".").casefold() == word.casefold() for name in names):
            lines.add(node.lineno)
    return lines


def sizes(trees: dict[str, Path]) -> list[Record]:
    """Lines of the application half."""
    records = []
    for name, tree in trees.items():
        package = tree / "src" / "bagwise"
        files = [path for room in HALF for path in sorted((package / room).rglob("*.py"))]
        files += [package / loose for loose in LOOSE if (package / loose).is_file()]
        record: Record = {"version": name, "files": len(files), "lines": sum(map(_lines, files))}
        for room in HALF:
            record[room] = sum(map(_lines, (package / room).rglob("*.py")))
        records.append(record)
    return records


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def speed(trees: dict[str, Path], folder: Path, repeats: int) -> list[Record]:
    """Whole commands in turns: annotate on the demo's soundscapes, fit on HJA."""
    made = make_soundscape(60, random_state=0)
    sounds, labels, _ = made.write(folder / "demo")
    data = data_folder()
    commands = {"annotate, 60 soundscapes": lambda out: [
        "annotate", str(sounds), "--labels", str(labels), "--out", str(out / "run"), "--quiet"]}  # fmt: skip
    if data is not None:
        commands["fit, HJA"] = lambda out: ["fit", str(data / "hja_birdsong.npz"), "--out", str(out / "m"), "--quiet"]
    records = []
    for what, arguments in commands.items():
        best: dict[str, float] = {}
        for turn in range(repeats):
            for name, tree in trees.items():
                with tempfile.TemporaryDirectory(dir=folder) as out:
                    seconds, _ = call(tree, ["-m", "bagwise.app.cli", *arguments(Path(out))])
                best[name] = min(best.get(name, seconds), seconds) if turn else seconds
        ratio = best["now"] / best["before"] if "before" in best else None
        record: Record = {
            "what": what,
            **{f"{name} s": seconds for name, seconds in best.items()},
            "now / before": ratio,
        }
        records.append(with_ratio(record, what, f"revision {BEFORE}", ratio, unit=SECONDS, asked="1"))
    return records


def main(quick: bool = False) -> list[Record]:
    """Print the tables and return their records."""
    with tempfile.TemporaryDirectory() as name, earlier() as before:
        trees = {"now": ROOT} if before is None else {"before": before, "now": ROOT}
        folder = Path(name)
        records = {
            "Files that a command walks through": walks(trees, folder),
            "Places to touch outside of its own file": places(trees),
            "Lines of the application half": sizes(trees),
            "Whole commands, first start of Python included": speed(trees, folder, 2 if quick else 5),
        }
    for title, rows in records.items():
        show(title, rows)
    return [record for rows in records.values() for record in rows]


if __name__ == "__main__":
    main("--quick" in sys.argv)
