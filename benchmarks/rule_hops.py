"""The time of hops over rules, beside those of an embedding.

    python benchmarks/rule_hops.py [--data FOLDER] [--rank 100] [--queries 100]

NELL995's test queries of 1, 2 and 3 hops in batches, with training facts known: over a `RuleScorer`
and its sparse rows, and over ComplEx with random weights, normal with deviation 0.5. Rounds take
turns and other queries each, so that few rows come from a cache; the middle one counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import torch

from scaffold import Benchmark, Measured, data_folder, graph_of, seconds
from tacit.engine.engine import Engine
from tacit.engine.ranking import slots
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import RuleSet
from tacit.links.scorer import Scorer
from tacit.query.sampling.queries import QuerySet, read_queries

SHAPES = ("1p", "2p", "3p")


def engines(args: argparse.Namespace, graph: Graph, rules: RuleSet, k: int) -> dict[str, Engine]:
    """The engines that are compared."""
    model = ComplEx(graph.num_entities, graph.num_relations, args.rank).requires_grad_(False)
    model.reset(0.5, torch.Generator().manual_seed(args.seed))
    scorers: dict[str, Scorer] = {
        "rules": RuleScorer(rules, graph.index("train"), graph.num_entities),
        f"ComplEx rank {args.rank}": model,
    }
    settings: dict[str, Any] = {
        "calibration": "sigmoid",
        "observed": "train",
        "search": "beam",
        "k": k,
    }
    return {name: Engine(graph, scorer, **settings) for name, scorer in scorers.items()}


@torch.no_grad()
def answer(engine: Engine, queries: QuerySet) -> None:
    """Score all entities for some queries."""
    engine.reasoner.scores(queries.shape.plan, *slots(queries))


def measure(args: argparse.Namespace) -> Measured:
    """Milliseconds a query of each shape in batches."""
    graph = graph_of(args, "NELL995")
    rules = mine(graph)
    queries = read_queries(data_folder(args, "NELL995"), "test", SHAPES)
    figures: dict[str, dict[str, float]] = {}
    for k in map(int, args.k.split(",")):
        compared = engines(args, graph, rules, k)
        for engine in compared.values():
            answer(engine, queries["2p"][:1])
        for shape in SHAPES:
            times: dict[str, list[float]] = {name: [] for name in compared}
            for number in range(1, args.rounds + 1):
                first = number * args.queries % max(1, len(queries[shape]) - args.queries)
                batch = queries[shape][first : first + args.queries]
                for name, engine in compared.items():
                    times[name].append(seconds(partial(answer, engine, batch)))
            figures[f"{shape}, k = {k}"] = {
                f"{name} ms": 1e3 * median(taken) / args.queries for name, taken in times.items()
            }
    return Measured(figures, {"number of rules": len(rules)})


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rank", 100, 4)
    benchmark.size("--k", "64,256", "4", "sizes of the beam")
    benchmark.size("--queries", 100, 2, "in a batch")
    benchmark.size("--rounds", 3, 1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
