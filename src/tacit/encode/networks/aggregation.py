"""Aggregation of the messages to each entity in one pass over facts, for many queries.

The message of a fact `(u, ρ, v)` is `h_u ⊙ w_ρ`, DistMult's; a boundary condition is one message
more to every entity. Rows of `W = B · d` numbers lie side by side, those of a query together. No
tensor of the size of all messages is ever made: on a CPU facts sorted by tail go by in blocks that
stay in cache, on a GPU kernels keep the sums in registers. Where several messages are the largest
or the smallest, each has an equal share of the gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from tacit.encode.networks import aggregation_kernels as kernels
from tacit.encode.networks.aggregation_kernels import LEAST_SPREAD, LEAST_VARIANCE
from tacit.encode.networks.sorted_facts import SortedFacts
from tacit.errors import SettingsError

# mean, largest, smallest and standard deviation, as principal neighbourhood aggregation has them
PARTS = 4
_CACHED = 2**18  # numbers of a block of messages that stays in cache


def sum_messages(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    facts: SortedFacts,
    keep: Tensor | None = None,
) -> Tensor:
    """`x_v + Σ h_u ⊙ w_ρ` over the facts `(u, ρ, v)` in `keep`.

    Shapes: `[N, B, d] x [R, B, d] x [N, B, d] -> [N, B, d]`.
    """
    total: Tensor = _Aggregation.apply(  # type: ignore[no-untyped-call]
        states, weights, boundary, facts, keep, False
    )
    return total


def describe_messages(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    facts: SortedFacts,
    keep: Tensor | None = None,
) -> Tensor:
    """Mean, largest, smallest and standard deviation of the messages to each entity.

    The boundary condition is among them: `[N, B, d] x [R, B, d] x [N, B, d] -> [N, B, 4, d]`.
    """
    statistics: Tensor = _Aggregation.apply(  # type: ignore[no-untyped-call]
        states, weights, boundary, facts, keep, True
    )
    return statistics


class _Aggregation(torch.autograd.Function):
    """Both aggregations, whose backward pass computes the messages again."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weights: Tensor,
        boundary: Tensor,
        facts: SortedFacts,
        keep: Tensor | None,
        pna: bool,
    ) -> Tensor:
        states, weights, boundary = (each.contiguous() for each in (states, weights, boundary))
        ctx.facts = facts
        ties = None
        if kernels.available(states):
            out, ties = kernels.aggregate(states, weights, boundary, facts, keep, pna)
        elif states.is_cuda:
            raise SettingsError(
                "device is cuda, where graph networks need Triton; install it, or give "
                "`device='cpu'`",
                "device",
            )
        else:
            out = _aggregate(states, weights, boundary, facts, keep, pna)
        ctx.save_for_backward(states, weights, boundary, keep, out if pna else None, ties)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        on_gpu = kernels.available(ctx.saved_tensors[0])
        gradients = _gradients_by_kernels if on_gpu else _gradients
        return *gradients(ctx.facts, grads[0].contiguous(), *ctx.saved_tensors), None, None, None


class _Block(NamedTuple):
    """The facts that lead to some entities, whose messages stay in cache."""

    entities: slice
    heads: Tensor  # [m]
    relations: Tensor  # [m]
    places: Tensor  # [m] the entity that a fact leads to, by its place in the block
    incidence: Tensor  # [n, m] the same as a sparse matrix of ones
    counts: Tensor  # [n, 1] of messages to an entity, its boundary condition among them

    def reduce(self, messages: Tensor, how: str) -> Tensor:
        """Reduce messages by the entity they lead to; 0 where there are none."""
        reduced: Tensor = torch.sparse.mm(self.incidence.to(messages.dtype), messages, how)
        return reduced


def _blocks(facts: SortedFacts, keep: Tensor | None, width: int) -> Iterator[_Block]:
    """The facts in `keep`, in blocks of entities."""
    columns = [facts.heads, facts.relations, facts.tails]
    offsets = facts.offsets
    if keep is not None:
        columns = [column[keep] for column in columns]
        offsets = pad(facts.degrees(keep).cumsum(0), (1, 0))
    ends = offsets.tolist()
    first = 0
    size = max(1, _CACHED // width)
    while first < facts.num_entities:
        fits = int(torch.searchsorted(offsets, ends[first] + size, right=True)) - 1
        last = min(facts.num_entities, max(fits, first + 1))
        heads, relations, tails = (column[ends[first] : ends[last]] for column in columns)
        inside = offsets[first : last + 1] - ends[first]
        counts = (inside.diff() + 1)[:, None]
        entities = slice(first, last)
        yield _Block(entities, heads, relations, tails - first, _incidence(inside), counts)
        first = last


def _incidence(offsets: Tensor) -> Tensor:
    size = int(offsets[-1])
    # Torch warns that sparse CSR is in beta; it is the one vectorised segment reduction.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            offsets, torch.arange(size), torch.ones(size), (len(offsets) - 1, size)
        )


def _aggregate(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    facts: SortedFacts,
    keep: Tensor | None,
    pna: bool,
) -> Tensor:
    n, b, d = states.shape
    h = states.view(n, -1)
    w = weights.view(len(weights), -1)
    x = boundary.view(n, -1)
    out = torch.empty((n, b, PARTS, d) if pna else (n, b, d), dtype=states.dtype)
    for block in _blocks(facts, keep, b * d):
        messages = h.index_select(0, block.heads).mul_(w.index_select(0, block.relations))
        own = x[block.entities]
        total = own + block.reduce(messages, "sum")
        if not pna:
            out[block.entities] = total.view(-1, b, d)
            continue
        none = block.counts == 1
        high = block.reduce(messages, "amax").masked_fill_(none, -torch.inf)
        low = block.reduce(messages, "amin").masked_fill_(none, torch.inf)
        squares = own.square() + block.reduce(messages.square_(), "sum")
        mean = total / block.counts
        spread = (squares / block.counts - mean.square()).clamp_(min=LEAST_VARIANCE).sqrt_()
        parts = mean, torch.maximum(own, high), torch.minimum(own, low), spread
        torch.stack([part.view(-1, b, d) for part in parts], 2, out=out[block.entities])
    return out


def _gradients(
    facts: SortedFacts, grad: Tensor, states: Tensor, weights: Tensor, boundary: Tensor,
    keep: Tensor | None, out: Tensor | None, ties: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of states, weights and boundary condition."""
    n, b, d = states.shape
    h = states.view(n, -1)
    w = weights.view(len(weights), -1)
    x = boundary.view(n, -1)
    to_h = torch.zeros_like(h)
    to_w = torch.zeros_like(w)
    to_x = torch.empty_like(x)
    for block in _blocks(facts, keep, b * d):
        sources = h.index_select(0, block.heads)
        along = w.index_select(0, block.relations)
        upstream = grad[block.entities]
        own_slopes = to_x[block.entities]
        if out is None:
            own_slopes.copy_(upstream.flatten(1))
            slopes = own_slopes.index_select(0, block.places)
        else:
            slopes = _slopes(
                block, sources * along, x[block.entities], out[block.entities], upstream, own_slopes
            )
        to_h.index_add_(0, block.heads, along.mul_(slopes))
        to_w.index_add_(0, block.relations, slopes.mul_(sources))
    return to_h.view_as(states), to_w.view_as(weights), to_x.view_as(boundary)


def _slopes(
    block: _Block, messages: Tensor, own: Tensor, out: Tensor, grad: Tensor, own_slopes: Tensor
) -> Tensor:
    """The gradients of a block's messages; those of the boundary go to `own_slopes`.

    By mean and standard deviation that of a message `m` is `base + factor · m`, since `∂μ/∂m = 1/n`
    and `∂σ/∂m = (m - μ)/(n σ)`; where the variance is at its least, it has no gradient.
    """
    places = block.places
    counts = block.counts
    mean = out[:, :, 0].flatten(1)
    spread = out[:, :, 3].flatten(1)
    factor = torch.where(spread > LEAST_SPREAD, grad[:, :, 3].flatten(1) / (spread * counts), 0.0)
    base = grad[:, :, 0].flatten(1) / counts - mean * factor
    slopes = base.index_select(0, places)
    buffer = torch.empty_like(messages)
    equal = torch.empty_like(messages)
    own_equal = torch.empty_like(own)
    slopes.addcmul_(messages, torch.index_select(factor, 0, places, out=buffer))
    torch.addcmul(base, own, factor, out=own_slopes)
    for part in (1, 2):
        extreme = out[:, :, part].flatten(1)
        # Comparisons that write floats are several times faster than a cast of booleans.
        torch.eq(messages, torch.index_select(extreme, 0, places, out=buffer), out=equal)
        torch.eq(own, extreme, out=own_equal)
        share = grad[:, :, part].flatten(1) / block.reduce(equal, "sum").add_(own_equal)
        slopes.addcmul_(equal, torch.index_select(share, 0, places, out=buffer))
        own_slopes.addcmul_(own_equal, share)
    return slopes


def _gradients_by_kernels(
    facts: SortedFacts, grad: Tensor, states: Tensor, weights: Tensor, boundary: Tensor,
    keep: Tensor | None, out: Tensor | None, ties: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of states, weights and boundary."""
    # A sum uses only the first of the slopes.
    slopes, to_x = (grad, grad, grad, grad, grad), grad
    if out is not None and ties is not None:
        slopes, to_x = kernels.message_slopes(out, grad, ties, boundary, facts.degrees(keep) + 1)
    to_h = kernels.sum_slopes(
        states, weights, facts.by_head, facts.by_head.relations, slopes, keep, out is not None
    )
    to_w = kernels.sum_slopes(
        weights, states, facts.by_relation, facts.by_relation.heads, slopes, keep, out is not None
    )
    return to_h, to_w, to_x
