"""Questions and a short training, on idle cores and on cores that are busy.

    python benchmarks/busy.py [--run RUN] [--against CHECKOUT]
    python benchmarks/busy.py --cycles [--run RUN]

Each question is asked several times on idle cores, then as often beside as many processes as there
are cores, which do nothing but run. By the clock medians count, since a process takes turns with
others; of processor time, that of all threads together, the least. The ratio is what being busy
costs: beside as many processes as cores, one thread gets two thirds of a core at best. `rows` are
those that the plan names, at the k of the engine, before any is shared.

Cycles hang on an entity, but for the open triangle, whose variables nothing narrows. With
`--cycles` they alone are measured, on one thread and idle cores, for all answers and for those that
the facts do not imply: beside the rows that the plan names stand those that were scored, and how
many values of cut variables were tried.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tacit
from scaffold import Benchmark, Measured, Timed, Work, run_of, timed
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.raw_scores import Products
from tacit.graph.graph import Graph
from tacit.query.formula import quoted

QUESTIONS = {
    "1p": "R(E, ?c)",
    "2p": "R(E, ?a) & R(?a, ?c)",
    "3p": "R(E, ?a) & R(?a, ?b) & R(?b, ?c)",
    "2i": "R(E, ?c) & R(?c, E)",
    "pni": "R(E, ?a) & R(?a, ?c) & !R(E, ?c)",
    "triangle": "R(E, ?a) & R(?a, ?b) & R(?b, ?c) & R(?c, ?a)",
    "4-cycle": "R(E, ?a) & R(?a, ?b) & R(?b, ?c) & R(?c, ?d) & R(?d, ?a)",
    "5-cycle": "R(E, ?a) & R(?a, ?b) & R(?b, ?c) & R(?c, ?d) & R(?d, ?e) & R(?e, ?a)",
    "6-cycle": "R(E, ?a) & R(?a, ?b) & R(?b, ?c) & R(?c, ?d) & R(?d, ?e) & R(?e, ?f) & R(?f, ?a)",
    "two cycles": "R(E, ?a) & R(?a, ?b) & R(?b, ?c) & R(?c, ?a) & R(?c, ?d) & R(?d, ?e) & "
    "R(?e, ?c)",
    "open triangle": "R(?c, ?a) & R(?a, ?b) & R(?b, ?c)",
}
# what being busy may cost, and milliseconds of a cycle on idle cores
TIMES = 3.0
CYCLE = 500.0
LONG = 0.3  # seconds after which few rounds are enough


def texts(graph: Graph) -> dict[str, str]:
    """The questions, about France and what borders what, or about whatever a graph says most of."""
    relation = "borders"
    entity = "France"
    if relation not in graph.relations or entity not in graph.entities:
        most = int(np.bincount(graph.train[:, 1]).argmax())
        relation = graph.relations[most]
        entity = graph.entities[
            int(np.bincount(graph.train[graph.train[:, 1] == most, 0]).argmax())
        ]
    filling = {"R": quoted(relation), "E": quoted(entity)}
    return {
        name: "?c : " + re.sub(r"\b[RE]\b(?=[(,)])", lambda slot: filling[slot[0]], atoms)
        for name, atoms in QUESTIONS.items()
    }


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Processes that do nothing but run."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def repeated(work: Work, rounds: int, warm: bool = False) -> tuple[float, float]:
    """Median wall and least processor milliseconds; slow work is repeated fewer times."""
    if not warm:
        work()
    taken: list[Timed[object]] = []
    while len(taken) < rounds and (
        len(taken) < 2 or sum(each.wall for each in taken) < rounds * LONG
    ):
        taken.append(timed(work))
    return statistics.median(each.ms for each in taken), min(each.processor_ms for each in taken)


def measure(args: argparse.Namespace) -> Measured:
    """Times of everything on idle cores and on busy ones, or of cycles alone."""
    run = tacit.open(run_of(args, args.run))
    args.run = Path(args.run).name  # the results name the run, not where it lies
    return measure_cycles(run, args.rounds) if args.cycles else measure_busy(run, args)


def measure_cycles(run: tacit.Run, rounds: int) -> Measured:
    """Times of the cycles on one thread, and the rows that they take."""
    import torch

    torch.set_num_threads(1)
    figures: dict[str, dict[str, Any]] = {}
    for name, text in _cycles(texts(run.graph)).items():
        for new in (False, True):
            work = partial(run.ask, text, new=new)
            with scored_rows() as scored:
                answers = work()
            wall, processor = repeated(work, rounds, warm=True)
            figures[f"{name}, new answers" if new else name] = {
                "rows": _rows(run.engine.describe(text)),
                "scored": sum(scored),
                "tried": answers.rows,
                "certified": answers.certified,
                "ms": wall,
                "processor_ms": processor,
            }
    missed = [
        f"{name} over {CYCLE:.0f} ms"
        for name in _cycles(figures)
        if figures[name]["processor_ms"] > CYCLE
    ]
    missed = missed if run.graph.name == "world" else []
    return Measured(
        figures, {"graph": run.graph.name}, missed, kind=f"cycles-{run.graph.name.lower()}"
    )


@contextmanager
def scored_rows() -> Iterator[list[int]]:
    """The sizes of the batches of rows that are scored meanwhile."""
    sizes = list[int]()
    products = Products.blocks
    rows = Atoms.rows

    def counted_products(raw: Products, heads: Any, *rest: Any) -> Any:
        sizes.append(len(heads))
        return products(raw, heads, *rest)

    def counted_rows(atoms: Atoms, heads: Any, *rest: Any) -> Any:
        sizes.append(len(heads))
        return rows(atoms, heads, *rest)

    with (
        patch.object(Products, "blocks", counted_products),
        patch.object(Atoms, "rows", counted_rows),
    ):
        yield sizes


def _cycles(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if "cycle" in name or "triangle" in name}


def measure_busy(run: tacit.Run, args: argparse.Namespace) -> Measured:
    """Times of everything on idle cores and on busy ones."""
    questions = texts(run.graph)
    options: dict[str, Any] = {
        "epochs": 1 if args.tiny else 3,
        "progress": False,
        "device": "cpu",
        "force": True,
    }
    works: dict[str, Work] = {name: partial(run.ask, text) for name, text in questions.items()}
    works["training"] = partial(tacit.train, run.graph, args.scratch / "trained", **options)
    idle = {name: repeated(work, args.rounds) for name, work in works.items()}
    with busy_cores(args.busy or os.cpu_count() or 1):
        busy = {name: repeated(work, args.rounds) for name, work in works.items()}
    figures: dict[str, dict[str, Any]] = {
        name: {
            "rows": _rows(run.engine.describe(questions[name])) if name in questions else None,
            "idle_ms": idle[name][0],
            "busy_ms": busy[name][0],
            "times": busy[name][0] / idle[name][0],
            "idle_processor_ms": idle[name][1],
            "busy_processor_ms": busy[name][1],
        }
        for name in works
    }
    missed = [
        f"{name} takes {row['times']:.1f} times as long"
        for name, row in figures.items()
        if row["times"] > TIMES
    ]
    missed += [
        f"{name} over {CYCLE:.0f} ms"
        for name in _cycles(figures)
        if figures[name]["idle_ms"] > CYCLE
    ]
    return Measured(figures, {"graph": run.graph.name}, missed, kind=run.graph.name.lower())


def _rows(description: str) -> int:
    """How many rows the last line of a plan names."""
    last = description.splitlines()[-1]
    return int(
        re.findall(r"[\d,]+", last.partition(" in all")[2] if ":" in last else last)[0].replace(
            ",", ""
        )
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--run", default="world", help="a run, or world")
    benchmark.add_argument(
        "--cycles", action="store_true", help="cycles alone, with the rows that they take"
    )
    benchmark.size("--busy", 0, tiny=1, help="processes that keep cores busy; as many as cores")
    benchmark.size("--rounds", 9, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
