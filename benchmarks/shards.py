"""What a hop costs where processes share the entities: bytes by their number, time of 2p.

    python benchmarks/shards.py

One process and several answer the same questions, each process on one thread. A goal is missed
where the bytes of a hop grow with the entities, or exceed their formula by a tenth.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from scaffold import Benchmark, Measured, timed
from scale import generated
from tacit.distributed.shards import Shards, leave, meet
from tacit.engine.engine import Engine
from tacit.engine.logic import gather_columns
from tacit.engine.search.hop import Hop
from tacit.links.factors import Embeddings, FactorModel
from tacit.links.models import make_model
from tacit.query.sampling.shapes import SHAPES
from tacit.server.workers.fork_server import context


@contextmanager
def counted_bytes() -> Iterator[list[int]]:
    """Records the size of every tensor that processes sum, and of all that they gather."""
    sizes: list[int] = []
    originals = {name: getattr(distributed, name) for name in ("all_reduce", "all_gather")}

    def counting(name: str) -> Any:
        def call(tensors: Any, *arguments: Any, **more: Any) -> Any:
            parts = tensors if name == "all_gather" else [tensors]
            sizes.append(sum(part.numel() * part.element_size() for part in parts))
            return originals[name](tensors, *arguments, **more)

        return call

    try:
        for name in originals:
            setattr(distributed, name, counting(name))
        yield sizes
    finally:
        for name, collective in originals.items():
            setattr(distributed, name, collective)


def shared_model(shards: Shards, relations: int, rank: int, seed: int) -> FactorModel:
    """A model whose weights are the same however many processes share them."""
    model = make_model("complex", shards.total, relations, rank, shards=shards)
    random = torch.Generator().manual_seed(seed)
    for name, table in sorted(model.named_children()):
        if isinstance(table, Embeddings):
            rows = slice(shards.start, shards.stop) if name != "relations" else slice(None)
            total = shards.total if name != "relations" else relations
            table.weight.data.copy_(
                torch.randn(total, table.width, generator=random)[rows].mul_(0.3)
            )
    return model.requires_grad_(False).eval()


def make_engine(shards: Shards, args: argparse.Namespace) -> Engine:
    """An engine of generated facts over one share of the entities."""
    graph = generated(shards.total, args.facts, args.relations, args.seed)
    model = shared_model(shards, graph.num_relations, args.rank, args.seed)
    return Engine(graph, model, k=args.k, calibration=args.calibration)


@torch.no_grad()
def bytes_of_a_hop(shards: Shards, args: argparse.Namespace) -> dict[str, float]:
    """The bytes that a hop over one relation moves, and their share of `k·(4D + 12W)`."""
    engine = make_engine(shards, args)
    k = min(args.k, shards.total - 1)
    source = torch.rand(1, shards.size, generator=torch.Generator().manual_seed(shards.rank)).log()
    with counted_bytes() as sizes:
        Hop(engine.atoms, engine.logic, k, 2**30).over(source, torch.tensor([0]))
    return {
        "bytes": sum(sizes),
        "of_formula": sum(sizes) / (k * (8 * args.rank + 12 * shards.world)),
    }


@torch.no_grad()
def time_of_2p(shards: Shards, args: argparse.Namespace) -> dict[str, Any]:
    """Wall and processor time of a 2p question, asked one by one, and the scores."""
    engine = make_engine(shards, args)
    plan = SHAPES["2p"].plan
    random = torch.Generator().manual_seed(args.seed)
    entities = torch.randint(shards.total, (args.questions + 1, 1), generator=random)
    relations = torch.randint(2 * args.relations, (args.questions + 1, 2), generator=random)
    engine.reasoner.scores(plan, entities[:1], relations[:1])  # warms up
    shards.wait()
    one_by_one = zip(entities[1:].split(1), relations[1:].split(1), strict=True)
    found, wall, processor = timed(
        lambda: [engine.reasoner.scores(plan, *slots) for slots in one_by_one]
    )
    scores = gather_columns(shards, torch.cat(found))
    return {"wall": wall, "processor": processor, "scores": scores}


def work(rank: int, world: int, args: argparse.Namespace, folder: Path) -> None:
    """What each process does; its figures go to a file."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    if world > 1:
        meet((folder / "meeting").as_uri(), rank, world, 300.0)
    found: dict[str, Any] = {"time": time_of_2p(Shards(args.entities, rank, world), args)}
    if world > 1:
        for size in (args.entities // 20, args.entities):
            found[f"a hop, {size:,} entities"] = bytes_of_a_hop(Shards(size, rank, world), args)
    torch.save(found, folder / str(rank))
    leave()


def measure(args: argparse.Namespace) -> Measured:
    """Times beside each other, for one process and for several."""
    figures: dict[str, dict[str, Any]] = {}
    alone: dict[str, Any] = {}
    missed = []
    start = context()
    for world in (1, args.shards):
        folder = args.scratch / f"ranks-{world}"
        folder.mkdir()
        processes = [
            start.Process(target=work, args=(rank, world, args, folder)) for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        ranks = [torch.load(folder / str(rank), weights_only=False) for rank in range(world)]
        times = [found.pop("time") for found in ranks]
        wall = max(each["wall"] for each in times)
        processor = sum(each["processor"] for each in times)
        alone = alone or {"wall": wall, "processor": processor, "scores": times[0]["scores"]}
        figures[f"2p, {world} rank{'s' if world > 1 else ''}"] = {
            "wall_ms": 1e3 * wall / args.questions,
            "processor_ms": 1e3 * processor / args.questions,
            "wall_ratio": wall / alone["wall"],
            "processor_ratio": processor / alone["processor"],
            "largest_difference": float(
                (times[0]["scores"] - alone["scores"]).abs().nan_to_num().max()
            ),
        }
        figures |= ranks[0]
    hops = [row["bytes"] for name, row in figures.items() if name.startswith("a hop")]
    if len(set(hops)) > 1 or any(row.get("of_formula", 0.0) > 1.1 for row in figures.values()):
        missed.append("bytes a hop")
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--entities", 200_000, tiny=400)
    benchmark.size("--facts", 500_000, tiny=800)
    benchmark.size("--relations", 50, tiny=3)
    benchmark.size("--rank", 100, tiny=8)
    benchmark.size("--k", 256, tiny=16)
    benchmark.size("--questions", 8, tiny=2)
    benchmark.size("--shards", 2, tiny=2, help="processes")
    benchmark.add_argument(
        "--calibration", default="softmax-count", help="softmax-count, sigmoid or minmax"
    )
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
