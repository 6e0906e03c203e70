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
        Argument(
            metavar="GRAPH|RUN...",
            help="A graph as for train, or a run; without --out it is the run to add to.",
        ),
    ],
    given: dict[str, Any],
    reading: dict[str, Any],
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
) -> None:
    """Train an encoder, which answers whole questions, in a run of its own or the one given."""
    from tacit.disk import exists
    from tacit.errors import SettingsError
    from tacit.run.training import train_encoder
    from tacit.run.world import no_run
    from tacit.sources import names_run

    runs = [each for each in source if names_run(each)]
    within = runs == source  # lmpnn uses the run's link predictor, too
    for other in source if out is None else ():
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
    if drop and out is not None:
        raise SettingsError("--drop deletes the encoder of the run that is given; leave --out out")
    if within:
        data.check_unread(reading, f"'{source[0]}' is a run, whose facts were")
    if drop:
        from tacit.run.run import Run
        from tacit.run.world import find_run

        run = Run(find_run(source[0]))  # without a look at weights, which may be damaged
        run.drop_encoder()
        say(f"{run.folder.path}: the encoder is deleted")
        return
    facts: Any = source[0] if within else data.loaded(source, **reading)
    with resumable():
        run = train_encoder(
            facts, out, queries=queries, checkpoint=checkpoint, resume=resume, force=force, **given
        )
    path = run.folder.path
    _report(path, run.results.get("encode", {}))
    if len(run.folder.graph().test):
        command = shlex.join(["tacit", "eval", str(path), "--search", "encoder"])
        say(f"measure it with: {command}", err=True)


def _report(path: Path, summary: dict[str, Any]) -> None:
    if "imported" in summary:
        say(f"{path}: {summary['parameters']:,} parameters from {summary['imported']}")
        return
    mrr = summary.get("valid_mrr")
    quality = (
        "not validated" if mrr is None else f"validation MRR {mrr:.2%} ({summary['measured']})"
    )
    work = f"{summary.get('steps', 0):,} steps in {summary.get('seconds', 0.0):.1f} s"
    say(f"{path}: {work}, {quality}")
