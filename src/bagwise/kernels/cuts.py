"""The search for the most violated constraint of a cutting plane method."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def most_violated(alpha, products, shift, clusters, along, masks, margins, mask):
    """Margins <W, v_i>, the bags below 1 as `mask`, their mean loss, and whether that mask is a cut already.

    Parameters
    ----------
    alpha : (s,) array
    products : (>= s, n) array
        <v_i, x_j>.
    shift : (k,) array
        That of W, times k/(k-1).
    clusters, along : (n,) arrays
    masks : (>= s, n) array
    margins, mask : (n,) arrays
        Receive the results.
    """
    n = margins.shape[0]
    for i in range(n):
        margins[i] = shift[clusters[i]] * along[i]
    for j in range(alpha.shape[0]):
        weight, row = alpha[j], products[j]
        for i in range(n):
            margins[i] += weight * row[i]
    loss = 0.0
    for i in range(n):
        mask[i] = 1.0 if margins[i] < 1.0 else 0.0
        loss += max(0.0, 1.0 - margins[i])
    known = False
    for j in range(alpha.shape[0]):
        same = True
        for i in range(n):
            if masks[j, i] != mask[i]:
                same = False
                break
        known = known or same
    return loss / n, known
