"""The maximum over a hop's candidates as one kernel, where Triton can compile for the GPU.

In PyTorch's own operations a hop copies the shared rows out for every query, adds the weights and reduces: three trips
through memory for each score. The kernel reads each score once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

_COLUMNS = 1024  # entities that one program of the kernel handles


@cache
def _kernel() -> Any:
    """The compiled kernel, or None where there is no Triton."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def best_of(  # type: ignore[no-untyped-def]
        scores, stride, rows, weights, out, n, k, godel: tl.constexpr, columns: tl.constexpr
    ):
        query = tl.program_id(1).to(tl.int64)
        at = tl.program_id(0) * columns + tl.arange(0, columns)
        inside = at < n
        best = tl.full((columns,), float("-inf"), tl.float32)
        for j in range(k):
            row = tl.load(rows + query * k + j)
            weight = tl.load(weights + query * k + j)
            score = tl.load(scores + row * stride + at, mask=inside, other=float("-inf"))
            best = tl.maximum(best, tl.minimum(score, weight) if godel else score + weight)
        tl.store(out + query * n + at, best, mask=inside)

    return best_of


def available(scores: Tensor, norm: str) -> bool:
    """Whether the kernel can take a hop over these scores."""
    return scores.is_cuda and norm in ("product", "godel") and scores.dtype == torch.float32 and _kernel() is not None


def best_of(scores: Tensor, rows: Tensor, weights: Tensor, norm: str) -> Tensor:
    """`out[q, t] = max_j weights[q, j] ⊤ scores[rows[q, j], t]`, `[U, n] x [G, K] x [G, K] -> [G, n]`."""
    (queries, k), n = rows.shape, scores.shape[1]
    out = torch.empty(queries, n, device=scores.device)
    grid = ((n + _COLUMNS - 1) // _COLUMNS, queries)
    _kernel()[grid](
        scores, scores.stride(0), rows.contiguous(), weights.contiguous(), out, n, k, norm == "godel", _COLUMNS
    )
    return out
