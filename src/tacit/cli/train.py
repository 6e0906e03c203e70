"""`tacit train` and `tacit import`: a link predictor for a graph, as a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tacit.cli import data, options
from tacit.cli.terminal import resumable, say
from tacit.graph.settings import ReadSettings
from tacit.links.settings import TrainSettings

if TYPE_CHECKING:
    from tacit.graph.graph import Graph


@options.of_settings(TrainSettings)
@options.of_settings(ReadSettings, "reading")
def train(
    graph: data.Graphs,
    out: Annotated[Path, Option(help="The run folder to make.")],
    given: dict[str, Any],
    reading: dict[str, Any],
    resume: Annotated[bool, Option("--resume", help="Go on with the run in the folder.")] = False,
    force: Annotated[bool, Option("--force", help="Replace the run in the folder.")] = False,
) -> None:
    """Train a link predictor on a graph and keep it in a run folder.

    Started by torchrun, several processes share the entities out among them.
    """
    from tacit.distributed.shards import leave, process_number
    from tacit.links.training.link_training import meet_others
    from tacit.run.training import train as train_run

    meet_others(given.get("device", "auto"))
    facts = data.loaded(graph, **reading)
    leads = process_number() == 0
    if leads:
        say(str(facts), err=True)
    with resumable():
        run = train_run(facts, out, resume=resume, force=force, **given)
    leave()
    if not leads:
        return
    _report(out, run.results["train"])
    say(f"ask it with: {shlex.join(['tacit', 'ask', str(out), _question(facts)])}", err=True)


@options.of_settings(ReadSettings, "reading")
def import_(
    source: Annotated[
        Path, Argument(help="A .pt checkpoint of kbc or CQD, or a PyKEEN directory.")
    ],
    out: Annotated[Path, Option(help="The run folder to make.")],
    reading: dict[str, Any],
    graph: Annotated[
        str | None, Option(help="The graph it was trained on; a PyKEEN directory has its own.")
    ] = None,
    reciprocal: Annotated[
        str,
        options.one_of(("interleaved", "stacked"), "Where a checkpoint keeps inverse relations."),
    ] = "interleaved",
    trust_pickle: Annotated[
        bool, Option("--trust-pickle", help="Open PyKEEN's pickle, which can run any code.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace the run in the folder.")] = False,
) -> None:
    """Import a link predictor that was trained with kbc, CQD or PyKEEN."""
    from tacit.run.training import import_model

    if graph is None:
        data.check_unread(reading, "no graph is given")
    facts = None if graph is None else data.loaded(graph, **reading)
    run = import_model(
        source, out, facts, reciprocal=reciprocal, trust_pickle=trust_pickle, force=force
    )
    about = run.settings["train"]
    say(f"{out}: {about['model']} of rank {about['rank']} for {run.folder.graph()}")


def _question(graph: Graph) -> str:
    """A question that the first fact of a graph answers."""
    from tacit.query.formula import quoted

    head, relation, _ = graph.train[0].tolist()
    return f"?x : {quoted(graph.relations[relation])}({quoted(graph.entities[head])}, ?x)"


def _report(out: Path, results: dict[str, Any]) -> None:
    mrr = results["valid_mrr"]
    quality = "not validated"
    if mrr is not None:
        quality = (
            f"validation MRR {mrr:.2%} ({results['measured']}) at epoch {results['best_epoch']}"
        )
    shapes = ", ".join(f"{shape} {value:.1%}" for shape, value in results["mrr"].items())
    say(f"{out}: {results['epochs']} epochs in {results['seconds']:.1f} s, {quality}")
    if shapes:
        say(f"validated on {shapes}", err=True)
