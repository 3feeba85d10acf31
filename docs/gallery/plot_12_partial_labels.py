"""
Partial labels: one of these
============================

"It was a chiffchaff or a willow warbler." A label set can say that (`OneOf`), and also `Possible`, `Absent` and
`Certain`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bagwise import Bags, OneOf, ORedLogisticRegression

rng = np.random.default_rng(0)
names = np.array(["blackcap", "chiffchaff", "garden warbler", "willow warbler", "wren"])
truth = rng.integers(0, 5, 400)
X = rng.normal(size=(5, 6))[truth] * 0.7 + rng.normal(size=(400, 6))
bags = Bags(X, np.arange(401))  # each bag holds one song

accuracy = []
candidates = [1, 2, 3, 4]
for n in candidates:
    # the right name and n - 1 wrong ones, in no order
    wrong = [rng.choice(np.delete(names, t), n - 1, replace=False) for t in truth]
    sets = [{OneOf(names[t], *w)} if n > 1 else {names[t]} for t, w in zip(truth, wrong, strict=True)]
    model = ORedLogisticRegression().fit(bags[:300], sets[:300])
    accuracy.append(100 * np.mean(model.predict_instances(bags[300:]) == names[truth[300:]]))

# %%
# With four candidates of five, a list says only which name it was *not*; that is still enough to learn from.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.bar(candidates, accuracy, color="tab:cyan")
axes.axhline(20, color="black", ls="--", lw=1)
axes.text(4.45, 21, "guessing", ha="right")
axes.set(xlabel="candidate names per song", ylabel="new songs named right, %", xticks=candidates, ylim=(0, 100))
plt.show()
