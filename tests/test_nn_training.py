"""Training of networks: what is kept of an interrupted one, of one that breaks, of modules of anybody's; and trees."""

import numpy as np
import pytest
from scipy.special import softmax

torch = pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")

import bagwise  # noqa: E402
from bagwise.annotation.forest import _grow_tree  # noqa: E402
from bagwise.annotation.rates import RateParameters  # noqa: E402
from bagwise.calibration import CalibratedAnnotator  # noqa: E402
from bagwise.catalog import make_model  # noqa: E402
from bagwise.core.bags import Bags  # noqa: E402  # noqa: E402
from bagwise.core.exceptions import InputError  # noqa: E402
from bagwise.datasets import make_gaussian_bags  # noqa: E402
from bagwise.io.checkpoint import Checkpoint  # noqa: E402
from bagwise.kernels.forest import Forest  # noqa: E402
from bagwise.nn import ORedNetwork, _training  # noqa: E402
from bagwise.nn._heads import OneLabel  # noqa: E402
from bagwise.pipeline import bag_tags  # noqa: E402
from bagwise.union import UnionModel, union_posterior  # noqa: E402

SMALL = {"hidden": (8,), "n_members": 2, "epochs": 6, "learning_rate": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=50, n_classes=4, random_state=0)


def weights_of(model):
    if hasattr(model, "layers_"):
        return [array for pair in model.layers_ for array in pair]
    return [array for state in model.module_states_ for array in state.values()]


def same_weights(one, other):
    return all(np.array_equal(a, b) for a, b in zip(weights_of(one), weights_of(other), strict=True))


def _trainer(data, weights=None):
    settings = ORedNetwork((), 2, batch_instances=10_000)
    weights = np.ones(len(data)) if weights is None else weights
    rates = RateParameters.of(0.0, 0.0, 4)
    head = OneLabel(UnionModel(4).problem(data.bags.offsets, data.Y), 4, torch.device("cpu"), 16)
    rng = np.random.RandomState(0)
    return _training.Trainer(settings, data.bags.instances, head, 4, rates, weights, None, rng)


def small_module():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 12), torch.nn.BatchNorm1d(12), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(12, 4)
    )


# -- rounds -----------------------------------------------------------------------------------------------------------


def test_later_rounds_learn_the_posterior_that_the_members_give_together(data, monkeypatch):
    """The target is the exact posterior of the mean probabilities of what a fit without rounds ends with."""
    targets = []
    made = _training.Round.__init__

    def watched(self, *arguments, **options):
        made(self, *arguments, **options)
        targets.append(self.target)

    monkeypatch.setattr(_training.Round, "__init__", watched)
    ORedNetwork(**SMALL, n_rounds=1).fit(data.bags, data.Y)
    alone = ORedNetwork(**SMALL, n_rounds=0).fit(data.bags, data.Y)
    _, posterior = union_posterior(alone.predict_instances_proba(data.bags), data.bags.offsets, data.Y)
    assert targets[0] is None
    assert np.allclose(targets[1].numpy(), posterior, atol=1e-5)


def test_members_are_judged_by_their_own_held_out_bags_at_the_best_temperature(data):
    """Bags that one, both or none of them hold out, beside union inference member by member."""
    trainer = _trainer(data)
    out = np.random.default_rng(3).random((2, len(data))) < 0.4
    found = _training.HeldOutBags(trainer, out).log_likelihoods()
    with torch.no_grad():
        scores = trainer.ensemble.eval()(trainer.X).double().numpy()
    for e in range(2):
        by_temperature = []
        for temperature in _training.TEMPERATURES:
            proba = softmax(scores[e] / temperature, axis=1)
            log_likelihood, _ = union_posterior(proba, data.bags.offsets, data.Y)
            by_temperature.append(log_likelihood[out[e]].sum())
        assert found[e] == pytest.approx(max(by_temperature), rel=1e-5)


def test_the_likelihood_under_a_posterior_is_summed_by_bag(data):
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(4), data.bags.n_instances)
    trainer = _trainer(data)
    (batch,) = trainer.batches(None, torch.as_tensor(posterior, dtype=torch.float32))
    scores = torch.randn(2, data.bags.n_instances, 4, generator=torch.Generator().manual_seed(0))
    found = batch.log_likelihood(scores, None).numpy()
    logs = torch.log_softmax(scores.double(), dim=2).numpy()
    for e in range(2):
        by_bag = [
            (posterior[rows] * logs[e][rows]).sum()
            for rows in np.split(np.arange(len(posterior)), data.bags.offsets[1:-1])
        ]
        assert np.allclose(found[e], by_bag, atol=1e-4)


# -- checkpoints ------------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stopping_at(epoch):
    def stop(number, value):
        if number == epoch:
            raise Stop

    return stop


@pytest.mark.parametrize("stop_at", [1, 4, 6, 7, 10])
@pytest.mark.parametrize("kind", ["batched", "module", "rates"])
def test_an_interrupted_fit_ends_where_it_would_have_ended(data, tmp_path, stop_at, kind):
    """To the last bit, in whichever round it was stopped: weights, history, rates."""
    settings = {**SMALL, "batch_instances": 60}
    if kind == "module":
        settings["module"] = small_module()
    if kind == "rates":
        settings["spurious"] = "learn"

    whole = ORedNetwork(**settings).fit(data.bags, data.Y)
    state = Checkpoint(tmp_path / "fit", {}, interval=0.0)
    with pytest.raises(Stop):
        ORedNetwork(**settings).fit(data.bags, data.Y, callback=stopping_at(stop_at + 1), checkpoint=state)
    heard = []
    again = ORedNetwork(**settings).fit(
        data.bags, data.Y, callback=lambda number, value: heard.append(number), checkpoint=state
    )
    assert heard[0] == stop_at + 1
    assert same_weights(whole, again)
    assert np.array_equal(whole.objective_history_, again.objective_history_)
    assert whole.spurious_ == again.spurious_


# -- losses that are no numbers ---------------------------------------------------------------------------------------


class Breaks(torch.nn.Module):
    """Gives scores that are no numbers from one step on."""

    def __init__(self, at):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.at, self.steps = torch.nn.Linear(8, 4), at, 0

    def forward(self, X):
        self.steps += self.training
        return self.layer(X) * (float("nan") if self.training and self.steps >= self.at else 1.0)


@pytest.mark.parametrize("held_out", [0.0, 0.2])
@pytest.mark.parametrize("at", [1, 3, 8])
def test_where_the_loss_breaks_the_step_is_told_and_the_last_good_weights_are_kept(data, tmp_path, at, held_out):
    """Those of the step before, however far the next look at held-out bags is."""
    settings = {
        **SMALL, "n_members": 1, "n_rounds": 0, "held_out": held_out, "batch_instances": 10_000, "epochs": 300,
    }  # fmt: skip
    with pytest.warns(UserWarning, match=f"no number any more at step {at}, in epoch {at};"):
        broken = ORedNetwork(**settings, module=Breaks(at)).fit(data.bags, data.Y)
    assert not broken.converged_
    assert len(broken.objective_history_) == at - 1
    expected = Breaks(99).state_dict()
    if at > 2:
        state = Checkpoint(tmp_path / "fit", {}, interval=0.0)
        sound = ORedNetwork(**settings, module=Breaks(99))
        with pytest.raises(Stop):
            sound.fit(data.bags, data.Y, callback=stopping_at(at - 1), checkpoint=state)
        expected = dict(zip(expected, (state.load()[f"member.{i}"] for i in range(2)), strict=True))
    for name, value in expected.items():
        assert np.array_equal(broken.module_states_[0][name], value)


def test_a_later_round_that_breaks_leaves_the_networks_of_the_round_before(data):
    settings = {**SMALL, "n_members": 1, "held_out": 0.0, "batch_instances": 10_000}
    with pytest.warns(UserWarning, match="at step 8, in epoch 8;"):
        broken = ORedNetwork(**settings, n_rounds=1, module=_breaking_second()).fit(data.bags, data.Y)
    first = ORedNetwork(**settings, n_rounds=0, module=Breaks(99)).fit(data.bags, data.Y)
    assert [a.shape for a in weights_of(broken)] == [a.shape for a in weights_of(first)]
    assert len(broken.objective_history_) == 7


def _breaking_second():
    made = []

    def make(n_features, n_outputs):
        made.append(Breaks(2 if len(made) else 99))
        return made[-1]

    return make


# -- modules ----------------------------------------------------------------------------------------------------------


def test_a_module_of_ones_own_is_trained_saved_and_given_again(data, tmp_path):
    own = small_module()
    before = [tensor.clone() for tensor in own.state_dict().values()]
    settings = {**SMALL, "epochs": 15}
    model = make_model("ored-network", **settings, module=own).fit(data.bags, data.Y)
    assert all(torch.equal(a, b) for a, b in zip(before, own.state_dict().values(), strict=True))  # copies learn
    truth = data.instance_labels.instances
    assert np.mean(model.annotate(data.bags, data.Y) == truth) > 0.75
    bagwise.save(model, tmp_path / "own.bagwise")
    again = bagwise.load(tmp_path / "own.bagwise")
    with pytest.raises(InputError, match=r"module Sequential .* orednetwork__module="):
        again.predict(data.bags)
    with pytest.raises(InputError, match="do not fit the module Linear"):
        again.set_params(orednetwork__module=torch.nn.Linear(8, 4)).predict(data.bags)
    again.set_params(orednetwork__module=own)
    assert np.array_equal(again.predict_proba(data.bags), model.predict_proba(data.bags))


def test_a_function_makes_every_member_anew_and_a_seed_the_same_ones(data):
    def make(n_features, n_outputs):
        return torch.nn.Linear(n_features, n_outputs)

    settings = {**SMALL, "epochs": 1, "learning_rate": 1e-9, "n_rounds": 0}
    first, second = (ORedNetwork(**settings, module=make).fit(data.bags, data.Y) for _ in range(2))
    assert same_weights(first, second)
    one, other = first.module_states_
    assert not np.allclose(one["weight"], other["weight"], atol=1e-3)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (torch.nn.Linear(8, 5), r"shape \(2, 5\) for 2 instances; expected \(2, 4\)"),
        (torch.nn.Linear(3, 4), "cannot judge instances of 8 features"),
        (torch.nn.Identity(), "no parameters"),
        (lambda n_features, n_outputs: "no module", "expected a torch.nn.Module"),
        (lambda n_features, n_outputs: torch.nn.LSTM(n_features, n_outputs), "shape|scores of"),
    ],
)
def test_a_module_that_does_not_fit_is_named(data, module, words):
    with pytest.raises(InputError, match=words):
        ORedNetwork(**SMALL, module=module).fit(data.bags, data.Y)


def test_a_background_is_one_more_output(data):
    with pytest.raises(InputError, match=r"expected \(2, 5\)"):
        ORedNetwork(**SMALL, module=torch.nn.Linear(8, 4), background=True).fit(data.bags, data.Y)
    fitted = ORedNetwork(**SMALL, module=torch.nn.Linear(8, 5), background=True).fit(data.bags, data.Y)
    assert fitted.background_proba(data.bags).shape == (data.bags.n_instances,)


def test_warm_start_goes_on_from_the_weights_of_modules(data):
    model = ORedNetwork(**SMALL, module=small_module(), warm_start=True, n_rounds=0).fit(data.bags, data.Y)
    first = [array.copy() for array in weights_of(model)]
    model.set_params(epochs=1, learning_rate=1e-9, held_out=0.0).fit(data.bags, data.Y)
    names = list(model.module_states_[0]) * 2
    kept = [
        np.allclose(a, b, atol=1e-4) for n, a, b in zip(names, first, weights_of(model), strict=True) if "weight" in n
    ]
    assert all(kept)
    wider = make_gaussian_bags(n_bags=30, n_features=9, n_classes=4, random_state=0)
    for module in (None, lambda n_features, n_outputs: torch.nn.Linear(n_features, n_outputs)):
        model.set_params(module=module).fit(wider.bags, wider.Y)  # of no use there: it starts anew


# -- rates and calibration --------------------------------------------------------------------------------------------


def test_rates_are_learned_from_held_out_bags():
    """One label in five is listed for nothing: about as often as a linear model finds it, where a line is enough."""
    data = make_gaussian_bags(n_bags=100, n_classes=6, separation=5.0, random_state=1)
    Y = data.Y | (np.random.default_rng(0).random(data.Y.shape) < 0.2).astype(data.Y.dtype)
    settings = {"hidden": (16,), "n_members": 4, "epochs": 12, "learning_rate": 0.03, "n_rounds": 0, "held_out": 0.25}
    found = ORedNetwork(**settings, spurious="learn", random_state=0).fit(data.bags, Y).spurious_
    beside = bagwise.ORedLogisticRegression(spurious="learn").fit(data.bags, Y).spurious_
    assert beside > 0.08
    assert abs(found - beside) < 0.04


def test_calibrated_probabilities_are_those_of_a_temperature_found_by_copies(data):
    settings = {**SMALL, "n_rounds": 0}
    plain = ORedNetwork(**settings).fit(data.bags, data.Y)
    fitted = CalibratedAnnotator(ORedNetwork(**settings)).fit(data.bags, data.Y)
    assert same_weights(plain, fitted.estimator_)
    temperature, uniform, shifts = fitted.new_
    scores = np.log(plain.predict_instances_proba(data.bags)) / temperature + shifts
    proba = np.exp(scores - scores.max(axis=1, keepdims=True))
    proba = (1 - uniform) * proba / proba.sum(axis=1, keepdims=True) + uniform / 4
    assert np.allclose(fitted.predict_instances_proba(data.bags), proba, atol=1e-9)
    assert np.array_equal(fitted.predict_instances(data.bags), plain.predict_instances(data.bags))
    assert fitted.reliability()["bags"] == len(data.bags)


# -- trees ------------------------------------------------------------------------------------------------------------


def test_the_mix_is_the_mean_of_the_networks_and_of_trees_on_their_posterior(data, tmp_path):
    settings = {**SMALL, "epochs": 10}
    network = ORedNetwork(**settings).fit(data.bags, data.Y)
    mixed = ORedNetwork(**settings, n_estimators=20).fit(data.bags, data.Y)
    assert same_weights(network, mixed)
    own = network.predict_instances_proba(data.bags)
    trees = Forest(*mixed.forest_).mean_shares(data.bags.instances)
    assert np.allclose(mixed.predict_instances_proba(data.bags), (own + trees) / 2, atol=1e-12)
    _, posterior = union_posterior(own, data.bags.offsets, data.Y)
    instances = np.ascontiguousarray(data.bags.instances, dtype=np.float32)
    seeds = np.random.RandomState(1).randint(2**31 - 1, size=200)
    beside = Forest.of(
        [_grow_tree(instances, posterior, np.ones(len(instances)), int(seed), "sqrt", 1) for seed in seeds], 4
    )
    assert np.abs(beside.mean_shares(instances) - trees).mean() < 0.05  # other trees on the same posterior
    bagwise.save(mixed, tmp_path / "mix.bagwise")
    again = bagwise.load(tmp_path / "mix.bagwise")
    assert np.array_equal(again.predict_proba(data.bags), mixed.predict_proba(data.bags))
    assert make_model("ored-mix")[-1].n_estimators == 300


def test_known_instances_and_a_background_reach_the_trees(data):
    truth = data.instance_labels.instances
    known = Bags(np.where(np.arange(len(truth)) % 2, truth, -1), data.bags.offsets)
    mixed = ORedNetwork(**SMALL, n_estimators=30, background=True, background_share=0.1)
    mixed.fit(data.bags, data.Y, instance_labels=known)
    told = known.instances >= 0
    trees = Forest(*mixed.forest_).mean_shares(data.bags.instances)
    assert trees.shape[1] == 5
    assert np.array_equal(trees[told].argmax(axis=1), truth[told])


# -- weights ----------------------------------------------------------------------------------------------------------

WHOLE = {"hidden": (8,), "n_members": 2, "epochs": 12, "learning_rate": 0.05, "dropout": 0.0, "batch_instances": 10_000,
         "random_state": 0}  # fmt: skip


@pytest.mark.parametrize("extra", [
    {"held_out": 0.0}, {"held_out": 0.0, "background": True, "background_share": 0.2},
    {"held_out": 0.0, "n_rounds": 0, "missed": 0.1},
])  # fmt: skip
def test_integer_weights_are_repeated_bags(data, extra):
    weights = np.random.default_rng(0).integers(0, 4, size=len(data))
    repeated = np.repeat(np.arange(len(data)), weights)
    weighted = ORedNetwork(**WHOLE, **extra).fit(data.bags, data.Y, sample_weight=weights)
    bags = ORedNetwork(**WHOLE, **extra).fit(data.bags[repeated], data.Y[repeated])
    plain = ORedNetwork(**WHOLE, **extra).fit(data.bags, data.Y)
    scores = [model.predict_instances_proba(data.bags) for model in (weighted, bags, plain)]
    assert np.allclose(scores[0], scores[1], atol=2e-3)
    assert np.abs(scores[0] - scores[2]).max() > 1e-2
    assert np.allclose(weighted.objective_history_, bags.objective_history_, rtol=1e-3)


@pytest.mark.parametrize("extra", [{}, {"n_estimators": 5}, {"spurious": "learn", "held_out": 0.3}])
def test_weight_zero_is_a_bag_left_out_and_ones_are_no_weights(data, extra):
    weights = np.random.default_rng(1).integers(0, 3, size=len(data)).astype(float)
    kept = np.flatnonzero(weights)
    settings = {**SMALL, **extra}
    model = ORedNetwork(**settings).fit(data.bags, data.Y, sample_weight=weights)
    without = ORedNetwork(**settings).fit(data.bags[kept], data.Y[kept], sample_weight=weights[kept])
    assert np.array_equal(model.decision_function(data.bags), without.decision_function(data.bags))
    ones = ORedNetwork(**settings).fit(data.bags, data.Y, sample_weight=np.ones(len(data)))
    none = ORedNetwork(**settings).fit(data.bags, data.Y)
    assert np.allclose(ones.decision_function(data.bags), none.decision_function(data.bags), atol=1e-4)
    assert bag_tags(model).sample_weight


def test_weights_count_where_early_stopping_looks(data):
    """Held-out bags of weight two count twice, beside union inference."""
    weights = np.random.default_rng(2).integers(1, 4, size=len(data)).astype(float)
    out = np.random.default_rng(3).random((2, len(data))) < 0.4
    alone = _training.HeldOutBags(_trainer(data, weights), out).log_likelihoods()
    repeated = np.repeat(np.arange(len(data)), weights.astype(int))
    again = _training.HeldOutBags(_trainer(data[repeated]), out[:, repeated]).log_likelihoods()
    assert alone == pytest.approx(again, rel=1e-5)


def test_what_are_no_weights_is_refused(data):
    with pytest.raises(InputError, match="The weight of bag 1 is -1"):
        ORedNetwork(**SMALL).fit(data.bags, data.Y, sample_weight=[1.0, -1.0] + [1.0] * (len(data) - 2))


def test_the_stack_listens_to_networks(data, tmp_path):
    model = make_model("bag-stack-network", device="cpu", cv=2, n_estimators=10)
    assert model[-1].members[-1][-1].device == "cpu"
    model[-1].members[-1][-1].set_params(**SMALL)
    model.fit(data.bags, data.Y)
    assert model[-1].logistic_coef_.shape == (4, 15)  # five numbers of each of three members
    bagwise.save(model, tmp_path / "stack.bagwise")
    again = bagwise.load(tmp_path / "stack.bagwise")
    assert np.array_equal(again.predict_proba(data.bags), model.predict_proba(data.bags))
