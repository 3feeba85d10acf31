"""How good are label sets, rankings, instance labels and clusters; the truth always comes first.

Bag measures take ``Y``, the (n, c) 0/1 matrix of the labels that the bags carry, and a prediction of the same
shape: 0/1 label sets for the Hamming loss, scores (higher = more likely present) for the others. A tie
between a label that the bag carries and one that it does not counts against the prediction everywhere, so
that constant scores gain nothing. `get_scorer` gives each of them by name, for scikit-learn's searches.
"""

from bagwise.metrics._measures import (
    average_precision,
    calibration_error,
    clustering_accuracy,
    coverage,
    explained_share,
    hamming_loss,
    instance_accuracy,
    instance_outcomes,
    listed_share,
    normalized_mutual_information,
    one_error,
    rank_hinge_loss,
    ranking_loss,
    reliability_table,
    wilson_interval,
)
from bagwise.metrics._scorers import BagScorer, get_scorer, get_scorer_names

__all__ = [
    "BagScorer",
    "average_precision",
    "calibration_error",
    "clustering_accuracy",
    "coverage",
    "explained_share",
    "get_scorer",
    "get_scorer_names",
    "hamming_loss",
    "instance_accuracy",
    "instance_outcomes",
    "listed_share",
    "normalized_mutual_information",
    "one_error",
    "rank_hinge_loss",
    "ranking_loss",
    "reliability_table",
    "wilson_interval",
]
