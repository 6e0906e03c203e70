"""How long `tacit --help` takes: the best of several rounds, beside a bare interpreter.

python benchmarks/startup.py [--rounds 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scaffold import Benchmark, Measured, in_turns, python

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import tacit": ("-c", "import tacit"),
    "tacit --help": ("-m", "tacit", "--help"),
    "tacit data --help": ("-m", "tacit", "data", "--help"),
}
LIMIT = 300.0  # milliseconds for each


def measure(given: argparse.Namespace) -> Measured:
    """Milliseconds of each command: the shortest, since the rest is what else the machine did."""
    works = {name: python(*arguments) for name, arguments in COMMANDS.items()}
    best = {name: 1e3 * min(times) for name, times in in_turns(works, given.rounds, warm_up=not given.tiny).items()}
    bare = best["python -c pass"]
    figures = {name: {"ms": taken, "times bare": taken / bare} for name, taken in best.items()}
    return Measured(figures, missed=[f"{name} over {LIMIT} ms" for name, taken in best.items() if taken > LIMIT])


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rounds", 10, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
