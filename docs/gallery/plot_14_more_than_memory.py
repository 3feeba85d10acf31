"""
More data than memory
=====================

The likelihood is a sum over bags, so it can be computed piece by piece, from disk, and gives the same model.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from bagwise import ORedLogisticRegression, write_dataset
from bagwise.datasets import make_gaussian_bags
from bagwise.scale import BagSource, fit_source

data = make_gaussian_bags(600, 5, 8, separation=4.0, random_state=0)
in_memory = ORedLogisticRegression().fit(data.bags, data.Y)

with tempfile.TemporaryDirectory() as folder:
    for part in range(4):  # one file per station, say
        inside = np.arange(part, 600, 4)
        write_dataset(data[inside], Path(folder) / f"station-{part}.parquet")
    source = BagSource.from_parquet(folder)
    print(source.n_bags, "bags,", source.n_instances, "instances,", len(source.class_names), "classes")
    from_disk = fit_source(ORedLogisticRegression(), source)

# %%
# Weights agree to rounding. With a Dask client, ``fit_source(model, source, client)`` sums on many machines.

difference = np.abs(in_memory.coef_ - from_disk.coef_).max()
figure, axes = plt.subplots(figsize=(4, 3.6), layout="constrained")
axes.plot(in_memory.coef_.ravel(), from_disk.coef_.ravel(), ".")
axes.axline((0, 0), slope=1, color="black", lw=0.8)
axes.set(
    xlabel="weights, fitted in memory", ylabel="fitted piece by piece", title=f"largest difference {difference:.0e}"
)
plt.show()
