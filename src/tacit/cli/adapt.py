"""`tacit adapt`: an adapter for the link predictor of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from tacit.adapt.settings import AdaptSettings
from tacit.cli import options
from tacit.cli.terminal import resumable, say


@options.of_settings(AdaptSettings)
def adapt(
    source: Annotated[
        str, options.run_argument("The run to adapt; its link predictor stays as it is.")
    ],
    given: dict[str, Any],
    queries: Annotated[
        Path | None, Option(help="A BetaE folder to learn from; sampled from the graph by default.")
    ] = None,
    count: Annotated[
        int, Option(help="Queries of each shape to sample, where none are given.")
    ] = 5000,
    resume: Annotated[
        bool, Option("--resume", help="Go on where the same command was stopped.")
    ] = False,
    drop: Annotated[bool, Option("--drop", help="Delete the run's adapter instead.")] = False,
) -> None:
    """Train a score adapter on complex queries; the run keeps it if it beats what is there."""
    from tacit.run.run import Run
    from tacit.run.run import open as open_run
    from tacit.run.world import find_run

    if drop:  # without a look at weights, which may be damaged
        run = Run(find_run(source))
        run.drop_adapter()
        say(f"{run.folder.path}: the adapter is deleted")
        return
    run = open_run(source, device=given.get("device", "auto"))
    with resumable():
        summary = run.adapt(queries, count=count, resume=resume, progress=True, **given)
    learned = ", ".join(f"{number:,} {name}" for name, number in summary["queries"].items())
    size = f"{summary['parameters']:,} parameters"
    work = f"{size}, {summary['steps']} steps in {summary['seconds']:.1f} s"
    say(f"learned from {learned} queries: {work}", err=True)
    say(f"{run.folder.path}: {summary['verdict']}")
