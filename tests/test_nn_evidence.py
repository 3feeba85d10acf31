"""What is said beyond plain lists goes with all that a learner can do, or is refused with a cure: a table of pairs.

The cells of networks and devices need torch; the others run without.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Absent, BagDataset, Bags, Certain, InputError, OneOf, ORedLogisticRegression, Possible
from bagwise.annotation import CLPL, NoisyOrLogisticRegression, ORedForest, SupportInstanceMachine
from bagwise.calibration import CalibratedAnnotator, CalibratedLabelSets
from bagwise.datasets import make_gaussian_bags
from bagwise.io.checkpoint import Checkpoint
from bagwise.nn import ORedNetwork
from bagwise.scale import BagSource, fit_source
from bagwise.union import select_bags

ORED = {"learner": ORedLogisticRegression, "tol": 1e-7, "max_iter": 2000}
NOISY_OR = {"learner": NoisyOrLogisticRegression, "tol": 1e-7, "max_iter": 2000}
FOREST = {"learner": ORedForest, "n_estimators": 10, "n_rounds": 2, "n_round_trees": 10, "random_state": 0}
NETWORK = {"learner": ORedNetwork, "hidden": (8,), "n_members": 2, "epochs": 5, "random_state": 0}
NETWORK_OF_SETS = {**NETWORK, "labels_per_instance": "any"}
LEARNERS = {
    "ored": ORED, "noisy-or": NOISY_OR, "forest": FOREST, "network": NETWORK, "network of label sets": NETWORK_OF_SETS,
}  # fmt: skip

GOES = ""  # else what the error says
NO_BACKGROUND = "background=True needs labels_per_instance='one'"
TABLE = {
    "alone": dict.fromkeys(LEARNERS, GOES),
    "known instances": dict.fromkeys(LEARNERS, GOES),
    "background": {**dict.fromkeys(LEARNERS, GOES), "noisy-or": None, "network of label sets": NO_BACKGROUND},
    "rates": {**dict.fromkeys(LEARNERS, GOES), "forest": "pass missed=0, or use ORedLogisticRegression"},
    "learned spurious": dict.fromkeys(LEARNERS, GOES),
    "weights": dict.fromkeys(LEARNERS, GOES),
    "calibration": dict.fromkeys(LEARNERS, GOES),
    "checkpoint": {**dict.fromkeys(LEARNERS, GOES), "forest": None},
    "pieces": {
        "ored": GOES, "noisy-or": GOES, "forest": GOES,
        "network": "cannot learn from pieces", "network of label sets": "cannot learn from pieces",
    },
    "device": {**dict.fromkeys(LEARNERS, GOES), "forest": None},
}  # fmt: skip
"""None: the learner has no such thing, whatever is said."""
SETTINGS = {
    "background": {"background": True},
    "rates": {"missed": 0.1, "spurious": 0.05},
    "learned spurious": {"spurious": "learn"},
    "device": {"device": "cpu"},
}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=60, n_classes=4, separation=6.0, random_state=0)


@pytest.fixture(scope="module")
def sets(data):
    """Every kind of evidence, true of every bag; a third of them are plain lists."""
    said = []
    for bag, row in enumerate(data.Y):
        there, away = np.flatnonzero(row).tolist(), np.flatnonzero(row == 0).tolist()
        if bag % 3 == 0:
            said.append(set(there))
        elif bag % 3 == 1:
            said.append({Certain(there[0]), *map(Possible, there[1:]), *map(Absent, away[:1])})
        else:
            said.append({OneOf(there[0], (away or there)[-1]), *there[1:]} if away else set(there))
    return said


def made(settings, **more):
    learner = settings["learner"]
    return learner(**{name: value for name, value in settings.items() if name != "learner"}, **more)


def known_of(data):
    truth = data.instance_labels.instances
    return Bags(np.where(np.arange(len(truth)) % 5 == 0, truth, -1), data.bags.offsets)


def fitted(learner, feature, data, sets, folder):
    """A model that was fitted with a feature, and the same settings without what is fitted by other means."""
    model = made(LEARNERS[learner], **SETTINGS.get(feature, {}))
    if feature == "calibration":
        wrapper = CalibratedLabelSets if learner in ("noisy-or", "network of label sets") else CalibratedAnnotator
        model = wrapper(model, cv=2)
    if feature == "pieces":
        return fit_source(model, BagSource.from_dataset(data, piece_bags=7), labels=sets)
    options = {
        "known instances": {"instance_labels": known_of(data)},
        "weights": {"sample_weight": 1.0 + np.arange(len(data)) % 3},
        "checkpoint": {"checkpoint": Checkpoint(folder, {"of": "a test"}, 0.0)},
    }.get(feature, {})
    return model.fit(data.bags, sets, **options)


CASES = [(learner, feature) for feature, row in TABLE.items() for learner, says in row.items() if says is not None]


@pytest.mark.parametrize(("learner", "feature"), CASES)
@pytest.mark.filterwarnings("ignore")  # few bags, few epochs
def test_evidence_goes_with_it_or_is_refused_with_a_cure(learner, feature, data, sets, tmp_path):
    if learner.startswith("network") and feature != "pieces":
        pytest.importorskip("torch", reason="make test-torch has it")
    if feature == "device":
        pytest.importorskip("torch", reason="make test-torch has it")
    refused = TABLE[feature][learner]
    if refused:
        with pytest.raises(InputError, match=refused):
            fitted(learner, feature, data, sets, tmp_path)
        return
    model = fitted(learner, feature, data, sets, tmp_path)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    known = known_of(data) if feature == "known instances" else None
    proba = model.find(data.bags, sets, known).proba
    absent = np.array([[Absent(c) in labels for c in range(4)] for labels in sets])
    assert absent.any()
    assert not proba[absent[data.bags.bag_index]].any()
    if known is not None:
        at = known.instances >= 0
        assert_array_equal(proba[at, known.instances[at]], 1.0)
    presence = model.label_posterior(data.bags, sets) if feature != "calibration" else None
    if presence is not None:
        certain = np.array([[Certain(c) in labels for c in range(4)] for labels in sets])
        assert_allclose(presence[certain], 1.0, atol=1e-6)
        assert_allclose(presence[absent], 0.0, atol=1e-9)
        for bag, labels in enumerate(sets):
            for group in (label for label in labels if isinstance(label, OneOf)):
                assert presence[bag, list(group.labels)].sum() > 1.0 - 1e-6
    if feature == "pieces":
        here = made(LEARNERS[learner]).fit(data.bags, sets)
        assert_allclose(proba, here.find(data.bags, sets).proba, atol=1e-5)


def test_pieces_take_a_matrix_and_known_instances_too_and_classes_are_those_of_the_source(data):
    values = np.where(data.Y == 1, 0.9, -np.inf)
    named = BagDataset(data.bags, data.Y, ["wren", "tit", "owl", "crow"], instance_labels=known_of(data))
    order = [3, 2, 1, 0]  # sorted by name
    for settings in (ORED, NOISY_OR):
        there = fit_source(made(settings), BagSource.from_dataset(named, piece_bags=9), labels=values, use_known=True)
        assert there.classes_.tolist() == ["crow", "owl", "tit", "wren"]
        here = made(settings).fit(data.bags, values, instance_labels=known_of(data))
        assert_allclose(there.coef_, here.coef_[order], atol=1e-5)


def test_a_fit_by_pieces_goes_on_with_the_labels_that_it_began_with(data, sets, tmp_path):
    source = BagSource.from_dataset(data, piece_bags=7)

    def stop(number, value):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_source(made(ORED), source, labels=sets, checkpoint=Checkpoint(tmp_path, {}, 0.0), callback=stop)
    folder = tmp_path / "own"
    with pytest.raises(KeyboardInterrupt):
        fit_source(made(ORED), source, labels=sets, checkpoint=folder, callback=stop)
    with pytest.raises(InputError, match="belongs to another fit"):
        fit_source(made(ORED), source, labels=[set(row) for row in sets[1:] + sets[:1]], checkpoint=folder)


@pytest.mark.parametrize("learner", [CLPL(), SupportInstanceMachine()], ids=["clpl", "sim"])
def test_learners_by_pieces_that_take_lists_alone_say_so(learner, data, sets):
    with pytest.raises(InputError, match="more than plain lists"):
        fit_source(learner, BagSource.from_dataset(data, piece_bags=7), labels=sets)


def test_data_sets_hold_lists_and_say_where_more_goes(data, sets):
    with pytest.raises(InputError, match=r"fit\(bags, Y\)"):
        BagDataset(data.bags, np.where(data.Y == 1, np.nan, 0.0))


def test_bags_are_looked_at_in_parts(data, sets, monkeypatch):
    """Which bags can be explained does not depend on how many instances are looked at together."""
    from bagwise.core.validation import encode_evidence
    from bagwise.union import LabelledBags, _problem

    few = [{Certain(0), Certain(1), Certain(2)} if bag % 7 == 0 else labels for bag, labels in enumerate(sets)]
    short = data.bags.offsets[:-1]
    bags = Bags(data.bags.instances[short], np.arange(len(short) + 1))
    given = encode_evidence(few, np.arange(4), len(few))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = select_bags(LabelledBags.of(bags.offsets, given), background=False, on_infeasible="drop").index
        monkeypatch.setattr(_problem, "AT_ONCE", 12)
        parts = select_bags(LabelledBags.of(bags.offsets, given), background=False, on_infeasible="drop").index
    assert 0 < len(whole) < len(few)
    assert_array_equal(whole, parts)
