"""Same answer everywhere: what is the same bits whatever runs it, and how far the rest may be apart."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from threadpoolctl import threadpool_limits

import bagwise
from bagwise import save
from bagwise.annotation import ORedForest, ORedLogisticRegression
from bagwise.app.cli import main
from bagwise.catalog import make_model
from bagwise.classification import M3MIML, MIMLNN, BagStack, MIMLBoost
from bagwise.core.dataset import BagDataset
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import write_dataset
from bagwise.kernels import hausdorff
from bagwise.union import _problem as union_problem

TOLERANCE = 1e-6
"""Of scores, relative to the largest: what many steps make of the last bits of a sum; see docs/reliability.md."""
SMALL = make_gaussian_bags(n_bags=40, n_features=4, n_classes=4, labels_per_bag=(1, 2), random_state=0)
LARGE = make_gaussian_bags(n_bags=300, n_features=100, n_classes=20, labels_per_bag=(1, 3), random_state=0)


def fitted(estimator, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations
        return estimator.fit(data.bags, data.Y)


@pytest.mark.parametrize(
    "make",
    [
        lambda n_jobs: ORedLogisticRegression(background=True, n_jobs=n_jobs),
        lambda n_jobs: ORedForest(6, n_rounds=1, n_round_trees=6, random_state=0, n_jobs=n_jobs),
        lambda n_jobs: M3MIML(n_jobs=n_jobs),
        lambda n_jobs: MIMLNN(random_state=0, n_jobs=n_jobs),
        lambda n_jobs: MIMLBoost(n_rounds=2, n_jobs=n_jobs),
        lambda n_jobs: BagStack([ORedLogisticRegression()], cv=2, n_estimators=4, random_state=0, n_jobs=n_jobs),
    ],
    ids=["ored", "forest", "m3miml", "mimlnn", "mimlboost", "stack"],
)
def test_jobs_change_no_bit(make, monkeypatch, tmp_path):
    """Threads of our own: the model files are the same bytes but for the parameter."""
    monkeypatch.setattr(union_problem, "THREADING_FROM", 1)
    monkeypatch.setattr(hausdorff, "THREADING_FROM", 1)
    written = []
    for n_jobs in (1, 3):
        save(fitted(make(n_jobs), SMALL).set_params(n_jobs=None), tmp_path / "x")
        written.append((tmp_path / "x").read_bytes())
    assert written[0] == written[1]


def scores_with(n_threads, name, **settings):
    with threadpool_limits(n_threads, "blas"):
        model = fitted(make_model(name, **settings), LARGE)
    with threadpool_limits(1, "blas"):
        return model.decision_function(LARGE.bags)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("ored-forest", {"n_estimators": 4, "n_rounds": 1, "n_round_trees": 4}), ("mimlfast", {"max_epochs": 1})],
)
def test_learners_of_our_own_loops_are_the_same_bits_whatever_threads_blas_has(name, settings):
    assert np.array_equal(scores_with(1, name, **settings), scores_with(2, name, **settings))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ored", {"max_iter": 15}),
        ("ored-rbf", {"size": 100, "max_iter": 8}),
        ("sim-max-rff", {}),
        ("clpl", {}),
        ("mimlnn", {}),
    ],
)
def test_sums_of_blas_stay_within_the_tolerance(name, settings):
    """Products of large matrices are cut among threads, and their last bits depend on where."""
    one, two = scores_with(1, name, **settings), scores_with(2, name, **settings)
    assert np.abs(one - two).max() <= TOLERANCE * np.abs(one).max()
    assert np.array_equal(one.argmax(axis=1), two.argmax(axis=1))


def test_processes_write_the_same_bytes(tmp_path, monkeypatch):
    """Text is hashed differently in every process, and nothing may depend on it."""
    data = BagDataset(bags=SMALL.bags, Y=SMALL.Y, class_names=["wren", "robin", "jay", "owl"])
    write_dataset(data, tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    arguments = ["fit", "data.csv", "--quiet", "--out"]
    assert CliRunner().invoke(main, [*arguments, "here.bagwise"]).exit_code == 0
    subprocess.run(
        [sys.executable, "-m", "bagwise.app.cli", *arguments, "there.bagwise"], check=True, timeout=240,
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(bagwise.__file__).parents[1])},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert (tmp_path / "here.bagwise").read_bytes() == (tmp_path / "there.bagwise").read_bytes()
