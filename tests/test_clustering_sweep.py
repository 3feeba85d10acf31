"""The sweep's records against their definitions, and the choice made from them."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.metrics import adjusted_rand_score, silhouette_samples

from bagwise import M3IC, Bags
from bagwise.clustering import choose_setting, sweep
from bagwise.clustering.scaling import SCALINGS, scale_bags
from bagwise.core.exceptions import InputError
from bagwise.kernels.hausdorff import hausdorff_distances

pytestmark = pytest.mark.filterwarnings("ignore:Only . of . clusters hold a bag")  # what the sizes tell


def grouped_bags(seed, k=3, n_bags=45):
    rng = np.random.default_rng(seed)
    corners = 5 * np.eye(4)[np.arange(n_bags) % k]
    return Bags.from_list([corner + rng.normal(size=(rng.integers(2, 5), 4)) for corner in corners])


def test_records_are_what_they_say():
    bags = grouped_bags(0)
    calls = []
    records = sweep(bags, [2, 3], C=[0.5, 4.0], balance=0.1, n_seeds=3, progress=lambda *call: calls.append(call))
    assert [(r["n_clusters"], r["C"], r["balance"]) for r in records] == [
        (2, 0.5, 0.1), (2, 4.0, 0.1), (3, 0.5, 0.1), (3, 4.0, 0.1),
    ]  # fmt: skip
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    rng = np.random.RandomState(0)
    rng.permutation(len(bags))  # the bags of the silhouette are drawn first; here they are all
    seeds = rng.randint(2**31 - 1, size=(4, 3))
    distances = hausdorff_distances(bags.instances, bags.offsets, kind="average")
    for record, own_seeds in zip(records, seeds, strict=True):
        parameters = {name: record[name] for name in ("n_clusters", "C", "balance")}
        fits = [M3IC(**parameters, n_init=1, random_state=int(seed)).fit(bags) for seed in own_seeds]
        best = min(fits, key=lambda fit: fit.objective_)
        again = M3IC(**parameters, n_init=1, random_state=record["seed"]).fit(bags)
        assert record["objective"] == best.objective_ == again.objective_
        assert record["cost"] == pytest.approx(best.objective_ / record["C"])
        assert 0 <= record["cost"] <= 1
        assert record["sizes"] == np.bincount(best.labels_, minlength=record["n_clusters"]).tolist()
        samples = silhouette_samples(distances, best.labels_, metric="precomputed")
        assert record["silhouette"] == pytest.approx(samples.mean())
        pairs = [(0, 1), (0, 2), (1, 2)]
        expected = np.mean([adjusted_rand_score(fits[a].labels_, fits[b].labels_) for a, b in pairs])
        assert record["stability"] == pytest.approx(expected)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_number_of_groups_is_found(k):
    records = sweep(grouped_bags(k, k, n_bags=60), [2, 3, 4, 5], C=[1.0, 16.0], balance=[0.0, 1.0])
    chosen = choose_setting(records)
    assert chosen["n_clusters"] == k
    assert chosen["sizes"] == [60 // k] * k


def test_parallel_and_sampled():
    bags = grouped_bags(1)
    one = sweep(bags, 3, C=1.0, balance=[0.0, 1.0], n_seeds=2)
    with parallel_config(backend="threading"):
        assert sweep(bags, 3, C=1.0, balance=[0.0, 1.0], n_seeds=2, n_jobs=2) == one
    few = sweep(bags, 3, C=1.0, balance=[0.0, 1.0], n_seeds=2, max_bags=20)
    assert [r["objective"] for r in few] == [r["objective"] for r in one]
    assert [r["silhouette"] for r in few] != [r["silhouette"] for r in one]


def test_estimator_gives_the_rest():
    bags = grouped_bags(2)
    (record,) = sweep(bags, 3, C=1.0, balance=0.1, n_seeds=1, estimator=M3IC(kernel="rbf", gamma=0.05))
    model = M3IC(3, kernel="rbf", gamma=0.05, n_init=1, random_state=record["seed"]).fit(bags)
    assert record["objective"] == model.objective_
    assert record["stability"] is None


def test_choice():
    def record(sizes, silhouette, stability):
        return {"sizes": sizes, "silhouette": silhouette, "stability": stability}

    low, high = record([5, 5], 0.1, 0.9), record([5, 5], 0.3, 0.2)
    empty = record([10, 0], 0.9, 1.0)
    assert choose_setting([low, empty, high]) is high
    steady = record([6, 4], 0.3, 0.8)
    assert choose_setting([high, steady]) is steady
    alone = record([10, 0], None, None)
    assert choose_setting([alone]) is alone
    assert choose_setting([alone, empty]) is empty


def test_bad_input():
    bags = grouped_bags(0)
    with pytest.raises(InputError, match="no setting to try"):
        sweep(bags, [])
    with pytest.raises(InputError, match="n_seeds must be a whole number"):
        sweep(bags, 2, n_seeds=0)
    with pytest.raises(InputError, match="distance='mean' is not known"):
        sweep(bags, 2, distance="mean")
    with pytest.raises(InputError, match="n_clusters.*2 or more"):
        sweep(bags, 1, C=1.0, balance=0.1)
    with pytest.raises(InputError, match="n_clusters=46 is more than the 45 bags"):
        sweep(bags, [2, 46], C=1.0, balance=0.1, progress=lambda *call: pytest.fail("a fit came before the check"))
    with pytest.raises(InputError, match="NaN"):
        sweep([np.array([[np.nan]]), np.array([[1.0]])], 2)
    with pytest.raises(InputError, match="no records"):
        choose_setting([])


@pytest.mark.parametrize("name", list(SCALINGS))
def test_scalings_by_name(name):
    bags = grouped_bags(0)
    scaled = scale_bags(bags, name)
    assert np.array_equal(scaled.offsets, bags.offsets)
    assert not np.allclose(scaled.instances, bags.instances)
    if name == "length":
        np.testing.assert_allclose((scaled.instances**2).sum(axis=1), 1.0)
    if name == "standard":
        np.testing.assert_allclose(scaled.instances.std(axis=0), 1.0)
    assert scale_bags(bags, "none") is bags
    with pytest.raises(InputError, match="scaling='unit' is not known"):
        scale_bags(bags, "unit")
