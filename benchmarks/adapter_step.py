"""One step of adapter training against the bare matrix products it cannot do without.

    python benchmarks/adapter_step.py --data .bench [--run RUN] [--device cuda] [--batch 1024] \\
        [--threads 2] [--recipes asked]

Queries are sampled from NELL995: 2i, 3i, 2in and 3in in equal parts. Losses stand for the paper's
recipe (sigmoid scores, nothing observed, training queries), `asked` for the default one
(softmax-count, training facts observed, queries that need a validation fact). Without a run the
weights are random, on which speed does not depend.

The floor is the product of a row for each atom of a batch, into memory that is there already, at
the best of several block sizes. A step computes rows that many queries of a batch share once, and
keeps them as long as there is room; the floor counts them each time. So the first step of a
training, which finds nothing kept, stands apart from those that come once all queries were seen.
All are timed in turns in one run, and the best rounds count. Beside the time on the clock stands
the processor time of all threads, divided by their number, which other work on the machine disturbs
less.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engine import Bench, Times, least, times_of
from scaffold import Benchmark, Measured
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.settings import LOSSES, AdaptSettings
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

TYPES = ("2i", "3i", "2in", "3in")
EPOCH = 8  # steps until all queries were seen


def trainings(bench: Bench, args: argparse.Namespace) -> dict[str, Callable[[], AdapterTraining]]:
    """Functions that start a training with each loss, by the paper's and the default recipe."""
    shared: dict[str, Any] = {"batch": args.batch}
    settings = {
        name: AdaptSettings(loss=name, calibration="sigmoid", observed=(), held_out=False, **shared)
        for name in LOSSES
    }
    settings["asked"] = AdaptSettings(held_out=True, **shared)
    queries = {
        split: {
            name: sample(bench.graph, SHAPES[name], split, EPOCH * args.batch // len(TYPES)).queries
            for name in TYPES
        }
        for split in ("train", "valid")
    }
    return {
        name: partial(
            AdapterTraining,
            bench.graph,
            bench.model,
            queries["valid" if one.held_out else "train"],
            one,
        )
        for name, one in settings.items()
        if name in args.recipes.split(",")
    }


def measure(args: argparse.Namespace) -> Measured:
    """The time of a step with each loss, and of its products."""
    bench = Bench.of(args, "NELL995", args.run)
    cuda = args.device == "cuda"
    torch.set_float32_matmul_precision("high" if cuda else "highest")
    rows = sum(SHAPES[name].num_relations for name in TYPES) * args.batch // len(TYPES)
    block = (rows, bench.graph.num_entities) if cuda else bench.best_block()
    started = trainings(bench, args)
    going = {name: start() for name, start in started.items()}
    for training in going.values():
        for _ in range(EPOCH):
            training.step(0)
    floors = list[Times]()
    taken = dict[str, list[Times]]()
    for number in range(args.rounds + 1):
        for name, start in started.items():
            for kind, training in (("first", start()), ("later", going[name])):
                with torch.no_grad():
                    floors.append(bench.products(rows, *block))
                times = times_of(partial(training.step, 0), device=args.device)
                if number:  # the first round warms up
                    taken.setdefault(f"{name}, {kind}", []).append(times)
    floor, processor_floor = least(floors, rows)
    figures: dict[str, dict[str, Any]] = {
        "products": {"ms": floor, "processor_ms": processor_floor}
    }
    for name, rounds in taken.items():
        ms, processor = least(rounds)
        figures[name] = {
            "ms": ms,
            "ratio": ms / floor,
            "processor_ms": processor,
            "processor_ratio": processor / processor_floor,
        }
    return Measured(figures, {"graph": bench.graph.name, "rows": rows, "block": block})


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--run", type=Path, help="a run trained on NELL995")
    benchmark.add_argument(
        "--recipes", default=",".join((*LOSSES, "asked")), help="some of them, joined by commas"
    )
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--batch", 1024, tiny=4)
    benchmark.size("--rounds", 3, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
