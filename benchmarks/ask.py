"""The time of a question to a warm engine, and of the first use of `world`, which trains it.

    python benchmarks/ask.py [--rounds 7]

Questions are texts, or formulas where lark is not installed. `benchmarks/startup.py` times them
from the shell.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

import tacit
from scaffold import (
    Benchmark,
    Measured,
    in_turns,
    installed,
    python,
    run_of,
    seconds,
    trained,
    world_cache,
)
from tacit.query.formula import Atom, Entity, Exists, Query, Variable

FRANCE = Entity("France")
GERMANY = Entity("Germany")
A = Variable("a")
B = Variable("b")
C = Variable("c")
QUESTIONS = {
    "1p": Query(C, Atom("borders", FRANCE, C)),
    "2p": Query(C, Exists(A, Atom("borders", FRANCE, A) & Atom("borders", A, C))),
    "2in": Query(C, Atom("borders", GERMANY, C) & ~Atom("borders", FRANCE, C)),
    "3p": Query(
        C,
        Exists(
            A, Exists(B, Atom("borders", FRANCE, A) & Atom("borders", A, B) & Atom("borders", B, C))
        ),
    ),
}
# seconds on first use on 2 cores, and milliseconds of a question
FIRST = 20.0
WARM = 20.0


def measure(args: argparse.Namespace) -> Measured:
    """Seconds of the first use, where nothing is kept yet, and milliseconds of each question."""
    figures = dict[str, dict[str, float]]()
    cache = world_cache(args)
    answerer: tacit.Engine | tacit.Run
    if args.tiny:
        answerer = tacit.open(run_of(args), device=args.device)
    elif installed("tomli_w", "first use"):
        if not any(cache.glob("world-*")):
            opened = python(
                "-c", "import tacit; tacit.open('world', device='cpu')", TACIT_CACHE=str(cache)
            )
            figures["first use"] = {"s": seconds(opened)}
        answerer = tacit.open(next(cache.glob("world-*")), device=args.device)
    else:  # no run can be written; an epoch makes weights enough
        graph = tacit.load("world")
        answerer = tacit.Engine(graph, trained(args, graph, rank=100, epochs=1)[0])
    for name, formula in QUESTIONS.items():
        question = str(formula) if find_spec("lark") else formula
        times = in_turns({"ms": partial(answerer.ask, question)}, 10 * args.rounds, args.device)
        times |= in_turns(
            {"explained_ms": partial(answerer.explain, question)}, args.rounds, args.device
        )
        figures[f"warm {name}"] = {unit: 1e3 * min(taken) for unit, taken in times.items()}
    goals = {"first use": ("s", FIRST)} | {f"warm {name}": ("ms", WARM) for name in QUESTIONS}
    missed = [
        f"{row} over {limit} {u}"
        for row, (u, limit) in goals.items()
        if figures.get(row, {u: 0})[u] > limit
    ]
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rounds", 7, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
