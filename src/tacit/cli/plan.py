"""`tacit plan`: how a question would be answered, and what each step costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.data import check_unread, loaded
from tacit.cli.parameters import Params, named
from tacit.cli.terminal import say
from tacit.engine.settings import EngineSettings
from tacit.graph.settings import ReadSettings


@options.of_settings(EngineSettings, only=("k",))
@options.of_settings(ReadSettings, "reading")
def plan(
    query: Annotated[str, typer.Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.", metavar="QUERY")],
    given: dict[str, Any],
    reading: dict[str, Any],
    graph: Annotated[
        str, typer.Option("--graph", help="A graph or run to look the names up in, and to count its entities.")
    ] = "",
    param: Params = None,
) -> None:
    """Print how a question would be answered, as a tree of steps with what each costs."""
    from tacit.query.reading import read

    if not graph:
        check_unread(reading, "no graph is given")
    known = loaded(graph, **reading) if graph else None
    asked = read(query, known, named(param)).query
    for line in asked.plan(known, EngineSettings.of(given).k).split("\n"):
        say(line)
