"""Pair distances and their gradients as kernels, where Triton can compile for the GPU.

Each program keeps a tile of sums in registers and walks the third direction: dimensions for
distances, the other side's rows for gradients. What it reads on the way is packed tile by tile, so
that a step ahead is a fixed number of bytes. Nothing is added up in an order that chance decides:
long walks are cut into parts whose sums are added afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

KINDS = ("l1", "box", "cone")
# of a program's tile: fewer where more numbers are kept for each sum
_ROWS = {"l1": 128, "box": 64, "cone": 64}
_COLUMNS = 64
_PROGRAMS = 1056  # that keep a GPU busy: walks are cut while there are fewer
_WALK = 32  # steps of a part of a walk, at least


@cache
def kernels() -> Any:
    """The kernels of distances and of gradients."""
    import triton
    import triton.language as tl

    return _distances_kernel(triton, tl), _gradients_kernel(triton, tl)


def _distances_kernel(triton: Any, tl: Any) -> Any:
    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def distances(  # type: ignore[no-untyped-def]
        states, places, out, length, chunk, inside, kind: tl.constexpr, of_state: tl.constexpr,
        of_place: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    ):  # fmt: skip
        i = tl.program_id(1).to(tl.int64)
        j = tl.program_id(0).to(tl.int64)
        part = tl.program_id(2)
        row = tl.arange(0, rows)
        column = tl.arange(0, columns)
        x = states + (i * length + part * chunk) * (of_state * rows)
        v = places + (j * length + part * chunk) * (of_place * columns)
        width = tl.num_programs(0).to(tl.int64) * columns
        height = tl.num_programs(1).to(tl.int64) * rows
        at = (part * height + i * rows + row)[:, None] * width + (j * columns + column)[None, :]
        # zeros; read, so that a thread's sums lie as it will write them, side by side
        total = tl.load(out + at)
        for _ in tl.range(0, chunk, loop_unroll_factor=4):
            if kind == 2:
                sx = tl.load(x + row)[:, None]
                cx = tl.load(x + rows + row)[:, None]
                s = tl.load(x + 2 * rows + row)[:, None]
                c = tl.load(x + 3 * rows + row)[:, None]
                sv = tl.load(v + column)[None, :]
                cv = tl.load(v + columns + column)[None, :]
                sine = tl.abs(sv * cx - cv * sx)
                cosine = tl.abs(sv * sx + cv * cx)
                total += tl.maximum(sine * c - cosine * s, 0.0) + inside * tl.minimum(sine, s)
            elif kind == 1:
                gap = tl.abs(tl.load(v + column)[None, :] - tl.load(x + row)[:, None])
                offset = tl.load(x + rows + row)[:, None]
                total += tl.maximum(gap - offset, 0.0) + inside * tl.abs(tl.minimum(gap, offset))
            else:
                total += tl.abs(tl.load(v + column)[None, :] - tl.load(x + row)[:, None])
            x += of_state * rows
            v += of_place * columns
        tl.store(out + at, total)

    return distances


def _gradients_kernel(triton: Any, tl: Any) -> Any:
    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def gradients(  # type: ignore[no-untyped-def]
        own, other, upstream, out, length, chunk, inside, kind: tl.constexpr,
        of_states: tl.constexpr, of_other: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    ):  # fmt: skip
        i = tl.program_id(1).to(tl.int64)
        j = tl.program_id(0).to(tl.int64)
        part = tl.program_id(2)
        row = tl.arange(0, rows)
        column = tl.arange(0, columns)
        width = tl.num_programs(0).to(tl.int64) * columns
        height = tl.num_programs(1).to(tl.int64) * rows
        cell = (i * rows + row)[:, None] * width + (j * columns + column)[None, :]
        a0 = tl.load(own + cell)
        a1 = tl.load(own + height * width + cell) if kind == 2 or (kind == 1 and of_states) else a0
        a2 = tl.load(own + 2 * height * width + cell) if kind == 2 and of_states else a0
        a3 = tl.load(own + 3 * height * width + cell) if kind == 2 and of_states else a0
        b = other + (j * length + part * chunk) * (of_other * columns)
        g = upstream + (i * length + part * chunk) * rows
        by_place = tl.zeros((rows, columns), tl.float32)
        by_extent = tl.zeros((rows, columns), tl.float32)
        for _ in tl.range(0, chunk, loop_unroll_factor=4):
            up = tl.load(g + row)[:, None]
            b0 = tl.load(b + column)[None, :]
            b1 = tl.load(b + columns + column)[None, :] if of_other > 1 else b0
            if kind == 2:
                s = a2 if of_states else tl.load(b + 2 * columns + column)[None, :]
                c = a3 if of_states else tl.load(b + 3 * columns + column)[None, :]
                t = b0 * a1 - b1 * a0 if of_states else a0 * b1 - a1 * b0
                p = b0 * a0 + b1 * a1
                sine = tl.abs(t)
                cosine = tl.abs(p)
                edge = cosine * c + sine * s
                outside = sine >= s
                slope = tl.where(outside, edge, inside * cosine)
                scale = up
                by_extent += up * tl.where(outside, inside * c - edge, 0.0)
                signs = t.to(tl.int32, bitcast=True) ^ p.to(tl.int32, bitcast=True)
            else:
                gap = b0 - a0 if of_states else a0 - b0
                slope = up
                scale = 1.0
                signs = gap.to(tl.int32, bitcast=True)
                if kind == 1:
                    beyond = tl.where(tl.abs(gap) > (a1 if of_states else b1), up, 0.0)
                    # for one side a product is less work than a choice
                    outer = inside * up + (1 - inside) * beyond
                    slope = outer if of_states else tl.where(tl.abs(gap) > b1, up, inside * up)
                    by_extent += beyond
            by_place += scale * (slope.to(tl.int32, bitcast=True) ^ (signs & -2147483648)).to(
                tl.float32, bitcast=True
            )
            b += of_other * columns
            g += rows
        if kind == 1:  # what an offset's sign decides is the same for the whole walk
            by_extent *= inside * tl.where(a1 < 0, -1.0, tl.where(a1 > 0, 1.0, 0.0)) - 1
        factor: tl.constexpr = 0.5 if kind == 2 else 1.0
        count: tl.constexpr = 2 if of_states and kind > 0 else 1
        at = out + part * count * height * width + cell
        tl.store(at, -factor * by_place if of_states else factor * by_place)
        if count == 2:
            tl.store(at + height * width, factor * by_extent)

    return gradients


def distances(
    kind: str, inside: float, states: tuple[Tensor, ...], places: tuple[Tensor, ...]
) -> Tensor:
    """Distances of all pairs, `[n, d]... x [m, d]... -> [n, m]`."""
    n, d = states[0].shape
    m = len(places[0])
    rows = _ROWS[kind]
    tall = _tiles(n, rows)
    wide = _tiles(m, _COLUMNS)
    parts, chunk = _cut(d, tall * wide)
    x = _pack([part.T for part in states], parts * chunk, rows)
    v = _pack([part.T for part in places], parts * chunk, _COLUMNS)
    out = x.new_zeros(parts, tall * rows, wide * _COLUMNS)
    kernels()[0][(wide, tall, parts)](
        x, v, out, parts * chunk, chunk, inside, KINDS.index(kind), len(states), len(places), rows,
        _COLUMNS, num_warps=8,
    )  # fmt: skip
    return _sum(out)[:n, :m].contiguous()


def gradients(
    kind: str,
    inside: float,
    states: tuple[Tensor, ...],
    places: tuple[Tensor, ...],
    upstream: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradients of both sides for the gradient `[n, m]` of distances."""
    by_state = _gradients(kind, inside, states, places, upstream.T, True)
    by_place = _gradients(kind, inside, places, states, upstream, False)
    return by_state[0], (None if kind == "l1" else by_state[1]), by_place[0]


def _gradients(
    kind: str,
    inside: float,
    own: tuple[Tensor, ...],
    other: tuple[Tensor, ...],
    upstream: Tensor,
    of_states: bool,
) -> Tensor:
    """Gradients of one side, `[1 or 2, a, d]`, for distances with that side last, `[b, a]`."""
    a, d = own[0].shape
    b = len(other[0])
    rows = _ROWS[kind]
    tall = _tiles(a, rows)
    wide = _tiles(d, _COLUMNS)
    parts, chunk = _cut(b, tall * wide)
    own_tiles = pad(torch.stack(own), (0, wide * _COLUMNS - d, 0, tall * rows - a))
    other_tiles = _pack(other, parts * chunk, _COLUMNS)
    upstream_tiles = _pack([upstream], parts * chunk, rows)
    out = own_tiles.new_empty(
        parts, 2 if of_states and kind != "l1" else 1, tall * rows, wide * _COLUMNS
    )
    kernels()[1][(wide, tall, parts)](
        own_tiles, other_tiles, upstream_tiles, out, parts * chunk, chunk, inside,
        KINDS.index(kind), of_states, len(other), rows, _COLUMNS, num_warps=8,
    )  # fmt: skip
    return _sum(out)[:, :a, :d].contiguous()


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _cut(length: int, tiles: int) -> tuple[int, int]:
    """The number of parts that a walk is cut into, and the steps of each."""
    parts = max(1, min(_PROGRAMS // tiles, length // _WALK))
    return parts, _tiles(length, parts)


def _pack(parts: Sequence[Tensor], length: int, tile: int) -> Tensor:
    """Pack arguments `[l, size]` as `[tiles, length, arguments, tile]`, padded with zeros."""
    steps, size = parts[0].shape
    tiles = _tiles(size, tile)
    padded = pad(torch.stack(tuple(parts), 1), (0, tiles * tile - size, 0, 0, 0, length - steps))
    return padded.view(length, len(parts), tiles, tile).permute(2, 0, 1, 3).contiguous()


def _sum(parts: Tensor) -> Tensor:
    return parts[0] if len(parts) == 1 else parts.sum(0)
