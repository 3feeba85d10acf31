"""A run under everything that can happen to it, in any order, against a model in memory.

People correct, reject, undo, fit again, write and draw samples; the disk fails; the process is killed, before or while
it does any of that; the run is opened again. What was answered is always there, and nothing that was refused.
"""

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bagwise import Run, write_dataset
from bagwise.app.runs.run import NotWrittenError
from bagwise.app.runs.survey import drawn_rows
from bagwise.core.exceptions import BagwiseError
from bagwise.datasets import make_gaussian_bags
from failing_disk import BROKEN, FULL, FailingDisk, needs_descriptors

pytestmark = needs_descriptors
NAMES = ("0", "1", "2", "new")
"""Labels of the run, and one that it does not have at first."""
BEGINNING = [[(0, 0, "1"), (1, 0, "")], [(2, 0, "2")]]
"""Calls with which every sequence begins: one that a fit knows, and one that none knows."""


@pytest.fixture(scope="module", autouse=True)
def template(tmp_path_factory):
    """A run that each sequence begins with a copy of."""
    folder = tmp_path_factory.mktemp("template")
    write_dataset(make_gaussian_bags(n_bags=4, n_features=2, n_classes=3, random_state=0), folder / "made.csv")
    options = {"formats": ["csv"], "page": False, "jobs": 1}
    with Run.create(folder / "made.csv", folder / "run", model="ored", **options) as run:
        for entries in BEGINNING:
            run.correct([(run.material.dataset.bag_names[bag], instance, label) for bag, instance, label in entries])
            if entries is BEGINNING[0]:
                run.refit()
    Life.template = folder / "run"


def damage(run):
    """The problems of a run, but for bags that its answers leave with more labels than instances."""
    return [(name, text) for name, text in run.problems if "so not all can be explained" not in text]


class Killed(BaseException):
    """The process is gone: nothing of it is cleaned up."""


class KillingDisk(FailingDisk):
    """From the n-th call on nothing reaches the disk any more, whatever the dying process still tries."""

    def fails(self, what):
        self.count += 1
        if self.nth and self.count >= self.nth:
            self.failed.append(what)
            raise Killed
        return False


class Life(RuleBasedStateMachine):
    """The run, and what it must be by a list of calls and the calls that each fit knew."""

    template = None

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(prefix="bagwise-life-")) / "run"
        shutil.copytree(self.template, self.folder)
        self.run = Run.open(self.folder)
        self.sizes = self.run._sizes
        self.calls = []  # in force: (number, entries), an entry is (bag, instance, label)
        self.n_calls = 0  # so far, undos too
        self.fits = [[], [1]]  # calls that each fit knew
        self.drawn = []  # the random sample
        for entries in BEGINNING:
            self.say([(list(self.sizes)[bag], instance, label) for bag, instance, label in entries])

    def teardown(self):
        self.run.close()
        shutil.rmtree(self.folder.parent)

    @contextmanager
    def trouble(self, kind, nth):
        """The disk works, fails or dies at the n-th call; gives what came of it."""
        outcome = {"state": "answered"}
        disk = (KillingDisk if kind == "kill" else FailingDisk)(self.folder, 0 if kind == "none" else nth, kind)
        try:
            with disk:
                yield outcome
        except NotWrittenError:
            assert disk.failed
        except (OSError, BagwiseError):
            assert disk.failed, "refused by a disk that works"
            outcome["state"] = "refused"
        except Killed:
            outcome["state"] = "killed"

    # -- the model ----------------------------------------------------------------------------------------------------

    def say(self, entries):
        self.n_calls += 1
        self.calls.append((self.n_calls, entries))

    def take_back(self):
        if self.calls:
            self.n_calls += 1
            self.calls.pop()
            self.leave_fits()

    def learn(self):
        numbers = [number for number, _ in self.calls]
        if numbers != self.fits[-1]:
            self.fits.append(numbers)

    def leave_fits(self):
        numbers = {number for number, _ in self.calls}
        while len(self.fits) > 1 and not numbers.issuperset(self.fits[-1]):
            self.fits.pop()

    def expected(self):
        return [(bag, instance, label) for _, entries in self.calls for bag, instance, label in entries], len(self.fits)

    def found(self):
        said = [(entry["bag"], entry["instance"], entry["label"]) for entry in self.run.corrections()]
        return said, len(self.run.manifest["versions"])

    def after(self, outcome, change):
        """Take over what came of it: after a kill before the answer, both are right."""
        if outcome["state"] == "answered":
            change()
        elif outcome["state"] == "killed":
            self.run.close()
            self.run = Run.open(self.folder)
            if self.found() != self.expected():
                change()

    # -- what people and disks do -------------------------------------------------------------------------------------

    TROUBLE = st.sampled_from(["none", "none", FULL, BROKEN, "kill"])
    NTH = st.integers(1, 5) | st.integers(1, 45)
    PICKS = st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["", *NAMES])), min_size=1, max_size=5
    )

    @rule(picks=PICKS, trouble=TROUBLE, nth=st.integers(1, 6))
    def correct(self, picks, trouble, nth):
        names = list(self.sizes)
        entries = [(names[bag], instance % self.sizes[names[bag]], label) for bag, instance, label in picks]
        with self.trouble(trouble, nth) as outcome:
            self.run.correct(entries)
        self.after(outcome, lambda: self.say(entries))

    @rule(bag=st.integers(0, 3), which=st.integers(0, 3), trouble=TROUBLE, nth=st.integers(1, 6))
    def reject(self, bag, which, trouble, nth):
        name = list(self.sizes)[bag]
        label = self.run.labels[which % len(self.run.labels)]
        with self.trouble(trouble, nth) as outcome:
            self.run.reject(name, label)
        self.after(outcome, lambda: self.say([(name, None, label)]))

    @rule(trouble=TROUBLE, nth=NTH, write=st.booleans())
    def undo(self, trouble, nth, write):
        with self.trouble(trouble, nth) as outcome:
            taken = self.run.undo(write=write)
            last = self.calls[-1][1] if self.calls else []
            assert [(entry["bag"], entry["instance"], entry["label"]) for entry in taken] == last
        self.after(outcome, self.take_back)

    @rule(trouble=TROUBLE, nth=NTH, write=st.booleans())
    def refit(self, trouble, nth, write):
        with self.trouble(trouble, nth) as outcome:
            self.run.refit(write=write)
        if outcome["state"] == "refused" and [number for number, _ in self.calls] == self.fits[-1]:
            return  # nothing was to be learned, and what is for people could not be written
        self.after(outcome, self.learn)

    @rule(trouble=TROUBLE, nth=NTH)
    def write(self, trouble, nth):
        with self.trouble(trouble, nth) as outcome:
            self.run.write()
        self.after(outcome, lambda: None)

    @rule(n=st.integers(1, 4), trouble=TROUBLE, nth=st.integers(1, 6))
    def draw(self, n, trouble, nth):
        """Somebody wants a random sample, or more of it."""
        unanswered = np.flatnonzero(~self.run.supervision().checked)
        if set(unanswered.tolist()) <= set(self.drawn):
            return  # there may be nothing left to draw
        with self.trouble(trouble, nth) as outcome:
            self.run.draw_sample(n, seed=n)
        found = drawn_rows(self.run).tolist() if outcome["state"] == "answered" else None
        self.after(outcome, lambda: None)
        if outcome["state"] == "killed":  # before or while the answer was on its way
            found = drawn_rows(self.run).tolist()
        if found is not None and (outcome["state"] == "answered" or found != self.drawn):
            assert found[: len(self.drawn)] == self.drawn
            assert len(found) > len(self.drawn)
            self.drawn = found

    @rule(trouble=TROUBLE, nth=NTH)
    def open_again(self, trouble, nth):
        """On a disk that fails it can be opened too; a kill while it is opened is followed by another opening."""
        self.run.close()
        with self.trouble(trouble, nth) as outcome:
            self.run = Run.open(self.folder)
        assert outcome["state"] != "refused"
        if outcome["state"] == "killed":
            self.run = Run.open(self.folder)

    @rule(data=st.binary(max_size=40), keep=st.integers(0, 30))
    def lose_power(self, data, keep):
        """While somebody says something: some of its rows, and whatever else the disk holds there."""
        path, names = self.folder / "corrections.csv", list(self.sizes)
        if not path.exists():
            return
        before = path.read_bytes()
        self.run.correct([(names[0], 0, "lost"), (names[1], 0, "lost")])
        rows = path.read_bytes()[len(before) :]
        self.run.close()
        path.write_bytes(before + rows[: min(keep * len(rows) // 30, len(rows) - 2)] + bytes(len(data)))
        with Run.open(self.folder) as run:
            assert b"lost" not in path.read_bytes()
            assert all("corrections-unfinished" in name for name, _ in damage(run))
        for aside in self.folder.glob("corrections-unfinished-*.csv"):
            aside.unlink()
        self.run = Run.open(self.folder)

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def everything_that_was_answered_is_there(self):
        self.check(self.run)

    @precondition(lambda self: self.n_calls % 3 == 0)
    @invariant()
    def and_for_somebody_else_too(self):
        with Run.open(self.folder) as other:
            self.check(other)
            assert other.manifest["status"] == "finished"
            assert damage(other) == []
            assert (self.folder / "annotations.csv").read_bytes().count(b"\n") == 1 + len(other.predictions().label)
        self.run.reload()

    def check(self, run):
        said, n_fits = self.expected()
        assert drawn_rows(run).tolist() == self.drawn
        assert [(c["bag"], c["instance"], c["label"]) for c in run.corrections()] == said
        assert [version["calls"] for version in run.manifest["versions"]] == self.fits
        assert len(self.fits) == n_fits
        found, offsets = run.predictions(), run.material.dataset.bags.offsets
        last = {}
        for bag, instance, label in said:
            if instance is not None:
                last[bag, instance] = label
            else:  # the label was rejected; who carried it by somebody's word is unknown again
                last = {key: name for key, name in last.items() if key[0] != bag or name != label}
        for (bag, instance), label in last.items():
            row = offsets[run._number[bag]] + instance
            assert found.checked[row]
            code = found.label[row]
            assert (found.classes[code] if code >= 0 else "") == label
        assert np.sum(found.checked) == len(last)


# 250 sequences, 5,000 in the nightly run
Life.TestCase.settings = settings(
    max_examples=250, stateful_step_count=8, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase
