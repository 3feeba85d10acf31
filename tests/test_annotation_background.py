"""The background class of both learners that have one: what its share speaks of, and what a forest makes of it."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from sklearn.tree import ExtraTreeClassifier

import bagwise
from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import ORedForest
from bagwise.annotation.union_annotator import shift_of_mass
from bagwise.core.bags import KNOWN_BACKGROUND, offsets_of
from bagwise.core.exceptions import BackgroundShareWarning
from bagwise.datasets import make_gaussian_bags
from bagwise.union import UnionModel, union_posterior
from oracles import union_posterior as enumerate_posterior
from oracles import union_with_rates

FAST = {"n_estimators": 20, "n_rounds": 3, "n_round_trees": 20, "random_state": 0}


def learner(name, **parameters):
    return ORedForest(**FAST, **parameters) if name == "forest" else ORedLogisticRegression(**parameters)


@pytest.fixture(scope="module")
def noisy():
    return make_gaussian_bags(
        n_bags=100, n_features=5, n_classes=4, separation=5.0, background_share=0.4, random_state=1
    )


def with_empty_bags(data, share, seed=0):
    """The data and bags without labels, of its noise and what is near it, until they hold `share` of all instances."""
    rng = np.random.default_rng(seed)
    noise = data.bags.instances[data.instance_labels.instances < 0]
    n_more = round(data.bags.n_instances * share / (1 - share))
    sizes = np.bincount(rng.integers(0, max(n_more // 8, 1), n_more))
    sizes = sizes[sizes > 0]
    drawn = noise[rng.integers(0, len(noise), n_more)] + rng.normal(0, 0.1, (n_more, noise.shape[1]))
    bags = Bags(np.concatenate([data.bags.instances, drawn]), offsets_of([*data.bags.sizes, *sizes]))
    return bags, np.concatenate([data.Y, np.zeros((len(sizes), data.n_classes), data.Y.dtype)])


# -- what the share speaks of -----------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_what_counts_is_unknown_and_in_a_bag_with_labels(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    m = sum(sizes)
    Y = np.array(data.draw(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=len(sizes),
                                    max_size=len(sizes))))  # fmt: skip
    known = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=m, max_size=m)))
    expected, i = [], 0
    for size, row in zip(sizes, Y, strict=True):
        for _ in range(size):
            expected.append(bool(row.any()) and known[i] == -1)
            i += 1
    model = UnionModel(3, background=True)
    assert model.problem(offsets_of(sizes), Y, known).counted_instances.tolist() == expected
    listed = model.problem(offsets_of(sizes), Y).counted_instances
    assert_array_equal(listed, np.repeat(Y.any(axis=1), sizes))


@pytest.mark.parametrize("name", ["ored", "forest"])
@pytest.mark.parametrize("empty", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_share_is_met_among_bags_with_labels(noisy, name, empty, share):
    bags, Y = with_empty_bags(noisy, empty) if empty else (noisy.bags, noisy.Y)
    known = np.full(bags.n_instances, -1)
    known[: noisy.bags.n_instances : 7] = np.where(
        noisy.instance_labels.instances >= 0, noisy.instance_labels.instances, KNOWN_BACKGROUND
    )[::7]
    model = learner(name, background=True, background_share=share).fit(bags, Y, Bags(known, bags.offsets))
    found = model.find(bags, Y, Bags(known, bags.offsets)).background
    counted = np.repeat(Y.any(axis=1), bags.sizes) & (known == -1)
    assert_allclose(found[counted].mean(), share, atol=1e-3)
    assert_allclose(found[~np.repeat(Y.any(axis=1), bags.sizes)], 1.0)


@pytest.mark.parametrize("name", ["ored", "forest"])
def test_empty_bags_do_not_switch_the_noise_off(noisy, name):
    """Where more instances than the share lay in bags without labels, the intercept ran away and noise was 0."""
    truth = noisy.instance_labels.instances
    named = truth >= 0
    seen = {}
    for share in (0.0, 0.5):
        bags, Y = with_empty_bags(noisy, share) if share else (noisy.bags, noisy.Y)
        model = learner(name, background=True, background_share=0.3).fit(bags, Y)
        noise = model.background_proba(noisy.bags, noisy.Y)
        right = np.mean(model.annotate(noisy.bags, noisy.Y)[named] == truth[named])
        seen[share] = right, noise.mean(), roc_auc_score(~named, noise)
        assert model.background_proba(noisy.bags)[~named].mean() > 0.2  # what is saved knows noise too
    assert_allclose(seen[0.5][:2], seen[0.0][:2], atol=0.02)
    assert seen[0.5][2] > seen[0.0][2] - 0.03
    if name == "forest":  # noise lies between the classes, where no line tells it apart; trees learn from empty bags
        assert seen[0.5][2] > 0.95 > seen[0.0][2]


@pytest.mark.parametrize("name", ["ored", "forest"])
def test_a_share_that_cannot_be_had_is_told(name):
    data = make_gaussian_bags(n_bags=40, n_features=3, n_classes=3, random_state=0)
    alone = Bags(data.bags.instances, np.arange(data.bags.n_instances + 1))
    Y = np.eye(3, dtype=int)[data.instance_labels.instances]  # one instance and one label a bag: none to spare
    with pytest.warns(BackgroundShareWarning, match="0.1, is infeasible: .* between 0 and 0 can be background"):
        model = learner(name, background=True, background_share=0.1).fit(alone, Y)
    assert model.background_shift_ == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", BackgroundShareWarning)  # all is known: nothing to be had, nothing to tell
        known = Bags(data.instance_labels.instances, alone.offsets)
        assert learner(name, background=True, background_share=0.1).fit(alone, Y, known).background_shift_ == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_the_shift_against_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    scores, share = rng.normal(0, 3, (30, 2)), rng.uniform(0.05, 0.9)

    def background_at(shift):
        return 1 / (1 + np.exp(scores[:, 0] - scores[:, 1] - shift))

    counted = rng.random(30) < 0.7
    grid = np.arange(-30, 30, 1e-3)
    above = (1 / (1 + np.exp((scores[:, 0] - scores[:, 1])[counted] - grid[:, None]))).mean(axis=1) > share
    found = shift_of_mass(lambda shift: (background_at(shift)[counted].sum(), counted.sum()), share)
    assert_allclose(found, grid[above.argmax()], atol=2e-3)


# -- the forest -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True], ids=["blind", "some known"])
def test_one_round_with_a_background_is_the_literal_one(known):
    """Trees on bootstrapped bags with a column more; every assignment of labels and background written out."""
    data = make_gaussian_bags(
        n_bags=25, n_features=4, n_classes=3, instances_per_bag=(1, 3), background_share=0.4, random_state=5
    )
    bags, Y = data.bags, data.Y.copy()
    Y[0] = 0  # a bag without labels
    truth, c = data.instance_labels.instances, data.n_classes
    codes = np.full(len(truth), -1)
    if known:
        later = np.flatnonzero(bags.bag_index > 0)[::4]
        codes[later] = np.where(truth[later] >= 0, truth[later], c)
    told = Bags(np.where(codes == c, KNOWN_BACKGROUND, codes), bags.offsets) if known else None
    model = ORedForest(n_estimators=5, n_rounds=1, n_round_trees=6, background=True, random_state=3)
    model.fit(bags, Y, instance_labels=told)
    padded = np.column_stack([Y, np.zeros(len(Y), int)])
    X = bags.instances.astype(np.float32)
    uniform = np.full((len(X), c + 1), 1 / (c + 1))
    _, q = union_posterior(uniform, bags.offsets, padded, background=c, known=codes if known else None)
    # trees differ with the last bit, so that q is the kernel's, which is right:
    assert_allclose(q, enumerate_posterior(uniform, bags.offsets, padded, c, codes)[1], atol=1e-12)
    rng = np.random.RandomState(3)
    total, judges = np.full((len(X), c + 1), 0.3 / (c + 1)), np.full(len(X), 0.3)
    for _ in range(6):
        drawn = rng.randint(len(bags), size=len(bags))
        seed = int(rng.randint(np.iinfo(np.int32).max))
        times = np.array([np.sum(drawn == b) for b in bags.bag_index])
        rows, labels = np.nonzero((q >= 0.01) & (times > 0)[:, None])
        tree = ExtraTreeClassifier(max_features="sqrt", random_state=seed)
        tree.fit(X[rows], labels, sample_weight=q[rows, labels] * times[rows])
        for i in np.flatnonzero(times == 0):
            total[i, tree.classes_] += tree.predict_proba(X[i : i + 1])[0]
            judges[i] += 1
    log_likelihood, _ = enumerate_posterior(total / judges[:, None], bags.offsets, padded, c, codes)
    assert_allclose(model.objective_history_, [log_likelihood.sum()], rtol=1e-5)


@pytest.mark.parametrize("share", [None, 0.3])
@pytest.mark.parametrize("rates", [{}, {"missed": 0.2, "spurious": 0.1}], ids=["right", "wrong labels"])
def test_the_posterior_is_that_of_every_assignment(noisy, share, rates):
    model = learner("forest", background=True, background_share=share, **rates).fit(noisy.bags, noisy.Y)
    few = np.flatnonzero(noisy.bags.sizes <= 4)[:5]
    bags, Y = Bags(noisy.bags[few].instances + 0.1, noisy.bags[few].offsets), noisy.Y[few]  # none that was learned from
    listed = model.find(bags, Y)
    # what the trees say, not raised to the power that is for instances of new bags
    prior, padded = np.exp(model.log_proba(bags)), np.column_stack([Y, np.zeros(len(Y), int)])
    assert_allclose(prior.sum(axis=1), 1.0)
    missed, spurious = (np.full(5, rates.get(rate, 0.0)) for rate in ("missed", "spurious"))
    _, expected, presence = union_with_rates(prior, bags.offsets, padded, missed, spurious, background=4)
    assert_allclose(np.column_stack([listed.proba, listed.background]), expected, rtol=1e-6, atol=1e-9)
    assert_allclose(listed.proba.sum(axis=1), 1.0 - listed.background)
    assert_allclose(model.label_posterior(bags, Y), presence[:, :4], rtol=1e-6, atol=1e-9)


def test_a_forest_tells_noise_apart(noisy):
    named = noisy.instance_labels.instances >= 0
    model = learner("forest", background=True, background_share=0.3).fit(noisy.bags, noisy.Y)
    noise = model.background_proba(noisy.bags, noisy.Y)
    assert noise[~named].mean() > noise[named].mean() + 0.2
    assert_array_equal(model.classes_, np.arange(4))
    assert model.predict(noisy.bags).shape == model.decision_function(noisy.bags).shape == noisy.Y.shape
    sets = [set() if b == 0 else {"abcd"[c] for c in np.flatnonzero(row)} for b, row in enumerate(noisy.Y)]
    named_model = learner("forest", background=True).fit(noisy.bags, sets)
    first = named_model.annotate(noisy.bags, sets)[: noisy.bags.sizes[0]]
    assert first.tolist() == [None] * noisy.bags.sizes[0]
    assert named_model.background_label_ is None
    assert model.background_label_ == -1


def test_the_share_moves_nothing_but_the_background(noisy):
    """The classes keep their odds, so which label of the set is the best for features alone stays as it was."""
    free, held = (
        learner("forest", background=True, background_share=s).fit(noisy.bags, noisy.Y).find(noisy.bags)
        for s in (None, 0.1)
    )
    assert_allclose(
        held.proba / held.proba.sum(axis=1, keepdims=True), free.proba / free.proba.sum(axis=1, keepdims=True)
    )
    assert held.background.mean() < free.background.mean()


def test_saved_and_fitted_anew(noisy, tmp_path):
    model = learner("forest", background=True, background_share=0.3).fit(noisy.bags, noisy.Y)
    bagwise.save(model, tmp_path / "forest.bagwise")
    again = bagwise.load(tmp_path / "forest.bagwise")
    assert_array_equal(again.background_proba(noisy.bags, noisy.Y), model.background_proba(noisy.bags, noisy.Y))
    assert again.background_shift_ == model.background_shift_ != 0.0
    model.set_params(background=False)  # what was fitted stays
    assert_array_equal(again.background_proba(noisy.bags), model.background_proba(noisy.bags))
    model.fit(noisy.bags, noisy.Y)
    assert not hasattr(model, "background_proba")
    plain = learner("forest").fit(noisy.bags, noisy.Y)
    assert_array_equal(model.annotate_proba(noisy.bags, noisy.Y), plain.annotate_proba(noisy.bags, noisy.Y))


def test_infeasible_bags_may_hold_background():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(n, 2)) for n in (1, 3, 3, 3)])
    Y = np.array([[1, 1], [1, 0], [0, 1], [1, 1]])
    with pytest.warns(UserWarning, match="cannot be explained"):
        model = learner("forest", background=True).fit(bags, Y)
    with pytest.warns(UserWarning, match="given labels of the set"):
        found = model.find(bags, Y)
    assert 0 < found.background[0] < 1
    assert_allclose(found.proba.sum(axis=1), 1.0 - found.background)
