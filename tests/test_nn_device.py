"""A fit on a device of torch against the same fit by compiled code; the device is the processor here."""

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")

import bagwise  # noqa: E402
from bagwise import Absent, OneOf, ORedLogisticRegression  # noqa: E402
from bagwise.annotation.objective import ORedObjective  # noqa: E402
from bagwise.core.bags import Bags  # noqa: E402
from bagwise.core.exceptions import InputError  # noqa: E402
from bagwise.core.validation import as_evidence  # noqa: E402
from bagwise.datasets import make_gaussian_bags  # noqa: E402
from bagwise.nn import device as device_room  # noqa: E402
from bagwise.nn.device import DeviceObjective  # noqa: E402
from bagwise.union import LabelNoise, UnionProblem  # noqa: E402


def random_problem(seed):
    rng = np.random.default_rng(seed)
    n_bags, n_classes, n_features = rng.integers(2, 12), rng.integers(2, 7), rng.integers(1, 5)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, n_bags))])
    background = rng.random() < 0.5
    n_columns = int(n_classes + background)
    X, weights = rng.normal(size=(offsets[-1], n_features)), 2.0 * rng.normal(size=(n_columns, n_features + 1))
    labels = rng.integers(0, n_columns, len(X))
    Y = np.zeros((n_bags, n_columns), dtype=int)
    for b in range(n_bags):
        Y[b, labels[offsets[b] : offsets[b + 1]]] = 1
    known = np.where(rng.random(len(X)) < 0.3, labels, -1) if rng.random() < 0.5 else None
    relaxed = rng.random(n_bags) < 0.2 if rng.random() < 0.3 else None
    rates = None
    if rng.random() < 0.5:
        missed, spurious = (np.full(n_columns, rng.random() * 0.4 * rng.integers(0, 2)) for _ in range(2))
        if background:
            missed[-1] = spurious[-1] = 0.0
        rates = LabelNoise(missed, spurious) if missed.any() or spurious.any() else None
    given = Y
    if rng.random() < 0.4:  # more is said of some bags than a list
        values = Y.astype(float)
        some = rng.random(Y.shape) < 0.3
        some[:, int(n_classes) :] = False
        values[some & (Y == 1)] = rng.choice([np.nan, 0.7, np.inf], int(np.sum(some & (Y == 1))))
        values[some & (Y == 0)] = rng.choice([np.nan, 0.3, -np.inf], int(np.sum(some & (Y == 0))))
        share = 0.3 if seed % 3 else 0.0  # groups that overlap cannot be propagated
        one = [[[*np.flatnonzero(row)[:1].tolist(), 0, 1]] if rng.random() < share else [] for row in Y[:, :n_classes]]
        values[:, :2] = np.where(values[:, :2] == -np.inf, 0.0, values[:, :2])
        given, relaxed = as_evidence(values, one), None
    problem = UnionProblem.build(offsets, given, int(n_classes) if background else None, known, relaxed)
    return X, problem, weights, rates


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("budget", [1 << 21, 40])
def test_value_gradient_and_statistics_are_those_of_the_compiled_code(seed, budget, monkeypatch):
    """Of every kind of bag, in large chunks and in chunks of a bag or two; some bags have too many labels for it."""
    monkeypatch.setitem(device_room.BUDGETS, "cpu", budget)
    X, problem, weights, rates = random_problem(seed)
    most = 2 if seed % 3 == 0 else 16
    here = ORedObjective(X, problem, l2=0.3, method="auto", max_exact_labels=most, rates=rates)
    there = DeviceObjective(X, problem, len(weights), device="cpu", l2=0.3, max_exact_labels=most, rates=rates)
    (value, gradient), (found, slope) = here.value_and_gradient(weights), there.value_and_gradient(weights)
    assert np.isclose(found, value, rtol=1e-11) or found == value == -np.inf
    assert np.allclose(slope, gradient, atol=1e-10)
    if rates is not None:  # of known instances the two count different things, whose slope is the same
        slopes = [
            (unnoticed - rates.missed[0] * (noticed + unnoticed), pull)
            for noticed, unnoticed, pull in (there.statistics.sum(axis=0), here.statistics.sum(axis=0))
        ]
        assert np.allclose(*slopes, rtol=1e-9, atol=1e-9)


def fitted(device, data, known=None, **settings):
    model = ORedLogisticRegression(device=device, tol=1e-9, max_iter=2000, **settings)
    return model.fit(data.bags, data.Y, instance_labels=known)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"background": True},
        {"background": True, "background_share": 0.2},
        {"missed": 0.1, "spurious": 0.02},
        {"missed": "learn", "spurious": "learn"},
        {"on_infeasible": "relax"},
        {"prune": 0.2},
    ],
    ids=str,
)
def test_fits_are_the_same(settings):
    data = make_gaussian_bags(n_bags=60, n_classes=5, random_state=1)
    here, there = fitted(None, data, **settings), fitted("cpu", data, **settings)
    assert np.allclose(here.objective_history_[-1], there.objective_history_[-1], rtol=1e-10)
    for name in ("coef_", "intercept_", "missed_", "spurious_"):
        assert np.allclose(getattr(here, name), getattr(there, name), atol=2e-5), name


def test_known_instances_enter():
    data = make_gaussian_bags(n_bags=60, n_classes=5, random_state=2)
    known = Bags(np.where(np.arange(data.bags.n_instances) % 3, -1, data.instance_labels.instances), data.bags.offsets)
    here, there = fitted(None, data, known), fitted("cpu", data, known)
    assert np.allclose(here.coef_, there.coef_, atol=2e-5)
    assert not np.allclose(fitted("cpu", data).coef_, there.coef_, atol=1e-2)


def test_what_is_said_beyond_lists_enters():
    data = make_gaussian_bags(n_bags=60, n_classes=5, random_state=2)
    sets = [{*np.flatnonzero(row).tolist()} for row in data.Y]
    for bag in range(0, 60, 3):
        first, *rest = sorted(sets[bag])
        sets[bag] = {*rest, OneOf(first, (first + 1) % 5), *({Absent((first + 2) % 5)} - set(map(Absent, rest)))}
    settings = {"tol": 1e-9, "max_iter": 2000, "background": True}
    here, there = (ORedLogisticRegression(device=d, **settings).fit(data.bags, sets) for d in (None, "cpu"))
    assert np.allclose(here.coef_, there.coef_, atol=2e-5)


def test_single_precision_instances_give_sums_of_double_precision():
    data = make_gaussian_bags(n_bags=60, n_classes=5, random_state=3)
    single = Bags(data.bags.instances.astype(np.float32), data.bags.offsets)
    double = Bags(single.instances.astype(np.float64), data.bags.offsets)
    model = ORedLogisticRegression(device="cpu", tol=1e-9)
    assert np.allclose(model.fit(single, data.Y).coef_.copy(), model.fit(double, data.Y).coef_, atol=1e-12)


def test_the_model_is_the_same_object_without_torch(tmp_path):
    data = make_gaussian_bags(n_bags=40, random_state=4)
    model = fitted("cpu", data)
    assert isinstance(model.coef_, np.ndarray)
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    assert again.device == "cpu"
    assert np.array_equal(again.predict_instances(data.bags), model.predict_instances(data.bags))


def test_a_checkpoint_and_a_callback_go_with_it(tmp_path):
    from bagwise.io.checkpoint import Checkpoint

    data = make_gaussian_bags(n_bags=40, random_state=5)
    heard = []
    checkpoint = Checkpoint(tmp_path, {"of": "a test"}, 0.0)
    model = ORedLogisticRegression(device="cpu").fit(
        data.bags, data.Y, callback=lambda i, value: heard.append(value), checkpoint=checkpoint
    )
    assert np.allclose(heard, model.objective_history_[1:])


def test_bad_input_is_named():
    data = make_gaussian_bags(n_bags=20, random_state=6)
    for device, words in (("tpu", "device='tpu'"), ("meta", "cannot be used here")):
        with pytest.raises(InputError, match=words):
            fitted(device, data)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device='cuda' cannot be used"):
            fitted("cuda", data)
    with pytest.raises(InputError, match="sparse"):
        ORedLogisticRegression(device="cpu").fit(Bags(sp.csr_array(data.bags.instances), data.bags.offsets), data.Y)
    for settings in ({"solver": "em"}, {"inference": "forward-backward"}):
        with pytest.raises(InputError, match="needs solver='lbfgs'"):
            ORedLogisticRegression(device="cpu", **settings).fit(data.bags, data.Y)


def test_out_of_memory_says_how_much_was_needed():
    with (
        pytest.raises(bagwise.core.exceptions.MemoryLimitError, match="3.0 GiB"),
        device_room.device_memory(torch.device("cpu"), 3 * 2**30),
    ):
        raise torch.cuda.OutOfMemoryError
