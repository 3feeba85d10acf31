"""Make the files of the tutorials: `python make_material.py pictures FOLDER` (or texts, or series).

Writes the files to FOLDER, and the labels of each as FOLDER.csv. Pictures are pieces of photographs that ship with
scikit-image, sentences are our own, series are computed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

TOPICS = {
    "cooking": """
        Chop the onions and fry them slowly in butter. Add flour, stir, and let the sauce simmer. Knead the dough
        well and let it rise. Bake the bread until the crust is golden. Season the soup with salt and pepper. Whisk
        eggs and sugar until they are pale. Simmer the beans with garlic and bay leaves. Roast the carrots in a hot
        oven. Melt butter in the pan and fry the mushrooms. Let the dough rest, then bake the rolls. Taste the soup
        and add salt. Pour the sauce over the roast before serving.
    """,
    "sailing": """
        The wind backed to the west and we reefed the sail. At dawn the harbor lay far behind us. The helmsman kept
        the boat close to the wind. We dropped anchor in the lee of the island. Waves broke over the bow all night.
        The tide turned and carried the boat out. They hoisted the sail in a light wind. The mast creaked as the
        swell rose. A buoy marked the channel into the harbor. They furled the sail and moored at the quay. The
        swell threw spray over the helmsman. With the tide we left the anchor ground.
    """,
    "gardening": """
        Sow the seeds in rows after the last frost. Water the seedlings early every morning. Prune the roses before
        the buds open. Compost feeds the soil for the whole year. Slugs ate the lettuce in the first bed. Plant the
        bulbs in autumn, before the frost. Pull the weeds before they flower. Mulch keeps the soil of the bed moist.
        Tie the tomatoes and the roses to stakes. Weeds and slugs love a moist bed. Rake the soil and sow the
        lettuce. Seedlings need compost, water and light.
    """,
}

Labels = dict[str, list[str]]


def make_pictures(folder: Path, n_files: int = 60) -> Labels:
    """Pictures of two to four materials, each in a region of its own."""
    from skimage import data, io
    from skimage.transform import resize

    sheets = {
        "brick": np.stack([data.brick()] * 3, axis=2),
        "fur": data.chelsea()[150:300, 200:400],
        "grass": np.stack([data.grass()] * 3, axis=2),
        "stars": data.hubble_deep_field()[:600, :600],
        "tissue": data.immunohistochemistry(),
        "wood": data.coffee()[20:, :120],
    }
    rng, given = np.random.default_rng(5), {}
    y, x = np.mgrid[:240, :320]
    for i in range(n_files):
        kinds = rng.choice(sorted(sheets), rng.integers(2, 5), replace=False)
        spots = rng.uniform(0.1, 0.9, (len(kinds), 2)) * y.shape
        nearest = np.argmin([(y - a) ** 2 + (x - b) ** 2 for a, b in spots], axis=0)
        picture = np.zeros((*y.shape, 3), dtype=np.uint8)
        for k, kind in enumerate(kinds):
            sheet = sheets[kind]
            size = int(rng.uniform(0.6, 1.0) * min(sheet.shape[:2]))
            top, left = (rng.integers(0, of - size + 1) for of in sheet.shape[:2])
            piece = resize(sheet[top : top + size, left : left + size], y.shape, preserve_range=True)
            picture[nearest == k] = piece[nearest == k]
        io.imsave(folder / f"{i:02}.png", picture, check_contrast=False)
        given[f"{i:02}.png"] = sorted(map(str, kinds))
    return given


def make_texts(folder: Path, n_files: int = 60) -> Labels:
    """Texts that turn from one topic to the next."""
    rng, given = np.random.default_rng(1), {}
    sentences = {
        name: [part.strip() for part in re.split(r"(?<=[.])\s+", text.strip())] for name, text in TOPICS.items()
    }
    for i in range(n_files):
        topics = rng.permutation(sorted(TOPICS))[: rng.integers(1, 4)]
        parts = [" ".join(rng.choice(sentences[topic], 5, replace=False)) for topic in topics]
        text = re.sub(r"\s+", " ", " ".join(parts))
        (folder / f"{i:02}.txt").write_text(text + "\n", encoding="utf-8")
        given[f"{i:02}.txt"] = sorted(map(str, topics))
    return given


def make_series(folder: Path, n_files: int = 60, rate: int = 25) -> Labels:
    """An accelerometer on a wrist, 25 rows per second: a person walks, rests, climbs stairs, cycles."""
    hertz = {"walk": 1.9, "stairs": 1.3, "cycle": 1.1, "rest": 0.0}
    swing = {"walk": (0.5, 0.3, 0.2), "stairs": (0.6, 0.1, 0.5), "cycle": (0.08, 0.25, 0.08), "rest": (0.0, 0.0, 0.0)}
    rng, given = np.random.default_rng(2), {}
    for i in range(n_files):
        doings = rng.permutation(sorted(hertz))[: rng.integers(1, 4)]
        parts = []
        for doing in doings:
            t = np.arange(rate * rng.integers(20, 40)) / rate
            beat = 2 * np.pi * hertz[doing] * rng.uniform(0.9, 1.1) * t
            phases, strength = rng.uniform(0.0, 6.0, 3), np.array(swing[doing])
            waves = strength * (np.sin(beat[:, None] + phases) + np.sin(2 * beat[:, None]) / 3)
            parts.append(waves + np.array([0.0, 0.0, 1.0]) + rng.normal(0.0, 0.03, waves.shape))
        rows = np.vstack(parts)
        time = np.arange(len(rows))[:, None] / rate
        np.savetxt(
            folder / f"{i:02}.csv",
            np.hstack([time, rows]),
            "%.3f",
            ",",
            header="time,x,y,z",
            comments="",
            encoding="utf-8",
        )
        given[f"{i:02}.csv"] = sorted(map(str, doings))
    return given


KINDS = {"pictures": make_pictures, "texts": make_texts, "series": make_series}


def make_material(kind: str, folder: Path) -> Labels:
    """The files of a kind in a folder, and the table of their labels next to it."""
    folder.mkdir(parents=True)
    given = KINDS[kind](folder)
    rows = [f"{name},{';'.join(labels)}" for name, labels in given.items()]
    folder.with_name(f"{folder.name}.csv").write_text("\n".join(["file,labels", *rows]) + "\n", encoding="utf-8")
    return given


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(f"usage: python make_material.py {'|'.join(KINDS)} FOLDER")
    print(f"{len(make_material(sys.argv[1], Path(sys.argv[2])))} files in {sys.argv[2]}, labels in {sys.argv[2]}.csv")
