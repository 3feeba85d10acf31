"""
Who sang what
=============

Twenty-four short recordings, and for each the list of species that call in it: a *bag* with its labels. Which
syllable (an *instance*) is whose?
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from bagwise.app.media import featurize_audio
from bagwise.catalog import make_model
from bagwise.datasets import make_soundscape

scene = make_soundscape(24, seconds=6, species_per_recording=(1, 3), random_state=0)
with tempfile.TemporaryDirectory() as folder:
    recordings, _, _ = scene.write(folder)
    data = featurize_audio([Path(recordings) / name for name in scene.names])
print(data.bags)

# %%
# Syllables are found by their loudness, and described by 38 features. The learner is given the species of each
# recording, and has a background for what belongs to none of them. It chooses among the species of the recording:
# that is *transductive*.

labels = dict(zip(scene.names, scene.label_sets, strict=True))
Y = [labels[name] for name in data.bag_names]
model = make_model("ored-background", background_share=0.1).fit(data.bags, Y)
species = model.annotate(data.bags, Y)

# %%
# One recording with every syllable named, over the sound itself. Dashed boxes are the calls as they were made.

shown = max(range(len(Y)), key=lambda i: len(Y[i]))
name = data.bag_names[shown]
place = {key: data.bags.split(values)[shown] for key, values in data.locations.items()}
named = data.bags.split(species)[shown]
colours = dict(zip(sorted(Y[shown]), ["tab:orange", "tab:cyan", "tab:pink"], strict=False))

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
axes.specgram(scene.recordings[scene.names.index(name)], NFFT=512, noverlap=384, Fs=scene.rate, cmap="gray_r")
for i, label in enumerate(named):
    left, low = place["start"][i], place["low"][i]
    width, height = place["end"][i] - left, place["high"][i] - low
    axes.add_patch(plt.Rectangle((left, low), width, height, fill=False, lw=2, color=colours[label]))
for event in scene.events:
    if event["file"] == name:
        size = event["end"] - event["start"], event["high"] - event["low"]
        axes.add_patch(plt.Rectangle((event["start"], event["low"]), *size, fill=False, ls="--", color="black"))
for label, colour in colours.items():
    axes.plot([], [], color=colour, lw=2, label=label)
axes.legend(loc="upper right")
axes.set(xlabel="seconds", ylabel="hertz", title=name, ylim=(0, scene.rate / 2))
plt.show()
