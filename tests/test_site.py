"""The site that `make docs` builds: its code runs, its lists are whole. (The site itself is built by `make docs`.)"""

import importlib
import re
import runpy
from pathlib import Path

import pytest
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags
from bagwise.preprocessing import PerInstance, RBFDictionary

DOCS = Path(__file__).parents[1] / "docs"
# modules of which every public name is on the page
WHOLE = ["annotation", "calibration", "classification", "clustering", "datasets", "app.media", "kernels",
         "metrics", "nn", "scale", "solvers", "union", "app.runs"]  # fmt: skip
# all but the slowest, whose code is much that of a start page; `make docs` runs it too
EXAMPLES = [path for path in sorted((DOCS / "gallery").glob("plot_*.py")) if path.stem != "plot_08_clustering"]


def names_on(page):
    text = (DOCS / "api" / f"{page}.rst").read_text(encoding="utf-8")
    return [line.strip().rpartition(".")[2] for line in re.findall(r"^   [\w.]+$", text, re.MULTILINE)]


@pytest.mark.parametrize("page", ["python", "no-labels"])
def test_code_of_the_start_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "start" / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, f"docs/start/{page}.md", "exec"), names)
    if page == "no-labels":
        assert names["trial"].n_clusters == 3
    else:
        assert (tmp_path / "model.bagwise").exists()


@pytest.mark.parametrize("page", ["calibration", "label-noise", "ored", "scaling"])
def test_first_code_of_the_guide_runs(page, tmp_path, monkeypatch):
    """Where a page shows more, as the one on scaling does, it needs a cluster or a GPU."""
    monkeypatch.chdir(tmp_path)
    data = make_gaussian_bags(n_bags=60, n_features=3, n_classes=3, random_state=0)
    (tmp_path / "stations").mkdir()
    bagwise.write_dataset(data, tmp_path / "stations" / "one.parquet")
    names = {"bags": data.bags, "Y": data.Y, "new": data.bags, "make_model": make_model, "PerInstance": PerInstance,
             "StandardScaler": StandardScaler, "RBFDictionary": RBFDictionary, "make_pipeline": bagwise.make_pipeline,
             "ORedLogisticRegression": bagwise.ORedLogisticRegression}  # fmt: skip
    block = re.search(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    exec(compile(block, f"docs/{page}.md", "exec"), names)


@pytest.mark.parametrize("page", WHOLE)
def test_api_lists_what_the_module_exports(page):
    assert sorted(names_on(page)) == sorted(importlib.import_module(f"bagwise.{page}").__all__)


@pytest.mark.parametrize("page", sorted(p.stem for p in (DOCS / "api").glob("*.rst") if p.stem != "index"))
def test_api_names_exist(page):
    module = bagwise if page == "bagwise" else importlib.import_module(f"bagwise.{page}")
    text = (DOCS / "api" / f"{page}.rst").read_text(encoding="utf-8")
    for name in re.findall(r"^   ([A-Za-z_][\w.]*)$", text, re.MULTILINE):
        if page == "nn":
            assert name in module.__all__  # some need torch to be looked at
            continue
        *path, last = name.split(".")
        thing = importlib.import_module(".".join([module.__name__, *path])) if path else module
        assert getattr(thing, last).__doc__, name


def test_every_name_at_the_top_and_every_module_has_a_page():
    pages = {p.stem for p in (DOCS / "api").glob("*.rst")}
    listed = set(names_on("bagwise")) | {page.partition(".")[0] for page in pages}
    assert set(bagwise.__all__) - {"__version__"} <= listed
    index = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    assert set(re.findall(r"^   ([a-z_.]+)$", index, re.MULTILINE)) == pages - {"index"}


def test_every_page_is_in_the_guide():
    listed = set()
    for page in ["index.md", "guide.md", "contribute.md", "start/index.md", "tutorials/index.md", "results.md"]:
        text = (DOCS / page).read_text(encoding="utf-8")
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
            folder = (DOCS / page).parent
            listed |= {(folder / line).resolve() for line in block.split("\n") if line and not line.startswith(":")}
    pages = {p.with_suffix("").resolve() for p in DOCS.rglob("*.md") if not {"_build", "auto_examples"} & set(p.parts)}
    assert pages - listed == {(DOCS / "index").resolve()}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_of_the_gallery_runs_and_shows_a_picture(example, monkeypatch, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    try:
        runpy.run_path(str(example))
        assert shown
        for number in shown:  # where a layout cannot be had, or a glyph is missing, drawing says so
            plt.figure(number).canvas.draw()
    finally:
        plt.close("all")
    assert not list(tmp_path.iterdir())  # examples leave nothing behind


def test_gallery_has_an_example_for_each_kind_of_reader():
    names = {path.stem.split("_", 2)[2] for path in (DOCS / "gallery").glob("plot_*.py")}
    assert len(names) >= 15
    assert names >= {"who_sang_what", "texts", "series", "windows", "data_frames", "more_than_memory", "clustering"}
    assert names >= {"rank_loss", "cccp", "how_many_bags", "label_sets", "margin_clusters"}  # one per paper
