"""`bagwise cluster`: files, table, sweep, usage errors and exit codes."""

import json

import numpy as np
import pytest
from PIL import Image

import bagwise
import made
from bagwise import M3IC
from bagwise.clustering.scaling import scale_bags
from bagwise.datasets import load_npz, make_soundscape
from bagwise.metrics import clustering_accuracy
from made import read_csv


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
    return made.run("cluster", *arguments)


@pytest.mark.parametrize("scaling", ["within-bag", "standard", "length", "none"])
def test_table_and_page(tmp_path, data, scaling):
    out = tmp_path / "found.csv"
    result = run(
        data, "--method", "m3ic", "--k", 3, "--scaling", scaling, "--out", out, "-C", 4, "--balance", 1, "--starts", 8,
        "--noise", 0,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert f"30 bags in 3 clusters: 10, 10, 10 (m3ic, scaled by {scaling})" in result.output
    assert "baseline plain-kmeans, k-means of scaled statistics of bags: 10, 10, 10 (agreement 1.00)" in result.output
    assert "which were not used: 100.0 % right, plain-kmeans 100.0 %" in result.output
    rows = read_csv(out)
    assert list(rows[0]) == ["bag", "cluster", "witness", "margin", "stays", "plain_kmeans"]
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
    assert run(data, "--out", out, "--no-page", "--noise", 0).exit_code == 0
    assert not (tmp_path / "found.html").exists()
    assert run(data, "--out", out, "--page", tmp_path / "other.html", "--quiet", "--noise", 0).exit_code == 0
    assert (tmp_path / "other.html").exists()


def test_it_says_what_made_it(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(data, "--k", "2,3", "--out", out, "--no-page", "--seed", 7, "--json", "--set", "n_codebooks=1")
    assert result.exit_code == 0, result.output
    printed, beside = json.loads(result.stdout), json.loads((tmp_path / "found.csv.json").read_text(encoding="utf-8"))
    assert printed == {**beside, "out": [str(out)]}
    assert beside["model"] == "mixture"
    assert beside["bagwise"] == bagwise.__version__
    assert beside["settings"]["n_clusters"] == 3
    assert beside["settings"]["random_state"] == 7
    assert beside["settings"]["n_codebooks"] == 1
    assert (beside["scaling"], beside["sizes"]) == ("within-bag", [10, 10, 10])
    assert beside["test"] == {"p_value": 0.05, "n_noise": 19, "has_clusters": True}
    assert "more stable than those of noise" in beside["verdict"]
    assert beside["accuracy"] == {"clusters": 1.0, "plain-kmeans": 1.0}
    assert "the least that 19 sets of noise of the same shape can give; --noise 99 is finer" in beside["verdict"]
    assert beside["baseline"]["agreement"] == 1.0
    assert beside["stays"] == {"mean": 1.0, "unclear": 0, "stability": 1.0}
    assert beside["words"] is None
    two, three = beside["sweep"]
    assert (two["n_clusters"], two["chosen"], three["n_clusters"], three["chosen"]) == (2, False, 3, True)
    assert three["gap"] == pytest.approx(three["stability"] - three["noise"])
    assert three["gap"] > two["gap"]


def test_noise_is_called_noise(tmp_path):
    path, out = tmp_path / "noise.npz", tmp_path / "found.csv"
    np.savez(path, X=np.random.default_rng(0).normal(size=(120, 4)), bag=np.repeat(np.arange(40), 3))
    result = run(path, "--k", "2,3", "--out", out)
    assert result.exit_code == 0, result.output
    assert "No stable clusters: noise gives clusters as stable as these (p = " in result.output
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert "No stable clusters" in page
    assert "Do not interpret them" in page
    assert "is clear" not in page


@pytest.mark.parametrize("method", ["mixture", "m3ic", "cpm3c", "bamic", "kmeans", "mean-kmeans", "plain-kmeans"])
def test_every_method(tmp_path, data, method):
    out = tmp_path / "found.csv"
    result = run(data, "--method", method, "--k", 3, "--out", out, "--noise", 0, "--starts", 8)
    assert result.exit_code == 0, result.output
    assert clustering_accuracy(np.arange(30) % 3, [row["cluster"] for row in read_csv(out)]) == 1.0
    assert {int(row["witness"]) for row in read_csv(out)} <= {0, 1, 2}
    assert f"({method}, scaled by {'none' if method == 'plain-kmeans' else 'within-bag'})" in result.output
    assert "The margin of a bag is" in (tmp_path / "found.html").read_text(encoding="utf-8")


def test_it_says_what_it_read(tmp_path):
    """A column of times is taken for a feature unless the features are named."""
    path, out = tmp_path / "calls.csv", tmp_path / "found.csv"
    rng = np.random.default_rng(0)
    lines = [f"rec{i // 3},{i},{x:.3f},{z:.3f}" for i, (x, z) in enumerate(rng.normal(size=(60, 2)))]
    path.write_text("\n".join(["bag,start_s,pitch,length", *lines]), encoding="utf-8")
    assert "3 features" in run(path, "--k", 2, "--out", out, "--noise", 0).output
    assert "2 features" in run(path, "--k", 2, "--out", out, "--noise", 0, "--features", "pitch,length").output
    assert "features" not in run(path, "--k", 2, "--out", out, "--noise", 0, "--quiet").output


def test_sweep_prints_every_setting_and_takes_the_chosen(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(
        data, "--method", "m3ic", "--k", "2,3", "-C", "1,4", "--balance", "0,1", "--sweep", "--scaling", "length",
        "--out", out, "--no-page", "--noise", 0,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line[:2] in ("2 ", "3 ")]
    assert len(lines) == 8
    chosen = [line.split() for line in lines if "<- chosen" in line]
    assert len(chosen) == 1
    assert chosen[0][0] == "3"
    assert clustering_accuracy(np.arange(30) % 3, [row["cluster"] for row in read_csv(out)]) == 1.0


def test_sweep_of_whitened_bags_tries_one_balance(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(data, "--method", "m3ic", "--k", "3", "--sweep", "--out", out, "--no-page", "--noise", 0)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line[:1] == "3" and "0.1" in line]
    assert len(lines) == 4  # the values of C


def test_kernel(tmp_path, data):
    out = tmp_path / "found.csv"
    result = run(
        data, "--method", "m3ic", "--k", 3, "--kernel", "rbf", "--gamma", 0.05, "--scaling", "none", "-C", 10,
        "--out", out, "--starts", 10, "--noise", 0,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert clustering_accuracy(np.arange(30) % 3, [row["cluster"] for row in read_csv(out)]) == 1.0
    assert "kernel rbf" in (tmp_path / "found.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--k", "x"], 2, "--k takes whole numbers separated by commas, not 'x'"),
        (["-C", "1;2"], 2, "-C takes numbers separated by commas"),
        (["--method", "m3ic", "-C", "2,3"], 2, "Several values of -C or --balance go with --sweep"),
        (["-C", "2"], 2, "-C is no option of --method mixture"),
        (["--kernel", "rbf", "--method", "cpm3c"], 2, "--kernel is no option of --method cpm3c"),
        (["--sweep"], 2, "--sweep is for m3ic and cpm3c"),
        (["--noise", "5"], 2, "--noise 5 sets prove nothing"),
        (["--media-type", "audio"], 1, "leave --media-type, --window and --media-set out"),
        (["--page", "p.html", "--no-page"], 2, "exclude each other"),
        (["--out", "t.html"], 2, "Table and page would both be t.html"),
        (["--set", "C=2"], 2, "--set C has an option of its own; use -C"),
        (["--set", "tol"], 2, "--set takes NAME=VALUE"),
        (["--set", "nothing=1"], 1, "BagMixture has no setting 'nothing'; it has"),
        (["--set", "tol=x"], 1, "The setting 'tol' takes a number"),
        (["--k", "1"], 1, "Error: The 'n_clusters' parameter"),
        (["--k", "31"], 1, "Error: n_clusters=31 is more than the 30 bags"),
        (["--method", "m3ic", "-C", "0"], 1, "Error: The 'C' parameter"),
        (["--out", "no/such/folder/t.csv"], 1, "there is no folder"),
        (["--page", "no/such/folder/t.html", "--method", "m3ic", "--sweep"], 1, "there is no folder"),
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


# -- folders of media


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    make_soundscape(6, seconds=3.0, species_per_recording=(1, 1), random_state=1).write(folder)
    return folder


def test_sounds_are_heard_and_seen(tmp_path, scene):
    out = tmp_path / "found.csv"
    arguments = ("--labels", scene / "labels.csv", "--k", 2, "--out", out, "--noise", 0)
    result = run(scene / "recordings", *arguments)
    assert result.exit_code == 0, result.output
    assert "as audio: 6 files, 6 recordings" in result.output
    assert "; labels: " in result.output
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    sounds = sorted((tmp_path / "found-sounds").iterdir())
    assert len(sounds) == page.count("<audio") == page.count('src="data:image/png') == 6
    for sound in sounds:
        assert f'src="found-sounds/{sound.name}"' in page
    assert "Labels in the data" in page
    assert [row["bag"] for row in read_csv(out)] == sorted(path.name for path in (scene / "recordings").iterdir())


def test_pictures_are_seen(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        values = np.repeat(rng.integers(0, 255, size=(1, 4, 3)), 60, axis=0).repeat(20, axis=1)
        Image.fromarray(values.astype(np.uint8)).save(folder / f"{i}.png")
    (folder / "torn.png").write_bytes(b"no picture")
    result = run(folder, "--k", 2, "--out", tmp_path / "found.csv", "--noise", 0)
    assert result.exit_code == 3, result.output
    assert "torn.png" in result.stderr
    assert (tmp_path / "found.html").read_text(encoding="utf-8").count('src="data:image/jpeg') == 6


@pytest.mark.filterwarnings("ignore:Of .* terms")
def test_passages_are_read(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    topics = ["moon star sky night", "grass cow milk meadow", "ship sail mast wind"]
    for i in range(9):
        words = topics[i % 3]
        (folder / f"{i}.txt").write_text(f"{words} & {words}.\n\n{words}\n\nthe {words} again", encoding="utf-8")
    result = run(folder, "--k", 3, "--out", tmp_path / "found.csv", "--noise", 0)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert page.count("<q>") == 9
    assert "grass cow milk meadow" in page
    words = json.loads((tmp_path / "found.csv.json").read_text(encoding="utf-8"))["words"]
    assert sorted(map(sorted, words)) == sorted(sorted(topic.split()) for topic in topics)
    for own in words:
        assert ", ".join(own) in page
        assert ", ".join(own) in result.output


def test_options_of_files_are_none_of_folders(tmp_path):
    for option in ("--bag", "--features", "--format"):
        result = run(tmp_path, option, "x")
        assert result.exit_code == 2
        assert f"{option} is for files of bags" in result.output
