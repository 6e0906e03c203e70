"""Loading graphs: speed and peak memory of large files, NELL995's folder, and neighbourhoods against a scan.

    python benchmarks/load.py [--triples 2000000] [--data .bench]

The files are generated: 200,000 entities, some far more frequent than others, 500 relations, labels of 10 to 20
characters; RDF files have a quarter of the facts. Peak memory is that of a process of its own, less that of one with
the same imports that loads nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit.graph.datasets import load
from tacit.graph.graph import Graph

ENTITIES, RELATIONS = 200_000, 500
GOALS = {"triples a second": 500_000, "bytes a triple": 300, "NELL995 seconds": 1.5, "times faster than a scan": 20}
TURTLE = "@prefix e: <http://a.org/> . @prefix r: <http://a.org/r/> .\n"
# VmHWM and not getrusage's ru_maxrss, which a process takes over from the one that started it.
PROBE = """
import sys, time
from tacit.graph.datasets import load
start, begun = time.perf_counter(), time.process_time()
graph = load(sys.argv[1]) if len(sys.argv) > 1 else None
taken, busy = time.perf_counter() - start, time.process_time() - begun
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(taken, busy, 1024 * int(peak.split()[1]))
"""


def generated(triples: int) -> list[tuple[int, int, int]]:
    """Distinct facts with skewed frequencies."""
    rng = np.random.default_rng(0)
    size = int(triples * 1.2)
    heads, tails = ((ENTITIES * rng.random(size) ** 2).astype(np.int64) for _ in range(2))
    relations = (RELATIONS * rng.random(size) ** 3).astype(np.int64)
    keys = np.unique((heads * RELATIONS + relations) * ENTITIES + tails)
    keys = rng.permutation(keys)[:triples]
    pairs, tails = np.divmod(keys, ENTITIES)
    heads, relations = np.divmod(pairs, RELATIONS)
    return list(zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True))


def write(path: Path, facts: list[tuple[int, int, int]]) -> None:
    """Writes facts in the format of the file's extension."""
    line, start = {
        ".tsv": ("entity_{}\trelation_{}\tentity_{}\n", ""),
        ".nt": ("<http://a.org/entity_{}> <http://a.org/r/relation_{}> <http://a.org/entity_{}> .\n", ""),
        ".ttl": ("e:entity_{} r:relation_{} e:entity_{} .\n", TURTLE),
    }[path.suffix]
    path.write_text(start + "".join([line.format(*fact) for fact in facts]))


def probe(*arguments: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak bytes of a process that loads a graph, or nothing."""
    found = subprocess.run([sys.executable, "-c", PROBE, *arguments], check=True, capture_output=True, text=True)
    seconds, busy, peak = map(float, found.stdout.split())
    return seconds, busy, peak


def by_the_line(path: Path) -> float:
    """Processor seconds of the plain loop: split each line, look each label up, and make an array."""
    start = time.process_time()
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    rows = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            head, relation, tail = line.rstrip("\n").split("\t")
            h = entities.setdefault(head, len(entities))
            r = relations.setdefault(relation, len(relations))
            rows.append((h, r, entities.setdefault(tail, len(entities))))
    np.array(rows, dtype=np.int32)
    return time.process_time() - start


def neighbourhoods(graph: Graph, count: int = 10_000, scanned: int = 50) -> dict[str, float]:
    """Seconds for neighbourhoods by the index, one by one and at once, and by a boolean mask (fewer, scaled up)."""
    triples = graph.triples()
    index = graph.index()
    picked = triples[np.random.default_rng(1).integers(0, len(triples), count)]
    heads, relations = picked[:, 0], picked[:, 1]
    start = time.perf_counter()
    single = [index.tails(h, r) for h, r in zip(heads.tolist(), relations.tolist(), strict=True)]
    one_by_one = time.perf_counter() - start
    start = time.perf_counter()
    rows, tails = index.neighbours(heads, relations)
    at_once = time.perf_counter() - start
    start = time.perf_counter()
    masked = [
        triples[(triples[:, 0] == h) & (triples[:, 1] == r), 2]
        for h, r in zip(heads[:scanned], relations[:scanned], strict=True)
    ]
    scan = (time.perf_counter() - start) * count / scanned
    for i, expected in enumerate(masked):
        if sorted(expected) != single[i].tolist() or sorted(expected) != tails[rows == i].tolist():
            sys.exit("the index and the scan disagree")
    return {"one by one": one_by_one, "at once": at_once, "scan": scan}


def measure(triples: int, data: Path) -> dict[str, Any]:
    """Everything, the best of three for times."""
    results: dict[str, Any] = {"triples": triples, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.tsv"
        facts = generated(triples)
        write(path, facts)
        *_, empty = probe()
        runs = [probe(str(path)) for _ in range(3)]
        seconds = min(run[0] for run in runs)
        results["triples a second"] = round(triples / seconds)
        busy = min(run[1] for run in runs)
        results["triples a processor second"] = round(triples / busy)
        results["bytes a triple"] = round((max(run[2] for run in runs) - empty) / triples, 1)
        results["times faster than a plain loop"] = round(by_the_line(path) / busy, 2)
        lookups = neighbourhoods(load(path))
        for kind, extension in (("N-Triples", ".nt"), ("Turtle", ".ttl")):
            path = path.with_suffix(extension)
            write(path, facts[: triples // 4])
            busy = min(probe(str(path))[1] for _ in range(3))
            results[f"{kind}, triples a processor second"] = round(triples // 4 / busy)
    results["neighbourhoods, seconds for 10,000"] = {name: round(taken, 4) for name, taken in lookups.items()}
    results["times faster than a scan"] = round(lookups["scan"] / lookups["one by one"])
    if (data / "NELL995").is_dir():
        results["NELL995 seconds"] = round(min(probe(str(data / "NELL995"))[0] for _ in range(3)), 3)
    else:
        print(f"{data / 'NELL995'} is not there: give the folder of the benchmark data with --data or TACIT_DATA")
    return results


def main() -> None:
    """Print a table and write `benchmarks/results/load.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=2_000_000)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".bench")))
    options = parser.parse_args()
    results = measure(options.triples, options.data)
    for name, value in results.items():
        print(f"{name:40} {value}" + (f"   (goal: {GOALS[name]:,})" if name in GOALS else ""))
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "load.json").write_text(json.dumps({**results, "goals": GOALS}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
