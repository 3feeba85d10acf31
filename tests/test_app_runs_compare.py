"""Two runs beside each other: symmetric, alike to themselves, counted as scikit-learn counts."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bagwise import Run, write_dataset
from bagwise.app.cli import main
from bagwise.app.formats import Annotations
from bagwise.app.formats._compare import LEAST_OVERLAP
from bagwise.app.media.media_types import MEDIA
from bagwise.app.runs.compare import _Comparison, compare_annotations
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from media_examples import ABOUT, MAKERS, finding, pictures, sounds

LABELS = ["ant", "bee", "cat"]
steps = st.integers(0, 12).map(lambda i: i / 4)


@st.composite
def annotations(draw):
    """Instances on a coarse grid, so that places overlap, touch and repeat; some are noise."""
    files = [{"file": name, "seconds": 10.0} for name in draw(st.sampled_from([["a"], ["b"], ["a", "b"]]))]
    rows = []
    for file in files:
        for j in range(draw(st.integers(0, 6))):
            start, low = draw(steps), 1000 * draw(steps)
            place = {
                "start": start,
                "end": start + draw(steps) + 0.25,
                "low": low,
                "high": low + 250 + 1000 * draw(steps),
            }
            noise = draw(st.sampled_from([0.1, 0.9]))
            found = finding(draw(st.sampled_from([*LABELS, ""])), draw(st.none() | st.floats(0, 1)), noise=noise)
            rows.append({"file": file["file"], **place, **found, "bag": file["file"], "instance": j})
    return Annotations(MEDIA["audio"], rows, files, LABELS, ABOUT, max_noise=0.5)


def share_of_union(a, b):
    """Intersection over union of two boxes, in the plainest way."""
    sides = [(max(a[x], b[x]), min(a[y], b[y])) for x, y in (("start", "end"), ("low", "high"))]
    shared = max(0.0, sides[0][1] - sides[0][0]) * max(0.0, sides[1][1] - sides[1][0])
    area = [(r["end"] - r["start"]) * (r["high"] - r["low"]) for r in (a, b)]
    return shared / (area[0] + area[1] - shared)


@given(annotations(), annotations())
@settings(deadline=None)
def test_the_order_of_the_runs_makes_no_difference(one, two):
    assume({f["file"] for f in one.files} & {f["file"] for f in two.files})
    there, back = compare_annotations(one, two), compare_annotations(two, one)
    assert sorted(there.pairs) == sorted((b, a) for a, b in back.pairs)
    assert there.agreement == back.agreement
    assert there.kappa == pytest.approx(back.kappa) if there.kappa is not None else back.kappa is None
    assert (there.only_first, there.only_second) == (back.only_second, back.only_first)
    assert len(there.rows) == len(back.rows)
    for a, b in zip(there.by_label(), back.by_label(), strict=True):
        assert a == {**b, "first": b["second"], "second": b["first"]}


@given(annotations())
@settings(deadline=None)
def test_a_run_agrees_with_itself(one):
    found = compare_annotations(one, one)
    assert len(found.pairs) == len(found.rows) == len(one.rows)
    assert found.agreement in (None, 1.0)
    assert found.kappa in (None, 1.0)
    assert found.changes() == []
    shown = one.shown()
    assert sum(row["both"] for row in found.by_label() if row["label"]) == len(shown)


@given(annotations(), annotations())
@settings(deadline=None)
def test_pairs_overlap_and_nothing_that_overlaps_is_left_on_both_sides(one, two):
    names = {f["file"] for f in one.files} & {f["file"] for f in two.files}
    assume(names)
    rows = compare_annotations(one, two).rows
    assert sum(row["first_label"] is not None for row in rows) == sum(row["file"] in names for row in one.rows)
    assert sum(row["second_label"] is not None for row in rows) == sum(row["file"] in names for row in two.rows)
    for a in (row for row in rows if row["second_label"] is None):
        for b in (row for row in rows if row["first_label"] is None and row["file"] == a["file"]):
            assert share_of_union(a, b) < LEAST_OVERLAP + 1e-9


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1))
@settings(deadline=None)
def test_kappa_is_agreement_beyond_chance(pairs):
    first, second = zip(*pairs, strict=True)
    kappa = _Comparison([{"first_label": a, "second_label": b} for a, b in pairs], [*"abc"], [], []).kappa
    if len({*first, *second}) == 1:
        assert kappa is None  # nothing but chance
    else:
        chance = sum(first.count(label) * second.count(label) for label in "abc") / len(pairs) ** 2
        assert kappa == pytest.approx((np.mean(np.array(first) == second) - chance) / (1 - chance))


@pytest.mark.parametrize("media_type", MAKERS)
def test_every_medium_is_compared(tmp_path, media_type):
    scene = MAKERS[media_type](tmp_path)
    other = replace(scene, rows=[{**row, "label": scene.classes[0]} for row in scene.rows])
    found = compare_annotations(scene, other)
    expected = [
        (row["label"] if scene.is_shown(row) else "", scene.classes[0] if other.is_shown(new) else "")
        for row, new in zip(scene.rows, other.rows, strict=True)
    ]
    assert sorted(found.pairs) == sorted(expected)


def test_other_media_and_other_material_are_refused(tmp_path):
    with pytest.raises(InputError, match="two media types, audio and image"):
        compare_annotations(sounds(), pictures())
    strange = replace(sounds(), files=[{"file": "z.wav", "seconds": 1.0}], rows=[])
    with pytest.raises(InputError, match=r"no file in common \('a.wav', 'b.wav', \.\.\. in the first, 'z.wav' in"):
        compare_annotations(sounds(), strange)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_dataset(make_gaussian_bags(n_bags=30, random_state=0), folder / "made.csv")
    for name, model in (("one", "ored-background"), ("two", "most-frequent")):
        Run.create(folder / "made.csv", folder / name, model=model, page=False).close()
    return folder


def test_the_command_prints_and_writes_what_changed(runs, tmp_path):
    done = CliRunner().invoke(main, ["compare", str(runs / "one"), str(runs / "two"), "--out", str(tmp_path / "c.csv")])
    assert done.exit_code == 0, done.output
    with open(tmp_path / "c.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    same = sum(row["kind"] == "same" for row in rows)
    assert f"the same label: {same} ({100 * same / len(rows):.1f} %)" in done.output
    assert f"{len(rows)} instances are in both runs" in done.output
    itself = CliRunner().invoke(main, ["compare", str(runs / "one"), str(runs / "one")])
    assert itself.exit_code == 0
    assert "(100.0 %), Cohen's kappa 1.000" in itself.output


def test_a_folder_that_is_no_run_and_a_place_that_is_none_are_errors(runs, tmp_path):
    done = CliRunner().invoke(main, ["compare", str(runs / "one"), str(tmp_path)])
    assert (done.exit_code, "holds no run of bagwise" in done.output) == (1, True)
    out = tmp_path / "no" / "c.csv"
    done = CliRunner().invoke(main, ["compare", str(runs / "one"), str(runs / "two"), "--out", str(out)])
    assert (done.exit_code, "there is no folder" in done.output) == (1, True)


def test_files_of_one_run_only_are_named(monkeypatch, runs):
    def fewer(self):
        result = original(self)
        if self.path.name == "two":
            rows = [row for row in result.annotations.rows if row["bag"] != self.material.dataset.bag_names[0]]
            result = replace(result, annotations=replace(result.annotations, rows=rows))
        return result

    original = Run.result
    monkeypatch.setattr(Run, "result", fewer)
    done = CliRunner().invoke(main, ["compare", str(runs / "one"), str(runs / "two")])
    assert done.exit_code == 3
    assert f"is in {runs / 'one'} only" in done.stderr
