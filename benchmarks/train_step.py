"""How long one training step takes, beside a bare PyTorch loop that does the same.

python benchmarks/train_step.py --rank 200 --batch 500
python benchmarks/train_step.py --rank 1000 --batch 1000 --device cuda --precision tf32,bf16
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.products import float32_products
from tacit.links.settings import TrainSettings
from tacit.links.training import Training
from tacit.runs import versions

RESULTS = Path(__file__).parent / "results"


class BareLoop:
    """ComplEx as one would write it in an afternoon: forward product, cross entropy, backward, Adagrad."""

    def __init__(self, entities: int, relations: int, rank: int, device: str, reg: float) -> None:
        self.entities = torch.nn.Parameter(1e-3 * torch.randn(entities, 2 * rank, device=device))
        self.relations = torch.nn.Parameter(1e-3 * torch.randn(relations, 2 * rank, device=device))
        self.optimizer = torch.optim.Adagrad([self.entities, self.relations], lr=0.1)
        self.reg = reg

    def __call__(self, triples: torch.Tensor) -> torch.Tensor:
        heads, relations, tails = triples.T
        h, r = self.entities[heads], self.relations[relations]
        (a, b), (c, d) = h.chunk(2, -1), r.chunk(2, -1)
        scores = torch.cat((a * c - b * d, a * d + b * c), -1) @ self.entities.T
        loss = F.cross_entropy(scores, tails)
        if self.reg:
            for factor in (h, r, self.entities[tails]):
                real, imaginary = factor.chunk(2, -1)
                size = (real.square() + imaginary.square()).sqrt()
                loss = loss + self.reg * size.pow(3).sum() / len(triples)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Contestant:
    """A step with the memory it takes on a GPU: what it holds, and the most it takes for a moment."""

    def __init__(self, make: Callable[[], Callable[[torch.Tensor], object]], cuda: bool) -> None:
        before = torch.cuda.memory_allocated() if cuda else 0
        self.step, self.cuda = make(), cuda
        self.held = torch.cuda.memory_allocated() - before if cuda else 0
        self.peak = 0
        self.times: list[float] = []

    def turn(self, batches: list[torch.Tensor]) -> float:
        """The seconds of a step, the mean over some batches."""
        before = torch.cuda.memory_allocated() if self.cuda else 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        with float32_products("tf32" if self.cuda else "float32"):  # the bare loop may round on a GPU, too
            for batch in batches:
                self.step(batch)
        if self.cuda:
            torch.cuda.synchronize()
            self.peak = max(self.peak, self.held + torch.cuda.max_memory_allocated() - before)
        return (time.perf_counter() - start) / len(batches)


def contestants(graph: Graph, arguments: argparse.Namespace) -> dict[str, Contestant]:
    """The steps to time, by name."""
    device, reg = arguments.device, arguments.reg
    makers: dict[str, Callable[[], Callable[[torch.Tensor], object]]] = {}
    for name, weight in (("bare loop", 0.0), ("bare loop with N3", reg)):
        makers[name] = partial(BareLoop, graph.num_entities, graph.num_relations, arguments.rank, device, weight)
    for precision in arguments.precision.split(","):
        settings = TrainSettings(
            rank=arguments.rank, batch=arguments.batch, reg=reg, device=device, precision=precision
        )
        makers[f"tacit {precision}"] = partial(tacit_step, graph, settings)
    return {name: Contestant(make, device.startswith("cuda")) for name, make in makers.items()}


def tacit_step(graph: Graph, settings: TrainSettings) -> Callable[[torch.Tensor], object]:
    """Tacit's own step, as `train` runs it."""
    training, generator = Training(graph, settings), torch.Generator()

    def step(batch: torch.Tensor) -> object:
        with float32_products(training.precision):
            return training.step(batch, generator)

    return step


def main() -> None:
    """Time all contestants in turns, print a table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=str(Path(os.environ.get("TACIT_DATA", ".bench")) / "NELL995"))
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--reg", type=float, default=0.02)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="auto", help="one or more, separated by commas")
    parser.add_argument("--steps", type=int, default=3, help="steps per turn")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    try:
        graph = load(arguments.data)
    except TacitError as error:
        sys.exit(f"{error}; set TACIT_DATA to the folder that holds NELL995, or give --data")
    triples = torch.from_numpy(graph.triples("train")).long().to(arguments.device)
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(0)).to(arguments.device)
    batches = [triples[ids] for ids in order[: arguments.batch * arguments.steps].split(arguments.batch)]
    entrants = contestants(graph, arguments)
    for turn in range(arguments.turns + 1):  # the first warms up
        for entrant in entrants.values():
            took = entrant.turn(batches)
            if turn:
                entrant.times.append(took)
    report(entrants, arguments)


def report(entrants: dict[str, Contestant], arguments: argparse.Namespace) -> None:
    """Print the table and write it as JSON."""
    base = statistics.median(entrants["bare loop"].times)
    figures = {}
    for name, entrant in entrants.items():
        median = statistics.median(entrant.times)
        figures[name] = {"ms": 1e3 * median, "ratio": median / base, "peak_gb": entrant.peak / 1e9}
        memory = f"   {entrant.peak / 1e9:.2f} GB" if entrant.cuda else ""
        print(f"{name:20} {1e3 * median:10.2f} ms/step   {median / base:.2f} x bare loop{memory}")
    cuda = arguments.device.startswith("cuda")
    place = torch.cuda.get_device_name() if cuda else f"{torch.get_num_threads()} cores"
    settings = {**vars(arguments), "data": Path(arguments.data).name}
    result = {"settings": settings, "device": place, "figures": figures, "versions": versions()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"train_step_{'cuda' if cuda else 'cpu'}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
