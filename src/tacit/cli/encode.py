"""`tacit encode`: an encoder for a graph, or for that of a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from tacit.cli import data, options
from tacit.cli.terminal import resumable, say
from tacit.encode.settings import EncodeSettings
from tacit.graph.settings import ReadSettings


@options.of_settings(EncodeSettings)
@options.of_settings(ReadSettings, "reading")
def encode(
    source: Annotated[
        list[str],
        Argument(metavar="GRAPH|RUN...", help="A graph as for train, or a run; without --out it is the run to add to."),
    ],
    given: dict[str, Any],
    reading: dict[str, Any],
    out: Annotated[Path | None, Option(help="The run folder to make.")] = None,
    queries: Annotated[
        Path | None, Option(help="A BetaE folder to learn from; shapes that are asked for and it lacks are drawn.")
    ] = None,
    checkpoint: Annotated[
        Path | None, Option(help="UltraQuery's weights, for --model ultra: a file, or a run.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with what was stopped.")] = False,
    force: Annotated[bool, Option("--force", help="Replace the run in the folder, or the run's encoder.")] = False,
    drop: Annotated[bool, Option("--drop", help="Delete the run's encoder instead.")] = False,
) -> None:
    """Train an encoder, which answers whole questions, and keep it in a run of its own or in the run given."""
    from tacit.errors import SettingsError
    from tacit.run.training import train_encoder
    from tacit.sources import names_run

    runs = [each for each in source if names_run(each)]
    within = runs == source  # a run is more than its graph: lmpnn takes its predictor
    if (out is None and not within) or len(runs) > 1 or (drop and out is not None):
        raise SettingsError("give the folder of the run to make as --out, or one run to add the encoder to")
    if within:
        data.check_unread(reading, f"'{source[0]}' is a run, whose facts were")
    if drop:
        from tacit.run.run import open as open_run

        run = open_run(source[0], device="cpu")
        run.drop_encoder()
        say(f"{run.folder.path}: the encoder is deleted")
        return
    facts: Any = source[0] if within else data.loaded(source, **reading)
    with resumable():
        run = train_encoder(facts, out, queries=queries, checkpoint=checkpoint, resume=resume, force=force, **given)
    path = run.folder.path
    _report(path, run.results.get("encode", {}))
    asked = shlex.join(["tacit", "eval", str(path), "--search", "encoder"])
    say(f"measure it with: {asked}", err=True)


def _report(path: Path, summary: dict[str, Any]) -> None:
    if "imported" in summary:
        say(f"{path}: {summary['parameters']:,} parameters from {summary['imported']}")
        return
    mrr = summary.get("valid_mrr")
    quality = "not validated" if mrr is None else f"validation MRR {mrr:.4f}"
    work = f"{summary.get('steps', 0):,} steps in {summary.get('seconds', 0.0):.1f} s"
    say(f"{path}: {work}, {quality}")
