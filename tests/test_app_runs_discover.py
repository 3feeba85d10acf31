"""What nobody listed in a run: groups that are found, named, called background, learned and taken back."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner

from bagwise import BagDataset, Run, write_dataset
from bagwise.app.cli import main
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that lists four of five classes, and the labels of its instances."""
    folder = tmp_path_factory.mktemp("discover")
    data = make_gaussian_bags(n_bags=150, separation=6.0, random_state=0)
    names = [f"bag{i}" for i in range(len(data))]
    write_dataset(BagDataset(data.bags, data.Y[:, :4], list("abcd"), bag_names=names), folder / "made.csv")
    Run.create(folder / "made.csv", folder / "run", page=False).close()
    truth = data.instance_labels
    return folder / "run", {(bag, i): int(c) for bag, own in zip(names, truth, strict=True) for i, c in enumerate(own)}


@pytest.fixture
def copied(made, tmp_path):
    import shutil

    shutil.copytree(made[0], tmp_path / "run")
    return tmp_path / "run", made[1]


def named(run, label):
    return {(row["bag"], row["instance"]) for row in run.annotations() if row["label"] == label}


def test_a_group_is_named_learned_and_taken_back(copied):
    path, truth = copied
    with Run.open(path) as run:
        group = run.discover()[0]
        members = {tuple(key) for key in group["members"]}
        assert group["instances"] == len(members)
        assert len({bag for bag, _ in members}) == group["bags"]
        assert np.mean([truth[key] == 4 for key in members]) >= 0.9
        before = [row["label"] for row in run.annotations()]
        run.correct([(bag, instance, "e") for bag, instance in members])
        run.refit()
        assert "e" in run.labels
        found = named(run, "e")
        assert members <= found
        others = found - members  # the next learning knows it
        assert len(others) >= 20
        assert np.mean([truth[key] == 4 for key in others]) >= 0.8
        assert not members & {tuple(key) for one in run.discover() for key in one["members"]}
        run.undo()  # past the refit
        assert [row["label"] for row in run.annotations()] == before
        assert {tuple(key) for key in run.discover()[0]["members"]} == members


def test_a_group_that_is_background_is_not_shown_again(copied):
    path, _ = copied
    with Run.open(path) as run:
        members = {tuple(key) for key in run.discover()[0]["members"]}
        run.correct([(bag, instance, "") for bag, instance in members])
        assert not members & {tuple(key) for one in run.discover() for key in one["members"]}


def test_the_command_prints_and_writes_the_groups(copied):
    path, _ = copied
    done = CliRunner().invoke(main, ["discover", str(path)])
    assert done.exit_code == 0, done.output
    with Run.open(path) as run:
        groups = run.discover()
    heading, _, *lines = done.output.splitlines()
    assert heading.split() == ["group", "instances", "bags", "stability", "label", "share"]
    assert [line.split()[:3] for line in lines[: len(groups)]] == [
        [str(group[name]) for name in ("group", "instances", "bags")] for group in groups
    ]
    with (path / "novel.csv").open(encoding="utf-8") as file:
        rows = [(row["group"], row["bag"], int(row["instance"])) for row in csv.DictReader(file)]
    assert rows == [(str(group["group"]), bag, i) for group in groups for bag, i in group["members"]]


def test_windows_are_refused_in_words(tmp_path):
    data = make_gaussian_bags(n_bags=30, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    with (
        Run.create(tmp_path / "made.csv", tmp_path / "run", model="noisy-or", page=False) as run,
        pytest.raises(InputError, match="any number of labels"),
    ):
        run.discover()
    done = CliRunner().invoke(main, ["discover", str(tmp_path / "run")])
    assert done.exit_code == 1
    assert "any number of labels" in done.output
