"""The stack: numbers against loops, no leakage, logistic regressions and trees against scikit-learn's."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import FunctionTransformer

import bagwise
from bagwise.annotation import ORedForest, ORedLogisticRegression
from bagwise.catalog import make_model
from bagwise.classification import MIMLNN
from bagwise.classification._stacking import (
    BagStack,
    _choose_own_scale,
    _cross_posteriors,
    _mean_log_likelihood,
    _pool_weights,
    _SharedLogistic,
)
from bagwise.core.bags import Bags
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.kernels.forest import Forest
from bagwise.metrics import average_precision
from bagwise.preprocessing import PerInstance
from bagwise.preprocessing.bag_trees import forest_logit

DATA = make_gaussian_bags(n_bags=50, n_features=4, n_classes=3, separation=1.5, random_state=0)
NEW = make_gaussian_bags(n_bags=200, n_features=4, n_classes=3, separation=1.5, random_state=0)[100:]


def small_stack(**settings):
    forest = ORedForest(10, n_rounds=2, n_round_trees=10, random_state=0)
    return BagStack([ORedLogisticRegression(), forest], **{"n_estimators": 30, "cv": 3, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted():
    return small_stack().fit(DATA.bags, DATA.Y)


# -- what members say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member", [ORedLogisticRegression(), ORedForest(10, n_rounds=2, n_round_trees=5, random_state=0)]
)
def test_a_bag_is_judged_by_who_has_not_seen_its_label(member):
    """Whatever label a bag had, its own cross-fitted probabilities stay to the last bit; those of other folds move."""
    splits = list(KFold(4, shuffle=True, random_state=1).split(np.zeros(len(DATA))))
    before = _cross_posteriors(member, DATA.bags, DATA.Y, splits)
    for bag in (0, 17, 49):
        Y = DATA.Y.copy()
        Y[bag] = np.roll(Y[bag], 1) if Y[bag].sum() < 3 else [1, 0, 0]
        after = _cross_posteriors(member, DATA.bags, Y, splits)
        own_fold = next(held_out for _, held_out in splits if bag in held_out)
        same = np.isin(DATA.bags.bag_index, own_fold)
        assert_array_equal(after[same], before[same])
        assert not np.array_equal(after[~same], before[~same])


def test_cross_fits_against_a_loop_and_in_threads():
    member = ORedLogisticRegression()
    splits = list(KFold(3, shuffle=True, random_state=0).split(np.zeros(len(DATA))))
    wanted = [None] * len(DATA)
    for train, held_out in splits:
        model = ORedLogisticRegression().fit(DATA.bags[train], DATA.Y[train])
        for bag in held_out:
            wanted[bag] = model.predict_instances_proba(DATA.bags[[bag]])
    found = _cross_posteriors(member, DATA.bags, DATA.Y, splits)
    assert_allclose(found, np.concatenate(wanted), rtol=1e-12)
    assert_array_equal(_cross_posteriors(member, DATA.bags, DATA.Y, splits, n_jobs=2), found)


def test_permuted_labels_teach_nothing():
    """The held-out likelihood of the pool stays at that of the labels' shares alone, where true labels raise it."""
    data = make_gaussian_bags(n_bags=200, n_features=4, n_classes=3, separation=1.5, random_state=0)
    shares = data.Y.mean(axis=0)
    alone = np.mean(data.Y * np.log(shares) + (1 - data.Y) * np.log(1 - shares))

    def gain(Y, seed):
        model = BagStack([ORedLogisticRegression()], cv=4, n_estimators=30, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a bag of one instance cannot carry two labels
            return model.fit(data.bags, Y).log_likelihood_ - alone

    permuted = [gain(data.Y[np.random.default_rng(seed).permutation(len(data))], seed) for seed in range(4)]
    assert max(permuted) < 0.01  # three weights are fitted to the held-out logits
    assert gain(data.Y, 0) > 0.1


# -- logistic regressions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_scale", [0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_shared_weights_against_scikit_learn(own_scale, seed):
    """The same problem with the labels' own features written out as columns."""
    rng = np.random.default_rng(seed)
    n, c, k = 40, 3, 4
    features = rng.normal(size=(n, c, k)) * rng.uniform(0.5, 3, size=k) + rng.normal(size=k)
    targets = (rng.random((n, c)) < expit(features[..., 0] - np.arange(c))).astype(float)
    flat = features.reshape(-1, k)
    z = (flat - flat.mean(axis=0)) / flat.std(axis=0)
    label = np.eye(c)[np.tile(np.arange(c), n)]
    own = own_scale * (label[:, :, None] * np.column_stack([z, np.ones(len(z))])[:, None, :]).reshape(len(z), -1)
    design = np.hstack([z, own])
    other = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(design, targets.ravel())
    found = _SharedLogistic.fit(features, targets, own_scale, np.ones(len(features))).logits(features)
    assert_allclose(found.ravel(), other.decision_function(design), atol=1e-4)


def test_the_scale_with_the_best_held_out_likelihood_is_chosen():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3, 2))
    signs = np.array([1.0, -1.0, 1.0])  # labels that need weights of their own
    targets = (rng.random((200, 3)) < expit(3 * signs * features[..., 0])).astype(float)
    splits = list(KFold(4).split(features))
    assert _choose_own_scale(features, targets, splits, np.ones(len(features)))[0] == 1.0
    features = rng.normal(size=(15, 40, 4))  # few bags and many labels that are all alike
    targets = (rng.random((15, 40)) < expit(3 * features[..., 0])).astype(float)
    assert _choose_own_scale(features, targets, list(KFold(3).split(features)), np.ones(len(features)))[0] < 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_pool_is_the_best_of_a_grid_and_never_negative(seed):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(80, 4))
    targets = (rng.random((80, 4)) < expit(truth)).astype(float)
    logits = np.stack([truth + rng.normal(size=truth.shape), -truth + 3 * rng.normal(size=truth.shape)], axis=2)
    weights, likelihood = _pool_weights(logits, targets, np.ones(len(logits)))
    assert (weights[:2] >= 0).all()
    grid = [
        _mean_log_likelihood(logits @ np.array([a, b]) + shift, targets, np.ones(len(logits)))
        for a in np.linspace(0, 1.5, 31) for b in np.linspace(0, 1.5, 31) for shift in (-0.2, -0.1, 0.0, 0.1, 0.2)
    ]  # fmt: skip
    assert likelihood > max(grid) - 1e-3
    assert_allclose(likelihood, _mean_log_likelihood(logits @ weights[:2] + weights[2], targets, np.ones(len(logits))))


# -- the estimator ----------------------------------------------------------------------------------------------------


def test_probabilities_scores_and_label_sets_agree(fitted):
    proba, scores = fitted.predict_proba(NEW.bags), fitted.decision_function(NEW.bags)
    assert_allclose(proba, expit(scores), rtol=1e-12)
    assert_array_equal(fitted.predict(NEW.bags), scores > 0)
    assert (
        average_precision(NEW.Y, scores) > average_precision(NEW.Y, np.tile(DATA.Y.mean(axis=0), (len(NEW), 1))) + 0.1
    )


def test_a_saved_model_gives_the_same_bits(fitted, tmp_path):
    path = tmp_path / "stack.bagwise"
    bagwise.save(fitted, path)
    assert_array_equal(bagwise.load(path).decision_function(NEW.bags), fitted.decision_function(NEW.bags))


def test_the_catalogue_entry_is_saved_too(tmp_path):
    model = make_model("bag-stack", n_estimators=20, cv=2).fit(DATA.bags, DATA.Y)
    path = tmp_path / "stack.bagwise"
    bagwise.save(model, path)
    assert_array_equal(bagwise.load(path).predict_proba(NEW.bags), model.predict_proba(NEW.bags))


def test_random_state_and_threads():
    first, again = (small_stack().fit(DATA.bags, DATA.Y).decision_function(NEW.bags) for _ in range(2))
    assert_array_equal(first, again)
    assert_array_equal(small_stack(n_jobs=2).fit(DATA.bags, DATA.Y).decision_function(NEW.bags), first)
    assert not np.array_equal(small_stack(random_state=1).fit(DATA.bags, DATA.Y).decision_function(NEW.bags), first)


def test_sparse_bags_give_what_dense_ones_do():
    def stack():
        return BagStack([ORedLogisticRegression()], n_estimators=20, cv=3, random_state=0)

    instances = np.where(np.abs(DATA.bags.instances) > 0.7, DATA.bags.instances, 0.0)
    dense = Bags(instances, DATA.bags.offsets)
    sparse = Bags(sp.csr_matrix(instances), DATA.bags.offsets)
    model, other = stack().fit(sparse, DATA.Y), stack().fit(dense, DATA.Y)
    assert_allclose(model.logistic_coef_, other.logistic_coef_, rtol=1e-6)
    assert average_precision(DATA.Y, model.decision_function(sparse)) > 0.9
    assert_allclose(model.decision_function(dense), model.decision_function(sparse), atol=1e-5)


def test_the_catalogue_entry_takes_sparse_bags():
    wide = np.hstack([DATA.bags.instances, np.zeros((DATA.bags.n_instances, 200))])
    sparse = Bags(sp.csr_matrix(wide), DATA.bags.offsets)
    model = make_model("bag-stack", n_estimators=20, cv=2).fit(sparse, DATA.Y)
    assert average_precision(DATA.Y, model.decision_function(sparse)) > 0.9


def test_without_statistics_the_trees_see_the_members_alone():
    model = small_stack(statistics=()).fit(DATA.bags, DATA.Y)
    assert model.statistics_ is None
    assert model.statistics_forest_ is None
    assert len(model.pool_coef_) == 2
    assert Forest(*model.forest_).feature.max() < 2 * 5 * 3 + 1
    assert model.predict(NEW.bags).shape == NEW.Y.shape


@pytest.mark.filterwarnings("ignore::bagwise.core.exceptions.InfeasibleBagWarning")
def test_trees_of_statistics_are_heard_where_instances_say_nothing():
    """Bags whose instances scatter widely or not: each instance could be of either kind."""
    rng = np.random.default_rng(0)
    wide = np.arange(90) % 2
    bags = Bags.from_list([rng.normal(size=(12, 3)) * np.where(rng.random((12, 1)) < 0.5, 1.0, 1.0 + w) for w in wide])
    model = small_stack().fit(bags[:60], wide[:60, None])
    assert model.pool_coef_[2] > model.pool_coef_[:2].max()
    assert roc_auc_score(wide[60:], model.decision_function(bags[60:]).ravel()) > 0.8
    table = model.statistics_.transform(bags[:60])
    grown = Forest(*model.statistics_forest_).mean_values(table)  # on all of these, whose labels they know by heart
    assert_allclose(grown, wide[:60, None], atol=1e-6)
    by_two = model.decision_function(bags) - model.pool_coef_[2] * forest_logit(
        Forest(*model.statistics_forest_), model.statistics_.transform(bags), model.prior_
    )
    del model.statistics_forest_  # as in a model of an earlier version
    with pytest.raises(InputError, match="pool_coef_ is not of 2 learners"):
        model._check_fitted()
    model.pool_coef_ = model.pool_coef_[:2]
    model._check_fitted()
    assert_allclose(model.decision_function(bags), by_two, atol=1e-9)


def test_labels_that_all_or_none_carry():
    Y = np.column_stack([DATA.Y, np.zeros(len(DATA)), np.ones(len(DATA))]).astype(int)
    model = BagStack([ORedForest(10, n_rounds=2, n_round_trees=5, random_state=0)], n_estimators=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bags of one instance cannot carry two labels
        proba = model.fit(DATA.bags, Y).predict_proba(NEW.bags)
    assert (proba[:, 3] < 0.1).all()
    assert (proba[:, 4] > 0.9).all()


def test_one_label_a_bag():
    values = np.array(["a", "b", "c"])[DATA.Y.argmax(axis=1)]
    model = small_stack().fit(DATA.bags, values)
    proba = model.predict_proba(NEW.bags)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(model.predict(NEW.bags), model.classes_[proba.argmax(axis=1)])


@pytest.mark.parametrize("members", [[], 3, "ored", ORedLogisticRegression()])
def test_members_must_be_a_list(members):
    with pytest.raises(InputError, match="must be None or a list of annotators"):
        BagStack(members).fit(DATA.bags, DATA.Y)


@pytest.mark.parametrize("member", [MIMLNN(), PerInstance(FunctionTransformer())])
def test_members_must_give_probabilities(member):
    with pytest.raises(InputError, match="gives no probabilities for instances"):
        BagStack([member]).fit(DATA.bags, DATA.Y)


def test_a_plain_pipeline_of_scikit_learn_is_no_member():
    """It hides the probabilities of instances, which bagwise.make_pipeline forwards."""
    member = sklearn_pipeline(PerInstance(FunctionTransformer()), ORedLogisticRegression())
    with pytest.raises(InputError, match=r"bagwise\.make_pipeline"):
        BagStack([member]).fit(DATA.bags, DATA.Y)


@pytest.mark.parametrize("cv", [1, 0, 2.5, "five"])
def test_too_few_folds(cv):
    with pytest.raises(InputError, match="'cv' parameter of BagStack must be a whole number, 2 or more"):
        small_stack(cv=cv).fit(DATA.bags, DATA.Y)


def test_labels_in_one_fold_alone():
    Y = np.zeros_like(DATA.Y)
    Y[3] = DATA.Y[3]
    with pytest.raises(InputError, match="1 of .* bags carry labels, and they are all in one fold"):
        small_stack().fit(DATA.bags, Y)


def test_fewer_bags_than_folds():
    few = DATA[:4]
    assert small_stack(cv=5).fit(few.bags, few.Y).predict(NEW.bags).shape == NEW.Y.shape
    with pytest.raises(InputError, match="needs 2 bags or more"):
        small_stack().fit(DATA[:1].bags, DATA[:1].Y)


@pytest.mark.parametrize("seed", range(3))
def test_where_bags_have_one_label_its_probability_is_that_of_it_alone(seed):
    """In proportion to p_c times 1 - p_k of the others, which is a softmax of the logits, and follows their order."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] += y
    model = BagStack([ORedLogisticRegression()], cv=3, n_estimators=10, random_state=seed).fit(X, y)
    logits = model.decision_function(X)
    p = 1.0 / (1.0 + np.exp(-logits))
    alone = np.stack([p[:, c] * np.prod(np.delete(1.0 - p, c, axis=1), axis=1) for c in range(3)], axis=1)
    assert np.allclose(model.predict_proba(X), alone / alone.sum(axis=1, keepdims=True), atol=1e-9)
    assert np.array_equal(model.predict_proba(X).argmax(axis=1), logits.argmax(axis=1))


def test_members_learn_from_bags_without_labels():
    """One instance in eight tells; the members saw nothing of the negative bags while they had no background."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    arrays = [rng.normal(size=(8, 6)) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[0, 0] += 5.0 * label
    bags = Bags.from_list(arrays)
    model = BagStack([ORedLogisticRegression()], n_estimators=30, statistics=None, random_state=0)
    with pytest.warns(InfeasibleBagWarning, match="a background class was added"):
        model.fit(bags[:60], y[:60, None])
    assert roc_auc_score(y[60:], model.predict_proba(bags[60:])[:, 0]) > 0.95


def test_members_by_default_are_those_of_the_catalog():
    data = make_gaussian_bags(n_bags=24, random_state=0)
    settings = {"cv": 2, "n_estimators": 10, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)
        model = bagwise.BagStack(**settings).fit(data.bags, data.Y)
        named = bagwise.make_model("bag-stack", **settings).fit(data.bags, data.Y)
    assert model.members is None
    assert_array_equal(model.predict_proba(data.bags), named.predict_proba(data.bags))
