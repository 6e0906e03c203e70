"""Filtered ranks of hard answers, and the figures made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.errors import TrainingError
from tacit.links import rank_kernels

Ties = Literal["realistic", "optimistic", "pessimistic"]
TIES: tuple[Ties, ...] = get_args(Ties)
Mean = Literal["question", "fact"]  # what counts once: a query, or each of its hard answers
MEANS: tuple[Mean, ...] = get_args(Mean)
HITS = (1, 3, 10)
METRICS = ("mrr", *(f"hits@{k}" for k in HITS))


def ranks(
    scores: Tensor,  # [B, N]
    rows: Tensor,  # [M]
    hard: Tensor,  # [M]
    known_rows: Tensor,  # [K]
    known: Tensor,  # [K]
    ties: Ties = "realistic",
    shards: Shards | None = None,
) -> Tensor:
    """The filtered rank of each answer `hard[i]` in row `rows[i]`: 1 + the number of better non-answers, `[M]`.

    `known` lists all answers of the rows, easy and hard; none of them competes. A non-answer with the same score counts
    half (`realistic`: the mean over all orders), not at all (`optimistic`) or fully (`pessimistic`). The scores are
    overwritten in part while counting and are whole again on return. With `shards` they are the columns of this
    process; ids are those of all, and so are the ranks: processes tell each other wanted scores and counts alone. Where
    some score is not a number, no rank is; a GPU is not waited for to see that, which is left to `numbers`.

    >>> row = torch.tensor([[0.9, 0.5, 0.7, 0.5, 0.1]])
    >>> zero = torch.tensor([0])
    >>> ranks(row, zero, torch.tensor([1]), zero, torch.tensor([0]))  # 0 is filtered, 2 is better, 3 ties
    tensor([2.5000])
    """
    counts = torch.zeros(2, len(hard), device=scores.device)  # better, better or equal
    if not len(hard):
        return counts[0]
    shards = shards or Shards(scores.shape[1])
    rows, hard, known_rows, known = rows.long(), hard.long(), known_rows.long(), known.long()
    with torch.inference_mode():
        held, column = shards.inside(hard)
        wanted = shards.sum(torch.where(held, scores[rows, column], 0.0))
        damaged = torch.isnan(scores.max())
        taken = torch.cat([rows, known_rows]), torch.cat([hard, known])
        if shards.world > 1:
            held, column = shards.inside(taken[1])
            taken = taken[0][held], column[held]
        kept = scores[taken]
        scores[taken] = torch.nan  # compares false with everything: an answer is neither better nor equal
        try:
            _count(scores, rows, wanted, counts, ties)
        finally:
            scores[taken] = kept
        counts += torch.where(damaged, torch.nan, 0.0)
        shards.sum(counts)
    return 1 + {"realistic": counts.mean(0), "optimistic": counts[0], "pessimistic": counts[1]}[ties]


def numbers(ranks: Tensor) -> Tensor:
    """Ranks, refused where they are none."""
    if bool(torch.isnan(ranks).any()):
        raise TrainingError("some scores are not numbers, so answers cannot be ranked; is the model damaged?")
    return ranks


def _count(scores: Tensor, rows: Tensor, wanted: Tensor, counts: Tensor, ties: Ties) -> None:
    """Count, for each wanted score, the larger and the equal ones of its row.

    Without a kernel, comparisons go to a float buffer, which sums many times faster than booleans do, in blocks that
    stay in the cache.
    """
    if rank_kernels.available(scores):
        rank_kernels.count(scores, rows, wanted, counts)
        return
    block = max(1, (1 << 19 if scores.device.type == "cpu" else 1 << 28) // scores.shape[1])
    larger = counts.new_empty(min(block, len(rows)), scores.shape[1])
    tests = [test for test, skipped in ((0, "pessimistic"), (1, "optimistic")) if ties != skipped]
    for span, compared in _blocks(scores, rows, block):
        out = larger[: span.stop - span.start]
        for test in tests:
            compare = torch.ge if test else torch.gt
            compare(compared, wanted[span, None], out=out)
            torch.sum(out, 1, out=counts[test, span])


def _blocks(scores: Tensor, rows: Tensor, size: int) -> Iterator[tuple[slice, Tensor]]:
    """Which answers to count together, and the scores to compare them with: `[N]` for all of them, or `[size, N]`.

    A GPU wants few and large steps and so gets a copy of the row for each answer; a CPU is spared the copies.
    """
    if scores.device.type != "cpu":
        for start in range(0, len(rows), size):
            span = slice(start, min(start + size, len(rows)))
            yield span, scores[rows[span]]
        return
    distinct, lengths = torch.unique_consecutive(rows, return_counts=True)
    start = 0
    for row, length in zip(distinct.tolist(), lengths.tolist(), strict=True):
        for at in range(start, start + length, size):
            yield slice(at, min(at + size, start + length)), scores[row]
        start += length


def by_query(ranks: Tensor, query_of_rank: Tensor) -> dict[str, Tensor]:
    """The figures of each query that has answers, the means over them: reciprocal rank and Hits@k, `[Q]` each.

    >>> by_query(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 0, 1]))["mrr"]
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    _, query, sizes = torch.unique(query_of_rank, return_inverse=True, return_counts=True)
    values = {"mrr": 1 / ranks.double()} | {f"hits@{k}": (ranks <= k).double() for k in HITS}
    zeros = torch.zeros(len(sizes), dtype=torch.float64, device=ranks.device)
    return {name: zeros.index_add(0, query, value) / sizes for name, value in values.items()}
