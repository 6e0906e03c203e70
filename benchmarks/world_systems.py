"""Every encoder on `world`, trained for two CPU minutes, beside ComplEx and its adapter.

    python benchmarks/world_systems.py [--rows gqe,q2b] [--minutes 2] [--again]

All are asked the same queries by `tacit compare`. A row is written as soon as it is there, and one
that has its file of results is not made again unless `--again`; the table at the end is of all
there are. Fails where an encoder with a goal stays below it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import tacit
from comparison import show
from scaffold import Benchmark, provenance, read_results, run_of, write
from tacit.encode.settings import ENCODERS
from tacit.evaluate.results import percentages
from tacit.run_folder.files import ON_PREDICTOR

PREDICTOR = "complex"
ADAPTED = "complex-adapted"
GOALS = {"gqe": {"avg_p": 50.0}, "q2b": {"avg_p": 54.0}, "gnnqe": {"avg_p": 55.0, "avg_n": 20.0}}
SHRUNK: dict[str, Any] = {
    "minutes": None, "steps": 2, "width": 4, "hidden": 4, "layers": 1, "bases": 2, "batch": 16,
    "negatives": 4, "validate_queries": 2,
}  # fmt: skip


def made(name: str, args: argparse.Namespace) -> Path:
    """The run of a row, trained in a folder that does not stay."""
    run = run_of(args)
    out: Path = args.scratch / name
    if name == PREDICTOR:
        return run
    if name == ADAPTED:
        shutil.copytree(run, out)
        sizes: dict[str, Any] = {"steps": 2, "batch": 4, "validate_queries": 2} if args.tiny else {}
        adaptation = tacit.open(out, device="cpu").adapt(count=args.lessons, device="cpu", **sizes)
        print(f"adapter: {adaptation['verdict']}", flush=True)
        return out
    source: Any = run if name in ON_PREDICTOR else tacit.open(run, device="cpu").graph
    settings = {"minutes": args.minutes} | (SHRUNK if args.tiny else {})
    tacit.train_encoder(
        source, out, model=name, device="cpu", seed=args.seed, progress=False, **settings
    )
    return out


def result(name: str, args: argparse.Namespace) -> dict[str, Any] | None:
    """The figures of a row, as `compare` has them; none where no adapter was worth keeping."""
    run = made(name, args)
    what = {PREDICTOR: "predictor", ADAPTED: "adapted"}.get(name, "encoder")
    compared = tacit.compare([run], limit=args.count, seed=args.seed, device="cpu").to_json()
    found: dict[str, Any] | None = next(
        (row for row in compared["rows"] if row["what"] == what), None
    )
    if found is None:
        return None
    shared = {key: compared[key] for key in ("graph", "split", "observed", "ties")}
    return found | provenance(args) | {"run": name, "compared": shared, "minutes": args.minutes}


def measure(args: argparse.Namespace) -> None:
    """Make the rows that are missing, print all, and check the goals."""
    torch.manual_seed(args.seed)
    folder: Path = args.out / "world-systems"
    names = args.rows.split(",") if args.rows else [PREDICTOR, ADAPTED, *ENCODERS]
    if unknown := set(names) - {PREDICTOR, ADAPTED, *ENCODERS}:
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}")
    for name in names:
        path = folder / f"{name}.json"
        if path.exists() and not args.again:
            continue
        report = result(name, args)
        if report is not None:
            write(path, report)
            print(
                name,
                {key: round(value, 1) for key, value in percentages(report).items()},
                flush=True,
            )
    reports = {
        name: read_results(folder / f"{name}.json")
        for name in names
        if (folder / f"{name}.json").exists()
    }
    figures = {name: percentages(report) for name, report in reports.items()}
    show(
        {name: {**row, "parameters": reports[name]["parameters"]} for name, row in figures.items()}
    )
    missed = [
        f"{name} {average} {figures[name].get(average, 0.0):.1f} < {goal}"
        for name, goals in GOALS.items()
        if name in figures
        for average, goal in goals.items()
        if figures[name].get(average, 0.0) < goal
    ]
    if missed and not args.tiny:
        sys.exit(f"goals missed: {', '.join(missed)}")


def main(argv: Sequence[str] | None = None) -> None:
    """Compare all rows."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--rows", help="some of them, joined by commas; all by default")
    benchmark.add_argument(
        "--again", action="store_true", help="also make rows that have a file of results"
    )
    benchmark.size("--minutes", 2.0, tiny=2.0, help="of training, for each encoder")
    benchmark.size("--count", 200, tiny=2, help="test queries of each shape")
    benchmark.size(
        "--lessons", 2000, tiny=20, help="queries of each shape that the adapter learns from"
    )
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
