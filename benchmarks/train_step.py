"""How long one training step takes, beside a bare PyTorch loop that does the same.

    python benchmarks/train_step.py [--graph world] --rank 200 --batch 500
    python benchmarks/train_step.py --rank 1000 --batch 1000 --device cuda --precision tf32,bf16

All are timed in turns, and medians count. With --epochs an epoch of a whole training stands beside
them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

import tacit
from scaffold import Benchmark, Measured, graph_of, in_turns, installed, seconds
from tacit.graph.graph import Graph
from tacit.links.precision import float32_products
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import Training

BARE = "bare loop"
Step = Callable[[torch.Tensor], object]  # of a batch of triples


class BareLoop:
    """ComplEx as written in an afternoon: forward product, cross entropy, backward, Adagrad."""

    def __init__(self, entities: int, relations: int, rank: int, device: str, reg: float) -> None:
        self.entities = torch.nn.Parameter(1e-3 * torch.randn(entities, 2 * rank, device=device))
        self.relations = torch.nn.Parameter(1e-3 * torch.randn(relations, 2 * rank, device=device))
        self.optimizer = torch.optim.Adagrad([self.entities, self.relations], lr=0.1)
        self.reg = reg

    def __call__(self, triples: torch.Tensor) -> torch.Tensor:
        heads, relations, tails = triples.T
        h = self.entities[heads]
        r = self.relations[relations]
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
    """A step with its memory on a GPU, both lasting and peak."""

    def __init__(self, make: Callable[[], Step], cuda: bool) -> None:
        before = torch.cuda.memory_allocated() if cuda else 0
        self.step = make()
        self.cuda = cuda
        self.held = torch.cuda.memory_allocated() - before if cuda else 0
        self.peak = 0

    def turn(self, batches: list[torch.Tensor]) -> None:
        """A step for each of some batches."""
        before = torch.cuda.memory_allocated() if self.cuda else 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        # the bare loop may round on a GPU, too
        with float32_products("tf32" if self.cuda else "float32"):
            for batch in batches:
                self.step(batch)
        if self.cuda:
            self.peak = max(self.peak, self.held + torch.cuda.max_memory_allocated() - before)


def contestants(graph: Graph, args: argparse.Namespace) -> dict[str, Contestant]:
    """The steps to time, by name."""
    makers: dict[str, Callable[[], Step]] = {}
    for name, weight in ((BARE, 0.0), (f"{BARE} with N3", args.reg)):
        makers[name] = partial(
            BareLoop, graph.num_entities, graph.num_relations, args.rank, args.device, weight
        )
    for precision in args.precision.split(","):
        settings = TrainSettings(
            rank=args.rank,
            batch=args.batch,
            reg=args.reg,
            device=args.device,
            precision=precision,
        )
        makers[f"tacit {precision}"] = partial(tacit_step, graph, settings)
    return {name: Contestant(make, args.device == "cuda") for name, make in makers.items()}


def tacit_step(graph: Graph, settings: TrainSettings) -> Step:
    """Tacit's own step, as `train` runs it."""
    training = Training(graph, settings)
    generator = torch.Generator()
    update: Any = getattr(training, "update", None) or training.step  # what older trees call it

    def step(batch: torch.Tensor) -> object:
        with float32_products(training.precision):
            return update(batch, generator)

    return step


def epoch(graph: Graph, args: argparse.Namespace) -> float:
    """Seconds of an epoch of a whole training, with its share of validation and checkpoints."""
    names = ("rank", "batch", "reg", "device", "seed", "epochs")
    settings = {name: getattr(args, name) for name in names}
    work = partial(tacit.train, graph, args.scratch / "run", progress=False, **settings)
    return seconds(work, args.device) / int(args.epochs)


def measure(args: argparse.Namespace) -> Measured:
    """Time all contestants in turns."""
    graph = graph_of(args)
    triples = torch.from_numpy(graph.triples("train")).long().to(args.device)
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(args.seed)).to(
        args.device
    )
    batches = [triples[ids] for ids in order[: args.batch * args.steps].split(args.batch)]
    entrants = contestants(graph, args)
    turns = {name: partial(entrant.turn, batches) for name, entrant in entrants.items()}
    times = in_turns(turns, args.turns, args.device)
    medians = {name: 1e3 * statistics.median(taken) / len(batches) for name, taken in times.items()}
    figures = {
        name: {"ms": taken, "times bare": taken / medians[BARE]} for name, taken in medians.items()
    }
    for name, entrant in entrants.items():
        if entrant.cuda:
            figures[name]["peak_gb"] = entrant.peak / 1e9
    if args.epochs and installed("tomli_w", "a whole training"):
        figures["tacit.train, an epoch"] = {"ms": 1e3 * epoch(graph, args)}
    return Measured(figures)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--graph", default="NELL995", help="world, or a folder of --data")
    benchmark.size("--rank", 200, tiny=4)
    benchmark.size("--batch", 500, tiny=8)
    benchmark.add_argument("--reg", type=float, default=0.02)
    benchmark.add_argument("--precision", default="auto", help="one or more, separated by commas")
    benchmark.size("--epochs", 0, tiny=1, help="of a whole training, where any")
    benchmark.size("--steps", 3, tiny=2, help="steps per turn")
    benchmark.size("--turns", 5, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
