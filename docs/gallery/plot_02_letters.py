"""
Letters of words
================

A word is a bag, its drawn letters are the instances. Only the letters of the word are given, not which drawing
is which.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

from bagwise import ORedLogisticRegression, make_pipeline
from bagwise.datasets import draw_letters, make_letter_bags
from bagwise.metrics import instance_accuracy
from bagwise.preprocessing import PerInstance

data = make_letter_bags()
images = draw_letters("".join(data.bag_names))  # the very images that were measured
model = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(l2=0.3))
model.fit(data.bags, data.label_sets)

# %%
# *Transductive*: the letters of the word are given. *Inductive*: a letter is named by its features alone.

truth = [data.class_names[i] for i in data.instance_labels.instances]
annotated = model.annotate(data.bags, data.label_sets)
alone = model.predict_instances(data.bags)
print(f"letters of the word given: {instance_accuracy(truth, annotated):.1%} right")
print(f"by their features alone:  {instance_accuracy(truth, alone):.1%} right (in words it has seen)")

# %%
# The first words, letter by letter; a letter that is named wrongly is red.

figure, axes = plt.subplots(4, 12, figsize=(9, 4.2), layout="constrained")
for i, panel in enumerate(axes.flat):
    panel.imshow(~images[i], cmap="gray")
    panel.set_title(annotated[i], color="black" if annotated[i] == truth[i] else "red")
    panel.axis("off")
plt.show()
