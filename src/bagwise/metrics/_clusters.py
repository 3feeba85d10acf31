"""Clusters of bags compared with their classes.

References
----------
.. [5] D. Zhang, F. Wang, L. Si, T. Li: Maximum margin multiple instance clustering with its applications to
       image and text clustering, section 4.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

from bagwise.metrics._validation import as_codes


def clustering_accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Share of the bags in the right cluster, under the best one-to-one match of clusters to classes.

    ``max_map 1 / n * sum_i [y_i = map(labels_i)]``, section 4.3.1 of Zhang et al. (2011), by the Hungarian
    method. Where there are more clusters than classes, those left over match nothing: their bags are wrong.

    Parameters
    ----------
    y : (n,) array of class values
    labels : (n,) array of cluster names, as in ``labels_``

    Examples
    --------
    >>> from bagwise.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    y_codes, label_codes = as_codes(y, labels)
    n_classes, n_clusters = y_codes.max() + 1, label_codes.max() + 1
    counts = np.bincount(y_codes * n_clusters + label_codes, minlength=n_classes * n_clusters)
    counts = counts.reshape(n_classes, n_clusters)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(y_codes))


def normalized_mutual_information(y: ArrayLike, labels: ArrayLike) -> float:
    """Mutual information of classes and clusters over the geometric mean of their entropies.

    ``I(y, labels) / sqrt(H(y) H(labels))``, equation 33 of Zhang et al. (2011): scikit-learn's
    ``normalized_mutual_info_score(average_method="geometric")``. 0 where one of the two is constant, 1 where
    both are. (Their equation 34 is the same once the factor ``n`` is put back into the logarithm of its
    numerator.)

    Parameters
    ----------
    y : (n,) array of class values
    labels : (n,) array of cluster names, as in ``labels_``

    Examples
    --------
    >>> from bagwise.metrics import normalized_mutual_information
    >>> normalized_mutual_information([1, 1, 2, 2, 3, 3], [3, 3, 3, 3, 3, 3])
    0.0
    """
    return float(normalized_mutual_info_score(*as_codes(y, labels), average_method="geometric"))
