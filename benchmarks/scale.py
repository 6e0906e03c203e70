"""How fast a graph of a million entities trains on the CPU, next to the speed of its matrix products alone.

python benchmarks/scale.py --steps 30
python benchmarks/scale.py --negatives 0 --batch 128 --memory 0.5 --steps 2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from scaffold import Benchmark, Measured, in_turns, peak_gb
from tacit.graph.graph import Graph, directed
from tacit.graph.vocabulary import Vocabulary
from tacit.links.settings import TrainSettings
from tacit.links.training import Training


def generated(entities: int, facts: int, relations: int, seed: int) -> Graph:
    """A graph whose facts favour a few entities, as real ones do: heads and tails follow a power law."""
    random = np.random.default_rng(seed)
    heads, tails = (entities * random.random((2, facts)) ** 3).astype(np.int32)
    kinds = 2 * random.integers(relations, size=facts, dtype=np.int32)
    labels = Vocabulary(f"e{i}" for i in range(entities))
    return Graph(
        labels, directed(f"r{i}" for i in range(relations)), np.stack((heads, kinds, tails), 1), name="generated"
    )


def product_rate(rows: int, width: int, columns: int) -> float:
    """FLOP per second of one matrix product of a step's shape."""
    left, right, out = torch.randn(rows, width), torch.randn(columns, width), torch.empty(rows, columns)
    times = in_turns({"": lambda: torch.mm(left, right.T, out=out)}, 3)[""]
    return 3 * 2.0 * rows * width * columns / sum(times)


def measure(given: argparse.Namespace) -> Measured:
    """The speed of some steps beside their floor, and the memory they take."""
    began = time.perf_counter()
    graph = generated(given.entities, given.facts, given.relations, given.seed)
    settings = TrainSettings(
        rank=given.rank, batch=given.batch, negatives=given.negatives, memory=given.memory, device="cpu"
    )
    training = Training(graph, settings)
    update: Any = getattr(training, "update", None) or training.step  # what older trees call it
    made = time.perf_counter() - began
    triples = torch.from_numpy(graph.triples("train"))
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(given.seed))
    batches = [triples[ids] for ids in order[: given.batch * (given.steps + 1)].split(given.batch)]
    update(batches[0], torch.Generator().manual_seed(given.seed))  # warms up
    start = time.perf_counter()
    for number, batch in enumerate(batches[1:]):
        update(batch, torch.Generator().manual_seed(number))
    taken = (time.perf_counter() - start) / given.steps
    compared = min(given.negatives or given.entities, 100_000)
    floor = update.flops / product_rate(given.batch, 2 * given.rank, compared)
    figures = {
        "a step": {"facts_per_s": given.batch / taken, "ms": 1e3 * taken, "peak_gb": peak_gb(), "made_s": made},
        "its products alone": {"facts_per_s": given.batch / floor, "ms": 1e3 * floor},
    }
    return Measured(figures, {"gflop a step": update.flops / 1e9}, kind="" if given.negatives else "full")


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--entities", 1_000_000, tiny=50)
    benchmark.size("--facts", 5_000_000, tiny=200)
    benchmark.size("--relations", 100, tiny=3)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--batch", 1000, tiny=8)
    benchmark.size("--negatives", 2000, tiny=4, help="0 compares with all entities")
    benchmark.add_argument("--memory", type=float, help="GB for scores")
    benchmark.size("--steps", 30, tiny=2)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
