"""Literal truths for support instance machines and CLPL: the papers' formulas, term by term, on explicit arrays.

Support instances are explicit (n, c, d) arrays here, which the package never builds. Equation and algorithm numbers are
those of Briggs et al. 2013.
"""

import numpy as np


def random_problem(seed, n_bags=9, n_classes=5, n_features=3, max_size=4, max_labels=None, scale=1.0, signal=0.0):
    """Instances, offsets, labels (neither empty nor full sets) and weights; `signal` moves instances apart by class."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, max_size + 1, n_bags))])
    X = scale * rng.normal(size=(offsets[-1], n_features))
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    for i in range(n_bags):
        Y[i, rng.choice(n_classes, rng.integers(1, (max_labels or n_classes - 1) + 1), replace=False)] = 1
        for q in range(offsets[i], offsets[i + 1]):
            X[q] += signal * np.eye(n_classes, n_features)[rng.choice(np.flatnonzero(Y[i]))]
    return X, offsets, Y, rng.normal(size=(n_classes, n_features))


def support_instances(X, offsets, W, aggregation):
    """(n, c, d) support instances: equations 7, 9 and 10, and the average of Algorithms 4 and 5."""
    n, c = len(offsets) - 1, len(W)
    support = np.empty((n, c, X.shape[1]))
    for i in range(n):
        bag = X[offsets[i] : offsets[i + 1]]
        for j in range(c):
            scores = bag @ W[j]
            if aggregation == "max":
                support[i, j] = bag[np.argmax(scores)]
            elif aggregation == "mean":
                support[i, j] = bag.mean(axis=0)
            else:
                shares = np.exp(scores - scores.max())
                support[i, j] = shares / shares.sum() @ bag
    return support


def pairs(Y):
    """Every i, j in Y_i, k not in Y_i, with beta_i."""
    n, c = Y.shape
    for i in range(n):
        size = int(Y[i].sum())
        for j in range(c):
            for k in range(c):
                if Y[i, j] == 1 and Y[i, k] == 0:
                    yield i, j, k, 1.0 / (n * size * (c - size))


def rank_objective(support, W, Y, alpha, others=None):
    """Equation 26; 25 where `others` are the support instances at W; 11 where `support` are those at W."""
    others = support if others is None else others
    value = 0.5 * alpha * np.sum(W**2)
    for i, j, k, beta in pairs(Y):
        value += beta * max(0.0, 1.0 + W[k] @ others[i, k] - W[j] @ support[i, j])
    return value


def rank_subgradient(support, W, Y, alpha, others=None):
    """Algorithm 2; Algorithm 3 where `others` are the support instances at W."""
    others = support if others is None else others
    V = alpha * W
    for i, j, k, beta in pairs(Y):
        if 1.0 + W[k] @ others[i, k] - W[j] @ support[i, j] > 0:
            V[j] -= beta * support[i, j]
            V[k] += beta * others[i, k]
    return V


def hamming_objective(support, W, Y, alpha, others=None):
    """Equation 31; with `others`, those stand behind the classes that a bag does not carry."""
    others = support if others is None else others
    n, c = Y.shape
    value = 0.5 * alpha * np.sum(W**2)
    for i in range(n):
        for j in range(c):
            sign, x = (1, support[i, j]) if Y[i, j] == 1 else (-1, others[i, j])
            value += max(0.0, 1.0 - sign * (W[j] @ x)) / (n * c)
    return value


def hamming_subgradient(support, W, Y, alpha, others=None):
    """Equation 32."""
    others = support if others is None else others
    n, c = Y.shape
    V = alpha * W
    for i in range(n):
        for q in range(c):
            sign, x = (1, support[i, q]) if Y[i, q] == 1 else (-1, others[i, q])
            if sign * (W[q] @ x) < 1:
                V[q] -= sign * x / (n * c)
    return V


OBJECTIVES = {"rank": rank_objective, "hamming": hamming_objective}
SUBGRADIENTS = {"rank": rank_subgradient, "hamming": hamming_subgradient}


def project(W, alpha):
    return min(1.0, np.sqrt(2.0 / alpha) / max(np.linalg.norm(W), 1e-300)) * W


def heuristic(X, offsets, Y, loss, aggregation, alpha, n_phases, n_steps, restart="best"):
    """Algorithm 4 or, with restart="last", that of the KDD 2012 paper; weights, and equation 11 after every phase."""
    W = np.zeros((Y.shape[1], X.shape[1]))
    history = []
    for phase in range(1, n_phases + 1):
        support = support_instances(X, offsets, W, "mean" if phase == 1 else aggregation)
        points = [] if phase == 1 else [W]  # zero weights are no candidate
        for step in range(1, n_steps + 1):
            W = project(W - SUBGRADIENTS[loss](support, W, Y, alpha) / (alpha * step), alpha)
            points.append(W)
        if restart == "best":
            W = min(points, key=lambda point: OBJECTIVES[loss](support, point, Y, alpha))
        history.append(OBJECTIVES[loss](support_instances(X, offsets, W, aggregation), W, Y, alpha))
    return W, np.array(history)


def cccp(X, offsets, Y, loss, alpha, n_phases, n_steps, max_steps):
    """Algorithm 5; weights and equation 11 after phases."""
    W = np.zeros((Y.shape[1], X.shape[1]))
    history = []
    for phase in range(1, n_phases + 1):
        support = support_instances(X, offsets, W, "mean" if phase == 1 else "max")

        def bound(point, support=support):
            return OBJECTIVES[loss](support, point, Y, alpha, support_instances(X, offsets, point, "max"))

        points, taken = [W], 0
        while taken < max_steps and min(map(bound, points)) >= bound(points[0]):
            for _ in range(min(n_steps, max_steps - taken)):
                taken += 1
                others = support_instances(X, offsets, points[-1], "max")
                V = SUBGRADIENTS[loss](support, points[-1], Y, alpha, others)
                points.append(project(points[-1] - V / (alpha * taken), alpha))
        improved = min(map(bound, points)) < bound(points[0])
        W = min(points, key=bound)
        history.append(OBJECTIVES[loss](support_instances(X, offsets, W, "max"), W, Y, alpha))
        if not improved:
            break
    return W, np.array(history)


def ambiguous_loss(scores, candidates):
    """The loss of section 5.1.3, summed over instances."""
    total = 0.0
    for f, listed in zip(scores, candidates == 1, strict=True):
        total += max(0.0, 1.0 - f[listed].mean()) ** 2
        total += sum(max(0.0, 1.0 + score) ** 2 for score in f[~listed])
    return total
