"""`tacit plan`: how a question would be answered, and what each step costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli import options
from tacit.engine.settings import EngineSettings


@options.of_settings(EngineSettings, only=("k",))
def plan(
    query: Annotated[str, typer.Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.", metavar="QUERY")],
    given: dict[str, Any],
    graph: Annotated[
        str, typer.Option("--graph", help="A graph or run to look the names up in, and to count its entities.")
    ] = "",
) -> None:
    """Print how a question would be answered, as a tree of steps with what each costs."""
    from tacit.cli.data import loaded
    from tacit.query.compile import compile_query
    from tacit.query.describe import describe
    from tacit.query.names import bind
    from tacit.query.reading import read

    known = loaded(graph) if graph else None
    question, _ = read(query, known)
    prepared = compile_query(question)
    if known is not None:
        bind(prepared, known)
    typer.echo(f"{question}\n\n{describe(prepared, EngineSettings.of(given).k, known.num_entities if known else None)}")
