"""The order for the model of a run: what people said since the last fit counts."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bagwise import BagDataset
from bagwise.annotation import query_order
from bagwise.app.runs.learner import fit_supervised, make_learner
from bagwise.app.runs.predictions import acquisition_order
from bagwise.app.runs.supervision import put_together
from bagwise.datasets import make_gaussian_bags


@pytest.fixture(scope="module")
def material():
    made = make_gaussian_bags(n_bags=60, n_features=4, n_classes=3, separation=2.0, random_state=2)
    data = BagDataset(made.bags, made.Y, ["a", "b", "c"], bag_names=[f"bag {i}" for i in range(60)])
    sets = {f"bag {i}": labels for i, labels in enumerate(data.label_sets)}
    model = make_learner("ored-background", {}, 0.1)
    fit_supervised(model, put_together(data, sets))
    return data, sets, model


def test_it_is_query_order_of_what_was_told(material):
    data, sets, model = material
    assert_array_equal(
        acquisition_order(model, put_together(data, sets), 20), query_order(model, data.bags, data.Y, None, 20)
    )


def test_answers_since_the_last_fit_count_even_of_a_label_that_is_new(material):
    data, sets, model = material
    first = acquisition_order(model, put_together(data, sets), 4)
    bag = data.bags.bag_index[first]
    place = first - data.bags.offsets[bag]
    said = [sorted(sets[f"bag {bag[0]}"])[0], "new bird", "", "c"]
    answers = [(f"bag {b}", int(i), label) for b, i, label in zip(bag, place, said, strict=True)]
    supervision = put_together(data, sets, answers)
    everything = acquisition_order(model, supervision, data.bags.n_instances)
    assert_array_equal(np.sort(everything), np.setdiff1d(np.arange(data.bags.n_instances), first))


def test_bags_that_nobody_labelled_come_too(material):
    data, sets, model = material
    some = {name: labels for name, labels in sets.items() if name not in ("bag 0", "bag 1")}
    order = acquisition_order(model, put_together(data, some), data.bags.n_instances)
    assert len(order) == data.bags.n_instances
