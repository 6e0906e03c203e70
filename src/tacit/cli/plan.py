"""`tacit plan`: how a question would be answered, and what each step costs."""

from __future__ import annotations

import typer


def plan(
    query: str = typer.Argument(..., help="The question, as text: '?c : borders(France, ?c)'.", metavar="QUERY"),
    k: int = typer.Option(64, "--k", min=1, help="Candidates kept for each variable."),
    graph: str = typer.Option("", "--graph", help="A graph to look the names up in, and to count its entities."),
) -> None:
    """Print how a question would be answered, as a tree of steps with what each costs."""
    from tacit.query.compile import compile_query
    from tacit.query.describe import describe
    from tacit.query.text import parse

    question = parse(query)
    prepared = compile_query(question)
    size = None
    if graph:
        from tacit.graph.datasets import load
        from tacit.query.names import bind

        loaded = load(graph)
        bind(prepared, loaded)
        size = loaded.num_entities
    typer.echo(f"{question}\n\n{describe(prepared, k, size)}")
