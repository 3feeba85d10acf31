"""
Union inference by hand
=======================

Three syllables, two species listed. Before the list is known, a model gives each syllable a probability for each
species. What does the list add? The union of the three labels must be exactly the two: try all assignments that
give it.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

from bagwise.union import union_posterior

species = ["wren", "robin", "crow"]
prior = np.array([[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.5, 0.1, 0.4]])
listed = {0, 1}  # wren and robin

# %%
# Of the 27 assignments six have the union {wren, robin}. Their shares are the posterior.

posterior, likelihood = np.zeros_like(prior), 0.0
for labels in product(range(3), repeat=3):
    if set(labels) == listed:
        weight = np.prod(prior[range(3), labels])
        likelihood += weight
        posterior[range(3), labels] += weight
        print(*(f"{species[c]:6}" for c in labels), f"{weight:.3f}")
posterior /= likelihood
print(f"P(exactly wren and robin are listed) = {likelihood:.3f}")

# %%
# `union_posterior` gives the same without trying them all, which is what makes fits on real bags possible.

log_likelihood, q = union_posterior(prior, [0, 3], [[1, 1, 0]])
assert np.allclose(q, posterior)
assert np.isclose(np.exp(log_likelihood[0]), likelihood)

# %%
# Every syllable alone is most likely a wren. But somebody must be the robin: the list moves all three.

figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for panel, values, title in zip(
    panels, (prior, q), ("before: the features alone", "after: given the list"), strict=True
):
    bottom = np.zeros(3)
    for c, name in enumerate(species):
        panel.bar(["first", "second", "third"], values[:, c], bottom=bottom, label=name)
        bottom += values[:, c]
    panel.set_title(title)
panels[0].set_ylabel("probability")
panels[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
