"""`bagwise fit` on data that is larger than the memory that it may take."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from bagwise import load
from bagwise.app.runs import predictions
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import write_dataset
from made import run


@pytest.fixture
def data(tmp_path):
    made = make_gaussian_bags(n_bags=60, random_state=0)
    made = replace(made, class_names=["wren", "robin", "owl", "crow", "tit"], bag_names=[f"b{i}" for i in range(60)])
    write_dataset(made, tmp_path / "all.parquet")
    (tmp_path / "parts").mkdir()
    write_dataset(made[:25], tmp_path / "parts" / "1.parquet")
    write_dataset(made[25:], tmp_path / "parts" / "2.parquet")
    return tmp_path


def weights(path):
    final = load(path)[-1]
    return np.column_stack([final.coef_, final.intercept_])


def test_fit_goes_by_pieces_where_the_memory_is_small(data):
    settings = ["--set", "tol=1e-8", "--set", "background=true"]
    plain = run("fit", data / "all.parquet", "--out", data / "here.bagwise", *settings)
    assert plain.exit_code == 0, plain.stderr
    assert "by pieces" not in plain.stderr
    for source in (data / "all.parquet", data / "parts", data / "parts" / "*.parquet"):
        small = run("fit", source, "--out", data / "there.bagwise", "--memory", "30kB", *settings)
        assert small.exit_code == 0, small.stderr
        assert "read by pieces; 60 bags, 299 instances in " in small.stderr
        assert small.stdout == f"trained ored on 60 bags, 299 instances; wrote {data / 'there.bagwise'}\n"
        np.testing.assert_allclose(weights(data / "here.bagwise"), weights(data / "there.bagwise"), rtol=0, atol=1e-6)
    large = run("fit", data / "all.parquet", "--out", data / "there.bagwise", "--memory", "30kB", "--quiet", *settings)
    assert large.stderr == ""


def test_known_instances_checkpoints_and_json(data):
    for name, extra in (("here", []), ("there", ["--memory", "30kB", "--checkpoint", data / "state"])):
        done = run(
            "fit", data / "all.parquet", "--out", data / f"{name}.bagwise", "--instance-labels", "--json", "--set",
            "tol=1e-8", *extra,
        )  # fmt: skip
        assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["n_pieces"] > 1
    assert done.stderr == ""
    assert not (data / "state").exists()
    np.testing.assert_allclose(weights(data / "here.bagwise"), weights(data / "there.bagwise"), rtol=0, atol=1e-6)


def test_other_formats_are_converted(data):
    assert run("convert", data / "all.parquet", data / "all.npz").exit_code == 0
    done = run("fit", data / "all.npz", "--out", data / "m.bagwise", "--memory", "50kB", "--set", "tol=1e-8")
    assert done.exit_code == 0, done.stderr
    assert "so it is converted to parquet, and read by pieces; 60 bags" in done.stderr
    run("fit", data / "all.npz", "--out", data / "here.bagwise", "--set", "tol=1e-8")
    np.testing.assert_allclose(weights(data / "here.bagwise"), weights(data / "m.bagwise"), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory", "much"], "'much' is no amount of memory; write a number of bytes, or 500MB"),
        (["--memory", "1kB", "--model", "auto"], "--model auto needs all bags in memory"),
        (["--memory", "1kB", "--select", "l2", "--grid", "1,2"], "--select needs all bags in memory"),
        (["--memory", "1kB", "--labels", "all.csv"], "a table of labels (--labels) is matched in memory"),
        (["--memory", "1kB", "--model", "mimlfast"], "MIMLFast cannot learn from pieces"),
        (["--cluster", "tcp://127.0.0.1:1"], "No Dask scheduler answers at tcp://127.0.0.1:1"),
        (["--cluster", "local:0"], "--cluster local:0: a cluster has at least one worker"),
        (["--memory", "1kB", "--model", "ored-forest", "--checkpoint", "state"], "ORedForest keeps no checkpoints"),
    ],
)
def test_what_cannot_go_by_pieces_is_one_line(data, arguments, message, monkeypatch):
    monkeypatch.chdir(data)
    (data / "all.csv").write_text("bag,labels\nb0,wren\n")
    done = run("fit", "all.parquet", "--out", "m.bagwise", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr.splitlines()[-1]
    assert not (data / "m.bagwise").exists()
    assert not (data / "state").exists()


def test_a_cluster_of_this_machine(data):
    pytest.importorskip("distributed")
    for name, extra in (("here", []), ("there", ["--cluster", "local:1"])):
        out = data / f"{name}.bagwise"
        done = run("fit", data / "all.parquet", "--out", out, "--set", "tol=1e-8", "--quiet", *extra)
        assert done.exit_code == 0, done.stderr
    np.testing.assert_allclose(weights(data / "here.bagwise"), weights(data / "there.bagwise"), rtol=0, atol=1e-6)
    assert run("convert", data / "all.parquet", data / "all.npz").exit_code == 0
    wrong = run("fit", data / "all.npz", "--out", data / "m.bagwise", "--cluster", "local:1")
    assert "workers read parquet; convert it first (bagwise convert" in wrong.stderr


def test_info_of_a_folder_and_of_nothing(data):
    done = run("info", data / "parts", "--json")
    assert done.exit_code == 0, done.stderr
    whole = run("info", data / "all.parquet", "--json")
    facts, right = json.loads(done.stdout), json.loads(whole.stdout)
    assert facts["read_as"] == "parquet files, 2 piece(s)"
    different = {"file", "read_as"} | {key for key in right if "duplicate" in key}
    assert {k: v for k, v in facts.items() if k not in different} == {
        k: v for k, v in right.items() if k not in different
    }
    (data / "empty").mkdir()
    nothing = run("info", data / "empty")
    assert nothing.exit_code == 1
    assert "the folder holds no parquet file" in nothing.stderr


def spied(monkeypatch):
    """A list that receives the sizes of the parts in which bags are worked on."""
    sizes, in_parts = [], predictions.in_parts

    def watched(model, dataset):
        for part in in_parts(model, dataset):
            sizes.append(len(part))
            yield part

    monkeypatch.setattr(predictions, "in_parts", watched)
    return sizes


@pytest.mark.parametrize("command", ["predict", "annotate-table"])
def test_models_are_applied_to_folders_and_patterns(data, command, monkeypatch):
    assert run("fit", data / "all.parquet", "--out", data / "m.bagwise", "--set", "tol=1e-2").exit_code == 0
    whole = run(command, data / "m.bagwise", data / "all.parquet", "--quiet")
    assert whole.exit_code == 0, whole.stderr
    for source in (data / "parts", data / "parts" / "*.parquet"):
        parts = run(command, data / "m.bagwise", source)
        assert parts.exit_code == 0, parts.stderr
        assert "as parquet files, 2 piece(s)" in parts.stderr
        assert parts.stdout == whole.stdout
    made = run(command, data / "m.bagwise", data / "parts", data / "parts" / "[12].parquet", "--out-dir", data / "out")
    assert made.exit_code == 0, made.stderr
    one, other = sorted((data / "out").glob("*.csv"))
    assert one.read_text() == other.read_text() == whole.stdout
    monkeypatch.setattr(predictions, "MOST_SCORES", 25)  # parts of a bag or two
    asked = spied(monkeypatch)
    finer = run(command, data / "m.bagwise", data / "parts", "--quiet")
    assert (finer.stdout, len(asked) > 40) == (whole.stdout, True)
    (data / "labels.csv").write_text("bag,labels\nb0,wren\n")
    refused = run("annotate-table", data / "m.bagwise", data / "parts", "--labels", data / "labels.csv")
    assert refused.exit_code == 1
    assert "--labels goes with one file" in refused.stderr


def test_evaluate_by_pieces_is_evaluate_in_memory(data):
    asked = ["--model", "ored", "--model", "clpl", "--set", "tol=1e-6", "--folds", "3", "--json"]
    for mode in ("inductive", "transductive"):
        whole = run("evaluate", data / "all.parquet", "--mode", mode, *asked)
        assert whole.exit_code == 0, whole.stderr
        expected = [json.loads(line) for line in whole.stdout.splitlines()]
        for source, extra in ((data / "all.parquet", ["--memory", "30kB"]), (data / "parts", [])):
            parts = run("evaluate", source, "--mode", mode, *asked, *extra)
            assert parts.exit_code == 0, parts.stderr
            for row, other in zip(expected, map(json.loads, parts.stdout.splitlines()), strict=True):
                assert row.keys() == other.keys()
                for key in {*row} - {"dataset"}:
                    if "seconds" not in key:
                        assert other[key] == pytest.approx(row[key], abs=1e-9), key


def test_evaluate_says_what_it_cannot_do_by_pieces(data):
    for extra, message in (
        (["--select", "l2", "--grid", "1,2"], "--select needs all bags in memory"),
        (["--model", "mimlfast"], "MIMLFast cannot learn from pieces"),
        (["--folds", "61"], "there are 60 bags; use at least 2 folds"),
    ):
        done = run("evaluate", data / "parts", *extra)
        assert done.exit_code == 1
        assert message in done.stderr


def test_a_fit_that_fails_in_the_middle_writes_nothing(data):
    """A value that is no number, which only the pass over its piece sees."""
    table = pyarrow.parquet.read_table(data / "parts" / "2.parquet")
    feature = next(name for name in table.column_names if name.startswith("x"))
    values = table[feature].to_numpy().copy()
    values[-1] = np.nan
    table = table.set_column(table.column_names.index(feature), feature, pyarrow.array(values))
    pyarrow.parquet.write_table(table, data / "parts" / "2.parquet")
    before = sorted(path.name for path in data.rglob("*"))
    done = run("fit", data / "parts", "--out", data / "m.bagwise", "--memory", "30kB")
    assert done.exit_code == 1
    assert "2.parquet, piece" in done.stderr
    assert "contains NaN" in done.stderr
    assert sorted(path.name for path in data.rglob("*")) == before
