"""One step of adapter training against the bare matrix products it cannot do without.

    python benchmarks/adapter_step.py --data .bench/NELL995 [--rank 100] [--device cuda] [--batch 1024]

Queries are sampled from the graph: 2i, 3i, 2in and 3in in equal parts. The link predictor has random weights, on which
speed does not depend. Both are timed in turns in one run, and the best of several rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tacit.adapt.settings import LOSSES, AdaptSettings
from tacit.adapt.training import Adaptation
from tacit.graph.datasets import load
from tacit.links.models import ComplEx
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES

TYPES = ("2i", "3i", "2in", "3in")
ROWS = {"2i": 2, "3i": 3, "2in": 2, "3in": 3}


def seconds(work: Callable[[], object], device: str) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def products(model: ComplEx, rows: int, at_once: int) -> Callable[[], None]:
    """Scores of as many rows as a step needs, into memory that is there already."""
    heads = torch.randint(model.num_entities, (rows,), device=model.device)
    relations = torch.randint(model.num_relations, (rows,), device=model.device)
    keys = model.entities.storage.T
    out = torch.empty(at_once, keys.shape[1], device=model.device)

    def run() -> None:
        with torch.no_grad():
            for start in range(0, rows, at_once):
                queries = model.queries(heads[start : start + at_once], relations[start : start + at_once])
                torch.mm(queries, keys, out=out[: len(queries)])

    return run


def main() -> None:
    """Print a table and write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".bench")) / "NELL995")
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    if not given.data.is_dir():
        raise SystemExit(f"no folder {given.data}; give --data, or set TACIT_DATA to the folder that holds NELL995")
    graph = load(str(given.data))
    model = ComplEx(graph.num_entities, graph.num_relations, given.rank)
    model.reset(0.5, torch.Generator().manual_seed(0))
    model = model.to(given.device).requires_grad_(False)
    queries = {name: sample(graph, SHAPES[name], "train", 2 * given.batch).queries for name in TYPES}
    rows = sum(ROWS.values()) * given.batch // len(TYPES)
    precision = "tf32" if given.device == "cuda" else "float32"
    torch.set_float32_matmul_precision("high" if given.device == "cuda" else "highest")
    bare = products(model, rows, 512 if given.device == "cpu" else rows)
    steps = {}
    for loss in LOSSES:
        settings = AdaptSettings(loss=loss, batch=given.batch, precision=precision)
        steps[loss] = Adaptation(graph, model, queries, settings).step
    times: dict[str, list[float]] = {"products": [], **{loss: [] for loss in LOSSES}}
    for _ in range(given.rounds + 1):
        for name, work in {"products": bare, **steps}.items():
            times[name].append(seconds(work, given.device))
    best = {name: min(found[1:]) for name, found in times.items()}
    print(f"a step of {given.batch:,} queries, {rows:,} rows, rank {given.rank}, {graph.name}, {given.device}")
    for name, value in best.items():
        print(f"{name:>10}{1e3 * value:12.1f} ms{value / best['products']:8.2f} x the products")
    given.out.mkdir(exist_ok=True)
    report = {
        "settings": {
            "graph": graph.name,
            "rank": given.rank,
            "batch": given.batch,
            "device": given.device,
            "threads": torch.get_num_threads(),
        },
        "seconds": best,
        "ratio": {name: value / best["products"] for name, value in best.items()},
    }
    (given.out / f"adapter_step-{given.device}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
