"""Sampled queries beside the official ones: mean hard answers per type, and the time of sampling.

python benchmarks/sampling.py [--data FOLDER] [--count 1000]

The folder (or the variable TACIT_DATA, `.bench` by default) holds NELL995 as a BetaE folder with its test queries. The
column `mirrored` draws as many queries as BetaE's whole files hold, `a & b` beside `b & a` as they do: it tells whether
the draws are theirs. The official means are those of the queries in the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.query.queries import QuerySet, read_queries
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES

GOAL = 60.0  # seconds for 1,000 test queries of each type, on 2 cores
NEAR = 0.25  # how far a mean may be from the official one, as a share of it
OFFICIAL_COUNT = 4000


def compare(graph: Graph, name: str, official: QuerySet, count: int) -> dict[str, float]:
    """Means and times of one type."""
    start = time.perf_counter()
    drawn = sample(graph, SHAPES[name], "test", count)
    seconds = time.perf_counter() - start
    likewise = sample(graph, SHAPES[name], "test", OFFICIAL_COUNT, seed=1, mirrored=True)
    theirs, ours, mirrored = (float(one.hard.counts.mean()) for one in (official, drawn.queries, likewise.queries))
    return {
        "official": theirs,
        "hard": ours,
        "ratio": ours / theirs,
        "mirrored": mirrored / theirs,
        "queries": len(drawn.queries),
        "tries": drawn.tries,
        "good": drawn.share,
        "s": seconds,
    }


def main() -> None:
    """Print a table and write `benchmarks/results/sampling.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".bench")))
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    folder = arguments.data / "NELL995"
    if not (folder / "test-queries.pkl").exists():
        print(f"{folder} has no test queries: skipped (set TACIT_DATA or --data)")
        return
    graph, official = load(folder), read_queries(folder, "test", "all")
    graph.index("train", "valid"), graph.index()
    print("NELL995 test  official  sampled  ratio  mirrored   good       s")
    rows: dict[str, Any] = {}
    for name, queries in official.items():
        row = rows[name] = compare(graph, name, queries, arguments.count)
        print(
            f"{name:12} {row['official']:9.2f} {row['hard']:8.2f} {row['ratio']:6.2f} {row['mirrored']:9.2f} "
            f"{row['good']:6.1%} {row['s']:7.2f}"
        )
    seconds = sum(row["s"] for row in rows.values())
    print(f"{'total':54} {seconds:7.2f}")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    report = {"count": arguments.count, "s": seconds, "types": rows}
    (results / "sampling.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    far = [name for name, row in rows.items() if abs(row["ratio"] - 1) > NEAR]
    if far or seconds > GOAL:
        sys.exit(f"means far from the official ones: {', '.join(far)}" if far else f"sampling took over {GOAL} s")


if __name__ == "__main__":
    main()
