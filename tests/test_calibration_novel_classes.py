"""Groups of what nobody listed."""

import numpy as np
import pytest

from bagwise import Bags, ORedLogisticRegression
from bagwise.calibration import NovelClasses
from bagwise.core.bags import KNOWN_BACKGROUND
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags, make_letter_bags


def hidden(data, *classes):
    """The label matrix without some classes, and the labels of the instances."""
    return np.delete(data.Y, classes, axis=1), data.instance_labels.instances.ravel()


@pytest.fixture(scope="module")
def letters():
    """O and S are in no list."""
    text = "so son lost moss road sing rose most soap bird look tree hand milk lamp song fish boat stone wind "
    data = make_letter_bags(6 * text, random_state=0)
    unlisted = [data.class_names.index(letter) for letter in "os"]
    Y, y = hidden(data, *unlisted)
    return data, Y, y, unlisted, NovelClasses(random_state=0).fit(data.bags, Y)


def test_letters_left_out_of_all_lists_are_found(letters):
    _, _, y, unlisted, model = letters
    pure = {}
    for number, group in enumerate(model.groups_):
        truth = y[model.novel_ == number]
        most = int(np.bincount(truth).argmax())
        if np.mean(truth == most) >= 0.8:
            pure[most] = group
    assert set(unlisted) <= set(pure)
    assert sum(most not in unlisted for most in pure) == 0


def test_groups_are_what_they_say(letters):
    data, Y, _, _, model = letters
    for number, group in enumerate(model.groups_):
        rows = np.flatnonzero(model.novel_ == number)
        bags = np.unique(data.bags.bag_index[rows])
        assert (group.size, group.n_bags) == (len(rows), len(bags))
        assert group.share == pytest.approx(Y[bags].mean(axis=0).max())
        assert Y[bags, model.classes_.tolist().index(group.label)].mean() == pytest.approx(group.share)
        assert group.stability > 0.5
        assert group.share <= 0.9
        assert (model.background_[rows] >= 0.5).all()
    sizes = [group.size for group in model.groups_]
    assert sizes == sorted(sizes, reverse=True)


def test_instances_that_were_grouped_are_put_into_their_group_again(letters):
    data, Y, _, _, model = letters
    np.testing.assert_array_equal(model.predict_novel(data.bags, Y), model.novel_)


@pytest.mark.parametrize("seed", range(3))
def test_a_single_class_is_one_group_where_classes_lie_apart(seed):
    data = make_gaussian_bags(n_bags=150, separation=6.0, random_state=seed)
    Y, y = hidden(data, 4)
    model = NovelClasses(random_state=0).fit(data.bags, Y)
    assert model.groups_
    assert np.mean(y[model.novel_ >= 0] == 4) >= 0.9


def test_stability_is_the_best_jaccard_index_of_resamples(monkeypatch):
    """Against sets of rows; the groups of a resample are given."""
    rng, model = np.random.default_rng(0), NovelClasses(n_resamples=1)
    rows, bag_of = np.arange(60.0)[:, None], np.repeat(np.arange(20), 3)
    labels, others = rng.integers(-1, 3, 60), rng.integers(-1, 4, 60)
    monkeypatch.setattr(NovelClasses, "_group", lambda self, some: others[some[:, 0].astype(int)])
    found = model._stability(rows, bag_of, labels, np.random.RandomState(1))
    kept = {i for i in range(60) if np.random.RandomState(1).uniform(size=20)[bag_of[i]] < 0.8}
    for number in range(3):
        own = {i for i in kept if labels[i] == number}
        theirs = [{i for i in kept if others[i] == other} for other in range(4)]
        assert found[number] == pytest.approx(max(len(own & one) / len(own | one) for one in theirs))


def test_what_a_person_called_background_is_in_no_group(letters):
    data, Y, _, _, model = letters
    known = np.where(model.novel_ == 0, KNOWN_BACKGROUND, -1)
    again = NovelClasses(random_state=0).fit(data.bags, Y, instance_labels=Bags(known, data.bags.offsets))
    assert (again.novel_[known == KNOWN_BACKGROUND] == -1).all()


def test_a_label_that_nearly_all_bags_of_a_group_list_explains_it(letters):
    data, Y, *_, model = letters
    strict = NovelClasses(most_listed=min(group.share for group in model.groups_) - 0.01, random_state=0)
    shares = [group.share for group in strict.fit(data.bags, Y).groups_]
    assert all(share <= strict.most_listed for share in shares)


def test_the_same_seed_gives_the_same_groups(letters):
    data, Y, *_, model = letters
    np.testing.assert_array_equal(NovelClasses(random_state=0).fit(data.bags, Y).novel_, model.novel_)


def test_another_learner_may_be_given():
    data = make_gaussian_bags(n_bags=40, random_state=0)
    model = NovelClasses(ORedLogisticRegression(background=True), random_state=0).fit(data.bags, hidden(data, 4)[0])
    assert isinstance(model.estimator_, ORedLogisticRegression)


def test_a_learner_without_background_is_refused(letters):
    data, Y, *_ = letters
    with pytest.raises(InputError, match="knows no background"):
        NovelClasses(ORedLogisticRegression(background=False)).fit(data.bags, Y)


@pytest.mark.parametrize(
    ("name", "value"), [("min_size", 1), ("least_stability", 1.5), ("most_listed", -0.1), ("n_resamples", 0)]
)
def test_odd_parameters_are_refused(letters, name, value):
    data, Y, *_ = letters
    with pytest.raises(InputError, match=name):
        NovelClasses(**{name: value}).fit(data.bags, Y)


def test_few_instances_make_no_group():
    data = make_gaussian_bags(n_bags=6, random_state=0)
    assert NovelClasses().fit(data).groups_ == []
