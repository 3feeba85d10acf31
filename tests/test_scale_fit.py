"""A fit that goes through pieces is the fit in memory, whatever the pieces and the options."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise import Bags, ORedLogisticRegression, SupportInstanceMachine, load, make_pipeline, save
from bagwise.annotation import CLPL, MIMLFast, NoisyOrLogisticRegression, ORedForest
from bagwise.app.runs.learner import fit_dataset
from bagwise.calibration import CalibratedAnnotator
from bagwise.catalog import make_model
from bagwise.core.exceptions import FormatError, InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.checkpoint import Checkpoint
from bagwise.io.data.formats import write_dataset
from bagwise.model_selection import evaluate
from bagwise.pipeline import final_step
from bagwise.preprocessing import CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary
from bagwise.scale import BagSource, evaluate_source, fit_source
from bagwise.scale._engine import Here, Training
from bagwise.scale._scaling import fit_step
from bagwise.scale.fit import source_identity

PIECES = (1, 7, 1000)
FITTED = ("coef_", "intercept_", "background_coef_", "background_intercept_", "missed_", "spurious_")


def made(seed=0, n_bags=40, unlabelled=False):
    data = make_gaussian_bags(n_bags=n_bags, random_state=seed)
    data = replace(data, class_names=["wren", "robin", "owl", "crow", "tit"])
    if unlabelled:
        labelled = np.arange(n_bags) % 4 > 0
        data = replace(data, Y=np.where(labelled[:, None], data.Y, 0), labelled=labelled)
    return data


def partly_known(data, share=0.3, seed=1):
    known = data.instance_labels.instances.copy()
    known[np.random.default_rng(seed).random(len(known)) > share] = -1
    return replace(data, instance_labels=Bags(known, data.bags.offsets))


def assert_same(one, other, tol=1e-6):
    a, b = final_step(one), final_step(other)
    assert np.array_equal(a.classes_, b.classes_)
    assert a.n_features_in_ == b.n_features_in_
    compared = 0
    for name in FITTED:
        assert hasattr(a, name) == hasattr(b, name), name
        if hasattr(a, name):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=tol, err_msg=name)
            compared += 1
    assert compared
    assert a.objective_history_[-1] == pytest.approx(b.objective_history_[-1], rel=1e-9)


standard = partial(make_pipeline, PerInstance(StandardScaler()))
tight = partial(ORedLogisticRegression, tol=1e-8, max_iter=2000)

OPTIONS = {
    "plain": tight(),
    "weak penalty": tight(l2=0.05),
    "background": tight(background=True),
    "share": tight(background=True, background_share=0.3),
    "prune": tight(prune=0.2),
    "relax": tight(on_infeasible="relax"),
    "given rates": tight(missed=0.1, spurious=0.05),
    "rates a class": tight(missed=np.linspace(0, 0.2, 5), background=True),
    "learned rates": tight(missed="learn", spurious="learn", background=True, background_share=0.2),
    "approximation": tight(max_exact_labels=2),
    "em": ORedLogisticRegression(solver="em", max_iter=15, tol=0.0),
    "em with background": ORedLogisticRegression(solver="em", max_iter=8, background=True, background_share=0.2),
    "batches": ORedLogisticRegression(solver="em", max_iter=6, batch_fraction=0.4, random_state=3),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("piece_bags", PIECES)
@pytest.mark.parametrize("name", OPTIONS)
def test_ored_by_pieces_is_ored_in_memory(name, piece_bags):
    data = made(seed=len(name), unlabelled=True)
    if name in ("prune", "relax", "plain"):  # with bags of one instance that list several labels
        keep = np.concatenate(
            [
                np.arange(a, min(a + 1 + i % 5, b))
                for i, (a, b) in enumerate(zip(data.bags.offsets[:-1], data.bags.offsets[1:], strict=True))
            ]
        )
        sizes = np.minimum(data.bags.sizes, 1 + np.arange(len(data)) % 5)
        data = replace(
            data, bags=Bags(data.bags.instances[keep], np.concatenate([[0], np.cumsum(sizes)])), instance_labels=None
        )
    here, there = standard(clone(OPTIONS[name])), standard(clone(OPTIONS[name]))
    fit_dataset(here, data)
    assert fit_source(there, BagSource.from_dataset(data, piece_bags=piece_bags)) is there
    assert_same(here, there)
    assert np.allclose(here.predict_instances_proba(data.bags), there.predict_instances_proba(data.bags), atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("piece_bags", PIECES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"background": True, "background_share": 0.3},
        {"missed": "learn"},
        {"solver": "em", "max_iter": 10, "tol": 0.0},
    ],
)
def test_known_instances(settings, piece_bags):
    data = partly_known(made(seed=2, unlabelled=True))
    here, there = (standard(tight().set_params(**settings)) for _ in range(2))
    fit_dataset(here, data, use_known=True)
    fit_source(there, BagSource.from_dataset(data, piece_bags=piece_bags), use_known=True)
    assert_same(here, there)
    plain = fit_source(standard(tight().set_params(**settings)), BagSource.from_dataset(data, piece_bags=piece_bags))
    assert np.abs(final_step(plain).coef_ - final_step(there).coef_).max() > 1e-3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("piece_bags", PIECES)
@pytest.mark.parametrize("settings", [{}, {"missed": "learn"}, {"missed": 0.1, "spurious": np.linspace(0, 0.2, 5)}])
@pytest.mark.parametrize("use_known", [False, True])
def test_noisy_or(settings, use_known, piece_bags):
    data = partly_known(made(seed=4, unlabelled=True))
    here, there = (standard(NoisyOrLogisticRegression(tol=1e-8, max_iter=2000, **settings)) for _ in range(2))
    fit_dataset(here, data, use_known=use_known)
    fit_source(there, BagSource.from_dataset(data, piece_bags=piece_bags), use_known=use_known)
    assert_same(here, there)


@pytest.mark.parametrize("piece_bags", PIECES)
def test_clpl(piece_bags):
    data = made(seed=3, unlabelled=True)
    data = replace(data, Y=np.where(np.arange(40)[:, None] % 7 == 1, 0, data.Y))  # labelled, and empty
    here, there = (make_pipeline(PerInstance(CLPLScaler()), CLPL(C=100.0, tol=1e-8)) for _ in range(2))
    with pytest.warns(InfeasibleBagWarning, match="carry no label"):
        fit_dataset(here, data)
    with pytest.warns(InfeasibleBagWarning, match="carry no label"):
        fit_source(there, BagSource.from_dataset(data, piece_bags=piece_bags))
    scale = np.abs(final_step(here).coef_).max()
    np.testing.assert_allclose(final_step(here).coef_, final_step(there).coef_, rtol=0, atol=1e-6 * scale)


STEPS = {
    "standard": [StandardScaler()],
    "no mean": [StandardScaler(with_mean=False)],
    "no deviation": [StandardScaler(with_std=False)],
    "range": [MinMaxScaler(feature_range=(-1, 2))],
    "clpl": [CLPLScaler()],
    "fourier": [CLPLScaler(), RandomFourierFeatures(gamma="scale", n_components=10, random_state=0), CLPLScaler()],
    "fixed fourier": [StandardScaler(), RandomFourierFeatures(gamma=0.1, n_components=6, random_state=1)],
    "dictionary": [StandardScaler(), RBFDictionary(size=20, whiten=True, random_state=0)],
    "share": [RBFDictionary(width=0.5, size=0.2, random_state=5)],
    "all": [RBFDictionary(size=None)],
}


@pytest.mark.parametrize("piece_bags", PIECES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STEPS)
def test_steps_learn_by_pieces_what_they_learn_in_memory(name, dtype, piece_bags):
    """Every fitted attribute and every output; with a constant feature and one of a large mean."""
    data = made(seed=4)
    X = data.bags.instances.copy()
    X[:, 1], X[:, 2] = 3.7, X[:, 2] + 1e3
    data = replace(data, bags=Bags(X.astype(dtype), data.bags.offsets))
    training = Training.of(BagSource.from_dataset(data, piece_bags=piece_bags))
    engine, bags = Here(training), data.bags
    for transformer in STEPS[name]:
        right, found = PerInstance(clone(transformer)).fit(bags), PerInstance(clone(transformer))
        fit_step(found, engine, bags.n_features, bags.instances.dtype)
        for key, value in vars(right.transformer_).items():
            if key.endswith("_") and key not in ("feature_names_in_",):
                other = getattr(found.transformer_, key)
                assert (value is None) == (other is None), key
                if value is not None:
                    assert key == "n_samples_seen_" or np.asarray(other).dtype == np.asarray(value).dtype, key
                    scale = max(np.abs(value).max(), 1e-12)
                    tol = 1e-12 if dtype == np.float64 else 1e-5
                    np.testing.assert_allclose(other, value, rtol=0, atol=tol * scale, err_msg=key)
        assert found.n_features_in_ == right.n_features_in_
        engine, before, bags = engine.then(found), bags, right.transform(bags)
        tol = 1e-9 if dtype == np.float64 else 2e-4
        np.testing.assert_allclose(found.transform(before).instances, bags.instances, rtol=0, atol=tol)


@pytest.mark.parametrize("model", ["ored-rbf", "ored-em", "ored-background"])
def test_models_of_the_catalogue_from_files(tmp_path, model):
    data = made(seed=5, n_bags=60)
    write_dataset(replace(data[:25], bag_names=list(range(25))), tmp_path / "a.parquet")
    write_dataset(replace(data[25:], bag_names=list(range(25, 60))), tmp_path / "b.parquet")
    settings = {"size": 30, "tol": 1e-9, "l2": 1.0} if model == "ored-rbf" else {"max_iter": 20}
    here, there = make_model(model, **settings), make_model(model, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_dataset(here, data)
        fit_source(there, BagSource.from_parquet(tmp_path, memory=60_000))
    assert_same(here, there)
    save(there, tmp_path / "m.bagwise")
    again = load(tmp_path / "m.bagwise")
    assert np.array_equal(again.annotate(data.bags, data.label_sets), there.annotate(data.bags, data.label_sets))


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    data = made(seed=6)
    write_dataset(data, tmp_path / "a.parquet")
    source = BagSource.from_parquet(tmp_path / "a.parquet", memory=60_000)

    class Stop(Exception):
        pass

    def stopping(iteration, objective):
        if iteration == 5:
            raise Stop

    for model in (standard(tight()), standard(ORedLogisticRegression(solver="em", max_iter=12))):
        whole = fit_source(clone(model), source)
        state = Checkpoint(tmp_path / "state", source_identity(model, source), interval=0.0)
        with pytest.raises(Stop):
            fit_source(clone(model), source, checkpoint=state, callback=stopping)
        again = fit_source(clone(model), source, checkpoint=tmp_path / "state")
        assert np.array_equal(final_step(whole).coef_, final_step(again).coef_)
        assert not (tmp_path / "state").exists()
    Checkpoint(tmp_path / "state", source_identity(standard(tight(l2=3.0)), source))
    with pytest.raises(InputError, match="belongs to another fit"):
        fit_source(standard(tight()), source, checkpoint=tmp_path / "state")


def test_warm_start_goes_on():
    data = made(seed=7)
    source = BagSource.from_dataset(data, piece_bags=9)
    model = ORedLogisticRegression(tol=1e-8, warm_start=True, max_iter=2000)
    first = fit_source(model, source).n_iter_
    assert fit_source(model, source).n_iter_ < first / 2


def test_the_forest_learns_from_a_sample_and_says_so(tmp_path):
    data = made(seed=8, n_bags=60)
    write_dataset(data, tmp_path / "a.parquet")
    size = data.bags.instances.nbytes
    forest = ORedForest(n_estimators=5, n_rounds=2, random_state=0)
    with pytest.warns(UserWarning, match=r"ORedForest needs its bags at once: it learned from (2\d|3\d) of 60, drawn"):
        fit_source(clone(forest), BagSource.from_parquet(tmp_path / "a.parquet", memory=2 * size))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = fit_source(clone(forest), BagSource.from_dataset(data, piece_bags=7))
    fit_dataset(forest, data)
    assert np.array_equal(whole.predict_instances_proba(data.bags), forest.predict_instances_proba(data.bags))


def test_what_cannot_go_by_pieces_is_told(tmp_path):
    data = made()
    source = BagSource.from_dataset(data, piece_bags=9)
    with pytest.raises(
        InputError,
        match="MIMLFast cannot learn from pieces; ORedLogisticRegression, NoisyOrLogisticRegression, CLPL, Support",
    ):
        fit_source(make_pipeline(PerInstance(CLPLScaler()), MIMLFast()), source)
    with pytest.raises(
        InputError, match="PCA cannot learn from pieces; before the learner PerInstance of StandardScaler"
    ):
        fit_source(make_pipeline(PerInstance(PCA(2)), tight()), source)
    with pytest.raises(InputError, match="device='cpu' holds all instances at once"):
        fit_source(tight(device="cpu"), source)
    with pytest.raises(InputError, match="carries no bag labels"):
        fit_source(tight(), BagSource.from_dataset(replace(data, Y=None, labelled=None, instance_labels=None)))
    with pytest.raises(InputError, match="CLPL cannot learn from instance labels"):
        fit_source(CLPL(), source, use_known=True)
    with pytest.raises(InputError, match="has no instance labels"):
        fit_source(tight(), BagSource.from_dataset(replace(data, instance_labels=None)), use_known=True)
    with pytest.raises(InputError, match="CalibratedAnnotator fits again on folds in memory"):
        fit_source(CalibratedAnnotator(tight()), source)
    X = data.bags.instances.copy()
    X[data.bags.offsets[12] + 1, 3] = np.nan
    broken = BagSource.from_dataset(replace(data, bags=Bags(X, data.bags.offsets)), piece_bags=9)
    with pytest.raises(InputError, match=r"piece 2 of 5: .*contains NaN .* in bag 3, row 1 of that bag, feature 3"):
        fit_source(standard(tight()), broken)
    with pytest.raises(InputError, match=r"piece 2 of 5: .*contains NaN .* in bag 3, row 1 of that bag, feature 3"):
        fit_source(tight(), broken)


def test_a_file_that_changes_during_the_fit(tmp_path):
    write_dataset(made(), tmp_path / "a.parquet")
    source = BagSource.from_parquet(tmp_path / "a.parquet", memory=60_000)

    def meddling(iteration, objective):
        if iteration == 3:
            (tmp_path / "a.parquet").unlink()

    model = standard(tight())
    with pytest.raises(FormatError, match=r"a.parquet, piece 1 of \d+ .* cannot be read any more"):
        fit_source(model, source, callback=meddling)
    assert not hasattr(final_step(model), "coef_")


# -- support instance machines ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("piece_bags", PIECES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aggregation": "max"},
        {"aggregation": "mean", "loss": "hamming"},
        {"aggregation": "max", "loss": "hamming", "restart": "last"},
        {"aggregation": "max", "solver": "cccp", "max_steps": 60},
    ],
    ids=str,
)
def test_machines_by_pieces_are_those_in_memory(settings, piece_bags):
    data = made(seed=3, unlabelled=True)
    machine = SupportInstanceMachine(alpha=1e-4, n_phases=3, n_steps=25, **settings)
    here, there = (make_pipeline(PerInstance(CLPLScaler()), clone(machine)) for _ in range(2))
    fit_dataset(here, data)
    fit_source(there, BagSource.from_dataset(data, piece_bags=piece_bags))
    a, b = final_step(here), final_step(there)
    assert (a.n_iter_, a.converged_) == (b.n_iter_, b.converged_)
    np.testing.assert_allclose(b.objective_history_, a.objective_history_, rtol=1e-9)
    np.testing.assert_allclose(b.coef_, a.coef_, rtol=0, atol=1e-9 * np.abs(a.coef_).max())


def test_a_machine_goes_on_from_its_checkpoint(tmp_path):
    data, seen = made(seed=4), []
    source = BagSource.from_dataset(data, piece_bags=7)
    machine = SupportInstanceMachine(alpha=0.1, n_phases=4, n_steps=5)
    whole = fit_source(clone(machine), source)

    def stop(phase, objective):
        seen.append(phase)
        if phase == 2:
            raise KeyboardInterrupt

    state = partial(Checkpoint, tmp_path / "state", source_identity(machine, source), 0.0)
    with pytest.raises(KeyboardInterrupt):
        fit_source(clone(machine), source, checkpoint=state(), callback=stop)
    again = fit_source(clone(machine), source, checkpoint=state(), callback=lambda phase, _: seen.append(phase))
    assert seen == [1, 2, 3, 4]
    np.testing.assert_array_equal(again.coef_, whole.coef_)


def test_what_a_machine_warns_of_it_warns_of_by_pieces_too():
    data = made(seed=5)
    full = np.where(np.arange(len(data))[:, None] == 3, 1, data.Y)
    with pytest.warns(InfeasibleBagWarning, match="1 of 40 bags carry no label or every one of the 5"):
        fit_source(
            SupportInstanceMachine(alpha=0.1, n_phases=1, n_steps=2), BagSource.from_dataset(replace(data, Y=full))
        )
    with pytest.warns(ConvergenceWarning, match="is too small for features of this scale"):
        fit_source(SupportInstanceMachine(alpha=1e-4, n_phases=2, n_steps=2), BagSource.from_dataset(data))
    with pytest.raises(InputError, match="make steps overflow"):
        fit_source(SupportInstanceMachine(alpha=1e-300), BagSource.from_dataset(data))


def test_evaluate_where_a_class_is_in_no_training_bag():
    data = made(seed=6, n_bags=20)
    rare = np.zeros(20, dtype=int)
    rare[3] = 1
    data = replace(data, Y=np.column_stack([data.Y, rare]), class_names=[*data.class_names, "rare"])
    source = BagSource.from_dataset(data, piece_bags=6)
    records = evaluate_source(tight(tol=1e-3), source, cv=4)
    expected = evaluate(tight(tol=1e-3), data, cv=4)
    for one, other in zip(records, expected, strict=True):
        assert {*one} == {*other}
        for measure in ("accuracy", "hamming_loss", "ranking_loss", "coverage", "average_precision", "one_error"):
            assert one[measure] == pytest.approx(other[measure], abs=1e-9)
    by_sample = evaluate_source(ORedForest(5, n_rounds=1, n_round_trees=4, random_state=0), source, cv=4)
    assert [np.isfinite(record["ranking_loss"]) for record in by_sample] == [True] * 4
    with pytest.raises(InputError, match="mode='both' is not known"):
        evaluate_source(tight(), source, "both")
    with pytest.raises(InputError, match="carries no bag labels"):
        evaluate_source(tight(), BagSource.from_dataset(replace(data, Y=None, labelled=None)))
