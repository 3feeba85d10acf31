"""Exact union inference of bags on a device, without a loop over bags; the same code on a processor and on a GPU.

Bags are sorted by how many labels they have and cut into chunks that fit a budget. What a bag brings is reduced before
anything else to one table: for each instance the probabilities of the bag's k labels, and in the last column that of
all that need not appear, the background and what label noise leaves unnoticed. An instance that is known has mass in
the column of its label alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from bagwise.nn._batches import balanced_batches
from bagwise.union import LabelNoise, UnionProblem
from bagwise.union.constants import ERROR_BOUND, FEW_LABELS, TINY, UNIT_ROUNDOFF

FEW = 0.1  # of the error bound, for chunks of few labels, where the fall-back costs little
PORTION = 1 << 24  # bags times instances times subsets of which forward-backward makes tables at once


def part(problem: UnionProblem, bags: np.ndarray) -> tuple[UnionProblem, np.ndarray]:
    """The problem of some bags alone, which may come more than once, and their rows."""
    rows, offsets = _chosen(problem.offsets, bags)
    labels, label_starts = _chosen(problem.label_starts, bags)
    alone = UnionProblem(
        offsets=offsets,
        label_starts=label_starts,
        labels=problem.labels[labels],
        background=problem.background,
        known=problem.known[rows] if len(problem.known) else problem.known,
        relaxed=problem.relaxed[bags] if len(problem.relaxed) else problem.relaxed,
        said=problem.said[labels] if len(problem.said) else problem.said,
    )
    if not len(problem.group_starts):
        return alone, rows
    groups, group_starts = _chosen(problem.group_starts, bags)
    members, member_starts = _chosen(problem.member_starts, groups)
    alone = replace(alone, group_starts=group_starts, member_starts=member_starts, members=problem.members[members])
    return alone, rows


def _chosen(starts: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of some of the runs that begin at `starts`, and where these runs begin among them."""
    lengths = np.diff(starts)[index]
    return _ranges(starts[:-1][index], lengths), np.concatenate([[0], np.cumsum(lengths)])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ranges starts[i] .. starts[i] + lengths[i], one after the other."""
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.arange(len(shift)) + shift


def lay_out(
    problem: UnionProblem, n_columns: int, device: torch.device, budget: int, max_exact_labels: int
) -> tuple[list[DeviceChunk], np.ndarray]:
    """Chunks of bags for a device, and the bags that are left to the compiled code.

    These are relaxed, have too many labels, or more is said of them than which labels are listed.

    Parameters
    ----------
    problem : UnionProblem
    n_columns : int
        Columns of the scores, the background's among them.
    device : torch.device
    budget : int
        Entries of the widest array of a chunk: rows times columns, or rows times subsets. A bag that alone exceeds it
        is a chunk of its own.
    max_exact_labels : int
    """
    sizes, n_labels = np.diff(problem.offsets), problem.n_labels
    here = n_labels <= max_exact_labels
    if len(problem.relaxed):
        here &= ~problem.relaxed
    if len(problem.said):
        more = np.concatenate([[0], np.cumsum(problem.said != 1.0)])
        here &= more[problem.label_starts[1:]] == more[problem.label_starts[:-1]]
    if len(problem.group_starts):
        here &= np.diff(problem.group_starts) == 0
    chunks = []
    for k in np.unique(n_labels[here]).tolist():
        bags = np.flatnonzero(here & (n_labels == k))
        batches = balanced_batches(sizes[bags], max(1, budget // max(n_columns, 1 << k)))
        chunks += [DeviceChunk(problem, bags[batch], n_columns, device) for batch in batches]
    return chunks, np.flatnonzero(~here)


class DeviceChunk:
    """Bags of k labels each and their instances, bag by bag: what is fixed about them, as tensors.

    Attributes
    ----------
    bags, rows : (b,) and (r,) tensors
        Which bags and instances of the problem.
    columns, row_columns : (b, k) and (r, k) tensors
        The labels of every bag, and of that of every instance.
    members : (k + 1, 2^k) tensor
        Whether each label is in each subset; what need not appear, the last one, is in all.
    outside : (r, c) tensor or None
        Columns that an instance is known not to be of; None where no instance is known.
    """

    def __init__(self, problem: UnionProblem, bags: np.ndarray, n_columns: int, device: torch.device) -> None:
        def moved(array: np.ndarray) -> torch.Tensor:
            return torch.as_tensor(array, device=device)

        alone, rows = part(problem, bags)
        sizes = np.diff(alone.offsets)
        self.k, self.background = len(alone.labels) // len(bags), problem.background
        self.n_unlisted = n_columns - (problem.background >= 0) - self.k
        self.bags, self.rows, self.offsets, self.sizes = (moved(v) for v in (bags, rows, alone.offsets, sizes))
        self.most_rows = int(sizes.max())
        self.bag = moved(np.repeat(np.arange(len(bags)), sizes))
        self.columns = moved(alone.labels.reshape(len(bags), self.k))
        self.row_columns = self.columns[self.bag]
        subsets = np.arange(1 << self.k)
        in_subset = subsets >> np.arange(self.k)[:, None] & 1
        self.members = moved(np.vstack([in_subset, np.ones_like(subsets)]).astype(np.float64))
        self.outside = None
        if (alone.known >= 0).any():
            known = moved(alone.known)[:, None]
            self.outside = (known >= 0) & (known != torch.arange(n_columns, device=device))


class DeviceRates(NamedTuple):
    """Label noise on a device, as logarithms of probabilities of each column.

    Attributes
    ----------
    noticed, unnoticed : (c,) tensors
        Of an instance; the background is nothing that anybody notices.
    absent : (c,) tensor
        That a label which nothing noticed carries is not listed; the background never is.
    """

    noticed: torch.Tensor
    unnoticed: torch.Tensor
    absent: torch.Tensor

    @classmethod
    def of(cls, rates: LabelNoise | None, background: int, device: torch.device) -> DeviceRates | None:
        if rates is None:
            return None
        missed, spurious = (torch.as_tensor(v.copy(), device=device) for v in (rates.missed, rates.spurious))
        if background >= 0:
            missed[background], spurious[background] = 1.0, 0.0
        return cls((1.0 - missed).log(), missed.log(), (1.0 - spurious).log())


class Inferred(NamedTuple):
    """What is known of a chunk after inference.

    Attributes
    ----------
    log_likelihood : (b,) tensor
        -inf in a bag that no assignment explains.
    explained : (b,) tensor or None
        Which bags can be explained; None where all can.
    posterior : (r, k + 1) tensor
        Of the bag's labels, and of what need not appear; zero in a bag that cannot be explained.
    shares : (r, c) tensor or None
        How the latter is shared among the columns; None: it is all the background's.
    statistics : (3,) tensor or None
        Noticed, unnoticed and pull, as of `bagwise.union._rates.infer_with_rates`, but that known instances are noticed
        or unnoticed like all others; with rates only.
    """

    log_likelihood: torch.Tensor
    explained: torch.Tensor | None
    posterior: torch.Tensor
    shares: torch.Tensor | None
    statistics: torch.Tensor | None

    def add_to(self, table: torch.Tensor, chunk: DeviceChunk) -> torch.Tensor:
        """Add the posterior to an (r, c) table; bags that cannot be explained are zero in it."""
        table.scatter_add_(1, chunk.row_columns, self.posterior[:, :-1])
        if self.shares is not None:
            table.addcmul_(self.posterior[:, -1:], self.shares)
        elif chunk.background >= 0:
            table[:, chunk.background] += self.posterior[:, -1]
        if self.explained is not None:
            table *= self.explained[chunk.bag][:, None]
        return table


def infer_chunk(log_proba: torch.Tensor, chunk: DeviceChunk, rates: DeviceRates | None) -> Inferred:
    """Posterior and log-likelihood of a chunk from the (r, c) logarithms of its rows' probabilities."""
    if chunk.outside is not None:
        log_proba = log_proba.masked_fill(chunk.outside, -torch.inf)
    logs, shares = log_proba.gather(1, chunk.row_columns), None
    if rates is not None:
        logs = logs + rates.noticed[chunk.row_columns]
        shares = log_proba + rates.unnoticed
        loose = shares.logsumexp(dim=1)
        shares = torch.exp(shares - _finite(loose)[:, None])
    elif chunk.background >= 0:
        loose = log_proba[:, chunk.background]
    else:
        loose = torch.full_like(log_proba[:, 0], -torch.inf)
    logs = torch.cat([logs, loose[:, None]], dim=1)
    mass = logs.logsumexp(dim=1)
    logs -= _finite(mass)[:, None]
    need = torch.ones_like(chunk.columns, dtype=logs.dtype) if rates is None else rates.absent[chunk.columns].exp()
    posterior, P, pull, certified = _inclusion_exclusion(logs.exp(), need, chunk)
    log_p = torch.where(certified, P, 1.0).log()
    left = torch.nonzero(~certified).ravel()
    if len(left):
        _solve_left(left, logs, need, chunk, posterior, log_p, pull)
    log_p += sum_by_bag(mass, chunk)
    explained, statistics = log_p > -torch.inf if len(left) else None, None
    if rates is not None and shares is not None:
        log_p += rates.absent.sum() - rates.absent[chunk.columns].sum(dim=1)
        if explained is not None:
            pull = torch.where(explained[:, None], pull, 0.0)
        noticed, free = posterior[:, :-1].sum(), posterior[:, -1]
        seen = free @ shares[:, chunk.background] if chunk.background >= 0 else 0.0
        statistics = torch.stack([noticed, free.sum() - seen, pull.sum() - chunk.n_unlisted * len(chunk.bags)])
    return Inferred(log_p, explained, posterior, shares, statistics)


def _finite(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values > -torch.inf, values, 0.0)


def sum_by_bag(values: torch.Tensor, chunk: DeviceChunk) -> torch.Tensor:
    """(b,) sums of (r,) values; as a table of one column, for which a faster kernel is there."""
    return torch.segment_reduce(values[:, None], "sum", offsets=chunk.offsets, axis=0, initial=0.0, unsafe=True)[:, 0]


def _inclusion_exclusion(
    A: torch.Tensor, need: torch.Tensor, chunk: DeviceChunk
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `bagwise.union._exact.inclusion_exclusion`, all bags at once: posterior, P, pull, and where that is certain.

    The sums over subsets are products with a 0/1 matrix here, whose order of additions is the library's: they may carry
    2^k roundings instead of k, which the certificate counts.
    """
    k, n_subsets = chunk.k, 1 << chunk.k
    # a label next to no mass in some row spoils the sums of its bag, and so certifies nothing
    spoiled = A[:, : max(k, 1)].amin(dim=1) + A[:, -1] < TINY
    if chunk.outside is not None:  # what is known has none at all, which is exact
        spoiled &= ~chunk.outside.any(dim=1)
    A[:, -1].masked_fill_(spoiled, torch.nan)
    sums = A @ chunk.members
    products = torch.segment_reduce(sums, "prod", offsets=chunk.offsets, axis=0, initial=1.0, unsafe=True)
    signs = torch.ones((len(need), 1), dtype=A.dtype, device=A.device)
    for j in range(k):  # of each subset the product of -need over the labels that it leaves out
        signs = torch.cat([signs * -need[:, j : j + 1], signs], dim=1)
    signed = products * signs
    P, size = signed.sum(dim=1), signed.abs().sum(dim=1)
    bound = ERROR_BOUND if k > FEW_LABELS else ERROR_BOUND * FEW
    roundings = chunk.sizes * (k + 1) + 3 * k + 4 + n_subsets
    certified = (2.0 * roundings * UNIT_ROUNDOFF * size <= bound * P) & (P > 0.0)
    signed = signed / torch.where(P > 0.0, P, 1.0)[:, None]
    pull = signed @ chunk.members[:-1].T - 1.0
    # a subset without mass has no part in what is in it; with nothing known that is the empty one, without free mass
    empty = sums[:, :1] if chunk.outside is None else sums
    empty.masked_fill_(empty == 0.0, torch.inf)
    ratio = signed.gather(0, chunk.bag[:, None].expand(-1, n_subsets)).div_(sums)
    posterior = A.mul_(ratio @ chunk.members.T).clamp_(min=0.0)
    return posterior.div_(posterior.sum(dim=1, keepdim=True)), P, pull, certified


def _solve_left(
    left: torch.Tensor,
    logs: torch.Tensor,
    need: torch.Tensor,
    chunk: DeviceChunk,
    posterior: torch.Tensor,
    log_p: torch.Tensor,
    pull: torch.Tensor,
) -> None:
    """Infer the bags in which the alternating sum cancels by forward-backward, and put that in place."""
    nothing = torch.full_like(logs[0], -torch.inf)
    nothing[-1] = 0.0
    for bags in left.split(max(1, PORTION // (chunk.most_rows << chunk.k))):
        sizes = chunk.sizes[bags]
        place = torch.arange(int(sizes.max()), device=logs.device)
        there = place < sizes[:, None]
        rows = (chunk.offsets[bags][:, None] + place).clamp_(max=len(logs) - 1)
        own = torch.where(there[..., None], logs[rows], nothing)  # an instance that is not there says nothing
        found, log_p[bags], pull[bags] = _forward_backward(own, need[bags], chunk.members > 0)
        posterior[rows[there]] = found[there]


def _forward_backward(A: torch.Tensor, need: torch.Tensor, members: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(b, n, k + 1) posterior, (b,) log P and (b, k) pull from logarithms: of positive terms, none is too small.

    ahead[i][L] is the probability that the first i instances, and the labels that need none, show exactly L;
    behind[L] that those from i on add what L lacks.
    """
    n, k = A.shape[1], A.shape[2] - 1
    label, subsets = torch.arange(k, device=A.device), torch.arange(members.shape[1], device=A.device)
    labels = torch.cat([torch.arange(k + 1, device=A.device), label])
    bits = 1 << label[:, None]
    same = subsets.expand(k + 1, -1)  # an instance shows what is in L already or need not appear,
    came, goes = torch.cat([same, subsets & ~bits]), torch.cat([same, subsets | bits])  # or a label that was not
    inside = torch.zeros_like(members, dtype=A.dtype).masked_fill_(~members, -torch.inf)
    outside = torch.zeros_like(members[:-1], dtype=A.dtype).masked_fill_(members[:-1], -torch.inf)
    forward, backward = torch.cat([inside, inside[:-1]]), torch.cat([inside, outside])
    start = torch.where(members[:-1], torch.log1p(-need)[..., None], need.log()[..., None]).sum(dim=1)
    ahead = [start]
    for i in range(n):
        ahead.append((ahead[-1][:, came] + A[:, i, labels, None] + forward).logsumexp(dim=1))
    log_p = ahead[-1][:, -1]
    behind = torch.full_like(start, -torch.inf)
    behind[:, -1] = 0.0
    shown = torch.cat([goes[k + 1 :], subsets[None]])
    posterior = torch.empty_like(A)
    for i in range(n - 1, -1, -1):
        posterior[:, i] = A[:, i] + (ahead[i][:, None] + behind[:, shown]).logsumexp(dim=2)
        behind = (behind[:, goes] + A[:, i, labels, None] + backward).logsumexp(dim=1)
    needed = start[:, None] + outside
    gain, loss = (
        (needed + of).logsumexp(dim=2) - _finite(log_p)[:, None] for of in (behind[:, shown[:k]], behind[:, None])
    )
    whole = posterior.logsumexp(dim=2, keepdim=True)
    return (posterior - _finite(whole)).exp(), log_p, gain.exp() - loss.exp()
