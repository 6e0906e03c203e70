"""Kernels of a layer's update, `h + relu(LN(own + plain + s · larger + smaller / s))`.

Forward and backward take one pass each.

In torch's own operations each of these is a trip through memory, and a layer norm over few numbers
takes longest of all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from tacit.links.precision import has_triton

EPSILON = 1e-5  # of the layer norm, torch's own
_NUMBERS = 2048  # of a program


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


def available(states: Tensor) -> bool:
    """Whether the kernels can take these states."""
    return (
        states.is_cuda
        and states.dtype == torch.float32
        and states.shape[-1] <= 256
        and has_triton()
    )


def updated(
    states: Tensor, own: Tensor, parts: Tensor, scale: Tensor, gain: Tensor, bias: Tensor
) -> Tensor:
    """The next states; `scale` is a constant.

    Shapes: `[N, B, d] x [N, B, d] x [N, B, 3d] x [N] x [d] x [d] -> [N, B, d]`.
    """
    result: Tensor = _Updated.apply(states, own, parts, scale, gain, bias)  # type: ignore[no-untyped-call]
    return result


class _Updated(torch.autograd.Function):
    """The update, whose backward pass computes its intermediate values again."""

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
