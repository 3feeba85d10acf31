"""What another package brings: the example of the documentation, installed, and packages that are broken."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from bagwise.core import plugins
from bagwise.core.plugins import add_installed
from bagwise.datasets import make_soundscape

EXAMPLE = Path(__file__).parents[1] / "docs" / "plugins"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment in which the example is installed, without the network."""
    target = tmp_path_factory.mktemp("installed")
    command = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", *command, "--target", str(target), str(EXAMPLE)], check=True)
    path = os.pathsep.join([str(target), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return os.environ | {"PYTHONPATH": path}


def run(installed, *arguments):
    command = [sys.executable, "-m", "bagwise.app.cli", *map(str, arguments)]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr  # 3: a label of which little is known
    return done.stdout


def test_format_of_bags_and_learner(installed, tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"bag": f"b{i}", "labels": ["x"] if i % 2 else ["y"], "instances": (rng.normal(size=(3, 2)) + i % 2).tolist()}
        for i in range(20)
    ]
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "made.jsonl").write_text("\n".join(lines) + "\n")
    run(installed, "convert", tmp_path / "made.jsonl", tmp_path / "made.npz")
    run(installed, "convert", tmp_path / "made.npz", tmp_path / "again.jsonl")
    assert [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()] == rows
    run(installed, "fit", tmp_path / "made.jsonl", "--model", "noisy-or-strict", "--out", tmp_path / "made.bagwise")
    assert "noisy-or-strict" in run(installed, "info", tmp_path / "made.bagwise")


def test_media_type(installed, tmp_path):
    (tmp_path / "media").mkdir()
    rng = np.random.default_rng(0)
    for i in range(12):
        np.savetxt(tmp_path / "media" / f"{i}.points", rng.normal(size=(4, 2)) + i % 2, delimiter=",")
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"{i}.points,{'ab'[i % 2]}\n" for i in range(12)))
    run(installed, "annotate", tmp_path / "media", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run",
        "--no-page")  # fmt: skip
    table = (tmp_path / "run" / "annotations.csv").read_text().splitlines()
    assert table[0].startswith("file,line,label")
    assert len(table) == 1 + 12 * 4


def test_format_of_annotations(installed, tmp_path):
    make_soundscape(4, random_state=5).write(tmp_path)
    run(installed, "annotate", tmp_path / "recordings", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run",
        "--no-page", "--format", "ctm", "--jobs", 1)  # fmt: skip
    track = tmp_path / "run" / "annotations.ctm"
    back = ("correct", tmp_path / "run", "--from", track, "--format", "ctm", "--dry-run")
    assert "0 corrections" in run(installed, *back)
    lines = track.read_text().splitlines()
    track.write_text("\n".join(lines[1:]) + "\n")
    assert "1 correction" in run(installed, *back)


def point(name, value):
    return EntryPoint(name, value, "bagwise.learners")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (point("mine", "no_such_module:thing"), "it cannot be imported .ModuleNotFoundError"),
        (point("mine", "json:no_such_name"), "it cannot be imported .AttributeError"),
        (point("mine", "json:__name__"), "it is str, no function"),
        (point("own", "json:dumps"), "the name 'own' is taken"),
    ],
)
def test_broken_packages_are_left_out(monkeypatch, found, words):
    good = point("good", "json:dumps")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [found, good])
    own = {"own": len}
    with pytest.warns(UserWarning, match=words):
        add_installed(own, "bagwise.learners")
    assert own == {"own": len, "good": json.dumps}


def test_things_of_another_kind_are_left_out(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point("mine", "json:dumps")])
    with pytest.warns(UserWarning, match="it is function, no dict"):
        add_installed(own := {}, "bagwise.media_types", dict)
    assert own == {}
