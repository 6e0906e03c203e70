"""How many of the facts that a run predicts are true: precision at n on facts held back.

    python benchmarks/completion.py world
    python benchmarks/completion.py world --split valid
    python benchmarks/completion.py NELL995 --device cuda --rank 1000 --epochs 100 \\
        --reg 0.05 --batch 1000

The second command, on validation facts, is for choosing the way of scoring.
A link predictor is trained once and completes the graph from the facts before the split; a
prediction counts as right where it is a fact of the split, and not at all where it is one of a
later split. Others may be true as well, and merely unknown: what is stated is a lower bound. Facts
are scored from both ends (the default) or from their subject alone, with and without kinds
(`typed`).
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from scaffold import Benchmark, Measured, graph_of, trained, wait
from tacit.engine.completion import Completion, ExplainedPrediction, Prediction
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph

LEAST = 0.05


def one_end(engine: Engine, top: int) -> Iterator[Prediction]:
    """The best predictions scored as answers to `r(s, ?)` alone, for comparison."""
    graph = engine.graph
    device = engine.scorer.device
    best: list[tuple[float, int, int, int]] = []
    everyone = torch.arange(graph.num_entities, device=device)
    for relation in range(0, graph.num_relations, 2):
        for heads in everyone.split(256):
            along = torch.full_like(heads, relation)
            scores = engine.atoms.rows(heads, along)
            known = engine.atoms.known(heads, along)
            if known is not None:
                scores[known.rows, known.tails] = -torch.inf
            values, places = scores.flatten().topk(min(top, scores.numel()))
            pairs = zip(values.tolist(), places.tolist(), strict=True)
            n = graph.num_entities
            best += [
                (value, relation, int(heads[place // n]), place % n)
                for value, place in pairs
                if value > -20.0
            ]
        best = sorted(best, reverse=True)[:top]
    for value, relation, head, tail in best:
        yield Prediction(
            graph.entities[head], graph.relations[relation], graph.entities[tail], math.exp(value)
        )


def labelled(graph: Graph, split: str) -> set[tuple[str, str, str]]:
    """The facts of a split by labels."""
    return {
        (graph.entities[head], graph.relations[relation], graph.entities[tail])
        for head, relation, tail in graph.split(split).tolist()
    }


def shares_right(
    facts: Sequence[Prediction | ExplainedPrediction], graph: Graph, split: str, counts: list[int]
) -> dict[str, float]:
    """The shares of true facts among the best n predictions, and among those above one half."""
    held_back = labelled(graph, split)
    later = labelled(graph, "test") if split == "valid" else set()
    facts = [fact for fact in facts if fact[:3] not in later]
    right = [fact[:3] in held_back for fact in facts]
    shares = {f"of the best {n:,}, share": sum(right[:n]) / n for n in counts if n <= len(facts)}
    likely = sum(fact.score >= 0.5 for fact in facts)
    return shares | {
        "of 0.5 and more": likely,
        "of those, share": sum(right[:likely]) / max(1, likely),
    }


def measure(args: argparse.Namespace) -> Measured:
    """The figures of each way."""
    graph = graph_of(args)
    precision = "bf16" if args.device == "cuda" else "float32"
    model, _ = trained(args, graph, precision=precision)
    counts = [100, 300, 1000, 3000, 10_000, 30_000]
    figures: dict[str, dict[str, Any]] = {}
    for ends, typed in itertools.product(("both ends", "one end"), (True, False)):
        if ends == "one end" and args.device == "cuda":
            continue  # a comparison for small graphs
        engine = Engine(
            graph,
            model,
            observed="train" if args.split == "valid" else "train+valid",
            typed=typed,
            precision=precision,
        )
        wait(args.device)
        start = time.perf_counter()
        top = min(counts[-1], 10 * len(graph.split(args.split)))
        with torch.no_grad():
            facts = list(
                Completion(engine, min_score=LEAST, top=top)
                if ends == "both ends"
                else one_end(engine, top)
            )
        seconds = round(time.perf_counter() - start, 2)
        name = f"{ends}, {'typed' if typed else 'any kind'}"
        figures[name] = {**shares_right(facts, graph, args.split, counts), "s": seconds}
    kind = args.graph.lower() + ("-valid" if args.split == "valid" else "")
    about = {"facts held back": len(graph.split(args.split)), "least score": LEAST}
    return Measured(figures, about, kind=kind)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("graph", nargs="?", default="world", help="world, or a folder of --data")
    benchmark.add_argument(
        "--split", default="test", choices=("valid", "test"), help="the facts held back"
    )
    benchmark.add_argument("--reg", type=float, default=0.02)
    benchmark.add_argument("--batch", type=int, default=500)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--epochs", 30, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
