"""Matrix products at a chosen precision, and what there is to compute with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

# With so few rows MKL sums up otherwise on one thread than on two; with more, or fewer, scores are the same to the bit.
_UNSTEADY = range(5, 12)
STEADY = _UNSTEADY.stop  # rows from which on they are the same in a product of any more
_FEWEST = _UNSTEADY.start - 1  # and of which they are the same as well; of fewer not, where a table lies at odd places
_LANE = 8  # floats that it reads at once; where rows of a table do not start at such places it sums up otherwise
_FASTER = range(96, 1024)  # numbers of a row that it reads faster so; longer ones it reads as fast as memory anyway
TILE = 64  # columns that it sums up alike, wherever they stand; those that are left beside them it does not
_COLUMNS = 2048  # a product of many rows with many more columns takes twice the time of its slices one after the other
NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}  # precisions of 16 bits
_SWITCHES = threading.Lock()  # those of a GPU's products are for the whole process
# From this version on a product of bfloat16 matrices can leave the accelerator in float32.
_WIDE_RESULTS = torch.__version__ >= "2.8"


@cache
def has_triton() -> bool:
    """Whether kernels for a GPU can be compiled at all."""
    return find_spec("triton") is not None


def product(left: Tensor, right: Tensor, precision: str = "float32", out: Tensor | None = None) -> Tensor:
    """`left @ right` in float32, of factors rounded to bfloat16 where asked; written into `out` where given."""
    if precision != "bf16":
        if len(left) in _UNSTEADY and left.device.type == "cpu":
            steady = torch.mm(F.pad(left, (0, 0, 0, _UNSTEADY.stop - len(left))), right)[: len(left)]
            return steady if out is None else out.copy_(steady)
        return torch.mm(left, right, out=out)
    left, right = left.bfloat16(), right.bfloat16()
    if left.is_cuda and _WIDE_RESULTS:
        return torch.mm(left, right, out_dtype=torch.float32, out=out)
    narrow = torch.mm(left, right)
    return narrow.float() if out is None else out.copy_(narrow)


def even_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """`left @ right.T`, on a CPU with the same number in a row for equal rows of `right`, wherever they stand."""
    if right.device.type != "cpu":
        return product(left, right.t(), out=out)
    out = left.new_empty(len(left), len(right)) if out is None else out
    if len(left) < _FEWEST and right.shape[1] in _FASTER and in_lanes(right):
        return out.copy_(_of_few(left, right))
    return _by_tiles(left, right, out)


def _by_tiles(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """`left @ right.T` on a CPU into `out`, all columns summed up alike."""
    whole = len(right) - len(right) % TILE
    for start in range(0, whole, _COLUMNS):
        columns = slice(start, min(start + _COLUMNS, whole))
        product(left, right[columns].t(), out=out[:, columns])
    if whole < len(right):
        rest = F.pad(right[whole:], (0, 0, 0, TILE - len(right) % TILE))
        out[:, whole:] = product(left, rest.t())[:, : len(right) - whole]
    return out


def in_lanes(table: Tensor) -> bool:
    """Whether every row of a table starts where registers are read from at once."""
    by_row = table.is_contiguous() and table.dtype == torch.float32
    return by_row and table.shape[1] % _LANE == 0 and table.data_ptr() % (4 * _LANE) == 0


def _of_few(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` of few rows, as a product of the table with them: it is read about twice as fast so.

    A number is the same to the bit for one, two or three rows, on any number of threads, whatever stands beside it.
    """
    table = right if len(right) > 1 else F.pad(right, (0, 0, 0, 1))  # a single row goes another way
    return torch.mm(table, F.pad(left, (0, 0, 0, _FEWEST - len(left))).t()).t()[: len(left), : len(right)]


def steady_product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` on a CPU, each number the same to the bit whatever it is computed together with."""
    least = STEADY if len(left) > _FEWEST else _FEWEST
    rows = F.pad(left, (0, 0, 0, max(0, least - len(left))))
    return _by_tiles(rows, right, left.new_empty(len(rows), len(right)))[: len(left)]


@contextmanager
def switched(name: str, on: bool) -> Iterator[None]:
    """Set one of the switches of a GPU's products, of which `torch.backends.cuda.matmul` has a few."""
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
    """Let float32 products round their factors to TF32 where the precision is `tf32`, and only there."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
