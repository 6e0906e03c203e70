"""Relational aggregation in one pass over facts: what the neighbours of each entity tell it, for many queries at once.

The message of a fact `(u, ρ, v)` is `h_u ⊙ w_ρ`, DistMult's; a boundary condition is one message more to every entity.
Rows of `W = B · d` numbers lie side by side, those of a query together. No tensor of the size of all messages is ever
made: on a CPU facts sorted by tail go by in blocks that stay in cache, on a GPU kernels keep the sums in registers.
Where several messages are the largest or the smallest, each has an equal share of the gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.encode.networks import aggregation_kernels as kernels
from tacit.encode.networks.segments import Segments
from tacit.errors import SettingsError

PARTS = 4  # mean, largest, smallest and standard deviation, as principal neighbourhood aggregation has them
LEAST_VARIANCE = 1e-6
_LEAST_SPREAD = 1.0001 * LEAST_VARIANCE**0.5  # up to which a standard deviation has no gradient
DirectedFacts = NDArray[np.integer]  # directed facts, each with its inverse, `[E, 3]`
_CACHED = 2**18  # numbers of a block of messages that stays in cache


class SortedFacts(nn.Module):
    """Directed facts `[E]`, sorted by tail, and where those of each entity are."""

    heads: Tensor
    relations: Tensor
    tails: Tensor
    offsets: Tensor  # [N + 1]

    def __init__(self, triples: DirectedFacts, num_entities: int, num_relations: int) -> None:
        super().__init__()
        self.num_entities, self.num_relations = num_entities, num_relations
        triples = np.unique(triples.astype(np.int64), axis=0)
        triples = triples[np.lexsort((triples[:, 0], triples[:, 1], triples[:, 2]))]
        heads, relations, tails = (column.contiguous() for column in torch.from_numpy(triples).unbind(1))
        counts = torch.bincount(tails, minlength=num_entities)
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        for name, array in {"heads": heads, "relations": relations, "tails": tails, "offsets": offsets}.items():
            self.register_buffer(name, array, persistent=False)
        self.by_tail = Segments(tails, num_entities, heads=heads, relations=relations)
        self.by_head = Segments(heads, num_entities, tails=tails, relations=relations)
        self.by_relation = Segments(relations, num_relations, heads=heads, tails=tails)

    def __len__(self) -> int:
        return len(self.heads)

    def degrees(self, keep: Tensor | None = None) -> Tensor:
        """How many facts lead to each entity, of those that are kept, `[N]`."""
        if keep is None:
            return self.offsets.diff()
        ends = torch.cat([self.offsets.new_zeros(1), keep.long().cumsum(0)])
        return ends[self.offsets].diff()


def summed(states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None = None) -> Tensor:
    """`x_v + Σ h_u ⊙ w_ρ` over facts `(u, ρ, v)` that are kept: `[N, B, d] x [R, B, d] x [N, B, d] -> [N, B, d]`."""
    result: Tensor = _Aggregated.apply(states, weights, boundary, facts, keep, False)  # type: ignore[no-untyped-call]
    return result


def described(
    states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None = None
) -> Tensor:
    """Mean, largest, smallest and standard deviation of the messages to each entity, its boundary condition among them:
    `[N, B, d] x [R, B, d] x [N, B, d] -> [N, B, 4, d]`.
    """
    result: Tensor = _Aggregated.apply(states, weights, boundary, facts, keep, True)  # type: ignore[no-untyped-call]
    return result


class _Aggregated(torch.autograd.Function):
    """Both aggregations, with a backward pass that works the messages out anew."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None, pna: bool
    ) -> Tensor:
        states, weights, boundary = states.contiguous(), weights.contiguous(), boundary.contiguous()
        ctx.facts = facts
        if kernels.available(states):
            out, ties = kernels.gathered(states, weights, boundary, facts, keep, pna, LEAST_VARIANCE)
        elif states.is_cuda:
            raise SettingsError("device is cuda, where graph networks need Triton; install it, or give cpu", "device")
        else:
            out, ties = _gathered(states, weights, boundary, facts, keep, pna), None
        ctx.save_for_backward(states, weights, boundary, keep, out if pna else None, ties)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, weights, boundary, keep, out, ties = ctx.saved_tensors
        spread = _spread_by_kernels if kernels.available(states) else _spread
        return *spread(states, weights, boundary, ctx.facts, keep, out, ties, grads[0].contiguous()), None, None, None


class _Blocks:
    """The facts that are kept, in blocks of whole entities whose messages stay in cache."""

    def __init__(self, facts: SortedFacts, keep: Tensor | None, width: int) -> None:
        self.heads, self.relations, self.tails = facts.heads, facts.relations, facts.tails
        self.offsets = facts.offsets
        if keep is not None:
            kept = keep.nonzero()[:, 0]
            self.heads, self.relations, self.tails = self.heads[kept], self.relations[kept], self.tails[kept]
            self.offsets = torch.cat([facts.offsets.new_zeros(1), facts.degrees(keep).cumsum(0)])
        self.size = max(1, _CACHED // width)

    def __iter__(self) -> Iterator[tuple[slice, slice, Tensor]]:
        """The entities of each block, its facts, and which entity each fact leads to, as a sparse matrix of ones."""
        ends, first, n = self.offsets.tolist(), 0, len(self.offsets) - 1
        while first < n:
            fits = int(torch.searchsorted(self.offsets, ends[first] + self.size, right=True)) - 1
            last = min(n, max(fits, first + 1))
            start, stop = ends[first], ends[last]
            inside = self.offsets[first : last + 1] - start
            yield slice(first, last), slice(start, stop), _incidence(inside, stop - start)
            first = last


def _incidence(offsets: Tensor, size: int) -> Tensor:
    with warnings.catch_warnings():  # torch calls its sparse rows a beta; they are the one vectorised segment reduction
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(offsets, torch.arange(size), torch.ones(size), (len(offsets) - 1, size))


def _reduced(incidence: Tensor, messages: Tensor, how: str) -> Tensor:
    """Messages reduced by the entity they lead to; 0 where there are none."""
    if messages.dtype != incidence.dtype:
        incidence = incidence.to(messages.dtype)
    reduced: Tensor = torch.sparse.mm(incidence, messages, how)
    return reduced


def _gathered(
    states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None, pna: bool
) -> Tensor:
    n, b, d = states.shape
    h, w, x = states.view(n, -1), weights.view(len(weights), -1), boundary.view(n, -1)
    out = torch.empty((n, b, PARTS, d) if pna else (n, b, d), dtype=states.dtype)
    blocks = _Blocks(facts, keep, b * d)
    for entities, facts_here, incidence in blocks:
        messages = h.index_select(0, blocks.heads[facts_here]).mul_(w.index_select(0, blocks.relations[facts_here]))
        own = x[entities]
        total = own + _reduced(incidence, messages, "sum")
        if not pna:
            out[entities] = total.view(-1, b, d)
            continue
        counts = (blocks.offsets[entities.start : entities.stop + 1].diff() + 1)[:, None]
        none = counts == 1
        high = torch.maximum(own, _reduced(incidence, messages, "amax").masked_fill_(none, -torch.inf))
        low = torch.minimum(own, _reduced(incidence, messages, "amin").masked_fill_(none, torch.inf))
        squares = own.square() + _reduced(incidence, messages.square_(), "sum")
        mean = total / counts
        spread = (squares / counts - mean.square()).clamp_(min=LEAST_VARIANCE).sqrt_()
        torch.stack([part.view(-1, b, d) for part in (mean, high, low, spread)], 2, out=out[entities])
    return out


def _coefficients(out: Tensor, grad: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of a message `m` by mean and standard deviation, as `a + b·m`: `a` and `b`, `[N, B · d]`.

    `∂μ/∂m = 1/n` and `∂σ/∂m = (m - μ)/(n σ)`; where the variance is at its least, it has no gradient.
    """
    mean, spread = out[:, :, 0].flatten(1), out[:, :, 3].flatten(1)
    falls = torch.where(spread > _LEAST_SPREAD, grad[:, :, 3].flatten(1) / (spread * counts), 0.0)
    return grad[:, :, 0].flatten(1) / counts - mean * falls, falls


def _spread(
    states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None,
    out: Tensor | None, ties: Tensor | None, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    n, b, d = states.shape
    h, w, x = states.view(n, -1), weights.view(len(weights), -1), boundary.view(n, -1)
    to_h, to_w, to_x = torch.zeros_like(h), torch.zeros_like(w), torch.empty_like(x)
    blocks = _Blocks(facts, keep, b * d)
    for entities, facts_here, incidence in blocks:
        heads, relations = blocks.heads[facts_here], blocks.relations[facts_here]
        places = blocks.tails[facts_here] - entities.start
        sources, along = h.index_select(0, heads), w.index_select(0, relations)
        if out is None:
            to_x[entities] = grad[entities].flatten(1)
            slopes = to_x[entities].index_select(0, places)
        else:
            counts = (blocks.offsets[entities.start : entities.stop + 1].diff() + 1)[:, None]
            slopes = _slopes(sources * along, x[entities], out[entities], grad[entities], counts, places, incidence,
                             to_x[entities])  # fmt: skip
        to_h.index_add_(0, heads, along.mul_(slopes))
        to_w.index_add_(0, relations, slopes.mul_(sources))
    return to_h.view_as(states), to_w.view_as(weights), to_x.view_as(boundary)


def _slopes(
    messages: Tensor, own: Tensor, out: Tensor, grad: Tensor, counts: Tensor, places: Tensor, incidence: Tensor,
    to_own: Tensor,
) -> Tensor:  # fmt: skip
    """The gradients of the messages of a block; those of the boundary condition are written to `to_own`."""
    base, factor = _coefficients(out, grad, counts)
    slopes = base.index_select(0, places)
    room, equal, own_equal = torch.empty_like(messages), torch.empty_like(messages), torch.empty_like(own)
    slopes.addcmul_(messages, torch.index_select(factor, 0, places, out=room))
    torch.addcmul(base, own, factor, out=to_own)
    for part in (1, 2):
        extreme = out[:, :, part].flatten(1)
        # Where a comparison is written as numbers, it is several times faster than where these are made of it.
        torch.eq(messages, torch.index_select(extreme, 0, places, out=room), out=equal)
        torch.eq(own, extreme, out=own_equal)
        share = grad[:, :, part].flatten(1) / _reduced(incidence, equal, "sum").add_(own_equal)
        slopes.addcmul_(equal, torch.index_select(share, 0, places, out=room))
        to_own.addcmul_(own_equal, share)
    return slopes


def _spread_by_kernels(
    states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None,
    out: Tensor | None, ties: Tensor | None, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    to_x, slopes = grad, kernels.Slopes(grad)
    if out is not None and ties is not None:
        slopes, to_x = kernels.shared(out, grad, ties, boundary, facts.degrees(keep) + 1, _LEAST_SPREAD)
    to_h = kernels.spread(states, weights, facts.by_head, facts.by_head.relations, slopes, keep)
    to_w = kernels.spread(weights, states, facts.by_relation, facts.by_relation.heads, slopes, keep)
    return to_h, to_w, to_x
