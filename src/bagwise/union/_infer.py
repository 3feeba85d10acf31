"""Compiled union inference over many bags: each bag reduced to its local problem, solved, and written back.

The solvers of the local problem are in `_exact`. What is said of a label of a bag is a number: 1, it is listed;
between 0 and 1, the confidence that it is there; inf and -inf, it is certainly there and certainly not; NaN, nobody
knows. Of a group one member at least is there.

Lists may be wrong: an observer notices an instance of class c with probability 1 - missed[c], and a label that nothing
noticed carries is listed all the same with probability spurious[c]. What an instance shows is then one of the listed
labels, noticed, or nothing: its label was missed, whatever it is, or it is background. That is the local problem again,
with A[i, j] = (1 - missed_j) p_ij, the rest in `free`, and without[j] = spurious_j. All other kinds of evidence are
about what is in the bag, noticed or not.
"""

from typing import NamedTuple

import numpy as np

from bagwise.kernels import njit
from bagwise.union._exact import copy_normalized, log_add, log_forward_backward, solve
from bagwise.union._propagate import propagate
from bagwise.union.constants import TINY


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def softmax_row(scores, i):
    """Turn row i of `scores` into its softmax; returns the log of the normaliser."""
    top = scores[i, 0]
    for c in range(1, scores.shape[1]):
        top = max(top, scores[i, c])
    total = 0.0
    for c in range(scores.shape[1]):
        scores[i, c] = np.exp(scores[i, c] - top)
        total += scores[i, c]
    inverse = 1.0 / total
    for c in range(scores.shape[1]):
        scores[i, c] *= inverse
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_in_place(scores):
    """Turn every row of `scores` into its softmax.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import softmax_in_place
    >>> scores = np.log([[1.0, 3.0], [2.0, 2.0]])
    >>> softmax_in_place(scores)
    >>> scores.round(3).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    for i in range(scores.shape[0]):
        softmax_row(scores, i)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_log_partition(scores, direction, step):
    """Sum over rows of log sum_c exp(scores + step * direction).

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import sum_log_partition
    >>> scores = np.log([[1.0, 3.0], [2.0, 2.0]])
    >>> bool(np.isclose(sum_log_partition(scores, np.zeros_like(scores), 1.0), np.log(16.0)))
    True
    """
    result = 0.0
    for i in range(scores.shape[0]):
        top = -np.inf
        for c in range(scores.shape[1]):
            top = max(top, scores[i, c] + step * direction[i, c])
        total = 0.0
        for c in range(scores.shape[1]):
            total += np.exp(scores[i, c] + step * direction[i, c] - top)
        result += top + np.log(total)
    return result


UNLISTED, OPTIONAL, NEEDED, ABSENT = 0, 1, 2, 3  # what is said of a class, and of what it takes part in
FREE = -1  # the cell of columns of which nothing is said


class Classes(NamedTuple):
    """What is said of every class in the bag at hand, (c,) each."""

    role: np.ndarray  # UNLISTED, OPTIONAL, NEEDED or ABSENT
    n_known: np.ndarray  # known instances of it
    cell: np.ndarray  # of a NEEDED one
    group: np.ndarray  # the last of the groups that it is in, as a label; FREE where it is in none
    groups: np.ndarray  # all of them, as bits
    hidden: np.ndarray  # share of its mass that says nothing since it went unnoticed; (0,) where none may


class Columns(NamedTuple):
    """The classes of which something is said, or that say nothing, in the order of the local problem.

    First those with a cell, a column of `A`, of their own; behind them those that share one or are free.
    """

    label: np.ndarray  # class
    factor: np.ndarray  # share of its mass that is meant
    slot: np.ndarray  # cell of those behind, or FREE


class Cells(NamedTuple):
    """What is said of the columns of `A`, of which the groups are the last, as labels of the local problem."""

    without: np.ndarray
    is_list: np.ndarray  # whether a plain list says it
    shows: np.ndarray  # labels and groups that a cell shows, as bits; where groups overlap a cell shows several


class Rows(NamedTuple):
    """Instances of the bag whose label is not known."""

    row: np.ndarray
    A: np.ndarray
    free: np.ndarray
    logs: np.ndarray  # of the columns, and last of the hidden mass
    raw: np.ndarray  # scores; (0,) where the hidden mass is not in logarithms
    normalizer: np.ndarray
    hidden: np.ndarray  # mass that went unnoticed, -1 where only the logarithms know it


@njit(cache=True, nogil=True, error_model="numpy")
def _unknown_rows(start, stop, known, some_known, rows, n_known):
    """List the instances whose label is not known, and count the others by their label."""
    n = 0
    for i in range(start, stop):
        if some_known and known[i] >= 0:
            n_known[known[i]] += 1
        else:
            rows[n] = i
            n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_labels(labels, first, last, background, n_known, relaxed, columns):
    """Put the labels that an unknown instance must still carry first, those that it may carry behind them."""
    k = 0
    for position in range(first, last):
        if not (relaxed or n_known[labels[position]] > 0):
            columns[k] = labels[position]
            k += 1
    width = k
    for position in range(first, last):
        if relaxed or n_known[labels[position]] > 0:
            columns[width] = labels[position]
            width += 1
    if background >= 0:
        columns[width] = background
        width += 1
    return k, width


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(value, relaxed, n_known, missed, spurious):
    """How many times as probable what is said of a label is without an instance of it, of those that are not known."""
    if value == 1.0:
        unnoticed = missed**n_known
        if relaxed or unnoticed == 0.0:
            return 1.0
        return spurious + (1.0 - spurious) * (1.0 - unnoticed)
    if value == np.inf:
        return 1.0 if relaxed or n_known > 0 else 0.0
    return 1.0 if n_known > 0 or np.isnan(value) else (1.0 - value) / value


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_labels(labels, said, first, last, relaxed, missed, spurious, classes, columns, cells):
    """Labels of which the evidence is finite, each a cell of its own.

    Returns their number, and the log-probability of the confidences if all these labels are there.
    """
    k, log_said = 0, 0.0
    for position in range(first, last):
        c = labels[position]
        value = said[position] if said.size > 0 else 1.0
        is_listed = value == 1.0
        if 0.0 < value < 1.0:
            log_said += np.log(value)
        classes.role[c] = ABSENT if value == -np.inf else OPTIONAL
        if value != -np.inf:
            rates = (missed[c], spurious[c]) if missed.size > 0 else (0.0, 0.0)
            odds = _weigh(value, relaxed, classes.n_known[c], *rates)
            if odds != 1.0:
                cells.without[k], cells.is_list[k] = odds, is_listed
                columns.label[k], columns.factor[k] = c, 1.0 - rates[0] if is_listed else 1.0
                classes.role[c], classes.cell[c] = NEEDED, k
                k += 1
        if classes.hidden.size > 0 and not (classes.role[c] == NEEDED and is_listed):
            classes.hidden[c] = 0.0
    return k, log_said


@njit(cache=True, nogil=True, error_model="numpy")
def _join_groups(first, last, member_starts, members, k, classes, cells):
    """Groups of which no member is there for sure, as labels behind the others; their number, and whether any overlap.

    An overlap is a label in two groups, or one of which something else is said, too.
    """
    overlap = False
    for g in range(first, last):
        is_certain = False
        for position in range(member_starts[g], member_starts[g + 1]):
            c = members[position]
            is_certain |= classes.n_known[c] > 0
            is_certain |= classes.role[c] == NEEDED and cells.without[classes.cell[c]] == 0.0
        if is_certain:
            continue
        cells.without[k], cells.is_list[k] = 0.0, False
        for position in range(member_starts[g], member_starts[g + 1]):
            c = members[position]
            overlap |= classes.group[c] != FREE or classes.role[c] == NEEDED
            classes.group[c] = k
            classes.groups[c] |= 1 << min(k, 62)
        k += 1
    return k, overlap


@njit(cache=True, nogil=True, error_model="numpy")
def _cell_that_shows(groups, n_labels, n_cells, shows):
    """The cell of these groups alone, a new one if there is none; and the number of cells."""
    for s in range(n_labels, n_cells):
        if shows[s] == groups:
            return s, n_cells
    shows[n_cells] = groups
    return n_cells, n_cells + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _place_columns(labels, first, last, background, n_labels, k, overlap, classes, columns, cells):
    """Columns behind those with a cell of their own: members of groups, and what is said nothing of.

    Returns the number of cells, and of columns.
    """
    n_cells, width = k, n_labels
    if overlap:
        n_cells = n_labels
        for j in range(n_labels):
            cells.shows[j] = (1 << min(j, 62)) | classes.groups[columns.label[j]]
    for position in range(first, last):
        c = labels[position]
        part = 1.0
        if classes.role[c] == NEEDED and overlap and classes.groups[c] != 0 and classes.hidden.size > 0:
            part, classes.hidden[c] = classes.hidden[c], 0.0  # an instance that nobody noticed is a member all the same
        elif classes.role[c] != OPTIONAL:
            continue
        columns.label[width], columns.factor[width], columns.slot[width] = c, part, classes.group[c]
        if overlap and classes.groups[c] != 0:
            columns.slot[width], n_cells = _cell_that_shows(classes.groups[c], n_labels, n_cells, cells.shows)
        width += 1
    if background >= 0:
        columns.label[width], columns.factor[width], columns.slot[width] = background, 1.0, FREE
        width += 1
    columns.slot[width] = FREE  # of the hidden mass
    return n_cells, width


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _hidden_mass(probabilities, i, hidden):
    """Sum over classes of hidden_c p_ic: positive terms only, so any order is safe."""
    total = 0.0
    for c in range(hidden.size):
        total += hidden[c] * probabilities[i, c]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _hidden_log(probabilities, rows, r, hidden):
    """The same in logarithms, of scores where there are raw ones."""
    total = -np.inf
    for c in range(hidden.size):
        if hidden[c] > 0.0:
            if rows.raw.size > 0:
                value = rows.raw[r, c] - rows.normalizer[r]
            else:
                value = np.log(probabilities[rows.row[r], c])
            total = log_add(total, value + np.log(hidden[c]))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(probabilities, have_logs, n, n_labels, n_cells, width, rows, columns, hidden):
    """Local problem of the bag: `A` becomes the (n, width) shares of its columns in each unknown instance's row.

    Returns the log of the mass that the bag's columns have in all rows, -inf where a row has none. Behind the cells,
    `A` keeps the share of every other column in its cell or in the free mass, and last that of the hidden mass.
    """
    row, A, free, logs, _, _, hidden_masses = rows
    label, factor, slot = columns
    mass, product, shift = 0.0, 1.0, n_cells - n_labels
    end, some_hidden = width + shift, hidden.size > 0
    for r in range(n):
        i = row[r]
        total = 0.0
        for w in range(width):
            at = w if w < n_labels else w + shift
            A[r, at] = probabilities[i, label[w]] * factor[w]
            total += A[r, at]
        if some_hidden:
            hidden_masses[r] = A[r, end] = _hidden_mass(probabilities, i, hidden)
            total += A[r, end]
        if total == 0.0 and not have_logs:
            return -np.inf
        if total < TINY and have_logs:  # softmax has underflowed: only the logarithms know the ratios
            n_logs = width
            if some_hidden:
                logs[r, width], hidden_masses[r] = _hidden_log(probabilities, rows, r, hidden), -1.0
                n_logs += 1
            top = -np.inf
            for w in range(n_logs):
                top = max(top, logs[r, w])
            if top == -np.inf:
                return -np.inf
            total = 0.0
            for w in range(n_logs):
                at = w if w < n_labels else w + shift
                A[r, at] = np.exp(logs[r, w] - top)
                total += A[r, at]
            mass += top
        product *= total
        if product < TINY or product > 1.0 / TINY:
            mass += np.log(product)
            product = 1.0
        for s in range(n_labels, n_cells):
            A[r, s] = 0.0
        loose = 0.0
        for j in range(n_labels):
            A[r, j] /= total
        for w in range(n_labels, width):
            A[r, w + shift] /= total
            if slot[w] == FREE:
                loose += A[r, w + shift]
            else:
                A[r, slot[w]] += A[r, w + shift]
        if some_hidden:
            A[r, end] /= total
            loose += A[r, end]
        free[r] = loose
        for w in range(n_labels, width + some_hidden):
            whole = loose if slot[w] == FREE else A[r, slot[w]]
            A[r, w + shift] = A[r, w + shift] / whole if whole > 0.0 else 0.0
    return mass + np.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_in_logs(n, n_labels, n_cells, n_logs, k, shows, rows, slot, without, pull):
    """`log_forward_backward` on the gathered logarithms, each row first normalised to its mass."""
    log_A, log_free = np.full((n, n_cells), -np.inf), np.full(n, -np.inf)
    for r in range(n):
        total = -np.inf
        for w in range(n_logs):
            total = log_add(total, rows.logs[r, w])
            cell = w if w < n_labels else slot[w]
            if cell == FREE:
                log_free[r] = log_add(log_free[r], rows.logs[r, w])
            else:
                log_A[r, cell] = log_add(log_A[r, cell], rows.logs[r, w])
        log_free[r] -= total
        for s in range(n_cells):
            log_A[r, s] -= total
    result = log_forward_backward(log_A, log_free, n, k, shows[:n_cells], without, pull)
    if result > -np.inf:
        copy_normalized(log_A, log_free, n, n_cells, rows.A, rows.free)
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _write_row(scores, i, sign, spread, mass, log_mass, hidden, raw, r, normalizer):
    """scores[i] becomes `sign` times itself plus `spread`, the posterior of going unnoticed, shared among classes."""
    if mass > TINY:
        factor = spread / mass
        for c in range(hidden.size):
            scores[i, c] *= sign + factor * hidden[c]
        return
    for c in range(hidden.size):
        part = 0.0
        if mass > 0.0:
            part = hidden[c] * scores[i, c] / mass
        elif mass < 0.0 and hidden[c] > 0.0 and log_mass > -np.inf:
            part = np.exp(np.log(hidden[c]) + raw[r, c] - normalizer - log_mass)
        scores[i, c] = sign * scores[i, c] + spread * part


@njit(cache=True, nogil=True, error_model="numpy")
def _known_instances(scores, softmax, start, stop, known, background, role, missed):
    """Log-likelihood of the known instances, and how many of them went unnoticed for sure: of a label not listed."""
    likelihood, n_unlisted = 0.0, 0
    for i in range(start, stop):
        if known[i] < 0:
            continue
        c = known[i]
        log_known = scores[i, c] if softmax else np.log(scores[i, c])
        likelihood += log_known - (softmax_row(scores, i) if softmax else 0.0)
        if c == background or role[c] in (OPTIONAL, NEEDED):
            continue
        if role[c] == ABSENT or missed.size == 0:
            likelihood = -np.inf
        else:
            likelihood += np.log(missed[c])
            n_unlisted += 1
    return likelihood, n_unlisted


@njit(cache=True, nogil=True, error_model="numpy")
def infer(
    scores, softmax, offsets, label_starts, labels, said, n_labels, group_starts, member_starts, members, background,
    known, relaxed, missed, spurious, first, last, method, bound, max_exact, residual, log_likelihood, statistics,
    errors,
):  # fmt: skip
    """Union inference of the bags first .. last - 1, in place over `scores`.

    scores : (m, c) probabilities, or (softmax true) any scores whose softmax is the probability
    labels[label_starts[b] : label_starts[b + 1]] : columns of which something is said of bag b, not the background's
    said : what is said of each of these; (0,) where all are listed
    n_labels : (n,) number of labels and groups with finite evidence, at most
    members[member_starts[g] : member_starts[g + 1]] : of group g, each of them among the bag's labels
    group_starts : (n + 1,) first group of each bag; (0,) where there is none
    background : column that any bag may hold unlisted, or -1
    known : (m,) column of an instance whose label is known, or -1; (0,) where none is
    relaxed : (n,) true where labels and groups that must appear need not; (0,) where no bag is relaxed
    missed, spurious : (c,) rates in [0, 1), those of the background not looked at; (0,) where lists are right
    method, bound : see `solve`; more than `max_exact` labels are approximated, see `propagate`
    residual : write posterior minus probability (the gradient's weights) rather than the posterior
    log_likelihood : (n,) out; -inf for a bag that nothing explains (its posterior rows are NaN, residual rows 0), NaN
        for one with more than `max_exact` labels where groups overlap, which cannot be approximated
    statistics : (n, 3) out, with rates; what the gradient in rates that all classes share is made of, per bag: expected
        number of instances that were noticed, that went unnoticed, and the pull of the spurious labels; with them
        d / d logit(missed) = (1 - missed) unnoticed - missed noticed and d / d logit(spurious) = spurious pull
    errors : (n,) out; estimated error of the posterior, 0 where it is exact; (0,) where nobody asks for it
    """
    n_classes = scores.shape[1]
    some_rates, some_known, some_relaxed = missed.size > 0, known.size > 0, relaxed.size > 0
    some_groups = group_starts.size > 0
    plain = not (some_rates or some_groups or said.size > 0)
    most_rows, most_labels, most_bits = 1, 1, 1
    for b in range(first, last):
        most_rows = max(most_rows, offsets[b + 1] - offsets[b])
        most_labels = max(most_labels, label_starts[b + 1] - label_starts[b])
        most_bits = max(most_bits, n_labels[b])
    some_missed, log_absent_all = False, 0.0
    log_absent = np.zeros(n_classes if some_rates else 0)
    for c in range(log_absent.size):
        if c != background:
            log_absent[c] = np.log1p(-spurious[c])
            log_absent_all += log_absent[c]
            some_missed |= missed[c] > 0.0
    width = (2 * most_labels if some_groups else most_labels) + 2  # most columns
    n_cells = width + most_bits if some_groups else width  # most cells
    classes = Classes(
        np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64),
        np.full(n_classes, FREE), np.zeros(n_classes, np.int64), np.empty(n_classes if some_missed else 0),
    )  # fmt: skip
    columns = Columns(np.empty(width, np.int64), np.ones(width), np.full(width, FREE))
    cells = Cells(np.zeros(n_cells), np.zeros(n_cells, np.bool_), np.empty(n_cells, np.int64))
    rows = Rows(
        np.empty(most_rows, np.int64), np.empty((most_rows, width + n_cells)), np.empty(most_rows),
        np.empty((most_rows, width)), np.empty((most_rows if softmax and some_missed else 0, n_classes)),
        np.empty(most_rows), np.empty(most_rows),
    )  # fmt: skip
    row, A, free, logs, raw, normalizer, masses = rows
    role, n_known, _, group, groups, hidden = classes
    label, factor, slot = columns
    without, is_list, _ = cells
    singles, log_factor = np.empty(n_cells, np.int64), np.empty(width)
    for s in range(n_cells):
        singles[s] = 1 << min(s, 62)
    most_subsets = 1 << min(most_bits, max_exact)
    signed, sums, ratio = np.empty(most_subsets), np.empty(most_subsets), np.empty(most_subsets)
    pull = np.empty(n_cells if some_rates else 0)
    n_real = n_classes - (1 if background >= 0 else 0)
    sign = -1.0 if residual else 0.0
    for b in range(first, last):
        start, stop, begin, end = offsets[b], offsets[b + 1], label_starts[b], label_starts[b + 1]
        is_relaxed = some_relaxed and relaxed[b]
        n = _unknown_rows(start, stop, known, some_known, row, n_known)
        likelihood, error, overlap = 0.0, 0.0, False
        if plain:
            k, width = _sort_labels(labels, begin, end, background, n_known, is_relaxed, label)
            n_own = n_cells = k
            if some_known:
                for position in range(begin, end):
                    role[labels[position]] = OPTIONAL
        else:
            for c in range(hidden.size):
                hidden[c] = 0.0 if c == background else missed[c]
            n_own, likelihood = _weigh_labels(
                labels, said, begin, end, is_relaxed, missed, spurious, classes, columns, cells
            )
            k = n_own
            if some_groups and not is_relaxed:
                k, overlap = _join_groups(
                    group_starts[b], group_starts[b + 1], member_starts, members, k, classes, cells
                )
            n_cells, width = _place_columns(labels, begin, end, background, n_own, k, overlap, classes, columns, cells)
            for w in range(width):
                log_factor[w] = np.log(factor[w])
        n_logs = width + (hidden.size > 0)

        if softmax:
            for r in range(n):
                i = row[r]
                for w in range(width):
                    logs[r, w] = scores[i, label[w]]
                for c in range(hidden.size):
                    raw[r, c] = scores[i, c]
                normalizer[r] = softmax_row(scores, i)
                for w in range(width):
                    logs[r, w] -= normalizer[r]
                if some_rates:
                    for w in range(width):
                        logs[r, w] += log_factor[w]
        unnoticed, noticed, drawn = 0.0, 0.0, float(end - begin - n_real)
        if some_rates:
            likelihood += log_absent_all
            for position in range(begin, end):
                likelihood -= log_absent[labels[position]]
        if some_known:
            own, n_unlisted = _known_instances(scores, softmax, start, stop, known, background, role, missed)
            likelihood += own
            unnoticed += n_unlisted
        certain = softmax and n_own == 1 and n_logs == 1 and k == 1 and n > 0  # one label only: all instances carry it
        if certain:
            for r in range(n):
                likelihood += logs[r, 0]
                A[r, 0], free[r] = 1.0, 0.0
            if some_rates:
                pull[0] = 0.0
        elif likelihood > -np.inf:
            likelihood += _gather(scores, softmax, n, n_own, n_cells, width, rows, columns, hidden)
        if not certain and likelihood > -np.inf:
            done = False
            if k > max_exact:
                result, done = np.nan, True
                if not overlap:
                    result, error = propagate(A, free, n, k, without, pull, errors.size > 0, bound)
            elif not overlap:
                result, done = solve(A, free, n, k, without, method, bound, signed, sums, ratio, pull)
            if not done:
                for r in range(n):
                    if not softmax:
                        for w in range(width):
                            logs[r, w] = np.log(scores[row[r], label[w]] * factor[w])
                    if hidden.size > 0:
                        logs[r, width] = _hidden_log(scores, rows, r, hidden)
                shows = cells.shows if overlap else singles
                result = _solve_in_logs(n, n_own, n_cells, n_logs, k, shows, rows, slot, without, pull)
            likelihood += result
        log_likelihood[b] = likelihood
        if errors.size > 0:
            errors[b] = error

        if not likelihood > -np.inf:
            blank = 0.0 if residual else np.nan
            noticed = unnoticed = drawn = 0.0
            for i in range(start, stop):
                for c in range(n_classes):
                    scores[i, c] = blank
        else:
            shift = n_cells - n_own
            for r in range(n if hidden.size > 0 else 0):
                i, spread = row[r], free[r] * A[r, width + shift]
                unnoticed += spread
                _write_row(scores, i, sign, spread, masses[r], logs[r, width], hidden, raw, r, normalizer[r])
            for i in range(start, stop):
                is_known = some_known and known[i] >= 0
                if hidden.size == 0 or is_known:
                    for c in range(n_classes):
                        scores[i, c] *= sign
                if is_known:
                    scores[i, known[i]] += 1.0
            for r in range(n):
                i = row[r]
                for j in range(n_own):
                    scores[i, label[j]] += A[r, j]
                for w in range(n_own, width):
                    share = A[r, w + shift] * (free[r] if slot[w] == FREE else A[r, slot[w]])
                    scores[i, label[w]] += share
                    if factor[w] < 1.0:
                        unnoticed += share
            if some_rates:
                for j in range(n_own):
                    if is_list[j]:
                        drawn += pull[j]
                        unnoticed -= n_known[label[j]] * pull[j]
                        for r in range(n):
                            noticed += A[r, j]
        if some_rates:
            statistics[b, 0], statistics[b, 1], statistics[b, 2] = noticed, unnoticed, drawn
        if some_known:
            for i in range(start, stop):
                if known[i] >= 0:
                    n_known[known[i]] = 0
        if some_known or not plain:
            for position in range(begin, end):
                c = labels[position]
                role[c], group[c], groups[c] = UNLISTED, FREE, 0
