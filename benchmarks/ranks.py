"""What a second process gains in training, and the memory of sampled training.

    python benchmarks/ranks.py

Each process has one thread. One that holds all rows, and two that hold half of them each, take the
same steps in turns: `time` is by the clock and needs two idle cores, `processor` is the time of all
processes together. Memory is what sampled training takes beside its table.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from scaffold import Benchmark, Measured, status_bytes, timed
from scale import generated
from tacit.distributed.shards import Shards, leave, meet
from tacit.graph.graph import Graph
from tacit.links.factors import MULTIPLE
from tacit.links.models import make_model
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import train
from tacit.links.training.step import TrainStep
from tacit.run_folder.folder import RunFolder
from tacit.server.workers.fork_server import context

RELATIONS = 474
WORLD = 2
# goals
TIME = 0.65
PROCESSOR = 1.1
MEMORY = 1.3
Turns = dict[str, list[tuple[float, float]]]  # of one process and of all, the clocks of each turn


def in_processes(world: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `work(rank, *arguments)` returns in each of some processes."""
    started = context()
    ends = [started.Pipe() for _ in range(world)]
    processes = [
        started.Process(target=_sent, args=(end, work, rank, *arguments))
        for rank, (_, end) in enumerate(ends)
    ]
    for process in processes:
        process.start()
    found = [here.recv() for here, _ in ends]
    for process in processes:
        process.join()
    return found


def _sent(pipe: Any, work: Callable[..., Any], rank: int, *arguments: Any) -> None:
    torch.set_num_threads(1)
    pipe.send(work(rank, *arguments))


def made_step(
    entities: int, args: argparse.Namespace, batch: int, negatives: int, shards: Shards
) -> TrainStep:
    """A step of ComplEx over the rows of a shard."""
    settings = TrainSettings(rank=args.rank, batch=batch, reg=0.05, negatives=negatives)
    model = make_model("complex", entities, RELATIONS, args.rank, 1, shards)
    model.reset(settings.init, torch.Generator().manual_seed(args.seed))
    return TrainStep(model, settings, 1e12, "float32")


def clocks(
    rank: int, sizes: Sequence[tuple[int, int, int]], args: argparse.Namespace
) -> list[Turns]:
    """The clocks of turns of steps, by one process and by all, for some sizes."""
    meet(f"file://{args.scratch}/meeting", rank, WORLD, 600.0)
    taken = [turns_of(*size, args) for size in sizes]
    leave()
    return taken


def turns_of(entities: int, batch: int, negatives: int, args: argparse.Namespace) -> Turns:
    """The clocks of turns of steps of one size."""
    shared = Shards.joined(entities)
    draw = torch.Generator().manual_seed(args.seed)
    sizes = (entities, RELATIONS, entities)
    batches = [
        torch.stack([torch.randint(size, (batch,), generator=draw) for size in sizes], 1)
        for _ in range(args.steps)
    ]
    steps = {"all": made_step(entities, args, batch, negatives, shared)}
    if shared.leads:
        steps["one"] = made_step(entities, args, batch, negatives, Shards(entities))
    taken: Turns = {"one": [], "all": []}
    for _ in range(args.turns + 1):  # the first warms up
        for name in taken:
            shared.wait()
            if name in steps:
                taken[name].append(timed(partial(_take, steps[name], batches, draw))[1:])
    shared.wait()
    return {name: turns[1:] for name, turns in taken.items()}


def _take(step: TrainStep, batches: list[torch.Tensor], draw: torch.Generator) -> None:
    for batch in batches:
        step(batch, draw)


def beside(first: Turns, second: Turns, args: argparse.Namespace) -> dict[str, float]:
    """The clocks of two processes beside those of one, a step."""
    one = first["one"]
    both = first["all"]
    together = [own[1] + other[1] for own, other in zip(both, second["all"], strict=True)]
    median = statistics.median
    figures = {"ms": median(wall for wall, _ in one), "two_ms": median(wall for wall, _ in both)}
    figures |= {"cpu_ms": median(cpu for _, cpu in one), "two_cpu_ms": median(together)}
    each = {name: 1e3 * seconds / args.steps for name, seconds in figures.items()}
    ratios = [own / alone[1] for own, alone in zip(together, one, strict=True)]
    return {**each, "time": each["two_ms"] / each["ms"], "processor": median(ratios)}


class EnumeratedTarget:
    """The peak private memory of this process during work, without mapped files."""

    def __init__(self) -> None:
        self.most = 0
        self._done = False
        self._watch = threading.Thread(target=self._look)

    def __enter__(self) -> EnumeratedTarget:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._watch.join()

    def _look(self) -> None:
        while not self._done:
            self.most = max(self.most, status_bytes("RssAnon"))
            time.sleep(0.005)


def memory(rank: int, optimizer: str, folder: str, args: argparse.Namespace) -> float:
    """What sampled training takes beside the facts, over the size of its entity table."""
    made = generated(args.entities, args.facts, 100, args.seed)
    graph = Graph(made.entities, made.relations, made.train[:-100], made.train[-100:])
    settings = TrainSettings(
        rank=args.rank, epochs=2, batch=1000, negatives=200, optimizer=optimizer, validate_every=1,
        device="cpu", checkpoint_seconds=5.0,
    )  # fmt: skip
    run = RunFolder.create(folder, graph, settings.to_dict())
    before = status_bytes("RssAnon")
    with EnumeratedTarget() as held:
        train(graph, settings, run, progress=False)
    rows = -(-args.entities // MULTIPLE) * MULTIPLE
    return float((held.most - before) / (4 * rows * 2 * args.rank))


def measure(args: argparse.Namespace) -> Measured:
    """Steps of two sizes and a whole training."""
    sizes = {
        "FB15k-237, all entities": (args.small, args.batch, 0),
        "large, all entities": (args.large, args.batch // 2, 0),
        "large, sampled": (args.large, 2 * args.batch, 2 * args.batch),
    }
    first, second = in_processes(WORLD, clocks, list(sizes.values()), args)
    figures = {
        name: beside(own, other, args)
        for name, own, other in zip(sizes, first, second, strict=True)
    }
    for optimizer in ("adagrad", "rowwise"):
        arguments = optimizer, str(args.scratch / optimizer), args
        # Earlier memory of a process would hide what training takes; tiny sizes say nothing.
        share = memory(0, *arguments) if args.tiny else in_processes(1, memory, *arguments)[0]
        figures[f"memory, {optimizer}"] = {"of the table": share}
    goals = {"time": TIME, "processor": PROCESSOR}
    full = [name for name in figures if name.endswith("all entities")]
    missed = [
        f"{name}: {goal}"
        for name in full
        for goal, most in goals.items()
        if figures[name][goal] > most
    ]
    if figures["memory, rowwise"]["of the table"] > MEMORY:
        missed.append("memory, rowwise")
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--small", 14_505, tiny=20, help="entities")
    benchmark.size("--large", 200_000, tiny=30, help="entities")
    benchmark.size("--batch", 500, tiny=8)
    benchmark.size("--steps", 3, tiny=1, help="steps per turn")
    benchmark.size("--turns", 5, tiny=1)
    benchmark.size(
        "--entities", 1_000_000, tiny=50, help="of the training whose memory is measured"
    )
    benchmark.size("--facts", 500_000, tiny=1100)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
