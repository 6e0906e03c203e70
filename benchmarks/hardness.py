"""Which scores do best on answers that miss one link, and on answers that miss several.

    python benchmarks/hardness.py [world|NELL995|FB15k-237] [--run RUN] [--count 100]

Validation queries of each shape are drawn twice: with hard answers that one link must be predicted
for beside the training facts, and with hard answers that two or more must be. A known fact in one
branch of a question counts nearly 1, so that an entity known there and unlikely in the other branch
may outvote one that is likely in both. What could help is tried one setting at a time: the score of
a known fact, the calibration, a cap on predictions, the odds of predictions times a factor (which
leaves a known fact where it is), and the strength of negation. Without `--run` a link predictor is
trained first; for `world` it is the one that the package trains for itself.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scaffold import Benchmark, Measured, graph_of, run_of, trained
from tacit.distributed.shards import Shards
from tacit.engine.atoms.calibration import EVERY, Calibration, SoftmaxCount, Tails
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate
from tacit.graph.fact_index import Floats
from tacit.graph.graph import Graph
from tacit.links.models import load_model
from tacit.links.scorer import Scorer
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.query_folder import shapes_of
from tacit.query.sampling.sampling import can_miss, missing_range, sample
from tacit.query.sampling.shapes import NEGATIVE, POSITIVE
from tacit.run_folder.folder import RunFolder

CLASSES: dict[str, int | str] = {"1 link": 1, "2+ links": "2+"}
ODDS = (2.0, 4.0, 8.0, 16.0, 32.0)
WAYS: dict[str, dict[str, Any]] = {
    "softmax-count": {},
    "known facts at 0.9": {"observed_score": 0.9},
    "known facts at 0.6": {"observed_score": 0.6},
    "nothing known": {"observed": "none"},
    "sigmoid": {"calibration": "sigmoid"},
    "min-max": {"calibration": "minmax"},
    "Goedel": {"logic": "godel"},
    **{f"cap {cap:g}": {"cap": cap} for cap in (0.5, 0.2, 0.1)},
    **{f"odds x {odds:g}": {"odds": odds} for odds in ODDS},
    **{f"strength {strength:g}": {"strength": strength} for strength in (4.0, 8.0)},
    **{f"odds x {odds:g}, strength 4": {"odds": odds, "strength": 4.0} for odds in ODDS[:3]},
}


class Raised(SoftmaxCount):
    """Calibrates by softmax times count, with scaled odds and capped scores of predictions."""

    def __init__(self, facts: KnownFacts, odds: float = 1.0, cap: float = 1.0) -> None:
        super().__init__(facts)
        self.odds = odds
        self.cap = cap

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """`log o·c / (1 + (o - 1)·c)` for the score `c`, or `log min(c, cap) / cap`."""
        scores = super().forward(logits, heads, relations, tails)
        if self.cap < 1.0:
            return scores.clamp_(max=math.log(self.cap)) - math.log(self.cap)
        return scores + math.log(self.odds) - torch.log1p((self.odds - 1.0) * scores.exp())

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Raised:
        """The same with other facts to count."""
        return Raised(facts, self.odds, self.cap)


def engine_of(graph: Graph, model: Scorer, k: int, changes: Mapping[str, Any]) -> Engine:
    """An engine that knows the training facts and scores in a certain way."""
    settings = {name: value for name, value in changes.items() if name not in ("odds", "cap")}
    raised = {name: changes[name] for name in ("odds", "cap") if name in changes}
    adapter: Calibration | None = (
        Raised(KnownFacts(graph.index("train")), **raised) if raised else None
    )
    return Engine(graph, model, adapter=adapter, **{"observed": "train", "k": k, **settings})


def drawn(args: argparse.Namespace, graph: Graph) -> dict[str, dict[str, QuerySet]]:
    """Validation queries by the links that their hard answers are missing, then by shape."""
    queries: dict[str, dict[str, QuerySet]] = {}
    for name, missing in CLASSES.items():
        links = missing_range(missing, "valid")
        shapes = {
            shape: each for shape, each in shapes_of(args.shapes).items() if can_miss(each, links)
        }
        found = {
            shape: sample(
                graph,
                each,
                "valid",
                args.count,
                seed=args.seed,
                missing=missing,
                waste=args.waste,
            )
            for shape, each in shapes.items()
        }
        queries[name] = {shape: each.queries for shape, each in found.items() if len(each.queries)}
    return queries


def opened(args: argparse.Namespace) -> tuple[Graph, Scorer, Any]:
    """The graph, its link predictor, and how that was trained."""
    if args.run_folder or args.graph == "world":
        run = RunFolder.open(run_of(args, args.run_folder or "world"))
        return run.graph(), load_model(run, args.device), run.settings["train"]
    graph = graph_of(args)
    model, settings = trained(args, graph)
    return graph, model, settings.to_dict()


def compared(
    found: Mapping[str, Floats], usual: Mapping[str, Floats], group: Sequence[str]
) -> dict[str, float]:
    """The mean MRR over a group of shapes, and the standard error of its gain over the default."""
    shapes = [shape for shape in group if shape in found]
    if not shapes:
        return {}
    changes = [found[shape] - usual[shape] for shape in shapes]
    error = sum(float(change.var()) / len(change) for change in changes) ** 0.5 / len(shapes)
    return {
        "mrr": sum(float(found[shape].mean()) for shape in shapes) / len(shapes),
        "error of the change": error,
    }


def measure(args: argparse.Namespace) -> Measured:
    """The mean MRR of each setting by class of answers, with and without negation apart."""
    graph, model, training = opened(args)
    queries = drawn(args, graph)
    figures: dict[str, dict[str, float]] = {}
    shapes: dict[str, dict[str, dict[str, float]]] = {}
    usual: dict[str, dict[str, Floats]] = {}
    for name in dict.fromkeys(["softmax-count", *(args.ways.split(",") if args.ways else WAYS)]):
        engine = engine_of(graph, model, args.k, WAYS[name])
        row = dict[str, float]()
        shapes[name] = {}
        for links, sets in queries.items():
            results = evaluate(engine.reasoner, sets)
            shapes[name][links] = results.mrr
            found = {shape: each.by_query["mrr"] for shape, each in results.figures.items()}
            for kind, group in (("positive", POSITIVE), ("negative", NEGATIVE)):
                means = compared(found, usual.setdefault(links, found), group)
                row |= {f"{links}, {kind}, {what}": value for what, value in means.items()}
        figures[name] = row
        print(f"{name:24}", *(f"{100 * value:6.2f}" for value in row.values()), flush=True)
    counts = {
        links: {shape: len(each) for shape, each in sets.items()} for links, sets in queries.items()
    }
    about = {
        "train": training,
        **{name: training.get(name) for name in ("rank", "epochs", "reg")},
        "observed": "train",
        "queries": counts,
        "by shape": shapes,
    }
    return Measured(figures, about, kind=str(args.graph).lower())


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("graph", nargs="?", default="world", help="world, or a folder of --data")
    benchmark.add_argument(
        "--run",
        dest="run_folder",
        type=Path,
        metavar="RUN",
        help="a run of the graph, instead of training",
    )
    benchmark.add_argument("--shapes", default="2p,2i,3i,pi,ip,2in,3in,inp,pin")
    benchmark.add_argument("--ways", help="some of the ways, joined by commas; all by default")
    benchmark.add_argument("--k", type=int, default=64)
    benchmark.add_argument("--reg", type=float, default=0.05)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--epochs", 20, tiny=1)
    benchmark.size("--count", 100, tiny=2, help="queries of each shape and class")
    benchmark.size("--waste", 0.999, tiny=0.9, help="share of tries that may be in vain")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
