"""Adding facts to a trained run beside training from scratch: how good it is, and how fast.

    python benchmarks/add.py world
    python benchmarks/add.py NELL995 --negatives 1000 --epochs 20 --reg 0.02 \\
        --batch 1000 --validate-on facts

A twentieth of the entities is held out with all their facts. A run is trained on the rest and their
train facts are added to it; another is trained on everything. Both rank the valid and test facts of
the entities held out, in both directions, and those of all others, among all entities. Goals: 85 %
of the mean reciprocal rank from scratch, and 50 times less time, by the processor's clock; what is
written to disk is part of it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import tacit
from scaffold import Benchmark, Measured, graph_of, timed
from tacit.graph.graph import Graph, Triples
from tacit.graph.merging import with_facts
from tacit.links.scorer import Scorer
from tacit.links.training.fact_validation import Validation

SHARE = 20
FASTER = 50
AS_GOOD = 0.85
Labelled = list[tuple[str, str, str]]


def parts(graph: Graph, seed: int) -> tuple[Graph, Labelled]:
    """The graph without a share of its entities, and the train facts that touch these."""
    labels = list(graph.entities)
    relations = list(graph.relations)
    held = set(
        random.Random(seed).sample(range(graph.num_entities), max(1, graph.num_entities // SHARE))
    )

    def labelled(split: str, touching: bool) -> Labelled:
        facts = graph.split(split).tolist()
        return [
            (labels[h], relations[r], labels[t])
            for h, r, t in facts
            if (h in held or t in held) == touching
        ]

    train, valid, test = (labelled(split, False) for split in ("train", "valid", "test"))
    rest = Graph.of(train, valid, test, "rest")
    return rest, labelled("train", True)


def whole(graph: Graph, rest: Graph, added: Labelled) -> Graph:
    """All facts by the ids that the run has after they were added."""
    larger = with_facts(rest, Graph.of(added)).graph
    splits = {}
    for split in ("valid", "test"):
        facts = graph.evaluable(split).tolist()
        rows = [
            (
                larger.entities.get(graph.entities[h]),
                larger.relations.get(graph.relations[r]),
                larger.entities.get(graph.entities[t]),
            )
            for h, r, t in facts
        ]
        splits[split] = np.array([row for row in rows if None not in row], dtype=np.int32).reshape(
            -1, 3
        )
    return Graph(
        larger.entities,
        larger.relations,
        larger.train,
        splits["valid"],
        splits["test"],
        name="whole",
    )


def mrr(graph: Graph, facts: Triples, model: Scorer, seed: int) -> float:
    """The filtered mean reciprocal rank of facts, both directions."""
    held_out = Graph(graph.entities, graph.relations, graph.facts(), facts, name="asked")
    return Validation(held_out, 2000, seed, 100).mrr(model)


def measure(args: argparse.Namespace) -> Measured:
    """Train, add, train again, and compare."""
    graph = graph_of(args)
    rest, added = parts(graph, args.seed)
    full = whole(graph, rest, added)
    names = ("model", "rank", "epochs", "batch", "reg", "negatives")
    settings = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    settings |= {
        "device": args.device,
        "seed": args.seed,
        "progress": False,
        "validate_on": args.validate_on,
    }
    run, _, before = timed(lambda: tacit.train(rest, args.scratch / "run", **settings))
    scratch, _, from_scratch = timed(
        lambda: tacit.train(full, args.scratch / "scratch", **settings)
    )
    change, _, adding = timed(lambda: run.add(added, force=True))
    facts = full.facts("valid", "test")
    new = (facts[:, [0, 2]] >= rest.num_entities).any(axis=1)
    figures: dict[str, dict[str, Any]] = {}
    for name, model, taken in (
        ("added", run.engine.scorer, adding),
        ("trained from scratch", scratch.engine.scorer, from_scratch),
    ):
        ranked = {
            "new": mrr(full, facts[new], model, args.seed),
            "others": mrr(full, facts[~new], model, args.seed),
        }
        figures[name] = {f"MRR, {kind}": round(value, 4) for kind, value in ranked.items()} | {
            "s": round(taken, 2)
        }
    one = figures["added"]
    other = figures["trained from scratch"]
    ratios = {
        f"MRR, {kind}": round(one[f"MRR, {kind}"] / max(1e-9, other[f"MRR, {kind}"]), 3)
        for kind in ("new", "others")
    }
    figures["ratio"] = ratios | {"s": round(adding / from_scratch, 4)}
    missed = (
        [f"MRR {ratios['MRR, new']} of that from scratch"] if ratios["MRR, new"] < AS_GOOD else []
    )
    missed += (
        [f"only {from_scratch / adding:.0f} times less time"]
        if FASTER * adding > from_scratch
        else []
    )
    about = {
        "facts added": change.added,
        "entities added": change.entities,
        "facts before": len(rest.train),
        "facts ranked": int(new.sum()),
        "trained before, s": round(before, 1),
    }
    return Measured(figures, about, missed=missed, kind=args.graph.lower())


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("graph", nargs="?", default="world", help="world, or a folder of --data")
    benchmark.add_argument("--model", default="complex")
    benchmark.add_argument("--validate-on", default="questions", choices=("questions", "facts"))
    benchmark.add_argument("--reg", type=float)
    benchmark.add_argument("--batch", type=int)
    benchmark.add_argument("--negatives", type=int, default=0)
    for flag in ("--rank", "--epochs"):
        benchmark.add_argument(flag, type=int, help="by the size of the graph by default")
    benchmark.tiny |= {"rank": 4, "epochs": 1}
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
