"""Why a learner says what it says: which features it needs, and which speak for a label of an instance."""

from bagwise.inspection._features import feature_contributions, permutation_importance

__all__ = ["feature_contributions", "permutation_importance"]
