"""Texts to passages: windows, stems, terms, counts; encodings and forms of documents."""

import re
import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from bagwise.app.media import TextSettings, featurize_texts
from bagwise.app.media.text import (
    OTHER_LANGUAGES,
    _choose_terms,
    _count_matrix,
    _notes,
    _read_passages,
    _stemmer,
    _terms_of,
    passages,
)
from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import FormatError, InputError

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
    assert _stemmer("english")(word) == PORTER[word]


@given(st.integers(0, 400), st.integers(1, 60), st.data())
def test_passages_cover_all_words_and_overlap_as_asked(n, window, data):
    step = data.draw(st.integers(1, window))
    text = " ".join(f"w{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10 % 10]}{'uvwxy'[i // 100]}" for i in range(n))
    chosen = TextSettings(window=window, step=step, stop_words="none", stems=False)
    found = passages(text, chosen)
    words = text.split()
    places = [m.start() for m in re.finditer(r"\w+", text)]
    starts = [places.index(start) for start in found.starts]
    assert starts == list(range(0, len(starts) * step, step))
    covered = set()
    counts = found.counts.toarray()
    for i, start, end, row in zip(starts, found.starts, found.ends, counts, strict=True):
        piece = words[i : i + window]
        assert text[start:end].split() == piece
        assert {found.terms[j]: row[j] for j in np.flatnonzero(row)} == Counter(piece)
        covered |= set(range(i, i + len(piece)))
    assert covered == set(range(n))
    assert all(i + window < n for i in starts[:-1])  # none after the one that reaches the end


def test_terms_lose_stop_words_case_and_endings():
    words = re.findall(r"[A-Za-z']+", "The Dogs weren't running, and the DOG's ball ran")
    expected = ["", "dog", "werent", "run", "", "", "dog", "ball", "ran"]
    assert _terms_of(words, TextSettings()) == expected
    assert _terms_of(words, TextSettings(stop_words="none"))[0] == "the"
    assert _terms_of(["The", "Dogs"], TextSettings(stop_words="none", stems=False)) == ["the", "dogs"]


@pytest.mark.filterwarnings("ignore:Of 5 terms")  # so few that they can be counted here
@pytest.mark.filterwarnings("ignore:Of 3 terms")
def test_counts_are_sparse_and_terms_those_of_several_documents(tmp_path):
    texts = {"a.txt": "apple banana apple cherry", "b.txt": "apple banana", "c.txt": "apple date élan"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = [tmp_path / name for name in texts]
    data = featurize_texts(paths, TextSettings(stems=False))
    assert sp.issparse(data.bags.instances)
    assert data.feature_names == ["apple", "banana"]
    assert data.bags.instances.toarray().tolist() == [[2, 1], [1, 1], [1, 0]]
    assert rows_of(data.locations)[2] == {"file": "c.txt", "start": 0, "end": 15}
    assert featurize_texts(paths, TextSettings(keep=0.5)).feature_names == ["appl"]
    one = featurize_texts([tmp_path / "c.txt"], TextSettings(min_documents=1))
    assert one.feature_names == ["appl", "date", "élan"]
    with pytest.raises(InputError, match=r"None of the 3 terms occurs in 2 documents.*min_documents=1"):
        featurize_texts([tmp_path / "c.txt"])


@pytest.mark.parametrize("seed", range(5))
def test_terms_and_counts_are_those_of_scikit_learn(seed, tmp_path):
    from sklearn.feature_extraction.text import CountVectorizer

    rng = np.random.default_rng(seed)
    words = [f"{a}{b}" for a in "bcdfg" for b in ("alt", "ort", "ust", "ink")]
    texts = [" ".join(rng.choice(words, rng.integers(5, 30), p=rng.dirichlet(np.full(20, 0.3)))) for _ in range(12)]
    settings = TextSettings(window=100, step=100, min_documents=3, stems=False, stop_words="none")
    for i, text in enumerate(texts):
        (tmp_path / f"{i:02d}.txt").write_text(text)
    data = featurize_texts(sorted(tmp_path.iterdir()), settings)
    vectorizer = CountVectorizer(min_df=3)
    expected = vectorizer.fit_transform(texts).toarray()
    assert data.feature_names == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_array_equal(data.bags.instances.toarray(), expected)


def test_terms_are_as_many_as_there_is_memory_for(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("cow barn wheat milk field tractor bank loan stock market profit trade")
    files = [_read_passages(tmp_path / f"{name}.txt", name, TextSettings()) for name in "ab"]
    (tmp_path / "c.txt").write_text("trade stock")
    files.append(_read_passages(tmp_path / "c.txt", "c", TextSettings()))
    assert len(_choose_terms(files, TextSettings())) == 12
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", str(10 * 24_000))
    terms = _choose_terms(files, TextSettings())
    assert len(terms) == 10
    assert {"trade", "stock"} <= set(terms)
    assert _count_matrix(files, terms).sum(axis=0).tolist()[0][terms.index("stock")] == 3


def test_long_documents_make_bags(tmp_path):
    rng = np.random.default_rng(0)
    vocabulary = [f"{a}{b}{c}" for a in "bcdfg" for b in "aiou" for c in "lmnrt"]
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text(" ".join(rng.choice(vocabulary, 180)), encoding="utf-8")
    data = featurize_texts([tmp_path / f"{i}.txt" for i in range(5)])
    assert data.bags.sizes.tolist() == [7] * 5
    assert data.bags.instances.sum(axis=1).max() <= 50


def test_too_few_terms_are_told(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("cow barn wheat milk field tractor bank loan stock market profit trade")
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    with pytest.warns(UserWarning, match=r"Of 12 terms only 1 are counted \(min_documents=2, keep=0.02\).*keep=1\."):
        featurize_texts(paths, TextSettings(keep=0.02))
    assert featurize_texts(paths, TextSettings(keep=0.9)).bags.n_features == 11
    assert featurize_texts(paths).bags.n_features == 12


def test_bad_documents_are_named(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "damaged.txt").write_bytes("Käse und Öl über Ähren".encode() + b"\xff")
    (tmp_path / "dots.txt").write_text("... 12 34")
    (tmp_path / "stop.txt").write_text("it was the " * 40)
    for name, message in (("empty.txt", "is empty"), ("damaged.txt", "row 1: the byte 0xff is not UTF-8")):
        with pytest.raises(FormatError, match=f"{name}.*{message}"):
            featurize_texts([tmp_path / name])
    with pytest.raises(InputError, match="no terms in any document"):
        featurize_texts([tmp_path / "dots.txt"])
    stopped = _read_passages(tmp_path / "stop.txt", "stop.txt", TextSettings())
    assert stopped.sizes == [0]
    assert stopped.problems == ["all of its words are stop words; leave it out, or set stop_words=none."]
    assert _read_passages(tmp_path / "stop.txt", "stop.txt", TextSettings(stop_words="none")).sizes[0] > 1
    with pytest.raises(InputError, match="words between passages would be lost"):
        TextSettings(window=10, step=20)
    with pytest.raises(InputError, match="'stop_words' is 'french'"):
        TextSettings(stop_words="french")
    with pytest.raises(InputError, match="'language' is 'klingon'; use one of 'english', 'arabic'"):
        TextSettings(language="klingon")


@pytest.mark.parametrize("language", ["german", "french", "russian", "spanish"])
def test_languages_are_stemmed_by_snowball(language, monkeypatch):
    words = {
        "german": "Häuser laufende Verbindungen", "french": "continuellement maisons chevaux",
        "russian": "книгами красивая бегающий", "spanish": "corriendo canciones hermosamente",
    }[language].split()  # fmt: skip
    snowball = pytest.importorskip("snowballstemmer").stemmer(language)
    settings = TextSettings(language=language)
    assert _terms_of(words, settings) == [snowball.stemWord(word.lower()) for word in words]
    assert _terms_of(["the", *words], settings)[0] != ""  # stop words of English are none of other languages
    assert _terms_of(words, TextSettings(language=language, stems=False)) == [word.lower() for word in words]
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    _stemmer.cache_clear()
    with pytest.raises(InputError, match=rf"Stems of {language} need snowballstemmer; pip install 'bagwise\[text\]'"):
        _terms_of(words, settings)
    _stemmer.cache_clear()


def test_all_languages_are_those_of_snowball():
    algorithms = pytest.importorskip("snowballstemmer").algorithms()
    assert set(OTHER_LANGUAGES) <= set(algorithms)


def test_what_documents_were_read_as_is_noted(tmp_path):
    text = "Ärger und Öl, dann Käse und Brötchen am Fluß"
    for name, raw in (
        ("a.txt", text.encode()), ("b.txt", text.encode("latin-1")), ("c.txt", text.encode("utf-16")),
        ("d.html", f"<p>{text}</p>".encode()),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(raw)
    files = {path.name: _read_passages(path, path.name, TextSettings()) for path in sorted(tmp_path.iterdir())}
    assert len({tuple(file.feature_names) for file in files.values()}) == 1
    assert _notes([{"file": name, **file.info} for name, file in files.items()]) == [
        "1 of 4 texts read as HTML (UTF-8): d.html.", "1 of 4 texts read as Latin-1: b.txt.",
        "1 of 4 texts read as UTF-16: c.txt.",
    ]  # fmt: skip
    assert _notes([{"file": "old.txt", "characters": 3}]) == []
