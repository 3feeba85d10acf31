"""A disk that fails at every single call, while a run is made, corrected, taken back, fitted again and exported.

After each failure the run opens, what was answered is there, and nothing that was refused. In CI a sample of the calls
fails, all of them in the nightly run.
"""

import random
import shutil

import numpy as np
import pytest

from bagwise import Run, write_dataset
from bagwise.annotation import ORedLogisticRegression, SupportInstanceMachine
from bagwise.app.formats import formats_of
from bagwise.app.review._samples import Sample, read_samples, write_samples
from bagwise.app.review.review import with_reviewers, write_export
from bagwise.app.runs.learner import fit_supervised
from bagwise.app.runs.run import NotWrittenError
from bagwise.app.runs.supervision import put_together
from bagwise.app.runs.survey import drawn_rows
from bagwise.core.exceptions import BagwiseError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.checkpoint import Checkpoint
from failing_disk import BROKEN, FULL, FailingDisk, needs_descriptors

pytestmark = needs_descriptors
SAMPLE = 12  # calls of an operation that fail in CI, beside the first and the last ones


@pytest.fixture
def calls(request):
    """Which of so many calls fail."""
    every = request.config.getoption("--hypothesis-profile", None) == "nightly"

    def chosen(n_calls):
        if every or n_calls <= SAMPLE + 8:
            return range(1, n_calls + 1)
        inner = random.Random(request.node.name).sample(range(5, n_calls - 3), SAMPLE)
        return sorted({1, 2, 3, 4, *inner, *range(n_calls - 3, n_calls + 1)})

    return chosen


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "made.csv"
    write_dataset(make_gaussian_bags(n_bags=6, n_features=2, n_classes=3, random_state=0), path)
    return path


@pytest.fixture(scope="module")
def made(table, tmp_path_factory):
    """A run with a correction that a fit knows and one that none knows, and beside it one without; copy them."""
    out = tmp_path_factory.mktemp("made") / "run"
    with Run.create(table, out, model="ored", page=False, jobs=1) as run:
        shutil.copytree(out, out.with_name("fresh"))
        bag, labels = run.material.dataset.bag_names[0], run.labels
        run.correct([(bag, 0, labels[0]), (bag, 1, labels[1])])
        run.refit()
        run.correct([(bag, 1, labels[2])])
        run.draw_sample(3, seed=0)
        page_sample(run)
    return out


def state(run):
    """What must not be lost: what counts, the fit, what follows for every instance, and the samples that were drawn."""
    said = [(c["bag"], c["instance"], c["label"], c["action"], c["call"]) for c in run.corrections()]
    drawn = drawn_rows(run).tolist(), [sample.instances for sample in read_samples(run.path)]
    return said, run.version, [(row["label"], row["checked"]) for row in run.annotations()], drawn


def state_on_disk(folder):
    """The same, of somebody who opens the run; what is written for people must be as new."""
    with Run.open(folder) as run:
        found = state(run)
        assert run.manifest["status"] == "finished"
        assert run.problems == []
        names = [path.name for path in folder.rglob("*") if path.suffix == ".tmp"]
        assert all(path.is_file() for path in run.result().outputs)
        written = (folder / "annotations.csv").read_bytes()
        if run.manifest["written"] == [c["call"] for c in run.corrections()]:
            run.write()
            assert (folder / "annotations.csv").read_bytes() == written
        assert len(names) <= 1  # where even the temporary file could not be removed
    return found


def correct(run):
    bag = run.material.dataset.bag_names[1]
    run.correct([(bag, i, run.labels[i % 3]) for i in range(run._sizes[bag])], absent=[(bag, run.labels[0])], by="Ada")


def undo_fit(run):
    """Takes back what no fit knows, then what one knows."""
    run.undo()
    run.undo()


def export(run):
    annotations = with_reviewers(run.result().annotations, run.corrections())
    _, problems = write_export(annotations, run.path, formats_of(run.media_type), False)
    if problems:
        raise OSError(problems[0][1])


def page_sample(run):
    """As the page draws them."""
    samples, bag = read_samples(run.path), run.material.dataset.bag_names[len(run.corrections()) % 3]
    write_samples(run.path, [*samples, Sample(f"s{len(samples)}", None, 1, 0, "now", [(bag, 0, run.labels[0])])])


OPERATIONS = {
    "first correct": correct,
    "correct": correct,
    "undo": lambda run: run.undo(),
    "undo and leave the files": lambda run: run.undo(write=False),
    "undo a fit": undo_fit,
    "refit": lambda run: run.refit(),
    "refit and leave the files": lambda run: run.refit(write=False),
    "write": lambda run: run.write(),
    "write fewer": lambda run: run.write(["csv"]),
    "write the page": lambda run: run.write(["csv"], page=True),
    "export": export,
    "first sample": lambda run: run.draw_sample(3, seed=1),
    "sample": lambda run: run.draw_sample(3, seed=1),
    "sample of the page": page_sample,
}


def after(made, folder, work):
    """The states that an operation goes through, in one that nothing disturbs."""
    shutil.copytree(made, folder)
    seen = []
    with Run.open(folder) as run:
        seen.append(state(run))
        for step in (OPERATIONS["undo"], OPERATIONS["undo"]) if work is undo_fit else (work,):
            step(run)
            seen.append(state(run))
    return seen


@pytest.mark.parametrize("kind", [FULL, BROKEN])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_was_answered_is_there_and_what_was_refused_is_not(made, tmp_path, calls, operation, kind):
    work = OPERATIONS[operation]
    if operation.startswith("first"):
        made = made.with_name("fresh")
    states = after(made, tmp_path / "undisturbed", work)
    shutil.copytree(made, tmp_path / "counted")
    with Run.open(tmp_path / "counted") as run, FailingDisk(run.path) as disk:
        work(run)
    assert disk.count >= 3
    for nth in calls(disk.count):
        folder = tmp_path / f"run{nth}"
        shutil.copytree(made, folder)
        with Run.open(folder) as run:
            answered, allowed = None, states[:1]
            with FailingDisk(folder, nth, kind) as disk:
                try:
                    work(run)
                    answered, allowed = "done", states[-1:]
                except NotWrittenError:
                    answered, allowed = "done", states[1:]
                except (OSError, BagwiseError):
                    answered = "refused"
                    allowed = states[:-1]  # of two undos the first may have been answered
            assert disk.failed or answered == "done", nth
            found = state(run)
            assert found in allowed, (nth, disk.failed, answered)
        assert state_on_disk(folder) == found, (nth, disk.failed, answered)
        if answered == "refused":  # and goes through when the disk is well again
            with Run.open(folder) as run:
                work(run) if found == states[0] else run.undo()
                assert state(run) == states[-1]
            assert state_on_disk(folder) == states[-1]
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", [FULL, BROKEN])
@pytest.mark.parametrize("again", [False, True])
def test_a_create_that_failed_goes_through_the_next_time(table, made, tmp_path, calls, kind, again):
    """A new run; and one that is there already, with corrections."""
    options = {"model": "ored", "page": False, "jobs": 1}

    def begin(name):
        if again:
            shutil.copytree(made, tmp_path / name)
        return tmp_path / name

    def create(folder):
        with Run.create(table, folder, **options) as run:
            return state(run)

    expected = create(begin("undisturbed"))
    with FailingDisk(begin("counted")) as disk:
        create(tmp_path / "counted")
    assert disk.count > 20
    for nth in calls(disk.count):
        folder = begin(f"run{nth}")
        with FailingDisk(folder, nth, kind) as disk:
            try:
                assert create(folder) == expected
                answered = True
            except (OSError, BagwiseError):
                answered = False
        assert disk.failed or answered, nth
        if again:
            with Run.open(folder) as run:
                assert state(run)[0] == expected[0]
        if answered:
            assert state_on_disk(folder) == expected
        assert create(folder) == expected, (nth, disk.failed)
        assert state_on_disk(folder) == expected, (nth, disk.failed)
        assert not list(folder.rglob("*.tmp"))
        shutil.rmtree(folder)


LEARNERS = {
    "all evaluations": lambda: ORedLogisticRegression(l2=0.1, max_iter=4, tol=0.0),
    "the last state": lambda: SupportInstanceMachine(alpha=1e-3, n_phases=4, n_steps=5),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [FULL, BROKEN])
@pytest.mark.parametrize("kept", LEARNERS)
def test_a_fit_that_failed_goes_on_where_it_was_and_stands_in_the_way_of_no_other(
    tmp_path, monkeypatch, calls, kept, kind
):
    monkeypatch.setattr(Checkpoint, "_is_due", lambda self: True)
    data = make_gaussian_bags(n_bags=6, n_features=2, n_classes=3, random_state=0)
    sets = dict(zip(data.bag_names, data.label_sets, strict=True))
    one, other = put_together(data, sets), put_together(data, dict(list(sets.items())[:-1]))

    def fit(folder, supervision):
        model = LEARNERS[kept]()
        fit_supervised(model, supervision, checkpoint=folder / "fit")
        return model.coef_

    for name in ("one", "other", "counted"):
        (tmp_path / name).mkdir()
    expected, expected_other = fit(tmp_path / "one", one), fit(tmp_path / "other", other)
    assert not np.array_equal(expected, expected_other)
    with FailingDisk(tmp_path / "counted") as disk:
        fit(tmp_path / "counted", one)
    assert disk.count > 20
    for nth in calls(disk.count):
        folder, copied = tmp_path / f"fit{nth}", tmp_path / f"copy{nth}"
        folder.mkdir()
        with FailingDisk(folder, nth, kind) as disk:
            try:
                np.testing.assert_array_equal(fit(folder, one), expected)
            except (OSError, BagwiseError):
                assert disk.failed
        shutil.copytree(folder, copied)
        np.testing.assert_array_equal(fit(folder, one), expected, err_msg=f"{nth} {disk.failed}")
        np.testing.assert_array_equal(fit(copied, other), expected_other, err_msg=f"{nth} {disk.failed}")
        assert not (folder / "fit").exists()
