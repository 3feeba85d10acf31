"""
Which passage is about what
===========================

Documents with a list of topics each. A passage is an *instance*; its words are counted, and the counts stay sparse.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from bagwise.app.media import TextSettings, featurize_texts
from bagwise.catalog import for_sparse, make_model

WORDS = {
    "sea": ["wave", "tide", "harbor", "sail", "anchor", "gull", "boat", "mast", "swell", "reef"],
    "kitchen": ["butter", "flour", "oven", "dough", "soup", "garlic", "pepper", "bake", "simmer", "bread"],
    "garden": ["seed", "soil", "rose", "compost", "weed", "prune", "bulb", "lettuce", "mulch", "fence"],
}
COMMON = ["day", "old", "light", "small", "turn", "long", "first", "morning", "hand", "kept"]

rng = np.random.default_rng(0)
texts, topics = {}, []
for i in range(60):
    listed = rng.permutation(sorted(WORDS))[: rng.integers(1, 4)]
    words = [rng.choice([*WORDS[topic], *COMMON]) for topic in listed for _ in range(40)]
    texts[f"{i:02}.txt"] = " ".join(words)
    topics.append(set(map(str, listed)))

with tempfile.TemporaryDirectory() as folder:
    for name, text in texts.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")
    data = featurize_texts([Path(folder) / name for name in texts], settings=TextSettings(window=20, step=20))

# %%
# `for_sparse` gives any model of the catalog in its form for counts of words.

model = for_sparse(make_model("ored")).fit(data.bags, topics)
shown = max(range(len(topics)), key=lambda i: len(topics[i]))
proba = data.bags.split(model.annotate_proba(data.bags, topics))[shown]

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for column, name in enumerate(model.classes_):
    axes.plot(proba[:, column], "o-", label=name)
axes.set(xlabel="passage of the document", ylabel="probability of the topic", xticks=range(len(proba)))
axes.legend()
plt.show()
