"""What ruling out impossible atoms does to MRR by shape and to the best answers.

    python benchmarks/possible.py world
    python benchmarks/possible.py NELL995 --device cuda --rank 1000 --epochs 40 \\
        --reg 0.05 --batch 1000

A link predictor is trained once and asked three ways: with loops of every relation allowed, without
loops of relations that never loop in the training facts (the default), and `typed`, where a
relation only starts and ends at kinds of entities that the training facts show. The best new answer
to each held-out (entity, relation) is *a loop* where it is the entity itself, and *sensible* where
some fact of the graph, held-out ones included, has it at that end.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from scaffold import Benchmark, Measured, graph_of, trained
from tacit.engine.engine import Engine
from tacit.engine.ranking import slots
from tacit.evaluate.protocol import evaluate, one_hop_queries
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySet, read_queries
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES, parse_shapes

WAYS: dict[str, dict[str, Any]] = {"all": {"loops": True}, "no loops": {}, "typed": {"typed": True}}


def queries_of(args: argparse.Namespace, graph: Graph) -> dict[str, QuerySet]:
    """The queries of the split in the folder of the graph, else sampled ones of every shape."""
    folder = args.data / args.graph
    if (folder / f"{args.split}-queries.pkl").is_file():
        read = read_queries(folder, args.split)
        return {name: queries for name, queries in read.items() if not name.endswith("-DM")}
    shapes = {name: SHAPES[name] for name in parse_shapes("all")}
    drawn = {
        n: sample(graph, shape, args.split, args.limit, seed=args.seed).queries
        for n, shape in shapes.items()
    }
    return {name: queries for name, queries in drawn.items() if len(queries)}


def best_answers(engine: Engine, graph: Graph, split: str) -> dict[str, float]:
    """The shares of loops and sensible entities among best new answers to held-out pairs."""
    queries = one_hop_queries(graph, split)
    seen = torch.zeros(graph.num_relations, graph.num_entities, dtype=torch.bool)
    every = graph.triples().astype(np.int64)
    seen[torch.from_numpy(every[:, 1]), torch.from_numpy(every[:, 2])] = True
    loops = sensible = 0
    for start in range(0, len(queries), 512):
        part = queries[start : start + 512]
        scores = engine.reasoner.scores(part.shape.plan, *slots(part)).cpu()
        scores[
            torch.from_numpy(part.easy.rows), torch.from_numpy(part.easy.ids).long()
        ] = -torch.inf
        best = scores.argmax(dim=1)
        heads, relations = (
            torch.from_numpy(ids[:, 0].astype(np.int64)) for ids in (part.entities, part.relations)
        )
        loops += int((best == heads).sum())
        sensible += int((seen[relations, best] & (best != heads)).sum())
    return {"loops, share": loops / len(queries), "sensible, share": sensible / len(queries)}


def measure(args: argparse.Namespace) -> Measured:
    """The figures of each way."""
    graph = graph_of(args)
    model, settings = trained(args, graph, precision="bf16" if args.device == "cuda" else "float32")
    queries = queries_of(args, graph)
    figures = {}
    for name, changes in WAYS.items():
        engine = Engine(graph, model, observed="train", k=args.k, **changes)
        results = evaluate(engine.reasoner, queries, EvaluateSettings(limit=args.limit))
        mrr = {
            f"{shape}, mrr": value
            for shape, value in results.mrr.items()
            if shape in ("1p", "2p", "2i", "2in")
        }
        averages = {
            f"{a}, mrr": v for a in ("avg_p", "avg_n") if (v := results.average(a)) is not None
        }
        figures[name] = averages | mrr | best_answers(engine, graph, args.split)
    return Measured(
        figures, {"train": settings.to_dict(), "observed": "train"}, kind=str(args.graph).lower()
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("graph", nargs="?", default="world", help="world, or a folder of --data")
    benchmark.add_argument("--split", default="test")
    benchmark.add_argument("--reg", type=float, default=0.02)
    benchmark.add_argument("--batch", type=int, default=500)
    benchmark.add_argument("--k", type=int, default=256)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--epochs", 30, tiny=1)
    benchmark.size("--limit", 500, tiny=3, help="queries of each shape")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
