"""Networks under the union likelihood: the training loop against plain torch, the estimator against its contract."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

torch = pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")

import bagwise  # noqa: E402
from bagwise.catalog import make_model  # noqa: E402
from bagwise.core.bags import Bags  # noqa: E402
from bagwise.core.exceptions import InputError  # noqa: E402  # noqa: E402
from bagwise.datasets import make_gaussian_bags  # noqa: E402
from bagwise.nn import BagLoader, ORedNetwork, UnionLikelihoodLoss, _members, _training, network  # noqa: E402
from bagwise.nn._batches import balanced_batches  # noqa: E402
from bagwise.union import union_posterior  # noqa: E402
from expected_failures import weights_differ  # noqa: E402

SMALL = {"hidden": (16,), "n_members": 3, "epochs": 15, "learning_rate": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=60, n_classes=4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return ORedNetwork(**SMALL).fit(data.bags, data.Y)


def test_members_are_networks_of_their_own():
    """The batched product against plain layers of torch with the same weights."""
    members = _members.Members(3, (5, 7, 6, 4), 0.0, torch.Generator().manual_seed(0)).eval()
    X = torch.randn(11, 5, generator=torch.Generator().manual_seed(1))
    for e in range(3):
        hidden = X
        for i, (weight, bias) in enumerate(zip(members.weights, members.biases, strict=True)):
            layer = torch.nn.Linear(*weight.shape[1:])
            layer.weight.data, layer.bias.data = weight[e].T, bias[e, 0]
            hidden = layer(torch.nn.functional.gelu(hidden) if i else hidden)
        assert torch.allclose(members(X)[e], hidden, atol=1e-6)


def test_prediction_without_torch_is_that_of_the_networks(data, model):
    members = _members.Members(3, (data.bags.n_features, 16, 4), 0.5, torch.Generator()).eval()
    members.load_arrays(model.layers_)
    with torch.no_grad():
        scores = members(torch.as_tensor(data.bags.instances, dtype=torch.float32))
        expected = torch.softmax(scores.to(torch.float64), dim=2).mean(dim=0).numpy()
    assert np.allclose(model.predict_instances_proba(data.bags), expected, atol=1e-6)


def test_annotations_are_the_exact_posterior(data, model):
    proba = model.predict_instances_proba(data.bags)
    _, posterior = union_posterior(proba, data.bags.offsets, data.Y)
    assert np.allclose(model.annotate_proba(data.bags, data.Y), posterior, atol=1e-9)


def test_it_learns_what_a_line_cannot():
    """Two rings: a linear model is at a loss, a network is not; from label sets alone."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 150)
    labels = rng.integers(0, 2, sizes.sum())
    angle = rng.uniform(0.0, 2.0 * np.pi, len(labels))
    X = np.where(labels, 3.0, 1.0)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    bags = Bags(X + 0.2 * rng.normal(size=X.shape), np.concatenate([[0], np.cumsum(sizes)]))
    Y = np.zeros((len(sizes), 2), dtype=int)
    Y[bags.bag_index, labels] = 1
    network_found = ORedNetwork(
        hidden=(32,), n_members=2, epochs=30, learning_rate=0.01, n_rounds=0, random_state=0
    ).fit(bags, Y)
    line_found = bagwise.ORedLogisticRegression().fit(bags, Y)
    assert np.mean(network_found.predict_instances(bags) == labels) > 0.9
    assert np.mean(line_found.predict_instances(bags) == labels) < 0.75


def test_the_same_seed_gives_the_same_networks_and_leaves_the_generator_of_others_alone(data, model):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    again = ORedNetwork(**SMALL).fit(data.bags, data.Y)
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(a, b) for pair, other in zip(model.layers_, again.layers_, strict=True)
               for a, b in zip(pair, other, strict=True))  # fmt: skip


def test_a_member_learns_nothing_from_the_bags_that_it_holds_out(data, monkeypatch):
    """Labels of bags that one member never sees change others, not it."""
    out = np.zeros((2, 60), dtype=bool)
    out[0, :20] = True
    monkeypatch.setattr(network, "_held_out_bags", lambda *_: out)
    monkeypatch.setattr(_training.HeldOutBags, "log_likelihoods", lambda _: np.ones(2))
    changed = data.Y.copy()
    changed[:20] = changed[:20, ::-1]
    settings = {"hidden": (8,), "n_members": 2, "epochs": 6, "dropout": 0.0, "on_infeasible": "relax", "n_rounds": 0}
    fits = [ORedNetwork(**settings, random_state=0).fit(data.bags, Y) for Y in (data.Y, changed)]
    first, second = ([layer[0] for layer in fit.layers_] for fit in fits)
    assert all(np.allclose(a[0], b[0], atol=1e-6) for a, b in zip(first, second, strict=True))
    assert not all(np.allclose(a[1], b[1], atol=1e-4) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.93])
def test_dropout_drops_its_share_of_units_each_by_itself(share):
    """By what it is to be: independent, of the share asked for, the mean kept, its gradient the same units'."""
    torch.manual_seed(0)
    units = torch.ones(3, 1001, 67, requires_grad=True)
    found = _members.dropped(units, share)
    found.sum().backward()
    mask = (found.detach() > 0).numpy().reshape(-1)
    n = mask.size
    assert abs(mask.mean() - (1 - share)) <= 5 * np.sqrt(max(share * (1 - share), 1e-12) / n)
    assert np.allclose(found.detach().numpy().reshape(-1)[mask], 1 / (1 - share), rtol=1e-3)
    assert torch.equal(units.grad, found.detach())
    if share:
        for lag in (1, 2, 3, 4, 67):  # four units have one draw
            assert abs(np.corrcoef(mask[:-lag], mask[lag:])[0, 1]) < 5 / np.sqrt(n)


def test_the_weights_of_the_best_epoch_are_kept(data, monkeypatch):
    """Each member's own: what held-out bags say is given here."""
    told = iter([[1.0, 5.0], [3.0, 4.0], [2.0, 3.0]] + [[0.0, 0.0]] * 10)
    seen = []

    def judged(held_out):
        seen.append([w.detach().clone() for w in held_out.trainer.ensemble.weights])
        return np.array(next(told))

    monkeypatch.setattr(_training.HeldOutBags, "log_likelihoods", judged)
    fitted = ORedNetwork(hidden=(8,), n_members=2, epochs=5, n_rounds=0, random_state=0).fit(data.bags, data.Y)
    assert fitted.epochs_.tolist() == [2, 1]
    assert np.array_equal(fitted.layers_[0][0][0], seen[1][0][0].numpy())
    assert np.array_equal(fitted.layers_[0][0][1], seen[0][0][1].numpy())


def test_batches_give_about_the_same_as_all_at_once(data):
    whole = ORedNetwork(**SMALL).fit(data.bags, data.Y)
    parts = ORedNetwork(**SMALL, batch_instances=60).fit(data.bags, data.Y)
    truth = data.instance_labels.instances
    accuracy = [np.mean(m.annotate(data.bags, data.Y) == truth) for m in (whole, parts)]
    assert abs(accuracy[0] - accuracy[1]) < 0.15


def test_known_instances_background_rates_and_warm_start_go_together(data):
    truth = data.instance_labels.instances
    known = Bags(np.where(np.arange(len(truth)) % 2, truth, -1), data.bags.offsets)
    fitted = ORedNetwork(**SMALL, background=True, background_share=0.1, missed=0.1, spurious=0.01, warm_start=True)
    fitted.fit(data.bags, data.Y, instance_labels=known)
    first = fitted.layers_[0][0].copy()
    total = fitted.annotate_proba(data.bags, data.Y).sum(axis=1) + fitted.background_proba(data.bags, data.Y)
    assert np.allclose(total, 1.0)
    told = known.instances >= 0
    assert np.array_equal(fitted.find(data.bags, data.Y, known).labels[told], truth[told])
    fitted.set_params(epochs=1, learning_rate=1e-9, held_out=0.0).fit(data.bags, data.Y, instance_labels=known)
    assert np.allclose(fitted.layers_[0][0], first, atol=1e-4)


def test_callback_and_history(data):
    heard = []
    fitted = ORedNetwork(**{**SMALL, "epochs": 7, "held_out": 0.0})
    fitted.fit(data.bags, data.Y, callback=lambda i, v: heard.append((i, v)))
    assert [i for i, _ in heard] == list(range(1, 15))
    assert np.allclose([v for _, v in heard], fitted.objective_history_)


def test_saved_and_loaded_it_is_the_same(data, model, tmp_path):
    bagwise.save(model, tmp_path / "network.bagwise")
    again = bagwise.load(tmp_path / "network.bagwise")
    assert np.array_equal(again.predict_proba(data.bags), model.predict_proba(data.bags))


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_weights(data):
    wild = ORedNetwork(**{**SMALL, "learning_rate": 1e30, "dropout": 0.0, "held_out": 0.0})
    with pytest.warns(UserWarning, match="no number any more at step"):
        wild.fit(data.bags, data.Y)
    assert not wild.converged_
    assert all(np.isfinite(array).all() for pair in wild.layers_ for array in pair)


def test_check_estimator():
    network_of_checks = ORedNetwork(
        hidden=(8,), n_members=2, epochs=30, learning_rate=0.03, dropout=0.0, batch_instances=10_000, n_rounds=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        expected = weights_differ("other bags are held out of repeated ones, and floats have seven digits")
        results = check_estimator(network_of_checks, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert len(results) > 40
    assert not [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]


def test_a_fitted_network_has_the_attributes_of_all_iterative_estimators(data, model):
    assert isinstance(model.n_iter_, int)
    assert type(model.converged_) is bool
    assert model.objective_history_.dtype == np.float64
    assert len(model.objective_history_) == model.n_iter_ == 2 * 15
    before = model.predict_proba(data.bags)
    copy = clone(model)
    assert not hasattr(copy, "layers_")
    assert np.array_equal(before, model.predict_proba(data.bags))


def test_the_catalogue_has_it(data):
    fitted = make_model("ored-network", hidden=(8,), n_members=1, epochs=2).fit(data.bags, data.Y)
    assert fitted.predict(data.bags).shape == data.Y.shape


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden": 5}, "hidden"), ({"hidden": (0,)}, "hidden"), ({"n_members": 0}, "n_members"),
        ({"dropout": 1.0}, "dropout"), ({"held_out": 0.9}, "held_out"), ({"learning_rate": 0.0}, "learning_rate"),
        ({"device": "tpu"}, "device"), ({"missed": 1.5}, "missed"), ({"n_rounds": -1}, "n_rounds"),
        ({"module": "cnn"}, "module"), ({"spurious": "learn", "held_out": 0.0}, "held_out=0.0"),
        ({"n_estimators": 1.5}, "n_estimators"),
    ],
)  # fmt: skip
def test_bad_settings_are_named(data, change, words):
    with pytest.raises(InputError, match=words):
        ORedNetwork(**{**SMALL, **change}).fit(data.bags, data.Y)


def test_sparse_features_are_refused(data):
    with pytest.raises(InputError, match="sparse"):
        ORedNetwork(**SMALL).fit(Bags(sp.csr_array(data.bags.instances), data.bags.offsets), data.Y)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 80), st.booleans())
def test_batches_hold_every_bag_once_and_not_too_many_instances(sizes, most, shuffled):
    sizes = np.array(sizes)
    batches = balanced_batches(sizes, most, np.random.RandomState(0) if shuffled else None)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert all(sizes[batch].sum() <= most or len(batch) == 1 for batch in batches)


def test_the_loader_serves_a_training_loop_of_ones_own(data):
    torch.manual_seed(0)
    own = torch.nn.Linear(data.bags.n_features, 4)
    optimizer, loss_of = torch.optim.Adam(own.parameters(), lr=0.05), UnionLikelihoodLoss()
    losses = []
    for _ in range(20):
        for X, offsets, Y in BagLoader(data.bags, data.Y, batch_instances=100, random_state=0):
            optimizer.zero_grad()
            loss = loss_of(own(X.to(torch.float32)), offsets, Y)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert np.mean(losses[-3:]) < 0.6 * np.mean(losses[:3])
    for arguments, words in (((data.bags, data.Y[1:]), "one row per bag"), ((data.bags, data.Y, 0), "batch_instances")):
        with pytest.raises(InputError, match=words):
            BagLoader(*arguments)


def test_the_examples_of_the_docs_learn():
    page = (Path(__file__).parents[1] / "docs" / "networks.md").read_text(encoding="utf-8")
    for code, learned in zip(
        re.findall(r"```python\n(.*?)```", page, re.DOTALL),
        (lambda names: names["model"].converged_, lambda names: float(names["loss"].detach()) < 2.5),
        strict=True,
    ):
        names = {}
        torch.manual_seed(0)
        exec(compile(code, "networks.md", "exec"), names)
        assert learned(names)
