"""Exact union inference of one chunk of bags, without a loop over bags; the same code on a processor and on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bagwise.nn._layout import Chunk
from bagwise.union import LabelNoise
from bagwise.union.constants import ERROR_BOUND, FEW_LABELS, TINY, UNDERFLOW, UNIT_ROUNDOFF

FEW = 0.1  # of the error bound, for chunks of few labels, where the fall-back costs little


@dataclass(frozen=True)
class DeviceRates:
    """Label noise on a device, one rate per column."""

    missed: torch.Tensor
    spurious: torch.Tensor

    @classmethod
    def of(cls, rates: LabelNoise | None, device: torch.device) -> DeviceRates | None:
        if rates is None:
            return None
        missed, spurious = (
            torch.as_tensor(v, dtype=torch.float64, device=device) for v in (rates.missed, rates.spurious)
        )
        return cls(missed, spurious)


class DeviceChunk:
    """What is fixed about a chunk, as tensors."""

    def __init__(self, chunk: Chunk, background: int, device: torch.device) -> None:
        def moved(array: np.ndarray) -> torch.Tensor:
            return torch.as_tensor(array, device=device)

        self.k, self.background = chunk.k, background
        self.n_bags, self.n_rows = len(chunk.bags), len(chunk.rows)
        self.offsets = moved(chunk.offsets)
        sizes = np.diff(chunk.offsets)
        self.sizes = moved(sizes)
        self.most_rows = int(sizes.max(initial=0))
        self.bag = moved(np.repeat(np.arange(self.n_bags), sizes))
        self.columns, self.n_known = moved(chunk.columns), moved(chunk.n_known)
        self.row_columns = moved(np.repeat(chunk.columns, sizes, axis=0))
        self.optional = None if chunk.optional is None else moved(chunk.optional)
        subsets = np.arange(1 << chunk.k)
        self.members = moved((subsets[None, :] >> np.arange(chunk.k)[:, None] & 1).astype(np.float64))  # (k, 2^k)


@dataclass(frozen=True)
class Inferred:
    """What is known of a chunk after inference.

    Attributes
    ----------
    log_p : (b,) tensor
        Log-probability that the labels that need an instance appear, each row scaled to the mass that is possible in
        its bag; -inf in a bag that no assignment explains.
    mass : (r,) tensor
        Logarithm of that mass.
    all_explained : bool
        Whether it is known that every bag can be explained.
    required, row_columns : (r, k) tensors
        Posterior of the labels that need an instance, and their columns.
    loose : (r,) tensor or None
        Posterior of everything else; where it is None there is nothing else.
    shares : (r, c) tensor or None
        How what is loose is shared among the columns; None: it is all the background's.
    hidden : (r,) tensor or None
        Share of what is loose that went unnoticed.
    pull : (b, k) tensor or None
        As of `bagwise.union._exact`; with rates only.
    """

    log_p: torch.Tensor
    mass: torch.Tensor
    all_explained: bool
    required: torch.Tensor
    row_columns: torch.Tensor
    loose: torch.Tensor | None
    shares: torch.Tensor | None
    hidden: torch.Tensor | None
    pull: torch.Tensor | None

    def add_to(self, table: torch.Tensor, background: int) -> torch.Tensor:
        """Add the posterior to an (r, c) table."""
        table.scatter_add_(1, self.row_columns, self.required)
        if self.loose is not None:
            if self.shares is None:
                table[:, background] += self.loose
            else:
                table.addcmul_(self.loose[:, None], self.shares)
        return table


def infer_chunk(log_proba: torch.Tensor, chunk: DeviceChunk, rates: DeviceRates | None) -> Inferred:
    """Posterior and log-likelihood of a chunk from the (r, c) logarithms of its rows' probabilities."""
    logs = log_proba.gather(1, chunk.row_columns)
    if rates is not None:
        logs = logs + torch.log1p(-rates.missed)[chunk.row_columns]
    log_loose, shares, hidden = _loose(log_proba, chunk, rates)
    top = logs.amax(dim=1) if chunk.k else torch.full_like(log_proba[:, 0], -torch.inf)
    top = top if log_loose is None else torch.maximum(top, log_loose)
    possible = top > -torch.inf
    top = torch.where(possible, top, 0.0)
    A = torch.exp(logs - top[:, None])
    loose = torch.zeros_like(top) if log_loose is None else torch.exp(log_loose - top)
    total = torch.where(possible, A.sum(dim=1) + loose, 1.0)
    A, loose = A / total[:, None], loose / total
    mass = torch.where(possible, top + total.log(), -torch.inf)
    need = None
    if rates is not None:
        need = (1.0 - rates.spurious[chunk.columns]) * rates.missed[chunk.columns] ** chunk.n_known
    (required, free), P, pull, certified = _inclusion_exclusion(A, loose, need, chunk)
    log_p = torch.where(certified, P, 1.0).log()
    left = torch.nonzero(~certified).ravel()
    if len(left):
        log_free = (
            torch.full_like(mass, -torch.inf) if log_loose is None else log_loose - torch.where(possible, mass, 0.0)
        )
        logs = logs - torch.where(possible, mass, 0.0)[:, None]
        _solve_left(left, logs, log_free, need, chunk, (required, free), log_p, pull)
    found = None if log_loose is None else free
    return Inferred(log_p, mass, not len(left), required, chunk.row_columns, found, shares, hidden, pull)


def _loose(
    log_proba: torch.Tensor, chunk: DeviceChunk, rates: DeviceRates | None
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """(r,) log-mass of what need not appear, its (r, c) shares, and the (r,) share of it that went unnoticed."""
    if rates is None and chunk.optional is None:
        return (log_proba[:, chunk.background], None, None) if chunk.background >= 0 else (None, None, None)
    weight = log_proba.new_zeros((1, log_proba.shape[1])) if rates is None else rates.missed[None, :]
    if chunk.optional is not None:
        weight = torch.where(chunk.optional, 1.0, weight)
    weight = weight.clone()
    if chunk.background >= 0:
        weight[:, chunk.background] = 1.0
    weight = weight.log()
    weighted = log_proba + (weight if len(weight) == 1 else weight[chunk.bag])
    log_loose = torch.logsumexp(weighted, dim=1)
    finite = torch.where(log_loose > -torch.inf, log_loose, 0.0)
    shares = torch.exp(weighted - finite[:, None])
    hidden = None
    if rates is not None:
        seen = torch.zeros_like(shares[:, 0])
        if chunk.optional is not None:
            seen = (shares * chunk.optional[chunk.bag]).sum(dim=1)
        if chunk.background >= 0:
            seen = seen + shares[:, chunk.background]
        hidden = shares.sum(dim=1) - seen
    return log_loose, shares, hidden


def sum_by_bag(values: torch.Tensor, chunk: DeviceChunk) -> torch.Tensor:
    """(b,) sums of (r,) values; as a table of one column, for which a faster kernel is there."""
    return torch.segment_reduce(values[:, None], "sum", offsets=chunk.offsets, axis=0, initial=0.0, unsafe=True)[:, 0]


def _inclusion_exclusion(
    A: torch.Tensor, loose: torch.Tensor, need: torch.Tensor | None, chunk: DeviceChunk
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """As `bagwise.union._exact._inclusion_exclusion`, all bags at once.

    The sums over subsets are products with a 0/1 matrix here, whose order of additions is the library's: they may carry
    2^k roundings instead of k, which the certificate counts.
    """
    k, n_subsets = chunk.k, 1 << chunk.k
    base = loose
    if k:  # a label without mass in some row spoils the sums of its bag, and so certifies nothing
        base = torch.where(A.amin(dim=1) + loose < TINY, torch.nan, loose)
    sums = torch.addmm(base[:, None], A, chunk.members) if k else base[:, None].clone()
    products = torch.segment_reduce(sums, "prod", offsets=chunk.offsets, axis=0, initial=1.0, unsafe=True)
    signed = products * _signs(need, chunk)
    P, size = signed.sum(dim=1), signed.abs().sum(dim=1)
    bound = ERROR_BOUND if k > FEW_LABELS else ERROR_BOUND * FEW
    roundings = chunk.sizes * (k + 1) + 2 * k + 4 + n_subsets + (0 if need is None else k)
    certified = (2.0 * roundings * UNIT_ROUNDOFF * size <= bound * P) & (P > 0.0)
    signed = signed / torch.where(P > 0.0, P, 1.0)[:, None]
    pull = None if need is None else signed @ chunk.members.T - 1.0
    sums[:, 0].masked_fill_(sums[:, 0] == 0.0, torch.inf)  # without free mass the empty subset has no part in anything
    ratio = signed.gather(0, chunk.bag[:, None].expand(-1, n_subsets)).div_(sums)
    required = (A * (ratio @ chunk.members.T)).clamp_(min=0.0)
    free = (loose * ratio.sum(dim=1)).clamp_(min=0.0)
    total = required.sum(dim=1) + free
    return (required / total[:, None], free / total), P, pull, certified


def _signs(need: torch.Tensor | None, chunk: DeviceChunk) -> torch.Tensor:
    """(1 or b, 2^k) coefficient of each subset: the product of -need over the labels that it leaves out."""
    if need is None:
        left_out = chunk.k - chunk.members.sum(dim=0)
        return torch.where(left_out % 2 == 0, 1.0, -1.0)[None, :]
    signs = torch.ones((chunk.n_bags, 1), dtype=torch.float64, device=need.device)
    for j in range(chunk.k):
        signs = torch.cat([signs * -need[:, j : j + 1], signs], dim=1)
    return signs


# ---------------------------------------------------------------------------------------------------------------------
# Where the alternating sum cancels: positive terms only

PORTION = 1 << 24  # entries of the table of a portion: bags times instances times subsets


def _solve_left(
    left: torch.Tensor,
    logs: torch.Tensor,
    log_loose: torch.Tensor,
    need: torch.Tensor | None,
    chunk: DeviceChunk,
    posterior: tuple[torch.Tensor, torch.Tensor],
    log_p: torch.Tensor,
    pull: torch.Tensor | None,
) -> None:
    """Infer the bags that are left by forward-backward, and put that in place; in logarithms where that underflows."""
    if need is None:
        need = torch.ones_like(chunk.columns, dtype=logs.dtype)
    for bags in left.split(max(1, PORTION // max(chunk.most_rows << chunk.k, 1))):
        sizes = chunk.sizes[bags]
        place = torch.arange(int(sizes.max()), device=logs.device)
        there = place[None, :] < sizes[:, None]
        rows = (chunk.offsets[:-1][bags][:, None] + place[None, :]).clamp_(max=max(len(logs) - 1, 0))
        own = torch.where(there[..., None], logs[rows], -torch.inf)
        own_loose = torch.where(there, log_loose[rows], 0.0)  # an instance that is not there says nothing
        found = _forward_backward(own.exp(), own_loose.exp(), need[bags], chunk.members > 0, _Plain)
        lost = torch.nonzero((found[2] <= np.log(UNDERFLOW)) | ~(found[3] > 0.0)).ravel()
        if len(lost):
            again = _forward_backward(own[lost], own_loose[lost], need[bags][lost], chunk.members > 0, _Logarithms)
            for whole, part in zip(found, again, strict=True):
                whole[lost] = part
        posterior[0][rows[there]] = found[0][there]
        posterior[1][rows[there]] = found[1][there]
        log_p[bags] = found[2]
        if pull is not None:
            pull[bags] = found[4]


class _Plain:
    """Numbers as they are."""

    zero, one = 0.0, 1.0
    add, times = staticmethod(torch.add), staticmethod(torch.mul)

    @staticmethod
    def sum(values: torch.Tensor, dim: int) -> torch.Tensor:
        return values.sum(dim=dim)

    @staticmethod
    def of(values: torch.Tensor) -> torch.Tensor:
        return values

    @staticmethod
    def rescaled(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Divided by the largest of each bag, and its logarithm."""
        top = values.amax(dim=1)
        top = torch.where(top > 0.0, top, 1.0)
        return values / top[:, None], top.log()

    @staticmethod
    def log(values: torch.Tensor) -> torch.Tensor:
        return values.log()


class _Logarithms:
    """Their logarithms: no probability is too small."""

    zero, one = -torch.inf, 0.0
    add, times = staticmethod(torch.logaddexp), staticmethod(torch.add)

    @staticmethod
    def sum(values: torch.Tensor, dim: int) -> torch.Tensor:
        return values.logsumexp(dim=dim)

    @staticmethod
    def of(values: torch.Tensor) -> torch.Tensor:
        return values.log()

    @staticmethod
    def rescaled(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        top = values.amax(dim=1)
        top = torch.where(top > -torch.inf, top, 0.0)
        return values - top[:, None], top

    @staticmethod
    def log(values: torch.Tensor) -> torch.Tensor:
        return values


def _forward_backward(
    A: torch.Tensor,
    loose: torch.Tensor,
    need: torch.Tensor,
    members: torch.Tensor,
    of: type[_Plain] | type[_Logarithms],
) -> tuple[torch.Tensor, ...]:
    """(b, n, k) and (b, n) posteriors, (b,) log P, (b,) what was left of it to scale, (b, k) pull.

    ahead[i][L] is the probability that the first i instances, and the labels that need none, show exactly L;
    behind[L] that those from i on add what L lacks. Both are rescaled at every instance.
    """
    n, k = A.shape[1:]
    subsets, bits = torch.arange(members.shape[1], device=A.device), 1 << torch.arange(k, device=A.device)
    without, joined = subsets[None, :] & ~bits[:, None], subsets[None, :] | bits[:, None]  # (k, 2^k)
    inside = torch.where(members, of.one, of.zero).to(A.dtype)
    outside = torch.where(members, of.zero, of.one).to(A.dtype)
    spared = of.add(
        of.times(of.of(1.0 - need)[..., None], inside), of.times(of.of(need)[..., None], outside)
    )  # (b, k, 2^k): whether each label needs an instance to be in L

    def joint(factors: torch.Tensor) -> torch.Tensor:
        return factors.sum(dim=1) if of is _Logarithms else factors.prod(dim=1)

    def stay(i: int) -> torch.Tensor:
        """That instance i shows nothing outside of L."""
        return of.add(of.sum(of.times(A[:, i, :, None], inside), 1), loose[:, i, None])

    ahead, norms = [joint(spared)], torch.zeros_like(loose[:, :1]).sum(dim=1)
    for i in range(n):
        new = of.sum(of.times(of.times(ahead[-1][:, without], A[:, i, :, None]), inside), 1)
        value, norm = of.rescaled(of.add(of.times(ahead[-1], stay(i)), new))
        ahead.append(value)
        norms = norms + norm
    last = of.log(ahead[-1][:, -1])
    log_p = last + norms
    behind = torch.full_like(ahead[0], of.zero)
    behind[:, -1] = of.one
    scale = torch.zeros_like(norms)
    required, free = torch.empty_like(A), torch.empty_like(loose)
    for i in range(n - 1, -1, -1):
        free[:, i] = of.times(loose[:, i], of.sum(of.times(ahead[i], behind), 1))
        required[:, i] = of.times(A[:, i], of.sum(of.times(ahead[i][:, None, :], behind[:, joined]), 2))
        new = of.sum(of.times(of.times(behind[:, joined], A[:, i, :, None]), outside), 1)
        behind, norm = of.rescaled(of.add(of.times(behind, stay(i)), new))
        scale = scale + norm
    total = of.add(of.sum(required, 2), free)
    smallest = torch.where(last > np.log(UNDERFLOW), of.log(total).amin(dim=1) if n else last, -torch.inf)
    pull = torch.zeros_like(need)
    for j in range(k):
        others = spared.clone()
        others[:, j] = outside[j]
        base = joint(others)
        gain, loss = (of.log(of.sum(of.times(base, shown), 1)) for shown in (behind[:, joined[j]], behind))
        pull[:, j] = need[:, j] * (torch.exp(gain + scale - log_p) - torch.exp(loss + scale - log_p))
    share = (lambda values, whole: values / whole) if of is _Plain else (lambda values, whole: (values - whole).exp())
    fine = (smallest > np.log(UNDERFLOW)).to(A.dtype) if of is _Plain else torch.ones_like(norms)
    whole = torch.where(of.log(total) > -torch.inf, total, of.one)
    return share(required, whole[..., None]), share(free, whole), log_p, fine, pull
