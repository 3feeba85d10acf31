"""`make fuzz-guided`: inputs that are led by which code they reach, with atheris, some minutes of each kind.

The same kinds as `make fuzz`. The Python code that reads is instrumented, but for what numba compiles; native libraries
(libsndfile, Pillow, Arrow) are not, so that their branches guide nothing. Corpora, finds and what libFuzzer tells are
in ``fuzz-output/guided``; a second call goes on from the corpora.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

import atheris
import click

SOURCE = Path(__file__).parents[2] / "src"
COMPILED = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if "numba" in path.read_text(encoding="utf-8")
]
with atheris.instrument_imports(
    include=["bagwise", "html", "_markupbase", "zipfile", "docx", "openpyxl", "pypdf"], exclude=COMPILED
):
    from benchmarks.fuzz.blind import prepare
    from benchmarks.fuzz.kinds import Kind, find_kinds
    from benchmarks.fuzz.mutate import LARGEST
    from benchmarks.fuzz.running import MEMORY, MEMORY_LIMIT, limit_memory, place_of, try_input

    KINDS = find_kinds()  # once; each kind is then tried in a copy of this process

LEAST = 5  # seconds that are worth a new start after a crash
STUCK = 300  # seconds of the clock after which libFuzzer ends a process that is not even interrupted


@click.command()
@click.option("--minutes", type=float, default=10.0, show_default=True, help="Of each kind.")
@click.option("--kind", "names", multiple=True, help="Only these; by default all.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("fuzz-output/guided"), show_default=True)
def main(minutes: float, names: tuple[str, ...], out: Path) -> None:
    """Look for inputs that crash, hang, grow or raise anything but our errors; exit code 1 if there are any."""
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    bad = False
    click.echo(f"{'kind':<28} {'inputs':>9} {'reached':>8} {'finds':>6}")
    for name in names or KINDS:
        log = out / f"{name}.log"
        log.unlink(missing_ok=True)
        deadline = time.monotonic() + 60 * minutes
        while (left := deadline - time.monotonic()) > LEAST:
            if not _crashes(KINDS[name], round(left), out):
                break
        told = log.read_text(errors="replace")
        counts = re.findall(r"number_of_executed_units: (\d+)", told)
        reached = re.findall(r"\bcov: (\d+)", told)
        finds = sorted(
            path
            for path in (out / "finds" / name).glob("*")
            if path.suffix != ".txt" and not path.name.startswith("slow-unit")
        )
        click.echo(f"{name:<28} {sum(map(int, counts)):>9} {reached[-1] if reached else '?':>8} {len(finds):>6}")
        for path in finds:
            about = path.with_suffix(".txt")
            click.echo(f"  {path.name}: {about.read_text().splitlines()[0] if about.exists() else 'it crashed'}")
        if not counts:
            click.echo(f"  nothing was tried; {log} says why")
        bad |= bool(finds) or not counts
    raise SystemExit(1 if bad else 0)


def _crashes(kind: Kind, seconds: int, out: Path) -> bool:
    """Try a kind in a copy of this process; gives whether that crashed, so that another one may go on."""
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        child = os.fork()
        if child == 0:
            log = os.open(out / f"{kind.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            try:
                _fuzz(kind, seconds, Path(folder), out)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def _fuzz(kind: Kind, seconds: int, folder: Path, out: Path) -> None:
    """Never comes back; of each place one find is kept, and beside it what it is."""
    os.environ["BAGWISE_MEMORY_LIMIT"] = str(MEMORY_LIMIT)
    tempfile.tempdir = str(folder)
    os.chdir(folder)
    ready, _ = prepare(kind, folder)
    corpus, finds = out / "corpus" / kind.name, out / "finds" / kind.name
    corpus.mkdir(parents=True, exist_ok=True)
    finds.mkdir(parents=True, exist_ok=True)
    for raw in ready.seeds:
        (corpus / hashlib.sha1(raw).hexdigest()).write_bytes(raw)
    known = {path.stem for path in finds.glob("*.txt")}

    def try_bytes(raw: bytes) -> None:
        ending = kind.endings[hashlib.sha1(raw).digest()[0] % len(kind.endings)]
        path = folder / f"input{ending}"
        path.write_bytes(raw)
        _, problem = try_input(kind, ready, path, folder)
        label = "" if problem is None else hashlib.sha1(place_of(problem).encode()).hexdigest()[:12]
        if problem is not None and label not in known:
            known.add(label)
            (finds / f"{label}{ending}").write_bytes(raw)
            (finds / f"{label}.txt").write_text(f"{place_of(problem)}\n{problem}\n")
        path.unlink(missing_ok=True)

    def change(raw: bytes, most: int, seed: int) -> bytes:
        """A change of what lies inside of a container, as often as blindly; else one of libFuzzer's."""
        rng = random.Random(seed)
        if kind.deep is not None and rng.random() < kind.share:
            try:
                return kind.deep(raw, rng)[:most]
            except Exception:  # it is a container no more
                pass
        return atheris.Mutate(raw, most)

    words = folder / "words"
    lines = ("".join(f"\\x{byte:02x}" for byte in token[:60]) for token in kind.tokens if token)
    words.write_text("".join(f'"{line}"\n' for line in lines))
    limit_memory()
    options = [
        f"-max_total_time={seconds}", f"-artifact_prefix={finds}/", f"-dict={words}", f"-timeout={STUCK}",
        f"-rss_limit_mb={2 * MEMORY >> 20}", f"-max_len={LARGEST}", "-print_final_stats=1", "-reload=0",
    ]  # fmt: skip
    own = {} if kind.deep is None else {"custom_mutator": change}
    atheris.Setup([sys.argv[0], str(corpus), *options], try_bytes, **own)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
