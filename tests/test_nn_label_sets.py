"""Networks whose instances have any number of labels: against the compiled noisy-or, a linear model and enumeration."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.metrics import average_precision_score
from sklearn.utils.estimator_checks import check_estimator

torch = pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")

import bagwise  # noqa: E402
from bagwise import Absent, Bags, Certain, OneOf, Possible  # noqa: E402
from bagwise.annotation import NoisyOrLogisticRegression  # noqa: E402
from bagwise.annotation.noisy_or import NoisyOrObjective  # noqa: E402
from bagwise.annotation.noisy_or_problem import NoisyOrProblem, log_odds  # noqa: E402
from bagwise.annotation.rates import RateParameters  # noqa: E402
from bagwise.calibration import CalibratedLabelSets  # noqa: E402
from bagwise.catalog import make_model  # noqa: E402
from bagwise.core.exceptions import InputError  # noqa: E402
from bagwise.core.validation import Evidence, as_evidence  # noqa: E402
from bagwise.datasets import make_gaussian_bags  # noqa: E402
from bagwise.nn import ORedNetwork, device  # noqa: E402
from bagwise.nn._heads import AnyLabels  # noqa: E402
from bagwise.nn.device_noisy_or import DeviceNoisyOr  # noqa: E402
from bagwise.pipeline import bag_tags  # noqa: E402
from bagwise.scale import BagSource, fit_source  # noqa: E402
from bagwise.union import LabelNoise  # noqa: E402
from expected_failures import weights_differ  # noqa: E402
from test_annotation_noisy_or import enumerated_bag, made_windows  # noqa: E402

SMALL = {"hidden": (16,), "n_members": 3, "epochs": 30, "learning_rate": 0.02, "random_state": 0}
ANY = {**SMALL, "labels_per_instance": "any"}


def said(seed, groups=True):
    rng = np.random.default_rng(seed)
    sizes, n_classes = rng.integers(1, 4, 5), 4
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = rng.choice([0.0, 1.0, np.nan, 0.2, 0.8, np.inf], (5, n_classes))
    of_bags = [[[0, 1], [1, 3]] if groups and rng.random() < 0.5 else [] for _ in range(5)]
    noise = LabelNoise(rng.uniform(0, 0.6, n_classes), rng.uniform(0, 0.4, n_classes)) if seed % 2 else None
    return rng, offsets, as_evidence(values, of_bags), of_bags, noise


@pytest.mark.parametrize("seed", range(10))
def test_the_likelihood_of_tensors_is_that_of_enumeration_and_so_is_its_gradient(seed):
    """Of every kind of evidence, with rates and groups; each member of a batch for itself."""
    rng, offsets, given, groups, noise = said(seed)
    scores = torch.tensor(rng.normal(scale=2.0, size=(offsets[-1], 4)), requires_grad=True)
    head, weights = AnyLabels(NoisyOrProblem(offsets, given)), torch.tensor(rng.normal(size=5))
    found = head.log_likelihood(scores, noise)
    (weights * found).sum().backward()
    values = given.values if isinstance(given, Evidence) else given.astype(float)
    zeros = np.zeros(4)
    rates = (zeros, zeros) if noise is None else (noise.missed, noise.spurious)

    def enumerated(odds):
        proba, of_rows = expit(odds), [slice(*pair) for pair in itertools.pairwise(offsets)]
        each = [enumerated_bag(proba[rows], values[b], groups[b], *rates) for b, rows in enumerate(of_rows)]
        return np.array([np.log(total) for total, *_ in each]), np.concatenate([carried for _, carried, _ in each])

    odds = scores.detach().numpy()
    expected, posterior = enumerated(odds)
    assert_allclose(found.detach().numpy(), expected, rtol=1e-10, atol=1e-10)
    by_row = np.repeat(weights.numpy(), np.diff(offsets))[:, None]
    assert_allclose(scores.grad.numpy(), by_row * (posterior - expit(odds)), atol=1e-9)
    twice, rows = head.part(np.array([3, 0, 3]))
    again = twice.log_likelihood(scores.detach()[torch.as_tensor(rows)], noise)
    assert_allclose(again.numpy(), expected[[3, 0, 3]], rtol=1e-10, atol=1e-10)


def test_under_a_posterior_instances_have_the_cross_entropy_of_their_labels():
    scores, posterior = torch.randn(2, 5, 3, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64)
    expected = -torch.nn.functional.binary_cross_entropy_with_logits(
        scores, posterior.expand(2, -1, -1), reduction="none"
    ).sum(dim=2)
    assert torch.allclose(AnyLabels.expected(posterior, scores), expected)


def test_a_linear_network_ends_where_noisy_or_logistic_regression_does():
    bags, Y, _ = made_windows(1.0, n_bags=250, size=4, n_classes=4, noise=3.0)
    line = NoisyOrLogisticRegression(l2=1e-6, max_iter=5000, tol=1e-7).fit(bags, Y)
    network = ORedNetwork(
        hidden=(), n_members=1, labels_per_instance="any", n_rounds=0, dropout=0.0, held_out=0.0, weight_decay=0.0,
        epochs=1500, learning_rate=0.1, batch_instances=10_000, random_state=0,
    ).fit(bags, Y)  # fmt: skip
    best = line.objective_history_[-1] / len(bags)
    assert best < -0.3
    assert best - 1e-3 < network.objective_history_[-1] <= best + 1e-4
    assert_allclose(network.predict_instances_proba(bags), line.predict_instances_proba(bags), atol=0.01)


def test_prediction_without_torch_is_that_of_the_networks_and_all_answers_follow_from_it(tmp_path):
    bags, Y, _ = made_windows(1.0, n_bags=80, size=6, n_classes=4)
    model = ORedNetwork(**ANY).fit(bags, Y)
    proba = model.predict_instances_proba(bags)
    odds, problem = log_odds(proba), NoisyOrProblem(bags.offsets, Y)
    assert_allclose(model.instance_decision_function(bags), odds)
    posterior = odds.copy()
    problem.infer(posterior)
    assert_allclose(model.annotate_proba(bags, Y), posterior, atol=1e-9)
    assert_array_equal(model.annotate_sets(bags, Y), posterior > 0.5)
    assert_array_equal(model.predict_instance_sets(bags), proba > 0.5)
    assert_array_equal(model.predict_instances(bags), proba.argmax(axis=1))
    some = Y.any(axis=1)[bags.bag_index]
    assert_array_equal(
        model.annotate(bags, Y)[some], np.where(Y[bags.bag_index] == 1, posterior, -1)[some].argmax(axis=1)
    )
    absent = np.multiply.reduceat(1.0 - proba, bags.offsets[:-1])
    assert_allclose(model.predict_proba(bags), 1.0 - absent, atol=1e-9)
    assert_array_equal(model.predict(bags), absent < 0.5)
    assert_allclose(model.background_proba(bags), np.prod(1.0 - proba, axis=1), atol=1e-9)
    assert_allclose(model.label_posterior(bags, Y), problem.presence(odds), atol=1e-9)
    bagwise.save(model, tmp_path / "network.bagwise")
    again = bagwise.load(tmp_path / "network.bagwise")
    assert again.labels_per_instance_ == "any"
    assert_array_equal(again.annotate_proba(bags, Y), model.annotate_proba(bags, Y))
    members = [torch.sigmoid(_scores(model.layers_, bags.instances, e)).numpy() for e in range(3)]
    assert_allclose(np.mean(members, axis=0), proba, atol=1e-5)


def _scores(layers, X, e):
    hidden = torch.as_tensor(X, dtype=torch.float32)
    for i, (weight, bias) in enumerate(layers):
        hidden = torch.nn.functional.gelu(hidden) if i else hidden
        hidden = hidden @ torch.as_tensor(weight[e]) + torch.as_tensor(bias[e])
    return hidden


def test_it_learns_what_a_line_cannot():
    """Two sounds, each of which is one of two points that lie on either side of where there is none."""
    rng = np.random.default_rng(0)
    carried = rng.random((1200, 2)) < 0.3
    sides = np.where(rng.random((1200, 2)) < 0.5, -2.0, 2.0)
    bags = Bags(np.where(carried, sides, 0.0) + 0.3 * rng.normal(size=(1200, 2)), np.arange(0, 1201, 3))
    Y = np.logical_or.reduceat(carried, bags.offsets[:-1])
    network = ORedNetwork(**{**ANY, "epochs": 60}).fit(bags, Y)
    line = NoisyOrLogisticRegression().fit(bags, Y)
    precision = [
        average_precision_score(carried, model.predict_instances_proba(bags), average="micro")
        for model in (network, line)
    ]
    assert precision[0] > 0.97
    assert precision[1] < 0.7


def test_known_instances_weights_rates_evidence_calibration_and_checkpoints_go_together(tmp_path):
    bags, Y, truth = made_windows(1.0, n_bags=80, size=6, n_classes=4)
    known = np.full(truth.shape, np.nan)
    known[::5] = truth[::5]
    sets = [
        {Certain(c) if c % 2 else c for c in np.flatnonzero(row).tolist()}
        | {Absent(c) for c in np.flatnonzero(row == 0)[:1].tolist()}
        for row in Y
    ]
    sets[0] = {OneOf(0, 1), Possible(2)}
    kept = Bags(known, bags.offsets)
    kept.instances[bags.bag_index == 0] = np.nan
    settings = {**ANY, "missed": "learn", "spurious": 0.02, "warm_start": True}
    weights = np.where(np.arange(80) % 7 == 3, 0.0, 1.0)
    model = ORedNetwork(**settings).fit(bags, sets, instance_labels=kept, sample_weight=weights)
    assert 0.0 < model.missed_ < 0.5
    found = model.find(bags, sets, kept).proba
    assert_array_equal(found[known == 1], 1.0)
    assert not found[(kept.instances == 0)].any()
    left_out = ORedNetwork(**settings).fit(
        bags[weights > 0], [labels for labels, w in zip(sets, weights, strict=True) if w], kept[weights > 0]
    )
    assert_allclose(left_out.layers_[0][0], model.layers_[0][0])
    calibrated = CalibratedLabelSets(make_model("noisy-or-network", **SMALL), cv=2).fit(bags, sets)
    assert calibrated.annotate_sets(bags, sets).shape == truth.shape

    from bagwise.io.checkpoint import Checkpoint

    class Stop(Exception):
        pass

    def stop(number, value):
        if number == 40:
            raise Stop

    settings = {**settings, "warm_start": False, "missed": 0.1}
    for _ in range(2):
        checkpoint = Checkpoint(tmp_path, {"of": "a test"}, 0.0)
        try:
            halted = ORedNetwork(**settings).fit(bags, sets, callback=stop, checkpoint=checkpoint)
        except Stop:
            stop = None
    whole = ORedNetwork(**settings).fit(bags, sets)
    assert_array_equal(halted.layers_[0][0], whole.layers_[0][0])


def test_rates_are_found_from_scores_that_did_not_see_the_bags():
    """Bags drawn from the model itself, with rates; scores that are half as sure are sharpened on the way."""
    rng = np.random.default_rng(0)
    odds = rng.normal(-1.5, 2.0, size=(6000, 3))
    noticed = (rng.random(odds.shape) < expit(odds)) & (rng.random(odds.shape) < 0.7)
    offsets = np.arange(0, 6001, 4)
    Y = np.logical_or.reduceat(noticed, offsets[:-1])
    Y = (Y | (rng.random(Y.shape) < 0.05)).astype(np.uint8)
    parameters = RateParameters.of("learn", "learn", 3)
    head = AnyLabels(NoisyOrProblem(offsets, Y))
    found = head.learn_rates(parameters, torch.as_tensor(0.5 * odds), parameters.start({}), np.ones(len(Y)))
    rates = parameters.values(found)
    assert abs(rates["missed"] - 0.3) < 0.05
    assert abs(rates["spurious"] - 0.05) < 0.02


def test_what_does_not_go_with_it_is_refused():
    bags, Y, truth = made_windows(1.0, n_bags=20, size=4, n_classes=4)
    for settings in ({"background": True}, {"background_share": 0.2}, {"n_estimators": 5}):
        with pytest.raises(InputError, match="needs labels_per_instance='one'"):
            ORedNetwork(**ANY, **settings).fit(bags, Y)
    with pytest.raises(InputError, match="labels_per_instance"):
        ORedNetwork(labels_per_instance="two").fit(bags, Y)
    wrong = np.full(truth.shape, np.nan)
    bag, label = np.argwhere(Y == 0)[0]
    wrong[bags.offsets[bag], label] = 1.0
    with pytest.raises(InputError, match="does not list"):
        ORedNetwork(**ANY).fit(bags, Y, Bags(wrong, bags.offsets))
    one = ORedNetwork(**{**SMALL, "epochs": 1})
    assert not hasattr(one, "annotate_sets")
    assert bag_tags(ORedNetwork(**ANY)).label_sets
    assert not bag_tags(one).label_sets
    fitted = one.fit(*(lambda data: (data.bags, data.Y))(make_gaussian_bags(n_bags=20, random_state=0)))
    fitted.labels_per_instance = "any"
    assert not hasattr(fitted, "annotate_sets")  # what it has learned stays what it is


def test_check_estimator():
    model = ORedNetwork(
        hidden=(8,), n_members=2, labels_per_instance="any", epochs=30, learning_rate=0.03, dropout=0.0,
        batch_instances=10_000, n_rounds=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        expected = weights_differ("other bags are held out of repeated ones, and floats have seven digits")
        results = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert len(results) > 40
    assert not [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]


@pytest.mark.parametrize("settings", [{}, {"background": True}, {"missed": 0.1, "spurious": 0.05}], ids=str)
def test_a_network_of_one_label_each_takes_what_is_said_beyond_lists(settings):
    data = make_gaussian_bags(n_bags=80, n_classes=4, separation=6.0, random_state=0)
    values = data.Y.astype(float)
    rng = np.random.default_rng(0)
    some = rng.random(values.shape) < 0.4
    values[some & (data.Y == 1)] = rng.choice([np.nan, 0.9, 1.0, np.inf], int(np.sum(some & (data.Y == 1))))
    values[some & (data.Y == 0)] = rng.choice([np.nan, 0.1, 0.0, -np.inf], int(np.sum(some & (data.Y == 0))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little is said of few bags
        model = ORedNetwork(**SMALL, **settings).fit(data.bags, values)
    assert np.mean(model.predict_instances(data.bags) == data.instance_labels.instances) > 0.85
    plain = ORedNetwork(**SMALL, **settings)
    as_lists, floats = (plain.fit(data.bags, Y).layers_[0][0].copy() for Y in (data.Y, data.Y.astype(float)))
    assert_array_equal(as_lists, floats)
    certain = np.where(data.Y == 1, np.inf, -np.inf)
    if not settings:
        assert_allclose(plain.fit(data.bags, certain).layers_[0][0], as_lists, atol=1e-3)


def test_faces_with_candidate_names_are_learned():
    rng = np.random.default_rng(0)
    data = make_gaussian_bags(n_bags=80, n_classes=4, separation=6.0, random_state=0)
    truth, bags = data.instance_labels.instances, Bags(data.bags.instances, np.arange(data.bags.n_instances + 1))
    sets = [{OneOf(int(y), int((y + rng.integers(1, 4)) % 4))} if i % 3 else {int(y)} for i, y in enumerate(truth)]
    for more in ({}, {"labels_per_instance": "any"}):
        model = ORedNetwork(**SMALL, **more).fit(bags, sets)
        assert np.mean(model.predict_instances(bags) == truth) > 0.9


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("budget", [1 << 21, 30])
def test_a_device_computes_what_compiled_code_does(seed, budget, monkeypatch):
    """Value, gradient and statistics, of every kind of evidence, with groups, rates, weights, known instances."""
    monkeypatch.setitem(device.BUDGETS, "cpu", budget)
    rng, offsets, given, _, noise = said(seed)
    bags = Bags(rng.normal(size=(offsets[-1], 3)), offsets)
    known = rng.choice([-1, -1, -1, 0, 1], (offsets[-1], 4)).astype(np.int8) if seed % 3 else None
    counts = rng.uniform(0.5, 2.0, len(bags)) if seed % 4 else None
    scale = 400.0 if seed % 5 == 0 else 1.0  # where probabilities underflow, their ratios count
    weights = rng.normal(scale=scale, size=(4, 4))
    options = {"l2": 0.3, "rates": noise, "weights": counts}
    here = NoisyOrObjective(bags, given, known, **options)
    there = DeviceNoisyOr(bags, given, known, device="cpu", **options)
    with np.errstate(all="ignore"):
        (value, gradient), (found, slope) = here.value_and_gradient(weights), there.value_and_gradient(weights)
    assert np.isclose(found, value, rtol=1e-11) or found == value == -np.inf
    assert_allclose(slope, gradient, atol=1e-9)
    if noise is not None and np.isfinite(value):
        assert_allclose(there.statistics.sum(axis=0), here.statistics.sum(axis=0), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("settings", [{}, {"missed": "learn", "spurious": "learn"}, {"missed": 0.1}], ids=str)
def test_fits_on_a_device_are_the_same(settings):
    bags, Y, truth = made_windows(1.0, n_bags=80, size=6, n_classes=4, noise=2.0)
    known = np.where(np.arange(len(truth))[:, None] % 7, np.nan, truth)
    weights = 1.0 + np.arange(80) % 2
    here, there = (
        NoisyOrLogisticRegression(device=where, tol=1e-9, max_iter=2000, **settings).fit(
            bags, Y, Bags(known, bags.offsets), sample_weight=weights
        )
        for where in (None, "cpu")
    )
    for name in ("coef_", "intercept_", "missed_", "spurious_"):
        assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-4, atol=2e-5)
    with pytest.raises(InputError, match="sparse"):
        there.fit(Bags(sp.csr_array(bags.instances), bags.offsets), Y)
    with pytest.raises(InputError, match="device='tpu'"):
        there.set_params(device="tpu").fit(bags, Y)
    with pytest.raises(InputError, match="device='cpu' holds all instances at once"):
        fit_source(NoisyOrLogisticRegression(device="cpu"), BagSource.from_dataset(bagwise.BagDataset(bags, Y)))
