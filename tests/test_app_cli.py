"""The command line as a user meets it: what it prints, what it writes, how it fails."""

import csv
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bagwise
from bagwise.app.cli._common import plain_warnings
from bagwise.app.demo.letters import choose_words
from bagwise.datasets import make_gaussian_bags, make_letter_bags
from bagwise.io.data.formats import write_dataset
from made import run


@pytest.fixture
def npz(tmp_path):
    data = make_gaussian_bags(
        n_bags=30, n_features=4, n_classes=3, labels_per_bag=(1, 2), separation=5.0, random_state=0
    )
    path = tmp_path / "made.npz"
    np.savez(
        path, X=data.bags.instances, bag=data.bags.bag_index, Y=data.Y, y=data.instance_labels.instances,
        class_names=np.array(["ä", "b", "c"]),
    )  # fmt: skip
    return path


def test_demo_prints_and_writes(tmp_path):
    result = run("demo", "--letters", "--out", tmp_path / "out", "--seed", 1)
    assert result.exit_code == 0, result.output
    for expected in ("182 words", "most-frequent", "ored", "lr-supervised", "these words", "new words", "wrote"):
        assert expected in result.output
    assert max(map(len, result.output.splitlines()[:-4])) <= 88
    with (tmp_path / "out" / "annotations.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    data = make_letter_bags(random_state=1)
    assert len(rows) == data.bags.n_instances
    right = np.mean([row["label"] == row["truth"] for row in rows])
    assert right > 0.9
    assert all(row["label"] in set(row["bag"]) for row in rows)
    assert (tmp_path / "out" / "words.png").read_bytes().startswith(b"\x89PNG")
    model = bagwise.load(tmp_path / "out" / "letters.bagwise")
    assert model.annotate(data).tolist() == [row["label"] for row in rows]


def test_demo_shows_words_whatever_the_text():
    short = make_letter_bags(["ab", "cd"], random_state=0)
    assert choose_words(short, 9) == [0, 1]


def test_evaluate_several_models(npz, tmp_path):
    records = tmp_path / "records.jsonl"
    result = run("evaluate", npz, "--model", "ored", "--model", "most-frequent", "--folds", 3, "--records", records)
    assert result.exit_code == 0, result.output
    assert "made, inductive, 3 folds" in result.output
    assert ["ored", "most-frequent"] in [line.split() for line in result.output.splitlines()]
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(line["model"], line["fold"]) for line in lines] == [
        (m, f) for m in ("ored", "most-frequent") for f in range(3)
    ]
    transductive = run("evaluate", npz, "--mode", "transductive", "--json")
    (row,) = [json.loads(line) for line in transductive.output.splitlines()]
    assert row["mode"] == "transductive"
    assert row["accuracy"] > 0.8


def test_select_alpha_and_draw_the_curve(npz, tmp_path):
    picture = tmp_path / "curve.png"
    result = run(
        "evaluate", npz, "--model", "sim-max", "--mode", "transductive", "--select", "alpha",
        "--grid", "1e-6,1e-3", "--folds", 2, "--curve", picture,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "sim-max: alpha = " in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    many = run("evaluate", npz, "--select", "l2", "--grid", "0.1,1,10", "--folds", 2)
    assert many.exit_code == 0, many.output
    assert re.search(r"ored: l2 = [\d.]+, [\d.]+\n", many.output)
    whole = run(
        "evaluate", npz, "--model", "sim-max", "--set", "alpha=1e-4", "--select", "n_phases", "--grid", "1,2",
        "--folds", 2,
    )  # fmt: skip
    assert whole.exit_code == 0, whole.output
    assert re.search(r"sim-max: n_phases = [12], [12]\n", whole.output)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate", "nowhere.npz"], 1, "nowhere.npz"),
        (["evaluate", "DATA", "--model", "x"], 1, "There is no model 'x'"),
        (["evaluate", "DATA", "--mode", "x"], 2, "Invalid value for '--mode'"),
        (["evaluate", "DATA", "--folds", "1"], 2, "Invalid value for '--folds'"),
        (["evaluate", "DATA", "--folds", "99"], 1, "99"),
        (["evaluate", "DATA", "--grid", "1"], 2, "--grid and --curve go with --select"),
        (["evaluate", "DATA", "--select", "l2"], 2, "--select l2 needs --grid"),
        (["evaluate", "DATA", "--select", "l2", "--grid", "x"], 2, "--grid takes numbers"),
        (["evaluate", "DATA", "--select", "l2", "--grid", "-1,1", "--folds", "2"], 1, "Error: The 'l2' parameter"),
        (["evaluate", "DATA", "--select", "nothing", "--grid", "1"], 1, "no parameter 'nothing'"),
        (["fly"], 2, "No such command 'fly'"),
        (["evaluate"], 2, "Missing argument"),
        (["evaluate", "DATA", "--records", "nowhere/r.jsonl", "--folds", "2"], 1, "nowhere"),
    ],
    ids=str,
)
def test_failures_are_one_line_and_a_code(npz, arguments, code, message):
    result = run(*[npz if a == "DATA" else a for a in arguments])
    assert result.exit_code == code, result.output
    assert message in result.output
    assert "Traceback" not in result.output


def test_warnings_are_one_line_each(tmp_path):
    path = tmp_path / "tight.npz"
    Y = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])  # three labels on two instances
    np.savez(path, X=np.random.default_rng(0).normal(size=(8, 2)), bag=np.repeat(np.arange(4), 2), Y=Y)
    code = f"from bagwise.app.cli import main; main(['evaluate', {str(path)!r}, '--mode', 'transductive', '--quiet'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert all(line.startswith("Warning: ") for line in lines)
    assert len(lines) == len(set(lines)) >= 1
    assert "1 of 4 bags cannot be explained, bag 0" in lines[0]


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['bagwise', '--help']\n"
        "import bagwise.app.cli\n"
        "try:\n    bagwise.app.cli.main()\nexcept SystemExit:\n    pass\n"
        "names = ('numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'rich', 'joblib')\n"
        "heavy = [name for name in names if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "evaluate" in done.stdout


def test_public_names_are_all_there():
    for name in bagwise.__all__:
        assert getattr(bagwise, name) is not None
    assert set(bagwise.__all__) <= set(dir(bagwise))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bagwise.nothing


def test_warnings_that_differ_in_numbers_only_are_shown_once(capsys):
    with plain_warnings():
        warnings.simplefilter("always")  # the tests turn warnings into errors
        for value, bags in ((1.93, "3, 7"), (2.1e-5, "4"), (17, "3, 4, 5, ...")):
            warnings.warn(f"The objective ended at {value} in bags {bags}.", UserWarning, stacklevel=1)
        warnings.warn("Another thing.", UserWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == [
        "Warning: The objective ended at 1.93 in bags 3, 7.",
        "Warning: Another thing.",
    ]


def test_annotate_shows_few_options_in_groups_and_the_page_has_all():
    from bagwise.app.runs.options import GROUPS, option_table

    shown = run("annotate", "--help").output
    assert len(re.findall(r"^  (?:-h, )?--[a-z]", shown, re.MULTILINE)) <= 22
    assert [line for line in shown.splitlines() if line.rstrip(":") in GROUPS] == [f"{group}:" for group in GROUPS]
    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert "\n".join(option_table()) in page


def test_a_configuration_file_gives_options_and_what_is_typed_wins(tmp_path):
    data, config = tmp_path / "made.csv", tmp_path / "run.toml"
    write_dataset(make_gaussian_bags(n_bags=20, random_state=0), data)
    config.write_text(
        'no-page = true\nformat = ["csv"]\nseed = 3\nread-as = "csv"\ninstance-labels = false\n'
        '[set]\nl2 = 0.5\nmax_iter = 700\ncalibrate = "none"\n'
    )
    result = run("annotate", data, "--out", tmp_path / "run", "--config", config, "--set", "l2=2")
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    parameters = manifest["about"]["parameters"]
    assert (parameters["l2"], parameters["max_iter"], parameters["calibrate"]) == (2, 700, None)
    assert (manifest["options"]["page"], manifest["options"]["formats"]) == (False, ["csv"])
    assert (manifest["identity"]["seed"], manifest["identity"]["options"]) == (3, {"format": "csv"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-pag = true", "annotate has no option 'no-pag'; did you mean 'no-page'?"),
        ("colour = 1", "annotate has no option 'colour'; did you mean 'columns'?"),
        ("zzz = 1", "annotate has no option 'zzz'; docs/command-line.md lists all."),
        ("noise-share = 3", "Invalid value for '--noise-share': 3.0 is not in the range"),
        ("no-page = 1", "no-page is 1; expected true or false."),
        ("set = 1", "set is 1; expected a table of settings, [set]."),
        ("[seed]\na = 1", "seed is {'a': 1}; expected one value, or a list of them."),
        ("seed", "cannot be read as TOML"),
    ],
)
def test_configuration_files_that_are_refused(tmp_path, text, message):
    (tmp_path / "run.toml").write_text(text)
    result = run("annotate", "here", "--out", tmp_path / "run", "--config", tmp_path / "run.toml")
    assert (result.exit_code, message in result.output) == (2, True), result.output
