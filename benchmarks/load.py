"""Loading graphs: large files, NELL995's folder, and neighbourhoods against a scan.

    python benchmarks/load.py [--triples 2000000] [--data .bench]

Speed and peak memory are measured. The files are generated: 200,000 entities, some far more
frequent than others, 500 relations, labels of 10 to 20 characters; RDF files have a quarter of the
facts. Peak memory is that of a process of its own, less that of one with the same imports that
loads nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scaffold import Benchmark, Measured, seconds, timed
from tacit.graph.datasets import load
from tacit.graph.graph import Graph, Triples

TURTLE = "@prefix e: <http://a.org/> . @prefix r: <http://a.org/r/> .\n"
LEAST = {"per second": 500_000, "times a scan": 20}  # goals
MOST = {"bytes a triple": 300, "NELL995, s": 1.5}
PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from scaffold import peak_gb, timed
from tacit.graph.datasets import load
taken = timed(lambda: load(sys.argv[2]) if len(sys.argv) > 2 else None)
print(taken.wall, taken.processor, 1e9 * peak_gb())
"""
Facts = list[tuple[int, int, int]]


def generated(args: argparse.Namespace) -> Facts:
    """Distinct facts with skewed frequencies."""
    rng = np.random.default_rng(args.seed)
    size = int(args.triples * 1.2)
    entities = args.entities
    relations = args.relations
    heads, tails = ((entities * rng.random(size) ** 2).astype(np.int64) for _ in range(2))
    kinds = (relations * rng.random(size) ** 3).astype(np.int64)
    keys = np.unique((heads * relations + kinds) * entities + tails)
    pairs, tails = np.divmod(rng.permutation(keys)[: args.triples], entities)
    heads, kinds = np.divmod(pairs, relations)
    return list(zip(heads.tolist(), kinds.tolist(), tails.tolist(), strict=True))


def write(path: Path, facts: Facts) -> None:
    """Writes facts in the format of the file's extension."""
    line, start = {
        ".tsv": ("entity_{}\trelation_{}\tentity_{}\n", ""),
        ".nt": (
            "<http://a.org/entity_{}> <http://a.org/r/relation_{}> <http://a.org/entity_{}> .\n",
            "",
        ),
        ".ttl": ("e:entity_{} r:relation_{} e:entity_{} .\n", TURTLE),
    }[path.suffix]
    path.write_text(start + "".join([line.format(*fact) for fact in facts]))


def probe(*paths: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak bytes of a process that loads a graph, or nothing."""
    command = [sys.executable, "-c", PROBE, str(Path(__file__).parent), *map(str, paths)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    taken, busy, peak = map(float, found.stdout.split())
    return taken, busy, peak


def by_the_line(path: Path) -> Triples:
    """The plain loop: split each line, look each label up, and make an array."""
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    rows = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            head, relation, tail = line.rstrip("\n").split("\t")
            h = entities.setdefault(head, len(entities))
            r = relations.setdefault(relation, len(relations))
            rows.append((h, r, entities.setdefault(tail, len(entities))))
    return np.array(rows, dtype=np.int32)


def neighbourhoods(graph: Graph, count: int, scanned: int) -> dict[str, float]:
    """Seconds for neighbourhoods by index, alone and batched, and by a mask (scaled up)."""
    triples = graph.triples()
    index = graph.index()
    picked = triples[np.random.default_rng(1).integers(0, len(triples), count)]
    heads = picked[:, 0]
    relations = picked[:, 1]
    pairs = list(zip(heads.tolist(), relations.tolist(), strict=True))
    single: list[Any] = []
    masked: list[Any] = []
    one_by_one = seconds(lambda: single.extend(index.tails(h, r) for h, r in pairs))
    at_once = seconds(lambda: index.neighbours(heads, relations))
    scan = seconds(
        lambda: masked.extend(
            triples[(triples[:, 0] == h) & (triples[:, 1] == r), 2] for h, r in pairs[:scanned]
        )
    )
    rows, tails = index.neighbours(heads, relations)
    for i, expected in enumerate(masked):
        if sorted(expected) != single[i].tolist() or sorted(expected) != tails[rows == i].tolist():
            sys.exit("the index and the scan disagree")
    return {
        "one by one, s": one_by_one,
        "at once, s": at_once,
        "scan, s": scan * count / len(masked),
    }


def measure(args: argparse.Namespace) -> Measured:
    """Everything, the best of three for times."""
    path = args.scratch / "generated.tsv"
    facts = generated(args)
    write(path, facts)
    *_, empty = probe()
    taken, busy, peaks = zip(*(probe(path) for _ in range(args.rounds)), strict=True)
    figures: dict[str, dict[str, float]] = {
        "table": {
            "per second": len(facts) / min(taken),
            "per processor second": len(facts) / min(busy),
            "bytes a triple": (max(peaks) - empty) / len(facts),
            "times a plain loop": timed(partial(by_the_line, path)).processor / min(busy),
        }
    }
    lookups = neighbourhoods(load(path), args.count, args.scanned)
    figures["neighbourhoods"] = {
        **lookups,
        "times a scan": lookups["scan, s"] / lookups["one by one, s"],
    }
    for kind, extension in (("N-Triples", ".nt"), ("Turtle", ".ttl")):
        path = path.with_suffix(extension)
        write(path, facts[: len(facts) // 4])
        try:
            busiest = min(probe(path)[1] for _ in range(args.rounds))
        except subprocess.CalledProcessError as error:  # a library that reads it is not installed
            print(f"{kind}: left out, since {error.stderr.strip().splitlines()[-1]}")
            continue
        figures[kind] = {"per processor second": len(facts) // 4 / busiest}
    if (folder := args.data / "NELL995").is_dir():
        figures["NELL995"] = {"NELL995, s": min(probe(folder)[0] for _ in range(args.rounds))}
    else:
        print(
            f"{folder} is not there: give the folder of the benchmark data with --data or "
            "TACIT_DATA"
        )
    reached = {name: value for row in figures.values() for name, value in row.items()}
    missed = [f"{name} below {goal:,}" for name, goal in LEAST.items() if reached[name] < goal]
    missed += [
        f"{name} above {goal:,}" for name, goal in MOST.items() if reached.get(name, 0.0) > goal
    ]
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--triples", 2_000_000, tiny=400)
    benchmark.size("--entities", 200_000, tiny=60)
    benchmark.size("--relations", 500, tiny=3)
    benchmark.size("--count", 10_000, tiny=20, help="neighbourhoods")
    benchmark.size("--scanned", 50, tiny=5, help="of them by a scan")
    benchmark.size("--rounds", 3, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
