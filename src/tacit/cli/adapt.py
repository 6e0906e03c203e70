"""`tacit adapt`: an adapter for the link predictor of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.adapt.settings import AdaptSettings
from tacit.cli import options


@options.of_settings(AdaptSettings)
def adapt(
    source: Annotated[
        str, typer.Argument(metavar="RUN|world", help="The run to adapt; its link predictor stays as it is.")
    ],
    given: dict[str, Any],
    queries: Annotated[
        Path | None, typer.Option("--queries", help="A BetaE folder to learn from; sampled from the graph by default.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", help="Queries of each shape to sample, where none are given.")
    ] = 5000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the same command was stopped.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Delete the run's adapter instead.")] = False,
) -> None:
    """Train a score adapter on complex queries and keep it in the run, beside the link predictor."""
    from tacit.run import open as open_run

    AdaptSettings.of(given)  # a wrong setting is found before weights are loaded
    run = open_run(source, device=given.get("device", "auto"), adapted=False)
    if drop:
        run.drop_adapter()
        typer.echo(f"{run.folder.path}: the adapter is deleted")
        return
    try:
        summary = run.adapt(queries, count=count, resume=resume, progress=_say, **given)
    except KeyboardInterrupt as interrupt:
        typer.echo(str(interrupt) or "interrupted; the run is as it was", err=True)
        raise typer.Exit(130) from None
    _report(run.folder.path, summary)


def _report(path: Path, summary: dict[str, Any]) -> None:
    queries = ", ".join(f"{number:,} {name}" for name, number in summary["queries"].items())
    typer.echo(f"learned from {queries} queries", err=True)
    if not summary["best_step"]:
        typer.echo(f"{path}: no step improved validation MRR {summary['unadapted_mrr']:.4f}; the run is as it was")
        return
    quality = ""
    if summary["valid_mrr"] is not None:
        quality = f", validation MRR {summary['unadapted_mrr']:.4f} before, {summary['valid_mrr']:.4f} after"
    work = f"{summary['parameters']:,} parameters, {summary['steps']} steps in {summary['seconds']:.1f} s"
    typer.echo(f"{path}: {work}{quality}")


def _say(event: dict[str, Any]) -> None:
    loss = "" if event["loss"] is None else f"  loss {event['loss']:.4f}"
    mrr = "" if event["valid_mrr"] is None else f"  valid MRR {event['valid_mrr']:.4f}"
    typer.echo(f"step {event['step']}{loss}{mrr}", err=True)
