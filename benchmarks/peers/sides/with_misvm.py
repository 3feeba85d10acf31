"""misvm: the MI-SVM of Andrews et al. 2002, one for each label."""

import misvm
import numpy as np
from serve import Data, Method, Scorer, serve


def fit(train: Data) -> Scorer:
    models = [misvm.MISVM(kernel="linear", C=1.0, scale_C=False, max_iters=50, verbose=False) for _ in train.Y.T]
    for model, labels in zip(models, train.Y.T, strict=True):
        model.fit(train.bags, np.where(labels > 0, 1.0, -1.0))
    return lambda test: np.column_stack([model.predict(test.bags) for model in models])


METHODS: dict[str, Method] = {"MI-SVM": fit}

if __name__ == "__main__":
    serve(METHODS)
