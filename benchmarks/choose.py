"""Choosing the settings of the rows on an inner split of the training facts.

    python benchmarks/choose.py nell995 --device cuda
    python benchmarks/choose.py fb15k237 --device cuda --minutes 3

Test queries are never looked at. Inner test queries need official validation facts; the engine
knows only the inner training facts, and inner validation facts lie between the two, drawn from the
training facts in the proportions of relations that the official validation facts have. So the inner
test stands to the inner training facts as the official test does to the official ones.

Every candidate is trained once, and asked on its way: what it answers after 20 epochs is what 20
epochs would give.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from reproduce import ROWS, read_row
from scaffold import Benchmark, graph_of, provenance, write
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import train
from tacit.query.plans.plan import Complement
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

# What is tried on top of the settings of `tacit-train`, what matters most first.
CANDIDATES: dict[str, list[dict[str, float]]] = {
    "nell995": [
        {"reg": 0.05, "relation_weight": 0.1},
        {"reg": 0.05, "relation_weight": 0.0},
        {"reg": 0.02, "relation_weight": 0.0},
    ],
    "fb15k237": [
        {"reg": 0.05, "relation_weight": 4.0},
        {"reg": 0.05, "relation_weight": 0.5, "batch": 2000},
    ],
}
STRENGTHS = (1.0, 2.0, 4.0, 8.0, 12.0, 20.0)
Figures = dict[str, Any]


def inner_split(graph: Graph, seed: int) -> Graph:
    """Splits the training facts as the official split does, with its validation as test."""
    random = np.random.default_rng(seed)
    relations = [
        np.bincount(part[:, 1], minlength=graph.num_relations) / len(part)
        for part in (graph.train, graph.valid)
    ]
    degree = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.num_entities)
    weights = (relations[1] / np.maximum(relations[0], 1e-9))[graph.train[:, 1]]
    # entities must stay in the training facts
    weights *= (degree[graph.train[:, [0, 2]]] > 2).all(axis=1)
    chosen = random.choice(
        len(graph.train), len(graph.valid), replace=False, p=weights / weights.sum()
    )
    rest = np.setdiff1d(np.arange(len(graph.train)), chosen)
    return replace(
        graph, train=graph.train[rest], valid=graph.train[chosen], test=graph.valid, name="inner"
    )


@dataclass
class Curve:
    """What a predictor answers on its way: its validation, called every so many epochs."""

    name: str
    graph: Graph
    queries: Mapping[str, QuerySet]
    engine: Mapping[str, Any]
    every: int
    found: dict[str, Figures] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    asking: float = 0.0

    def __call__(self, model: Scorer) -> dict[str, float]:
        """The MRR of each shape without negation, as what decides which weights are best."""
        before = time.perf_counter()
        name = f"{self.name}, {self.every * (len(self.found) + 1)} epochs"
        results = evaluate(
            Engine(self.graph, model, **self.engine).reasoner, self.queries
        ).to_json()
        self.found[name] = shown(name, results, before - self.started - self.asking)
        self.asking += time.perf_counter() - before
        return {
            shape: mrr
            for shape, mrr in results["mrr"].items()
            if not SHAPES[shape].plan.has(Complement)
        }


def shown(name: str, results: Mapping[str, Any], seconds: float | None = None) -> Figures:
    """The figures of a candidate, printed."""
    figures = {"avg_p": results["avg_p"], "avg_n": results["avg_n"], **results["mrr"]}
    took = {} if seconds is None else {"seconds": round(seconds, 1)}
    percent = {key: round(100 * value, 2) for key, value in figures.items() if value is not None}
    print(f"{name:52s}", percent, *took.values(), flush=True)
    return {**figures, **took}


def measure(args: argparse.Namespace) -> None:
    """Print the inner MRR of every candidate and write `TABLE/choose.json`."""
    row = read_row(ROWS / args.table / "tacit-train.toml", args.tiny)
    inner = inner_split(graph_of(args, row["folder"]), args.seed)
    queries = {
        name: sample(inner, shape, "test", args.count, seed=3).queries
        for name, shape in SHAPES.items()
    }
    engine = {**row["engine"], "k": args.k}
    path = args.out / args.table / "choose.json"
    mrr = dict[str, Figures]()
    started = time.perf_counter()
    best: tuple[float, Scorer | None] = -math.inf, None
    for changes in CANDIDATES[args.table]:
        if time.perf_counter() - started > 60 * args.minutes:
            print("no time left for", changes, flush=True)
            continue
        chosen = {
            **row["train"],
            **changes,
            "device": args.device,
            "epochs": args.epochs,
            "patience": 1000,
        }
        settings = TrainSettings.of(
            chosen | {"validate_every": args.every} | ({"rank": args.rank} if args.rank else {})
        )
        name = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in changes.items())
        curve = Curve(name, inner, queries, engine, args.every)
        model = train(inner, settings, None, False, validate=curve)
        mrr |= curve.found
        best = max(
            best,
            (max(figures["avg_p"] for figures in curve.found.values()), model),
            key=lambda found: found[0],
        )
        keep(path, args, settings, engine, mrr)
    if best[1] is not None:  # the strength of negation, on the best of them
        negated = {
            name: chosen for name, chosen in queries.items() if SHAPES[name].plan.has(Complement)
        }
        for strength in STRENGTHS:
            best_engine = Engine(inner, best[1], **{**engine, "strength": strength})
            mrr[f"best, strength {strength:g}"] = shown(
                f"best, strength {strength:g}", evaluate(best_engine.reasoner, negated).to_json()
            )
        keep(path, args, settings, engine, mrr)


def keep(
    path: Any,
    args: argparse.Namespace,
    settings: TrainSettings,
    engine: Mapping[str, Any],
    mrr: Mapping[str, Figures],
) -> None:
    """Write what was tried so far."""
    report = {
        "mrr": mrr,
        "queries": args.count,
        "train": settings.to_dict(),
        "engine": engine,
        **provenance(args),
    }
    write(path, report)


def main(argv: Sequence[str] | None = None) -> None:
    """Evaluate all candidates."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    benchmark.add_argument("table", choices=sorted(CANDIDATES))
    benchmark.size("--count", 300, tiny=2, help="queries of each shape")
    benchmark.size("--k", 256, tiny=2)
    benchmark.size("--epochs", 100, tiny=2)
    benchmark.size("--every", 20, tiny=1, help="epochs between two looks")
    benchmark.add_argument(
        "--minutes", type=float, default=60.0, help="no candidate is begun after so many"
    )
    benchmark.add_argument("--rank", type=int)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
