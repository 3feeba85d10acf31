"""
CCCP and the heuristic (Briggs, Fern, Raich and Lou 2013)
=========================================================

Both lower the same objective, the rank loss with the largest score of a bag as its score. CCCP may never raise it, the
heuristic may. The paper's inductive protocol is ten folds of the bags; three here.
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise.catalog import make_model
from bagwise.datasets import make_letter_bags
from bagwise.model_selection import evaluate

data = make_letter_bags()

# %%
# The objective after every phase, and the accuracy on new bags, without a look at their labels.

for name in ("sim-max", "sim-cccp"):
    model = make_model(name, alpha=1e-7)
    folds = evaluate(model, data, "inductive", cv=3)
    accuracy = np.mean([record["accuracy"] for record in folds])
    history = model.fit(data.bags, data.Y)[-1].objective_history_
    plt.plot(np.arange(1, len(history) + 1), history, "o-", label=f"{name}: {accuracy:.0%} of new instances right")
plt.xlabel("phase")
plt.ylabel("objective")
plt.legend()
plt.show()
