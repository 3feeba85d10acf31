"""What a user would pick without a library of bags: k-means of one row for each bag."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from bagwise.clustering._kmeans import _KMeansClusterer
from bagwise.clustering._shared import gap_to_second
from bagwise.clustering.scaling import are_words
from bagwise.core.bags import Bags
from bagwise.preprocessing import BagStatistics


class PlainKMeans(_KMeansClusterer):
    """Clusters whole bags by scikit-learn's k-means: words by their TF-IDF, measurements by scaled statistics.

    Words are added up over the instances of a bag, as if a document had not been cut. Of measurements the mean,
    maximum, minimum and deviation over the instances are taken (`BagStatistics`), each scaled to variance 1. The bags
    should come as they are: rows are scaled here.

    Parameters and attributes are those of `MeanKMeans`; centres are in the space of the rows.
    """

    def _cluster(self, bags: Bags) -> None:
        self._learn_rows(bags)
        super()._cluster(bags)

    def _learn_rows(self, bags: Bags) -> Any:
        self.words_ = are_words(bags)
        table = self._table(bags)
        self.scaler_ = TfidfTransformer() if self.words_ else StandardScaler(with_mean=not sp.issparse(table))
        return self.scaler_.fit_transform(table)

    def rows_of(self, bags: Bags) -> Any:
        """(n, r) rows of the bags, learned from these, for trials."""
        return clone(self)._learn_rows(bags)

    def _table(self, bags: Bags) -> Any:
        return _sums(bags) if self.words_ else BagStatistics().fit_transform(bags)

    def _rows(self, bags: Bags) -> Any:
        return self.scaler_.transform(self._table(bags))

    def _votes(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        distances = euclidean_distances(self._rows(bags), self.cluster_centers_)
        return distances.argmin(axis=1), gap_to_second(distances)

    def _squared_distances(self, bags: Bags) -> np.ndarray:
        """(m, k) squared distances to the centres of the instances, each as a bag of its own."""
        rows = self._rows(Bags(bags.instances, np.arange(bags.n_instances + 1)))
        return euclidean_distances(rows, self.cluster_centers_, squared=True)


def _sums(bags: Bags) -> Any:
    """(n, d) sums of the instances of each bag, CSR."""
    X = sp.csr_matrix(bags.instances, dtype=np.float64)
    return sp.csr_matrix((np.ones(X.shape[0]), np.arange(X.shape[0]), bags.offsets), shape=(len(bags), X.shape[0])) @ X
