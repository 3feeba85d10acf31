"""A learner of the catalog: a function of settings that gives an unfitted model."""

from sklearn.preprocessing import StandardScaler

from bagwise import make_pipeline
from bagwise.annotation import NoisyOrLogisticRegression
from bagwise.preprocessing import PerInstance


def noisy_or_strict(l2=10.0, **settings):
    return make_pipeline(PerInstance(StandardScaler()), NoisyOrLogisticRegression(l2, **settings))
