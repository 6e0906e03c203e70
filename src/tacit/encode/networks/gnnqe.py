"""GNN-QE (Zhu et al., 2022): fuzzy sets, and a graph network that projects them.

The update of a layer, `h + relu(LN(own + plain + s · larger + smaller / s))`, is one kernel on a
GPU, forward and backward: in torch's own operations each part is a trip through memory, and a layer
norm over few numbers takes longest of all.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.encode.layers import network
from tacit.encode.networks.aggregation import PARTS, describe_messages
from tacit.encode.networks.aggregation_kernels import available
from tacit.encode.networks.graph_network import (
    SetProjector,
    boundary_of,
    fill_uniform,
    readout,
    states_after,
)
from tacit.encode.networks.sorted_facts import DirectedFacts, SortedFacts
from tacit.encode.settings import EncodeSettings

LEAST_SCALE = 0.01  # the kernels have this number written out
EPSILON = 1e-5  # of the layer norm, torch's own
_NUMBERS = 2048  # of a program
WIDEST = 256  # numbers of a state that the kernels take


class DescribedLayer(nn.Module):
    """GNN-QE's layer: `h + relu(LN(W [h; a; s·a; a/s]))`.

    `a` describes the messages by mean, largest, smallest and standard deviation, and `s` is the log
    of their number over its mean (principal neighbourhood aggregation).

    The scales of an entity commute with the linear map, so that one product `4d -> 3d` stands for
    the twelve parts.
    """

    def __init__(self, width: int, num_relations: int) -> None:
        super().__init__()
        # vectors of all relations relative to the query's
        self.relation_linear = nn.Linear(width, num_relations * width)
        self.own = nn.Linear(width, width)
        self.described = nn.Linear(PARTS * width, 3 * width, bias=False)
        self.layer_norm = nn.LayerNorm(width)

    def relations(self, query: Tensor) -> Tensor:
        """The vectors of all relations for each query, `[B, d] -> [R, B, d]`."""
        vectors: Tensor = self.relation_linear(query)
        return vectors.view(len(query), -1, query.shape[1]).transpose(0, 1)

    def forward(
        self,
        states: Tensor,
        relations: Tensor,
        boundary: Tensor,
        facts: SortedFacts,
        keep: Tensor | None,
    ) -> Tensor:
        """The next states."""
        parts = describe_messages(states, relations, boundary, facts, keep)
        scale = (facts.degrees(keep) + 1).to(states.dtype).log()
        scale = scale / scale.mean().clamp(min=LEAST_SCALE)
        own = self.own(states)
        parts = self.described(parts.flatten(2))
        if available(states) and states.shape[-1] <= WIDEST:
            norm = self.layer_norm
            updated: Tensor = _Update.apply(  # type: ignore[no-untyped-call]
                states, own, parts, scale, norm.weight, norm.bias
            )
            return updated
        plain, larger, smaller = parts.chunk(3, 2)
        scale = scale[:, None, None]
        mixed = own + plain + larger * scale + smaller / scale.clamp(min=LEAST_SCALE)
        return states + F.relu(self.layer_norm(mixed))


class GNNQE(SetProjector):
    """NBFNet with a vector for every relation and principal neighbourhood aggregation.

    With `through`, gradients reach every hop of a question; the published training stops them at
    each but the last.
    """

    name = "GNN-QE"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        settings: EncodeSettings,
        triples: DirectedFacts,
    ) -> None:
        super().__init__(num_entities, num_relations, settings, triples)
        d = settings.width
        count = settings.layers
        self.query = nn.Embedding(num_relations, d)
        self.layers = nn.ModuleList(DescribedLayer(d, num_relations) for _ in range(count))
        self.mlp = network(d * (1 + (count if settings.joined else 1)), settings.hidden, 1, 1)

    def network(self, log_sets: Tensor, relations: Tensor, keep: Tensor | None = None) -> Tensor:
        query = self.query(relations)
        states = states_after(self.layers, query, boundary_of(log_sets, query), self.facts, keep)
        return readout(self.mlp, deque(states, None if self.settings.joined else 1), query)

    def reset(self, generator: torch.Generator) -> None:
        super().reset(generator)
        bound = (13 * self.settings.width) ** -0.5  # as one linear map of all thirteen parts
        for layer in (each for each in self.layers if isinstance(each, DescribedLayer)):
            for weight in (layer.own.weight, layer.own.bias, layer.described.weight):
                fill_uniform(weight, bound, generator)


@cache
def _kernels() -> Any:
    """The kernels of the update and of its gradients, with a common first part."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def normal(  # type: ignore[no-untyped-def]
        own, parts, scale, gain, bias, rows, batch, d, epsilon, block: tl.constexpr,
        wide: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
        column = tl.arange(0, wide)
        inside = (row < rows)[:, None] & (column < d)[None, :]
        s = tl.load(scale + row // batch, mask=row < rows, other=1.0)[:, None]
        at = row[:, None] * d + column[None, :]
        part = row[:, None] * 3 * d + column[None, :]
        x = tl.load(own + at, mask=inside, other=0.0) + tl.load(
            parts + part, mask=inside, other=0.0
        )
        x += tl.load(parts + part + d, mask=inside, other=0.0) * s
        x += tl.load(parts + part + 2 * d, mask=inside, other=0.0) / tl.maximum(s, 0.01)
        x = tl.where(inside, x, 0.0)
        x = tl.where(inside, x - (tl.sum(x, 1) / d)[:, None], 0.0)
        size = tl.sqrt(tl.sum(x * x, 1) / d + epsilon)[:, None]
        x = x / size
        g = tl.load(gain + column, mask=column < d, other=0.0)[None, :]
        y = x * g + tl.load(bias + column, mask=column < d, other=0.0)[None, :]
        return at, part, column, inside, s, size, x, g, y

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def forward(  # type: ignore[no-untyped-def]
        states, own, parts, scale, gain, bias, out, rows, batch, d, epsilon, block: tl.constexpr,
        wide: tl.constexpr,
    ):  # fmt: skip
        at, _part, _column, inside, _s, _size, _x, _g, y = normal(
            own, parts, scale, gain, bias, rows, batch, d, epsilon, block, wide
        )
        tl.store(
            out + at, tl.load(states + at, mask=inside, other=0.0) + tl.maximum(y, 0.0), mask=inside
        )

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def backward(  # type: ignore[no-untyped-def]
        grad, own, parts, scale, gain, bias, to_own, to_parts, to_gain, to_bias, rows, batch, d,
        epsilon, block: tl.constexpr, wide: tl.constexpr,
    ):  # fmt: skip
        at, part, column, inside, s, size, x, g, y = normal(
            own, parts, scale, gain, bias, rows, batch, d, epsilon, block, wide
        )
        dy = tl.where((y > 0.0) & inside, tl.load(grad + at, mask=inside, other=0.0), 0.0)
        number = tl.program_id(0) * d + column
        tl.store(to_gain + number, tl.sum(dy * x, 0), mask=column < d)
        tl.store(to_bias + number, tl.sum(dy, 0), mask=column < d)
        dx = dy * g
        dx = dx - (tl.sum(dx, 1) / d)[:, None] - x * (tl.sum(dx * x, 1) / d)[:, None]
        dx = dx / size
        tl.store(to_own + at, dx, mask=inside)
        tl.store(to_parts + part, dx, mask=inside)
        tl.store(to_parts + part + d, dx * s, mask=inside)
        tl.store(to_parts + part + 2 * d, dx / tl.maximum(s, 0.01), mask=inside)

    return forward, backward


class _Update(torch.autograd.Function):
    """The next states, whose backward pass computes the values between again.

    Shapes: `[N, B, d] x [N, B, d] x [N, B, 3d] x [N] x [d] x [d] -> [N, B, d]`; `scale` is a
    constant.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, own: Tensor, parts: Tensor, scale: Tensor, gain: Tensor,
        bias: Tensor,
    ) -> Tensor:  # fmt: skip
        states, own, parts, scale = (each.contiguous() for each in (states, own, parts, scale))
        n, b, d = states.shape
        out = torch.empty_like(states)
        block, wide = _sizes(d)
        _kernels()[0][(-(-n * b // block),)](
            states, own, parts, scale, gain, bias, out, n * b, b, d, EPSILON, block, wide,
            num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(own, parts, scale, gain, bias)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        own, parts, scale, gain, bias = ctx.saved_tensors
        n, b, d = own.shape
        grad = grads[0].contiguous()
        block, wide = _sizes(d)
        programs = -(-n * b // block)
        to_own = torch.empty_like(own)
        to_parts = torch.empty_like(parts)
        to_gain = own.new_empty(programs, d)
        to_bias = own.new_empty(programs, d)
        _kernels()[1][(programs,)](
            grad, own, parts, scale, gain, bias, to_own, to_parts, to_gain, to_bias, n * b, b, d,
            EPSILON, block, wide, num_warps=4,
        )  # fmt: skip
        return grad, to_own, to_parts, None, to_gain.sum(0), to_bias.sum(0)


def _sizes(d: int) -> tuple[int, int]:
    """Rows of a program, and the power of two that a row fits into."""
    wide = max(16, 1 << (d - 1).bit_length())
    return max(1, _NUMBERS // wide), wide
