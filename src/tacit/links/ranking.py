"""Filtered ranks of hard answers, and the metrics made of them."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.errors import TrainingError
from tacit.links.precision import has_triton

Ties = Literal["realistic", "optimistic", "pessimistic"]
TIES: tuple[Ties, ...] = get_args(Ties)
Mean = Literal["question", "fact"]  # what counts once: a query, or each of its hard answers
MEANS: tuple[Mean, ...] = get_args(Mean)
HITS = (1, 3, 10)
METRICS = ("mrr", *(f"hits@{k}" for k in HITS))
_COLUMNS = 2048  # scores that a program of the kernel compares at a time


def ranks(
    scores: Tensor,  # [B, N]
    rows: Tensor,  # [M]
    hard: Tensor,  # [M]
    known_rows: Tensor,  # [K]
    known: Tensor,  # [K]
    ties: Ties = "realistic",
    shards: Shards | None = None,
) -> Tensor:
    """The filtered rank `[M]` of each answer `hard[i]` in row `rows[i]`: 1 + better others.

    `known` lists all answers of the rows, easy and hard; none of them competes. A non-answer with
    the same score counts half (`realistic`: the mean over all orders), not at all (`optimistic`) or
    fully (`pessimistic`). The scores are overwritten in part while counting and restored on return.
    With `shards` they are the columns of this process, while ids and ranks are global: processes
    exchange only scores of answers and counts. If some score is NaN, all ranks are NaN, which
    `check_ranks` reports, so that no GPU is waited for here.

    >>> row = torch.tensor([[0.9, 0.5, 0.7, 0.5, 0.1]])
    >>> zero = torch.tensor([0])
    >>> # 0 is filtered, 2 is better, 3 ties
    >>> ranks(row, zero, torch.tensor([1]), zero, torch.tensor([0]))
    tensor([2.5000])
    """
    counts = torch.zeros(2, len(hard), device=scores.device)  # better, better or equal
    if not len(hard):
        return counts[0]
    shards = shards or Shards(scores.shape[1])
    rows = rows.long()
    hard = hard.long()
    known_rows = known_rows.long()
    known = known.long()
    with torch.inference_mode():
        inside, column = shards.inside(hard)
        targets = shards.sum(torch.where(inside, scores[rows, column], 0.0))
        has_nan = torch.isnan(scores.max())
        answers = torch.cat([rows, known_rows]), torch.cat([hard, known])
        if shards.world > 1:
            inside, column = shards.inside(answers[1])
            answers = answers[0][inside], column[inside]
        answer_scores = scores[answers]
        # NaN compares false, so an answer is neither better nor equal
        scores[answers] = torch.nan
        try:
            _count(scores, rows, targets, counts)
        finally:
            scores[answers] = answer_scores
        counts += torch.where(has_nan, torch.nan, 0.0)
        shards.sum(counts)
    return (
        1 + {"realistic": counts.mean(0), "optimistic": counts[0], "pessimistic": counts[1]}[ties]
    )


def check_ranks(ranks: Tensor) -> Tensor:
    """The ranks, or a `TrainingError` if they are NaN."""
    if bool(torch.isnan(ranks).any()):
        raise TrainingError(
            "some scores are not numbers, so answers cannot be ranked; is the model damaged?"
        )
    return ranks


def _count(scores: Tensor, rows: Tensor, targets: Tensor, counts: Tensor) -> None:
    """Count the scores of each row above, and at least, `targets [M]` into `counts[2, M]`.

    Without a kernel, comparisons go to a float buffer, which sums many times faster than booleans
    do, in blocks that stay in the cache. A GPU needs few large steps and so copies the row for each
    answer; a CPU avoids the copies.
    """
    size = scores.shape[1]
    has_rows = scores.dtype == torch.float32 and scores.stride(1) == 1
    if scores.is_cuda and has_rows and has_triton():
        answers = rows.contiguous(), targets.contiguous(), counts[0], counts[1]
        _kernel()[(len(rows),)](scores, scores.stride(0), *answers, size, _COLUMNS)
        return
    on_cpu = scores.device.type == "cpu"
    block = max(1, (1 << 19 if on_cpu else 1 << 28) // size)
    buffer = counts.new_empty(min(block, len(rows)), size)
    lengths = (
        torch.unique_consecutive(rows, return_counts=True)[1].tolist() if on_cpu else [len(rows)]
    )
    parts = (tensor.split(lengths, -1) for tensor in (rows, targets, counts))
    for row, score, count in zip(*parts, strict=True):
        for start in range(0, len(row), block):
            part = slice(start, start + block)
            row_scores = scores[row[0] if on_cpu else row[part]]
            out = buffer[: len(row[part])]
            for test, compare in enumerate((torch.gt, torch.ge)):
                compare(row_scores, score[part, None], out=out)
                torch.sum(out, 1, out=count[test, part])


@cache
def _kernel() -> Any:
    """A Triton kernel that counts better and equal scores in one reading of a row."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def count(  # type: ignore[no-untyped-def]
        scores, stride, rows, targets, better, least, n, columns: tl.constexpr
    ):
        answer = tl.program_id(0)
        row = scores + tl.load(rows + answer) * stride
        score = tl.load(targets + answer)
        larger = tl.zeros((columns,), tl.int32)
        as_large = tl.zeros((columns,), tl.int32)
        for start in range(0, n, columns):
            at = start + tl.arange(0, columns)
            # NaN compares false
            other = tl.load(row + at, mask=at < n, other=float("nan"))
            larger += (other > score).to(tl.int32)
            as_large += (other >= score).to(tl.int32)
        tl.store(better + answer, tl.sum(larger, axis=0).to(tl.float32))
        tl.store(least + answer, tl.sum(as_large, axis=0).to(tl.float32))

    return count


def by_query(ranks: Tensor, query_of_rank: Tensor) -> dict[str, Tensor]:
    """The metrics of each query with answers, averaged over them, `[Q]` each.

    >>> by_query(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 0, 1]))["mrr"]
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    _, query, sizes = torch.unique(query_of_rank, return_inverse=True, return_counts=True)
    values = {"mrr": 1 / ranks.double()} | {f"hits@{k}": (ranks <= k).double() for k in HITS}
    zeros = torch.zeros(len(sizes), dtype=torch.float64, device=ranks.device)
    return {name: zeros.index_add(0, query, value) / sizes for name, value in values.items()}
