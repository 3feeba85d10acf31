"""What ORed logistic regression says of bags, some of them at a time: no array of all instances and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.annotation._background import BackgroundMixin, listed_labels, union_problem
from bagwise.annotation._calibration import CalibratedMixin, softmax_of
from bagwise.annotation._feasibility import relaxed_bags
from bagwise.annotation._ored_blocks import Block, by_blocks, own_labels_pay
from bagwise.annotation._ored_objective import affine_scores, inference_threads
from bagwise.annotation._rates import WrongLabelsMixin
from bagwise.bags import Bags
from bagwise.base import InstanceAnnotatorMixin, encode_labels, given_labels, union_of_best
from bagwise.findings import Findings
from bagwise.kernels.union import UnionProblem, warn_approximation
from bagwise.memory import check_allocation
from bagwise.typing import BagsLike, LabelsLike


class ORedPrediction(CalibratedMixin, BackgroundMixin, WrongLabelsMixin, InstanceAnnotatorMixin):
    """The methods of `ORedLogisticRegression` that need its weights alone."""

    coef_: np.ndarray
    intercept_: np.ndarray
    inference: str
    max_exact_labels: int
    n_jobs: int | None
    _weights: Callable[[], np.ndarray]

    def predict_instances(self, X: BagsLike) -> np.ndarray:
        """(m,) most likely class of every instance when the labels of its bag are not known."""
        bags = self._start_predict(X)
        n_classes = len(self.classes_)
        return self._values_of(
            self._by_blocks(bags, lambda block: self._ranking(block)[:, :n_classes].argmax(axis=1))
        )  # fmt: skip

    def annotate(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) most likely class of every instance among the labels of its bag.

        With a background still the most likely listed one (see `background_proba` for the rest), and in a bag without
        labels ``background_label_``.
        """
        Y = given_labels(X, Y)
        bags = self._start_predict(X)
        indicator = encode_labels(Y, self.classes_, len(bags))
        problem = self._listed_problem(bags, indicator, None)
        errors = problem.room_for_errors(self.max_exact_labels)
        labels = self._labels_by_blocks(problem, bags, indicator, errors)
        warn_approximation(problem, self.max_exact_labels, errors)
        return self._values_of(np.concatenate(labels))

    def _labels_by_blocks(
        self, problem: UnionProblem, bags: Bags, indicator: np.ndarray, errors: np.ndarray | None
    ) -> list[np.ndarray]:
        """Most probable listed labels of the instances of each block, -1 where none is listed."""
        weights, labels = self._weights(), []
        plain = not self._is_calibrated and self._rates() is None and not sp.issparse(bags.instances)
        own = plain and own_labels_pay(problem, len(weights))
        for block in Block.cut(problem, weights.shape[1] if own else len(weights)):
            of_block, wrong = bags[block.bags], None if errors is None else errors[block.bags]
            if own:
                posterior = block.own.of_instances(of_block.instances, weights)
                self._infer(block.own.problem, posterior, wrong)
                labels.append(block.own.best(posterior))
            else:
                posterior = self._posterior(block.problem, of_block, wrong)
                labels.append(listed_labels(posterior, of_block, indicator[block.bags]))
        return labels

    def _by_blocks(self, bags: Bags, function: Callable[[Bags], np.ndarray]) -> np.ndarray:
        return by_blocks(bags, len(self.classes_) + self._has_background, function)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return affine_scores(bags.instances, np.hstack([self.coef_, self.intercept_[:, None]]))

    def _union_problem(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> UnionProblem:
        return self._problem(bags, indicator, self._has_background, known)

    def _plain_scores(self, bags: Bags) -> np.ndarray:
        """(m, c) or, with background, (m, c + 1) scores."""
        weights = self._weights()
        check_allocation(
            8 * bags.n_instances * len(weights),
            f"An array of {bags.n_instances} instances by {len(weights)} classes",
            "ask for fewer bags at a time, or for labels alone (predict_instances, annotate, predict)",
        )
        return affine_scores(bags.instances, weights)

    def _probabilities(self, bags: Bags) -> np.ndarray:
        """(m, c) or, with background, (m, c + 1) prior probabilities."""
        return self._as_probabilities(self._plain_scores(bags), bags)

    def _find_alone(self, bags: Bags) -> Findings:
        proba = self._probabilities(bags)
        return self._findings(proba[:, : len(self.classes_)].argmax(axis=1), proba)

    def _find_listed(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> Findings:
        """The posterior given the labels of the bags; the most probable of them is the label (equation 27)."""
        problem = self._listed_problem(bags, indicator, known)
        errors = problem.room_for_errors(self.max_exact_labels)
        posterior = self._posterior(problem, bags, errors)
        warn_approximation(problem, self.max_exact_labels, errors)
        return self._findings(listed_labels(posterior, bags, indicator, known), posterior)

    def _listed_problem(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> UnionProblem:
        """With a warning about bags that their labels do not explain."""
        relaxed = relaxed_bags(bags.offsets, indicator, known, self._has_background, self._rates())
        return self._problem(bags, indicator, self._has_background, known, relaxed)

    def _posterior(self, problem: UnionProblem, bags: Bags, errors: np.ndarray | None) -> np.ndarray:
        posterior = self._plain_scores(bags)
        if self._is_calibrated:
            posterior = self._as_probabilities(posterior, bags, told=True)
        self._infer(problem, posterior, errors, softmax=not self._is_calibrated)
        return posterior

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest probability in the bag (section 6.4); where bags have one label each, sum_i log p_ic."""

        def scores_of(bags: Bags) -> np.ndarray:
            proba = softmax_of(self._plain_scores(bags))[:, : len(self.classes_)]  # calibration keeps its order
            if self.single_label_:
                with np.errstate(divide="ignore"):
                    return np.add.reduceat(np.maximum(np.log(proba), -1e300), bags.offsets[:-1], axis=0)
            return np.maximum.reduceat(proba, bags.offsets[:-1], axis=0)

        return self._by_blocks(bags, scores_of)

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """The union of the instances' most probable labels (equation 28), the background left out."""
        return self._by_blocks(bags, lambda bags: union_of_best(self._ranking(bags), bags)[:, : len(self.classes_)])

    def _ranking(self, bags: Bags) -> np.ndarray:
        """What orders the classes of an instance as their probabilities do."""
        return self._probabilities(bags) if self._is_calibrated else self._plain_scores(bags)

    def _infer(
        self, problem: UnionProblem, scores: np.ndarray, errors: np.ndarray | None = None, *, softmax: bool = True
    ) -> None:
        """Turn scores, or without softmax probabilities, into posteriors, in place."""
        options = self._inference_options(scores.size)
        problem.infer_in_place(scores, softmax=softmax, residual=False, rates=self._rates(), errors=errors, **options)

    def _inference_options(self, n_entries: int) -> dict[str, Any]:
        return {
            "method": self.inference,
            "max_exact_labels": self.max_exact_labels,
            "n_threads": inference_threads(n_entries, self.n_jobs),
        }

    def _problem(
        self,
        bags: Bags,
        indicator: np.ndarray,
        background: bool,
        known: np.ndarray | None = None,
        relaxed: np.ndarray | None = None,
    ) -> UnionProblem:
        problem = union_problem(bags.offsets, indicator, background, known, relaxed)
        problem.check_memory(self.max_exact_labels)
        return problem

    def _problem_of(
        self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None, relaxed: np.ndarray | None
    ) -> UnionProblem:
        return self._problem(bags, indicator, self._has_background, known, relaxed)
