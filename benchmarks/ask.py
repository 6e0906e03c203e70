"""The time of a question: from the shell beside `import torch`, of an engine that is warm, and on first use.

    python benchmarks/ask.py [--rounds 7]

`world` is trained once into a cache of its own; after that `tacit ask world` and `python -c 'import torch'` run in
turns, and the best rounds are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

import tacit

QUESTIONS = {
    "1p": "?c : borders(France, ?c)",
    "2p": "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)",
    "2in": "?c : borders(Germany, ?c) & !borders(France, ?c)",
    "3p": "?c : exists ?a, ?b . borders(France, ?a) & borders(?a, ?b) & borders(?b, ?c)",
}
LATER = 0.8  # seconds after `import torch`
WARM = 20.0  # milliseconds
FIRST = 20.0  # seconds, on 2 cores


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def shell(*arguments: str) -> Callable[[], object]:
    """A command of this Python in a process of its own."""
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def measure(rounds: int) -> dict[str, float]:
    """All times: seconds from the shell, milliseconds of a warm engine."""
    first = seconds(shell("-m", "tacit", "ask", "world", QUESTIONS["1p"]))
    bare, asked = shell("-c", "import torch"), shell("-m", "tacit", "ask", "world", QUESTIONS["2p"])
    turns = [(seconds(bare), seconds(asked)) for _ in range(rounds)]
    torch_s, ask_s = (min(column) for column in zip(*turns, strict=True))
    found = {"first_use_s": first, "import_torch_s": torch_s, "ask_s": ask_s, "later_s": ask_s - torch_s}
    engine = tacit.open("world")
    for name, question in QUESTIONS.items():
        engine.ask(question)
        ask, explain = partial(engine.ask, question), partial(engine.explain, question)
        found[f"warm_{name}_ms"] = 1e3 * min(seconds(ask) for _ in range(10 * rounds))
        found[f"explained_{name}_ms"] = 1e3 * min(seconds(explain) for _ in range(rounds))
    return found


def main() -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TACIT_CACHE"] = cache
        found = measure(given.rounds)
    for name, value in found.items():
        print(f"{name:18}{value:9.2f}")
    given.out.mkdir(exist_ok=True)
    report = {"settings": {"threads": torch.get_num_threads(), "rounds": given.rounds}, "results": found}
    (given.out / "ask.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    goals = {"later_s": LATER, "first_use_s": FIRST} | {f"warm_{name}_ms": WARM for name in QUESTIONS}
    missed = [f"{name} over {limit}" for name, limit in goals.items() if found[name] > limit]
    if missed:
        raise SystemExit(", ".join(missed))


if __name__ == "__main__":
    main()
