"""The cost model of fits on a cluster, and its simulation: against each other, and against closed forms."""

import numpy as np
import pytest
from benchmarks.scale_model import Costs, Plan, Trouble, seconds_of_iteration, simulate, work_of_piece
from hypothesis import given, settings
from hypothesis import strategies as st

BARE = Costs(read=0.0, compute=1.0, dispatch=0.0, reduce=0.0)
sizes = st.floats(1e-6, 1.0)


def mean_of(costs, plan, trouble, n):
    """Mean over runs, and four standard errors of it."""
    found = np.array([simulate(costs, plan, trouble, seed)[0] for seed in range(n)])
    return found.mean(), 4 * found.std() / np.sqrt(n)


@settings(max_examples=200, deadline=None)
@given(
    st.builds(Costs, read=sizes, compute=sizes, dispatch=sizes, reduce=sizes),
    st.builds(
        Plan, instances=st.integers(1, 5000), piece=st.integers(1, 200), workers=st.integers(1, 40),
        kept=st.booleans(), fan_in=st.integers(2, 16),
    ),
)  # fmt: skip
def test_without_trouble_the_simulation_is_the_formula(costs, plan):
    seconds, again = simulate(costs, plan, Trouble())
    assert seconds == pytest.approx(seconds_of_iteration(costs, plan), rel=1e-9)
    assert again == 0


def test_the_formula_by_hand():
    costs = Costs(read=2e-6, compute=1e-6, dispatch=0.001, reduce=0.01)
    plan = Plan(instances=1000, piece=100, workers=4, kept=False)
    assert (plan.pieces, plan.rounds, plan.levels, work_of_piece(costs, plan)) == (10, 3, 1, pytest.approx(3e-4))
    assert seconds_of_iteration(costs, plan) == pytest.approx(10 * 0.001 + 3e-4 + 0.01)  # the scheduler cannot keep up
    slow = Costs(read=0.0, compute=1e-3, dispatch=0.001, reduce=0.01)
    assert seconds_of_iteration(slow, plan) == pytest.approx(2 * 0.001 + 3 * 0.1 + 0.01)


@pytest.mark.parametrize("workers", [1, 5, 60])
def test_stragglers_of_one_piece_each_take_the_largest_of_exponentials(workers):
    """E max of w exponential variables of mean one is 1 + 1/2 + ... + 1/w."""
    mean, error = mean_of(BARE, Plan(workers * 10, 10, workers), Trouble(spread=0.7), 400)
    assert mean == pytest.approx(10 * (1 + 0.7 * sum(1 / i for i in range(1, workers + 1))), abs=error)


def test_stragglers_of_one_worker_add_up():
    mean, error = mean_of(BARE, Plan(200, 10, 1), Trouble(spread=0.5), 400)
    assert mean == pytest.approx(200 * 1.5, abs=error)


@pytest.mark.parametrize("workers", [2, 6])
def test_copies_of_a_piece_take_the_least_of_exponentials(workers):
    """The piece and one copy of it: E min of two exponential variables of mean one is 1/2."""
    mean, error = mean_of(BARE, Plan(10, 10, workers), Trouble(spread=2.0, spare=True), 600)
    assert mean == pytest.approx(10 * (1 + 2.0 / 2), abs=error)


@pytest.mark.parametrize(("rate", "absence"), [(0.05, 0.0), (0.1, 7.0)])
def test_a_worker_that_dies_begins_again(rate, absence):
    """Work s that is lost at rate r, and a absent each time: E = (exp(r s) - 1) (1 / r + a)."""
    mean, error = mean_of(BARE, Plan(10, 10, 1), Trouble(failures=rate, absence=absence), 3000)
    assert mean == pytest.approx(np.expm1(10 * rate) * (1 / rate + absence), abs=error)
    tries = np.array(
        [simulate(BARE, Plan(10, 10, 1), Trouble(failures=rate, absence=absence), s)[1] for s in range(3000)]
    )
    assert tries.mean() == pytest.approx(np.expm1(10 * rate), abs=4 * tries.std() / np.sqrt(3000))


def test_what_a_dead_worker_held_is_read_again_by_others():
    costs = Costs(read=5.0, compute=1.0, dispatch=0.0, reduce=0.0)
    plan, trouble = Plan(20, 10, 2), Trouble(failures=0.02, absence=1e9)
    seconds = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        first, second = sorted(rng.exponential(50.0) for _ in range(2))
        found, again = simulate(costs, plan, trouble, seed)
        if first > 10.0:  # nobody dies in time
            assert (found, again) == (10.0, 0)
        elif second > 70.0:  # one dies, the other is done with its own at 10 and reads and computes the lost one
            assert (found, again) == (pytest.approx(10.0 + 60.0), 1)
            seconds.append(found)
    assert len(seconds) > 5


@pytest.mark.parametrize("seed", range(10))
def test_trouble_never_helps_and_ends(seed):
    costs, plan = Costs(1e-3, 2e-3, 1e-3, 0.01), Plan(30_000, 100, 30)
    calm = seconds_of_iteration(costs, plan)
    lag, _ = simulate(costs, plan, Trouble(spread=0.5), seed)
    dying, again = simulate(costs, plan, Trouble(spread=0.5, failures=0.05, absence=2.0), seed)
    assert calm < lag
    assert calm < dying
    assert again > 0
