"""A hop's last steps as one kernel, where Triton can compile for the GPU.

In PyTorch's own operations a hop writes calibrated scores beside the raw ones, copies the shared
rows out for every query, adds the weights and reduces: many trips through memory for each score.
Here scores are calibrated as they are read: a product is written once and read once for each query
that needs it, mostly from the cache, since programs that share columns run side by side.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tacit.engine.logic import LOG2_E
from tacit.links.precision import has_triton

if TYPE_CHECKING:
    from tacit.engine.atoms.calibration import ByRow

_COLUMNS = 512  # entities that one program handles: so many of all rows of a hop stay in the cache
_SUMMED = 4096  # numbers of a row that are summed at a time
_RAW, _SIGMOID, _CAPPED, _ON_ODDS = range(4)  # what is made of a number


@cache
def _best_of() -> Any:
    """The compiled kernel of a hop."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def best_of(  # type: ignore[no-untyped-def]
        scores,
        stride,
        rows,
        weights,
        shifts,
        scales,
        lifts,
        tops,
        steeps,
        offsets,
        against,
        out,
        n,
        k,
        cap,
        ceiling,
        godel: tl.constexpr,
        kind: tl.constexpr,
        columns: tl.constexpr,
    ):
        query = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * columns + tl.arange(0, columns)
        inside = at < n
        best = tl.full((columns,), float("-inf"), tl.float32)
        missing = True
        if (
            (kind == 1 or kind == 3) and not godel
        ):  # the least odds against cost one exponential a score, and a logarithm in all
            least = tl.full((columns,), float("inf"), tl.float32)
            for j in range(k):
                row = tl.load(rows + query * k + j)
                score = tl.load(scores + row * stride + at, mask=inside, other=0.0).to(tl.float32)
                if kind == 3:
                    score = tl.minimum(
                        score + tl.load(lifts + row), cap, propagate_nan=tl.PropagateNan.ALL
                    )
                    score = score - tl.log(1.0 - tl.exp(score))
                odds = tl.exp2(tl.load(offsets + query * k + j) - score * tl.load(steeps + row))
                least = tl.minimum(
                    least,
                    odds + tl.load(against + query * k + j),
                    propagate_nan=tl.PropagateNan.ALL,
                )
            # log1p, which keeps the digits of log-scores near 0
            rest = tl.where(
                least < 1e-3, least - least * least * (0.5 - least / 3.0), tl.log(1.0 + least)
            )
            best = tl.load(tops + query) - rest
            # some odds are too large
            missing = tl.max(tl.where(inside, least, 0.0), axis=0) == float("inf")
        if missing:
            best = tl.full((columns,), float("-inf"), tl.float32)
            for j in range(k):
                row = tl.load(rows + query * k + j)
                weight = tl.load(weights + query * k + j)
                score = tl.load(scores + row * stride + at, mask=inside, other=float("-inf")).to(
                    tl.float32
                )
                if kind == 3:
                    score = tl.minimum(
                        score + tl.load(lifts + row), cap, propagate_nan=tl.PropagateNan.ALL
                    )
                    score = score - tl.log(1.0 - tl.exp(score))
                if kind == 1 or kind == 3:
                    moved = score * tl.load(scales + row) + tl.load(shifts + row)
                    near = tl.exp(-tl.abs(moved))
                    lost = tl.where(
                        near < 1e-3, near - near * near * (0.5 - near / 3.0), tl.log(1.0 + near)
                    )
                    score = (
                        tl.minimum(moved, 0.0, propagate_nan=tl.PropagateNan.ALL) - lost + ceiling
                    )
                if kind == 2:
                    score = (
                        tl.minimum(
                            score + tl.load(shifts + row), cap, propagate_nan=tl.PropagateNan.ALL
                        )
                        + ceiling
                    )
                best = tl.maximum(
                    best,
                    tl.minimum(score, weight, propagate_nan=tl.PropagateNan.ALL)
                    if godel
                    else score + weight,
                    propagate_nan=tl.PropagateNan.ALL,
                )
        tl.store(out + query * n + at, best, mask=inside)

    return best_of


@cache
def _log_sum() -> Any:
    """The compiled kernel of sums."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def log_sum(scores, stride, out, n, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        high = tl.full((columns,), float("-inf"), tl.float32)
        total = tl.zeros((columns,), tl.float32)
        for start in range(0, n, columns):
            at = start + tl.arange(0, columns)
            score = tl.load(scores + row * stride + at, mask=at < n, other=float("-inf")).to(
                tl.float32
            )
            higher = tl.maximum(high, score, propagate_nan=tl.PropagateNan.ALL)
            still = higher == float("-inf")
            total = total * tl.where(still, 1.0, tl.exp(high - higher)) + tl.where(
                still, 0.0, tl.exp(score - higher)
            )
            high = higher
        top = tl.max(high, axis=0)
        whole = tl.sum(tl.where(high == float("-inf"), 0.0, total * tl.exp(high - top)), axis=0)
        tl.store(out + row, tl.where(top == float("-inf"), top, top + tl.log(whole)))

    return log_sum


def available(scores: Tensor, norm: str) -> bool:
    """Whether the kernel can compute a hop over these scores."""
    return on_gpu(scores.device, norm) and scores.dtype == torch.float32


def on_gpu(device: torch.device, norm: str) -> bool:
    """Whether the kernel can compute hops on a device."""
    return device.type == "cuda" and norm in ("product", "godel") and has_triton()


def best_of(
    scores: Tensor,
    rows: Tensor,
    weights: Tensor,
    norm: str,
    by_row: ByRow | None = None,
    ceiling: float = 0.0,
) -> Tensor:
    """`out[q, t] = max_j weights[q, j] ⊤ scores[rows[q, j], t]`, `[G, n]`.

    Shapes are `[U, n] x [G, K] x [G, K] -> [G, n]`. With `by_row` the scores are raw, and the
    calibrated ones are lowered by `ceiling`.
    """
    (queries, k), n = rows.shape, scores.shape[1]
    out = torch.empty(queries, n, device=scores.device)
    grid = (queries, (n + _COLUMNS - 1) // _COLUMNS)
    kind = _RAW
    cap = 0.0
    shifts = scales = lifts = tops = steeps = offsets = against = weights
    if by_row is not None:
        kind = _SIGMOID if by_row.cap is None else _CAPPED if by_row.lift is None else _ON_ODDS
        cap = by_row.cap or 0.0
        shifts = by_row.shift
        lifts = by_row.shift if by_row.lift is None else by_row.lift
        scales = torch.ones_like(shifts) if by_row.scale is None else by_row.scale
    if kind in (_SIGMOID, _ON_ODDS):
        steeps = scales * LOG2_E
        tops, offsets, against = _odds(weights + ceiling, shifts[rows])
    _best_of()[grid](
        scores,
        scores.stride(0),
        rows.contiguous(),
        weights.contiguous(),
        shifts,
        scales,
        lifts,
        tops,
        steeps,
        offsets,
        against,
        out,
        n,
        k,
        cap,
        ceiling,
        norm == "godel",
        kind,
        _COLUMNS,
    )
    return out


def _odds(weights: Tensor, shifts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Parameters that turn `max_j log W_j σ(x_j + shift_j)` into least odds.

    These are the least `2^(offset_j - x_j log2 e) + against_j`. The odds against `Wσ(x)` are
    `1 / Wσ - 1 = (1/W - 1) + e^-x / W`. Both parts are positive, so nothing cancels, and with the
    best candidate at `W = 1` they stay as small as they can: its weight `[G]` comes first.
    """
    tops = weights.amax(1)
    tops = tops.masked_fill(tops.isneginf(), 0.0)
    down = tops[:, None] - weights
    return tops, (down - shifts) * LOG2_E, torch.expm1(down)


def log_sums(scores: Tensor) -> Tensor:
    """`log Σ e^x` of each row, `[U, n] -> [U]`, in one pass, in float32."""
    out = torch.empty(len(scores), device=scores.device)
    if not scores.is_cuda or scores.dtype not in (torch.float32, torch.float16) or not has_triton():
        return torch.logsumexp(scores.float(), dim=1)
    _log_sum()[(len(scores),)](scores, scores.stride(0), out, scores.shape[1], _SUMMED)
    return out
