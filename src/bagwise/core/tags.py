"""What a learner can do, as scikit-learn's tags: one place to ask, `bagwise.pipeline.bag_tags`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from sklearn.utils import Tags


@dataclass(slots=True)
class BagTags:
    """What a learner of bags can do, beyond what scikit-learn's own tags say.

    Attributes
    ----------
    annotates : bool
        It gives labels to instances: `find`, `annotate`, `predict_instances`, `instance_decision_function`.
    probabilities : bool
        It gives them probabilities: `annotate_proba`, `predict_instances_proba`.
    background : bool
        It knows instances of no class: `background_proba`. Once fitted, what the fit found; before, what it was asked.
    instance_labels : bool
        `fit` takes the labels of instances that are known.
    needs_instance_labels : bool
        `fit` cannot do without them (where bags carry several labels).
    sample_weight : bool
        `fit` takes a weight a bag.
    callback, checkpoint : bool
        `fit` takes them.
    warm_start : bool
        With ``warm_start=True`` a fit starts from what the last one found.
    row_per_bag : bool
        It is a transformer that makes one row of every bag: what comes after it does not see instances.
    """

    annotates: bool = False
    probabilities: bool = False
    background: bool = False
    instance_labels: bool = False
    needs_instance_labels: bool = False
    sample_weight: bool = False
    callback: bool = False
    checkpoint: bool = False
    warm_start: bool = False
    row_per_bag: bool = False


@dataclass(slots=True)
class TagsWithBags(Tags):
    """scikit-learn's tags and ours."""

    bag_tags: BagTags = field(default_factory=BagTags)

    @classmethod
    def of(cls, tags: Tags) -> TagsWithBags:
        """The tags of scikit-learn with ours, all of them off."""
        return cls(**{own.name: getattr(tags, own.name) for own in fields(tags)})
