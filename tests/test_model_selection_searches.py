"""Searches, routing, scorers, transformers, model files and progress: learners among scikit-learn."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning, UnsetMetadataPassedError
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

import bagwise
from bagwise import BagDataset, Bags, ORedLogisticRegression, SupportInstanceMachine, make_pipeline, metrics
from bagwise.annotation import (
    CLPL,
    LSBCMM,
    MIMLFast,
    MostFrequentAnnotator,
    NoisyOrLogisticRegression,
    ORedForest,
    SupervisedAnnotator,
)
from bagwise.calibration import CalibratedAnnotator
from bagwise.clustering import WithinBagWhitener
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import BagScorer, get_scorer, get_scorer_names
from bagwise.metrics._scorers import _scores
from bagwise.model_selection import BagGridSearchCV, BagRandomizedSearchCV, rank_loss_scorer
from bagwise.pipeline import make_union
from bagwise.preprocessing import BagStatistics, PerInstance, RBFDictionary

NAMES = ["loud", "high", "long", "late"]
CLASSES = ["owl", "wren", "crow"]


@pytest.fixture(scope="module")
def data():
    """Three classes with names, features with names."""
    plain = make_gaussian_bags(n_bags=40, n_features=4, n_classes=3, separation=3.0, random_state=0)
    return BagDataset(plain.bags, plain.Y, CLASSES, plain.instance_labels, feature_names=NAMES, name="birds")


@pytest.fixture(scope="module")
def frames(data):
    return [pd.DataFrame(bag, columns=NAMES) for bag in data.bags]


def label_sets(data):
    return [frozenset(labels) for labels in data.label_sets]


# -- searches and routing ---------------------------------------------------------------------------------------------


def test_searches_take_a_data_set(data):
    grid = {"l2": [0.1, 10.0]}
    for scoring in (None, get_scorer("average_precision"), get_scorer("instance_accuracy")):
        search = GridSearchCV(ORedLogisticRegression(), grid, scoring=scoring, cv=3, error_score="raise").fit(data)
        assert search.best_estimator_.classes_.tolist() == CLASSES
    wanted = GridSearchCV(ORedLogisticRegression(), grid, cv=KFold(3)).fit(data.bags, data.Y)
    assert_array_equal(
        GridSearchCV(ORedLogisticRegression(), grid, cv=3).fit(data).cv_results_["mean_test_score"],
        wanted.cv_results_["mean_test_score"],
    )
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression())
    assert cross_val_score(pipe, data, cv=3).shape == (3,)


def test_a_fitted_search_annotates(data):
    grid = {"oredlogisticregression__l2": [0.1, 10.0]}
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(background=True))
    search = BagGridSearchCV(pipe, grid, cv=3).fit(data)
    best = search.best_estimator_
    assert_array_equal(search.annotate(data), best.annotate(data.bags, data))
    assert_array_equal(search.annotate_proba(data), best.annotate_proba(data))
    assert_array_equal(search.background_proba(data), best.background_proba(data))
    assert_array_equal(search.find(data, data).labels, best.find(data, data).labels)
    assert_array_equal(search.predict_instances(data), best.predict_instances(data))
    assert search.predict_label_sets(data) == best.predict_label_sets(data)
    assert_array_equal(search.label_posterior(data), best.label_posterior(data))
    drawn = BagRandomizedSearchCV(pipe, grid, n_iter=1, cv=3, random_state=0).fit(data)
    assert drawn.annotate(data).shape == (data.bags.n_instances,)
    assert not hasattr(BagGridSearchCV(make_pipeline(PerInstance(StandardScaler())), {}), "annotate")
    with pytest.raises(NotFittedError):
        BagGridSearchCV(ORedLogisticRegression(), {}).annotate(data)


class Spy(ORedLogisticRegression):
    """Keeps what its last fit was given."""

    def fit(self, X, y=None, instance_labels=None, callback=None, checkpoint=None, sample_weight=None):
        super().fit(X, y, instance_labels, callback, checkpoint, sample_weight)
        self.given_ = instance_labels, sample_weight
        return self


@pytest.mark.parametrize("routing", [False, True])
def test_instance_labels_and_weights_go_through_searches_and_pipelines(data, routing):
    weights = np.arange(1.0, len(data) + 1.0)
    with sklearn.config_context(enable_metadata_routing=routing):
        spy = Spy()
        if routing:
            spy.set_fit_request(sample_weight=True, instance_labels=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(PerInstance(StandardScaler()), spy)
        search = BagGridSearchCV(pipe, {"spy__l2": [1.0, 10.0]}, cv=4, error_score="raise")
        search.fit(data.bags, data.Y, instance_labels=data.instance_labels, sample_weight=weights)
        labels, given = search.best_estimator_[-1].given_
        assert labels == data.instance_labels
        assert_array_equal(given, weights)
        plain = GridSearchCV(spy, {"l2": [1.0]}, cv=4, error_score="raise")
        plain.fit(data.bags, data.Y, instance_labels=data.instance_labels)
        assert plain.best_estimator_.given_[0] == data.instance_labels
    scaled = PerInstance(StandardScaler()).fit_transform(data.bags)
    alone = ORedLogisticRegression(l2=search.best_params_["spy__l2"]).fit(
        scaled, data.Y, instance_labels=data.instance_labels, sample_weight=weights
    )
    assert_allclose(search.best_estimator_[-1].coef_, alone.coef_)


def test_routing_asks_before_it_hands_weights_on(data):
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression())
        with pytest.raises(UnsetMetadataPassedError):
            pipe.fit(data.bags, data.Y, sample_weight=np.ones(len(data)))
        scaler = PerInstance(StandardScaler()).set_fit_request(sample_weight=True)
        weights = np.where(np.arange(len(data)) < 20, 1.0, 0.0)
        pipe = make_pipeline(scaler, ORedLogisticRegression().set_fit_request(sample_weight=True))
        pipe.fit(data.bags, data.Y, sample_weight=weights)
    assert_allclose(pipe[0].transformer_.mean_, data.bags[:20].instances.mean(axis=0))
    first = StandardScaler().fit(data.bags[:20].instances)
    alone = ORedLogisticRegression().fit(
        Bags(first.transform(data.bags.instances), data.bags.offsets)[:20], data.Y[:20]
    )
    assert_allclose(pipe[-1].coef_, alone.coef_, atol=1e-6)


def test_scorers_are_routed_instance_labels_and_learners_are_not(data):
    """Nobody trains on the truth that is there to score by, unless it is requested."""
    with sklearn.config_context(enable_metadata_routing=True):
        spy = Spy()
        options = {"cv": KFold(4), "error_score": "raise", "return_estimator": True}
        for name, requested in (("instance_labels", None), ("known", "known")):
            if requested is not None:  # what is trained on goes by another name
                spy.set_fit_request(instance_labels=requested)
            params = {"instance_labels": data.instance_labels, name: data.instance_labels}
            found = cross_validate(
                spy, data.bags, data.Y, scoring=get_scorer("instance_accuracy"), params=params, **options
            )
            trained = [model.given_[0] is not None for model in found["estimator"]]
            assert trained == [requested is not None] * 4
        for model in (ORedForest(), NoisyOrLogisticRegression(), CalibratedAnnotator(ORedLogisticRegression())):
            assert model.get_metadata_routing().fit.requests["instance_labels"] is False
        spy = Spy()
        search = GridSearchCV(spy, {"l2": [1.0]}, scoring=get_scorer("instance_accuracy"), cv=4, error_score="raise")
        search.fit(data.bags, data.Y, instance_labels=data.instance_labels)
        assert search.best_estimator_.given_[0] is None
    wanted = cross_val_score(ORedLogisticRegression(), data, scoring=get_scorer("instance_accuracy"), cv=4)
    assert search.best_score_ == pytest.approx(wanted.mean())


def test_a_label_of_one_fold_only_does_not_spoil_a_search(data):
    sets = [set(labels) for labels in data.label_sets]
    sets[0].add("albatross")
    for scoring in (None, *map(get_scorer, ("average_precision", "neg_hamming_loss", "neg_rank_hinge_loss"))):
        search = GridSearchCV(ORedLogisticRegression(), {"l2": [1.0, 10.0]}, scoring=scoring, cv=3, error_score="raise")
        search.fit(data.bags, sets)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert "albatross" in search.best_estimator_.classes_
    values = np.array(["common"] * 39 + ["rare"])
    assert np.isfinite(cross_val_score(MostFrequentAnnotator(), data.bags, values, cv=KFold(3))).all()


@pytest.mark.parametrize("name", ["average_precision", "neg_rank_hinge_loss"])
def test_a_fold_without_anything_to_judge_does_not_spoil_a_search(data, name):
    """The only label of a bag is nowhere else: its fold says nothing, and the others choose as they do without it."""
    sets = [{"albatross"}, *(set(labels) for labels in data.label_sets[1:])]
    options = {"scoring": get_scorer(name), "cv": KFold(len(data)), "error_score": "raise", "refit": False}
    search = GridSearchCV(MostFrequentAnnotator(), {}, **options)
    with pytest.warns(UndefinedMetricWarning, match="none of the 1 held-out bags .* use fewer folds"):
        search.fit(data.bags, sets)
    found = search.cv_results_
    folds = [found[f"split{i}_test_score"][0] for i in range(len(data))]
    assert folds[0] == (0.0 if name.startswith("neg_") else 1.0)
    assert found["mean_test_score"][0] == pytest.approx(np.mean(folds))


# -- scorers ----------------------------------------------------------------------------------------------------------


def test_scorers_are_the_measures(data):
    model = ORedLogisticRegression(l2=30.0).fit(data)
    scores, sets, Y = model.decision_function(data), model.predict(data), data.Y
    weights = np.arange(1.0, len(data) + 1.0)
    truth = data.instance_labels.instances
    alone = Bags(model.find(data).labels, data.bags.offsets)
    told = Bags(model.find(data, data).labels, data.bags.offsets)
    rows = weights[data.bags.bag_index]
    wanted = {
        "average_precision": lambda w, r: metrics.average_precision(Y, scores, sample_weight=w),
        "neg_hamming_loss": lambda w, r: -metrics.hamming_loss(Y, sets, sample_weight=w),
        "neg_ranking_loss": lambda w, r: -metrics.ranking_loss(Y, scores, sample_weight=w),
        "neg_one_error": lambda w, r: -metrics.one_error(Y, scores, sample_weight=w),
        "neg_coverage": lambda w, r: -metrics.coverage(Y, scores, sample_weight=w),
        "neg_rank_hinge_loss": lambda w, r: -metrics.rank_hinge_loss(Y, scores, sample_weight=w),
        "instance_accuracy": lambda w, r: metrics.instance_accuracy(truth, alone, sample_weight=r),
        "annotation_accuracy": lambda w, r: metrics.instance_accuracy(truth, told, sample_weight=r),
        "listed_share": lambda w, r: metrics.listed_share(Y, alone, sample_weight=w),
        "explained_share": lambda w, r: metrics.explained_share(Y, told, sample_weight=w),
    }
    assert list(wanted) == get_scorer_names()
    for name, measure in wanted.items():
        scorer = get_scorer(name)
        assert isinstance(scorer, BagScorer)
        assert scorer(model, data) == pytest.approx(measure(None, None)), name
        assert scorer(model, data.bags, data, sample_weight=weights) == pytest.approx(measure(weights, rows)), name
        matrix = ORedLogisticRegression(l2=30.0).fit(data.bags, Y)
        assert scorer(matrix, data.bags, Y, instance_labels=data.instance_labels) == pytest.approx(scorer(model, data))
    with pytest.raises(InputError, match="There is no scorer 'f1'; there are average_precision"):
        get_scorer("f1")
    assert rank_loss_scorer(model, data) == pytest.approx(wanted["neg_rank_hinge_loss"](None, None))


@pytest.mark.parametrize("name", ["hamming_loss", "ranking_loss", "one_error", "coverage", "average_precision",
                                  "rank_hinge_loss"])  # fmt: skip
def test_weights_of_measures_are_repetition(name):
    rng = np.random.default_rng(0)
    Y, scores = rng.integers(0, 2, size=(12, 4)), rng.normal(size=(12, 4))
    weights = rng.integers(0, 3, size=12)
    rows = np.repeat(np.arange(12), weights)
    second = scores if name != "hamming_loss" else (scores > 0).astype(int)
    measure = getattr(metrics, name)
    assert measure(Y, second, sample_weight=weights) == pytest.approx(measure(Y[rows], second[rows]))


def test_instance_scorers_say_what_they_lack(data):
    model = ORedLogisticRegression().fit(data)
    scorer = get_scorer("instance_accuracy")
    with pytest.raises(InputError, match="pass a BagDataset that has them, or instance_labels"):
        scorer(model, data.bags, data.Y)
    with pytest.raises(InputError, match="y is no matrix"):
        scorer(model, data.bags, label_sets(data), instance_labels=data.instance_labels)
    bag_level = bagwise.classification.MIMLNN().fit(data)
    with pytest.raises(InputError, match="MIMLNN does not annotate instances"):
        scorer(bag_level, data)
    unknown = [{"gull"}] * len(data)
    for name, wanted in (("average_precision", 1.0), ("neg_ranking_loss", 0.0), ("explained_share", 1.0)):
        with pytest.warns(UndefinedMetricWarning, match=f"{name}: none of the 40 held-out bags carries a label that"):
            assert get_scorer(name)(model, data.bags, unknown) == wanted
    with pytest.warns(UndefinedMetricWarning, match="listed_share: none of the 40 held-out bags"):
        assert get_scorer("listed_share")(model, data.bags, np.zeros_like(data.Y)) == 1.0


def test_scorers_leave_out_what_the_model_does_not_know(data):
    model = ORedLogisticRegression().fit(data)
    more = BagDataset(
        data.bags, np.hstack([data.Y, np.eye(40, 1, dtype=np.uint8)]), [*CLASSES, "gull"], data.instance_labels
    )
    for name in ("average_precision", "instance_accuracy", "explained_share"):
        assert get_scorer(name)(model, more) == pytest.approx(get_scorer(name)(model, data))


def test_bags_without_labels_have_no_labels_to_choose_among(data):
    model = ORedLogisticRegression().fit(data)
    Y = data.Y.copy()
    Y[3] = 0
    open_set = BagDataset(data.bags, Y, CLASSES, data.instance_labels)
    own = np.array(CLASSES)[data.instance_labels.instances]
    told = np.where(data.bags.bag_index == 3, "", model.annotate(data.bags, data.Y))
    assert get_scorer("annotation_accuracy")(model, open_set) == pytest.approx(np.mean(told == own))
    alone = np.mean(model.predict_instances(data.bags) == own)
    assert get_scorer("instance_accuracy")(model, open_set) == pytest.approx(alone)


def test_one_score_a_bag_speaks_for_the_second_of_two_classes():
    scores = np.array([0.5, -1.0, 2.0])
    model = SimpleNamespace(decision_function=lambda X: scores)
    assert _scores(model, None).tolist() == [
        [-0.5, 0.5],
        [1.0, -1.0],
        [-2.0, 2.0],
    ]


# -- transformers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_global_output_of_frames_breaks_no_pipeline(data, kind):
    def predictions():
        found = []
        for steps in (
            [PerInstance(StandardScaler()), ORedLogisticRegression()],
            [PerInstance(RBFDictionary(size=8, random_state=0)), WithinBagWhitener(2), ORedLogisticRegression()],
            [
                make_union(PerInstance(PCA(2)), PerInstance(MaxAbsScaler())),
                CLPL(C=1.0),
            ],
            [BagStatistics(("mean", "max")), LogisticRegression()],
        ):
            y = data.Y if steps[-1].__class__ is not LogisticRegression else data.Y[:, 0]
            found.append(make_pipeline(*steps).fit(data.bags, y).predict(data.bags))
        approximated = bagwise.M3MIML(approximation="nystroem", n_components=8, random_state=0)
        found.append(approximated.fit(data.bags, data.Y).predict(data.bags))
        stack = bagwise.catalog.make_model("mimlsvm", random_state=0)
        return [*found, stack.fit(data.bags, data.Y).predict(data.bags)]

    wanted = predictions()
    with sklearn.config_context(transform_output=kind):
        for one, other in zip(predictions(), wanted, strict=True):
            assert_array_equal(np.asarray(one), other)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(
    "inner",
    [
        sklearn_make_pipeline(StandardScaler(), PCA(2)),
        sklearn_make_pipeline(StandardScaler(), MaxAbsScaler()),
        sklearn_make_pipeline(PolynomialFeatures(), StandardScaler()),
        FeatureUnion([("one", sklearn_make_pipeline(StandardScaler(), MaxAbsScaler())), ("two", MaxAbsScaler())]),
    ],
    ids=["pca", "scalers", "polynomial", "union"],
)
def test_global_output_leaves_the_names_of_pipelines_inside(frames, inner, kind):
    """The same values and names, wherever the fit and the transform are."""
    wanted = PerInstance(inner).fit_transform(frames)
    with sklearn.config_context(transform_output=kind):
        fitted = PerInstance(inner).fit(frames)
        found = [fitted.transform(frames)]
        assert list(fitted.transform(frames[0]).columns) == wanted.feature_names
    found.append(fitted.transform(frames))
    for bags in found:
        assert bags.feature_names == wanted.feature_names
        assert_array_equal(bags.instances, wanted.instances)


def test_frames_inside_by_their_own_wish_leave_bags_without_names(frames):
    """The steps then know the names of arrays, x0 and so on, and not those of the bags."""
    inner = sklearn_make_pipeline(StandardScaler(), MaxAbsScaler())
    bags = PerInstance(clone(inner).set_output(transform="pandas")).fit_transform(frames)
    assert bags.feature_names is None
    assert_array_equal(bags.instances, PerInstance(inner).fit_transform(frames).instances)


def test_set_output_makes_frames_of_tables_and_leaves_bags(data):
    rows = pd.DataFrame(data.bags.instances, columns=NAMES, index=np.arange(data.bags.n_instances) + 7)
    for transformer in (PerInstance(StandardScaler()), WithinBagWhitener(2)):
        plain = clone(transformer).fit_transform(rows)
        framed = clone(transformer).set_output(transform="pandas").fit_transform(rows)
        assert_array_equal(framed.to_numpy(), plain)
        assert_array_equal(framed.index, rows.index)
        assert framed.columns.tolist() == clone(transformer).fit(rows).get_feature_names_out().tolist()
        assert isinstance(clone(transformer).set_output(transform="polars").fit_transform(rows), pl.DataFrame)
        assert isinstance(clone(transformer).set_output(transform="pandas").fit_transform(data.bags), Bags)
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).set_output(transform="pandas")
    assert_array_equal(pipe.fit(data).predict(data), make_pipeline(*map(clone, pipe)).fit(data).predict(data))


def test_labels_of_bags_are_handed_down_to_supervised_transformers(data):
    """Every instance once for each label of its bag."""
    rows, labels = np.nonzero(np.repeat(data.Y, data.bags.sizes, axis=0))
    X = data.bags.instances
    for transformer in (SelectKBest(f_classif, k=2), LinearDiscriminantAnalysis()):
        wanted = clone(transformer).fit(X[rows], labels).transform(X)
        for form in ((data.bags, data.Y), (data,)):  # up to the sign of a direction
            assert_allclose(np.abs(PerInstance(transformer).fit_transform(*form).instances), np.abs(wanted))
        for nested in (
            sklearn_make_pipeline(MaxAbsScaler(), clone(transformer)),
            FeatureUnion([("a", transformer)]),
            ColumnTransformer([("a", transformer, [0, 1, 2]), ("b", "passthrough", [1])]),
            ColumnTransformer([("a", MaxAbsScaler(), [0])], remainder=transformer),
        ):
            assert PerInstance(nested).fit(data.bags, data.Y).transformer_ is not None
            with pytest.raises(InputError, match="requires y"):
                PerInstance(nested).fit(data.bags)
    pipe = make_pipeline(PerInstance(SelectKBest(k=2)), ORedLogisticRegression())
    assert pipe.fit(data)[-1].n_features_in_ == 2
    y = data.Y.argmax(axis=1)  # one label a bag
    wanted = SelectKBest(k=2).fit(X, np.repeat(y, data.bags.sizes)).get_support()
    assert_array_equal(PerInstance(SelectKBest(k=2)).fit(data.bags, y).transformer_.get_support(), wanted)
    unsupervised = PerInstance(VarianceThreshold()).fit(data.bags, data.Y).transformer_
    assert_allclose(unsupervised.variances_, VarianceThreshold().fit(X).variances_)


def test_unions_of_bags(data, frames):
    bags = Bags.from_list(frames)
    union = make_union(PerInstance(StandardScaler()), PerInstance(PCA(2)))
    joined = union.fit_transform(bags)
    parts = [PerInstance(StandardScaler()).fit_transform(bags), PerInstance(PCA(2)).fit_transform(bags)]
    assert_allclose(joined.instances, np.hstack([part.instances for part in parts]))
    assert joined.feature_names == [*NAMES, "pca0", "pca1"]
    assert_allclose(union.transform(bags).instances, joined.instances)
    inside = PerInstance(FeatureUnion([("a", StandardScaler()), ("b", PCA(2))])).fit_transform(bags)
    assert_allclose(inside.instances, joined.instances)
    assert inside.feature_names == [*(f"a__{name}" for name in NAMES), "b__pca0", "b__pca1"]
    with pytest.raises(ValueError, match="expected 2 dimensions"):  # scikit-learn's own cannot join ragged rows
        FeatureUnion([("a", PerInstance(StandardScaler()))]).fit_transform(bags)


def test_a_transformer_that_takes_no_weights_is_refused(data):
    with pytest.raises(InputError, match="MaxAbsScaler takes no sample_weight"):
        PerInstance(MaxAbsScaler()).fit(data.bags, sample_weight=np.ones(len(data)))


# -- model files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transformer",
    [
        QuantileTransformer(n_quantiles=20),
        QuantileTransformer(n_quantiles=20, output_distribution="normal"),
        PowerTransformer(),
        PowerTransformer(standardize=False),
    ],
    ids=repr,
)
def test_model_files_hold_common_transformers(data, tmp_path, transformer):
    pipe = make_pipeline(PerInstance(transformer), ORedLogisticRegression()).fit(data)
    bagwise.save(pipe, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    assert_array_equal(again.annotate(data), pipe.annotate(data))
    assert_array_equal(again.predict_instances_proba(data), pipe.predict_instances_proba(data))


def test_what_a_model_file_does_not_take_is_named(data, tmp_path):
    for step in (make_union(PerInstance(PCA(2))), PerInstance(SelectKBest(k=2))):
        pipe = make_pipeline(step, ORedLogisticRegression()).fit(data)
        with pytest.raises(InputError, match="which the model file does not take; it takes .*PowerTransformer"):
            bagwise.save(pipe, tmp_path / "model.bagwise")
        assert not (tmp_path / "model.bagwise").exists()


def test_a_search_is_saved_as_what_it_found(data, tmp_path):
    path = tmp_path / "model.bagwise"
    with sklearn.config_context(enable_metadata_routing=True):
        model = ORedLogisticRegression().set_fit_request(sample_weight=True)
    search = BagGridSearchCV(make_pipeline(PerInstance(StandardScaler()), model), {}, cv=2)
    for unfitted in (search, RandomizedSearchCV(model, {"l2": [1.0]}, refit=False, n_iter=1, cv=2).fit(data)):
        with pytest.raises(InputError, match="has found nothing to save; fit it, with refit=True"):
            bagwise.save(unfitted, path)
    assert not path.exists()
    bagwise.save(search.fit(data), path)
    again = bagwise.load(path)
    assert isinstance(again, Pipeline)
    assert_array_equal(again.annotate(data), search.annotate(data))


# -- verbose ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        ORedLogisticRegression(),
        ORedLogisticRegression(solver="em", max_iter=6),
        ORedForest(n_estimators=3, n_rounds=4, n_round_trees=4, random_state=0),
        SupportInstanceMachine(loss="hamming", alpha=0.1, n_phases=4, n_steps=5),
        CLPL(C=1.0),
        MIMLFast(max_epochs=4, n_components=5, random_state=0),
        LSBCMM(max_iter=4, tol=0.0, random_state=0),
    ],
    ids=repr,
)
def test_verbose_prints_what_the_callback_hears(model, data, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for verbose in (0, 1, 2):
            heard = []
            clone(model).set_params(verbose=verbose).fit(data, callback=lambda i, v, h=heard: h.append((i, v)))
            lines = [f"{type(model).__name__}, {i}: {v:.6g}" for i, v in heard if verbose and i % verbose == 0]
            assert len(heard) >= 3
            assert capsys.readouterr().out.splitlines() == lines
    with pytest.raises(InputError, match="'verbose' parameter"):
        clone(model).set_params(verbose="much").fit(data)


def test_supervised_annotators_in_a_search(data):
    """One that cannot do without instance labels."""
    search = GridSearchCV(SupervisedAnnotator(LogisticRegression()), {"estimator__C": [0.1, 1.0]}, cv=3)
    search.fit(data.bags, data.Y, instance_labels=data.instance_labels)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
