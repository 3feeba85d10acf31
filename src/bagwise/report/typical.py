"""Which instances of a label stand for all of it, by the features that the model saw; and their features, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.dataset import BagDataset
from bagwise.featurize.pictures import CLOSE_HEIGHT, CLOSE_WIDTH, CloseUp, as_drawing
from bagwise.preprocessing import TermScaler

CANDIDATES = 400  # of a label that are compared with each other
N_MOMENTS = 20_000  # instances that mean and deviation of the features are taken from
REACH = 3.0  # deviations that a drawing shows to each side of the mean
PAPER, FAINT, INK = 255, 170, 30  # greys

Row = dict[str, Any]


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
    that is shown the most, so that a label with two songs shows both. Of the half that is surest of its label: what is
    in doubt may be of another.
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
