"""scikit-learn's own checks, for every estimator and transformer."""

import warnings

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from bagwise.annotation import (
    CLPL,
    LSBCMM,
    MIMLFast,
    MostFrequentAnnotator,
    ORedForest,
    ORedLogisticRegression,
    SupervisedAnnotator,
    SupportInstanceMachine,
)
from bagwise.clustering import BAMIC, CPM3C, M3IC, MajorityKMeans, WithinBagWhitener
from bagwise.preprocessing import CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary

ONE_CLUSTER = dict.fromkeys(  # tests/test_clustering_*.py try the same with two
    (
        "check_dont_overwrite_parameters",
        "check_methods_subset_invariance",
        "check_fit2d_1sample",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
    ),
    "the check asks for one cluster, which is an error on purpose",
)
EXPECTED_FAILURES = dict.fromkeys(("M3IC", "BAMIC", "CPM3C", "MajorityKMeans"), ONE_CLUSTER)

ESTIMATORS = [
    ORedLogisticRegression(),
    ORedLogisticRegression(solver="em"),
    ORedLogisticRegression(background=True),
    ORedForest(n_estimators=10, n_rounds=2, n_round_trees=10),
    SupportInstanceMachine(alpha=1e-2),
    SupportInstanceMachine(alpha=1e-2, aggregation="max", solver="cccp"),
    CLPL(C=1.0),
    MIMLFast(),
    LSBCMM(),
    SupervisedAnnotator(LogisticRegression()),
    MostFrequentAnnotator(),
    M3IC(),
    M3IC(kernel="rbf"),
    BAMIC(),
    CPM3C(),
    MajorityKMeans(),
    WithinBagWhitener(),
    PerInstance(StandardScaler()),
    CLPLScaler(),
    RandomFourierFeatures(random_state=0),
    RBFDictionary(),
    RBFDictionary(size=5, whiten=True, random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(
            estimator,
            on_fail=None,
            on_skip=None,
            expected_failed_checks=EXPECTED_FAILURES.get(type(estimator).__name__, {}),
        )
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]
    assert len(results) > 40
    assert not failed, "\n".join(failed)
