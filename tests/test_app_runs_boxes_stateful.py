"""Boxes under everything that can happen to a run, in any order, against a model in memory.

People draw, split, merge, move, remove, name, undo and fit again; the disk fails; the process is killed; the run is
opened again. The instances are always those of the model, under keys that never change their meaning.
"""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bagwise import Run
from bagwise.app.runs.run import NotWrittenError
from bagwise.core.exceptions import BagwiseError
from bagwise.datasets import make_soundscape
from failing_disk import BROKEN, FULL, FailingDisk, needs_descriptors
from test_app_runs_stateful import Killed, KillingDisk

pytestmark = needs_descriptors
SECONDS = 4.0


@pytest.fixture(scope="module", autouse=True)
def template(tmp_path_factory):
    """A run that each sequence begins with a copy of, over three recordings."""
    folder = tmp_path_factory.mktemp("template")
    made = make_soundscape(3, seconds=SECONDS, species_per_recording=(2, 2), random_state=1)
    made.write(folder)
    options = {"formats": ["csv"], "page": False, "jobs": 1, "model": "ored", "labels": folder / "labels.csv"}
    Run.create(folder / "recordings", folder / "run", **options).close()
    BoxLife.template = folder / "run"


class BoxLife(RuleBasedStateMachine):
    """The run, and after every call that counts the places of all instances."""

    template = None

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(prefix="bagwise-boxes-")) / "run"
        shutil.copytree(self.template, self.folder)
        self.run = Run.open(self.folder)
        self.states = [self.found()]  # after each call in force
        self.ever = set(self.states[0])
        self.labels = [{}]

    def teardown(self):
        self.run.close()
        shutil.rmtree(self.folder.parent)

    def found(self):
        names = ("start", "end", "low", "high")
        return {(row["bag"], row["instance"]): tuple(row[n] for n in names) for row in self.run.annotations()}

    def said(self):
        return {(row["bag"], row["instance"]): row["label"] for row in self.run.annotations() if row["checked"]}

    def attempt(self, trouble, nth, work, places, labels=None):
        """Do something on a disk that may fail; `places` and `labels` are what they are if it is done."""
        disk = (KillingDisk if trouble == "kill" else FailingDisk)(
            self.folder, 0 if trouble == "none" else nth, trouble
        )
        state = "answered"
        try:
            with disk:
                work()
        except NotWrittenError:
            assert disk.failed
        except (OSError, BagwiseError):
            assert disk.failed, "refused by a disk that works"
            state = "refused"
        except Killed:
            self.run.close()
            self.run = Run.open(self.folder)
            state = "refused" if self.found() == self.states[-1] and self.said() == self.labels[-1] else "answered"
        if state == "answered":
            self.states.append(places)
            self.labels.append(self.labels[-1] if labels is None else labels)
        self.check()

    def check(self):
        assert self.found() == self.states[-1]
        assert self.said() == self.labels[-1]

    TROUBLE = st.sampled_from(["none", "none", "none", FULL, BROKEN, "kill"])
    NTH = st.integers(1, 8)
    PICK = st.integers(0, 1000)

    def key(self, pick):
        keys = sorted(self.states[-1])
        return keys[pick % len(keys)]

    def new_key(self, bag):
        return bag, max(number for name, number in self.ever if name == bag) + 1

    @rule(
        file=st.integers(0, 2), start=st.integers(0, 35), length=st.integers(1, 4), low=st.integers(3, 60),
        label=st.sampled_from([None, "odd one", ""]), trouble=TROUBLE, nth=NTH,
    )  # fmt: skip
    def draw(self, file, start, length, low, label, trouble, nth):
        name = self.run.material.files[file]["file"]
        place = (start / 10, (start + length) / 10, low * 100.0, low * 100.0 + 700)
        key = self.new_key(name)
        labels = self.labels[-1] | ({} if label is None else {key: label})
        self.attempt(
            trouble,
            nth,
            lambda: self.run.add_instance(name, *place, label=label),
            {**self.states[-1], key: place},
            labels,
        )
        if key in self.states[-1]:
            self.ever.add(key)

    @rule(pick=PICK, trouble=TROUBLE, nth=NTH)
    def split(self, pick, trouble, nth):
        key = self.key(pick)
        start, end, low, high = self.states[-1][key]
        at, new = round((start + end) / 2, 4), self.new_key(key[0])
        if not start < at < end:
            return
        places = {**self.states[-1], key: (start, at, low, high), new: (at, end, low, high)}
        labels = dict(self.labels[-1])
        labels |= {new: labels[key]} if key in labels else {}
        self.attempt(trouble, nth, lambda: self.run.split(key, at), places, labels)
        if new in self.states[-1]:
            self.ever.add(new)

    @rule(one=PICK, other=PICK, trouble=TROUBLE, nth=NTH)
    def merge(self, one, other, trouble, nth):
        keys = [self.key(one), self.key(other)]
        said = {self.labels[-1][key] for key in keys if key in self.labels[-1]}
        if keys[0] == keys[1] or keys[0][0] != keys[1][0] or len(said) > 1:
            return
        kept, gone = sorted(keys, key=lambda key: (self.states[-1][key][0], key))
        (a, b, c, d), (e, f, g, h) = (self.states[-1][key] for key in (kept, gone))
        places = {**self.states[-1], kept: (min(a, e), max(b, f), min(c, g), max(d, h))}
        del places[gone]
        labels = dict(self.labels[-1]) | dict.fromkeys([kept] * len(said), next(iter(said), None))
        labels.pop(gone, None)
        self.attempt(trouble, nth, lambda: self.run.merge(keys), places, labels)

    @rule(pick=PICK, by=st.integers(1, 5), trouble=TROUBLE, nth=NTH)
    def move(self, pick, by, trouble, nth):
        key = self.key(pick)
        start, end, low, high = self.states[-1][key]
        place = (start, round(min(end + by / 10, SECONDS), 4), low, high)
        self.attempt(trouble, nth, lambda: self.run.move(key, end=place[1]), {**self.states[-1], key: place})

    @rule(pick=PICK, trouble=TROUBLE, nth=NTH)
    def remove(self, pick, trouble, nth):
        key = self.key(pick)
        if len(self.states[-1]) == 1:
            return
        places = {other: place for other, place in self.states[-1].items() if other != key}
        labels = {other: label for other, label in self.labels[-1].items() if other != key}
        self.attempt(trouble, nth, lambda: self.run.remove(key), places, labels)

    @rule(pick=PICK, label=st.sampled_from(["", "odd one", "another"]))
    def name(self, pick, label):
        key = self.key(pick)
        self.run.correct([(*key, label)])
        self.states.append(self.states[-1])
        self.labels.append(self.labels[-1] | {key: label})

    @rule()
    def undo(self):
        self.run.undo()
        if len(self.states) > 1:
            self.states.pop()
            self.labels.pop()

    @rule(write=st.booleans())
    def refit(self, write):
        self.run.refit(write=write)

    @rule()
    def open_again(self):
        self.run.close()
        self.run = Run.open(self.folder)

    @invariant()
    def the_instances_are_those_of_the_model(self):
        self.check()
        assert [text for _, text in self.run.problems if "so not all can be explained" not in text] == []
        assert len(self.run.predictions().label) == len(self.states[-1])


# 40 sequences, 800 in the nightly run
BoxLife.TestCase.settings = settings(
    max_examples=40, stateful_step_count=8, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBoxLife = BoxLife.TestCase
