"""How the settings of the NELL995 rows were chosen: on an inner split of the training facts, never on test queries.

    python benchmarks/choose.py --device cuda

Inner test queries need official validation facts; the engine knows only the inner training facts, and inner validation
facts lie between the two, drawn from the training facts in the proportions of relations that the official validation
facts have. So the inner test stands to the inner training facts as the official test does to the official ones.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from reproduce import ROWS, read_row
from scaffold import Benchmark, data_folder, provenance
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings
from tacit.links.training import train
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES

STRENGTHS = (1.0, 2.0, 4.0, 8.0, 12.0, 20.0)


def inner_split(graph: Graph, seed: int) -> Graph:
    """Training facts cut in two as the official ones were cut off, and the official validation facts as test."""
    random = np.random.default_rng(seed)
    relations = [
        np.bincount(part[:, 1], minlength=graph.num_relations) / len(part) for part in (graph.train, graph.valid)
    ]
    degree = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.num_entities)
    weights = (relations[1] / np.maximum(relations[0], 1e-9))[graph.train[:, 1]]
    weights *= (degree[graph.train[:, [0, 2]]] > 2).all(axis=1)  # entities must stay in the training facts
    chosen = random.choice(len(graph.train), len(graph.valid), replace=False, p=weights / weights.sum())
    kept = np.setdiff1d(np.arange(len(graph.train)), chosen)
    return replace(graph, train=graph.train[kept], valid=graph.train[chosen], test=graph.valid, name="inner")


def measure(given: argparse.Namespace) -> None:
    """Print the inner MRR of every candidate and write `nell995/choose.json`."""
    row = read_row(ROWS / "nell995" / "tacit-train.toml", given.tiny)
    inner = inner_split(load(data_folder(given, row["folder"])), given.seed)
    queries = {name: sample(inner, shape, "test", given.count, seed=3).queries for name, shape in SHAPES.items()}
    mrr: dict[str, dict[str, float]] = {}
    for weight in (0.0, 1.0):
        chosen = {**row["train"], "device": given.device, "relation_weight": weight}
        model = train(inner, TrainSettings.of(chosen | ({"rank": given.rank} if given.rank else {})), None, False)
        engine = Engine(inner, model, **{**row["engine"], "k": given.k})
        for strength in STRENGTHS if not weight else (1.0,):
            results = evaluate(engine.using(strength=strength).reasoner, queries).to_json()
            name = f"relation weight {weight:g}, strength {strength:g}"
            mrr[name] = {"avg_p": results["avg_p"], "avg_n": results["avg_n"], **results["mrr"]}
            print(f"{name:36s}", {key: round(100 * value, 2) for key, value in mrr[name].items()}, flush=True)
    path = given.out / "nell995" / "choose.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mrr": mrr, "queries": given.count, **provenance(given)}, indent=1), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Evaluate all candidates."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    benchmark.size("--count", 500, tiny=2, help="queries of each shape")
    benchmark.size("--k", 256, tiny=2)
    benchmark.add_argument("--rank", type=int)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
