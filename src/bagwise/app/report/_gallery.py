"""Instances shown one by one: for each label the most typical and the least certain ones, with picture and sound."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.formats import Annotations
from bagwise.app.media.pictures import CLOSE_HEIGHT, CLOSE_WIDTH, CloseUp, as_drawing
from bagwise.app.report.result import MediaFiles
from bagwise.core.dataset import BagDataset
from bagwise.io.files import atomic_write
from bagwise.io.inside import open_folder
from bagwise.preprocessing import TermScaler

MOST = 320  # instances in all galleries together
MOST_OF_A_KIND = 6  # the most typical of a label, and the least certain
MOST_SOUND = 8_000_000  # bytes of all sounds of a page together
CANDIDATES = 400  # of a label that are compared with each other
N_MOMENTS = 20_000  # instances that mean and deviation of the features are taken from
REACH = 3.0  # deviations that a drawing shows to each side of the mean
PAPER, FAINT, INK = 255, 170, 30  # greys

Row = dict[str, Any]
Key = tuple[Any, int]
Step = Callable[[int, int], None]
"""Called with the files that are done and their number."""


def key_of(row: Row) -> Key:
    """Bag and instance, which name a row of annotations."""
    return row["bag"], row["instance"]


def choose_gallery(
    rows: Sequence[Row], classes: Sequence[str], features: Features | None = None
) -> list[dict[str, Any]]:
    """For each label that any row carries its name, number, most typical rows and least certain rows.

    Typical is what `choose_typical` says; the most probable ones, where the features are not known. Of equally probable
    ones those of different files come first. Where the labels are too many, each shows fewer, and the last ones none.
    """
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_label[row["label"]].append(row)
    names = [name for name in classes if by_label[name]]
    n = min(MOST_OF_A_KIND, max(1, MOST // (2 * max(len(names), 1))))
    left, found = MOST, []
    for name in names:
        ranked = _ranked(by_label[name])
        sure = [row for row in ranked if row["probability"] is not None]
        most = min(n, left)
        typical = ranked[:most] if features is None or not most else choose_typical(ranked, features, most)
        shown = {key_of(row) for row in typical}
        uncertain = [row for row in reversed(sure) if key_of(row) not in shown][: min(n, left - len(typical))]
        left -= len(typical) + len(uncertain)
        found.append({"label": name, "instances": len(ranked), "typical": typical, "uncertain": uncertain})
    return found


def _ranked(rows: Iterable[Row]) -> list[Row]:
    """The surest first; of those that are as sure to the hundredth, the first of each file."""
    ordered = sorted(rows, key=lambda row: (-(row["probability"] or 0.0), str(row.get("file")), str(row["bag"])))
    seen: Counter[str] = Counter()
    keyed = []
    for i, row in enumerate(ordered):
        name = str(row.get("file"))
        keyed.append(((-round(row["probability"] or 0.0, 2), seen[name], i), row))
        seen[name] += 1
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


@dataclass
class Sounds:
    """The sounds of a page, which lie in a folder next to it and are loaded when they are played.

    Attributes
    ----------
    folder : str
        Name of the folder.
    files : dict
        Name in the folder to content.
    left : int
        Bytes that may still be added.
    """

    folder: str
    files: dict[str, bytes] = field(default_factory=dict)
    left: int = MOST_SOUND

    def add(self, content: bytes) -> str:
        """Take a sound if there is room; gives its address, "" if there is none."""
        if len(content) > self.left:
            return ""
        name = f"{len(self.files) + 1:03d}.flac"
        self.files[name] = content
        self.left -= len(content)
        return f"{self.folder}/{name}"


@dataclass(frozen=True)
class Shown:
    """One instance by itself: what is seen of it, and the address of what is heard, "" where there is none."""

    close_up: CloseUp
    sound: str = ""


class CloseUps:
    """What is seen and heard of rows of annotations, file by file.

    Parameters
    ----------
    files : MediaFiles
    rows : bag, instance, file and the places of the media type
    """

    def __init__(self, files: MediaFiles, rows: Sequence[Row]):
        self.files = files
        self.rows = rows
        self._by_file: dict[str, dict[Key, Row]] = defaultdict(dict)
        if files.media_type.close_ups is not None:
            for row in rows:
                self._by_file[row["file"]][key_of(row)] = row
        self._pictures: dict[Key, CloseUp] = {}
        self._clips: dict[Key, bytes] = {}

    @property
    def names(self) -> list[str]:
        """The files that hold any of the rows."""
        return list(self._by_file)

    def look(self, name: str, file: Any) -> None:
        """See and hear the rows of an open file."""
        media_type, settings, rows = self.files.media_type, self.files.settings, self._by_file.get(name)
        if not rows or media_type.close_ups is None:
            return
        self._pictures |= zip(rows, media_type.close_ups(file, list(rows.values()), settings), strict=True)
        if media_type.cut_sound is not None and media_type.close_up_span is not None:
            for key, row in rows.items():
                span = media_type.close_up_span(row, self.files.seconds[name])
                self._clips[key] = media_type.cut_sound(file, *span, settings)

    def shown(self, sounds: Sounds) -> dict[Key, Shown]:
        """Pictures and addresses of sounds; rows of files that could not be looked into are left out."""
        return {
            key: Shown(self._pictures[key], sounds.add(self._clips[key]) if key in self._clips else "")
            for key in dict.fromkeys(map(key_of, self.rows))
            if key in self._pictures
        }


def profiles(annotations: Annotations, rows: Sequence[Row], features: Features) -> dict[Key, Shown]:
    """The features of each row and those of its label, where a media type has nothing to see."""
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in annotations.shown():
        by_label[row["label"]].append(row)
    wanted = {row["label"] for row in rows}
    mean = {label: features.of(by_label[label][:CANDIDATES]).mean(axis=0) for label in wanted}
    return {key_of(row): Shown(draw_features(features.of([row])[0], mean[row["label"]])) for row in rows}


def write_with_sounds(text: str, page: Path, sounds: Sounds) -> list[Path]:
    """Write a page and its sounds; gives their paths."""
    paths = [page]
    for name, content in sounds.files.items():
        paths.append(open_folder(page.parent, f"{sounds.folder}/{name}"))
        with atomic_write(paths[-1]) as file:
            file.write(content)
    with atomic_write(page, "w") as file:
        file.write(text)
    return paths


class Features:
    """Features of instances by bag and number, each less its mean and divided by its deviation.

    Sparse ones, such as counts of words, are weighted by their rarity instead, which does not fill them.
    """

    def __init__(self, dataset: BagDataset):
        self._instances = dataset.bags.instances
        self._first = dict(zip(map(str, dataset.bag_names), dataset.bags.offsets[:-1].tolist(), strict=True))
        n = dataset.bags.n_instances
        self._terms = TermScaler().fit(self._instances) if sp.issparse(self._instances) else None
        if self._terms is not None:
            return
        some = self._dense(np.unique(np.linspace(0, n - 1, min(n, N_MOMENTS)).astype(int)))
        self._centre, deviation = some.mean(axis=0), some.std(axis=0)
        self._scale = np.where(deviation > 1e-9 * np.maximum(np.abs(self._centre), 1e-300), deviation, 1.0)

    def of(self, rows: Sequence[Row]) -> np.ndarray:
        """(n, d) features of some rows of annotations."""
        if self._terms is not None:
            return self._weighted(rows).toarray()
        return (self._dense(self._index(rows)) - self._centre) / self._scale

    def compared(self, rows: Sequence[Row]) -> np.ndarray:
        """The same without features that none of the rows has, which change no distance between them."""
        if self._terms is None:
            return self.of(rows)
        found = self._weighted(rows)
        return found[:, np.unique(found.indices)].toarray()

    def _index(self, rows: Sequence[Row]) -> np.ndarray:
        return np.array([self._first[str(row["bag"])] + row["instance"] for row in rows], dtype=np.int64)

    def _weighted(self, rows: Sequence[Row]) -> Any:
        assert self._terms is not None
        return self._terms.transform(self._instances[self._index(rows)])

    def _dense(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(self._instances[index], dtype=np.float64)


def choose_typical(rows: Sequence[Row], features: Features, n: int) -> list[Row]:
    """The rows of one label that stand for all of them, the most typical first.

    The first is the one that is nearest to all others; each further one lowers the distances of all to the nearest
    that is shown the most, so that a label with two songs shows both. Of the half that is surest of its label: the
    others may be of another.
    """
    sureness = np.array([1.0 if row["probability"] is None else row["probability"] for row in rows])
    sure = np.flatnonzero(sureness >= np.median(sureness))
    sure = sure[np.unique(np.linspace(0, len(sure) - 1, min(len(sure), CANDIDATES)).astype(int))]
    return [rows[i] for i in sure[choose_medoids(features.compared([rows[i] for i in sure]), n)]]


def choose_medoids(points: np.ndarray, n: int) -> np.ndarray:
    """Up to `n` points one after the other, each that which lowers the sum of distances to the nearest chosen most."""
    squares = np.einsum("ij,ij->i", points, points)
    distance = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * (points @ points.T), 0.0))
    np.fill_diagonal(distance, 0.0)
    chosen = [int(distance.sum(axis=0).argmin())]
    nearest = distance[:, chosen[0]]
    while len(chosen) < min(n, len(points)):
        gain = np.maximum(nearest[:, None] - distance, 0.0).sum(axis=0)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
        nearest = np.minimum(nearest, distance[:, chosen[-1]])
    return np.array(chosen)


def draw_features(features: np.ndarray, of_label: np.ndarray) -> CloseUp:
    """The features of an instance that nothing else can be shown of, as a line; below it that of its label's mean."""
    from PIL import Image, ImageDraw

    image = Image.new("L", (CLOSE_WIDTH, CLOSE_HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    draw.line([(0, CLOSE_HEIGHT // 2), (CLOSE_WIDTH, CLOSE_HEIGHT // 2)], fill=FAINT, width=1)
    for values, grey, width in ((of_label, FAINT, 3), (features, INK, 1)):
        if len(values) > CLOSE_WIDTH:  # means of neighbours
            values = np.array([part.mean() for part in np.array_split(values, CLOSE_WIDTH)])
        x = np.linspace(2, CLOSE_WIDTH - 3, len(values)) if len(values) > 1 else np.array([CLOSE_WIDTH / 2])
        y = (1 - np.clip(values, -REACH, REACH) / REACH) / 2 * (CLOSE_HEIGHT - 5) + 2
        points = list(zip(x.tolist(), y.tolist(), strict=True))
        draw.line(points if len(points) > 1 else [(x[0] - 8, y[0]), (x[0] + 8, y[0])], fill=grey, width=width)
    return CloseUp(as_drawing(image), CLOSE_WIDTH, CLOSE_HEIGHT)
