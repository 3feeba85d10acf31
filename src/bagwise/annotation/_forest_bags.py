"""Bags as a forest is fitted to them: which of them, their union problem, and what trees say of those unseen."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

from bagwise.annotation._calibration import Training
from bagwise.annotation._feasibility import infeasible_bags
from bagwise.bags import Bags
from bagwise.base import name_bags
from bagwise.exceptions import InfeasibleBagWarning, InputError
from bagwise.kernels.union import MAX_EXACT_LABELS, Rates, UnionProblem, warn_approximation


def checked(problem: UnionProblem) -> UnionProblem:
    """The problem, refused where it takes too much memory."""
    problem.check_memory(MAX_EXACT_LABELS)
    return problem


def infer(
    problem: UnionProblem, proba: np.ndarray, rates: Rates | None, warn: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood of every bag and posterior of every instance; `proba` stays as it is.

    Where `warn`, a warning names bags whose posterior is approximated with an error that matters.
    """
    posterior, errors = proba.copy(), problem.room_for_errors(MAX_EXACT_LABELS) if warn else None
    log_likelihood = problem.infer_in_place(posterior, softmax=False, residual=False, rates=rates, errors=errors)
    warn_approximation(problem, MAX_EXACT_LABELS, errors)
    return log_likelihood, posterior


def held_out(
    bags: Bags, indicator: np.ndarray, known: np.ndarray | None, proba: np.ndarray, weights: np.ndarray
) -> Training:
    """The training with what the trees say of bags that they did not see; not of those with a label of their own."""
    fair = np.flatnonzero(~indicator[:, indicator.sum(axis=0) < 2].any(axis=1))
    rows, _ = bags.select(fair) if len(fair) else (slice(0, 0), None)
    return Training(bags, indicator, known, None, fair, np.log(proba[rows]), weights)


def leave_out_infeasible(
    bags: Bags,
    indicator: np.ndarray,
    known: np.ndarray | None,
    weights: np.ndarray | None,
    rates: Rates | None = None,
    background: bool = False,
) -> tuple[Bags, np.ndarray, np.ndarray | None, np.ndarray]:
    """The bags whose labels some assignment explains and that have a weight, with a warning about the former."""
    impossible, reason = infeasible_bags(bags.offsets, indicator, known, background, rates, weights)
    weights = np.ones(len(bags)) if weights is None else weights
    keep = ~impossible & (weights > 0.0)
    if not keep.any():
        raise InputError(f"No bag is left to learn from, since none can be explained: {reason}")
    if impossible.any():
        warnings.warn(
            f"{impossible.sum()} of {len(bags)} bags cannot be explained and are left out, "
            f"{name_bags(np.flatnonzero(impossible))}: {reason}",
            InfeasibleBagWarning,
            stacklevel=3,
        )
    if keep.all():
        return bags, indicator, known, weights
    if known is not None:
        known = Bags(known, bags.offsets)[keep].instances
    return bags[keep], indicator[keep], known, weights[keep]


def refuse_sparse(bags: Bags) -> None:
    if sp.issparse(bags.instances):
        raise InputError(
            "ORedForest does not take sparse features; reduce them first, for example with "
            "PerInstance(TruncatedSVD(100)), or pass a dense array."
        )
