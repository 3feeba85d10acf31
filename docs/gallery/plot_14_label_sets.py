"""
Label sets of new bags (Zhang and Zhou 2008)
============================================

Section 4.2 of the paper: one test set, training sets of growing size, five measures of the label sets and their order.
M3MIML with the paper's C = 1 and gamma = 1 against MIMLSVM with gamma = 0.2.
"""

import matplotlib.pyplot as plt

from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags
from bagwise.model_selection import measure_bags

data = make_gaussian_bags(n_bags=240, n_features=6, n_classes=5, separation=1.5, random_state=0)
test, pool = data[:120], data[120:]
models = {"M3MIML": ("m3miml", {"C": 1.0, "gamma": 1.0}), "MIMLSVM": ("mimlsvm", {"gamma": 0.2})}
sizes = [30, 60, 120]

# %%
# Average precision: more is better; of the others less.

figure, panels = plt.subplots(1, 5, figsize=(12, 2.8), layout="constrained")
for label, (name, settings) in models.items():
    measured = []
    for size in sizes:
        model = make_model(name, **settings).fit(pool.bags[:size], pool.Y[:size])
        measured.append(measure_bags(test.Y, model.predict(test.bags), model.decision_function(test.bags)))
    for panel, measure in zip(panels, measured[0], strict=False):
        panel.plot(sizes, [record[measure] for record in measured], "o-", label=label)
        panel.set(title=measure.replace("_", " "), xlabel="training bags")
panels[0].legend()
plt.show()
