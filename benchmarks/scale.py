"""How fast a graph of a million entities trains on the CPU, next to the speed of its matrix products alone.

python benchmarks/scale.py --steps 30
python benchmarks/scale.py --negatives 0 --batch 128 --memory 0.5 --steps 2
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch

from tacit.graph.graph import Graph, directed
from tacit.graph.vocabulary import Vocabulary
from tacit.links.settings import TrainSettings
from tacit.links.training import Training
from tacit.runs import versions

RESULTS = Path(__file__).parent / "results" / "scale.json"


def generated(entities: int, facts: int, relations: int) -> Graph:
    """A graph whose facts favour a few entities, as real ones do: heads and tails follow a power law."""
    random = np.random.default_rng(0)
    drawn = (entities * random.random((2, facts)) ** 3).astype(np.int32)
    kinds = 2 * random.integers(relations, size=facts, dtype=np.int32)
    labels = Vocabulary(f"e{i}" for i in range(entities))
    return Graph(
        labels, directed(f"r{i}" for i in range(relations)), np.stack((drawn[0], kinds, drawn[1]), 1), name="generated"
    )


def product_rate(rows: int, width: int, columns: int) -> float:
    """FLOP per second of one matrix product of a step's shape."""
    left, right = torch.randn(rows, width), torch.randn(columns, width)
    out = torch.empty(rows, columns)
    torch.mm(left, right.T, out=out)
    start = time.perf_counter()
    for _ in range(3):
        torch.mm(left, right.T, out=out)
    return 3 * 2.0 * rows * width * columns / (time.perf_counter() - start)


def main() -> None:
    """Time some steps, print them beside their floor, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--facts", type=int, default=5_000_000)
    parser.add_argument("--relations", type=int, default=100)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--negatives", type=int, default=2000, help="0 compares with all entities")
    parser.add_argument("--memory", type=float, default=None, help="GB for scores")
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    began = time.perf_counter()
    graph = generated(arguments.entities, arguments.facts, arguments.relations)
    settings = TrainSettings(
        rank=arguments.rank, batch=arguments.batch, negatives=arguments.negatives, memory=arguments.memory, device="cpu"
    )
    training = Training(graph, settings)
    made = time.perf_counter() - began
    order = torch.randperm(len(training.triples), generator=torch.Generator().manual_seed(0))
    batches = [training.triples[ids] for ids in order[: arguments.batch * (arguments.steps + 1)].split(arguments.batch)]
    first = float(training.step(batches[0], torch.Generator().manual_seed(0)))  # warms up
    start = time.perf_counter()
    for number, batch in enumerate(batches[1:]):
        loss = training.step(batch, torch.Generator().manual_seed(number))
    seconds = (time.perf_counter() - start) / arguments.steps
    compared = min(arguments.negatives or arguments.entities, 100_000)
    floor = training.step.flops / product_rate(arguments.batch, 2 * arguments.rank, compared)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    figures = {
        "facts_per_s": arguments.batch / seconds,
        "facts_per_s_of_the_products_alone": arguments.batch / floor,
        "ms_per_step": 1e3 * seconds,
        "gflop_per_step": training.step.flops / 1e9,
        "peak_gb": peak,
        "seconds_to_make": made,
        "loss": [first, float(loss)],
    }
    print(f"{graph}")
    print(
        f"{figures['facts_per_s']:>12,.0f} facts/s    ({figures['ms_per_step']:,.1f} ms a step of {arguments.batch:,})"
    )
    print(f"{figures['facts_per_s_of_the_products_alone']:>12,.0f} facts/s    floor: the three products alone")
    print(f"{peak:>12.1f} GB         peak memory")
    result = {"settings": vars(arguments), "cores": torch.get_num_threads(), "figures": figures, "versions": versions()}
    RESULTS.parent.mkdir(exist_ok=True)
    kind = "sampled" if arguments.negatives else "full"
    written = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**written, kind: result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
