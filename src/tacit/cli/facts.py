"""`tacit complete`, `tacit add` and `tacit remove`: missing facts, and changed ones."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, confirm

from tacit.cli import data, options
from tacit.cli.terminal import complete_relations, say
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from tacit.run.changes import Change

_ENGINE = ("calibration", "observed", "loops", "typed", "precision", "memory")
_SHOWN = 20  # facts, where there is no file to write


@options.of_settings(EngineSettings, only=_ENGINE, defaults={"typed": True})
def complete(
    source: Annotated[str, options.run_argument("A run, world, or any graph.", "RUN|GRAPH")],
    settings: options.Values,
    relation: Annotated[
        list[str] | None,
        Option(autocompletion=complete_relations, help="Of this relation; may be repeated."),
    ] = None,
    entity: Annotated[list[str] | None, Option(help="About this entity; may be repeated.")] = None,
    min_score: Annotated[
        float, Option(help="The least score, above 0; of values, the least presence.")
    ] = 0.5,
    top: Annotated[int | None, Option(help="The best ones only; all by default.")] = None,
    out: Annotated[
        Path | None,
        Option(help="A .tsv, .csv, .jsonl, .parquet, .nt or .ttl file; else the best are shown."),
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Say which rule, or which known facts, speak for each.")
    ] = False,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
    attributes: Annotated[
        bool, Option("--attributes", help="Predict missing values of attributes instead.")
    ] = False,
    attribute: Annotated[
        list[str] | None,
        Option(help="Values of this attribute; may be repeated. Implies --attributes."),
    ] = None,
) -> None:
    """Predict the facts that a graph is missing: those that score best from both of their ends."""
    if attributes or attribute:
        others = {"relation": relation, "explain": explain or None, **settings, "typed": None}
        _complete_values(source, attribute or [], entity or [], min_score, top, out, others)
        return
    from tacit.engine.completion import ExplainedPrediction
    from tacit.fitting.interruption import stop_on_signals
    from tacit.graph.builder import counted
    from tacit.graph.formats.writing import check_format
    from tacit.run.run import open

    if out is not None:
        check_format(out)  # before hours of work
    run = open(source, device=device, adapted=not unadapted, progress=True)
    missing = run.complete(
        relation or (),
        entity or (),
        min_score=min_score,
        top=_SHOWN if top is None and out is None else top,
        explain=explain,
        progress=True,
        **settings,
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
        if isinstance(fact, ExplainedPrediction) and fact.because:
            say(f"       {fact.because}")
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


def _complete_values(
    source: str,
    attributes: list[str],
    entities: list[str],
    min_presence: float,
    top: int | None,
    out: Path | None,
    of_facts: Mapping[str, Any],
) -> None:
    """Write or print the missing values, the surest first."""
    from tacit.graph.builder import counted
    from tacit.run.run import open

    for name, value in of_facts.items():
        if value is not None:
            raise SettingsError(f"{name} belongs to facts; leave it out for values", name)
    run = open(source, progress=True)
    shown = _SHOWN if top is None and out is None else top
    missing = run.complete_values(
        attributes, entities, min_presence=min_presence, top=shown, progress=True
    )
    if out is not None:
        say(f"wrote {counted(missing.write(out), 'predicted value')} to {out}")
        return
    values = list(missing)
    for value in values:
        name = run.graph.entities.name(run.graph.entities.id(value.entity))
        say(f"{value.attribute}({name})  {value.text}  presence {value.presence:.2f}")
    if missing.more:
        say(f"{len(values)} shown; a higher --top or --out lists more")
    if not values:
        say(f"no missing value has a presence of {min_presence} or above")


RunArgument = Annotated[str, options.run_argument("The run folder.", "RUN")]
DryRun = Annotated[bool, Option("--dry-run", help="Print what would change, and write nothing.")]


@options.of_settings(ReadSettings, "reading")
def add(
    run: RunArgument,
    facts: Annotated[
        list[str], Argument(help="Files or folders of facts, or - for standard input.")
    ],
    reading: options.Values,
    new: Annotated[
        bool,
        Option(
            "--new", help="Add new relations too, and entities with nearly the name of a known one."
        ),
    ] = False,
    force: Annotated[
        bool,
        Option("--force", help="Add names, too, that differ from another in case or spaces alone."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Add facts to a run; new entities and relations get vectors, all others keep theirs.

    New relations and entities that may be misspelt known ones are named first: they need
    --new, or a yes at a terminal.
    A service that serves the run answers from what it was until it gets SIGHUP.
    """
    from tacit.run.changes import add_facts, own_run

    graph = data.read_graph(facts, like=own_run(run).graph(), **reading)
    if not (new or force or dry_run) and _is_attended():
        new_names = add_facts(run, graph, dry_run=True).new_names
        if new_names.is_doubtful and not new_names.needs_force:
            for line in new_names.lines():
                say(line, err=True)
            new = confirm("Add these as they are?", err=True)
            if not new:
                say("nothing was added", err=True)
                raise Exit(1)
    _report(run, add_facts(run, graph, new=new, force=force, dry_run=dry_run), new, force)


@options.of_settings(ReadSettings, "reading")
def remove(
    run: RunArgument,
    facts: Annotated[
        list[str],
        Argument(help="Files or folders of the facts to remove, or - for standard input."),
    ],
    reading: options.Values,
    dry_run: DryRun = False,
) -> None:
    """Take facts out of a run; they are no longer known, but what was learned stays learned.

    A service that serves the run answers from what it was until it gets SIGHUP.
    """
    from tacit.run.changes import own_run, remove_facts

    graph = data.read_graph(facts, like=own_run(run).graph(), **reading)
    _report(run, remove_facts(run, graph, dry_run=dry_run))


def _is_attended() -> bool:
    """Whether a user at a terminal can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _report(run: str, change: Change, new: bool = False, force: bool = False) -> None:
    if change.dry_run:
        say(f"{run}: {change}; nothing was written")
        names = change.new_names
        for line in names.doubts():
            say(line)
        if names.is_doubtful and not force and (names.needs_force or not new):
            say(f"to add these as they are, give {'--force' if names.needs_force else '--new'}")
        return
    say(f"{run}: {change}, in {change.seconds:.1f} s")
    if change.index_removed:
        say(
            "its index was of other weights and is gone; build it again with: tacit index "
            f"{shlex.quote(run)}"
        )
