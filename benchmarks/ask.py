"""The time of a question: from the shell beside `import torch`, of an engine that is warm, and on first use.

    python benchmarks/ask.py [--rounds 7]

`world` is trained once into a cache of its own; after that `tacit ask world` and `python -c 'import torch'` run in
turns, and the best rounds are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import tacit
from scaffold import Benchmark, Measured, in_turns, python, run_of, seconds

QUESTIONS = {
    "1p": "?c : borders(France, ?c)",
    "2p": "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)",
    "2in": "?c : borders(Germany, ?c) & !borders(France, ?c)",
    "3p": "?c : exists ?a, ?b . borders(France, ?a) & borders(?a, ?b) & borders(?b, ?c)",
}
LATER, FIRST = 0.8, 20.0  # seconds after `import torch`, and on first use, on 2 cores
WARM = 20.0  # milliseconds


def measure(given: argparse.Namespace) -> Measured:
    """All times: seconds from the shell, milliseconds of a warm engine."""
    run = str(run_of(given)) if given.tiny else "world"
    asked = python("-m", "tacit", "ask", run, QUESTIONS["2p"], TACIT_CACHE=str(given.scratch))
    first = {} if given.tiny else {"first use": seconds(asked)}
    works = {"import torch": python("-c", "import torch"), "tacit ask": asked}
    shell = {name: min(times) for name, times in in_turns(works, given.rounds, warm_up=False).items()} | first
    shell["after import torch"] = shell["tacit ask"] - shell["import torch"]
    engine = tacit.open(next(given.scratch.glob("world-*")))
    figures = {name: {"s": taken} for name, taken in shell.items()}
    for name, question in QUESTIONS.items():
        times = in_turns({"ms": partial(engine.ask, question)}, 10 * given.rounds)
        times |= in_turns({"explained_ms": partial(engine.explain, question)}, given.rounds)
        figures[f"warm {name}"] = {unit: 1e3 * min(taken) for unit, taken in times.items()}
    goals = {"after import torch": ("s", LATER), "first use": ("s", FIRST)}
    goals |= {f"warm {name}": ("ms", WARM) for name in QUESTIONS}
    missed = [f"{row} over {limit} {u}" for row, (u, limit) in goals.items() if figures.get(row, {u: 0})[u] > limit]
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rounds", 7, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
