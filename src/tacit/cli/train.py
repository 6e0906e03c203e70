"""`tacit train`: a link predictor for a graph."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import options
from tacit.links.settings import TrainSettings

if TYPE_CHECKING:
    from tacit.folder import RunFolder
    from tacit.graph.graph import Graph


@options.of_settings(TrainSettings)
def train(
    graph: Annotated[str, typer.Argument(help="A data set (world), a folder or a file of facts.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    given: dict[str, Any],
    literals: Annotated[bool, typer.Option("--literals", help="Keep the literals of RDF files as entities.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")] = False,
) -> None:
    """Train a link predictor on a graph and keep it in a run folder."""
    _train(graph, literals, out, given, resume, force)


def _train(source: str, literals: bool, out: Path, given: dict[str, Any], resume: bool, force: bool) -> None:
    from tacit.cli.data import loaded
    from tacit.errors import SettingsError
    from tacit.folder import SETTINGS, RunFolder
    from tacit.links import training
    from tacit.links.loading import is_complete, pick_device

    if resume and force:
        raise SettingsError("--resume and --force contradict each other; give one of them")
    settings = TrainSettings.of(given)
    pick_device(settings.device)  # before anything is written
    graph = loaded(source, literals)
    typer.echo(str(graph), err=True)
    if resume and (out / SETTINGS).exists():
        run = RunFolder.open(out)
        run.check(graph)
        before = TrainSettings.of(run.settings["train"])
        settings = before.changed(**given)
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
