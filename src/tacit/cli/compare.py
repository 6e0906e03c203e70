"""`tacit compare`: which of several runs answers best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.terminal import say
from tacit.evaluate.settings import EvaluateSettings


@options.of_settings(EvaluateSettings, "how", only=("split", "limit", "ties"))
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs of one graph, or world."),
    ],
    how: dict[str, Any],
    queries: Annotated[
        Path | None,
        typer.Option("--queries", help="A BetaE folder of queries; else 100 of each shape, or --limit."),
    ] = None,
    shapes: options.Shapes = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the queries that are drawn.")] = 0,
    device: options.Device = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Write the comparison to this file, as JSON.")] = None,
) -> None:
    """Ask the same queries of several runs of one graph: MRR by shape, seconds and parameters in one table."""
    from tacit.run.compare import compare as compare_runs

    comparison = compare_runs(sources, queries, shapes=shapes, seed=seed, device=device, out=out, progress=True, **how)
    for line in str(comparison).split("\n"):
        say(line)
    if out is not None:
        say(f"wrote {out}", err=True)
