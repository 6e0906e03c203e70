"""Each encoder's training step beside its arithmetic, and the queries a second it answers.

    python benchmarks/encoders.py --device cuda --data DATA
    python benchmarks/encoders.py --encoders gqe,q2b --threads 1 --data DATA

The floor of a step is its arithmetic by formula (`encoder_costs`), at the rates that plain matrix
products reach in the same run: those of the precision that training uses for products, those of
float32 for sums over pairs, which no matrix product computes. On a GPU a step is timed launched
piece by piece (eager) and recorded once and replayed (captured). For GNN-QE, relational aggregation
also stands beside plain gather and scatter.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor

from encoder_costs import step_cost
from encoder_rows import expressible
from parameters import TITLES, sizes
from scaffold import Benchmark, Measured, graph_of, in_turns
from tacit.encode.networks.aggregation import describe_messages
from tacit.encode.networks.aggregation_kernels import LEAST_VARIANCE
from tacit.encode.networks.sorted_facts import SortedFacts
from tacit.encode.settings import EncodeSettings
from tacit.encode.training.draws import counts
from tacit.encode.training.encoder_training import WARM, EncoderTraining
from tacit.evaluate.protocol import evaluate
from tacit.graph.graph import Graph
from tacit.links.models import make_model
from tacit.links.precision import NARROW, float32_products
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

AGGREGATED = (8, 32)  # queries, and numbers of each for an entity


def scattered(states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts) -> Tensor:
    """Mean, maximum, minimum and deviation of explicit messages, `[N, B, d] -> [N, B, 4, d]`."""
    messages = states[facts.heads] * weights[facts.relations]
    tails = facts.tails[:, None, None].expand_as(messages)
    counts = (facts.degrees() + 1)[:, None, None]
    mean = boundary.scatter_add(0, tails, messages) / counts
    square = boundary.square().scatter_add(0, tails, messages.square()) / counts
    largest = boundary.scatter_reduce(0, tails, messages, "amax")
    smallest = boundary.scatter_reduce(0, tails, messages, "amin")
    deviation = (square - mean.square()).clamp(min=LEAST_VARIANCE).sqrt()
    return torch.stack((mean, largest, smallest, deviation), 2)


def aggregation(graph: Graph, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """One aggregation over all facts, there and back: in one pass, and by gather and scatter."""
    batch, width = (2, 2) if args.tiny else AGGREGATED
    facts = SortedFacts(graph.triples("train"), graph.num_entities, graph.num_relations).to(
        args.device
    )
    draw = torch.Generator(args.device).manual_seed(args.seed)
    rows = (graph.num_entities, graph.num_relations, graph.num_entities)
    leaves = [
        torch.randn(n, batch, width, device=args.device, generator=draw).requires_grad_()
        for n in rows
    ]
    ways = {"aggregation in one pass": describe_messages, "aggregation by scatter": scattered}

    def both_ways(aggregate: Callable[..., Tensor]) -> None:
        aggregate(*leaves, facts).square().sum().backward()

    times = in_turns(
        {name: partial(both_ways, aggregate) for name, aggregate in ways.items()},
        args.turns,
        args.device,
    )
    taken = {name: 1e3 * statistics.median(each) for name, each in times.items()}
    return {
        name: {"eager ms": each, "times one pass": each / taken[next(iter(ways))]}
        for name, each in taken.items()
    }


def rates(args: argparse.Namespace) -> dict[str, float]:
    """FLOP a second of matrix products by precision (float32 on a CPU), and bytes of a copy."""
    size = 64 if args.tiny else 8192 if args.device == "cuda" else 1024
    left, right = (torch.randn(size, size, device=args.device) for _ in range(2))
    found = {}
    for precision in ("float32", "tf32", "bf16"):
        kind = NARROW[precision] if precision in NARROW and args.device == "cuda" else torch.float32
        factors = left.to(kind), right.to(kind)
        with float32_products(precision):
            taken = in_turns({precision: partial(torch.mm, *factors)}, args.turns, args.device)[
                precision
            ]
        found[precision] = 2 * size**3 / min(taken)
    taken = in_turns({"copy": lambda: right.copy_(left)}, args.turns, args.device)["copy"]
    return found | {"bytes": 2 * 4 * size**2 / min(taken)}


def step_times(training: EncoderTraining, args: argparse.Namespace) -> dict[str, float]:
    """The time of a step in ms, eager and, on a GPU where it can be, captured."""
    numbers = count()
    module = training.module
    found = dict[str, float]()
    recorded = args.device == "cuda" and module.captured
    for name, captured in {"eager ms": False, "captured ms": True}.items():
        if captured and not recorded:
            break
        module.captured = captured
        with float32_products(training.products):
            for _ in range(WARM + 1 if captured else 1):
                training.step(next(numbers))
            times = in_turns({name: lambda: training.step(next(numbers))}, args.turns, args.device)[
                name
            ]
        found[name] = 1e3 * statistics.median(times)
    return found


def answered(training: EncoderTraining, test: Mapping[str, QuerySet]) -> float:
    """The queries of all shapes that are answered in a second, ranked among all entities."""
    encoder = training.module.eval()
    encoder.renew()
    query_sets, _ = expressible(encoder, test)
    reasoner = encoder.reasoner()
    for _ in range(2):  # the first time kernels are made
        results = evaluate(reasoner, query_sets)
    figures = results.figures.values()
    return sum(map(len, figures)) / sum(each.seconds for each in figures)


def row(
    model: str,
    graph: Graph,
    test: Mapping[str, QuerySet],
    rate: Mapping[str, float],
    args: argparse.Namespace,
) -> dict[str, Any]:
    """The figures of an encoder: its step beside the floor, and its answers a second."""
    shrunk = (
        {"width": 4, "hidden": 4, "layers": 1, "bases": 2, "batch": 16, "negatives": 4}
        if args.tiny
        else {}
    )
    settings = EncodeSettings.of(
        {"model": model, "device": args.device, "seed": args.seed, **shrunk}
    )
    settings = settings.with_derived(graph.num_entities)
    predictor = None
    if model == "lmpnn":
        predictor = make_model("complex", graph.num_entities, graph.num_relations, args.rank).to(
            args.device
        )
        torch.nn.init.normal_(
            predictor.head_table.weight, generator=torch.Generator(args.device).manual_seed(0)
        )
        predictor.requires_grad_(False)
    training = EncoderTraining(graph, settings, valid={}, scorer=predictor)
    taken = step_times(training, args)
    mix = counts(
        {name: SHAPES[name].plan for name in training.batches.shapes},
        settings.batch,
        settings.negated,
    )
    cost = step_cost(model, settings, sizes(graph, predictor), mix)
    rounded = cost.products / rate[training.precision] + cost.matched / rate[training.products]
    floor = 1e3 * (rounded + cost.others / rate["float32"])
    best = min(taken.values())
    return {
        **taken,
        "floor ms": floor,
        "times floor": best / floor,
        "adam ms": 1e3 * cost.adam_bytes / rate["bytes"],
        "queries": settings.batch,
        "learned queries_per_s": 1e3 * settings.batch / best,
        "answered queries_per_s": answered(training, test),
    }


def measure(args: argparse.Namespace) -> Measured:
    """Time all encoders, then the aggregation of GNN-QE."""
    graph = graph_of(args)
    test = {
        name: sample(graph, shape, "test", args.count, seed=args.seed).queries
        for name, shape in SHAPES.items()
    }
    rate = rates(args)
    figures: dict[str, dict[str, Any]] = {}
    for model in args.encoders.split(","):
        figures[TITLES[model]] = row(model, graph, test, rate, args)
        if args.device == "cuda":
            torch.cuda.empty_cache()
        print(
            TITLES[model],
            {name: round(value, 3) for name, value in figures[TITLES[model]].items()},
            flush=True,
        )
    if "gnnqe" in args.encoders:
        figures |= aggregation(graph, args)
    return Measured(figures, {"rates": rate, "graph": graph.name})


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--graph", default="NELL995")
    benchmark.add_argument(
        "--encoders", default=",".join(TITLES), help="some of them, joined by commas"
    )
    benchmark.size("--rank", 1000, tiny=4, help="of the link predictor under LMPNN")
    benchmark.size("--count", 50, tiny=2, help="test queries of each shape")
    benchmark.size("--turns", 5, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
