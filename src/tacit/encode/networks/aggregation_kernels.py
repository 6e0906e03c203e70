"""Relational aggregation as kernels, where Triton can compile for the GPU.

A program goes through a piece of at most 64 facts and keeps its sums in registers, so that each
fact costs the rows it reads and nothing more. A second kernel adds the pieces of one key in a fixed
order: there are no atomic additions, and results are the same every time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from tacit.encode.networks.sorted_facts import Segments, SortedFacts
from tacit.links.precision import has_triton

LEAST_VARIANCE = 1e-6
LEAST_SPREAD = 1.0001 * LEAST_VARIANCE**0.5  # up to which a standard deviation has no gradient
MOST_TIES = 32767  # of one kind: two counts share an integer
_COLUMNS = 1024  # at most, that one program handles
# of a column of a piece: sum, squares, largest, smallest, and how often these two occur
_NUMBERS = 6


@cache
def _finish() -> Any:
    """The part of a kernel that computes an entity's aggregates from its sums."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def finish(  # type: ignore[no-untyped-def]
        total, squares, high, low, highs, lows, row, columns, inside, boundary, counts, out, ties,
        width, d, least, most: tl.constexpr, pna: tl.constexpr,
    ):  # fmt: skip
        own = tl.load(boundary + row * width + columns, mask=inside, other=0.0)
        total += own
        if pna:
            count = tl.load(counts + row).to(tl.float32)
            squares += own * own
            highs = tl.where(own > high, 1.0, highs + (own == high).to(tl.float32))
            lows = tl.where(own < low, 1.0, lows + (own == low).to(tl.float32))
            mean = total / count
            spread = tl.sqrt(tl.maximum(squares / count - mean * mean, least))
            at = out + row * width * 4 + (columns // d) * 4 * d + columns % d
            tl.store(at, mean, mask=inside)
            tl.store(at + d, tl.maximum(high, own), mask=inside)
            tl.store(at + 2 * d, tl.minimum(low, own), mask=inside)
            tl.store(at + 3 * d, spread, mask=inside)
            packed = tl.minimum(highs, most).to(tl.int32) + tl.minimum(lows, most).to(tl.int32) * (
                most + 1
            )
            tl.store(ties + row * width + columns, packed, mask=inside)
        else:
            tl.store(out + row * width + columns, total, mask=inside)

    return finish


@cache
def _messages() -> Any:
    """The kernel that sums the messages of a piece, or if it `joins`, the pieces of a key."""
    import triton
    import triton.language as tl

    finish = _finish()

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def messages(  # type: ignore[no-untyped-def]
        states, weights, boundary, counts, out, ties, partials, keep, heads, relations, order,
        starts, stops, rows, n, width, d, least, most: tl.constexpr, pna: tl.constexpr,
        masked: tl.constexpr, joins: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        # Offsets may exceed 32 bits.
        which = tl.program_id(0)
        long = tl.program_id(0).to(tl.int64) * 0
        columns = tl.program_id(1) * block + tl.arange(0, block)
        inside = columns < width
        total = tl.zeros((block,), tl.float32)
        squares = tl.zeros((block,), tl.float32)
        high = tl.full((block,), float("-inf"), tl.float32)
        highs = tl.zeros((block,), tl.float32)
        low = tl.full((block,), float("inf"), tl.float32)
        lows = tl.zeros((block,), tl.float32)
        for j in range(tl.load(starts + which), tl.load(stops + which)):
            if joins:
                at = partials + (long + j) * width * 6 + columns
                message = tl.load(at, mask=inside, other=0.0)
                square = tl.load(at + width, mask=inside, other=0.0)
                top = tl.load(at + 2 * width, mask=inside, other=0.0)
                bottom = tl.load(at + 3 * width, mask=inside, other=0.0)
                tops = tl.load(at + 4 * width, mask=inside, other=0.0)
                bottoms = tl.load(at + 5 * width, mask=inside, other=0.0)
            else:
                message = tl.load(
                    states + (long + tl.load(heads + j)) * width + columns, mask=inside, other=0.0
                )
                message *= tl.load(
                    weights + (long + tl.load(relations + j)) * width + columns,
                    mask=inside,
                    other=0.0,
                )
                top = message
                bottom = message
                if masked:
                    keeps = tl.load(keep + tl.load(order + j)) != 0
                    message = tl.where(keeps, message, 0.0)
                    top = tl.where(keeps, message, float("-inf"))
                    bottom = tl.where(keeps, message, float("inf"))
                square = message * message
                tops = 1.0
                bottoms = 1.0
            total += message
            if pna:
                squares += square
                highs = tl.where(top > high, tops, tl.where(top == high, highs + tops, highs))
                lows = tl.where(
                    bottom < low, bottoms, tl.where(bottom == low, lows + bottoms, lows)
                )
                high = tl.maximum(high, top)
                low = tl.minimum(low, bottom)
        row = tl.load(rows + which).to(tl.int64)
        if row < n:
            finish(
                total, squares, high, low, highs, lows, row, columns, inside, boundary, counts, out,
                ties, width, d, least, most, pna,
            )  # fmt: skip
        else:
            at = partials + (row - n) * width * 6 + columns
            tl.store(at, total, mask=inside)
            if pna:
                tl.store(at + width, squares, mask=inside)
                tl.store(at + 2 * width, high, mask=inside)
                tl.store(at + 3 * width, low, mask=inside)
                tl.store(at + 4 * width, highs, mask=inside)
                tl.store(at + 5 * width, lows, mask=inside)

    return messages


@cache
def _slopes() -> Any:
    """The kernels that add up the gradients of a piece, and the pieces of a key."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def slopes(  # type: ignore[no-untyped-def]
        fixed, other, base, factor, highs, lows, out, result, keep, keys, others, tails, order,
        starts, stops, rows, width, d, pna: tl.constexpr, masked: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        piece = tl.program_id(0)
        columns = tl.program_id(1) * block + tl.arange(0, block)
        inside = columns < width
        own = tl.load(
            fixed + tl.load(keys + piece).to(tl.int64) * width + columns, mask=inside, other=0.0
        )
        places = (columns // d) * 4 * d + columns % d
        total = tl.zeros((block,), tl.float32)
        for j in range(tl.load(starts + piece), tl.load(stops + piece)):
            tail = tl.load(tails + j).to(tl.int64) * width
            met = tl.load(
                other + tl.load(others + j).to(tl.int64) * width + columns, mask=inside, other=0.0
            )
            slope = tl.load(base + tail + columns, mask=inside, other=0.0)
            if pna:
                message = own * met
                slope += message * tl.load(factor + tail + columns, mask=inside, other=0.0)
                high = tl.load(out + tail * 4 + places + d, mask=inside, other=0.0)
                low = tl.load(out + tail * 4 + places + 2 * d, mask=inside, other=0.0)
                slope += tl.where(
                    message == high, tl.load(highs + tail + columns, mask=inside, other=0.0), 0.0
                )
                slope += tl.where(
                    message == low, tl.load(lows + tail + columns, mask=inside, other=0.0), 0.0
                )
            if masked:
                slope = tl.where(tl.load(keep + tl.load(order + j)) != 0, slope, 0.0)
            total += met * slope
        tl.store(result + tl.load(rows + piece).to(tl.int64) * width + columns, total, mask=inside)

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def added(result, wide, firsts, n, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
        which = tl.program_id(0)
        long = which.to(tl.int64) * 0  # offsets may exceed 32 bits
        columns = tl.program_id(1) * block + tl.arange(0, block)
        inside = columns < width
        total = tl.zeros((block,), tl.float32)
        for j in range(tl.load(firsts + which), tl.load(firsts + which + 1)):
            total += tl.load(result + (long + n + j) * width + columns, mask=inside, other=0.0)
        tl.store(result + tl.load(wide + which).to(tl.int64) * width + columns, total, mask=inside)

    return slopes, added


@cache
def _shares() -> Any:
    """The kernel that computes the terms of the slopes of messages."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def shares(  # type: ignore[no-untyped-def]
        out, grad, ties, boundary, counts, base, factor, highs, lows, result, size, width, d, least,
        most: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
        inside = at < size
        row = at // width
        places = at // d * 4 * d + at % d
        count = tl.load(counts + row, mask=inside, other=1).to(tl.float32)
        mean = tl.load(out + places, mask=inside, other=0.0)
        high = tl.load(out + places + d, mask=inside, other=0.0)
        low = tl.load(out + places + 2 * d, mask=inside, other=0.0)
        spread = tl.load(out + places + 3 * d, mask=inside, other=1.0)
        falls = tl.load(grad + places + 3 * d, mask=inside, other=0.0) / (spread * count)
        falls = tl.where(spread > least, falls, 0.0)
        rest = tl.load(grad + places, mask=inside, other=0.0) / count - mean * falls
        tied = tl.load(ties + at, mask=inside, other=1)
        top = tl.load(grad + places + d, mask=inside, other=0.0) / (tied % (most + 1)).to(
            tl.float32
        )
        bottom = tl.load(grad + places + 2 * d, mask=inside, other=0.0) / (tied // (most + 1)).to(
            tl.float32
        )
        own = tl.load(boundary + at, mask=inside, other=0.0)
        gradient = (
            rest + own * falls + tl.where(own == high, top, 0.0) + tl.where(own == low, bottom, 0.0)
        )
        tl.store(base + at, rest, mask=inside)
        tl.store(factor + at, falls, mask=inside)
        tl.store(highs + at, top, mask=inside)
        tl.store(lows + at, bottom, mask=inside)
        tl.store(result + at, gradient, mask=inside)

    return shares


def available(states: Tensor) -> bool:
    """Whether the kernels can take these states."""
    return states.is_cuda and states.dtype == torch.float32 and has_triton()


def aggregate(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    facts: SortedFacts,
    keep: Tensor | None,
    pna: bool,
) -> tuple[Tensor, Tensor]:
    """The aggregates, and the counts of largest and smallest messages, packed in an integer."""
    n, b, d = states.shape
    segments = facts.by_tail
    width = b * d
    out = states.new_empty((n, b, 4, d) if pna else (n, b, d))
    ties = torch.empty((n, width) if pna else (0,), dtype=torch.int32, device=states.device)
    counts = facts.degrees(keep) + 1
    partials = states.new_empty(segments.extra, _NUMBERS, width)
    block, blocks, warps = _sizes(width)

    def run(starts: Tensor, stops: Tensor, rows: Tensor, joins: bool) -> None:
        _messages()[len(rows), blocks](
            states, weights, boundary, counts, out, ties, partials,
            counts if keep is None else keep, segments.heads, segments.relations, segments.order,
            starts, stops, rows, n, width, d, LEAST_VARIANCE, MOST_TIES, pna, keep is not None,
            joins, block, num_warps=warps,
        )  # fmt: skip

    run(segments.starts, segments.stops, segments.rows, False)
    if len(segments.wide):
        run(segments.firsts, segments.firsts[1:], segments.wide, True)
    return out, ties


MessageSlopes = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def message_slopes(
    out: Tensor, grad: Tensor, ties: Tensor, boundary: Tensor, counts: Tensor
) -> tuple[MessageSlopes, Tensor]:
    """The terms of the slopes of messages, and the boundary condition's gradient.

    A message `m` to an entity has the slope `base + factor · m`, plus `highs` where it is the
    largest and `lows` where it is the smallest, `[N, W]` each; `out` holds these extremes.
    """
    b = out.shape[1]
    d = out.shape[3]
    base, factor, highs, lows, result = (torch.empty_like(boundary) for _ in range(5))
    size = boundary.numel()
    _shares()[(-(-size // _COLUMNS),)](
        out, grad, ties, boundary, counts, base, factor, highs, lows, result, size, b * d, d,
        LEAST_SPREAD, MOST_TIES, _COLUMNS, num_warps=4,
    )  # fmt: skip
    return (base, factor, highs, lows, out), result


def sum_slopes(
    fixed: Tensor, other: Tensor, segments: Segments, others: Tensor, slopes: MessageSlopes,
    keep: Tensor | None, pna: bool,
) -> Tensor:  # fmt: skip
    """`Σ other ⊙ slope(fixed ⊙ other)` over the facts of each key, shaped like `fixed`."""
    n, b, d = fixed.shape
    width = b * d
    result = fixed.new_empty(n + segments.extra, width)
    block, blocks, warps = _sizes(width)
    slopes_of, added = _slopes()
    slopes_of[len(segments.starts), blocks](
        fixed, other, *slopes, result, result if keep is None else keep, segments.keys, others,
        segments.tails, segments.order, segments.starts, segments.stops, segments.rows, width, d,
        pna, keep is not None, block, num_warps=warps,
    )  # fmt: skip
    if len(segments.wide):
        added[len(segments.wide), blocks](
            result, segments.wide, segments.firsts, n, width, block, num_warps=warps
        )
    return result[:n].view_as(fixed)


def _sizes(width: int) -> tuple[int, int, int]:
    """Columns of a program, programs side by side, and warps of each."""
    block = min(_COLUMNS, max(32, 1 << (width - 1).bit_length()))
    return block, -(-width // block), max(1, min(8, block // 128))
