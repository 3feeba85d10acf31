"""What the documentation shows is what happens."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import runpy
import shlex
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import bagwise
from bagwise.app.cli import main
from bagwise.core.base import BagClassifierMixin
from bagwise.core.fitted import CLASSES
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.vectors import read_vector_file

ROOT = Path(__file__).parents[1]
MODULES = sorted(m.name for m in pkgutil.walk_packages(bagwise.__path__, "bagwise.") if not m.name.endswith("__main__"))


def blocks_of(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def test_readme_example_prints_what_it_says():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    # the words shown are drawn and fitted anew: a last bit may differ between machines, a letter or two with it
    shown = re.findall(r"'(\w+)'", code.rsplit("#", 1)[1])
    found = re.findall(r"'(\w+)'", printed.getvalue())
    assert len(found) == len(shown) == 6
    assert sum(a != b for one, other in zip(found, shown, strict=True) for a, b in zip(one, other, strict=True)) <= 4


def test_code_of_the_page_on_scikit_learn_runs():
    blocks = blocks_of("scikit-learn.md")
    assert len(blocks) >= 7
    names = {}
    for block in blocks:
        exec(compile(block, "docs/scikit-learn.md", "exec"), names)
    assert names["search"].best_estimator_[-1].coef_.shape == (3, 3)


def test_the_table_of_strengths_names_parameters_of_its_learners():
    text = (ROOT / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
    table = text.split("## Strength and length of a fit")[1].split("\n## ")[0]
    rows = [row.split("|")[1:-1] for row in table.splitlines() if row.startswith("| `")]
    named = {}
    for learners, *cells in rows:
        for learner in re.findall(r"`(\w+)`", learners):
            named[learner] = re.findall(r"`(\w+)`", " ".join(cells))
    learners = {
        cls.__name__: cls for cls in CLASSES.values() if issubclass(cls, BagClassifierMixin) or cls.__name__ in named
    }
    others = {"SupervisedAnnotator", "MostFrequentAnnotator", "CalibratedAnnotator", "CalibratedLabelSets"}
    assert set(named) | others >= set(learners)
    for name, parameters in named.items():
        if name in learners:  # not of torch, which may not be there
            assert parameters
            assert set(parameters) <= set(learners[name]().get_params(deep=False)) | {
                "tol_inner",
                "max_cuts",
                "max_iter",
            }


def test_code_of_the_page_on_export_runs():
    (block,) = blocks_of("export.md")
    exec(compile(block, "docs/export.md", "exec"), {})


def test_code_of_the_page_on_mlflow_gives_our_numbers(tmp_path, monkeypatch):
    """The class of the page, on a base that does nothing, as MLflow's does in these two methods."""
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    pyfunc = types.ModuleType("mlflow.pyfunc")
    pyfunc.PythonModel = object
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", pyfunc)
    names: dict = {}
    exec(compile(blocks_of("mlflow.md")[0], "docs/mlflow.md", "exec"), names)
    data = make_gaussian_bags(n_bags=30, random_state=0)
    model = bagwise.make_pipeline(bagwise.ORedLogisticRegression()).fit(data.bags, data.Y)
    columns = [f"f{i}" for i in range(data.bags.n_features)]
    bagwise.save(model, tmp_path / "model.bagwise", about={"feature_names": columns})
    table = pd.DataFrame(data.bags.instances, columns=columns).assign(bag=data.bags.bag_index)
    shuffled = table.sample(frac=1.0, random_state=0)[["bag", *reversed(columns)]]
    served = names["BagwiseModel"]()
    served.load_context(types.SimpleNamespace(artifacts={"model": tmp_path / "model.bagwise"}))
    found = served.predict(None, shuffled)
    assert list(found.index) == list(shuffled.index)
    expected = model.predict_instances_proba(data.bags)
    np.testing.assert_allclose(found.loc[table.index].to_numpy(), expected, atol=1e-12)


def write_songs(folder, rate=16_000):
    """Six recordings of six seconds with five calls each of wrens, robins or both, and the table of their labels."""
    soundfile = pytest.importorskip("soundfile")
    folder.mkdir()
    rng, t = np.random.default_rng(0), np.arange(6 * rate) / rate
    heard = {"a": "wren robin", "b": "wren", "c": "robin", "d": "wren robin", "e": "robin", "f": "wren"}
    for name, labels in heard.items():
        sound = 0.002 * rng.standard_normal(len(t))
        for i, start in enumerate(np.arange(0.5, 5.5)):
            label = labels.split()[i % len(labels.split())]
            inside = (t >= start) & (t < start + 0.3)
            call = np.sin(2 * np.pi * {"wren": 5000, "robin": 2000}[label] * t[inside])
            sound[inside] += 0.3 * call * np.hanning(len(call))
        soundfile.write(folder / f"{name}.wav", sound, rate)
    table = ["file,labels", *(f"{name}.wav,{labels.replace(' ', ';')}" for name, labels in heard.items())]
    (folder / "labels.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    return folder


def test_code_of_the_page_on_annotating_runs(tmp_path, monkeypatch):
    media = write_songs(tmp_path / "media")
    bagwise.Run.create(
        media, tmp_path / "run", labels=media / "labels.csv", formats=["raven"], page=False, jobs=1, max_noise=0.5
    ).close()
    monkeypatch.chdir(tmp_path)
    put_right, bring_home = blocks_of("annotate.md")
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(put_right, "docs/annotate.md", "exec"), names)
    run = names["run"]
    with run:
        assert len(printed.getvalue().splitlines()) == len(run.annotations()) == 30
        # what was said is on disk, and taken back
        assert [row["action"] for row in run.corrections()] == []
        said = (tmp_path / "run" / "corrections.csv").read_text(encoding="utf-8").splitlines()
        assert [line.split(",")[:3] for line in said[1:3]] == [["a.wav", "3", "wren"], ["a.wav", "4", ""]]
        assert run.version == 0
        shutil.copytree(tmp_path / "run" / "raven", tmp_path / "raven")
        (table,) = (tmp_path / "raven").glob("b.*")
        table.write_text(table.read_text(encoding="utf-8").replace("wren", "robin"), encoding="utf-8")
        exec(compile(bring_home, "docs/annotate.md", "exec"), names)
        assert names["edits"].problems == []
        assert sorted(names["edits"].corrections) == [("b.wav", i, "robin") for i in range(5)]
        assert {row["label"] for row in run.annotations() if row["file"] == "b.wav"} == {"robin"}


def test_code_of_the_page_on_reviewing_runs(tmp_path, monkeypatch):
    media = write_songs(tmp_path / "media")
    bagwise.Run.create(
        media, tmp_path / "run", labels=media / "labels.csv", formats=["csv"], page=False, jobs=1
    ).close()
    monkeypatch.chdir(tmp_path)
    names = {}
    (block,) = blocks_of("review.md")
    exec(compile(block, "docs/review.md", "exec"), names)
    with names["run"] as run:
        (row,) = [row for row in run.annotations() if (row["bag"], row["instance"]) == names["key"]]
        assert [row[key] for key in ("start", "end", "low", "high", "label")] == [1.2, 1.6, 2000, 3500, "wren"]


def test_code_of_the_page_on_embeddings_writes_tables_that_are_read(tmp_path, monkeypatch):
    """Whoever makes the vectors: an object with the method of opensoundscape's models stands in for one."""
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    files, starts, ends = ["a.wav", "a.wav", "b.wav"], [0.0, 3.0, 0.0], [3.0, 6.0, 3.0]
    vectors = np.arange(12.0).reshape(3, 4)
    index = pandas.MultiIndex.from_arrays([files, starts, ends], names=["file", "start_time", "end_time"])

    class Model:
        def embed(self, files):
            return pandas.DataFrame(vectors, index=index)

    names = {"model": Model(), "files": files, "pandas": pandas, "names": files, "starts": starts, "ends": ends,
             "vectors": vectors}  # fmt: skip
    (block,) = blocks_of("embeddings.md")
    for part in block.split("\n\n"):
        exec(compile(part, "docs/embeddings.md", "exec"), names)
        rows = read_vector_file(tmp_path / "windows.parquet")
        assert (list(rows.files), *rows.places.T.tolist()) == (files, starts, ends)
        np.testing.assert_array_equal(rows.vectors, vectors)
        (tmp_path / "windows.parquet").unlink()


def test_commands_of_the_page_on_scaling_run(tmp_path, monkeypatch):
    """Those that need no cluster and no GPU."""
    monkeypatch.chdir(tmp_path)
    data = make_gaussian_bags(n_bags=60, n_features=3, n_classes=3, random_state=0)
    (tmp_path / "stations").mkdir()
    for name in ("survey.parquet", "stations/2026-one.parquet"):
        bagwise.write_dataset(data, tmp_path / name)
    for command in blocks_of("scaling.md", "sh")[0].splitlines():
        program, *arguments = shlex.split(command, comments=True)
        assert program == "bagwise"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "labels.csv").read_text(encoding="utf-8").count("\n") >= 60


READERS = {"bagwise.app.media.audio": "soundfile", "bagwise.app.media.image": "skimage"}


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if name.startswith("bagwise.nn."):
        pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")
    if name in READERS:
        pytest.importorskip(READERS[name])
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


ROOMS = (
    "annotation calibration catalog classification clustering datasets inspection io kernels metrics model_selection "
)
ROOMS += "pipeline plotting preprocessing scale solvers union app.media app.report app.runs core.base core.exceptions "
ROOMS += "core.typing nn"
WITHOUT_EXAMPLE = 0  # may only fall


def public_things():
    """Name and object of every class and function that users import, by exports and reference."""
    for room in ["", *ROOMS.split()]:
        module = importlib.import_module(f"bagwise.{room}".rstrip("."))
        page = ROOT / "docs" / "api" / f"{room or 'bagwise'}.rst"
        names = {*re.findall(r"^   ([A-Za-z_][\w.]*)$", page.read_text(encoding="utf-8"), re.MULTILINE)}
        names |= {*getattr(module, "__all__", ())}
        if room in ("catalog", "model_selection", "pipeline"):  # single files, whose names users import
            names |= {n for n, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
        for name in sorted(names):
            *path, last = name.split(".")
            if last.startswith("_"):
                continue
            try:
                thing = getattr(importlib.import_module(".".join([module.__name__, *path])), last)
            except ImportError:
                if room == "nn":
                    continue  # no torch
                raise
            if callable(thing) and getattr(thing, "__module__", "").startswith("bagwise."):
                yield f"{room}.{name}", thing


def test_public_names_have_examples():
    things = dict(public_things())
    assert len(things) > 200
    without = [name for name, thing in things.items() if ">>>" not in (thing.__doc__ or "")]
    assert len(without) <= WITHOUT_EXAMPLE, without


PAGES = [page for page in ROOT.glob("docs/**/*.md") if not {"_build", "auto_examples"} & set(page.parts)]


@pytest.mark.parametrize("page", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *PAGES]))
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith(("http:", "https:")):
            assert ((ROOT / page).parent / target).exists(), target


LINK = re.compile(r"\]\((?!https?:|mailto:|#|\{)([^)#\s]+)(#[^)]*)?\)")


def test_the_readme_of_the_package_index_leads_to_the_repository():
    """`tools/readme_for_index.py` is what the build calls; hatchling, which it needs, is there in every setup."""
    hook = runpy.run_path(str(ROOT / "tools" / "readme_for_index.py"))
    shown = hook["with_absolute_links"]((ROOT / "README.md").read_text(encoding="utf-8"), "1.2.3")
    assert not LINK.search(shown)
    assert f"]({hook['REPOSITORY']}/raw/v1.2.3/docs/_static/hero.png)" in shown
    assert f"]({hook['REPOSITORY']}/blob/v1.2.3/docs/install.md)" in shown


def test_example_in_torch_learns_from_bags_alone(capsys):
    pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")
    runpy.run_path(str(ROOT / "docs" / "gallery" / "union_loss_in_torch.py"))
    assert float(re.search(r"([\d.]+) %", capsys.readouterr().out)[1]) > 70


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pictures", "texts", "series"])
def test_material_of_the_tutorials_is_annotated(kind, tmp_path):
    if kind == "pictures":
        pytest.importorskip("skimage")
    names = runpy.run_path(str(ROOT / "docs" / "tutorials" / "make_material.py"))
    make = names["KINDS"][kind]
    names["KINDS"][kind] = lambda folder: make(folder, 16)
    given = names["make_material"](kind, tmp_path / kind)
    table = tmp_path / f"{kind}.csv"
    options = {"media_type": "series"} if kind == "series" else {}
    with bagwise.Run.create(tmp_path / kind, tmp_path / "run", labels=table, page=False, jobs=1, **options) as run:
        rows = run.annotations()
    assert {row["file"] for row in rows} == set(given)
    assert all(row["label"] in ["", *given[row["file"]]] for row in rows)
