"""Fits that were killed and go on: they end where the uninterrupted fit ends, and no file is ever torn."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

import bagwise
from bagwise.annotation import CLPL, NoisyOrLogisticRegression, ORedLogisticRegression, SupportInstanceMachine
from bagwise.app.cli import main
from bagwise.app.runs.learner import fit_dataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.checkpoint import Checkpoint, array_fingerprint
from bagwise.io.data.formats import write_dataset

LEARNERS = {
    "ored": lambda: ORedLogisticRegression(l2=0.1),
    "ored-background": lambda: ORedLogisticRegression(background=True, background_share=0.1),
    "ored-em": lambda: ORedLogisticRegression(solver="em", max_iter=25, tol=0.0),
    "ored-em-sampled": lambda: ORedLogisticRegression(solver="em", max_iter=15, batch_fraction=0.5, random_state=3),
    "noisy-or": lambda: NoisyOrLogisticRegression(l2=0.1),
    "sim-softmax": lambda: SupportInstanceMachine(alpha=1e-4, n_phases=6),
    "sim-last": lambda: SupportInstanceMachine(alpha=1e-4, n_phases=6, restart="last"),
    "sim-cccp": lambda: SupportInstanceMachine(alpha=1e-3, n_phases=6, aggregation="max", solver="cccp"),
    "clpl": lambda: CLPL(C=10.0),
}


class Stopped(Exception):
    """Stands for the interruption."""


def stop_after(last):
    def callback(iteration, objective):
        if iteration >= last:
            raise Stopped

    return callback


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=50, n_features=5, n_classes=4, random_state=1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LEARNERS)
def test_a_fit_that_goes_on_ends_where_it_would_have_ended(tmp_path, data, name):
    whole = LEARNERS[name]().fit(data.bags, data.label_sets)
    n_stops = 0
    for last in (1, 3, 5):
        try:
            fit_dataset(LEARNERS[name](), data, checkpoint=tmp_path / "keep", callback=stop_after(last), interval=0.0)
        except Stopped:
            n_stops += 1
    assert n_stops >= 2, "the fit was hardly ever interrupted"
    model = LEARNERS[name]()
    fit_dataset(model, data, checkpoint=tmp_path / "keep", interval=0.0)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=0, atol=1e-10)
    assert model.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(model.objective_history_, whole.objective_history_, rtol=1e-12)


def test_what_was_evaluated_is_not_computed_again(tmp_path):
    calls = []

    def objective(weights):
        calls.append(weights.copy())
        return float(weights @ weights), 2 * weights

    for _ in range(2):
        remembered = Checkpoint(tmp_path, {"a": 1}, interval=0.0).remember(objective)
        for i in range(5):
            value, gradient = remembered(np.full(3, float(i)))
            assert value == 3.0 * i * i
            np.testing.assert_array_equal(gradient, np.full(3, 2.0 * i))
    assert len(calls) == 5


def test_nothing_is_written_before_the_interval_is_over(tmp_path):
    keeper = Checkpoint(tmp_path, {"a": 1}, interval=3600.0)
    keeper.save(weights=np.ones(2))
    assert keeper.load() is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json"]


def test_folder_of_another_fit(tmp_path, data):
    Checkpoint(tmp_path / "keep", {"a": 1})
    with pytest.raises(InputError, match=r"keep belongs to another fit \(other data, settings or versions\)"):
        Checkpoint(tmp_path / "keep", {"a": 2})
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be made"):
        Checkpoint(tmp_path / "file", {})
    with pytest.raises(InputError, match="CLPL|keeps no checkpoints"):
        fit_dataset(bagwise.annotation.MostFrequentAnnotator(), data, checkpoint=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", [b"", b"x" * 300, b"PK\x05\x06" + bytes(18)])
def test_damaged_state(tmp_path, content):
    keeper = Checkpoint(tmp_path, {}, interval=0.0)
    (tmp_path / "state.bagwise").write_bytes(content)
    with pytest.raises(FormatError, match=r"state.bagwise is damaged .* remove the folder"):
        keeper.load()
    (tmp_path / "evaluations-000000.npy").write_bytes(content)
    with pytest.raises(FormatError, match=r"evaluations-000000.npy is damaged"):
        keeper.remember(lambda w: (0.0, w))


def test_clear_leaves_what_is_not_ours(tmp_path):
    keeper = Checkpoint(tmp_path / "keep", {}, interval=0.0)
    keeper.save(weights=np.ones(2))
    (tmp_path / "keep" / "notes.txt").write_text("mine")
    keeper.clear()
    assert [path.name for path in (tmp_path / "keep").iterdir()] == ["notes.txt"]


def test_fingerprint_sees_every_bit():
    a = np.zeros((2, 3))
    b = a.copy()
    b[1, 2] = -0.0
    assert array_fingerprint(a) != array_fingerprint(b) != array_fingerprint(a.reshape(3, 2))
    assert array_fingerprint(a, b) == array_fingerprint(a.copy(), b)


def test_killed_fit_goes_on_from_the_command_line(tmp_path):
    """SIGKILL in the middle of a fit; the same command then ends where the uninterrupted one does."""
    data = make_gaussian_bags(n_bags=300, n_features=20, n_classes=6, random_state=0)
    write_dataset(data, tmp_path / "data.npz")
    command = [
        sys.executable, "-m", "bagwise.app.cli", "fit", str(tmp_path / "data.npz"), "--model", "ored-em", "--quiet",
        "--set", "max_iter=1000", "--set", "tol=0.0", "--set", "l2=1.0",
    ]  # fmt: skip
    keep = ["--checkpoint", str(tmp_path / "keep")]
    at_once = ["--checkpoint-seconds", "0"]
    first = subprocess.Popen([*command, "--out", str(tmp_path / "a.bagwise"), *keep, *at_once])
    deadline = time.monotonic() + 60
    while not (tmp_path / "keep" / "state.bagwise").exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL, "the fit was over before it could be killed"
    assert not (tmp_path / "a.bagwise").exists()
    subprocess.run([*command, "--out", str(tmp_path / "a.bagwise"), *keep], check=True)
    assert not (tmp_path / "keep").exists()
    assert CliRunner().invoke(main, [*command[3:], "--out", str(tmp_path / "b.bagwise")]).exit_code == 0
    a, b = (bagwise.load(tmp_path / f"{name}.bagwise")[-1] for name in "ab")
    assert a.n_iter_ == b.n_iter_ > 100
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=1e-10)
