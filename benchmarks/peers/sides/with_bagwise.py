"""The models of bagwise, by their short names."""

from functools import partial

from serve import Data, Method, Scorer, serve

from bagwise import BagDataset, Bags
from bagwise.catalog import CATALOG, make_model


def fit(name: str, train: BagDataset) -> Scorer:
    model = make_model(name).fit(train.bags, train.Y)
    return lambda test: model.decision_function(test.bags)


def as_bags(data: Data) -> BagDataset:
    return BagDataset(Bags(data.X, data.offsets), data.Y)


METHODS: dict[str, Method] = {name: partial(fit, name) for name in CATALOG}

if __name__ == "__main__":
    serve(METHODS, as_bags)
