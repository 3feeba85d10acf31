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
from hypothesis import HealthCheck, is_hypothesis_test, settings
from threadpoolctl import threadpool_limits

from bagwise.core.bags import offsets_of

threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")  # plugins of pytest may have loaded numpy already

# No property has a deadline: how long an example takes says how busy the machine is.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
NIGHTLY, TIMES = "nightly", 20
settings.register_profile(NIGHTLY, settings(), max_examples=100 * TIMES)  # --hypothesis-profile=nightly


# Files that are left out of `make check`: they start processes, fit large models, draw pages or fill disks. All others
# together take a minute of two cores.
SLOW = {
    "test_app_cli_annotate", "test_app_cli_cluster", "test_app_cli_correct", "test_app_cli_faults",
    "test_app_cli_featurize", "test_app_cli_large", "test_app_labels_selections", "test_app_labels_sites",
    "test_app_labels_tables", "test_app_media_embedding", "test_app_media_types", "test_app_networks",
    "test_app_report_browser", "test_app_report_clusters", "test_app_report_field", "test_app_report_page",
    "test_app_review_browser", "test_app_review_deadlines", "test_app_review_guard", "test_app_review_load",
    "test_app_review_labels_backend",
    "test_app_review_page", "test_app_review_server", "test_app_runs_annotate", "test_app_runs_ask",
    "test_app_runs_calibration", "test_app_runs_choose", "test_app_runs_compare", "test_app_runs_corrections",
    "test_app_runs_discover", "test_calibration_novel_classes",
    "test_app_runs_embed", "test_app_runs_failing_disk", "test_app_runs_hostile", "test_app_runs_interrupt",
    "test_app_runs_run", "test_app_runs_stateful", "test_app_runs_store", "test_app_runs_survey",
    "test_benchmarks_fuzz_finds", "test_benchmarks_mutants", "test_benchmarks_papers", "test_benchmarks_peers",
    "test_app_runs_extend", "test_benchmarks_scale", "test_core_plugins",
    "test_benchmarks_wrong_labels", "test_classification_m3miml", "test_classification_stacking",
    "test_clustering_stability", "test_datasets_letters", "test_determinism", "test_docs", "test_estimator_checks",
    "test_io_checkpoint", "test_io_data_bad_input", "test_io_model", "test_io_model_whole",
    "test_model_selection_searches", "test_release", "test_sample_weight", "test_scale_cluster", "test_scale_fit",
    "test_scale_source", "test_site",
}  # fmt: skip


def pytest_ignore_collect(collection_path, config):
    """Where slow tests are left out, their files are not even imported."""
    return True if config.option.markexpr == "not slow" and collection_path.stem in SLOW else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Slow files are marked; another order with BAGWISE_TEST_ORDER, a seed; more examples of all properties nightly."""
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker("slow")
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
            machine = getattr(test, "_hypothesis_state_machine_class", None)
            if machine is not None:  # each has its settings on the class of its test case
                own = machine.TestCase.settings
                machine.TestCase.settings = settings(own, max_examples=TIMES * own.max_examples)


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
