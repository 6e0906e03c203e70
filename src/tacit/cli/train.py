"""`tacit train`, `import`, `adapt` and `encode`: what learns, as a run or in one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from tacit.adapt.settings import AdaptSettings
from tacit.cli import data, options
from tacit.cli.terminal import resumable, say
from tacit.encode.settings import EncodeSettings
from tacit.errors import SettingsError
from tacit.fitting.tracking import TRACKERS
from tacit.graph.builder import counted
from tacit.graph.settings import ReadSettings
from tacit.links.rules.settings import RuleSettings
from tacit.links.settings import TrainSettings
from tacit.settings import settings_of

if TYPE_CHECKING:
    from tacit.graph.graph import Graph

Track = Annotated[str | None, options.one_of(TRACKERS, "Log the training there as well.")]
# what the miner alone has; settings of one name are one option
_MINING = {field.name for field in settings_of(RuleSettings)} - {
    field.name for field in settings_of(TrainSettings)
}


@options.of_settings(TrainSettings)
@options.of_settings(RuleSettings, "mining", only=_MINING)
@options.of_settings(ReadSettings, "reading")
def train(
    graph: data.Graphs,
    out: options.NewRun,
    settings: options.Values,
    mining: options.Values,
    reading: options.Values,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in the folder.")] = False,
    force: options.ReplaceRun = False,
    track: Track = None,
) -> None:
    """Train a link predictor on a graph and keep it in a run folder.

    With --model rules it is mined in seconds. Started by torchrun, several processes share the
    entities out among them.
    """
    from tacit.distributed.shards import leave, process_number
    from tacit.links.training.link_training import meet_others
    from tacit.run.rule_training import check_predictor
    from tacit.run.training import train as train_run

    check_predictor(settings | mining)  # before anything is read
    meet_others(settings.get("device", "auto"))
    facts = data.read_graph(graph, **reading)
    leads = process_number() == 0
    if leads:
        say(str(facts), err=True)
    with resumable():
        run = train_run(facts, out, resume=resume, force=force, track=track, **settings, **mining)
    leave()
    if not leads:
        return
    results = run.results["train"]
    if "rules" in results:
        say(f"{out}: {counted(results['rules'], 'rule')} mined in {results['seconds']:.1f} s")
    else:
        _report_predictor(out, results)
    if beside := run.results.get("rules"):
        work = f"{counted(beside['rules'], 'rule')} mined in {beside['seconds']:.1f} s"
        say(f"{work}, with a share of {beside['share']:.0%} in the scores", err=True)
    say(f"ask it with: {shlex.join(['tacit', 'ask', str(out), _question(facts)])}", err=True)


@options.of_settings(ReadSettings, "reading")
def import_(
    source: Annotated[
        Path, Argument(help="A .pt checkpoint of kbc or CQD, or a PyKEEN directory.")
    ],
    out: options.NewRun,
    reading: options.Values,
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
    force: options.ReplaceRun = False,
) -> None:
    """Import a link predictor that was trained with kbc, CQD or PyKEEN."""
    from tacit.run.training import import_model

    if graph is None:
        data.check_unread(reading, "no graph is given")
    facts = None if graph is None else data.read_graph(graph, **reading)
    run = import_model(
        source, out, facts, reciprocal=reciprocal, trust_pickle=trust_pickle, force=force
    )
    trained = run.settings["train"]
    say(f"{out}: {trained['model']} of rank {trained['rank']} for {run.folder.graph()}")


def _question(graph: Graph) -> str:
    """A question that the first fact of a graph answers."""
    from tacit.query.formula import quoted

    head, relation, _ = graph.train[0].tolist()
    return f"?x : {quoted(graph.relations[relation])}({quoted(graph.entities[head])}, ?x)"


def _report_predictor(out: Path, results: dict[str, Any]) -> None:
    quality = _quality(results)
    if results["valid_mrr"] is not None:
        quality += f" at epoch {results['best_epoch']}"
    shapes = ", ".join(f"{shape} {value:.1%}" for shape, value in results["mrr"].items())
    say(f"{out}: {results['epochs']} epochs in {results['seconds']:.1f} s, {quality}")
    if shapes:
        say(f"validated on {shapes}", err=True)


@options.of_settings(AdaptSettings)
def adapt(
    source: Annotated[
        str, options.run_argument("The run to adapt; its link predictor stays as it is.")
    ],
    settings: options.Values,
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
    track: Track = None,
) -> None:
    """Train a score adapter on complex queries; the run keeps it if it beats what is there."""
    from tacit.run.run import open as open_run
    from tacit.run.world import find_run

    if drop:
        _drop(source, "adapter")
        return
    find_run(source)  # facts alone have no place for an adapter
    run = open_run(source, device=settings.get("device", "auto"))
    with resumable():
        summary = run.adapt(
            queries, count=count, resume=resume, progress=True, track=track, **settings
        )
    learned = ", ".join(f"{name} ({number:,})" for name, number in summary["queries"].items())
    size = f"{summary['parameters']:,} parameters"
    work = f"{size}, {summary['steps']} steps in {summary['seconds']:.1f} s"
    say(f"learned from queries of {learned}: {work}", err=True)
    say(f"{run.folder.path}: {summary['verdict']}")


@options.of_settings(EncodeSettings)
@options.of_settings(ReadSettings, "reading")
def encode(
    source: Annotated[
        list[str],
        Argument(
            metavar="GRAPH|RUN...",
            help="A graph as for train, or a run; without --out it is the run to add to.",
        ),
    ],
    settings: options.Values,
    reading: options.Values,
    out: Annotated[Path | None, Option(help="The run folder to make.")] = None,
    queries: Annotated[
        Path | None,
        Option(
            help="A BetaE folder to learn from; shapes that are asked for and it lacks are drawn."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, Option(help="UltraQuery's weights, for --model ultra: a file, or a run.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with what was stopped.")] = False,
    force: Annotated[
        bool, Option("--force", help="Replace the run in the folder, or the run's encoder.")
    ] = False,
    drop: Annotated[bool, Option("--drop", help="Delete the run's encoder instead.")] = False,
    track: Track = None,
) -> None:
    """Train an encoder, which answers whole questions, in a run of its own or the one given."""
    from tacit.run.training import train_encoder

    within = _names_one_run(source, out)
    if drop and out is not None:
        raise SettingsError("--drop deletes the encoder of the run that is given; leave --out out")
    if within:
        data.check_unread(reading, f"'{source[0]}' is a run, whose facts were")
    if drop:
        _drop(source[0], "encoder")
        return
    facts: Any = source[0] if within else data.read_graph(source, **reading)
    with resumable():
        run = train_encoder(
            facts,
            out,
            queries=queries,
            checkpoint=checkpoint,
            resume=resume,
            force=force,
            track=track,
            **settings,
        )
    path = run.folder.path
    _report_encoder(path, run.results.get("encode", {}))
    if len(run.folder.graph().test):
        command = shlex.join(["tacit", "eval", str(path), "--search", "encoder"])
        say(f"measure it with: {command}", err=True)


def _drop(source: str, part: Literal["adapter", "encoder"]) -> None:
    """Delete a part of a run, without a look at weights, which may be damaged."""
    from tacit.run.run import Run
    from tacit.run.world import find_run

    run = Run(find_run(source))
    if part == "adapter":
        run.drop_adapter()
    else:
        run.drop_encoder()
    say(f"{run.folder.path}: the {part} is deleted")


def _names_one_run(sources: list[str], out: Path | None) -> bool:
    """Whether the sources are one run; an error if they name several, or nothing to add to."""
    from tacit.disk import exists
    from tacit.run.world import no_run
    from tacit.sources import names_run

    runs = [source for source in sources if names_run(source)]
    for other in sources if out is None else ():
        if not exists(other) and other not in runs:
            raise no_run(Path(other), "run or graph")
        if other not in runs:
            raise SettingsError(
                f"'{other}' is no run to add the encoder to; name the run to make by --out"
            )
    if len(runs) > 1:
        raise SettingsError(
            f"'{runs[0]}' and '{runs[1]}' are two runs, and an encoder is of one; give one of them"
        )
    return runs == sources


def _report_encoder(path: Path, summary: dict[str, Any]) -> None:
    if "imported" in summary:
        say(f"{path}: {summary['parameters']:,} parameters from {summary['imported']}")
        return
    work = f"{summary.get('steps', 0):,} steps in {summary.get('seconds', 0.0):.1f} s"
    say(f"{path}: {work}, {_quality(summary)}")


def _quality(results: dict[str, Any]) -> str:
    """The quality of what was trained, in words."""
    mrr = results.get("valid_mrr")
    return "not validated" if mrr is None else f"validation MRR {mrr:.2%} ({results['measured']})"
