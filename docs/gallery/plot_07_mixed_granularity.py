"""
Some instances known
====================

Now and then a single instance is labeled. Such labels are used together with those of the bags, and a few of them
help most where bags alone say little: when the same labels go together nearly always.
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise import Bags, ORedLogisticRegression
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import instance_accuracy

sizes = {"instances_per_bag": (5, 9), "labels_per_bag": (4, 5)}
data = make_gaussian_bags(n_bags=80, n_features=5, n_classes=5, **sizes, random_state=2)
truth = data.instance_labels.instances
order = np.random.default_rng(0).permutation(len(truth))

counts = [0, 5, 10, 20, 40, 80, 160]
given, alone = [], []
for count in counts:
    known = np.full(len(truth), -1)
    known[order[:count]] = truth[order[:count]]
    known = Bags(known, data.bags.offsets)
    model = ORedLogisticRegression().fit(data.bags, data.Y, instance_labels=known)
    unknown = np.where(known.instances == -1, truth, -1)  # evaluated on the others alone
    given.append(instance_accuracy(unknown, model.annotate(data.bags, data.Y)))
    alone.append(instance_accuracy(unknown, model.predict_instances(data.bags)))

# %%
# Evaluated on instances whose labels were not given.

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(counts, given, "o-", label="labels of the bag given (transductive)")
axes.plot(counts, alone, "o-", label="features alone")
axes.set(xlabel=f"instances known, of {len(truth)}", ylabel="accuracy")
axes.legend()
plt.show()
