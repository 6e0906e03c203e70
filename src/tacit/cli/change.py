"""`tacit add` and `tacit remove`: the facts of a run, without training it again."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, confirm

from tacit.cli import data, options
from tacit.cli.terminal import say
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from tacit.run.changes import Change

RunArgument = Annotated[str, options.run_argument("The run folder.", "RUN")]
DryRun = Annotated[bool, Option("--dry-run", help="Print what would change, and write nothing.")]


@options.of_settings(ReadSettings, "reading")
def add(
    run: RunArgument,
    facts: Annotated[
        list[str], Argument(help="Files or folders of facts, or - for standard input.")
    ],
    reading: dict[str, Any],
    new: Annotated[
        bool,
        Option(
            "--new", help="Add new relations too, and entities with nearly the name of a known one."
        ),
    ] = False,
    force: Annotated[
        bool,
        Option(
            "--force", help="Add names, too, that differ from a known one in case or spaces alone."
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Add facts to a run; new entities and relations get vectors, all others keep theirs.

    New relations and entities that may be misspelt known ones are named first: they need
    --new, or a yes at a terminal.
    A service that serves the run answers from what it was until it gets SIGHUP.
    """
    from tacit.run.changes import add_facts

    graph = data.loaded(facts, **reading)
    if not (new or force or dry_run) and _is_attended():
        new_names = add_facts(run, graph, dry_run=True).new_names
        if new_names.is_doubtful and not new_names.same:
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
    reading: dict[str, Any],
    dry_run: DryRun = False,
) -> None:
    """Take facts out of a run; they are no longer known, but what was learned stays learned.

    A service that serves the run answers from what it was until it gets SIGHUP.
    """
    from tacit.run.changes import remove_facts

    _report(run, remove_facts(run, data.loaded(facts, **reading), dry_run=dry_run))


def _is_attended() -> bool:
    """Whether a user at a terminal can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _report(run: str, change: Change, new: bool = False, force: bool = False) -> None:
    if change.dry_run:
        say(f"{run}: {change}; nothing was written")
        names = change.new_names
        for line in names.doubts():
            say(line)
        if names.is_doubtful and not force and (names.same or not new):
            say(f"to add these as they are, give {'--force' if names.same else '--new'}")
        return
    say(f"{run}: {change}, in {change.seconds:.1f} s")
    if change.index_removed:
        say(
            "its index was of other weights and is gone; build it again with: tacit index "
            f"{shlex.quote(run)}"
        )
