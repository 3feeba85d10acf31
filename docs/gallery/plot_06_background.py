"""
Background: instances of no label
=================================

Wind, clutter, words that say nothing: instances that nobody lists a label for. Without a background every one of
them is forced into a label of its bag, and teaches the model nonsense.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from bagwise import ORedLogisticRegression
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import instance_accuracy

made = make_gaussian_bags(n_bags=150, n_features=2, n_classes=5, separation=7.0, random_state=3)
Y = made.Y[:, :4]  # the last class is never listed
truth = np.where(made.instance_labels.instances == 4, -1, made.instance_labels.instances)
labelled = Y.any(axis=1)  # bags with nothing but the last class have an empty list

without = ORedLogisticRegression().fit(made.bags[labelled], Y[labelled])
model = ORedLogisticRegression(background=True).fit(made.bags, Y)
print(
    f"by features alone, without: {instance_accuracy(truth, without.predict_instances(made.bags)):.1%} of the labelled"
)
print(f"by features alone, with:    {instance_accuracy(truth, model.predict_instances(made.bags)):.1%} of the labelled")

# %%
# `find` gives labels, probabilities and that of the background from one look at the bags. A bag without any label
# helps: all of its instances are background.

found = model.find(made.bags, Y)
print(f"background against the rest, area under the curve: {roc_auc_score(truth == -1, found.background):.3f}")

X = made.bags.instances
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
left.scatter(*X[truth == -1].T, s=8, color="0.7", label="of no label")
for c in range(4):
    left.scatter(*X[truth == c].T, s=8, label=f"label {c}")
left.set_title("the truth")
left.legend()
drawn = right.scatter(*X.T, s=8, c=found.background, cmap="viridis")
right.set_title("probability of the background, labels given")
figure.colorbar(drawn, ax=right)
plt.show()
