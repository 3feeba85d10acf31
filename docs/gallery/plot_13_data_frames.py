"""
From pandas and polars
======================

A table with a row per instance, a column that says which bag it belongs to and one with the labels of the bag: pandas,
polars, pyarrow and others are read alike.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from bagwise import make_pipeline, read_table
from bagwise.annotation import ORedLogisticRegression
from bagwise.preprocessing import PerInstance

rng = np.random.default_rng(0)
centers = {"wren": (5.0, 0.2), "robin": (3.0, 0.6), "crow": (1.2, 0.4)}
rows = []
for recording in range(60):
    species = rng.permutation(sorted(centers))[: rng.integers(1, 4)]
    for sound in range(6):
        pitch, length = centers[species[sound % len(species)]]
        labels = ";".join(sorted(species))
        rows.append((f"r{recording:02}", labels, pitch + rng.normal(0, 0.5), length + rng.normal(0, 0.05)))
sounds = pd.DataFrame(rows, columns=["recording", "species", "pitch", "length"])
print(sounds.head(4))

# %%
# The answer goes back into the table. With polars: ``polars.DataFrame`` in place of ``pandas.DataFrame``.

data = read_table(sounds, bag="recording", labels="species")
model = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(data)
sounds["named"] = model.annotate(data)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
left.plot(sounds.length, sounds.pitch, ".", color="0.4")
left.set(title="given: sounds, and the species of each recording", xlabel="length, s", ylabel="pitch, kHz")
for name, group in sounds.groupby("named"):
    right.plot(group.length, group.pitch, ".", label=name)
right.set(title="found: the species of each sound", xlabel="length, s")
right.legend()
plt.show()
