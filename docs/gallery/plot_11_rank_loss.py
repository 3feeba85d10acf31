"""
Rank loss for instances (Briggs, Fern and Raich 2012)
=====================================================

The paper's transductive protocol: support instance machines learn from the labels of all bags, then name every instance
among the labels of its bag. Alpha goes over most of the paper's grid. The data is made here: words and drawings of
their letters.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from bagwise.catalog import make_model
from bagwise.datasets import make_letter_bags
from bagwise.metrics import instance_accuracy

warnings.simplefilter("ignore", ConvergenceWarning)  # the smallest alpha are too small for the Hamming loss
data = make_letter_bags()
truth = data.instance_labels.instances
alphas = [10.0**-power for power in range(1, 8)]

# %%
# Rank against Hamming loss, each with softmax as the model of a bag. `-last`: each phase goes on with its last weights,
# as in this paper; the later one keeps the best.

for name in ("sim-softmax-last", "sim-hamming-softmax-last"):
    models = [make_model(name, alpha=alpha).fit(data.bags, data.Y) for alpha in alphas]
    accuracy = [instance_accuracy(truth, model.annotate(data.bags, data.Y)) for model in models]
    plt.semilogx(alphas, accuracy, "o-", label=f"{name}: {max(accuracy):.0%} at best")
plt.xlabel("alpha")
plt.ylabel("transductive accuracy")
plt.legend()
plt.show()
