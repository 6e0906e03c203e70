"""Questions as people write them: in the text syntax or in SPARQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.text.text import parse


class Column(NamedTuple):
    """A column of SPARQL results: its name, and what it shows of each answer.

    That is the `value` of the variable, the `score`, whether it is `known`, how many there are
    (`count`) or are `expected`. `label` is the only value a variable has by VALUES, or the variable
    that is counted.
    """

    name: str
    shows: str = "value"
    label: str = ""


@dataclass(frozen=True)
class ParsedQuestion:
    """A query, with the limits and filters that SPARQL can put on its answers."""

    query: Query
    limit: int | None = None
    offset: int = 0
    min_score: float = 0.0
    known: bool | None = None  # True for known answers only, False for predicted ones only
    among: tuple[str, ...] | None = None  # the only labels that may be answers
    columns: tuple[Column, ...] = ()  # of SPARQL results
    by_score: bool = False  # whether its rows are ordered by score alone; else known ones go first


def parse_question(
    text: str, graph: Graph | None = None, parameters: Mapping[str, str] | None = None
) -> ParsedQuestion:
    """Parses a question in the text syntax or in SPARQL.

    `parameters` are the labels that `$name` stands for in the text syntax; in SPARQL, `$name` is a
    variable.

    >>> parse_question("?c : borders($who, ?c)", parameters={"who": "France"}).query
    <?c : borders(France, ?c)>
    >>> parse_question("PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 3").limit
    3
    """
    from tacit.query.sparql.sparql import (
        is_sparql,
        parse_sparql,
    )  # here, since it imports this module

    if not isinstance(text, str):
        raise QueryError(f"a question is a text here, not {type(text).__name__}")
    text = text.removeprefix("\ufeff")  # the byte order mark that some editors write
    if not is_sparql(text):
        return ParsedQuestion(parse(text, parameters))
    for name in parameters or {}:
        problem = (
            f"SPARQL takes no parameter '{name}': ${name} is a variable there; use the text syntax"
        )
        raise QueryError(problem, parameter=name)
    return parse_sparql(text, graph)
