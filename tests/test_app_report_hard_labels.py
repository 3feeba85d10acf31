"""Labels that bags cannot teach, against a brute force over pairs; what is said of them, in which words."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise import BagDataset, Bags
from bagwise.app.media.media_types import MEDIA
from bagwise.app.report.facts import DatasetFacts, HardLabels, find_hard_labels, remarks_on_labels


@st.composite
def label_tables(draw):
    """Few bags and few different columns, so that equal ones are common."""
    n, c = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    columns = draw(st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=3))
    columns += [[1] * n, [0] * n]
    return np.array([draw(st.sampled_from(columns)) for _ in range(c)]).T


def brute_force(Y, named):
    """Groups as connected pairs of labels; a label everywhere is no member of a group."""
    n, c = Y.shape
    present = [j for j in range(c) if any(Y[i, j] for i in range(n)) and j not in named]
    everywhere = [j for j in present if n >= 3 and all(Y[i, j] for i in range(n))]
    partners = {j: {j} for j in present if j not in everywhere}
    for j, k in itertools.combinations(partners, 2):
        if all(Y[i, j] == Y[i, k] for i in range(n)):
            partners[j].add(k)
            partners[k].add(j)
    groups = {frozenset(group) for group in partners.values() if len(group) > 1}
    return groups, everywhere, {j: int(Y[:, j].sum()) for j in present if Y[:, j].sum() < 3}


@given(label_tables(), st.sets(st.integers(0, 6), max_size=2))
@settings(max_examples=300, deadline=None)
def test_groups_against_all_pairs(Y, named):
    hard = find_hard_labels(Y, list(range(Y.shape[1])), named)
    groups, everywhere, rare = brute_force(Y, named)
    assert {frozenset(labels) for labels, _ in hard.together} == groups
    assert all(count == Y[:, labels[0]].sum() for labels, count in hard.together)
    assert hard.everywhere == everywhere
    assert dict(hard.rare) == rare


@given(label_tables(), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_facts_of_pieces_say_the_same(Y, size):
    names = [f"n{c}" for c in range(Y.shape[1])]
    data = BagDataset(Bags(np.arange(len(Y), dtype=float)[:, None], np.arange(len(Y) + 1)), Y, names)
    facts = DatasetFacts()
    for start in range(0, len(Y), size):
        facts.add(data[start : start + size])
    summary, hard = facts.summary(), find_hard_labels(Y, names)
    assert summary.get("labels_always_together", []) == [" + ".join(labels) for labels, _ in hard.together]
    assert summary.get("labels_in_every_bag", []) == hard.everywhere
    assert summary.get("labels_in_fewer_than_3_bags", []) == [label for label, _ in hard.rare]


def test_what_is_said_has_the_words_of_the_medium_and_the_cure():
    hard = HardLabels(9, [(["a", "b"], 4)], ["bird"], [("owl", 1)])
    together, everywhere, rare = remarks_on_labels(hard, MEDIA["audio"])
    assert together.startswith("Always listed together, in the same recordings, so that their syllables")
    assert "'a' + 'b' (4)" in together
    assert everywhere.startswith("Listed by every one of the 9 labelled recordings")
    assert rare.startswith("Listed by fewer than 3 recordings")
    assert "'owl' (1)" in rare
    for text in (together, everywhere):
        assert "'song.wav@3'" in text
        assert "--window 1" in text
    assert "add recordings with them" in rare
    assert all("bagwise review" in text for text in (together, everywhere, rare))
    for name, word in (("image", "pictures"), ("text", "texts"), ("series", "series"), ("table", "smaller bags")):
        (text,) = remarks_on_labels(HardLabels(9, [(["a", "b"], 4)]), MEDIA[name])
        assert word in text
        assert "song.wav" not in text
    assert remarks_on_labels(HardLabels(9), MEDIA["audio"]) == []


@pytest.mark.parametrize("n", [3, 10, 25])
def test_of_many_ten_and_a_count(n):
    (text,) = remarks_on_labels(HardLabels(9, rare=[(f"label {i}", 1) for i in range(n)]), MEDIA["audio"])
    assert text.count("'label ") == min(n, 10)
    assert (f"and {n - 10} more" in text) == (n > 10)
