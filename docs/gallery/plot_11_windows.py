"""
Windows that hold several sounds
================================

A call has one species. A window of three seconds, as BirdNET and Perch turn into a vector, holds any number. The
learner has to know which of the two an *instance* is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import average_precision_score

from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import NoisyOrLogisticRegression

rng = np.random.default_rng(0)
sounds = rng.normal(size=(6, 20))  # what each of six species adds to the vector of a window
precision = {"noisy-or": [], "one label per window": []}
rates = [0.5, 1.0, 2.0]
for rate in rates:
    truth = (rng.random((2, 1200, 6)) < rate / 6).astype(int)  # windows to learn from, and new ones
    old, new = truth @ sounds + 0.7 * rng.normal(size=(2, 1200, 20))
    offsets = np.arange(0, 1201, 8)  # eight windows per recording
    Y = np.maximum.reduceat(truth[0], offsets[:-1], axis=0)  # all that was written down: the species of a recording
    for name, model in (
        ("noisy-or", NoisyOrLogisticRegression()),
        ("one label per window", ORedLogisticRegression(background=True, on_infeasible="relax")),
    ):
        scores = model.fit(Bags(old, offsets), Y).predict_instances_proba(Bags(new, offsets))
        precision[name].append(100 * average_precision_score(truth[1], scores, average="micro"))

# %%
# `NoisyOrLogisticRegression` asks of every window and species a question of its own. Its probabilities need not sum to
# one.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, values in precision.items():
    axes.plot(rates, values, "o-", label=name)
axes.set(xlabel="species per window", ylabel="average precision, new windows, %", xticks=rates)
axes.legend()
plt.show()
