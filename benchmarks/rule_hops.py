"""The time of hops over rules, beside those of an embedding.

    python benchmarks/rule_hops.py [--data FOLDER] [--rules FILE] [--rank 100] [--queries 100]

NELL995's test queries of 1, 2 and 3 hops in batches, with training facts known: over a `RuleScorer`
and its sparse rows, and over ComplEx with random weights, normal with deviation 0.5. Rounds take
turns and other queries each, so that few rows come from a cache; the middle one counts.
Rules are those of a file of tensors, or drawn from facts: closed ones along paths between their
ends, and constant ones from two facts of an entity.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from scaffold import Benchmark, Measured, data_folder, graph_of, seconds
from tacit.engine.engine import Engine
from tacit.engine.ranking import slots
from tacit.graph.fact_index import Ints
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import NONE, RuleSet
from tacit.links.scorer import Scorer
from tacit.query.sampling.queries import QuerySet, read_queries

SHAPES = ("1p", "2p", "3p")


def drawn_rules(graph: Graph, closed: int, constant: int, seed: int) -> RuleSet:
    """Random rules that hold somewhere in a graph."""
    random = np.random.default_rng(seed)
    index = graph.index("train")
    counts = np.diff(index.offsets)
    heads = np.repeat(index.heads, counts)
    relations = np.repeat(index.relations, counts)
    tails = index.all_tails.astype(np.int64)
    starts = np.searchsorted(heads, np.arange(graph.num_entities + 1))

    def beside(entities: Ints) -> Ints:
        """A random fact of each entity."""
        return random.integers(starts[entities], starts[entities + 1])

    facts = random.integers(0, len(tails), closed + constant)
    first = beside(heads[facts])
    body = np.full((len(facts), 3), NONE)
    body[:, 0] = relations[first]
    body[:closed, 1] = relations[beside(tails[first[:closed]])]
    end = np.where(np.arange(len(facts)) < closed, NONE, tails[first])
    tail = np.where(np.arange(len(facts)) < closed, NONE, tails[facts])
    counted = np.ones(len(facts))
    columns = (body, relations[facts], end, tail, counted, counted)
    body, *rest = (each.astype(np.int32) for each in columns)
    relation, end, tail, support, groundings = rest
    confidence = (random.random(len(facts)) * 0.9 + 0.02).astype(np.float32)
    flags = np.zeros(len(facts), dtype=np.uint8)
    return RuleSet(body, relation, end, tail, support, groundings, confidence, flags)


def engines(given: argparse.Namespace, graph: Graph, rules: RuleSet, k: int) -> dict[str, Engine]:
    """The engines that are compared."""
    model = ComplEx(graph.num_entities, graph.num_relations, given.rank).requires_grad_(False)
    model.reset(0.5, torch.Generator().manual_seed(given.seed))
    scorers: dict[str, Scorer] = {
        "rules": RuleScorer(rules, graph.index("train"), graph.num_entities),
        f"ComplEx rank {given.rank}": model,
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


def measure(given: argparse.Namespace) -> Measured:
    """Milliseconds a query of each shape in batches."""
    graph = graph_of(given, "NELL995")
    rules = (
        RuleSet.from_tensors(load_file(given.rules))
        if given.rules
        else drawn_rules(graph, given.closed, given.constant, given.seed)
    )
    queries = read_queries(data_folder(given, "NELL995"), "test", SHAPES)
    figures: dict[str, dict[str, float]] = {}
    for k in map(int, given.k.split(",")):
        compared = engines(given, graph, rules, k)
        for engine in compared.values():
            answer(engine, queries["2p"][:1])
        for shape in SHAPES:
            times: dict[str, list[float]] = {name: [] for name in compared}
            for number in range(1, given.rounds + 1):
                first = number * given.queries % max(1, len(queries[shape]) - given.queries)
                batch = queries[shape][first : first + given.queries]
                for name, engine in compared.items():
                    times[name].append(seconds(partial(answer, engine, batch)))
            figures[f"{shape}, k = {k}"] = {
                f"{name} ms": 1e3 * median(taken) / given.queries for name, taken in times.items()
            }
    return Measured(figures, {"number of rules": len(rules)})


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--rules", help="a file of tensors; rules are drawn without it")
    benchmark.size("--closed", 6_000, 20, "closed rules that are drawn")
    benchmark.size("--constant", 1_400_000, 200, "constant rules that are drawn")
    benchmark.size("--rank", 100, 4)
    benchmark.size("--k", "64,256", "4", "sizes of the beam")
    benchmark.size("--queries", 100, 2, "in a batch")
    benchmark.size("--rounds", 3, 1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
