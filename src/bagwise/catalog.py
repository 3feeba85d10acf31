"""Short names for complete models: what the command line, the benchmarks and the papers' tables call them.

Every entry is a function of settings: ``CATALOG["ored"](l2=0.01)``. They are the learner's own; models on Fourier
features also take `gamma`, that of the features, and `ored-rbf` the `width` and `size` of its dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags

from bagwise.annotation import (
    CLPL,
    LSBCMM,
    MIMLFast,
    MostFrequentAnnotator,
    NoisyOrLogisticRegression,
    ORedForest,
    ORedLogisticRegression,
    SupervisedAnnotator,
    SupportInstanceMachine,
)
from bagwise.classification import M3MIML, MIMLNN, MIMLSVM, BagStack, MIMLBoost
from bagwise.core.exceptions import InputError
from bagwise.core.plugins import LEARNERS, add_installed
from bagwise.nn.network import ORedNetwork
from bagwise.pipeline import BagPipeline, make_pipeline
from bagwise.preprocessing import (
    CLPLScaler,
    PerInstance,
    RandomFourierFeatures,
    RBFDictionary,
    SparseReducer,
    TermScaler,
)


def model_of(scaler: Callable[[], Any], learner: Callable[..., Any], /, **settings: Any) -> Any:
    """A learner with these settings on features that a scaler brings to one scale.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.catalog import model_of
    >>> [type(step).__name__ for step in model_of(MinMaxScaler, ORedLogisticRegression, l2=0.1)]
    ['PerInstance', 'ORedLogisticRegression']
    """
    return make_pipeline(PerInstance(scaler()), learner(**settings))


def supervised(classifier: Callable[..., Any], /, **settings: Any) -> Any:
    """A scikit-learn classifier with these settings that learns from the labels of the training instances.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> from bagwise.catalog import supervised
    >>> supervised(LinearSVC, C=0.1)[-1]
    SupervisedAnnotator(estimator=LinearSVC(C=0.1))
    """
    return make_pipeline(PerInstance(StandardScaler()), SupervisedAnnotator(classifier(**settings)))


def _supervised_regression(**settings: Any) -> SupervisedAnnotator:
    return SupervisedAnnotator(LogisticRegression(**{"max_iter": 1000, **settings}))


def dictionary(*steps: Any, width: float, size: float | None, whiten: bool = False) -> Any:
    """Standardized, then RBF similarities to some (or, with None, all) of the instances, then `steps`.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.catalog import dictionary
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, random_state=0)
    >>> dictionary(ORedLogisticRegression(), width=0.5, size=20).fit(data)[-1].coef_.shape
    (5, 20)
    """
    features = RBFDictionary(width=width, size=size, whiten=whiten, random_state=0)
    return make_pipeline(PerInstance(StandardScaler()), PerInstance(features), *steps)


def _fourier_sim(gamma: float | str = "scale", **settings: Any) -> Any:
    """The nonlinear form of Briggs et al. (2013), section 5.2.5: scaled, 50 Fourier features, centered and divided."""
    features = RandomFourierFeatures(gamma=gamma, n_components=50, random_state=0)
    steps = CLPLScaler(), features, CLPLScaler(unit_range=False)
    return make_pipeline(*map(PerInstance, steps), SupportInstanceMachine(**settings))


def _ored_rbf(width: float = 0.5, size: float | None = 600, l2: float = 0.03, **settings: Any) -> Any:
    return dictionary(ORedLogisticRegression(l2=l2, **settings), width=width, size=size, whiten=True)


def stack_members() -> list[Any]:
    """The members of a stack: "ored-rbf", and a forest of fewer trees and rounds than "ored-forest".

    It is grown once more for every fold.

    Examples
    --------
    >>> from bagwise.catalog import stack_members
    >>> [type(member).__name__ for member in stack_members()]
    ['BagPipeline', 'ORedForest']
    """
    return [_ored_rbf(), ORedForest(100, n_rounds=4, n_round_trees=50, random_state=0)]


def _on_similarities(learner: Callable[..., Any], *between: Any, **given: Any) -> Callable[..., Any]:
    """The kernel form of Pham et al., section 6.5: a learner on its similarities to all instances, or to a share."""

    def make(width: float = 0.2, size: float | None = None, **settings: Any) -> Any:
        return dictionary(*between, learner(**{**given, **settings}), width=width, size=size)

    return make


def _bag_stack(*others: Any, **settings: Any) -> Any:
    stack = BagStack(**{"members": [*stack_members(), *others], "random_state": 0, **settings})
    return make_pipeline(PerInstance(SparseReducer(random_state=0)), stack)


def _bag_stack_network(device: str | None = None, **settings: Any) -> Any:
    return _bag_stack(model_of(StandardScaler, ORedNetwork, device=device, random_state=0), **settings)


SIM_VARIANTS: dict[str, dict[str, Any]] = {
    "sim-max": {"aggregation": "max"},
    "sim-softmax": {"aggregation": "softmax"},
    "sim-cccp": {"aggregation": "max", "solver": "cccp"},
    "sim-hamming-max": {"loss": "hamming", "aggregation": "max"},
    "sim-hamming-softmax": {"loss": "hamming", "aggregation": "softmax"},
}

CATALOG: dict[str, Callable[..., Any]] = {
    "ored": partial(model_of, StandardScaler, ORedLogisticRegression),
    "ored-em": partial(model_of, StandardScaler, ORedLogisticRegression, l2=0.0, solver="em", max_iter=50, tol=0.0),
    "ored-rbf": _ored_rbf,
    "ored-forest": partial(ORedForest, random_state=0),
    "ored-forest-background": partial(ORedForest, background=True, random_state=0),
    "ored-background": partial(model_of, StandardScaler, ORedLogisticRegression, background=True),
    "noisy-or": partial(model_of, StandardScaler, NoisyOrLogisticRegression),
    "noisy-or-network": partial(model_of, StandardScaler, ORedNetwork, labels_per_instance="any", random_state=0),
    "ored-network": partial(model_of, StandardScaler, ORedNetwork, random_state=0),
    "ored-mix": partial(model_of, StandardScaler, ORedNetwork, n_estimators=300, random_state=0),
    "ored-patch": partial(
        ORedNetwork, module="patch", n_members=4, n_rounds=0, epochs=40, batch_instances=256, random_state=0
    ),
    **{
        name: partial(model_of, CLPLScaler, SupportInstanceMachine, **variant) for name, variant in SIM_VARIANTS.items()
    },
    **{
        f"{name}-last": partial(model_of, CLPLScaler, SupportInstanceMachine, **variant, restart="last")
        for name, variant in SIM_VARIANTS.items()
        if name != "sim-cccp"  # which has to keep the best weights
    },
    **{f"{name}-rff": partial(_fourier_sim, **variant) for name, variant in SIM_VARIANTS.items()},
    "clpl": partial(model_of, CLPLScaler, CLPL),
    "mimlfast": partial(model_of, StandardScaler, MIMLFast, random_state=0),
    "lsb-cmm": partial(model_of, StandardScaler, LSBCMM, random_state=0),
    "m3miml": partial(model_of, MinMaxScaler, M3MIML),
    "m3miml-linear": partial(model_of, CLPLScaler, M3MIML, kernel="linear"),
    "mimlsvm": partial(model_of, MinMaxScaler, MIMLSVM, random_state=0),
    "mimlnn": partial(model_of, MinMaxScaler, MIMLNN, random_state=0),
    "mimlboost": partial(model_of, MinMaxScaler, MIMLBoost),
    "k-ored-em": _on_similarities(ORedLogisticRegression, l2=0.0, solver="em", max_iter=500, tol=0.0, random_state=0),
    "k-sim-softmax": _on_similarities(SupportInstanceMachine, PerInstance(CLPLScaler()), n_steps=1000),
    "k-mimlfast": _on_similarities(MIMLFast, max_epochs=100, step=1e-3, random_state=0),
    "k-lr-supervised": _on_similarities(_supervised_regression),
    "bag-stack": _bag_stack,
    "bag-stack-network": _bag_stack_network,
    "lr-supervised": partial(supervised, LogisticRegression, max_iter=1000),
    "svm-supervised": partial(supervised, LinearSVC),
    "most-frequent": MostFrequentAnnotator,
}
add_installed(CATALOG, LEARNERS)


def for_sparse(model: Any) -> Any:
    """The model for sparse features, such as counts of words; one that takes them as it is stays as it is.

    They are weighted by their rarity (`TermScaler`) in place of being standardized, which would fill them. A learner
    that takes dense features only gets their leading components (`SparseReducer`), scaled as it scales features.

    Examples
    --------
    >>> from bagwise.catalog import for_sparse, make_model
    >>> [name for name, _ in for_sparse(make_model("ored")).steps]
    ['perinstance', 'oredlogisticregression']
    """
    steps = [step for _, step in model.steps] if isinstance(model, BagPipeline) else [model]
    if _takes_sparse(steps[0]):
        return model
    rest = steps[1:] if _is_standardizing(steps[0]) else steps
    if _takes_sparse(rest[0]):
        return make_pipeline(PerInstance(TermScaler()), *rest)
    return make_pipeline(PerInstance(TermScaler()), PerInstance(SparseReducer(random_state=0)), *steps)


def _takes_sparse(step: Any) -> bool:
    return bool(get_tags(step.transformer if isinstance(step, PerInstance) else step).input_tags.sparse)


def _is_standardizing(step: Any) -> bool:
    return isinstance(step, PerInstance) and isinstance(step.transformer, StandardScaler)


USUAL = ("ored-background", "ored-forest-background", "clpl", "noisy-or")
"""Learners of different kinds among which `--model auto` chooses; the first is the default, and wins a tie."""


def make_model(name: str, **settings: Any) -> Any:
    """A fresh, unfitted model by its short name.

    Parameters
    ----------
    name : str
        A key of `CATALOG`.
    **settings
        Of the model, in place of the entry's own.

    Examples
    --------
    >>> from bagwise.catalog import make_model
    >>> make_model("ored-em", max_iter=10)[-1]
    ORedLogisticRegression(l2=0.0, max_iter=10, solver='em', tol=0.0)
    """
    if name not in CATALOG:
        near = get_close_matches(name.lower(), CATALOG, n=5) or USUAL
        everything = f"docs/command-line.md lists all {len(CATALOG)}."
        raise InputError(f"There is no model {name!r}; did you mean {', '.join(near)}? {everything}")
    return CATALOG[name](**settings)
