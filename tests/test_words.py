"""We speak the language of the field: what has a usual name is called by it, in code, messages, pages and docs.

`benchmarks/house.py` lists the words that were replaced; its worst, which no reader could guess, are counted here.
"""

from benchmarks.house import WORST, old_words

AT_MOST = 50


def test_words_that_have_a_usual_name_become_fewer():
    counts = {word: count for word, count in old_words().items() if word in WORST and count}
    assert sum(counts.values()) <= AT_MOST, counts
