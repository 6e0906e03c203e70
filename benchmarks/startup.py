"""How long `tacit --help` takes: the best of several runs, beside a bare interpreter.

python benchmarks/startup.py [--runs 10]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import tacit": ["-c", "import tacit"],
    "tacit --help": ["-m", "tacit", "--help"],
    "tacit data --help": ["-m", "tacit", "data", "--help"],
}
LIMIT = 0.3  # seconds for each


def best_of(runs: int, arguments: list[str]) -> float:
    """The shortest of several runs, in seconds: the rest is what else the machine did."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print a table and write `benchmarks/results/startup.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    seconds = {name: best_of(runs, arguments) for name, arguments in COMMANDS.items()}
    bare = seconds["python -c pass"]
    for name, taken in seconds.items():
        print(f"{name:20} {1000 * taken:6.0f} ms   {taken / bare:4.1f} x bare")
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    rows = {name: {"seconds": round(taken, 4), "ratio": round(taken / bare, 2)} for name, taken in seconds.items()}
    (folder / "startup.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    slow = [name for name, taken in seconds.items() if taken > LIMIT]
    if slow:
        sys.exit(f"over {LIMIT} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
