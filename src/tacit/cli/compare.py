"""`tacit compare`: which of several runs answers best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import options, shell_completion
from tacit.cli.progress import bar
from tacit.cli.terminal import say


@options.in_flags
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", autocompletion=shell_completion.runs, help="Runs of one graph, or world."),
    ],
    queries: Annotated[
        Path | None, typer.Option("--queries", help="A BetaE folder of queries; else they are drawn from the split.")
    ] = None,
    split: options.Split = "test",
    shapes: options.Shapes = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most so many queries of each shape; 100 are drawn.")
    ] = None,
    ties: options.Ties = "realistic",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the queries that are drawn.")] = 0,
    device: options.Device = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Write the comparison to this file, as JSON.")] = None,
) -> None:
    """Ask the same queries of several runs of one graph: MRR by shape, seconds and parameters in one table."""
    from tacit.comparing import compare as compare_runs

    with bar() as progress:
        found = compare_runs(
            sources, queries, split, shapes, limit=limit, ties=ties, seed=seed, device=device, out=out,
            progress=progress,
        )  # fmt: skip
    for line in str(found).split("\n"):
        say(line)
    if out is not None:
        say(f"wrote {out}", err=True)
