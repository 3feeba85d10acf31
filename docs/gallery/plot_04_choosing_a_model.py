"""
Choosing a model
================

Nobody knows the labels of instances, so accuracy cannot choose. Labels of bags that were held out can: an instance
that is given a label which its bag does not list is certainly wrong, and a label that is listed and given to no
instance was missed.
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import instance_accuracy
from bagwise.model_selection import choose_model

data = make_gaussian_bags(n_bags=90, n_features=4, n_classes=5, labels_per_bag=(2, 4), separation=3.0, random_state=1)
names = ["most-frequent", "clpl", "sim-softmax", "ored"]
choice = choose_model({name: make_model(name) for name in names}, data, cv=3)
print("chosen:", choice.name)

# %%
# `listed` and `explained` are the two shares, over three folds; their mean is what chooses. Here the data is made
# up, so that the truth can be put beside: the accuracy of `annotate`, which the choice never saw.

truth = data.instance_labels
accuracy = [instance_accuracy(truth, make_model(name).fit(data).annotate(data)) for name in names]
rows = {row["model"]: row for row in choice.rows}

figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
places = np.arange(len(names))
for k, column in enumerate(("listed", "explained", "score")):
    axes.bar(places + 0.2 * k, [rows[name][column] for name in names], 0.2, label=column)
axes.bar(places + 0.6, accuracy, 0.2, color="0.6", label="accuracy, the truth known")
axes.set_xticks(places + 0.3, names)
axes.set(ylabel="share", ylim=(0, 1))
axes.legend(loc="lower right", ncols=2)
plt.show()
