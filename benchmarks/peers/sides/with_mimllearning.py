"""mimllearning: reductions of bags to vectors, and of labels to a classifier of bags for each."""

from collections.abc import Callable
from functools import partial

import numpy as np
from miml.classifier import APRClassifier, MIMLClassifier, MIMLtoMIBRClassifier, MIMLtoMLClassifier, MIWrapperClassifier
from miml.data import Bag, MIMLDataset
from miml.transformation import ArithmeticTransformation
from serve import Data, Method, Scorer, serve
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression


def as_dataset(data: Data) -> MIMLDataset:
    dataset = MIMLDataset()
    dataset.set_name("bags")
    dataset.set_features_name([f"feature{i}" for i in range(data.X.shape[1])])
    dataset.set_labels_name([f"label{i}" for i in range(data.Y.shape[1])])
    for i, (instances, labels) in enumerate(zip(data.bags, data.Y, strict=True)):
        bag = Bag(str(i))
        bag.data = np.hstack([instances, np.tile(labels, (len(instances), 1))])
        dataset.add_bag(bag)
    return dataset


def fit(make: Callable[[], MIMLClassifier], train: MIMLDataset) -> Scorer:
    model = make()
    model.fit(train)
    return model.predict_proba


METHODS: dict[str, Method] = {
    "MIWrapper, logistic regression": partial(
        fit, lambda: MIMLtoMIBRClassifier(MIWrapperClassifier(LogisticRegression(max_iter=1000)))
    ),
    "APR": partial(fit, lambda: MIMLtoMIBRClassifier(APRClassifier())),
    "arithmetic, random forest": partial(
        fit, lambda: MIMLtoMLClassifier(RandomForestClassifier(random_state=0), ArithmeticTransformation())
    ),
}

if __name__ == "__main__":
    serve(METHODS, as_dataset)
