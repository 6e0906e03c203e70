"""How time and memory of questions, of training and of the service grow.

    python benchmarks/growth.py [--runs RUNS] \\
        [--parts entities,rank,k,atoms,facts,training,service,laptop]
    python benchmarks/growth.py --figure docs/images/growth.svg

A question's grow with entities, rank, k, atoms and known facts. Times are processor times of one
thread, means over a few questions; memory is what a question takes at most beside what lay there
before. Exponents are fitted to each, and to the work of the same run: rows scored, times entities,
times numbers of an entity. What grows faster than its work is a goal missed. Graphs are grown from
random clusters; `laptop` asks trained weights where the folder RUNS holds the runs `fb` and `nell`
(benchmarks/certified.py trains them), and a million entities grown from the latter.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import tacit
from exponents import Growth, draw
from million import fit_new_embeddings, grow
from scaffold import Benchmark, Measured, Work, status_bytes, timed
from scale import generated
from tacit.engine.answers.execution import known_answers
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.engine.search.block_expansion import BlockExpansion
from tacit.evaluate.figures import svg
from tacit.graph.graph import Graph
from tacit.links.factors import BilinearModel
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import Training
from tacit.run_folder.files import MODEL
from walks import SHAPES, Walks

TOP = 10
# times that a question is asked, unless that takes longer, in seconds
ROUNDS = 9
LONG = 0.3
# entities, and the run they are, or are grown from
LAPTOP = {15_000: "fb", 60_000: "nell", 1_000_000: "nell"}
# What may grow as the size does, though no more rows are scored: sets of entities and the numbers
# of a row are gone through, each atom is read and followed, and the first question goes through all
# facts once.
LINEAR = {
    "entities": ("ms", "first ms", "MB"),
    "rank": ("ms", "first ms"),
    "atoms": ("ms", "first ms", "read ms", "known ms", "MB"),
    "facts": ("first ms",),
}
Point = dict[str, float]


class Rows:
    """Counts of scored rows and of followed candidates; rows may be shared."""

    def __init__(self) -> None:
        self.scored = self.followed = 0

    @property
    def most(self) -> int:
        """The larger of both."""
        return max(self.scored, self.followed)


@contextmanager
def counted() -> Iterator[Rows]:
    """Counts rows where they are scored and candidates where they are followed."""
    rows = Rows()
    queries = BilinearModel.queries
    followed = BlockExpansion.from_some

    def count_scored(model: BilinearModel, heads: Tensor, relations: Tensor) -> Tensor:
        rows.scored += len(heads)
        return queries(model, heads, relations)

    def count_followed(hop: BlockExpansion, values: Tensor, *tensors: Tensor) -> None:
        rows.followed += values.numel()
        followed(hop, values, *tensors)

    with (
        patch.object(BilinearModel, "queries", count_scored),
        patch.object(BlockExpansion, "from_some", count_followed),
    ):
        yield rows


def extra_mb(work: Work) -> float:
    """The most memory that a call adds, after free memory went back to the system."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    before = status_bytes("VmRSS")
    work()
    return (status_bytes("VmHWM") - before) / 1e6


def in_rounds(work: Work) -> list[float]:
    """The processor times of a few calls in milliseconds, of fewer where they take long."""
    times: list[float] = []
    while len(times) < ROUNDS and sum(times) < 1e3 * LONG:
        times.append(timed(work).processor_ms)
    return times


def least_ms(work: Work) -> float:
    """The least processor time of a few calls."""
    return min(in_rounds(work))


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


def measure_questions(engine: Engine, texts: Sequence[str]) -> Point:
    """What questions cost: the first one of an engine, then their steps, each again and again."""
    again = partial(engine.with_settings, k=engine.settings.k)  # the same, with nothing made yet
    first = timed(partial(again().ask, texts[0], TOP)).processor_ms
    engine = again()
    questions = [engine.prepare(text) for text in texts]
    _ = engine.atoms, engine.reasoner  # made once for all questions
    memory = extra_mb(partial(engine.ask, questions[0], TOP))
    taken = []
    scored = 0.0
    for question in questions:
        with counted() as rows:
            times = in_rounds(partial(engine.ask, question, TOP))
        taken.append(min(times))
        scored += rows.most / len(times) / len(texts)
    return {
        "ms": mean(taken),
        "first ms": first,
        "read ms": mean([least_ms(partial(engine.prepare, text)) for text in texts]),
        "known ms": mean([least_ms(partial(_known, engine, question)) for question in questions]),
        "MB": max(memory, 0.1),
        "rows": scored,
        "work": scored * engine.graph.num_entities * _width(engine),
    }


def _width(engine: Engine) -> int:
    """How many numbers make an entity."""
    assert isinstance(engine.scorer, BilinearModel)
    return engine.scorer.keys().shape[1]


def _known(engine: Engine, question: BoundQuery) -> object:
    slots = (
        torch.tensor([ids], dtype=torch.long) for ids in (question.entities, question.relations)
    )
    return known_answers(engine.parts, question.compiled.plan, *slots)


def made(args: argparse.Namespace, **sizes: int) -> Engine:
    """An engine over a graph that is grown to some sizes."""
    options = {
        "entities": args.fixed,
        "rank": args.rank,
        "relations": args.relations,
        "runs": None,
        **sizes,
    }
    options.setdefault("facts", 5 * options["entities"])
    model, graph = fit_new_embeddings(argparse.Namespace(seed=args.seed, **options))
    graph.index()  # a run has it
    return Engine(graph, model, search="auto")


def numbers(text: str) -> list[int]:
    """Numbers that are joined by commas."""
    return [int(number) for number in text.split(",")]


def over(
    args: argparse.Namespace, part: str, size: str, engines: Mapping[int, Callable[[], Engine]]
) -> list[Growth]:
    """Questions of some shapes asked of one engine, one after the other, each made in its turn."""
    points: dict[str, dict[int, Point]] = {}
    for x, make in engines.items():
        engine = make()
        walks = Walks(engine, args.seed)
        for shape in SHAPES:
            texts = walks.questions(shape, args.questions)
            points.setdefault(shape, {})[x] = measure_questions(engine, texts)
            if shape == "2p":
                points.setdefault("2p, beam", {})[x] = measure_questions(
                    engine.with_settings(search="beam"), texts
                )
        print(f"{part}: {x:,}", file=sys.stderr)
    linear = LINEAR.get(part, ())
    return [
        Growth(part, name, size, each, counted="work", linear=linear)
        for name, each in points.items()
    ]


def entities(args: argparse.Namespace) -> list[Growth]:
    """Questions over more and more entities, with five facts each."""
    return over(
        args,
        "entities",
        "entities",
        {n: partial(made, args, entities=n) for n in numbers(args.entities)},
    )


def rank(args: argparse.Namespace) -> list[Growth]:
    """Questions to larger and larger models."""
    return over(args, "rank", "rank", {d: partial(made, args, rank=d) for d in numbers(args.ranks)})


def facts(args: argparse.Namespace) -> list[Growth]:
    """Questions over as many entities with more and more facts."""
    return over(
        args, "facts", "facts", {m: partial(made, args, facts=m) for m in numbers(args.facts)}
    )


def k(args: argparse.Namespace) -> list[Growth]:
    """Questions that follow more and more candidates."""
    engine = made(args)
    return over(
        args, "k", "k", {size: partial(engine.with_settings, k=size) for size in numbers(args.ks)}
    )


def atoms(args: argparse.Namespace) -> list[Growth]:
    """Chains, stars and cycles of more and more atoms; cycles are over fewer entities."""
    points: dict[str, dict[int, Point]] = {}
    engine = made(args)
    small = made(args, entities=args.cycled).with_settings(k=args.cycle_k)
    beam = engine.with_settings(search="beam")
    for name, each in (
        ("chain", engine),
        ("chain, beam", beam),
        ("star", engine),
        ("cycle", small),
    ):
        walks = Walks(each, args.seed)
        form = name.split(",")[0]
        for size in numbers(args.atoms):
            if form != "cycle" or size > 2:
                texts = walks.questions(form, args.questions, size)
                points.setdefault(name, {})[size] = measure_questions(each, texts)
        print(f"atoms: {name}", file=sys.stderr)
    return [
        Growth("atoms", name, "atoms", each, counted="work", linear=LINEAR["atoms"])
        for name, each in points.items()
    ]


def training(args: argparse.Namespace) -> list[Growth]:
    """Training on more and more facts: preparation, the order of an epoch, a step, an epoch."""
    points: dict[int, Point] = {}
    settings = TrainSettings(
        rank=args.rank, batch=args.batch, negatives=args.negatives, device="cpu"
    )
    # loads what it needs
    Training(generated(args.fixed, args.batch, args.relations, args.seed), settings).step(0)
    for count in numbers(args.facts):
        graph = generated(args.fixed, count, args.relations, args.seed)
        trained = Training(graph, settings)
        begun = min(
            timed(partial(trained.step, epoch * trained.steps)).processor_ms
            for epoch in range(args.steps)
        )
        steps = range(1, 1 + min(args.steps, trained.steps - 1))
        last = (args.steps - 1) * trained.steps  # the first step of the last epoch that has begun
        step = min(timed(partial(trained.step, last + number)).processor_ms for number in steps)
        points[count] = {
            "making ms": least_ms(partial(Training, graph, settings)),
            "step ms": step,
            "first step ms": begun,
            "epoch s": (begun + (trained.steps - 1) * step) / 1e3,
            "MB": extra_mb(partial(_begun, graph, settings)),
        }
    # the first step of an epoch puts its facts in order
    linear = ("making ms", "first step ms", "epoch s", "MB")
    return [Growth("training", "an epoch", "facts", points, "epoch s", None, linear)]


def _begun(graph: Graph, settings: TrainSettings) -> object:
    return Training(graph, settings).step(0)


def service(args: argparse.Namespace) -> list[Growth]:
    """Processor time and latency of a question with more and more clients and workers."""
    from service import service as served

    path = args.scratch / "served"
    size = argparse.Namespace(
        entities=args.fixed,
        facts=5 * args.fixed,
        relations=args.relations,
        rank=args.rank,
        runs=None,
        seed=args.seed,
    )
    grow(size, path)
    walks = Walks(tacit.open(path, device="cpu").engine, args.seed)
    texts = [text for shape in ("1p", "2i", "2p") for text in walks.questions(shape, args.asked)]
    bodies = [json.dumps({"query": text}).encode() for text in texts]
    found: dict[int, dict[int, Point]] = {}
    for workers in numbers(args.workers):
        with served(path, "--workers", str(workers)) as (process, port):
            loaded = partial(_loaded, process, port, bodies)
            loaded(numbers(args.clients)[-1], 0.5)  # every worker answers once
            found[workers] = {
                clients: loaded(clients, args.seconds) for clients in numbers(args.clients)
            }
    most = numbers(args.clients)[-1]
    by_workers: dict[int, Point] = {workers: points[most] for workers, points in found.items()}
    growths = [
        Growth(
            "service", f"{workers} workers", "clients", points, "processor ms", None, ("wait ms",)
        )
        for workers, points in found.items()
    ]
    if len(found) > 1:
        growths.append(
            Growth(
                "workers", f"{most} clients", "workers", by_workers, "MB", None, ("MB", "wait ms")
            )
        )
    return growths


def _loaded(process: Any, port: int, bodies: list[bytes], clients: int, seconds: float) -> Point:
    """What clients see who ask one question after the other for some seconds."""
    from service import load

    tally = asyncio.run(load(process, port, bodies, clients, seconds))
    if tally.errors:
        raise SystemExit(f"the service answers with an error: {tally.errors[0]}")
    return {
        "processor ms": 1e3 * tally.processor / len(tally.seconds),
        "wait ms": tally.percentile(0.5),
        "MB": tally.memory[-1],
        "questions": float(len(tally.seconds)),
    }


def laptop(args: argparse.Namespace) -> dict[str, Point]:
    """What to expect: a run is opened, asked a question for the first time, and again."""
    rows: dict[str, Point] = {}
    for size, name in zip(numbers(args.laptop), LAPTOP.values(), strict=True):
        folder = args.runs / name if args.runs is not None else args.scratch / f"laptop-{size}"
        if args.runs is None or size == max(LAPTOP):
            folder = args.scratch / f"laptop-{size}"
            options = argparse.Namespace(
                entities=size,
                facts=5 * size,
                relations=args.relations,
                rank=args.rank,
                runs=args.runs,
                seed=args.seed,
            )
            grow(options, folder)
        walks = Walks(tacit.open(folder, device="cpu").engine, args.seed)
        for shape in SHAPES:
            texts = walks.questions(shape, args.questions)
            engine = tacit.open(folder, device="cpu").engine
            first = timed(partial(engine.ask, texts[0], TOP)).processor_ms
            memory = extra_mb(partial(tacit.open(folder, device="cpu").engine.ask, texts[0], TOP))
            done = [timed(partial(engine.ask, text, TOP)) for text in texts]
            rows[f"laptop, {size:,} entities, {shape}"] = {
                "first ms": first,
                "ms": mean([each.processor_ms for each in done]),
                "certified": mean([float(bool(each.made.certified)) for each in done]),
                "rows": mean([float(each.made.rows or 0) for each in done]),
                "MB": memory,
                "model MB": (folder / MODEL).stat().st_size / 1e6,
            }
    return rows


PARTS: dict[str, Callable[[argparse.Namespace], list[Growth]]] = {
    "entities": entities, "rank": rank, "k": k, "atoms": atoms, "facts": facts,
    "training": training, "service": service,
}  # fmt: skip


def measure(args: argparse.Namespace) -> Measured:
    """The parts that were asked for, their exponents, and what grows too fast."""
    names = args.parts.split(",")
    if unknown := set(names) - {*PARTS, "laptop"}:
        raise SystemExit(
            f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)} and laptop"
        )
    figures: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    growths: list[Growth] = []
    for part in names:
        if part == "laptop":
            rows, seconds[part], _ = timed(partial(laptop, args))
            figures |= rows
        else:
            found, seconds[part], _ = timed(partial(PARTS[part], args))
            growths += found
    for each in growths:
        figures |= each.figures()
    figures |= {f"{part}, the whole part": {"seconds": taken} for part, taken in seconds.items()}
    if args.figure is not None and growths:
        args.figure.parent.mkdir(parents=True, exist_ok=True)
        args.figure.write_text(svg(draw(growths)), encoding="utf-8")
    weights = "random clusters" if args.runs is None else "trained"
    return Measured(
        figures, {"laptop, weights": weights}, [said for each in growths for said in each.faster()]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, draw it if asked to, and fail if growth is too fast."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(threads=1)
    benchmark.add_argument(
        "--parts", default=",".join([*PARTS, "laptop"]), help="some, joined by commas"
    )
    benchmark.add_argument(
        "--runs", type=Path, help="a folder with the runs fb and nell, for laptop"
    )
    benchmark.add_argument("--figure", type=Path, help="an SVG file to draw")
    benchmark.size("--entities", "10000,30000,100000,300000,1000000", tiny="60,120,240")
    benchmark.size("--ranks", "25,50,100,200,400", tiny="2,4")
    benchmark.size("--ks", "16,64,256,1024", tiny="2,8")
    benchmark.size("--atoms", "1,2,3,4,6,8,12", tiny="1,2,3,4")
    benchmark.size(
        "--facts",
        "25000,100000,400000,1600000",
        tiny="200,400",
        help="of questions and of training",
    )
    benchmark.size("--workers", "1,2,4", tiny="1")
    benchmark.size("--clients", "1,4,16,32", tiny="1,2")
    benchmark.size("--laptop", ",".join(map(str, LAPTOP)), tiny="60,80,100", help="entities")
    benchmark.size("--fixed", 20_000, tiny=60, help="entities, where something else grows")
    benchmark.size(
        "--cycled", 1000, tiny=40, help="entities of the graph whose cycles are asked for"
    )
    benchmark.size("--cycle-k", 32, tiny=4)
    benchmark.size("--relations", 100, tiny=3)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--questions", 3, tiny=1, help="of each shape and size")
    benchmark.size("--asked", 60, tiny=4, help="questions of each shape that clients ask")
    benchmark.size("--batch", 1000, tiny=8)
    benchmark.size("--negatives", 1000, tiny=4)
    benchmark.size("--steps", 10, tiny=2)
    benchmark.size("--seconds", 1.5, tiny=0.1, help="of every load of the service")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
