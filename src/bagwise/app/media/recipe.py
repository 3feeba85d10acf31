"""What a model that was trained on media carries: how they become features."""

from __future__ import annotations

from bagwise.core.fitted import Either, Flag, ListOf, Maybe, Number, Plain, Record, Text, carry

RECIPE = "featurizer_"
"""Attribute of a trained model that says how media become its features; it is saved with the model."""

carry(
    RECIPE,
    Record(
        {
            "medium": Text(),
            "settings": Record(Plain()),
            "model": Text(),
            "feature_names": Either(None, ListOf(Text(), "features")),
            "max_noise": Maybe(Number(0, 1)),  # above it an instance counts as background
            "embedded": Maybe(
                Record(
                    {  # which vectors stand for instances in place of their features
                        "kind": Text(),
                        "name": Text(),
                        "fingerprint": Text(),
                        "settings": Record(Plain()),
                        "size": Number(1, whole=True),
                        "join": Flag(),
                        "licence": Maybe(Text()),
                        "scores": Maybe(Record(Number(0, whole=True))),
                    }
                )
            ),
        }
    ),
)
