"""`tacit complete`: the facts a graph is most probably missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from tacit.cli import options
from tacit.cli.shell_completion import relations
from tacit.cli.terminal import say
from tacit.engine.settings import EngineSettings

_ENGINE = ("calibration", "observed", "loops", "typed", "precision", "memory")
_SHOWN = 20  # facts, where there is no file to write


@options.of_settings(EngineSettings, only=_ENGINE, defaults={"typed": True})
def complete(
    source: Annotated[str, options.run_argument("A run, or world.")],
    given: dict[str, Any],
    relation: Annotated[
        list[str] | None,
        Option(autocompletion=relations, help="Of this relation; may be repeated."),
    ] = None,
    entity: Annotated[list[str] | None, Option(help="About this entity; may be repeated.")] = None,
    min_score: Annotated[float, Option(help="The least score, above 0.")] = 0.5,
    top: Annotated[int | None, Option(help="The best ones only; all by default.")] = None,
    out: Annotated[
        Path | None,
        Option(help="A .tsv, .csv, .jsonl, .parquet, .nt or .ttl file; else the best are shown."),
    ] = None,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Predict the facts that a graph is missing: those that score best from both of their ends."""
    from tacit.fitting.interruption import stop_on_signals
    from tacit.graph.builder import counted
    from tacit.graph.formats.writing import check_format
    from tacit.run.run import open

    if out is not None:
        check_format(out)  # before hours of work
    run = open(source, device=device, adapted=not unadapted)
    missing = run.complete(
        relation or (),
        entity or (),
        min_score=min_score,
        top=_SHOWN if top is None and out is None else top,
        progress=True,
        **given,
    )
    if out is not None:
        try:
            wrote = f"wrote {counted(missing.write(out), 'predicted fact')} to {out}"
        except KeyboardInterrupt as interrupt:
            say(str(interrupt) or "interrupted", err=True)
            raise Exit(130) from None
        say(f"{wrote}; more have a score of {min_score} or above" if missing.more else wrote)
        return
    with stop_on_signals() as stop:
        facts = list(missing.until(stop))
    for fact in facts:
        say(f"{fact.score:.3f}  {fact.relation}({fact.subject}, {fact.object})")
    if missing.more:
        say(
            f"{len(facts)} shown, and more have a score of {min_score} or above; a higher --top or "
            "--out lists them"
        )
    if stop.is_set():
        say(
            f"interrupted; {counted(len(facts), 'fact')} found so far, and not all were looked at",
            err=True,
        )
        raise Exit(130)
    if not facts:
        say(f"no missing fact has a score of {min_score} or above")
