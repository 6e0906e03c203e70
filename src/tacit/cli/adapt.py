"""`tacit adapt`: an adapter for the link predictor of a run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import options


def adapt(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="The run folder to adapt; its link predictor stays as it is.")],
    queries: Annotated[
        Path | None, typer.Option("--queries", help="A BetaE folder to learn from; sampled from the graph by default.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", help="Queries of each shape to sample, where none are given.")
    ] = 5000,
    shapes: Annotated[str, typer.Option("--shapes", help="Shapes to learn from, with commas.")] = "2i,3i,2in,3in",
    condition: Annotated[str, typer.Option("--condition", help="What the adapter sees: none, p, sp or spo.")] = "p",
    layers: Annotated[int, typer.Option("--layers", help="1 (linear) or 2 (with ReLU).")] = 1,
    hidden: Annotated[int, typer.Option("--hidden", help="Width of the layer between, with 2 layers.")] = 32,
    loss: Annotated[str, typer.Option("--loss", help="1vsall (as published), bce or log.")] = "log",
    negatives: Annotated[int, typer.Option("--negatives", help="Wrong answers drawn per query, for bce.")] = 1,
    lr: Annotated[float, typer.Option("--lr", help="Learning rate of Adagrad.")] = 0.1,
    steps: Annotated[int, typer.Option("--steps", help="Steps, at most.")] = 1000,
    batch: Annotated[int, typer.Option("--batch", help="Queries a step, shapes in equal parts.")] = 512,
    share: Annotated[float, typer.Option("--share", help="The share of the queries to learn from.")] = 1.0,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Learn from validation queries, which need facts not trained on.")
    ] = False,
    masked: Annotated[
        bool | None,
        typer.Option(
            "--masked/--not-masked", help="Leave other right answers out of the loss; by default with --held-out."
        ),
    ] = None,
    calibration: Annotated[
        str, typer.Option("--calibration", help="What the adapter works in: sigmoid or softmax-count.")
    ] = "sigmoid",
    logic: Annotated[str, typer.Option("--logic", help="product, godel or lukasiewicz.")] = "product",
    negation: Annotated[str, typer.Option("--negation", help="standard or cosine.")] = "standard",
    strength: Annotated[float, typer.Option("--strength", help="Strength of negation.")] = 1.0,
    observed: Annotated[
        str, typer.Option("--observed", help="Parts whose facts count as known: none, all, or names joined by +.")
    ] = "none",
    k: Annotated[int, typer.Option("--k", help="Candidates of a variable, for shapes that have any.")] = 64,
    validate_every: Annotated[int, typer.Option("--validate-every", help="Steps between validations.")] = 50,
    validate_queries: Annotated[
        int, typer.Option("--validate-queries", help="Queries of each shape to validate with, at most.")
    ] = 200,
    patience: Annotated[int, typer.Option("--patience", help="Validations without progress before the end.")] = 5,
    memory: Annotated[float | None, typer.Option("--memory", help="GB for scores.")] = None,
    precision: Annotated[str, typer.Option("--precision", help="auto, float32, tf32 or bf16.")] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the samples and their order.")] = 0,
    device: options.Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the same command was stopped.")] = False,
) -> None:
    """Train a score adapter on complex queries and keep it in the run, beside the link predictor."""
    from tacit.adapt.settings import AdaptSettings

    given = {field.name: context.params[field.name] for field in fields(AdaptSettings)}
    _adapt(run, queries, count, AdaptSettings(**given), resume)


def _adapt(path: Path, folder: Path | None, count: int, settings: Any, resume: bool) -> None:
    from tacit.adapt.sources import training_queries, validation_queries
    from tacit.adapt.training import adapt
    from tacit.links.loading import load_model
    from tacit.runs import RunFolder

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
