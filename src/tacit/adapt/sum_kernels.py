"""The sums of a streamed loss as one Triton kernel, without storage per entity.

In torch's own operations every step from scores to slopes is a trip through memory of a number for
each literal and entity, which together take several times as long as the products that the scores
come from.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from tacit.links.precision import has_triton

_COLUMNS = 1024  # entities that one program sums up
# the mark of an entity that does not count; that of a known atom is a bit for each literal
LEFT_OUT = 128
MOST = 7  # literals, so that each has its bit


@cache
def _kernel() -> Any:
    """The compiled kernel."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def sums(  # type: ignore[no-untyped-def]
        values,
        rows,
        scales,
        shifts,
        marks,
        totals,
        by_scale,
        by_shift,
        queries,
        n,
        observed,
        strength,
        literals: tl.constexpr,
        positive: tl.constexpr,
        log_scores: tl.constexpr,
        columns: tl.constexpr,
    ):
        query = tl.program_id(0)
        block = tl.program_id(1)
        at = block * columns + tl.arange(0, columns)
        mark = tl.load(marks + query.to(tl.int64) * n + at, mask=at < n, other=128).to(tl.int32)
        counted = tl.where(mark < 128, 1.0, 0.0)
        product = counted
        for turn in tl.static_range(2):  # the product of all literals, then the slope of each
            if turn == 1:
                outer = tl.where(
                    mark < 128,
                    tl.full((columns,), 1.0, tl.float32) if log_scores else tl.exp(product),
                    0.0,
                )
                tl.store(
                    totals + block * queries + query, tl.sum(product if log_scores else outer, 0)
                )
                product = product * outer
            for literal in tl.static_range(literals):
                row = literal * queries + query
                x = tl.load(values + tl.load(rows + row) * n + at, mask=at < n, other=0.0)
                known = (mark >> literal) & 1
                c = 1.0 / (1.0 + tl.exp(-(x * tl.load(scales + row) + tl.load(shifts + row))))
                c = tl.where(known == 1, observed, c)
                value = c if literal < positive else tl.maximum(1.0 - strength * c, 0.0)
                if turn == 0:
                    product = product * value
                else:
                    if literal < positive:
                        slope = product * (1.0 - c)
                    else:  # where the literal is 0, so is the product
                        falling = -product * strength * c * (1.0 - c)
                        slope = falling / tl.maximum(value, 1e-37)
                    slope = tl.where(known == 1, 0.0, slope)
                    number = (block * literals + literal) * queries + query
                    tl.store(by_shift + number, tl.sum(slope, 0))
                    tl.store(by_scale + number, tl.sum(slope * x, 0))

    return sums


def available(device: torch.device, literals: int) -> bool:
    """Whether the kernel supports this number of literals on a device."""
    return device.type == "cuda" and literals <= MOST and has_triton()


def sums(
    values: Tensor,  # [V, N]
    rows: Tensor,  # [A, Q]
    scale: Tensor,  # [A, Q]
    shift: Tensor,  # [A, Q]
    marks: Tensor,  # [Q, N]
    positive: int,
    strength: float,
    observed: float,
    log_scores: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """`Z = Σ φ(S)` of each query `[Q]`, and its derivatives by scale and shift, `[A, Q]`.

    The literals of a query, positive ones first, are rows of `values`. Its `marks` are bytes: the
    bit of a literal is set where its atom is a fact, and all is `LEFT_OUT` or more where an entity
    does not count.
    """
    (literals, queries), n = rows.shape, values.shape[1]
    blocks = -(-n // _COLUMNS)
    totals = values.new_empty(blocks, queries)
    by_scale, by_shift = values.new_empty(2, blocks, literals, queries)
    _kernel()[(queries, blocks)](
        values,
        rows.contiguous(),
        scale.contiguous(),
        shift.contiguous(),
        marks,
        totals,
        by_scale,
        by_shift,
        queries,
        n,
        observed,
        strength,
        literals,
        positive,
        log_scores,
        _COLUMNS,
    )
    return totals.sum(0), by_scale.sum(0), by_shift.sum(0)
