"""
Your own features
=================

A bag is whatever you can cut into rows of numbers. Here: a day of a sensor, cut into hours, and for each day a
note of what went on ("heating; guests", "quiet"). When was it?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from bagwise import ORedLogisticRegression, make_pipeline, read_table
from bagwise.metrics import instance_accuracy
from bagwise.preprocessing import PerInstance

rng = np.random.default_rng(0)
effects = {"quiet": (0.0, 0.0), "heating": (3.0, 0.5), "guests": (1.0, 3.0)}  # on temperature and noise
rows = []
for day in range(40):
    went_on = list(rng.permutation(list(effects))[: rng.integers(1, 4)])
    hours = went_on + list(rng.choice(went_on, 12 - len(went_on)))
    for hour, what in enumerate(rng.permutation(hours)):
        warm, loud = np.array(effects[what]) + 0.8 * rng.normal(size=2)
        rows.append({"day": day, "note": ";".join(went_on), "warm": warm, "loud": loud, "hour": hour + 8, "what": what})
table = pd.DataFrame(rows)
print(table.head(3))

# %%
# A row an instance; one column names the bag, one its labels, the others that you name are the features. `what` is
# the truth, which is kept for evaluation.

data = read_table(table, bag="day", labels="note", features=["warm", "loud"])
model = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(data)
table["found"] = model.annotate(data)
print(f"hours named right: {instance_accuracy(table.what, table.found):.1%}")

# %%
# Two weeks, hour by hour; a cross where the name is wrong.

colours = {"quiet": "0.85", "heating": "tab:red", "guests": "tab:blue"}
some = table[table.day < 14]
wrong = some[some.what != some.found]
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for name, colour in colours.items():
    part = some[some.found == name]
    axes.scatter(part.hour, part.day, marker="s", s=120, color=colour, label=name)
axes.scatter(wrong.hour, wrong.day, marker="x", color="black", label="wrong")
axes.set(xlabel="hour", ylabel="day")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
