"""Filtered ranks: Tacit's counting against a full sort of the row for every hard answer.

    python benchmarks/ranking.py [--device cuda] [--queries 256]

Scores are random, the numbers of easy and hard answers are those of NELL995's 1p, 2i and up
queries.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from scaffold import Benchmark, Measured, in_turns
from tacit.links.ranking import ranks

SHAPES = {"1p": (2, 6), "2i": (6, 17), "up": (19, 230)}  # hard and easy answers of a query
SORTED = 8  # queries: sorting is slow, and so many tell


def by_sorting(
    scores: Tensor, rows: Tensor, hard: Tensor, known_rows: Tensor, known: Tensor
) -> Tensor:
    """The rank of each answer from its own sort of the row with the other answers masked."""
    places = []
    for row, answer in zip(rows.tolist(), hard.tolist(), strict=True):
        masked = scores[row].clone()
        masked[known[known_rows == row]] = -torch.inf
        masked[answer] = scores[row, answer]
        order = masked.argsort(descending=True)
        places.append(int((order == answer).nonzero()[0, 0]) + 1)
    return torch.tensor(places, dtype=torch.float32)


def compare(args: argparse.Namespace, hard_count: int, easy_count: int) -> dict[str, float]:
    """Milliseconds a query of both ways, on the same scores."""
    generator = torch.Generator().manual_seed(args.seed)
    queries = args.queries
    device = args.device
    scores = torch.randn(queries, args.entities, generator=generator).to(device)
    answers = torch.stack(
        [torch.randperm(args.entities, generator=generator) for _ in range(queries)]
    )
    known = answers[:, : hard_count + easy_count].flatten().to(device)
    hard = answers[:, :hard_count].flatten().to(device)
    rows = torch.arange(queries, device=device).repeat_interleave(hard_count)
    known_rows = torch.arange(queries, device=device).repeat_interleave(hard_count + easy_count)
    few = rows < SORTED
    few_known = known_rows < SORTED
    subset = scores[:SORTED], rows[few], hard[few], known_rows[few_known], known[few_known]
    if not torch.equal(ranks(*subset).cpu(), by_sorting(*subset)):
        sys.exit("the two ways disagree")
    counting = in_turns(
        {"": lambda: ranks(scores, rows, hard, known_rows, known)}, args.rounds, device
    )
    sorting = in_turns({"": lambda: by_sorting(*subset)}, 1, device)
    ms = 1e3 * min(counting[""]) / queries
    sorting_ms = 1e3 * min(sorting[""]) / min(queries, SORTED)
    return {"ms": ms, "sorting_ms": sorting_ms, "times faster": sorting_ms / ms}


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--queries", 256, tiny=3)
    benchmark.size("--entities", 63_361, tiny=300)
    benchmark.size("--rounds", 5, tiny=1)
    benchmark.run(
        lambda args: Measured({name: compare(args, *sizes) for name, sizes in SHAPES.items()}),
        argv,
    )


if __name__ == "__main__":
    main()
