"""
Speed: exact inference of bags
==============================

To try all assignments of n instances to k labels takes k to the n steps. Exact union inference takes n times 2 to
the k, and belief propagation takes over where that is too much. Seconds are of the machine that built this page;
compare lines, not figures.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from bagwise.union import union_posterior

rng = np.random.default_rng(0)


def seconds(n_instances, n_labels, **options):
    """The least of three runs on one bag, after one that compiles."""
    proba = rng.dirichlet(np.ones(n_labels), n_instances)
    times = []
    for _ in range(4):
        start = perf_counter()
        union_posterior(proba, [0, n_instances], np.ones((1, n_labels)), **options)
        times.append(perf_counter() - start)
    return min(times[1:])


labels = [4, 8, 10, 12, 14, 16]
sizes = [100, 1_000, 10_000, 100_000]
exact = [seconds(100, k, max_exact_labels=16) for k in labels]
propagated = [seconds(100, k, max_exact_labels=1) for k in labels]
by_size = [seconds(n, 5) for n in sizes]

# %%
# Up to a dozen labels exact inference is as fast; beyond, it doubles with every label, and belief propagation does
# not (it also estimates its own error, which is most of its time). In the number of instances inference is linear.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.semilogy(labels, exact, "o-", label="exact")
left.semilogy(labels, propagated, "o-", label="belief propagation")
left.set(xlabel="labels of the bag (100 instances)", ylabel="seconds")
left.legend()
right.loglog(sizes, by_size, "o-")
right.set(xlabel="instances of the bag (5 labels)", ylabel="seconds")
plt.show()
