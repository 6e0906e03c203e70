"""`tacit add` and `tacit remove`: the facts of a run, without training it again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from tacit.cli import data, options
from tacit.cli.terminal import say
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from tacit.run.changes import Change

RunArgument = Annotated[str, options.run_argument("The run folder.", "RUN")]


@options.of_settings(ReadSettings, "reading")
def add(
    run: RunArgument,
    facts: Annotated[list[str], Argument(help="Files or folders of facts, or - for standard input.")],
    reading: dict[str, Any],
) -> None:
    """Add facts to a run; entities and relations that it does not know get vectors, all others keep theirs.

    A service that serves the run answers from what it was until it gets SIGHUP.
    """
    from tacit.run.changes import add_facts

    _tell(run, add_facts(run, data.loaded(facts, **reading)))


@options.of_settings(ReadSettings, "reading")
def remove(
    run: RunArgument,
    facts: Annotated[list[str], Argument(help="Files or folders of the facts to remove, or - for standard input.")],
    reading: dict[str, Any],
) -> None:
    """Take facts out of a run: they are no longer known, but what was learned of them stays learned.

    A service that serves the run answers from what it was until it gets SIGHUP.
    """
    from tacit.run.changes import remove_facts

    _tell(run, remove_facts(run, data.loaded(facts, **reading)))


def _tell(run: str, change: Change) -> None:
    say(f"{run}: {change}, in {change.seconds:.1f} s")
    if change.index_removed:
        say(f"its index was of other weights and is gone; build it again with: tacit index {shlex.quote(run)}")
