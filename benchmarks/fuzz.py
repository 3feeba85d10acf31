"""`make fuzz`: damaged, mutated and made-up files for every reader.

A reader must give a data set or one of our own errors, in one line that names the file; no crash, no hang over ten
seconds, no memory beyond 1 GB. A model that loads is also used (`benchmarks.fuzz_models`). Each reader runs in a
process of its own, so that a crash is seen and reported with the input that brought it about (in ``fuzz-output/``).
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty
from typing import Any

import click
import numpy as np

from bagwise.bags import Bags
from bagwise.dataset import BagDataset
from bagwise.exceptions import BagwiseError
from benchmarks.fuzz_models import model_seeds, mutate_parts, use_model

SECONDS = 10
MEMORY = 1 << 30
MEMORY_LIMIT = 200_000_000  # what one array of a reader may take, so that the whole stays below MEMORY
INTERESTING = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    14,
    15,
    16,
    63,
    64,
    127,
    128,
    255,
    1 << 15,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
]
TOKENS = {
    "text": [
        b",", b";", b"\t", b"\n", b"\r\n", b'"', b"'", b"\\", b"\0", b"nan", b"inf", b"-", b"1e999", b"1,5", b"1_0",
        b"\xef\xbb\xbf", b"\xff\xfe", b"=1+1", b"bag", b"labels", b"label:x", b"\xc3\xa4", b"\xe2\x80\xa8", b" ",
        b"0", b"1", b"9" * 400, b"bag_name", b"instance_label", b"labelled", b"location", b"{}", b"file,label\n",
    ],
    "arff": [
        b"@data\n", b"@attribute a relational\n", b"@end a\n", b"@attribute x numeric\n", b"{0,1}", b"%", b"\\n",
        b"'", b'"', b",", b"@relation r\n", b"?", b"\n",
    ],
    "xml": [
        b"<label name='x'/>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"&#0;", b"<![CDATA[", b"]]>",
        b"<?xml version='1.1'?>", b"encoding='utf-7'", b"</labels>", b"<labels>", b"name=''",
    ],
    "binary": [
        b"\0" * 8, b"\xff" * 8, b"\x0e\0\0\0", b"\x0f\0\0\0", b"PAR1", b"PK\x03\x04", b"PK\x01\x02", b"\x93NUMPY\x01\0",
    ],
}  # fmt: skip


def mutate(raw: bytes, other: bytes, tokens: list[bytes], rng: random.Random) -> bytes:
    """One to eight changes of a file."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(10)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.choice((1, 2, 4, 16, 100))]
        elif kind == 4:
            data[at:at] = rng.choice(tokens)
        elif kind == 5:
            token = rng.choice(tokens)
            data[at : at + len(token)] = token
        elif kind == 6:
            size = rng.choice((1, 2, 4, 8))
            number = rng.choice(INTERESTING) & ((1 << 8 * size) - 1)
            data[at : at + size] = number.to_bytes(size, rng.choice(("little", "big")))
        elif kind == 7:
            start = rng.randrange(len(data) + 1)
            data[at:at] = data[start : start + rng.choice((1, 8, 64, 500))]
        elif kind == 8:
            start = rng.randrange(len(other) + 1)
            data[at:] = other[start:]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
    return bytes(data[: 1 << 20])


# ---------------------------------------------------------------------------------------------------------------------
# Readers and the files to start from


@dataclass(frozen=True)
class Target:
    """A reader, sound files to begin with, and how (and how often) to look deeper than the outermost bytes."""

    read: Callable[[Path], Any]
    ending: str
    seeds: list[bytes]
    tokens: list[bytes]
    deep: Callable[[bytes, random.Random], bytes] | None = None
    errors: tuple[type[BaseException], ...] = (BagwiseError,)
    share: float = 0.5
    make_seeds: Callable[[Path], list[bytes]] | None = None  # where making them takes a while


def make_datasets() -> list[BagDataset]:
    """Small data sets of all kinds."""
    rng = np.random.default_rng(0)
    out = []
    for precision, c, named in ((np.float64, 2, True), (np.float32, 1, False), (np.float64, 1, True)):
        offsets, labelled = np.array([0, 2, 3, 6, 7]), np.array([True, True, not named, True])
        bags = Bags(rng.normal(size=(7, 3)).astype(precision), offsets)
        out.append(
            BagDataset(
                bags=bags, Y=rng.integers(0, 2, (4, c)) * labelled[:, None], class_names=["wren", "grün"][:c],
                labelled=labelled,
                instance_labels=Bags(rng.integers(-1, c, 7), offsets) if named else None,
                bag_names=["a", "b", "ü", "d"] if named else None, feature_names=["x", "y", "größe"] if named else None,
                locations={"file": ["a.wav"] * 7, "start": np.arange(7) / 2} if named else None,
            )
        )  # fmt: skip
    return out


def seeds_of(format_name: str, folder: Path) -> list[bytes]:
    from bagwise.io.data.formats import FORMATS

    out = []
    for i, dataset in enumerate(make_datasets()):
        path = folder / f"seed{i}{FORMATS[format_name].extension}"
        try:
            FORMATS[format_name].write(dataset, path)
        except BagwiseError:
            continue
        out.append(path.read_bytes())
    return out


def make_targets(folder: Path) -> dict[str, Target]:
    """All readers of files that somebody else may have made."""
    import bagwise
    from bagwise.featurize.wav_notes import noted_time
    from bagwise.io.data.arff import read_label_names
    from bagwise.io.data.formats import FORMATS, read_dataset
    from bagwise.io.labels import read_labels
    from bagwise.workflow.sites import read_sites

    kinds = {"csv": "text", "miml-csv": "text", "musk": "text", "arff": "arff"}
    deep = {"npz": mutate_npz, "lamda-mat": remat, "mil-mat": remat, "parquet": reparquet, "parquet-nested": reparquet}
    targets = {
        name: Target(
            (lambda path, name=name: FORMATS[name].read(path)), fmt.extension, seeds_of(name, folder),
            TOKENS[kinds.get(name, "binary")], deep.get(name),
        )
        for name, fmt in FORMATS.items()
    }  # fmt: skip
    labels = [b"file,label\na,x\na,y\nb,x\n", b'file;labels\na;"x;y"\nb;x\n', b"file\tx\ty\na\t1\t0\nb\t0\t1\n"]
    targets["labels"] = Target(read_labels, ".csv", labels, TOKENS["text"])
    targets["labels-parquet"] = Target(read_labels, ".parquet", label_tables(), TOKENS["binary"], reparquet)
    targets["labels-xlsx"] = Target(read_labels, ".xlsx", label_sheets(), TOKENS["xml"], mutate_npz)
    xml = [b'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="u">\n<label name="a"/>\n<label name="b"/></labels>']
    both = targets["parquet"].seeds + targets["parquet-nested"].seeds
    targets["parquet-parts"] = Target(read_parts, ".parquet", both, TOKENS["binary"], reparquet)
    targets["xml"] = Target(read_label_names, ".xml", xml, TOKENS["xml"])
    sites = [
        b"site,latitude,longitude,time_zone\npond,52.1,11.5,Europe/Berlin\nhill,-33,151,\n",
        b"latitude;site;longitude\n1;a;2\n",
    ]
    targets["sites"] = Target(read_sites, ".csv", sites, [*TOKENS["text"], b"latitude", b"91", b"../..", b"UTC"])
    targets["wav-notes"] = Target(
        noted_time, ".wav", wav_notes(), [*TOKENS["binary"], b"guan", b"LIST", b"bext", b"data"]
    )
    everything = [seed for target in list(targets.values()) for seed in target.seeds]
    targets["any"] = Target(read_dataset, "", everything, TOKENS["text"] + TOKENS["binary"])
    model = bagwise.ORedLogisticRegression(max_iter=3, tol=10.0).fit(
        make_datasets()[0].bags, [{"a"}, {"b"}, {"a"}, {"b"}]
    )
    bagwise.save(model, folder / "m.bagwise")
    raw = (folder / "m.bagwise").read_bytes()
    targets["model"] = Target(bagwise.load, ".bagwise", [raw], TOKENS["binary"], mutate_model)
    targets["model-use"] = Target(
        use_model, ".bagwise", [], TOKENS["binary"], mutate_parts, share=0.95, make_seeds=model_seeds
    )
    return targets


def label_tables() -> list[bytes]:
    """Tables of labels as parquet, in all forms."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = []
    for columns in (
        {"file": ["a", "a", "b"], "label": ["x", "y", None]},
        {"file": ["a", "b"], "labels": [["x", "grün"], []]},
        {"file": ["a", "b"], "x": [1, 0], "y": [True, False]},
    ):
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer)
        out.append(buffer.getvalue())
    return out


def label_sheets() -> list[bytes]:
    """Tables of labels as spreadsheets, in all forms; one with merged cells and a formula."""
    import openpyxl

    out = []
    for rows in (
        [["file", "label"], ["a", "x"], [None, "grün"], ["b", "=1+1"]],
        [["file", "labels"], ["a", "x;y"], ["b", None]],
        [["file", "x", "y"], ["a", 1, 0], ["b", True, False]],
    ):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        if rows[2][0] is None:
            book.active.merge_cells("A2:A3")
        buffer = io.BytesIO()
        book.save(buffer)
        out.append(buffer.getvalue())
    return out


def wav_notes() -> list[bytes]:
    """WAV files of no sound with what recorders note in them."""
    guano = b"GUANO|Version: 1.0\nTimestamp: 2024-05-01T05:30:00.25+02:00\n"
    comment = b"INFOICMT\x40\0\0\0Recorded at 05:30:00 01/05/2024 (UTC+2) by AudioMoth at medium gain\0"
    notes = {b"guan": guano, b"LIST": comment, b"bext": bytes(320) + b"2024-05-0105:30:00" + bytes(264)}
    chunks = [
        name + len(content).to_bytes(4, "little") + content + bytes(len(content) % 2) for name, content in notes.items()
    ]
    return [b"RIFF\0\0\0\0WAVEdata\2\0\0\0\0\0" + chunk for chunk in [*chunks, b"".join(chunks)]]


def read_parts(path: Path) -> list[BagDataset]:
    """A parquet file as prediction reads it."""
    from bagwise.io.data.parquet import ParquetBags

    return list(ParquetBags(path).iter_bags())


def mutate_npz(raw: bytes, rng: random.Random) -> bytes:
    """Change an array inside the zip, so that its checksum is right again."""
    return _rezip(raw, rng, zipfile.ZIP_DEFLATED)


def mutate_model(raw: bytes, rng: random.Random) -> bytes:
    """Change a member of the model file."""
    return _rezip(raw, rng, zipfile.ZIP_STORED)


def _rezip(raw: bytes, rng: random.Random, compression: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = rng.choice(list(members))
    tokens = TOKENS["binary"] + [
        b"'shape': (9999999999,)",
        b"'descr': '|O'",
        b"-1",
        b"1e999",
        b"null",
        b"[]",
        b"{}",
        b'"',
    ]
    members[chosen] = mutate(members[chosen], members[rng.choice(list(members))], tokens, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def remat(raw: bytes, rng: random.Random) -> bytes:
    """A MATLAB file without compression, so that changes reach its structure."""
    from scipy.io import loadmat, savemat

    buffer = io.BytesIO()
    content = {key: value for key, value in loadmat(io.BytesIO(raw)).items() if not key.startswith("__")}
    savemat(buffer, content, do_compression=False)
    return mutate(buffer.getvalue(), raw, TOKENS["binary"], rng)


def reparquet(raw: bytes, rng: random.Random) -> bytes:
    """A parquet file without compression and dictionaries, or with other columns, before it is changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(raw))
    kind = rng.randrange(4)
    if kind == 0:
        names = table.column_names
        names[rng.randrange(len(names))] = rng.choice(
            ["bag", "labels", "labelled", "x", "label:x", "instances", "instance_label", "location"]
        )
        table = table.rename_columns(names)
    elif kind == 1:
        column = rng.randrange(table.num_columns)
        value = rng.choice([None, b"\xff\xfe", [], {"a": 1}, True, float("nan"), "x", 10**18, [[1.0]]])
        strange = pa.array([value] * table.num_rows)
        table = table.set_column(column, table.column_names[column], strange)
    elif kind == 2:
        about = mutate(
            b'{"version": 1, "class_names": ["wren", "gr"], "feature_names": ["x"]}', b"{}", [b"[", b"1", b"null"], rng
        )
        table = table.replace_schema_metadata({b"bagwise": about})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="none", use_dictionary=False)
    return (
        buffer.getvalue() if kind < 3 and rng.random() < 0.5 else mutate(buffer.getvalue(), raw, TOKENS["binary"], rng)
    )


# ---------------------------------------------------------------------------------------------------------------------
# Running


@dataclass
class Outcome:
    """What came of the inputs of one reader."""

    reader: str
    n_inputs: int = 0
    n_read: int = 0
    n_refused: int = 0
    slowest: float = 0.0
    peak_bytes: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)


def make_input(target: Target, rng: random.Random) -> bytes:
    seed = rng.choice(target.seeds)
    if target.deep is not None and rng.random() < target.share:
        return target.deep(seed, rng)
    if rng.random() < 0.02:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    return mutate(seed, rng.choice(target.seeds), target.tokens, rng)


def try_input(target: Target, path: Path) -> tuple[bool, str | None]:
    """Whether the file was read, and what was wrong with the way it was refused, if anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(path)
    except target.errors as error:
        text = str(error)
        if "\n" in text.replace(str(path), ""):
            return False, f"the message has several lines: {text[:200]!r}"
        if path.name not in text:
            return False, f"the message does not name the file: {text[:200]!r}"
        return False, None
    except Exception:
        return False, traceback.format_exc(limit=-6)
    return True, None


def fuzz_reader(name: str, count: int, seed: int, folder: Path, keep: Path | None = None) -> Outcome:
    """Give a reader so many inputs, one after the other as a file in `folder`; those that fail are copied to `keep`."""
    outcome = Outcome(name)
    (folder / "seeds").mkdir()
    target = make_targets(folder / "seeds")[name]
    if target.make_seeds is not None:
        target = replace(target, seeds=target.make_seeds(folder / "seeds"))
    endings = [".csv", ".npz", ".mat", ".parquet", ".arff", ".data", ""] if not target.ending else [target.ending]
    rng = random.Random(f"{name} {seed}")
    if target.make_seeds is not None:  # what is compiled once is compiled outside of the limit of time
        for i, raw in enumerate(target.seeds):
            path = folder / f"seed{target.ending}"
            path.write_bytes(raw)
            if try_input(target, path) != (True, None):
                outcome.failures.append({"input": -1, "problem": f"the sound file {i} was refused"})
    for i in range(count):
        path = folder / f"input{rng.choice(endings)}"
        path.write_bytes(make_input(target, rng))
        started = time.perf_counter()
        was_read, problem = _in_time(target, path)
        outcome.slowest = max(outcome.slowest, time.perf_counter() - started)
        outcome.n_inputs += 1
        outcome.n_read += was_read
        outcome.n_refused += not was_read and problem is None
        if problem is not None:
            outcome.failures.append({"input": i, "problem": problem})
            if keep is not None and len(outcome.failures) <= 20:
                shutil.copy(path, keep / f"{name}-{seed}-{i}{path.suffix}")
        path.unlink()
    outcome.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return outcome


class _TimeOut(BaseException):
    """Not an Exception, so that no reader takes it for one of its own."""


def _on_alarm(*_: Any) -> None:
    raise _TimeOut


def _in_time(target: Target, path: Path) -> tuple[bool, str | None]:
    """`try_input`, cut off after some seconds of the processor: a machine may have other work."""
    old = signal.signal(signal.SIGPROF, _on_alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return try_input(target, path)
    except _TimeOut:
        return False, f"no answer within {SECONDS} seconds of the processor"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def _work(name: str, count: int, seed: int, folder: Path, keep: Path, queue: Any) -> None:
    os.environ["BAGWISE_MEMORY_LIMIT"] = str(MEMORY_LIMIT)
    queue.put(fuzz_reader(name, count, seed, folder, keep))


@click.command()
@click.option("--count", type=int, default=100_000, show_default=True, help="Inputs a reader.")
@click.option("--reader", "readers", multiple=True, help="Only these; by default all.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("fuzz-output"), show_default=True)
def main(count: int, readers: tuple[str, ...], seed: int, out: Path) -> None:
    """Try every reader on mutated files; exit code 1 if one crashed, hung, grew or raised anything but our errors."""
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as temporary:
        names = list(readers) or list(make_targets(Path(temporary)))
    bad = False
    click.echo(f"{'reader':<15} {'inputs':>8} {'read':>8} {'refused':>8} {'failed':>7} {'slowest':>9} {'peak':>8}")
    for name in names:
        place = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with tempfile.TemporaryDirectory(dir=place) as temporary:
            queue = context.Queue()
            process = context.Process(target=_work, args=(name, count, seed, Path(temporary), out, queue))
            process.start()
            outcome = None
            while outcome is None and process.is_alive():
                with suppress(Empty):  # still at work, or dead
                    outcome = queue.get(timeout=1.0)
            process.join()
            if outcome is None:
                bad = True
                click.echo(f"{name:<15} died with exit code {process.exitcode}; its last input is in {out}")
                for path in Path(temporary).glob("input*"):
                    shutil.copy(path, out / f"{name}-{seed}-crash{path.suffix}")
                continue
        failed = len(outcome.failures)
        bad |= failed > 0 or outcome.peak_bytes > MEMORY
        click.echo(
            f"{name:<15} {outcome.n_inputs:>8} {outcome.n_read:>8} {outcome.n_refused:>8} {failed:>7} "
            f"{outcome.slowest:>8.2f}s {outcome.peak_bytes / 2**20:>5.0f}MiB"
        )
        (out / f"{name}.json").write_text(json.dumps(vars(outcome), indent=1))
        for failure in outcome.failures[:3]:
            click.echo(f"  input {failure['input']}: {failure['problem']}")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
