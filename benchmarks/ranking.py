"""Filtered ranks: Tacit's counting against a full sort of the row for every hard answer.

    python benchmarks/ranking.py [--device cuda] [--queries 256]

Scores are random, the numbers of easy and hard answers are those of NELL995's 1p, 2i and up queries.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from tacit.links.ranking import ranks

ENTITIES = 63_361
SHAPES = {"1p": (2, 6), "2i": (6, 17), "up": (19, 230)}  # hard and easy answers of a query


def by_sorting(scores: Tensor, rows: Tensor, hard: Tensor, known_rows: Tensor, known: Tensor) -> Tensor:
    """The rank of each answer from its own sort of the row with the other answers masked."""
    found = []
    for row, answer in zip(rows.tolist(), hard.tolist(), strict=True):
        masked = scores[row].clone()
        masked[known[known_rows == row]] = -torch.inf
        masked[answer] = scores[row, answer]
        order = masked.argsort(descending=True)
        found.append(int((order == answer).nonzero()[0, 0]) + 1)
    return torch.tensor(found, dtype=torch.float32)


def seconds(work: Callable[[], object], device: str, repeats: int) -> float:
    """The best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def measure(queries: int, hard_count: int, easy_count: int, device: str) -> dict[str, float]:
    """Milliseconds a query of both ways, on the same scores."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(queries, ENTITIES, generator=generator).to(device)
    answers = torch.stack([torch.randperm(ENTITIES, generator=generator) for _ in range(queries)])
    known = answers[:, : hard_count + easy_count].flatten().to(device)
    hard = answers[:, :hard_count].flatten().to(device)
    rows = torch.arange(queries, device=device).repeat_interleave(hard_count)
    known_rows = torch.arange(queries, device=device).repeat_interleave(hard_count + easy_count)
    few, few_known = rows < 8, known_rows < 8  # sorting is slow: eight queries tell
    subset = scores[:8], rows[few], hard[few], known_rows[few_known], known[few_known]
    if not torch.equal(ranks(*subset).cpu(), by_sorting(*subset)):
        raise SystemExit("the two ways disagree")
    counting = seconds(lambda: ranks(scores, rows, hard, known_rows, known), device, 5) / queries
    sorting = seconds(lambda: by_sorting(*subset), device, 2) / 8
    return {"counting_ms": 1e3 * counting, "sorting_ms": 1e3 * sorting, "times": sorting / counting}


def main() -> None:
    """Print a table and write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    results = {name: measure(given.queries, *sizes, given.device) for name, sizes in SHAPES.items()}
    print(f"{'shape':6}{'counting':>12}{'sorting':>12}{'times':>8}   ms per query, N = {ENTITIES:,}, {given.device}")
    for name, row in results.items():
        print(f"{name:6}{row['counting_ms']:12.3f}{row['sorting_ms']:12.1f}{row['times']:8.0f}")
    given.out.mkdir(exist_ok=True)
    settings = {"device": given.device, "threads": torch.get_num_threads(), "queries": given.queries}
    report = {"settings": settings, "entities": ENTITIES, "results": results}
    (given.out / f"ranking-{given.device}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
