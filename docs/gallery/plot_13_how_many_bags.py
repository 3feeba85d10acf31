"""
How many bags are needed (Pham, Raich and Fern)
===============================================

Section 6.3 of the paper: a share of the bags is learned from, the others are annotated without their labels. ORed
logistic regression sees labels of bags, its upper reference the label of every instance, the dummy no feature.
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise.catalog import make_model
from bagwise.datasets import make_letter_bags
from bagwise.metrics import instance_accuracy

data = make_letter_bags()
shares = [0.1, 0.2, 0.5, 0.9]

# %%
# One draw per share; the paper has ten.

for name in ("ored-em", "lr-supervised", "most-frequent"):
    accuracy = []
    for share in shares:
        order = np.random.default_rng(0).permutation(len(data))
        train, test = np.split(order, [round(share * len(data))])
        known = {"instance_labels": data.instance_labels[train]} if name == "lr-supervised" else {}
        model = make_model(name).fit(data.bags[train], data.Y[train], **known)
        truth = data.instance_labels[test].instances
        accuracy.append(instance_accuracy(truth, model.predict_instances(data.bags[test])))
    plt.plot(shares, accuracy, "o-", label=name)
plt.xlabel("share of the bags for training")
plt.ylabel("inductive accuracy")
plt.legend()
plt.show()
