"""Sampled queries beside official ones: mean hard answers by type, and time.

    python benchmarks/sampling.py [--data FOLDER] [--count 1000]

The folder holds NELL995 as a BetaE folder with its test queries. The column `mirrored` draws as
many queries as BetaE's whole files hold, `a & b` beside `b & a` as they do: it tells whether the
draws are theirs. The official means are those of the queries in the folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scaffold import Benchmark, Measured, data_folder, seconds
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySet, read_queries
from tacit.query.sampling.sampling import Sample, sample
from tacit.query.sampling.shapes import SHAPES

GOAL = 60.0  # seconds for 1,000 test queries of each type, on 2 cores
NEAR = 0.25  # how far a mean may be from the official one, as a share of it


def compare(graph: Graph, official: QuerySet, args: argparse.Namespace) -> dict[str, float]:
    """Means and times of one type."""
    samples: list[Sample] = []
    shape = SHAPES[official.name]
    taken = seconds(
        lambda: samples.append(sample(graph, shape, "test", args.count, seed=args.seed))
    )
    samples.append(sample(graph, shape, "test", args.mirrored, seed=args.seed + 1, mirrored=True))
    theirs, ours, mirrored = (
        float(s.hard.counts.mean()) for s in (official, *(drawn.queries for drawn in samples))
    )
    drawn = samples[0]
    return {
        "official": theirs, "hard": ours, "ratio": ours / theirs, "mirrored": mirrored / theirs,
        "queries": len(drawn.queries), "tries": drawn.tries, "good": drawn.share, "s": taken,
    }  # fmt: skip


def measure(args: argparse.Namespace) -> Measured:
    """All types of the official test queries."""
    folder = data_folder(args, "NELL995")
    graph = load(folder)
    graph.index("train", "valid"), graph.index()
    official = read_queries(folder, "test", "all")
    rows = {name: compare(graph, queries, args) for name, queries in official.items()}
    total = sum(row["s"] for row in rows.values())
    missed = [
        f"{name} is far from the official mean"
        for name, row in rows.items()
        if abs(row["ratio"] - 1) > NEAR
    ]
    missed += [f"sampling took over {GOAL} s"] if total > GOAL else []
    return Measured({**rows, "total": {"s": total}}, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--count", 1000, tiny=3)
    benchmark.size("--mirrored", 4000, tiny=3, help="queries of BetaE's whole files")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
