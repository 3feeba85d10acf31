"""`bagwise cluster`: files, table, sweep, usage errors and exit codes."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

import bagwise
from bagwise import M3IC
from bagwise.cli import main
from bagwise.clustering.scaling import scale_bags
from bagwise.datasets import load_npz
from bagwise.metrics import clustering_accuracy


@pytest.fixture
def data(tmp_path):
    """Thirty bags in three groups, written as the papers' files are."""
    rng = np.random.default_rng(0)
    truth = np.arange(30) % 3
    X = np.concatenate([5 * np.eye(4)[c] + rng.normal(size=(3, 4)) for c in truth])
    path = tmp_path / "groups.npz"
    np.savez(
        path, X=X, bag=np.repeat(np.arange(30), 3), Y=np.eye(3, dtype=np.uint8)[truth],
        class_names=np.array(["a", "b", "c"]), bag_names=np.array([f"bag {i}" for i in range(30)]),
    )  # fmt: skip
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["cluster", *map(str, arguments)])


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("scaling", ["within-bag", "standard", "length", "none"])
def test_table_and_page(tmp_path, data, scaling):
    out = tmp_path / "found.csv"
    result = run(data, "--k", 3, "--scaling", scaling, "--out", out, "-C", 4, "--balance", 1, "--starts", 8)
    assert result.exit_code == 0, result.output
    assert "30 bags in 3 clusters: 10, 10, 10" in result.output
    rows = read(out)
    assert list(rows[0]) == ["bag", "cluster", "witness", "margin"]
    assert [row["bag"] for row in rows] == [f"bag {i}" for i in range(30)]
    assert clustering_accuracy(np.arange(30) % 3, [row["cluster"] for row in rows]) == 1.0
    bags = scale_bags(load_npz(data).bags, scaling)
    model = M3IC(3, 4.0, 1.0, n_init=8, random_state=0).fit(bags)
    assert [int(row["cluster"]) for row in rows] == model.labels_.tolist()
    assert [int(row["witness"]) for row in rows] == model.witnesses_.tolist()
    assert [float(row["margin"]) for row in rows] == pytest.approx(model.margins_, abs=1e-6)
    assert "bag 7" in (tmp_path / "found.html").read_text(encoding="utf-8")


def test_no_page_and_other_page(tmp_path, data):
    out = tmp_path / "found.csv"
    assert run(data, "--out", out, "--no-page").exit_code == 0
    assert not (tmp_path / "found.html").exists()
    assert run(data, "--out", out, "--page", tmp_path / "other.html", "--quiet").exit_code == 0
    assert (tmp_path / "other.html").exists()


def test_it_says_what_made_it(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(data, "--k", 3, "--out", out, "--no-page", "--seed", 7, "--json", "--set", "tol_outer=0.1")
    assert result.exit_code == 0, result.output
    printed, beside = json.loads(result.stdout), json.loads((tmp_path / "found.csv.json").read_text(encoding="utf-8"))
    assert printed == {**beside, "out": [str(out)]}
    assert beside["model"] == "m3ic"
    assert beside["bagwise"] == bagwise.__version__
    assert beside["settings"]["n_clusters"] == 3
    assert beside["settings"]["random_state"] == 7
    assert beside["settings"]["tol_outer"] == 0.1
    assert (beside["scaling"], sum(beside["sizes"])) == ("within-bag", 30)
    sweep = run(data, "--k", "2,3", "-C", 1, "--sweep", "--out", out, "--no-page", "--json")
    assert json.loads(sweep.stdout)["settings"]["n_clusters"] in (2, 3)
    assert "silhouette" in sweep.stderr


def test_it_says_what_it_read(tmp_path):
    """A column of times is taken for a feature unless the features are named."""
    path, out = tmp_path / "calls.csv", tmp_path / "found.csv"
    rng = np.random.default_rng(0)
    lines = [f"rec{i // 3},{i},{x:.3f},{z:.3f}" for i, (x, z) in enumerate(rng.normal(size=(60, 2)))]
    path.write_text("\n".join(["bag,start_s,pitch,length", *lines]), encoding="utf-8")
    assert "3 features" in run(path, "--k", 2, "--out", out).output
    assert "2 features" in run(path, "--k", 2, "--out", out, "--features", "pitch,length").output
    assert "features" not in run(path, "--k", 2, "--out", out, "--quiet").output


def test_sweep_prints_every_setting_and_takes_the_chosen(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(
        data, "--k", "2,3", "-C", "1,4", "--balance", "0,1", "--sweep", "--scaling", "length", "--out", out, "--no-page"
    )
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line[:1] in "23"]
    assert len(lines) == 8
    chosen = [line.split() for line in lines if "<- chosen" in line]
    assert len(chosen) == 1
    assert chosen[0][0] == "3"
    assert clustering_accuracy(np.arange(30) % 3, [row["cluster"] for row in read(out)]) == 1.0


def test_sweep_of_whitened_bags_tries_one_balance(tmp_path, data):
    result = run(data, "--k", "3", "--sweep", "--out", tmp_path / "found.csv", "--no-page")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line[:1] == "3" and "0.1" in line]
    assert len(lines) == 4  # the values of C


def test_kernel(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(data, "--kernel", "rbf", "--gamma", 0.05, "--scaling", "none", "-C", 10, "--out", out, "--starts", 10)
    assert result.exit_code == 0, result.output
    assert clustering_accuracy(np.arange(30) % 3, [row["cluster"] for row in read(out)]) == 1.0
    assert "rbf, gamma 0.05" in (tmp_path / "found.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--k", "x"], 2, "--k takes whole numbers separated by commas, not 'x'"),
        (["-C", "1;2"], 2, "-C takes numbers separated by commas"),
        (["--k", "2,3"], 2, "Several values of --k, -C or --balance go with --sweep"),
        (["--page", "p.html", "--no-page"], 2, "exclude each other"),
        (["--out", "t.html"], 2, "Table and page would both be t.html"),
        (["--set", "C=2"], 2, "--set C has an option of its own; use -C"),
        (["--set", "tol"], 2, "--set takes NAME=VALUE"),
        (["--set", "nothing=1"], 1, "M3IC has no setting 'nothing'; it has"),
        (["--set", "tol_outer=x"], 1, "The setting 'tol_outer' must be a number"),
        (["--k", "1"], 1, "Error: The 'n_clusters' parameter"),
        (["--k", "31"], 1, "Error: n_clusters=31 is more than the 30 bags"),
        (["-C", "0"], 1, "Error: The 'C' parameter"),
        (["--out", "no/such/folder/t.csv"], 1, "there is no folder"),
        (["--page", "no/such/folder/t.html", "--sweep"], 1, "there is no folder"),
    ],
    ids=str,
)
def test_errors_are_one_line(data, arguments, code, message):
    result = run(data, *arguments)
    assert result.exit_code == code, result.output
    assert message in result.output
    assert "Traceback" not in result.output
    assert "silhouette" not in result.output  # nothing was computed for a file that cannot be written


def test_missing_file():
    result = run("no-such-file.npz")
    assert result.exit_code == 1
    assert "no-such-file.npz" in result.output
