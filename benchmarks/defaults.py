"""What `tacit train` chooses by the size of a graph, beside the best of a grid.

    python benchmarks/defaults.py --data DATA [--graphs world,umls,kinship,nations]
    python benchmarks/defaults.py --data DATA --graphs CoDEx-s --device cuda

Everything is trained as `tacit train` does it, validated on questions. The best of the grid is the
one with the best link prediction on validation facts; its test MRR is what the default is held
against. Fails where the default is more than 0.01 below it, or a validation takes more than a tenth
of the epochs between two.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch

from scaffold import Benchmark, Measured, graph_of, wait
from tacit.evaluate.question_validation import QuestionValidation
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validation
from tacit.links.training.link_training import train

GRID: dict[str, tuple[float, ...]] = {"rank": (100, 200), "reg": (0.005, 0.01, 0.05)}
# at most
WORSE = 0.01
SHARE = 0.1


class Timed:
    """A validation that knows how long it took, in processor time where it runs on one."""

    def __init__(self, validation: QuestionValidation, device: str) -> None:
        self.validation = validation
        self.device = device
        self.clock = time.perf_counter if device == "cuda" else time.process_time
        self.seconds = self.calls = 0.0
        _ = validation.questions  # drawn once, and no part of a validation

    def __call__(self, model: Scorer) -> dict[str, float]:
        """The figures of the validation."""
        wait(self.device)
        before = self.clock()
        figures = self.validation(model)
        wait(self.device)
        self.seconds, self.calls = self.seconds + self.clock() - before, self.calls + 1
        return figures


def trained(graph: Graph, settings: TrainSettings) -> dict[str, Any]:
    """Filtered link prediction on validation and test facts, and the cost of the training."""
    validate = Timed(QuestionValidation(graph, settings), settings.device)
    before = validate.clock()
    by_the_clock = time.perf_counter()
    epochs: list[int] = []

    def hear(event: Any) -> None:
        if event.what in ("round", "validation"):
            epochs.append(event.done)

    model = train(graph, settings, None, hear, validate=validate)
    wait(settings.device)
    taken = validate.clock() - before - validate.seconds
    share = (validate.seconds / validate.calls) / (taken / len(epochs) * settings.validate_every)
    swapped = replace(graph, valid=graph.test, test=graph.valid)
    valid, test = (Validation(facts, 10**9, 0, 500).mrr(model) for facts in (graph, swapped))
    return {
        "valid mrr": valid,
        "test mrr": test,
        "epochs": len(epochs),
        "wall s": time.perf_counter() - by_the_clock,
        "validation share": share,
    }


def candidates(graph: Graph, args: argparse.Namespace) -> Iterator[tuple[str, TrainSettings]]:
    """The default, then the grid, each with a name."""
    sizes = len(graph.train), graph.num_entities
    short: dict[str, Any] = {"epochs": args.epochs} if args.epochs else {}
    default = TrainSettings(device=args.device, seed=args.seed, **short).with_derived(*sizes)
    yield f"{graph.name}: default, rank {default.rank}, reg {default.reg:g}", default
    for values in product(*GRID.values()):
        chosen = default.changed(**dict(zip(GRID, values, strict=True)))
        if chosen != default:
            yield (
                f"{graph.name}: "
                + ", ".join(f"{name} {value:g}" for name, value in zip(GRID, values, strict=True)),
                chosen,
            )


def missed(name: str, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The goals that a graph misses."""
    default = next(iter(rows.values()))
    best = max(rows.values(), key=lambda row: float(row["valid mrr"]))
    worse = best["test mrr"] - default["test mrr"]
    share = default["validation share"]
    goals = {
        f"{name} is {worse:.4f} below the best of the grid": worse > WORSE,
        f"a validation of {name} takes {share:.2f} of the epochs between two": share > SHARE,
    }
    return [goal for goal, failed in goals.items() if failed]


def measure(args: argparse.Namespace) -> Measured:
    """Train the default and the grid on every graph."""
    figures: dict[str, dict[str, Any]] = {}
    failures: list[str] = []
    for name in args.graphs.split(",") if not args.tiny else ["NELL995"]:
        graph = graph_of(args, name)
        rows = {}
        for row, settings in candidates(graph, args):
            rows[row] = trained(graph, settings)
            print(
                f"{row:48s}", {key: round(value, 4) for key, value in rows[row].items()}, flush=True
            )
        figures |= rows
        failures += missed(name, rows)
    return Measured(figures, {"grid": GRID, "graphs": args.graphs}, failures)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    benchmark.add_argument(
        "--graphs", default="nations,umls,kinship,world", help="names, with commas"
    )
    benchmark.size("--epochs", 0, tiny=1, help="other than the default's")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
