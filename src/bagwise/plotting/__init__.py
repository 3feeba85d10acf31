"""Pictures of bags and of what is said of them, as scikit-learn's Display objects (extra "report").

``from_estimator`` and ``from_predictions`` draw, and keep axes and figure (``ax_``, ``figure_``); ``plot(ax=...)``
draws again. Learning curves are scikit-learn's own: `sklearn.model_selection.LearningCurveDisplay` takes bags.
"""

from bagwise.plotting._displays import BagDisplay, InstanceConfusionDisplay, ReliabilityDisplay

__all__ = ["BagDisplay", "InstanceConfusionDisplay", "ReliabilityDisplay"]
