"""Distances between all states and entities, summed over dimensions in little memory.

All kinds are of one form, `Σ_d f(v − x, s)`: an entity has a place `v`, a state a place `x` and
perhaps an extent `s`. The backward pass computes the two slopes of `f` again; they are all that the
gradients of `x`, `s` and `v` need. Where each state has entities of its own, `[n, m, d]`, pairs are
few, and plain operations give the `[n, m]` distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tacit.encode.spaces import pair_kernels
from tacit.links.precision import has_triton

_CPU_BLOCK = 1 << 17  # numbers of one pair and dimension that are in memory at a time
_GPU_BLOCK = 1 << 26

PairParts = tuple[Tensor, ...]  # arguments of a pair function


def l1(points: Tensor, entities: Tensor) -> Tensor:
    """`‖v − x‖₁`, `[n, d] x [m, d] -> [n, m]`."""
    if entities.dim() == 3:
        return (entities - points[:, None]).abs().sum(-1)
    return _distances("l1", 0.0, points, None, entities)


def box(centres: Tensor, offsets: Tensor, entities: Tensor, inside: float) -> Tensor:
    """`‖relu(δ − o)‖₁ + inside · ‖min(δ, o)‖₁` for `δ = |v − c|`.

    Shapes: `[n, d] x [n, d] x [m, d] -> [n, m]`.
    """
    if entities.dim() == 3:
        gap = (entities - centres[:, None]).abs()
        offsets = offsets[:, None]
        return ((gap - offsets).relu() + inside * torch.minimum(gap, offsets).abs()).sum(-1)
    return _distances("box", inside, centres, offsets, entities)


def cone(axes: Tensor, apertures: Tensor, angles: Tensor, inside: float) -> Tensor:
    """Distances of angles from cones `[θ − ω, θ + ω]`, for ω in [0, π].

    Shapes: `[n, d] x [n, d] x [m, d] -> [n, m]`.

    Per dimension, with `i = |sin((v−θ)/2)|` and `b = sin(ω/2)`: `min(|sin((v−θ+ω)/2)|,
    |sin((v−θ−ω)/2)|)` where `i ≥ b` and 0 elsewhere, plus `inside · min(i, b)`. By the addition
    theorem the first is `relu(i cos(ω/2) − j b)` for `j = |cos((v−θ)/2)|`, and `i`, `j` are sums of
    products of sines of halves: no pair takes a sine of its own.
    """
    if angles.dim() == 3:
        half = (angles - axes[:, None]) / 2
        reach = apertures[:, None] / 2
        sine = half.sin().abs()
        bound = reach.sin()
        return (
            (sine * reach.cos() - half.cos().abs() * bound).relu()
            + inside * torch.minimum(sine, bound)
        ).sum(-1)
    return _distances("cone", inside, axes, apertures, angles)


def _distances(
    kind: str, inside: float, points: Tensor, extents: Tensor | None, entities: Tensor
) -> Tensor:
    distances: Tensor = _Distances.apply(  # type: ignore[no-untyped-call]
        kind, inside, points, extents, entities
    )
    return distances


class _Distances(torch.autograd.Function):
    """Pair distances by blocks; the backward pass computes each block again."""

    @staticmethod
    def forward(
        ctx: Any, kind: str, inside: float, points: Tensor, extents: Tensor | None, entities: Tensor
    ) -> Tensor:
        states, places = _parts(kind, points, extents, entities)
        ctx.save_for_backward(*states, *places)
        ctx.kind = kind
        ctx.inside = inside
        ctx.of_states = len(states)
        if _in_kernels(points, entities):
            return pair_kernels.distances(kind, inside, states, places)
        distances = points.new_empty(len(points), len(entities))
        for rows, columns, x, v in _blocks(states, places):
            torch.sum(_values(kind, inside, x, v), -1, out=distances[rows, columns])
        return distances

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        states = ctx.saved_tensors[: ctx.of_states]
        places = ctx.saved_tensors[ctx.of_states :]
        points = states[0]
        entities = places[0]
        if _in_kernels(points, entities):
            gradients = pair_kernels.gradients(ctx.kind, ctx.inside, states, places, gradient)
            return None, None, *gradients
        to_points = torch.zeros_like(points)
        to_extents = None if ctx.of_states == 1 else torch.zeros_like(points)
        to_entities = torch.zeros_like(entities)
        for rows, columns, x, v in _blocks(states, places):
            upstream = gradient[rows, columns, None]
            place, extent = _slopes(ctx.kind, ctx.inside, x, v)
            place *= upstream
            to_points[rows] -= place.sum(1)
            to_entities[columns] += place.sum(0)
            if to_extents is not None and extent is not None:
                to_extents[rows] += extent.mul_(upstream).sum(1)
        return None, None, to_points, to_extents, to_entities


def _in_kernels(points: Tensor, entities: Tensor) -> bool:
    fits = (
        points.is_cuda
        and points.dtype == entities.dtype == torch.float32
        and points.numel()
        and entities.numel()
    )
    return bool(fits) and has_triton()


def _parts(
    kind: str, points: Tensor, extents: Tensor | None, entities: Tensor
) -> tuple[PairParts, PairParts]:
    """The arguments of the pair function, of states and of entities."""
    if extents is None:
        return (points,), (entities,)
    if kind == "box":
        return (points, extents), (entities,)
    half = points / 2
    reach = extents / 2
    place = entities / 2
    return (half.sin(), half.cos(), reach.sin(), reach.cos()), (place.sin(), place.cos())


def _blocks(
    states: PairParts, places: PairParts
) -> Iterator[tuple[slice, slice, PairParts, PairParts]]:
    """Blocks of all pairs that fit into memory: rows, columns, and the parts of both."""
    n, d = states[0].shape
    m = len(places[0])
    block = _GPU_BLOCK if states[0].is_cuda else _CPU_BLOCK
    width = max(1, min(m, block // max(1, d)))
    height = max(1, block // max(1, d * width))
    for row in range(0, n, height):
        rows = slice(row, row + height)
        for column in range(0, m, width):
            columns = slice(column, column + width)
            yield (
                rows,
                columns,
                tuple(part[rows, None] for part in states),
                tuple(part[columns] for part in places),
            )


def _values(kind: str, inside: float, states: PairParts, places: PairParts) -> Tensor:
    """The pair function, `[r, 1, d] x [c, d] -> [r, c, d]`."""
    if kind == "l1":
        return (places[0] - states[0]).abs_()
    if kind == "box":
        gap = (places[0] - states[0]).abs_()
        offset = states[1]
        within = torch.minimum(gap, offset).abs_().mul_(inside)
        return gap.sub_(offset).relu_().add_(within)
    sine, cosine = _halves(states, places)
    sine.abs_()
    within = torch.minimum(sine, states[2]).mul_(inside)
    return sine.mul_(states[3]).addcmul_(cosine.abs_(), states[2], value=-1).relu_().add_(within)


def _slopes(
    kind: str, inside: float, states: PairParts, places: PairParts
) -> tuple[Tensor, Tensor | None]:
    """The derivatives of the pair function by `v − x` and by the extent, `[r, c, d]` each."""
    if kind == "l1":
        return (places[0] - states[0]).sign_(), None
    if kind == "box":
        gap = places[0] - states[0]
        offset = states[1]
        # as 0 and 1: in place, and without a change of type on the way
        outside = gap.abs().gt_(offset)
        extent = outside * (inside * offset.sign() - 1)
        return gap.sign_().mul_(outside.mul_(1 - inside).add_(inside)), extent
    sine, cosine = _halves(states, places)
    sign = (sine * cosine).sign_()
    sine.abs_()
    cosine.abs_()
    edge = (cosine * states[3]).addcmul_(sine, states[2])  # cos((|v − θ| − ω) / 2)
    outside = sine.ge_(states[2]).mul_(0.5)
    place = cosine.mul_(inside).mul_(0.5 - outside).addcmul_(edge, outside).mul_(sign)
    return place, edge.neg_().add_(states[3], alpha=inside).mul_(outside)


def _halves(states: PairParts, places: PairParts) -> tuple[Tensor, Tensor]:
    """`sin((v − θ) / 2)` and `cos((v − θ) / 2)` from the sines and cosines of the halves."""
    sine = (places[0] * states[1]).addcmul_(places[1], states[0], value=-1)
    return sine, (places[0] * states[0]).addcmul_(places[1], states[1])
