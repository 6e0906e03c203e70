"""Matrix products of a chosen precision, with results that are the same to the bit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# floats of a register; unaligned rows of a table are summed in another order
_LANE = 8
# columns that are summed in the same order; a remainder is not
TILE = 64
# columns of a slice: a wider product takes twice the time of its slices
_COLUMNS = 2048
_PART = 4 * 10**9  # multiplications that take a tenth of a second
NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}  # precisions of 16 bits
_SWITCHES = threading.Lock()  # a GPU's switches apply to the whole process
# rows of every product where no `Summation` holds: a multiple of all kernel heights (1 to 24)
_ROWS = 48
_DEPTH = 256  # numbers of a row that MKL sums in one order, whatever the columns
# since this version a product of bfloat16 matrices can return float32
_WIDE_RESULTS = torch.__version__ >= "2.8"


@cache
def has_triton() -> bool:
    """Whether kernels for a GPU can be compiled."""
    return find_spec("triton") is not None


class Summation(NamedTuple):
    """What keeps the sums of a row the same, whatever rows stand beside it."""

    padded_rows: range  # numbers of rows that are filled up to its end
    depth: int  # numbers of a row that one product may sum
    transposed_widths: range  # widths for which `_of_few` is faster


# What MKL's kernels need, which no document says: those of CPUs up to AVX-512, and those with AMX.
_SUMMATIONS = (
    Summation(range(5, 12), 2**31, range(96, 1024)),
    Summation(range(1, 16), _DEPTH, range(1, _DEPTH + 1)),
)
STEADY = max(each.padded_rows.stop for each in _SUMMATIONS)  # rows that no `Summation` fills up
_FEWEST = 4  # columns of a product of few rows that is turned


@cache
def summation() -> Summation | None:
    """The first of the known ways to sum that holds on this CPU; None where none does."""
    return next(filter(_holds, _SUMMATIONS), None)


def _holds(summation: Summation) -> bool:
    """Whether rows of products do not depend on other rows, on columns or on threads."""
    generator = torch.Generator().manual_seed(0)
    before = torch.get_num_threads()
    try:
        for width in (64, 200, 1000):
            left = torch.randn(40, width, generator=generator)
            right = torch.randn(640, width, generator=generator)
            full_tiles = _sum_in_order(left, right.t(), summation)
            for threads in {1, 2, before}:
                torch.set_num_threads(threads)
                for rows, columns in ((1, 640), (4, 640), (12, 384), (16, 64), (24, 640)):
                    if rows == 1 and rows not in summation.padded_rows:
                        continue  # it depends on where the table lies
                    part = _sum_in_order(left[:rows], right[:columns].t(), summation)
                    if not torch.equal(part, full_tiles[:rows, :columns]):
                        return False
    finally:
        torch.set_num_threads(before)
    return True


def product(
    left: Tensor, right: Tensor, precision: str = "float32", out: Tensor | None = None
) -> Tensor:
    """`left @ right` in float32; for `bf16`, of factors rounded to bfloat16."""
    if precision != "bf16":
        if left.device.type != "cpu" or left.dtype != torch.float32:
            return torch.mm(left, right, out=out)
        if (known := summation()) is None:
            return _in_blocks(left, right, out)
        return _sum_in_order(left, right, known, out)
    left = left.bfloat16()
    right = right.bfloat16()
    if left.is_cuda and _WIDE_RESULTS:
        return torch.mm(left, right, out_dtype=torch.float32, out=out)
    narrow = torch.mm(left, right)
    return narrow.float() if out is None else out.copy_(narrow)


def parts_of_product(size: int, cost: int, device: torch.device) -> Iterator[slice]:
    """Parts of a product's rows or columns that Ctrl-C can come between.

    `cost` is the number of multiplications per row or column. On a CPU a part takes a tenth of a
    second; a GPU takes all at once.
    """
    step = size if device.type != "cpu" else max(TILE, _PART // max(1, cost) // TILE * TILE)
    yield from (slice(start, min(start + step, size)) for start in range(0, size, max(1, step)))


def _sum_in_order(
    left: Tensor, right: Tensor, summation: Summation, out: Tensor | None = None
) -> Tensor:
    """`left @ right` on a CPU, by as many rows and in such slices as its kernels need."""
    if len(left) in summation.padded_rows:
        rows = F.pad(left, (0, 0, 0, summation.padded_rows.stop - len(left)))
        steady = _in_slices(rows, right, summation.depth)[: len(left)]
        return steady if out is None else out.copy_(steady)
    return _in_slices(left, right, summation.depth, out)


def _in_slices(left: Tensor, right: Tensor, depth: int, out: Tensor | None = None) -> Tensor:
    """`left @ right`, summed over slices of `depth` numbers."""
    out = torch.mm(left[:, :depth], right[:depth], out=out)
    for start in range(depth, left.shape[1], depth):
        out.addmm_(left[:, start : start + depth], right[start : start + depth])
    return out


def _in_blocks(left: Tensor, right: Tensor, out: Tensor | None) -> Tensor:
    """`left @ right` by products of a fixed number of rows, so that results do not vary."""
    out = left.new_empty(len(left), right.shape[1]) if out is None else out
    for start in range(0, len(left), _ROWS):
        block = left[start : start + _ROWS]
        rows = F.pad(block, (0, 0, 0, _ROWS - len(block)))
        out[start : start + _ROWS] = _in_slices(rows, right, _DEPTH)[: len(block)]
    return out


def even_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """`left @ right.T`; on a CPU, equal rows of `right` have equal results."""
    if right.device.type != "cpu":
        return product(left, right.t(), out=out)
    out = left.new_empty(len(left), len(right)) if out is None else out
    known = summation()
    if (
        len(left) < _FEWEST
        and known is not None
        and right.shape[1] in known.transposed_widths
        and in_lanes(right)
    ):
        return out.copy_(_of_few(left, right))
    return _by_tiles(left, right, out)


def _by_tiles(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """`left @ right.T` on a CPU into `out`, with the same summation for all columns."""
    full_tiles = len(right) - len(right) % TILE
    for start in range(0, full_tiles, _COLUMNS):
        columns = slice(start, min(start + _COLUMNS, full_tiles))
        product(left, right[columns].t(), out=out[:, columns])
    if full_tiles < len(right):
        remainder = F.pad(right[full_tiles:], (0, 0, 0, TILE - len(right) % TILE))
        out[:, full_tiles:] = product(left, remainder.t())[:, : len(right) - full_tiles]
    return out


def in_lanes(table: Tensor) -> bool:
    """Whether every row of a table starts at an aligned address."""
    by_row = table.is_contiguous() and table.dtype == torch.float32
    return by_row and table.shape[1] % _LANE == 0 and table.data_ptr() % (4 * _LANE) == 0


def _of_few(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` of few rows, as a product of the table with them: twice as fast.

    A number is the same to the bit for one, two or three rows, on any number of threads.
    """
    # a short table takes other kernels
    table = right if len(right) >= STEADY else F.pad(right, (0, 0, 0, STEADY - len(right)))
    rows = F.pad(left, (0, 0, 0, _FEWEST - len(left)))
    return torch.mm(table, rows.t()).t()[: len(left), : len(right)]


def steady_product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` on a CPU, the same to the bit whatever the other rows are."""
    rows = F.pad(left, (0, 0, 0, max(0, _FEWEST - len(left))))
    return _by_tiles(rows, right, left.new_empty(len(rows), len(right)))[: len(left)]


@contextmanager
def switched(name: str, on: bool) -> Iterator[None]:
    """Set one of the switches in `torch.backends.cuda.matmul` within a block."""
    switches = torch.backends.cuda.matmul
    with _SWITCHES:
        before = getattr(switches, name)
        setattr(switches, name, on)
        try:
            yield
        finally:
            setattr(switches, name, before)


@contextmanager
def float32_products(precision: str) -> Iterator[None]:
    """Let float32 products round their factors to TF32 if the precision is `tf32`."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
