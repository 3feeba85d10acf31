"""Texts to passages: windows, stems, terms, counts."""

import re
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from bagwise.dataset import rows_of
from bagwise.exceptions import FormatError, InputError
from bagwise.featurize import TextSettings, featurize_texts
from bagwise.featurize.stemming import stem
from bagwise.featurize.text import passages, read_document, terms_of

# The examples that Porter's paper gives beside its rules, followed through all steps.
PORTER = {
    "caresses": "caress", "ponies": "poni", "ties": "ti", "caress": "caress", "cats": "cat", "feed": "feed",
    "agreed": "agre", "plastered": "plaster", "bled": "bled", "motoring": "motor", "sing": "sing",
    "conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop", "tanned": "tan",
    "falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file", "happy": "happi",
    "sky": "sky", "relational": "relat", "conditional": "condit", "rational": "ration", "valenci": "valenc",
    "hesitanci": "hesit", "digitizer": "digit", "conformabli": "conform", "radicalli": "radic",
    "differentli": "differ", "vileli": "vile", "analogousli": "analog", "vietnamization": "vietnam",
    "predication": "predic", "operator": "oper", "feudalism": "feudal", "decisiveness": "decis",
    "hopefulness": "hope", "callousness": "callous", "formaliti": "formal", "sensitiviti": "sensit",
    "sensibiliti": "sensibl", "triplicate": "triplic", "formative": "form", "formalize": "formal",
    "electriciti": "electr", "electrical": "electr", "hopeful": "hope", "goodness": "good", "revival": "reviv",
    "allowance": "allow", "inference": "infer", "airliner": "airlin", "gyroscopic": "gyroscop",
    "adjustable": "adjust", "defensible": "defens", "irritant": "irrit", "replacement": "replac",
    "adjustment": "adjust", "dependent": "depend", "adoption": "adopt", "homologou": "homolog",
    "communism": "commun", "activate": "activ", "angulariti": "angular", "homologous": "homolog",
    "effective": "effect", "bowdlerize": "bowdler", "probate": "probat", "rate": "rate", "cease": "ceas",
    "controll": "control", "roll": "roll", "generalizations": "gener", "oscillators": "oscil", "is": "is", "a": "a",
}  # fmt: skip


@pytest.mark.parametrize("word", PORTER)
def test_stems_of_the_paper(word):
    assert stem(word) == PORTER[word]


@given(st.integers(0, 400), st.integers(1, 60), st.data())
def test_passages_cover_all_words_and_overlap_as_asked(n, window, data):
    step = data.draw(st.integers(1, window))
    text = " ".join(f"w{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10 % 10]}{'uvwxy'[i // 100]}" for i in range(n))
    chosen = TextSettings(window=window, step=step, stop_words="none", stems=False)
    found = passages(text, chosen)
    words = text.split()
    places = [m.start() for m in re.finditer(r"\w+", text)]
    starts = [places.index(start) for start, _, _ in found]
    assert starts == list(range(0, len(starts) * step, step))
    covered = set()
    for i, (start, end, counts) in zip(starts, found, strict=True):
        piece = words[i : i + window]
        assert text[start:end].split() == piece
        assert counts == Counter(piece)
        covered |= set(range(i, i + len(piece)))
    assert covered == set(range(n))
    assert all(i + window < n for i in starts[:-1])  # none after the one that reaches the end


def test_terms_lose_stop_words_case_and_endings():
    words = re.findall(r"[A-Za-z']+", "The Dogs weren't running, and the DOG's ball ran")
    assert terms_of(words, TextSettings()) == ["dog", "werent", "run", "dog", "ball", "ran"]
    assert terms_of(["The", "Dogs"], TextSettings(stop_words="none", stems=False)) == ["the", "dogs"]


@pytest.mark.filterwarnings("ignore:Of 5 terms")  # so few that they can be counted here
def test_counts_are_sparse_and_terms_the_most_frequent(tmp_path):
    texts = {"a.txt": "apple banana apple cherry", "b.txt": "apple banana", "c.txt": "apple date élan"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    chosen = TextSettings(keep=0.4, stems=False)  # two of five terms
    data = featurize_texts([tmp_path / name for name in texts], chosen)
    assert sp.issparse(data.bags.instances)
    assert data.feature_names == ["apple", "banana"]
    assert data.bags.instances.toarray().tolist() == [[2, 1], [1, 1], [1, 0]]
    assert rows_of(data.locations)[2] == {"file": "c.txt", "start": 0, "end": 15}
    assert featurize_texts([tmp_path / "c.txt"], TextSettings(keep=1.0)).feature_names == ["appl", "date", "élan"]


def test_long_documents_make_bags(tmp_path):
    rng = np.random.default_rng(0)
    vocabulary = [f"{a}{b}{c}" for a in "bcdfg" for b in "aiou" for c in "lmnrt"]
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text(" ".join(rng.choice(vocabulary, 180)), encoding="utf-8")
    data = featurize_texts([tmp_path / f"{i}.txt" for i in range(5)], TextSettings(keep=1.0))
    assert data.bags.sizes.tolist() == [7] * 5
    assert data.bags.instances.sum(axis=1).max() <= 50


def test_too_few_terms_are_told(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("cow barn wheat milk field tractor bank loan stock market profit trade")
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    with pytest.warns(UserWarning, match=r"Of 12 terms only 1 are counted \(keep=0.02\).*such as keep=1\."):
        featurize_texts(paths)
    assert featurize_texts(paths, TextSettings(keep=0.9)).bags.n_features == 11


def test_bad_documents_are_named(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes("Käse".encode("latin-1"))
    (tmp_path / "dots.txt").write_text("... 12 34")
    (tmp_path / "stop.txt").write_text("it was the " * 40)
    for name, message in (("empty.txt", "is empty"), ("latin.txt", "not UTF-8")):
        with pytest.raises(FormatError, match=f"{name}.*{message}"):
            featurize_texts([tmp_path / name])
    with pytest.raises(InputError, match="no terms in any document"):
        featurize_texts([tmp_path / "dots.txt"])
    stopped = read_document(tmp_path / "stop.txt", "stop.txt", TextSettings())
    assert stopped.sizes == [0]
    assert stopped.problems == ["all of its words are stop words; leave it out, or set stop_words=none."]
    assert read_document(tmp_path / "stop.txt", "stop.txt", TextSettings(stop_words="none")).sizes[0] > 1
    with pytest.raises(InputError, match="words between passages would be lost"):
        TextSettings(window=10, step=20)
    with pytest.raises(InputError, match="'stop_words' is 'french'"):
        TextSettings(stop_words="french")
