"""Small hand-made annotations of each medium, with names that break careless writers."""

from pathlib import Path

import numpy as np

from bagwise.app.formats import Annotations
from bagwise.app.media.media_types import MEDIA

ABOUT = {"model": "ored-background", "version": "1.2.3", "medium": "", "settings": {"window": 10.0}}


def finding(label, probability=0.9, runner_up="", noise=0.05, mode="transductive", bag="", instance=0):
    return {
        "label": label, "probability": probability, "runner_up": runner_up, "noise": noise, "mode": mode, "bag": bag,
        "instance": instance,
    }  # fmt: skip


def sounds(folder=None):
    """Three recordings, the second silent; a formula, a tab and letters outside of ASCII among the names."""
    place = {"start": 0.5, "end": 1.25, "low": 2000.0, "high": 3500.5}
    rows = [
        {"file": "a.wav", **place, **finding("Zaunkönig", 0.9, "=1+1", bag="a.wav")},
        {"file": "a.wav", **place, "start": 2.0, "end": 2.5, **finding("=1+1", 0.8, bag="a.wav", instance=1)},
        {"file": "a.wav", **place, **finding("Zaunkönig", 0.1, noise=0.9, bag="a.wav", instance=2)},
        {"file": "sub/c.wav", **place, **finding("tab\there", 0.75, mode="inductive", bag="sub/c.wav@0")},
        {"file": "sub/c.wav", **place, **finding("", 0.0, noise=1.0, bag="sub/c.wav@0", instance=1)},
    ]
    files = [
        {"file": "a.wav", "seconds": 10.0, "rate": 16000, "channels": 1},
        {"file": "b.wav", "seconds": 7.5, "rate": 16000, "channels": 1},
        {"file": "sub/c.wav", "seconds": 10.0, "rate": 16000, "channels": 1},
    ]
    return Annotations(
        MEDIA["audio"], rows, files, ["=1+1", "Zaunkönig", "tab\there"], {**ABOUT, "medium": "audio"},
        Path("recordings"), 0.5,
    )  # fmt: skip


def pictures(folder="."):
    region = {"polygon": [[10.0, 20.0], [60.0, 20.0], [60.0, 50.0], [10.0, 50.0]], "area": 1500}
    region |= {"left": 10, "top": 20, "width": 50, "height": 30}
    rows = [
        {"file": "a.png", **region, **finding("Kuh", 0.6, "Gras", bag="a.png")},
        {"file": "a.png", **region, **finding("Gras", None, noise=None, bag="a.png", instance=1)},
    ]
    files = [
        {"file": "a.png", "width": 100, "height": 80},
        {"file": "empty.png", "width": 10, "height": 10},
    ]
    return Annotations(MEDIA["image"], rows, files, ["Gras", "Kuh"], {**ABOUT, "medium": "image"}, folder, 0.5)


TEXT = "Ärger im Dorf & <Stadt>. The cow jumped over the moon."


def texts(folder):
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")
    rows = [
        {"file": "a.txt", "start": 0, "end": 24, **finding('"news" <&>', 0.7, bag="a.txt")},
        {"file": "a.txt", "start": 25, "end": 54, **finding("tale", 0.95, bag="a.txt", instance=1)},
    ]
    files = [{"file": "a.txt", "characters": len(TEXT)}]
    return Annotations(MEDIA["text"], rows, files, ['"news" <&>', "tale"], {**ABOUT, "medium": "text"}, folder, 0.5)


CLOCK = {
    "clock_heading": "time", "clock_kind": "seconds", "clock_unit": "s", "clock_first": 0.0, "clock_pattern": "",
}  # fmt: skip


def series(folder="."):
    rows = [{"file": "a.csv", "start": 0.0, "end": 2.56, **finding("walk", 0.8, bag="a.csv")}]
    files = [{"file": "a.csv", "rows": 500, "seconds": 10.0, "channels": ["x", 'a "b"'], **CLOCK}]
    return Annotations(MEDIA["series"], rows, files, ["run", "walk"], {**ABOUT, "medium": "series"}, folder, 0.5)


def table(folder="."):
    """Bags of a table that brought two columns of places; the bags are called by numbers."""
    rows = [
        {"page": 3, "line": "top", **finding("spam", 0.8, bag=7)},
        {"page": 4, "line": "end", **finding("ham", 0.7, bag=7, instance=1)},
        {"page": 4, "line": None, **finding("", None, noise=None, bag=8)},
    ]
    return Annotations(MEDIA["table"], rows, [], ["ham", "spam"], {**ABOUT, "settings": {}}, folder, 0.5)


MAKERS = {"audio": sounds, "image": pictures, "text": texts, "series": series, "table": table}


def crowd(folder, n_files, seconds, window, n_rows):
    """Instances everywhere in recordings of noise, which are all the same file."""
    import soundfile

    rng = np.random.default_rng(0)
    rate, files, rows = 16_000, [], []
    soundfile.write(folder / "noise.wav", 0.1 * rng.standard_normal(round(rate * seconds)), rate, subtype="PCM_16")
    for i in range(n_files):
        name = f"{i:05d}.wav"
        (folder / name).symlink_to(folder / "noise.wav")
        files.append({"file": name, "seconds": seconds, "rate": rate, "channels": 1})
        for j, start in enumerate(np.sort(rng.uniform(0, seconds - 0.5, n_rows)).round(4).tolist()):
            place = {"start": start, "end": start + 0.4, "low": 2000.0, "high": 5000.0}
            found = finding(f"label {(i + j) % 7}", round(rng.uniform(0.3, 1.0), 4), bag=name, instance=j)
            rows.append({"file": name, **place, **found})
    about = {**ABOUT, "settings": {"window": window}}
    classes = [f"label {i}" for i in range(7)]
    return Annotations(MEDIA["audio"], rows, files, classes, about, folder, 0.5)
