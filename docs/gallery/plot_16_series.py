"""
An accelerometer: when did she climb the stairs?
================================================

Recordings of some minutes, and for each what the person did in it. A stretch of a few seconds is an *instance*.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from bagwise.app.media import featurize_series
from bagwise.catalog import make_model

RATE = 25
HERTZ = {"walk": 1.9, "stairs": 1.3, "rest": 0.0}
SWING = {"walk": (0.5, 0.3), "stairs": (0.6, 0.1), "rest": (0.0, 0.0)}

rng = np.random.default_rng(0)
doings, series = [], []
for _ in range(40):
    listed = rng.permutation(sorted(HERTZ))[: rng.integers(1, 4)]
    parts = []
    for doing in listed:
        t = np.arange(RATE * 25) / RATE
        beat = np.sin(2 * np.pi * HERTZ[doing] * rng.uniform(0.9, 1.1) * t)
        parts.append(beat[:, None] * np.array(SWING[doing]) + rng.normal(0.0, 0.05, (len(t), 2)))
    doings.append(list(map(str, listed)))
    series.append(np.vstack(parts))

with tempfile.TemporaryDirectory() as folder:
    paths = [Path(folder) / f"{i:02}.csv" for i in range(40)]
    for path, values in zip(paths, series, strict=True):
        rows = np.column_stack([np.arange(len(values)) / RATE, values])
        np.savetxt(path, rows, "%.3f", ",", header="time,x,y", comments="")
    data = featurize_series(paths)

# %%
# Each stretch is named from the list of its recording; the order in which things were done was not given.

model = make_model("ored").fit(data.bags, [set(d) for d in doings])
named = model.annotate(data.bags, [set(d) for d in doings])
shown = max(range(40), key=lambda i: len(doings[i]))
place = {key: data.bags.split(values)[shown] for key, values in data.locations.items()}

figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
axes.plot(np.arange(len(series[shown])) / RATE, series[shown], lw=0.6, color="0.5")
colors = dict(zip(sorted(HERTZ), ["tab:cyan", "tab:orange", "tab:pink"], strict=True))
for start, end, label in zip(place["start"], place["end"], data.bags.split(named)[shown], strict=True):
    axes.axvspan(start, end, color=colors[label], alpha=0.15, lw=0)
for label, color in colors.items():
    axes.plot([], [], color=color, lw=6, alpha=0.4, label=label)
axes.legend(loc="upper right")
axes.set(xlabel="seconds", ylabel="acceleration", title=f"done, in this order: {', '.join(doings[shown])}")
plt.show()
