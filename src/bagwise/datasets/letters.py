"""A text as a multi-instance multi-label data set: a bag for each word, an instance for each letter."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

import numpy as np

from bagwise.bags import Bags, offsets_of
from bagwise.dataset import BagDataset, as_column
from bagwise.datasets.letter_drawing import draw_with_fonts
from bagwise.datasets.letter_features import FEATURE_NAMES, letter_features
from bagwise.exceptions import InputError
from bagwise.typing import Seed

# Written for this project; every letter of the alphabet occurs at least five times.
TEXT = """
Before the sun lifts over the quiet fields, a lark begins. She climbs on a thin silver thread of song and
hangs there, juggling her small quick notes, while the fox goes home along the ditch. We sit by the gate
with a box of wires and a jar of cold coffee, and we listen. A wren answers from the hazel, sharp and dizzy,
six bars and a quaver. Next a jay, jarring and vexed, squawks at nobody. Two finches mix their voices in the
hedge, and a goldcrest buzzes, so high that only the young hear it. Which throat sang which phrase? The tape
does not say. It keeps one long breath of morning, everyone at once, and the page beside it holds a bare
list of names. So we play it back, and back again, and puzzle each voice loose: this zigzag is the wren,
that jumble is a lark, the hoarse exclaiming is the jay. By noon the maize stands still, the quails doze,
and the index is done. Just six birds, and a field that was never empty.
"""


def make_letter_bags(
    words: str | Sequence[str] | None = None, *, distortion: float = 1.0, random_state: Seed = 0
) -> BagDataset:
    """Turn a text into bags: one for each word, with the images of its letters as instances.

    This is how Letter-Carroll and Letter-Frost were made from two poems, except that the letters are drawn
    here (see `draw_letters`) and not taken from the UCI Letter Recognition data. A bag's labels are the
    letters of its word; which instance is which letter is known too, in `instance_labels`.

    Parameters
    ----------
    words : str or sequence of str, default=None
        A text, cut into words at blanks and dashes, or a list of words. Case, accents and everything that is
        not a letter are dropped. None takes a short text about birds.
    distortion : float, default=1.0
        Strength of the distortion of the letters, 0 to 2.
    random_state : int, numpy.random.Generator or None, default=0
        With an integer, ``draw_letters("".join(data.bag_names), distortion=..., random_state=...)`` draws the
        very images that were measured.

    Returns
    -------
    BagDataset
        26 classes "a" to "z", the sixteen features of `letter_features`, the words as `bag_names`, and in
        `locations` the columns word, position (in it) and font of the instances.

    References
    ----------
    F. Briggs, X. Z. Fern and R. Raich, "Rank-loss support instance machines for MIML instance annotation",
    KDD 2012.

    Examples
    --------
    >>> from bagwise.datasets import make_letter_bags
    >>> data = make_letter_bags("A wren sings")
    >>> data.bag_names, sorted(data.label_sets[1]), data.bags.sizes.tolist()
    (['a', 'wren', 'sings'], ['e', 'n', 'r', 'w'], [1, 4, 5])
    """
    words = _as_words(TEXT if words is None else words)
    letters = "".join(words)
    images, fonts = draw_with_fonts(letters, distortion=distortion, random_state=random_state)
    offsets = offsets_of([len(word) for word in words])
    labels = np.array([string.ascii_lowercase.index(letter) for letter in letters])
    Y = np.zeros((len(words), 26), dtype=np.uint8)
    Y[np.repeat(np.arange(len(words)), np.diff(offsets)), labels] = 1
    return BagDataset(
        bags=Bags(letter_features(images), offsets),
        Y=Y,
        class_names=list(string.ascii_lowercase),
        instance_labels=Bags(labels, offsets),
        bag_names=words,
        feature_names=list(FEATURE_NAMES),
        locations={
            "word": as_column([word for word in words for _ in word]),
            "position": as_column([k for word in words for k in range(len(word))]),
            "font": as_column(fonts),
        },
        name="letters",
    )


def _as_words(words: str | Sequence[str]) -> list[str]:
    """Words of the letters a to z only."""
    if isinstance(words, str):
        folded = [_fold(word) for word in re.split(r"\s+|--+|[\u2012-\u2015]", words)]
        folded = [word for word in folded if word]
    else:
        for i, word in enumerate(words):
            if not isinstance(word, str):
                raise InputError(f"Word {i} is {word!r}; expected a text or a list of words.")
        folded = [_fold(word) for word in words]
        if "" in folded:
            i = folded.index("")
            raise InputError(f"Word {i}, {words[i]!r}, has no letter a to z; leave it out.")
    if not folded:
        raise InputError("There are no words; pass a text or a list of words with letters a to z.")
    return folded


def _fold(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in decomposed if letter in string.ascii_lowercase)
