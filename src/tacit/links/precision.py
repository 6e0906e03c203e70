"""Matrix products of a chosen precision, with results that are the same to the bit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

# numbers of rows for which MKL's sums depend on the number of threads
_UNSTEADY = range(5, 12)
STEADY = _UNSTEADY.stop  # least number of rows with the same results as any larger number
# a small number of rows with the same results, unlike fewer ones if a table is not aligned
_FEWEST = _UNSTEADY.start - 1
# floats of a register; unaligned rows of a table are summed in another order
_LANE = 8
# row lengths for which `_of_few` is faster; longer rows are bound by memory
_FASTER = range(96, 1024)
# columns that are summed in the same order; a remainder is not
TILE = 64
# columns of a slice: a wider product takes twice the time of its slices
_COLUMNS = 2048
_PART = 4 * 10**9  # multiplications that take a tenth of a second
NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}  # precisions of 16 bits
_SWITCHES = threading.Lock()  # a GPU's switches apply to the whole process
# rows of a product without a steady MKL: a multiple of all kernel heights (1 to 8, 12, 16, 24)
_ROWS = 48
# since this version a product of bfloat16 matrices can return float32
_WIDE_RESULTS = torch.__version__ >= "2.8"


@cache
def has_triton() -> bool:
    """Whether kernels for a GPU can be compiled."""
    return find_spec("triton") is not None


@cache
def is_steady() -> bool:
    """Whether rows of products on this CPU do not depend on the other rows or on threads.

    The constants above were measured where this holds. It is a property of MKL that no document
    promises.
    """
    generator = torch.Generator().manual_seed(0)
    before = torch.get_num_threads()
    try:
        for width in (64, 200):
            left = torch.randn(40, width, generator=generator)
            right = torch.randn(320, width, generator=generator).t()
            whole = torch.mm(left, right)
            for threads in {1, before}:
                torch.set_num_threads(threads)
                for rows in (_FEWEST, STEADY, STEADY + 1, 24, 40):
                    if not torch.equal(torch.mm(left[:rows], right), whole[:rows]):
                        return False
    finally:
        torch.set_num_threads(before)
    return True


def product(
    left: Tensor, right: Tensor, precision: str = "float32", out: Tensor | None = None
) -> Tensor:
    """`left @ right` in float32; for `bf16`, of factors rounded to bfloat16."""
    if precision != "bf16":
        if left.device.type == "cpu" and left.dtype == torch.float32 and not is_steady():
            return _in_blocks(left, right, out)
        if len(left) in _UNSTEADY and left.device.type == "cpu":
            steady = torch.mm(F.pad(left, (0, 0, 0, _UNSTEADY.stop - len(left))), right)[
                : len(left)
            ]
            return steady if out is None else out.copy_(steady)
        return torch.mm(left, right, out=out)
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


def _in_blocks(left: Tensor, right: Tensor, out: Tensor | None) -> Tensor:
    """`left @ right` by products of a fixed number of rows, so that results do not vary."""
    out = left.new_empty(len(left), right.shape[1]) if out is None else out
    for start in range(0, len(left), _ROWS):
        block = left[start : start + _ROWS]
        out[start : start + _ROWS] = torch.mm(F.pad(block, (0, 0, 0, _ROWS - len(block))), right)[
            : len(block)
        ]
    return out


def even_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """`left @ right.T`; on a CPU, equal rows of `right` have equal results."""
    if right.device.type != "cpu":
        return product(left, right.t(), out=out)
    out = left.new_empty(len(left), len(right)) if out is None else out
    if len(left) < _FEWEST and right.shape[1] in _FASTER and in_lanes(right) and is_steady():
        return out.copy_(_of_few(left, right))
    return _by_tiles(left, right, out)


def _by_tiles(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """`left @ right.T` on a CPU into `out`, with the same summation for all columns."""
    whole = len(right) - len(right) % TILE
    for start in range(0, whole, _COLUMNS):
        columns = slice(start, min(start + _COLUMNS, whole))
        product(left, right[columns].t(), out=out[:, columns])
    if whole < len(right):
        rest = F.pad(right[whole:], (0, 0, 0, TILE - len(right) % TILE))
        out[:, whole:] = product(left, rest.t())[:, : len(right) - whole]
    return out


def in_lanes(table: Tensor) -> bool:
    """Whether every row of a table starts at an aligned address."""
    by_row = table.is_contiguous() and table.dtype == torch.float32
    return by_row and table.shape[1] % _LANE == 0 and table.data_ptr() % (4 * _LANE) == 0


def _of_few(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` of few rows, as a product of the table with them: twice as fast.

    A number is the same to the bit for one, two or three rows, on any number of threads.
    """
    table = (
        right if len(right) > 1 else F.pad(right, (0, 0, 0, 1))
    )  # a single row would use another kernel
    return torch.mm(table, F.pad(left, (0, 0, 0, _FEWEST - len(left))).t()).t()[
        : len(left), : len(right)
    ]


def steady_product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` on a CPU, the same to the bit whatever the other rows are."""
    least = STEADY if len(left) > _FEWEST else _FEWEST
    rows = F.pad(left, (0, 0, 0, max(0, least - len(left))))
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
