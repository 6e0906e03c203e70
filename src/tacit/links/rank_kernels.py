"""Counts of better and equal scores as one kernel, where Triton compiles for the GPU: one reading of a row each."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from tacit.links.precision import has_triton

_COLUMNS = 2048  # scores that a program compares at a time


@cache
def _kernel() -> Any:
    """The compiled kernel."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def count(scores, stride, rows, wanted, better, least, n, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        answer = tl.program_id(0)
        row = scores + tl.load(rows + answer) * stride
        score = tl.load(wanted + answer)
        larger = tl.zeros((columns,), tl.int32)
        reached = tl.zeros((columns,), tl.int32)
        for start in range(0, n, columns):
            at = start + tl.arange(0, columns)
            other = tl.load(row + at, mask=at < n, other=float("nan"))  # which compares false with everything
            larger += (other > score).to(tl.int32)
            reached += (other >= score).to(tl.int32)
        tl.store(better + answer, tl.sum(larger, axis=0).to(tl.float32))
        tl.store(least + answer, tl.sum(reached, axis=0).to(tl.float32))

    return count


def available(scores: Tensor) -> bool:
    """Whether the kernel can compare these scores."""
    return scores.is_cuda and scores.dtype == torch.float32 and scores.stride(1) == 1 and has_triton()


def count(scores: Tensor, rows: Tensor, wanted: Tensor, counts: Tensor) -> None:
    """How many scores of its row are larger than each wanted one `[M]`, and how many no less, go to `counts[2, M]`."""
    _kernel()[(len(rows),)](
        scores, scores.stride(0), rows.contiguous(), wanted.contiguous(), counts[0], counts[1], scores.shape[1],
        _COLUMNS,
    )  # fmt: skip
