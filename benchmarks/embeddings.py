"""Vectors of recordings by ONNX networks: times faster than real time, beside the network alone and our own features.

The networks are made here with random weights, of two sizes: about 25 and 610 million multiplications a window. What
they say means nothing, what they cost does. Times of the processor do not depend on what else the machine does.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.embedding import Embedding, read_embedding
from bagwise.app.media.media_types import MEDIA
from bagwise.app.runs._features import Source, read_files
from bagwise.datasets import make_soundscape
from benchmarks.common import SECONDS, Record, show, with_ratio

RATE, WINDOW = 16_000, 3.0
MINUTES = 5
REPEATS = 2  # of which the faster counts
BANDS, HOP, FRAME = 64, 160, 400
SIZES = {"small": (16, 32, 64, 128), "large": (96, 192, 384, 768)}


def main(quick: bool = False) -> list[Record]:
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        scene = make_soundscape(6, random_state=0)
        files = [_write(folder / "media" / f"{i}.wav", scene) for i in range(MINUTES)]
        for size in list(SIZES)[: 1 if quick else 2]:
            records += _speed(folder, files, size, 60.0 * MINUTES)
    return records


def _write(path: Path, scene: Any) -> Path:
    """A minute of sound."""
    import soundfile

    path.parent.mkdir(exist_ok=True)
    soundfile.write(path, np.concatenate(scene.recordings), scene.rate, subtype="PCM_16")
    return path


def make_network(path: Path, channels: tuple[int, ...], seed: int = 0) -> Path:
    """A network of random weights: a bank of filters as spectrogram, four convolutions, the mean of all places."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    t = np.arange(FRAME) / RATE
    bank = np.array([np.hanning(FRAME) * np.cos(2 * np.pi * f * t) for f in np.linspace(100, 7800, BANDS)])
    arrays = {"bank": bank.astype(np.float32)[:, None], "one": np.array([1]), "last": np.array([2, 3])}
    nodes = [
        helper.make_node("Unsqueeze", ["sound", "one"], ["line"]),
        helper.make_node("Conv", ["line", "bank"], ["bands"], strides=[HOP]),
        helper.make_node("Abs", ["bands"], ["loud"]),
        helper.make_node("Unsqueeze", ["loud", "one"], ["h0"]),
    ]
    before = 1
    for i, width in enumerate(channels):
        weights = rng.standard_normal((width, before, 3, 3)) / np.sqrt(9 * before)
        arrays[f"w{i}"] = weights.astype(np.float32)
        options = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("Conv", [f"h{i}", f"w{i}"], [f"c{i}"], **options))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"h{i + 1}"]))
        before = width
    nodes.append(helper.make_node("ReduceMean", [f"h{len(channels)}", "last"], ["embedding"], keepdims=0))
    graph = helper.make_graph(
        nodes, "network", [helper.make_tensor_value_info("sound", TensorProto.FLOAT, ["n", round(RATE * WINDOW)])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", channels[-1]])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, {"rate": str(RATE)})
    onnx.save_model(model, path)
    return path


def _speed(folder: Path, files: list[Path], size: str, seconds: float) -> list[Record]:
    network = make_network(folder / f"{size}.onnx", SIZES[size])
    audio = MEDIA["audio"]
    embedding = read_embedding(network, audio, {}, join=False)
    windows = audio.make_settings({"segment": "windows", "length": WINDOW, "step": WINDOW})
    kinds: dict[str, tuple[Any, Embedding | None]] = {
        "38 features of syllables": (audio.make_settings(), None),
        "windows side by side": (windows, embedding),
        "a window around each syllable": (audio.make_settings(), embedding),
    }
    rows = []
    for name, (settings, vectors) in kinds.items():
        for jobs in (1, 2):
            _timed(folder, files[:jobs], settings, vectors, jobs)  # starts processes and loads the network
            taken, used, n = min(_timed(folder, files, settings, vectors, jobs) for _ in range(REPEATS))
            rows.append({
                "network": "-" if vectors is None else size, "instances": name, "number": n, "processes": jobs,
                "seconds taken": taken, "times real time": seconds / taken,
                "of the processor": None if jobs > 1 else seconds / used,
            })  # fmt: skip
    alone, used_alone = min(_by_hand(network, files) for _ in range(REPEATS))
    rows.append({
        "network": size, "instances": "windows, onnxruntime by hand", "number": 20 * len(files), "processes": 1,
        "seconds taken": alone, "times real time": seconds / alone, "of the processor": seconds / used_alone,
    })  # fmt: skip
    show(f"Recordings to vectors, windows of {WINDOW:g} s at {RATE} Hz", rows, left=("network", "instances"))
    records = [
        with_ratio(
            {"part": "speed", **row}, f"{row['instances']}, network {row['network']}, {row['processes']} process(es)",
            "real time", row["times real time"],
        )
        for row in rows
    ]  # fmt: skip
    ours = next(row for row in rows if row["instances"].startswith("windows side") and row["processes"] == 1)
    ratio = seconds / used_alone / ours["of the processor"]
    records.append(
        with_ratio(
            {"part": "overhead", "network": size}, f"windows, network {size}", "onnxruntime alone", ratio, unit=SECONDS
        )
    )
    return records


def _timed(
    folder: Path, files: list[Path], settings: Any, vectors: Embedding | None, jobs: int
) -> tuple[float, float, int]:
    """Seconds, those of the processor, and instances: all files anew, as `bagwise annotate` reads.

    The processor's are those of this process and of the network's, which is started and ended in this time.
    """
    with tempfile.TemporaryDirectory() as run:
        (Path(run) / ".features").mkdir()
        started, used = time.perf_counter(), _of_the_processor()
        done = read_files(
            Source(folder / "media", MEDIA["audio"], settings, [file.name for file in files], vectors=vectors),
            Path(run), jobs, lambda what, done, total: None,
        )  # fmt: skip
        taken, used = time.perf_counter() - started, _of_the_processor() - used
    assert not done.errors, done.errors
    return taken, used, sum(sum(bags.sizes) for bags in done.bags.values())


def _of_the_processor() -> float:
    """Seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _by_hand(network: Path, files: list[Path]) -> tuple[float, float]:
    """Seconds, and those of the processor, of the network itself on the same windows, sixteen at a time."""
    import onnxruntime
    import soundfile

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(network.read_bytes(), options)
    n = round(RATE * WINDOW)
    taken, used = 0.0, 0.0
    for file in files:
        samples = soundfile.read(file, dtype="float32")[0]
        windows = samples[: len(samples) // n * n].reshape(-1, n)
        started, begun = time.perf_counter(), time.process_time()
        for i in range(0, len(windows), 16):
            session.run(None, {"sound": windows[i : i + 16]})
        taken, used = taken + time.perf_counter() - started, used + time.process_time() - begun
    return taken, used
