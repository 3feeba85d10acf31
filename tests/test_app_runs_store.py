"""What is kept of files: many in an archive, whole or absent, and only of files as they are now."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from bagwise.app.media.files import FileBags
from bagwise.app.media.media_types import MEDIA
from bagwise.app.media.text import TextSettings
from bagwise.app.runs import _features as features
from bagwise.app.runs._features import (
    FILES,
    LARGE,
    MOST_BYTES,
    MOST_FILES,
    SHARES,
    Source,
    Store,
    _batches,
    _Piece,
    part_key,
    read_entries,
    read_files,
    write_entries,
)

N_TEXTS, BAD = 200, "090.txt"
A_BATCH = -(-N_TEXTS // SHARES)  # files, of one process


def some_bags(name, n=3, *, d=2, vectors=None, names=None, sparse=False):
    features = np.arange(n * d, dtype=float).reshape(n, d) - 1
    places = {"start": np.arange(n) / 7, "who": np.array(["ä"] * n, object), "kind": np.array(["x", "yy", "z"][:n])}
    return FileBags(
        [name], [n], sp.csr_matrix(features.astype(np.float32)) if sparse else features, places, {"of": name},
        ["odd"] if n else [], names, vectors,
    )  # fmt: skip


def assert_same(one, other):
    assert (one.bag_names, one.sizes, one.info, one.problems, one.feature_names) == (
        other.bag_names, other.sizes, other.info, other.problems, other.feature_names,
    )  # fmt: skip
    assert sp.issparse(one.features) == sp.issparse(other.features)
    assert (one.features.shape, one.features.dtype) == (other.features.shape, other.features.dtype)
    dense = [file.features.toarray() if sp.issparse(file.features) else file.features for file in (one, other)]
    np.testing.assert_array_equal(*dense)
    assert list(one.locations) == list(other.locations)
    for name, column in one.locations.items():
        assert column.tolist() == other.locations[name].tolist()
    assert (one.vectors is None) == (other.vectors is None)
    if one.vectors is not None:
        np.testing.assert_array_equal(one.vectors, other.vectors)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run" / ".features").mkdir(parents=True)
    return tmp_path / "run"


ENTRIES = {
    "words": some_bags("a", sparse=True, names=["ärger", "日本語"]),
    "more words": some_bags("b", 2, d=3, sparse=True, names=["日本語", "", "zoo"]),
    "nothing": some_bags("c", 0, sparse=True, names=[]),
    "plain": some_bags("d", d=4),
    "vectors": some_bags("e", vectors=np.full((3, 5), 0.5, dtype=np.float32)),
    "columns": some_bags("f", d=0, names=[]),
}


def test_an_archive_gives_all_of_its_entries_back(run):
    back = read_entries(write_entries(run, ENTRIES))
    assert list(back) == list(ENTRIES)
    for key, bags in ENTRIES.items():
        assert_same(back[key], bags)


def test_large_arrays_stand_by_themselves_between_small_ones(run):
    wide = np.arange(3 * LARGE // 8, dtype=float).reshape(3, -1, order="F")
    entries = {
        "small": ENTRIES["plain"],
        "large": replace(ENTRIES["plain"], features=wide),
        "turned": replace(ENTRIES["plain"], features=wide[:, ::-1]),
        "after": some_bags("h", d=5),
    }
    back = read_entries(write_entries(run, entries))
    for key, bags in entries.items():
        assert_same(back[key], bags)


def test_a_damaged_archive_has_no_entries(run):
    path = write_entries(run, ENTRIES)
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 60, dtype=int):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            assert read_entries(path).keys() in (set(), ENTRIES.keys())  # not all bytes of a zip matter


def test_what_is_not_wanted_leaves_its_archive_and_what_is_there_twice_goes(run):
    write_entries(run, {key: ENTRIES[key] for key in ("words", "plain", "vectors")})
    write_entries(run, {"plain": ENTRIES["plain"]})
    write_entries(run, {"nothing": ENTRIES["nothing"]})
    (run / ".features" / "torn.zip").write_bytes(b"PK")
    store = Store(run)
    assert store.read_all({"plain", "vectors"}).keys() == {"plain", "vectors"}
    store.forget_others(["plain", "vectors"])
    kept = [read_entries(path) for path in (run / ".features").iterdir()]
    assert sorted(key for entries in kept for key in entries) == ["plain", "vectors"]
    for entries in kept:
        for key, bags in entries.items():
            assert_same(bags, ENTRIES[key])


def test_parts_are_found_with_their_file(run):
    part = part_key("words", 2, 3)
    write_entries(run, {part: ENTRIES["words"]})
    assert list(Store(run).read_all({"words"})) == [part]
    assert Store(run).read_all({"plain"}) == {}


def test_small_files_are_read_together_and_large_ones_alone():
    small = [_Piece(f"{i}", f"{i}", None, 1.0, 100) for i in range(5000)]
    sizes = [len(batch) for batch in _batches(small, 2)]
    assert sizes == [MOST_FILES] * (5000 // MOST_FILES) + [5000 % MOST_FILES]
    assert max(len(batch) for batch in _batches(small[:300], 2)) == 10  # every process has its shares
    assert [len(batch) for batch in _batches(small[:20], 2)] == [1] * 20
    large = [replace(piece, n_bytes=MOST_BYTES // 3) for piece in small]
    assert {len(batch) for batch in _batches(large, 2)} == {3, 2}
    parts = [replace(piece, part=(0.0, 1.0)) for piece in small]
    assert {len(batch) for batch in _batches(parts, 2)} == {1}
    assert [piece for batch in _batches(large, 2) for piece in batch] == large


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(N_TEXTS):
        (folder / f"{i:03}.txt").write_text(f"the owl number {'x' * (i % 7 + 1)} of wood {chr(97 + i % 26) * 3}\n" * 9)
    (folder / BAD).write_bytes(b"\x00\x01\x02")
    return folder


def read(folder, run, jobs=1):
    names, supervision = sorted(path.name for path in folder.iterdir()), []
    done = read_files(
        Source(folder, MEDIA["text"], TextSettings(), names), run, jobs, lambda *step: supervision.append(step)
    )
    assert supervision[-1] == (FILES, len(names), len(names))
    return done


@pytest.mark.parametrize("jobs", [1, 2])
def test_texts_of_a_batch_are_those_read_one_by_one_and_a_bad_one_stops_no_other(texts, run, jobs):
    done = read(texts, run, jobs)
    assert list(done.errors) == [BAD]
    assert len(done.bags) == N_TEXTS - 1
    for name, bags in done.bags.items():
        assert_same(bags, MEDIA["text"].read_file(texts / name, name, TextSettings()))
    assert len(list((run / ".features").iterdir())) <= SHARES * jobs
    assert read(texts, run).n_reused == N_TEXTS - 1


def test_an_interrupted_batch_is_all_that_is_read_again(texts, run, monkeypatch):
    real, names = features._found, []

    def interrupted(source, piece):
        names.append(piece.name)
        if piece.name == "050.txt":
            raise KeyboardInterrupt
        return real(source, piece)

    monkeypatch.setattr(features, "_found", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(texts, run)
    assert names[-1] == "050.txt"
    monkeypatch.setattr(features, "_found", real)
    assert read(texts, run).n_reused == 50 // A_BATCH * A_BATCH


def test_files_that_changed_or_are_gone_are_forgotten_and_the_others_of_their_batch_are_not_read_again(texts, run):
    first = read(texts, run)
    (texts / "007.txt").write_text("another text of other words altogether")
    (texts / "008.txt").unlink()
    done = read(texts, run)
    assert done.n_reused == N_TEXTS - 3
    assert "altogeth" in done.bags["007.txt"].feature_names
    assert_same(done.bags["006.txt"], first.bags["006.txt"])
    kept = [key for path in (run / ".features").iterdir() for key in read_entries(path)]
    assert sorted(kept) == sorted(done.keys[name] for name in done.bags)
    victim = sorted((run / ".features").iterdir())[0]
    n_lost = len(read_entries(victim))
    victim.write_bytes(victim.read_bytes()[:-50])
    again = read(texts, run)
    assert again.n_reused == len(done.bags) - n_lost
    assert list(again.bags) == list(done.bags)
