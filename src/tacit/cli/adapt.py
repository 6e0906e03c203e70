"""`tacit adapt`: an adapter for the link predictor of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.adapt.settings import AdaptSettings
from tacit.cli import options


@options.of_settings(AdaptSettings)
def adapt(
    run: Annotated[Path, typer.Argument(help="The run folder to adapt; its link predictor stays as it is.")],
    given: dict[str, Any],
    queries: Annotated[
        Path | None, typer.Option("--queries", help="A BetaE folder to learn from; sampled from the graph by default.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", help="Queries of each shape to sample, where none are given.")
    ] = 5000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the same command was stopped.")] = False,
) -> None:
    """Train a score adapter on complex queries and keep it in the run, beside the link predictor."""
    _adapt(run, queries, count, AdaptSettings.of(given), resume)


def _adapt(path: Path, folder: Path | None, count: int, settings: AdaptSettings, resume: bool) -> None:
    from tacit.adapt.sources import training_queries, validation_queries
    from tacit.adapt.training import adapt
    from tacit.folder import RunFolder
    from tacit.links.loading import load_model

    run = RunFolder.open(path)
    model = load_model(run, settings.device)
    graph = run.graph()
    learn = training_queries(graph, settings, folder, count)
    valid = validation_queries(graph, settings, folder)
    for name, one in learn.items():
        typer.echo(f"{name}: {len(one):,} queries", err=True)
    try:
        result = adapt(graph, model, learn, settings, valid=valid, run=run, report=_say, resume=resume)
    except KeyboardInterrupt as interrupt:
        typer.echo(str(interrupt) or "interrupted; the run is as it was", err=True)
        raise typer.Exit(130) from None
    about = result.summary
    if not about["best_step"]:
        typer.echo(f"{path}: no step improved validation MRR {about['unadapted_mrr']:.4f}; the run is as it was")
        return
    quality = ""
    if about["valid_mrr"] is not None:
        quality = f", validation MRR {about['unadapted_mrr']:.4f} before, {about['valid_mrr']:.4f} after"
    typer.echo(
        f"{path}: {about['parameters']:,} parameters, {about['steps']} steps in {about['seconds']:.1f} s{quality}"
    )


def _say(event: dict[str, Any]) -> None:
    loss = "" if event["loss"] is None else f"  loss {event['loss']:.4f}"
    mrr = "" if event["valid_mrr"] is None else f"  valid MRR {event['valid_mrr']:.4f}"
    typer.echo(f"step {event['step']}{loss}{mrr}", err=True)
