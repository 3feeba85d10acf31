"""
Missing labels
==========================

Lists are made by people, and people forget. With `missed` the learner models label noise, and predicts which labels
are likely missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise import ORedLogisticRegression
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import instance_accuracy

data = make_gaussian_bags(120, 6, 5, instances_per_bag=(3, 6), separation=5.0, random_state=0)
rng = np.random.default_rng(0)
shares = [0.0, 0.1, 0.2, 0.3, 0.4]
plain, aware = [], []
for share in shares:
    Y = data.Y * (rng.random(data.Y.shape) >= share)  # that share of the labels is dropped
    kept = Y.any(axis=1)
    for accuracies, missed in ((plain, 0.0), (aware, max(share, 0.01))):
        model = ORedLogisticRegression(missed=missed, on_infeasible="relax").fit(data.bags[kept], Y[kept])
        accuracies.append(instance_accuracy(data.instance_labels, model.predict_instances(data.bags)))

# %%
# `label_posterior` gives the probability that a label is truly in a bag, listed or not. Here for the last of these
# fits: unlisted labels that were dropped, beside unlisted ones that never were there.

posterior = model.label_posterior(data.bags, Y)
dropped, absent = (data.Y == 1) & (Y == 0), data.Y == 0

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(shares, plain, "o-", label="taken at their word")
left.plot(shares, aware, "o-", label="missed given")
left.set(xlabel="share of labels missing", ylabel="accuracy of instances, features alone")
left.legend()
bins = np.linspace(0, 1, 21)
right.hist(posterior[absent], bins, density=True, alpha=0.6, label="not in the bag")
right.hist(posterior[dropped], bins, density=True, alpha=0.6, label="missing")
right.set(xlabel="probability of an unlisted label", yscale="log", ylabel="density")
right.legend()
plt.show()

# %%
# The rate is given here. ``missed="learn"`` finds it from the lists, and keeps it only where held-out lists bear it
# out.
