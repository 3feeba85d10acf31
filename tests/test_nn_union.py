"""The union likelihood of tensors against union inference by compiled code, and against brute force."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")

from bagwise.core.exceptions import InputError  # noqa: E402
from bagwise.nn import UnionLikelihoodLoss, _inference, _union, union_log_likelihood  # noqa: E402
from bagwise.union import union_posterior  # noqa: E402


@pytest.fixture(autouse=True)
def _device_code(monkeypatch):
    """The code of devices, which a processor would leave to the compiled one."""
    monkeypatch.setattr(_union, "compiled_is_faster", lambda device, n_entries: False)


def random_bags(seed):
    """Bags of any kind: background or not, known instances or not, rates or not, ordinary or hostile priors."""
    rng = np.random.default_rng(seed)
    hostile, background, known, rates = rng.integers(0, 2, 4).astype(bool)
    n_bags, n_columns = rng.integers(1, 6), rng.integers(2, 8)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, n_bags))])
    proba = rng.dirichlet(np.full(n_columns, 0.02 if hostile else 0.3), offsets[-1])
    proba = np.maximum(proba, 1e-12 if hostile else 1e-6)
    proba *= rng.uniform(0.5, 1.0, (len(proba), 1)) / proba.sum(axis=1, keepdims=True)
    labels = rng.integers(0, n_columns, len(proba))
    Y = np.zeros((n_bags, n_columns), dtype=int)
    for b in range(n_bags):
        Y[b, labels[offsets[b] : offsets[b + 1]]] = 1
    options = {}
    if seed % 3 == 0:  # more is said of some bags than a list
        Y = np.where(rng.random(Y.shape) < 0.2, rng.choice([np.nan, 0.4, np.inf], Y.shape), Y)
    if background:
        options["background"] = int(n_columns - 1)
        Y[:, -1] = 0
    if known:
        options["known"] = np.where(rng.random(len(proba)) < 0.3, labels, -1)
    if rates:
        one_a_class = rng.random(n_columns) * 0.5 * rng.integers(0, 2, n_columns)
        options["missed"] = one_a_class if rng.random() < 0.4 else rng.random() * 0.5 * rng.integers(0, 2)
        options["spurious"] = rng.random() * 0.3 * rng.integers(0, 2)
    return proba, offsets, Y, options


def value_and_gradient(proba, offsets, Y, **options):
    logs = torch.tensor(np.log(proba), requires_grad=True)
    value = union_log_likelihood(logs, offsets, Y, **options)
    value[value > -torch.inf].sum().backward()
    return value.detach().numpy(), logs.grad.numpy()


def check_against_compiled(proba, offsets, Y, options, tolerance=1e-10, **more):
    expected, posterior = union_posterior(proba, offsets, Y, **options, **more)
    value, gradient = value_and_gradient(proba, offsets, Y, **options, **more)
    possible = np.isfinite(expected)
    assert (np.isfinite(value) == possible).all()
    assert np.allclose(value[possible], expected[possible], rtol=tolerance, atol=tolerance)
    rows = np.repeat(possible, np.diff(offsets))
    assert np.abs(gradient[rows] - posterior[rows]).max(initial=0.0) < tolerance
    assert not gradient[~rows].any()


@pytest.mark.parametrize("seed", range(200))
def test_it_is_the_compiled_one(seed):
    *bags, options = random_bags(seed)
    check_against_compiled(*bags, options)


@pytest.mark.parametrize("seed", range(40))
def test_on_a_processor_the_compiled_code_does_it(seed, monkeypatch):
    monkeypatch.setattr(_union, "compiled_is_faster", lambda device, n_entries: True)
    *bags, options = random_bags(seed)
    check_against_compiled(*bags, options)


@pytest.mark.parametrize("seed", range(60))
def test_forward_backward_is_the_compiled_one_too(seed, monkeypatch):
    """With no sum certified."""
    monkeypatch.setattr(_inference, "ERROR_BOUND", 0.0)
    *bags, options = random_bags(seed)
    check_against_compiled(*bags, options)


@pytest.mark.parametrize("seed", range(20))
def test_small_portions_give_the_same(seed, monkeypatch):
    monkeypatch.setattr(_inference, "ERROR_BOUND", 0.0)
    monkeypatch.setattr(_inference, "PORTION", 1)
    *bags, options = random_bags(seed)
    check_against_compiled(*bags, options)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore::bagwise.core.exceptions.ApproximationWarning")
def test_bags_of_too_many_labels_are_inferred_as_by_the_compiled_code(seed):
    *bags, options = random_bags(seed)
    check_against_compiled(*bags, options, max_exact_labels=2)


@pytest.mark.parametrize("seed", range(20))
def test_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, n_columns = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    proba = rng.dirichlet(np.ones(n_columns), n)
    Y = np.zeros((1, n_columns), dtype=int)
    Y[0, rng.permutation(n_columns)[: rng.integers(1, min(n, n_columns) + 1)]] = 1
    total = sum(
        np.prod(proba[np.arange(n), labels])
        for labels in itertools.product(range(n_columns), repeat=n)
        if set(labels) == set(np.flatnonzero(Y[0]))
    )
    value, _ = value_and_gradient(proba, [0, n], Y)
    assert np.isclose(np.exp(value[0]), total, rtol=1e-12)


def test_hostile_bags_are_exact():
    """Priors of 1e-12, many labels and instances: the alternating sum would cancel to nothing."""
    for k, n in ((6, 20), (9, 100), (11, 20)):
        rng = np.random.default_rng(k)
        proba = np.full((n, k + 1), 1e-12)
        proba[np.arange(n), rng.integers(0, 3, n)] = 1.0
        Y = np.ones((1, k + 1), dtype=int)
        Y[0, -1] = 0
        check_against_compiled(proba / proba.sum(axis=1, keepdims=True), np.array([0, n]), Y, {}, tolerance=1e-9)


def test_gradcheck():
    for seed in range(8):
        proba, offsets, Y, options = random_bags(seed)
        possible = np.isfinite(union_posterior(proba, offsets, Y, **options)[0])
        if not possible.all():
            continue
        logs = torch.tensor(np.log(proba), requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: union_log_likelihood(x, offsets, Y, **options), (logs,))  # noqa: B023


def test_the_loss_of_logits_pulls_by_posterior_minus_prior():
    proba, offsets, Y, _ = random_bags(3)
    logits = torch.tensor(np.log(proba), requires_grad=True)
    UnionLikelihoodLoss()(logits, offsets, Y).backward()
    prior = torch.softmax(logits.detach(), dim=1).numpy()
    expected, posterior = union_posterior(prior, offsets, Y)
    possible = np.repeat(np.isfinite(expected), np.diff(offsets))
    pull = np.where(possible[:, None], prior - posterior, 0.0) / np.isfinite(expected).sum()
    assert np.allclose(logits.grad.numpy(), np.nan_to_num(pull), atol=1e-12)


def test_single_precision_stays_single():
    proba, offsets, Y, _ = random_bags(5)
    logs = torch.tensor(np.log(proba), dtype=torch.float32, requires_grad=True)
    value = union_log_likelihood(logs, torch.tensor(offsets), torch.tensor(Y))
    value.sum().backward()
    assert value.dtype == logs.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log_proba": np.zeros((3, 2))}, "tensor"),
        ({"offsets": [0, 4]}, "offsets"),
        ({"Y": [[1, 1, 0]]}, "Y has shape"),
        ({"background": 7}, "background=7"),
        ({"known": [5, -1, -1]}, "known"),
        ({"missed": 1.0}, "missed"),
        ({"spurious": [0.1]}, "spurious has shape"),
    ],
)
def test_bad_input_is_named(change, words):
    good = {"log_proba": torch.zeros(3, 2), "offsets": [0, 3], "Y": [[1, 1]]}
    with pytest.raises(InputError, match=words):
        union_log_likelihood(**{**good, **change})
