"""
The union likelihood as a loss in torch
=======================================

Any network whose outputs are logits of instances can be trained on the labels of bags alone.
"""

import numpy as np
import torch

from bagwise.datasets import make_gaussian_bags
from bagwise.nn import UnionLikelihoodLoss

data = make_gaussian_bags(200, n_features=6, n_classes=4, separation=3.0, random_state=0)
X = torch.tensor(data.bags.instances, dtype=torch.float32)
network = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
loss, optimizer = UnionLikelihoodLoss(), torch.optim.AdamW(network.parameters(), lr=1e-2)

for _ in range(200):
    optimizer.zero_grad()
    value = loss(network(X), data.bags.offsets, data.Y)
    value.backward()
    optimizer.step()

# %%
# No instance was labeled.

with torch.no_grad():
    named = network(X).argmax(dim=1).numpy()
truth = np.asarray(data.instance_labels.instances).ravel()
print(f"instances named right: {100 * np.mean(named == truth):.1f} %")
