"""The summary on the README, against the tables of docs/results.md."""

import re

import numpy as np
import pytest
from benchmarks.papers import data as sources
from benchmarks.papers.catalog import EXPERIMENTS
from benchmarks.papers.experiment import Report
from benchmarks.papers.reproduce import ROOT
from benchmarks.papers.runs import Store
from benchmarks.papers.summary import BLOCKS, TOLD_MORE, Block, between_marks, rows_of

INDEX = ROOT / "docs" / "results.md"


def pages():
    """The text of all pages of papers."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "results").glob("*.md")))


def tables_of(page):
    """{experiment: [(title, {(row, column): cell text})]} of the page, read back from its Markdown."""
    found = {}
    for section in page.split("\n## ")[1:]:
        name = re.search(r"^`bagwise reproduce ([\w-]+)`", section, re.MULTILINE)
        tables = re.findall(r"^([^\n|]+)\.\n\n(\|.+?)(?:\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
        if name is None:
            continue
        for title, text in tables:
            lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()]
            head, _, *rows = [[cell.strip() for cell in line] for line in lines]
            cells = {(row[0], column): value for row in rows for column, value in zip(head[1:], row[1:], strict=True)}
            found.setdefault(name[1], []).append((title, cells))
    return found


def figures_of(block, tables):
    """{data set: {(method, "ours" or "published"): figure}} from the cells of the page."""
    found = {}
    for name in block.experiments:
        wanted = tables[name] if block.measure else [each for each in tables[name] if block.part in each[0]][:1]
        for title, cells in wanted:
            for (row, column), text in cells.items():
                if block.measure and column != block.measure:
                    continue
                by_row = block.experiments[0].startswith("m3ic")
                data, method = (title, row) if block.measure else (row, column) if by_row else (column, row)
                match = re.match(r"\*{0,2}([\d.]+|-)\*{0,2}†?(?: ± [\d.]+)? / ([\d.]+|-)", text)
                for who, figure in zip(("ours", "published"), match.groups() if match else (), strict=False):
                    if figure != "-":
                        known = found.setdefault(data, {})
                        known[method, who] = max(float(figure), known.get((method, who), 0.0))
    return found


def test_the_readme_shows_the_summary_of_the_page():
    page, readme = INDEX.read_text(encoding="utf-8"), (ROOT / "README.md").read_text(encoding="utf-8")
    assert between_marks(page)
    assert between_marks(readme) == between_marks(page)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.title)
def test_the_summary_is_the_best_of_the_pages_tables(block):
    page = INDEX.read_text(encoding="utf-8")
    figures = figures_of(block, tables_of(pages()))
    lines = between_marks(page).partition(f"| *{block.title}* |")[2].splitlines()[1:]
    n_checked = 0
    for line in lines:
        data, *shown = [cell.strip() for cell in line[1:-1].split("|")]
        if data.startswith("*"):
            break
        known = figures[data]
        theirs = {m: v for (m, who), v in known.items() if who == "published" and m not in TOLD_MORE}
        assert re.search(r"\((.+)\)", shown[0])[1] in {m for m, v in theirs.items() if v == max(theirs.values())}
        assert shown[1] == "" or float(shown[1]) in {v for (m, who), v in known.items() if who == "ours"}
        del shown[1]  # of the same method
        wanted = [
            max(theirs.values()),
            max(v for (method, who), v in known.items() if who == "ours" and method not in TOLD_MORE),
            max((v for (method, who), v in known.items() if who == "published" and method in TOLD_MORE), default=None),
        ]
        for text, value in zip(shown, wanted, strict=True):
            assert text.split(" ")[0] == ("" if value is None else f"{value:.1f}"), line
        assert all(method in dict.fromkeys(m for m, _ in known) for method in re.findall(r"\((.+?)\)", line))
        n_checked += 1
    assert n_checked == sum(any(who == "ours" for _, who in known) for known in figures.values()) > 0


@pytest.mark.parametrize("experiment", ["briggs2013-table-3a", "briggs2013-table-3c"])
@pytest.mark.parametrize(("file", "title", "best"), [
    ("hja_birdsong", "HJA", "ored-background"),  # half of its instances carry no label
    ("hja_birdsong_filtered", "HJA filtered", "ored"),
])  # fmt: skip
def test_our_own_stand_for_us_whatever_the_data(experiment, file, title, best, tmp_path, monkeypatch):
    np.savez(tmp_path / f"{file}.npz", X=np.zeros((2, 1)))  # is asked whether it is there, not read
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    assert sources.path_of("voc12") is None
    store = Store(tmp_path / "runs.jsonl")
    for run in EXPERIMENTS[experiment].runs(False):
        store.add(run, [{"accuracy": 0.9 if run.method == best else 0.5}], 0.0)
    reports: dict[str, Report] = {experiment: EXPERIMENTS[experiment].report(store, False, tmp_path)}
    ((data, _, _, ours, _),) = rows_of(Block("", (experiment,)), reports)
    assert (data, ours) == (title, f"90.0 ({best})")
