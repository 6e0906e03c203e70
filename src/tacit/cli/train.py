"""`tacit train`: a link predictor for a graph."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.links.settings import TrainSettings

if TYPE_CHECKING:
    from tacit.graph.graph import Graph
    from tacit.runs import RunFolder

DEFAULTS = TrainSettings()


def _one_of(name: str) -> str:
    return ", ".join(map(str, TrainSettings.__dataclass_fields__[name].metadata["choices"]))


def train(
    context: typer.Context,
    graph: Annotated[str, typer.Argument(help="A data set (world), a folder or a file of facts.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    model: str = typer.Option(DEFAULTS.model, "--model", help=f"One of {_one_of('model')}."),
    rank: int = typer.Option(DEFAULTS.rank, "--rank", help="Numbers per entity (complex ones for complex, rotate)."),
    epochs: int = typer.Option(DEFAULTS.epochs, "--epochs", help="Passes over the facts, at most."),
    batch: int = typer.Option(DEFAULTS.batch, "--batch", help="Triples per step."),
    lr: float = typer.Option(DEFAULTS.lr, "--lr", help="Learning rate."),
    reg: float = typer.Option(DEFAULTS.reg, "--reg", help="Weight of the regulariser."),
    regulariser: str = typer.Option(DEFAULTS.regulariser, "--regulariser", help=f"One of {_one_of('regulariser')}."),
    optimizer: str = typer.Option(DEFAULTS.optimizer, "--optimizer", help=f"One of {_one_of('optimizer')}."),
    init: float = typer.Option(DEFAULTS.init, "--init", help="Scale of the first weights."),
    norm: int = typer.Option(DEFAULTS.norm, "--norm", help="Norm of the distances of transe and rotate: 1 or 2."),
    relation_weight: float = typer.Option(
        DEFAULTS.relation_weight, "--relation-weight", help="Weight of the loss that predicts relations."
    ),
    negatives: int = typer.Option(
        DEFAULTS.negatives, "--negatives", help="Entities drawn per step to compare with; 0 compares with all."
    ),
    memory: float | None = typer.Option(DEFAULTS.memory, "--memory", help="GB for scores; what is free by default."),
    precision: str = typer.Option(DEFAULTS.precision, "--precision", help=f"One of {_one_of('precision')}."),
    seed: int = typer.Option(DEFAULTS.seed, "--seed", help="Seed of weights, order and draws."),
    device: str = typer.Option(DEFAULTS.device, "--device", help="auto, cpu, cuda or cuda:N."),
    validate_every: int = typer.Option(DEFAULTS.validate_every, "--validate-every", help="Epochs between validations."),
    validate_facts: int = typer.Option(DEFAULTS.validate_facts, "--validate-facts", help="Facts ranked, at most."),
    patience: int = typer.Option(DEFAULTS.patience, "--patience", help="Validations without progress before the end."),
    checkpoint_seconds: float = typer.Option(
        DEFAULTS.checkpoint_seconds, "--checkpoint-seconds", help="Seconds between checkpoints."
    ),
    literals: bool = typer.Option(False, "--literals", help="Keep the literals of RDF files as entities."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the run in the folder."),
    force: bool = typer.Option(False, "--force", help="Replace the run in the folder."),
) -> None:
    """Train a link predictor on a graph and keep it in a run folder."""
    given = {
        field.name: context.params[field.name]
        for field in fields(TrainSettings)
        if getattr(context.get_parameter_source(field.name), "name", "DEFAULT") != "DEFAULT"
    }
    _train(graph, literals, out, given, resume, force)


def _train(source: str, literals: bool, out: Path, given: dict[str, object], resume: bool, force: bool) -> None:
    from tacit.cli.data import loaded
    from tacit.errors import SettingsError
    from tacit.links import training
    from tacit.links.loading import is_complete, pick_device
    from tacit.runs import SETTINGS, RunFolder

    if resume and force:
        raise SettingsError("--resume and --force contradict each other; give one of them")
    settings = replace(DEFAULTS, **given)  # type: ignore[arg-type]
    pick_device(settings.device)  # before anything is written
    graph = loaded(source, literals)
    typer.echo(str(graph), err=True)
    if resume and (out / SETTINGS).exists():
        run = RunFolder.open(out)
        run.check(graph)
        before = TrainSettings.of(run.settings["train"])
        settings = replace(before, **given)  # type: ignore[arg-type]
        settings.check_continues(before)
        if is_complete(run):
            typer.echo(f"{out} is complete; train it again with --force", err=True)
            return
        run.write_settings("train", settings.to_dict())
    else:
        run = RunFolder.create(out, graph, settings.to_dict(), force)
    try:
        training.train(graph, settings, run, resume=resume)
    except KeyboardInterrupt as interrupt:
        again = shlex.join(["tacit", "train", source, "--out", str(out), "--resume"])
        said = str(interrupt).removesuffix("; go on with --resume") or "interrupted"
        typer.echo(f"{said}; go on with: {again}", err=True)
        sys.exit(130)
    _report(run)
    typer.echo(f"ask it with: {shlex.join(['tacit', 'ask', str(out), _question(graph)])}", err=True)


def _question(graph: Graph) -> str:
    """A question that the first fact of a graph answers."""
    from tacit.query.formula import Atom, Entity, Query, Variable

    head, relation, _ = graph.train[0].tolist()
    x = Variable("x")
    return str(Query(x, Atom(graph.relations[relation], Entity(graph.entities[head]), x)))


def _report(run: RunFolder) -> None:
    results = run.results()["train"]
    mrr = results["valid_mrr"]
    quality = "no validation facts" if mrr is None else f"validation MRR {mrr:.4f} at epoch {results['best_epoch']}"
    typer.echo(f"{run.path}: {results['epochs']} epochs in {results['seconds']:.1f} s, {quality}")
