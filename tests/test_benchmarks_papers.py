"""The reproduction of the papers: published figures, the store of runs, marks, and a whole experiment on made data."""

import json
import math
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import clustering_tables
from benchmarks.__main__ import BENCHMARKS
from benchmarks.papers import bag_level, briggs, m3ic, pham, tables, zhang
from benchmarks.papers import data as sources
from benchmarks.papers.bag_baselines import BASELINES
from benchmarks.papers.bag_learners import BAG_LEARNERS
from benchmarks.papers.catalog import EXPERIMENTS
from benchmarks.papers.figures import draw_panels, line_of
from benchmarks.papers.kinds import KINDS
from benchmarks.papers.methods import METHODS
from benchmarks.papers.networks import table_of
from benchmarks.papers.page import cell_text, figures_on, not_all_settings, reasons, sections_of, terminal_text
from benchmarks.papers.reproduce import ROOT, reproduce, select, write_sections
from benchmarks.papers.runs import Run, Store, execute
from benchmarks.papers.tables import Cell, ResultTable, best_of, differs, figure, mark_best, win_tie_loss
from numpy.testing import assert_allclose

from bagwise.annotation import ORedForest
from bagwise.app.cli._reproduce import _checkout
from bagwise.catalog import make_model
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import average_precision

PUBLISHED = Path(sources.__file__).parent / "published"


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """A folder with one of the papers' files, made up; the others are not there."""
    folder = tmp_path / "data"
    folder.mkdir()
    made = make_gaussian_bags(n_bags=24, n_features=4, n_classes=4, separation=2.0, random_state=0)
    np.savez(
        folder / "letter_carroll_rebuilt.npz",
        X=made.bags.instances,
        bag=made.bags.bag_index,
        Y=made.Y,
        y=made.instance_labels.instances,
    )
    monkeypatch.setenv("BAGWISE_DATA", str(folder))
    sources.load.cache_clear()
    yield folder
    sources.load.cache_clear()


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.toml")), ids=lambda path: path.stem)
def test_published_tables_are_rectangular(path):
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    assert tables
    for name, table in tables.items():
        for part in [table] if "columns" in table else table.values():
            for values in (*part["rows"].values(), *part.get("deviations", {}).values()):
                assert len(values) == len(part["columns"]), name
            assert set(part.get("deviations", {})) <= set(part["rows"])


@pytest.mark.parametrize("name", list(EXPERIMENTS))
@pytest.mark.parametrize("quick", [True, False])
def test_runs_are_named_in_the_lists(name, quick, data_folder):
    for run in EXPERIMENTS[name].runs(quick):
        assert run.kind in KINDS
        assert run.method in METHODS or run.method in m3ic.METHODS or run.method in BAG_LEARNERS
        assert sources.SOURCES[run.data].file == "letter_carroll_rebuilt"  # nothing else is there
        assert json.loads(run.key)  # made of plain values


def test_a_store_goes_on_after_a_torn_line(tmp_path):
    path = tmp_path / "runs.jsonl"
    first, second, third = (Run("folds", "carroll", "dummy", (), (("folds", n),)) for n in (2, 3, 4))
    calls = []

    def perform(run):
        calls.append(run)
        return [{"accuracy": 0.1 + 0.2, "n": dict(run.options)["folds"]}]

    assert list(execute([first, second, first], Store(path), perform)) == [first, second]
    path.write_text(path.read_text()[:-7])  # stopped in the middle of a line
    store = Store(path)
    assert first in store
    assert second not in store
    assert list(execute([first, second, third], store, perform)) == [second, third]
    again = Store(path)
    assert again.seconds([first, second, second]) < 1.0
    assert again.seconds([Run("folds", "carroll", "sim")]) == 0.0
    assert [again[run][0]["n"] for run in (first, second, third)] == [2, 3, 4]
    assert again[first][0]["accuracy"] == 0.1 + 0.2  # to the last bit
    assert calls == [first, second, second, third]


def test_runs_begin_with_the_longest_and_none_begins_late(tmp_path, monkeypatch):
    def perform(run):
        return [{"accuracy": 1.0}]

    known, other, unknown = (Run("folds", *names) for names in (("frost", "sim"), ("hja", "sim"), ("hja", "clpl")))
    store = Store(tmp_path / "runs.jsonl")
    store.add(Run("folds", "frost", "sim", (("alpha", 1e-7),)), [], 2.0)
    store.add(Run("folds", "frost", "sim", (("alpha", 1e-8),)), [], 4.0)
    store.add(Run("folds", "msrc", "sim"), [], 6.0)
    assert [store.expected(run) for run in (known, other, unknown)] == [3.0, 4.0, math.inf]
    assert Store(store.path).expected(other) == 4.0
    assert list(execute([known, unknown], store, perform, until=time.monotonic() - 1)) == []
    late = iter([0.0, 10.0])
    monkeypatch.setattr(
        "benchmarks.papers.runs.time", SimpleNamespace(monotonic=lambda: next(late), perf_counter=float)
    )
    assert list(execute([known, unknown], store, perform, until=5.0)) == [known]
    monkeypatch.undo()
    monkeypatch.setattr("benchmarks.papers.runs.Parallel", lambda **_: lambda tasks: (f(*a) for f, a, _ in tasks))
    assert list(execute([other, Run("folds", "msrc", "sim", (("alpha", 1.0),)), unknown], store, perform, jobs=2)) == [
        unknown, Run("folds", "msrc", "sim", (("alpha", 1.0),)), other
    ]  # fmt: skip


def test_cells_are_marked_beyond_one_deviation():
    base = {"row": "sim", "column": "carroll", "published": 50.0}
    assert not Cell(**base, ours=46.1, published_deviation=4.0).falls_short
    assert Cell(**base, ours=45.9, published_deviation=4.0).falls_short
    assert Cell(**base, ours=48.9).falls_short  # no deviation: one point
    assert not Cell(**base, ours=49.1).falls_short
    assert Cell(**base, ours=54.1, published_deviation=4.0, higher=False).falls_short
    assert not Cell(**base).falls_short
    assert cell_text(Cell(**base, ours=45.9, deviation=3.0, published_deviation=4.0, best=True), 1) == (
        "**45.9** ± 3.0 / 50.0 (-4.1) ▼"
    )
    assert cell_text(Cell(**base), 1) == "- / 50.0"
    other = {**base, "row": "clpl"}
    cells = [
        Cell(**base, ours=40.0, reason="drawn again"),
        Cell(**base, ours=50.0, reason="never shown"),
        Cell(**other, ours=40.0, reason="drawn again"),
        Cell(**{**other, "column": "frost"}, ours=60.0, reason="not this", gain="solved exactly"),
    ]
    assert reasons(cells) == [
        "Letter-Carroll (sim, clpl): ▼ drawn again.",
        "Letter-Frost (clpl): ▲ solved exactly.",
    ]


def test_seconds_have_no_difference():
    cell = Cell("sim", "carroll", ours=0.1, published=50.0, higher=False, differs=False)
    assert cell_text(cell, 1) == "0.1 / 50.0"
    assert not cell.stands_out


def test_figures_of_the_page_stand_where_runs_are_not_there(data_folder, tmp_path):
    table = ResultTable(
        "briggs2013", "table-3b", "training", lambda row, data, quick: [{"alpha": a} for a in (1.0, 2.0)]
    )
    title = table.entry["title"]
    page = f"{title}.\n\n|  | Letter-Carroll |\n| --- | --- |\n| sim-max-rff | **1,078.7** ± 2.5 / 81.7 (+1.0) ▲ |\n"
    store = Store(tmp_path / "runs.jsonl")
    store.kept = figures_on(page, "briggs2013")
    (run, _) = table.settings("sim-cccp-rff", "carroll", False)
    store.add(run, [{"accuracy": 0.8}], 0.0)
    cells = {cell.row: cell for cell in table.table_of(store, False).cells if cell.column == "carroll"}
    kept, part, none = cells["sim-max-rff"], cells["sim-cccp-rff"], cells["sim-softmax-rff"]
    assert (kept.ours, kept.deviation, kept.best, kept.kept) == (1078.7, 2.5, True, True)
    assert cell_text(kept, 1).startswith("**1,078.7**† ± 2.5 / 81.7")
    assert (part.ours, part.settings_run, part.best) == (80.0, (1, 2), False)  # no t-test next to what has no folds
    assert not_all_settings(cells.values()) == [
        "The best of 1 of the grid's 2 settings so far: sim-cccp-rff on Letter-Carroll."
    ]
    assert none.ours is None
    again = figures_on(page.replace("**1,078.7**", cell_text(kept, 1).split(" ")[0]), "briggs2013")
    assert again == store.kept  # a kept figure is kept again


def test_lines_have_deviations_and_stars(tmp_path):
    from matplotlib import pyplot

    line = line_of([(1.0, np.array([2.0, 4.0])), (2.0, np.array([5.0]))])
    assert [part.tolist() for part in line] == [[1.0, 2.0], [3.0, 5.0], [1.0, 0.0]]
    drawn = []

    def keep(figure):
        drawn.append(figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyplot, "close", keep)
        path = draw_panels({"A": {"sim": line}}, tmp_path / "x.png", x="x", y="y", published={"A": {"sim": ([2], [6])}})
    (axis,) = (each for each in drawn[0].axes if each.get_visible())
    bars, stars = axis.containers[0], axis.collections[-1]
    assert [segment[:, 1].tolist() for segment in bars[2][0].get_segments()] == [[2.0, 4.0], [5.0, 5.0]]
    assert stars.get_offsets().tolist() == [[2.0, 6.0]]
    assert path.stat().st_size > 2000
    pyplot.close(drawn[0])


def test_counts_against_the_authors_boosting_at_all_sizes(tmp_path, monkeypatch):
    np.savez(tmp_path / "miml_scene.npz", X=np.zeros((2, 1)))  # is asked whether it is there, not read
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    experiment, store = EXPERIMENTS["zhang2008-table-2-scene"], Store(tmp_path / "runs.jsonl")
    runs = experiment.runs(False)
    assert {(run.method, dict(run.options)["bags"]) for run in runs} == {
        (method, size) for method in zhang.METHODS for size in (200, 300, 400, 500, 600, 700, 800)
    }
    better = {"m3miml-rbf": 0.2, "mimlboost": 0.1, "mimlboost-feature": 0.3, "mimlsvm": 0.2}
    for run in runs:
        noise = np.random.default_rng([*dict(run.options).values(), run.method.startswith("mimlboost")])
        value = better[run.method] + noise.normal(0, 0.001)  # mimlsvm: equal to the last bit
        measures = dict.fromkeys(zhang.BAG_MEASURES, value) | {"average_precision": 1 - value}
        store.add(run, [{**measures, "fit_seconds": 3.0 if run.method == "mimlboost" else 1.0}], 0.0)
    report = experiment.report(store, False, tmp_path)
    cells = {(cell.row, cell.column): cell.text for cell in report.tables[0].cells}
    for measure in zhang.BAG_MEASURES:
        assert cells[measure, "against MIMLBoost"] == "0/0/7 (7/0/0)"
        assert cells[measure, "against MIMLBoost, label as feature"] == "7/0/0 (7/0/0)"
        assert cells[measure, "against MIMLSVM"] == "0/7/0 (7/0/0)"
    assert "MIMLBoost 3 to 3, MIMLBoost, label as feature 1 to 1" in report.notes[1]
    assert len(report.notes) == 2
    assert report.pictures[0][1].stat().st_size > 10_000
    part = Store(tmp_path / "part.jsonl")
    late = {("mimlboost-feature", 800, 0), ("mimlboost-feature", 700, 9)}  # of seven sizes five are whole
    for run in runs:
        if (run.method, *dict(run.options).values()) not in late:
            part.add(run, store[run], 0.0)
    report = experiment.report(part, False, tmp_path)
    cells = {(cell.row, cell.column): cell.text for cell in report.tables[0].cells}
    assert cells["hamming_loss", "against MIMLBoost"] == "0/0/7 (7/0/0)"
    assert cells["hamming_loss", "against MIMLBoost, label as feature"] == "5/0/0 (7/0/0)"
    assert report.notes[2] == "Not computed yet: MIMLBoost, label as feature at 700, 800."


def test_the_checkout_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _checkout() == ROOT


def test_what_could_not_be_had_is_one_line(data_folder, tmp_path):
    report = EXPERIMENTS["pham-table-3"].report(Store(tmp_path / "runs.jsonl"), False, tmp_path)
    assert not {"voc12", "50salads"} & set(report.tables[0].columns)
    assert sum("VOC 2012 and 50Salads could not be had" in line for line in report.notes) == 1
    assert "`bagwise.datasets.load_npz`" in " ".join(report.notes)


def test_every_table_says_how_it_was_measured(data_folder, tmp_path):
    store = Store(tmp_path / "runs.jsonl")
    for name, experiment in EXPERIMENTS.items():
        if experiment.tables or name in ("m3ic-table-4", "m3ic-table-5", "m3ic-table-6"):
            about = " ".join(experiment.report(store, False, tmp_path).about)
            words = ("eatures", "abels") if name.startswith("m3ic") else ("Features: ", "abels: ")
            assert all(word in about for word in words), name
            assert "Grid: " in about or name == "briggs2013-table-4", name


def test_networks_stand_beside_what_they_reach_when_they_are_told_every_label():
    record = {
        "set": "msrc_v2", "network": 70.04, "network told": 72.0, "network transductive": 93.0, "mix": 71.0,
        "mix told": 73.25, "mix transductive": 92.0, "s a fit": 4.0,
    }  # fmt: skip
    table = table_of([record, {**record, "set": "letter_carroll_rebuilt"}])
    found = {(cell.row, cell.column): cell.text for cell in table.cells}
    assert table.rows == ["Letter-Carroll", "MSRC v2"]
    assert found["MSRC v2", "ored-network"] == "70.0"
    assert found["MSRC v2", "ored-network below supervised"] == "2.0"
    assert found["MSRC v2", "ored-mix supervised"] == "73.2"
    assert found["Letter-Carroll", "seconds a fit"] == "4.0"


def test_wins_and_best_by_paired_tests():
    rng = np.random.default_rng(0)
    base = rng.normal(50, 5, 10)
    better, same = base + 3 + rng.normal(0, 0.5, 10), base + rng.normal(0, 3, 10)
    assert differs(better, base)
    assert not differs(same, base)
    assert not differs(base, base)
    assert differs(base + 1, base)  # a constant difference has no spread
    assert win_tie_loss([(better, base), (same, base), (base, better)], higher=True) == "1/1/1"
    assert win_tie_loss([(better, base)], higher=False) == "0/0/1"
    cells = [Cell(name, "carroll", ours=float(values.mean())) for name, values in (("a", better), ("b", base))]
    assert [cell.best for cell in mark_best(cells, {"a": better, "b": base})] == [True, False]


def test_the_best_setting_is_chosen_by_the_measure(tmp_path):
    store = Store(tmp_path / "runs.jsonl")
    runs = [Run("folds", "carroll", "sim", (("alpha", a),)) for a in (1e-6, 1e-7)]
    store.add(runs[0], [{"accuracy": 0.5, "hamming_loss": 0.2}], 0.0)
    store.add(runs[1], [{"accuracy": 0.6, "hamming_loss": 0.3}], 0.0)
    assert best_of(runs, store, "accuracy")[0] == runs[1]
    assert best_of(runs, store, "hamming_loss")[0] == runs[0]


def test_the_papers_counts_of_wins_follow_from_their_tables():
    """The counts that section 5.2 of the paper of 2013 prints, from its own Table III as it stands here."""
    entries = tables.published("briggs2013")

    def count(pairs):
        wins = losses = ties = 0
        for first, of_first, second, of_second in pairs:
            for data in entries[of_first]["columns"]:
                if data in ("hja", "hja-experts") or data not in entries[of_second]["columns"]:
                    continue
                a = figure(entries[of_first]["rows"][first], entries[of_first]["columns"].index(data))
                b = figure(entries[of_second]["rows"][second], entries[of_second]["columns"].index(data))
                wins, ties, losses = wins + (a > b), ties + (a == b), losses + (a < b)
        return wins, ties, losses

    linear = ("table-3a", "table-3c")
    assert count([(f"sim-{m}", t, f"sim-hamming-{m}", t) for m in ("max", "softmax") for t in linear]) == (20, 0, 0)
    assert count([("sim-max", t, "m3miml", t) for t in linear]) == (9, 0, 1)
    assert count([("sim-cccp", t, "m3miml", t) for t in linear]) == (9, 0, 1)
    assert count([(f"sim-{m}", t, "clpl", t) for m in ("max", "softmax") for t in linear]) == (18, 0, 2)
    assert count([("sim-softmax", t, "sim-max", t) for t in linear]) == (8, 1, 1)
    kernels = [
        (f"{row}-rff", k, row, t)
        for row in briggs.RANK
        for k, t in (("table-3b", "table-3a"), ("table-3d", "table-3c"))
    ]
    assert count(kernels) == (25, 0, 5)


def test_names():
    assert select([]) == list(EXPERIMENTS)
    assert select(["pham-table-3"]) == ["pham-table-3"]
    assert set(select(["pham"])) == {name for name in EXPERIMENTS if name.startswith("pham-")}
    with pytest.raises(InputError, match="There is no experiment 'pam'; there are briggs2012-table-1"):
        select(["pam"])


NAMES = ["briggs2013-table-3c", "briggs2013-figure-4", "pham-table-9", "pham-table-7"]


def test_experiments_from_end_to_end_and_again(data_folder, tmp_path, monkeypatch):
    small = {"n_estimators": 5, "n_rounds": 2, "n_round_trees": 20}
    monkeypatch.setitem(METHODS, "ored-forest", lambda: ORedForest(random_state=0, **small))
    out, said = tmp_path / "out", []
    reproduce(NAMES, quick=True, out=out, say=said.append)
    n_lines = len((out / "runs-quick.jsonl").read_text().splitlines())
    assert n_lines > 5
    assert "Letter-Frost" in said[0]
    assert "data not available" not in said[0].split("\n\n")[2]
    assert (out / "results" / "briggs2013-figure-4.png").stat().st_size > 5000
    again = []
    reproduce(NAMES, quick=True, out=out, say=again.append)
    assert again == said
    assert len((out / "runs-quick.jsonl").read_text().splitlines()) == n_lines  # nothing was computed twice
    reproduce(quick=True, out=out, page_only=True, say=again.append)
    page = "".join(path.read_text(encoding="utf-8") for path in (out / "results").glob("*.md"))
    assert "(results/pham.md)" in (out / "results.md").read_text(encoding="utf-8")
    assert "Chosen settings:" in page
    columns = (out / "tables" / "briggs2013-table-3c.csv").read_text(encoding="utf-8").splitlines()
    assert columns[0].startswith("row,column,ours,deviation,published")
    assert r"\begin{tabular}" in (out / "tables" / "briggs2013-table-3c.tex").read_text(encoding="utf-8")
    unfinished = "`bagwise reproduce {}` has not been run to its end yet"
    assert unfinished.format("pham-table-5") in page
    assert not any(unfinished.format(name) in page for name in NAMES)
    assert len((out / "runs-quick.jsonl").read_text().splitlines()) == n_lines
    (out / "runs-quick.jsonl").unlink()
    afresh = []
    reproduce(NAMES, quick=True, out=out, say=afresh.append)
    assert afresh == said  # the same seed, the same numbers


def test_settings_of_ones_own(data_folder, tmp_path):
    said = []
    reproduce(["briggs2012-table-2"], quick=True, out=tmp_path, grid={"alpha": [1e-3, 1e-5]}, say=said.append)
    runs = [json.loads(line) for line in (tmp_path / "runs-quick.jsonl").read_text().splitlines()]
    assert {run["settings"][0][1] for run in runs if run["method"].startswith("sim")} == {1e-3, 1e-5}
    assert not (tmp_path / "results.md").exists()
    with pytest.raises(InputError, match="None of the experiments has a grid with beta"):
        reproduce(["briggs2012-table-2"], quick=True, out=tmp_path, grid={"beta": [1.0]}, say=said.append)


def test_the_grids_are_those_of_the_papers():
    """Section 5.1.4 of either paper of Briggs et al., typed again from the papers."""
    of_2012 = [each["alpha"] for each in briggs.grid_2012("sim-max-last", "carroll", False)]
    assert_allclose(of_2012, [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9])
    assert_allclose([each["C"] for each in briggs.grid_2012("clpl", "carroll", False)], [10.0**e for e in range(1, 10)])
    assert_allclose([each["alpha"] for each in briggs.grid("sim-max", "carroll", False)], [1e-6, 1e-7, 1e-8, 1e-9])
    assert_allclose([each["C"] for each in briggs.grid("clpl", "carroll", False)], [1e1, 1e2, 1e3, 1e4])
    fourier = briggs.grid("sim-max-rff", "carroll", False)
    assert_allclose(sorted({each["gamma"] for each in fourier}), [1e3, 1e4, 1e5])
    assert len(fourier) == 12
    powers = [each["C"] for each in briggs.grid("m3miml", "msrc", False)]
    assert_allclose(powers, [1e-2, 1e-1, 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6])


def test_a_method_that_sees_the_instances_labels_is_run_once_for_two_kinds_of_bag_labels():
    table = briggs.TABLE_3["table-3c"]
    assert table.settings("svm-supervised", "hja-experts", False) == table.settings(
        "svm-supervised", "hja-filtered", False
    )
    assert table.settings("clpl", "hja-experts", False)[0].data == "hja-experts"


def test_the_grids_of_the_other_papers():
    """Pham et al. 6.1 and 6.5, Zhang, Wang, Si and Li 4.2, Zhang and Zhou 4.1 to 4.3, typed again."""

    def values(name, found):
        return sorted({each[name] for each in found})

    assert_allclose(values("alpha", pham.grid("sim", "msrc", False)), [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4])
    assert_allclose(values("gamma", pham.grid("m-svm", "msrc", False)), [0.1, 0.2, 0.4, 0.8])
    assert_allclose(values("n_medoids", pham.grid("m-svm", "msrc", False)), [0.2, 0.4, 0.6, 0.8, 1.0])
    assert_allclose(values("alpha", pham.grid("m-nn", "msrc", False)), [1e-2, 1e-1, 1, 10])
    assert_allclose(values("sigma2", pham.training_grid("lsb", "msrc", False)), [10.0**p for p in range(-2, 6)])
    for row in ("k-mlr", "k-slr"):
        assert_allclose(values("width", pham.kernel_grid(row, "msrc", False)), [0.1, 0.2, 0.5, 1, 2, 5, 10])
    assert {each["max_iter"] for each in pham.kernel_grid("k-mlr", "msrc", False)} == {500}
    assert {each["n_steps"] for each in pham.kernel_grid("k-sim", "msrc", False)} == {1000}
    assert {each["max_epochs"] for each in pham.kernel_grid("k-mfast", "msrc", False)} == {100}
    assert values("n_concepts", pham.kernel_grid("k-mfast", "msrc", False)) == [1, 5, 10, 15]
    assert make_model("ored-em")[-1].max_iter == 50
    assert pham.PERCENTS == (1, 2, 5, 10, 20, 50, 90)
    assert_allclose(clustering_tables.C_GRID, [0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16])
    assert_allclose(clustering_tables.BALANCE_GRID, [0, 0.001, 0.01, 0.1, 1, 2, 3, 4, 5, 10])
    assert zhang.SIZES == (200, 300, 400, 500, 600, 700, 800)
    assert zhang.PERCENTS == (10, 20, 30, 40, 50, 60, 70)
    assert METHODS["mimlboost"]()[-1].n_rounds == 25
    assert METHODS["mimlsvm"]()[-1].gamma == 0.2
    machine = METHODS["m3miml-rbf"]()[-1]
    assert (machine.C, machine.gamma, machine.kernel) == (1.0, 1.0, "rbf")


def test_two_rules_for_a_dummy():
    made = make_gaussian_bags(n_bags=30, n_features=2, n_classes=4, random_state=0)
    share = made.Y.mean(axis=0)
    sets = METHODS["dummy-commonest"]().fit(made.bags, made.Y).predict(made.bags)
    assert np.array_equal(sets, np.tile(share == share.max(), (30, 1)))
    assert np.array_equal(METHODS["dummy"]().fit(made.bags, made.Y).predict(made.bags), np.tile(share > 0.5, (30, 1)))


def test_a_machine_that_ranks_by_the_best_instance():
    """Its label sets and instances are those of the machine; a bag scores as its best instance (Pham et al., 6.4)."""
    made = make_gaussian_bags(n_bags=30, n_features=3, n_classes=8, random_state=0)
    plain, ranked = (METHODS[name](alpha=1e-4).fit(made.bags, made.Y) for name in ("sim", "sim-by-maximum"))
    scores = ranked.instance_decision_function(made.bags)
    assert_allclose(scores, plain.instance_decision_function(made.bags))
    best = [part.max(axis=0) for part in np.split(scores, made.bags.offsets[1:-1])]
    assert_allclose(ranked.decision_function(made.bags), best)
    assert not np.allclose(plain.decision_function(made.bags), best)
    assert np.array_equal(ranked.predict(made.bags), plain.predict(made.bags))


def test_nothing_is_lost_without_data(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "nowhere"))
    said = []
    reproduce(quick=True, out=tmp_path / "out", say=said.append)
    page = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "results").glob("*.md"))
    assert page.count("\n## ") == len(EXPERIMENTS)
    with pytest.raises(InputError, match="None of the papers' data sets is there"):
        reproduce(out=tmp_path / "out", say=said.append)  # which would write docs/results.md
    assert "- / 71.9" in page  # the published figures keep their rows
    assert "data not available" in page


def test_terminal_text_has_a_line_a_row(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "nowhere"))
    report = EXPERIMENTS["briggs2013-table-3b"].report(Store(tmp_path / "runs.jsonl"), True, tmp_path)
    lines = terminal_text("title", report).splitlines()
    assert sum(line.startswith("sim-cccp-rff") for line in lines) == 1


def test_every_benchmark_can_be_imported_first():
    """Each one anew, without any other benchmark; the package itself has no circles (tests/test_architecture.py)."""
    modules = sorted({name.partition(":")[0] for name in BENCHMARKS.values()})
    code = """
import importlib, sys
for module in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]
    importlib.import_module(module)
    print(module)
"""
    done = subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, modules), done.stderr


# -- data sets that could not be had ----------------------------------------------------------------------------------


@pytest.fixture
def rare_data(data_folder):
    """Files in the layout of docs/data.md under the names of the sets that nobody has."""
    made = make_gaussian_bags(n_bags=30, n_features=4, n_classes=3, separation=2.0, random_state=1)
    arrays = {"X": made.bags.instances, "bag": made.bags.bag_index, "Y": made.Y}
    for name in ("voc12", "50salads", "hja_birdsong_experts"):
        np.savez(data_folder / f"{name}.npz", y=made.instance_labels.instances, **arrays)
    categories = ["AjaxOrange", "Apple", "Banana", "BlueScrunge", "CandleWithHolder"]
    single = np.zeros((30, 5), dtype=np.uint8)
    single[np.arange(30), np.arange(30) % 5] = 1
    np.savez(data_folder / "sival.npz", X=arrays["X"], bag=arrays["bag"], Y=single, class_names=categories)
    return data_folder


@pytest.mark.parametrize(
    ("experiment", "data"),
    [
        ("briggs2013-table-3a", "voc12"),
        ("pham-table-3", "voc12"),
        ("pham-table-5", "50salads"),
        ("pham-table-7", "hja-experts"),
        ("pham-figure-8", "50salads"),
        ("pham-figure-9", "voc12"),
        ("m3ic-table-4", "sival1"),
        ("m3ic-figures", "sival6"),
    ],
)
def test_a_file_that_appears_is_computed(rare_data, experiment, data):
    cheap = ("dummy", "clpl", "majority-kmeans", "m3ic")
    runs = [run for run in EXPERIMENTS[experiment].runs(False) if run.data == data]
    assert runs
    if data != "sival6":  # made of categories that the file has not
        run = next(run for run in runs if run.method in cheap)
        (record, *_) = KINDS[run.kind](run)
        assert record
    else:
        with pytest.raises(InputError, match="sival.npz has no class fabricsoftenerbox, goldmedal, which SIVAL6"):
            KINDS[runs[0].kind](runs[0])


def test_a_table_shows_the_new_column(rare_data, tmp_path):
    table = ResultTable("pham", "table-3", "folds", lambda row, data, quick: [{}])
    store = Store(tmp_path / "runs.jsonl")
    for run in table.runs(False):
        store.add(run, [{"accuracy": 0.5}, {"accuracy": 0.7}], 0.0)
    cells = {(cell.row, cell.column): cell for cell in table.table_of(store, False).cells}
    assert cells["mlr", "voc12"].ours == pytest.approx(60.0)
    assert cells["mlr", "voc12"].published == 43.2
    assert cells["mlr", "msrc"].ours is None


# -- label sets of bags -----------------------------------------------------------------------------------------------


def records_of(values):
    return [dict.fromkeys(bag_level.MEASURES, value) | {"fit_seconds": 1.0} for value in values]


def test_first_tied_and_behind():
    noise = np.array([0.0, 0.02, -0.01, 0.01, 0.0, -0.02])
    ours, near, far = 0.8 + noise, 0.8 + noise[::-1], 0.5 + noise[::-1]
    asked = {"bag-stack": records_of(ours), "other": records_of(far)}
    assert bag_level.verdict(asked, "average_precision") == "first: 80.0 / 50.0 (other)"
    assert bag_level.verdict(asked, "hamming_loss") == "behind: 80.0 / 50.0 (other)"
    asked["third"] = records_of(near)
    assert bag_level.verdict(asked, "average_precision") == "tied: 80.0 / 80.0 (third)"
    assert bag_level.verdict(asked, "hamming_loss").startswith("behind")


@pytest.mark.parametrize("name", list(BASELINES))
def test_baselines_learn_and_take_constant_labels(name):
    made = make_gaussian_bags(n_bags=60, n_features=3, n_classes=3, separation=3.0, random_state=0)
    Y = np.column_stack([made.Y, np.zeros(60, int), np.ones(60, int)])
    model = BASELINES[name]()
    model.fit(made.bags, Y)
    scores = model.decision_function(made.bags)
    assert (scores[:, 3] < 0).all()
    assert (scores[:, 4] > 0).all()
    assert average_precision(made.Y, scores[:, :3]) > 0.85
    assert model.predict(made.bags).shape == Y.shape


def test_the_stack_beside_others_in_the_short_form(data_folder, tmp_path):
    said = []
    reproduce(["beyond-bags"], quick=True, out=tmp_path / "out", say=said.append)
    assert "Where the stack stands" in said[0]
    assert "bag-stack" in said[0]
    assert "lr-means" in said[0]


def test_a_part_of_the_runs_makes_a_part_of_the_report(data_folder, tmp_path):
    store = Store(tmp_path / "runs.jsonl")
    first, second = bag_level.runs_of("carroll-24", "bag-stack", quick=False)
    (other, _) = bag_level.runs_of("carroll-24", "ored", quick=False)
    (late,) = (run for run in bag_level.runs_of("carroll-24", "clpl", quick=False) if dict(run.options)["repeat"] == 1)
    for run, values in ((first, [0.8, 0.82]), (second, [0.9, 0.94]), (other, [0.5, 0.53]), (late, [0.1, 0.2])):
        store.add(run, records_of(values), 0.0)
    report = bag_level.report(store, False, tmp_path)
    shown = {(cell.row, cell.column): cell for cell in report.tables[1].cells}
    assert {row for row, _ in shown} == {"bag-stack", "ored"}  # of clpl the second draw is there without the first
    assert shown["bag-stack", "average precision"].ours == pytest.approx(86.5)
    assert shown["bag-stack", "average precision"].best
    assert not shown["ored", "average precision"].best
    assert cell_text(shown["ored", "average precision"], 1) == "51.5 ± 1.5"
    assert report.tables[0].cells[0].text == "first: 86.5 / 51.5 (ored)"  # tested on the folds that both have
    assert any("Run on fewer than 10 folds of Letter-Carroll: ored (2), bag-stack (4)" in line for line in report.notes)
    assert any(line.startswith("Not run yet on Letter-Carroll: ored-em") for line in report.notes)
    for name, values in (("bag-stack-network", [0.4, 0.43]), ("ored-mix", [0.7, 0.74])):
        store.add(bag_level.runs_of("carroll-24", name, quick=False)[0], records_of(values), 0.0)
    with_torch = bag_level.report(store, False, tmp_path).tables
    assert with_torch[0].cells[0].text == "first: 86.5 / 51.5 (ored)"  # beside what needs no torch
    assert with_torch[1].cells[0].text == "behind: 41.5 / 72.0 (ored-mix)"  # beside all, but not beside itself
    nothing = bag_level.report(Store(tmp_path / "none.jsonl"), False, tmp_path)
    assert nothing.tables == []
    assert nothing.notes[-1] == "Not run yet on Letter-Carroll: all."


def test_sections_are_written_into_the_page_that_is_there(data_folder, tmp_path):
    index, store = tmp_path / "results.md", Store(tmp_path / "runs.jsonl")
    page = tmp_path / "results" / "beyond.md"
    page.parent.mkdir()
    with pytest.raises(InputError, match="There is no page"):
        write_sections(index, store, False, ["beyond-bags"])
    kept = "# Title\n\n## Past the papers\n\n`bagwise reproduce beyond`\n\nkept\n"
    page.write_text(
        f"{kept}\n## Past the papers: label sets\n\n`bagwise reproduce beyond-bags`\n\nreplaced\n", encoding="utf-8"
    )
    write_sections(index, store, False, ["beyond-bags"])
    assert "replaced" in page.read_text(encoding="utf-8")  # nothing was run: what is there stays
    for run in bag_level.runs_of("carroll-24", "bag-stack", quick=False):
        store.add(run, records_of([0.5, 0.6]), 0.0)
    write_sections(index, store, False, ["beyond-bags"])
    text = page.read_text(encoding="utf-8")
    assert "| bag-stack | **55.0** ± 5.0 |" in text
    assert "replaced" not in text
    assert list(sections_of(text)) == ["beyond", "beyond-bags"]
    assert sections_of(text)["beyond"] == "## Past the papers\n\n`bagwise reproduce beyond`\n\nkept\n"
    assert "(#past-the-papers-label-sets-of-bags)" in text


# -- the published figures, a second time -----------------------------------------------------------------------------


def transcribed():
    """(paper, table, row) and the figures of tests/published_figures.txt, each with its deviation or NaN."""
    for line in (Path(__file__).parent / "published_figures.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        head, figures = line.split(": ", 1)
        pairs = [[*each.replace("-", "nan").split(" ± "), "nan"][:2] for each in figures.split(", ")]
        yield tuple(head.split(" ", 2)), np.array(pairs, dtype=np.float64).T


TRANSCRIBED = list(transcribed())


@pytest.mark.parametrize(("where", "figures"), TRANSCRIBED, ids=[" ".join(where) for where, _ in TRANSCRIBED])
def test_the_published_figures_are_those_of_a_second_transcription(where, figures):
    paper, table, row = where
    entry = tables.published(paper)
    for part in table.split("."):
        entry = entry[part]
    values, deviations = figures
    if table == "table-9":  # a column of ours is a row of the paper's
        position = entry["columns"].index(row)
        assert_allclose([found[position] for found in entry["rows"].values()], values[[0, 2, 1]])
        return
    kept = [i for i, name in enumerate(entry["columns"]) if name != "hja-experts" or paper == "pham"]
    if len(kept) + 1 == len(values):  # a column of dashes is left out
        values, deviations = (np.delete(each, 3) for each in (values, deviations))
    assert_allclose(np.array(entry["rows"][row], dtype=np.float64)[kept], values)
    known = np.array(entry.get("deviations", {}).get(row, [np.nan] * len(entry["columns"])), dtype=np.float64)[kept]
    assert_allclose(known, deviations)


def test_every_published_row_was_transcribed_twice():
    again = {where for where, _ in TRANSCRIBED}
    for paper in ("briggs2012", "briggs2013", "pham", "m3ic"):
        for table, entry in tables.published(paper).items():
            parts = {table: entry} if "rows" in entry else {f"{table}.{name}": part for name, part in entry.items()}
            for name, part in parts.items():
                if name not in ("table-1", "table-2", "table-9") or (paper, name) == ("briggs2012", "table-2"):
                    assert {row for one, other, row in again if (one, other) == (paper, name)} >= set(part["rows"])


@pytest.mark.parametrize(
    ("kind", "table", "boost_on_scene"),
    [
        ("training-size", "table-2", ["7/0/0", "7/0/0", "7/0/0", "7/0/0", "7/0/0"]),
        ("multi-label-share", "table-3", ["5/1/1", "6/1/0", "3/4/0", "3/4/0", "4/3/0"]),
    ],
)
def test_counts_of_m3miml_are_those_of_a_second_transcription(kind, table, boost_on_scene):
    measures = ["hamming_loss", "one_error", "coverage", "ranking_loss", "average_precision"]
    assert list(tables.published("zhang2008")[table]["rows"]) == measures
    for rival in ("mimlboost", "mimlboost-feature"):
        assert [zhang.published_counts(kind, "scene", rival, each) for each in measures] == boost_on_scene
    others = [("reuters", rival) for rival in ("mimlboost", "mimlboost-feature", "mimlsvm")] + [("scene", "mimlsvm")]
    for data, rival in others:
        assert [zhang.published_counts(kind, data, rival, each) for each in measures] == ["7/0/0"] * 5
