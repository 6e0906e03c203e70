"""Questions without hops, asked alone: by rows of floats, and by codes of the keys first.

    python benchmarks/codes.py [NELL995|FB15k-237] --threads 2 --runs .bench/runs

All are asked in turns. Weights and questions are those of certified.py. `plain` are rows by the
product as it is written, `queries @ keys.T`, `rows` by that of the keys with the queries, which
reads the table faster. A softmax needs the sum of a row: `first` is a question whose sums nobody
has asked for yet, which reads the floats once; `again` is the same question later. `product` is the
time of its bare products with the keys. Answers by codes and by floats are compared: entities,
order, and scores to the bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from unittest import mock

import torch

import tacit
from brute_force import CALIBRATIONS
from certified import FOLDERS, questions, trained
from scaffold import Benchmark, Measured, timed
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.links import precision
from tacit.query.plans.traits import without_hops

HALF = {"1p": 0.5, "2i": 0.5, "2in": 0.5}  # of the time by plain rows


def multiply(engine: Engine, question: BoundQuery) -> None:
    """The products of a question's atoms, and nothing else."""
    for relation in question.relations:
        engine.scorer.logits(torch.tensor(question.entities[:1]), torch.tensor([relation]))


def measure(args: argparse.Namespace) -> Measured:
    """Medians over the questions of a shape, for each calibration."""
    run = trained(args)
    figures = {}
    missed = []
    question_sets = {
        name: some
        for name, some in questions(args, run).items()
        if without_hops(some[0].compiled.plan)
    }
    for calibration in CALIBRATIONS:
        for name, some in question_sets.items():
            row = compared(run, calibration, some)
            figures[f"{name} {calibration}"] = row
            if row["again_of_plain"] > HALF.get(name, 1.0) or row["unlike"]:
                missed.append(
                    f"{name} {calibration}: {row['again_of_plain']:.2f} of plain, {row['unlike']} "
                    "unlike"
                )
    return Measured(figures, missed=missed, kind=args.graph.lower())


def compared(run: tacit.Run, calibration: str, some: Sequence[BoundQuery]) -> dict[str, float]:
    """Both ways in turns, after codes were made; what differs in any bit is counted."""
    engines = {
        name: run.engine.with_settings(calibration=calibration)
        for name in ("rows", "float", "coded")
    }
    vars(engines["rows"].atoms)["codable"] = False
    times: dict[str, list[float]] = {
        name: [] for name in ("product", "plain", "rows", "first", "again")
    }
    for engine in engines.values():  # memory and codes
        for question in list(some[:1]) * 40:
            engine.ask(question)
    unlike = 0
    for question in some:
        by_rows, coded = (partial(engines[name].ask, question) for name in ("rows", "coded"))
        times["product"].append(timed(partial(multiply, engines["rows"], question)).ms)
        with mock.patch.object(precision, "in_lanes", return_value=False):
            times["plain"].append(timed(by_rows).ms)
        times["rows"].append(timed(by_rows).ms)
        times["first"].append(timed(coded).ms)
        again = timed(coded)
        times["again"].append(again.ms)
        vars(engines["float"].atoms)["codes"] = lambda questions: None
        floats = engines["float"].ask(question)
        unlike += [(a.id, a.log_score) for a in again.made] != [(a.id, a.log_score) for a in floats]
    row = {f"{name}_ms": median(taken) for name, taken in times.items()}
    shares = {
        f"{name}_of_plain": row[f"{name}_ms"] / row["plain_ms"] for name in ("first", "again")
    }
    return row | shares | {"unlike": unlike}


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument(
        "graph", nargs="?", default="NELL995", choices=list(FOLDERS)[1:], help="of --data"
    )
    benchmark.add_argument(
        "--runs", type=Path, default=Path(".bench/runs"), help="where runs are kept"
    )
    benchmark.add_argument(
        "--shapes", default="1p,2i,3i,2in,3in,2u", help="some without hops, joined by commas"
    )
    benchmark.size("--count", 60, tiny=2, help="questions of each shape")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
