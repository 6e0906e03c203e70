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
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from tacit.encode.networks import aggregation_kernels as kernels
from tacit.encode.networks.sorted_facts import SortedFacts
from tacit.errors import SettingsError

# mean, largest, smallest and standard deviation, as principal neighbourhood aggregation has them
PARTS = 4
LEAST_VARIANCE = 1e-6
_LEAST_SPREAD = 1.0001 * LEAST_VARIANCE**0.5  # up to which a standard deviation has no gradient
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
            out, ties = kernels.gathered(
                states, weights, boundary, facts, keep, pna, LEAST_VARIANCE
            )
        elif states.is_cuda:
            raise SettingsError(
                "device is cuda, where graph networks need Triton; install it, or give "
                "`device='cpu'`",
                "device",
            )
        else:
            out = _gather(states, weights, boundary, facts, keep, pna)
        ctx.save_for_backward(states, weights, boundary, keep, out if pna else None, ties)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        spread = _spread_by_kernels if kernels.available(ctx.saved_tensors[0]) else _spread
        return *spread(ctx.facts, *ctx.saved_tensors, grads[0].contiguous()), None, None, None


def _blocks(
    facts: SortedFacts, keep: Tensor | None, width: int
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor, Tensor, Tensor]]:
    """The facts that are kept, in blocks of whole entities whose messages stay in cache.

    For each the entities; the heads and relations of its facts, and which of the entities they lead
    to, as places and as a sparse matrix of ones; and how many messages an entity gets, its boundary
    condition among them, `[n, 1]`.
    """
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
        yield slice(first, last), heads, relations, tails - first, _incidence(inside), counts
        first = last


def _incidence(offsets: Tensor) -> Tensor:
    size = int(offsets[-1])
    # Torch warns that sparse CSR is in beta; it is the one vectorised segment reduction.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            offsets, torch.arange(size), torch.ones(size), (len(offsets) - 1, size)
        )


def _reduced(incidence: Tensor, messages: Tensor, how: str) -> Tensor:
    """Messages reduced by the entity they lead to; 0 where there are none."""
    reduced: Tensor = torch.sparse.mm(incidence.to(messages.dtype), messages, how)
    return reduced


def _gather(
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
    for entities, heads, relations, _, incidence, counts in _blocks(facts, keep, b * d):
        messages = h.index_select(0, heads).mul_(w.index_select(0, relations))
        own = x[entities]
        total = own + _reduced(incidence, messages, "sum")
        if not pna:
            out[entities] = total.view(-1, b, d)
            continue
        none = counts == 1
        high = _reduced(incidence, messages, "amax").masked_fill_(none, -torch.inf)
        low = _reduced(incidence, messages, "amin").masked_fill_(none, torch.inf)
        squares = own.square() + _reduced(incidence, messages.square_(), "sum")
        mean = total / counts
        spread = (squares / counts - mean.square()).clamp_(min=LEAST_VARIANCE).sqrt_()
        parts = mean, torch.maximum(own, high), torch.minimum(own, low), spread
        torch.stack([part.view(-1, b, d) for part in parts], 2, out=out[entities])
    return out


def _spread(
    facts: SortedFacts, states: Tensor, weights: Tensor, boundary: Tensor, keep: Tensor | None,
    out: Tensor | None, ties: Tensor | None, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of states, weights and boundary condition."""
    n, b, d = states.shape
    h = states.view(n, -1)
    w = weights.view(len(weights), -1)
    x = boundary.view(n, -1)
    to_h = torch.zeros_like(h)
    to_w = torch.zeros_like(w)
    to_x = torch.empty_like(x)
    for entities, heads, relations, places, incidence, counts in _blocks(facts, keep, b * d):
        sources = h.index_select(0, heads)
        along = w.index_select(0, relations)
        if out is None:
            to_x[entities] = grad[entities].flatten(1)
            slopes = to_x[entities].index_select(0, places)
        else:
            slopes = _slopes(
                sources * along, x[entities], out[entities], grad[entities], counts, places,
                incidence, to_x[entities],
            )  # fmt: skip
        to_h.index_add_(0, heads, along.mul_(slopes))
        to_w.index_add_(0, relations, slopes.mul_(sources))
    return to_h.view_as(states), to_w.view_as(weights), to_x.view_as(boundary)


def _slopes(
    messages: Tensor, own: Tensor, out: Tensor, grad: Tensor, counts: Tensor, places: Tensor,
    incidence: Tensor, to_own: Tensor,
) -> Tensor:  # fmt: skip
    """The gradients of a block's messages; those of the boundary go to `to_own`.

    By mean and standard deviation that of a message `m` is `base + factor · m`, since `∂μ/∂m = 1/n`
    and `∂σ/∂m = (m - μ)/(n σ)`; where the variance is at its least, it has no gradient.
    """
    mean = out[:, :, 0].flatten(1)
    spread = out[:, :, 3].flatten(1)
    factor = torch.where(spread > _LEAST_SPREAD, grad[:, :, 3].flatten(1) / (spread * counts), 0.0)
    base = grad[:, :, 0].flatten(1) / counts - mean * factor
    slopes = base.index_select(0, places)
    room = torch.empty_like(messages)
    equal = torch.empty_like(messages)
    own_equal = torch.empty_like(own)
    slopes.addcmul_(messages, torch.index_select(factor, 0, places, out=room))
    torch.addcmul(base, own, factor, out=to_own)
    for part in (1, 2):
        extreme = out[:, :, part].flatten(1)
        # Comparisons that write floats are several times faster than a cast of booleans.
        torch.eq(messages, torch.index_select(extreme, 0, places, out=room), out=equal)
        torch.eq(own, extreme, out=own_equal)
        share = grad[:, :, part].flatten(1) / _reduced(incidence, equal, "sum").add_(own_equal)
        slopes.addcmul_(equal, torch.index_select(share, 0, places, out=room))
        to_own.addcmul_(own_equal, share)
    return slopes


def _spread_by_kernels(
    facts: SortedFacts, states: Tensor, weights: Tensor, boundary: Tensor, keep: Tensor | None,
    out: Tensor | None, ties: Tensor | None, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of states, weights and boundary."""
    # A sum uses only the first of the slopes.
    slopes = (grad, grad, grad, grad, grad)
    to_x = grad
    pna = out is not None
    if out is not None and ties is not None:
        slopes, to_x = kernels.shared(
            out, grad, ties, boundary, facts.degrees(keep) + 1, _LEAST_SPREAD
        )
    to_h = kernels.spread(
        states, weights, facts.by_head, facts.by_head.relations, slopes, keep, pna
    )
    to_w = kernels.spread(
        weights, states, facts.by_relation, facts.by_relation.heads, slopes, keep, pna
    )
    return to_h, to_w, to_x
