"""What several test modules use."""

import os
import random
from itertools import groupby
from pathlib import Path

# Matrices here are small: a second thread of BLAS does little but wait, on a processor that another test could have.
# Threads of OpenMP shall sleep while they wait. To be said before libraries are loaded, here and in processes that
# tests start; tests of what threads change ask for them (tests/test_determinism.py).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest
from hypothesis import is_hypothesis_test, settings
from threadpoolctl import threadpool_limits

from bagwise.bags import offsets_of

threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")  # plugins of pytest may have loaded numpy already

NIGHTLY, TIMES = "nightly", 20
settings.register_profile(NIGHTLY, deadline=None, max_examples=100 * TIMES)  # --hypothesis-profile=nightly


def pytest_collection_modifyitems(config, items):
    """Tests in another order with BAGWISE_TEST_ORDER, a seed; more examples of all properties in the nightly run."""
    seed = os.environ.get("BAGWISE_TEST_ORDER")
    if seed:
        rng = random.Random(seed)
        files = [list(group) for _, group in groupby(items, key=lambda item: item.path)]
        rng.shuffle(files)  # those of a file stay together, since they share what takes long to make
        for tests in files:
            rng.shuffle(tests)
        items[:] = [test for tests in files for test in tests]
    if config.getoption("--hypothesis-profile", None) == NIGHTLY:
        for test in {getattr(item, "obj", None) for item in items}:
            if is_hypothesis_test(test) and hasattr(test, "_hypothesis_internal_use_settings"):
                own = test._hypothesis_internal_use_settings
                test._hypothesis_internal_use_settings = settings(own, max_examples=TIMES * own.max_examples)


@pytest.fixture
def real_data():
    """The folder with the papers' data sets, where there is one."""
    folder = Path(os.environ.get("BAGWISE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: set BAGWISE_DATA to its folder")
    return folder


def random_bags(rng, n_bags, n_classes, max_size, max_labels, concentration=1.0):
    """Random priors, offsets and feasible label sets."""
    sizes = rng.integers(1, max_size + 1, n_bags)
    offsets = offsets_of(sizes)
    proba = rng.dirichlet(np.full(n_classes, concentration), offsets[-1])
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    for b, size in enumerate(sizes):
        k = rng.integers(1, min(size, max_labels, n_classes) + 1)
        Y[b, rng.choice(n_classes, k, replace=False)] = 1
    return proba, offsets, Y
