"""
Bags without labels
===================

Three kinds of bags; in each, two of six instances show the kind, and the others are the same everywhere. Nothing is
labeled. Are there clusters, and which instance is the witness?
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise.clustering import BagMixture, try_stability

rng = np.random.default_rng(0)
kinds = np.arange(60) % 3
corners = 6 * np.array([[0, 1], [-0.87, -0.5], [0.87, -0.5]])
bags = [np.vstack([corners[k] + rng.normal(size=(2, 2)), 1.5 * rng.normal(size=(4, 2))]) for k in kinds]

# %%
# `try_stability` fits halves of the bags and compares how well they agree with noise of the same shape; noise
# itself does not pass.

estimator = BagMixture(n_init=2)
trial = try_stability(bags, estimator, [2, 3, 4], n_splits=3)
noise = [1.5 * rng.normal(size=(6, 2)) for _ in kinds]
print(trial.in_words())
print(try_stability(noise, estimator, [2, 3, 4], n_splits=3).in_words())

# %%
# Small dots are instances, crosses the witnesses: the instance of each bag that speaks most for its cluster.

model = BagMixture(trial.n_clusters, random_state=0).fit(bags)
X, owner = np.vstack(bags), np.repeat(np.arange(60), 6)
witnesses = np.array([bag[i] for bag, i in zip(bags, model.witnesses_, strict=True)])
colours = plt.get_cmap("tab10")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.scatter(*X.T, s=8, color=colours(model.labels_[owner]))
left.scatter(*witnesses.T, s=50, marker="x", color=colours(model.labels_))
left.set_title(f"{trial.n_clusters} clusters of 60 bags")
for row in trial.records:
    right.plot([row["n_clusters"]] * 2, [row["noise"], row["stability"]], color="0.6")
right.plot([r["n_clusters"] for r in trial.records], [r["stability"] for r in trial.records], "o", label="these bags")
right.plot([r["n_clusters"] for r in trial.records], [r["noise"] for r in trial.records], "s", label="noise, mean")
right.set(xlabel="clusters", ylabel="stability", xticks=[2, 3, 4])
right.legend()
plt.show()
