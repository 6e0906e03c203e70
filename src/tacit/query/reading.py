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

    That is the `value` of the variable, the `score`, whether it is `known`, how many there are (`count`) or are
    `expected`. `label` is the only value a variable has by VALUES, or the variable that is counted.
    """

    name: str
    shows: str = "value"
    label: str = ""


@dataclass(frozen=True)
class Reading:
    """A query, and which of its answers are asked for: the text syntax says nothing of that, SPARQL may."""

    query: Query
    limit: int | None = None
    offset: int = 0
    min_score: float = 0.0
    known: bool | None = None  # whether only known answers are wanted, or only predicted ones
    among: tuple[str, ...] | None = None  # the labels that alone may be answers
    columns: tuple[Column, ...] = ()  # of SPARQL results
    by_score: bool = False  # whether its rows are ordered by score alone; else known ones go first


def read(text: str, graph: Graph | None = None, parameters: Mapping[str, str] | None = None) -> Reading:
    """The query that a text or a SPARQL query asks, with what the latter says of its answers.

    `parameters` are the labels that `$name` stands for in the text syntax; in SPARQL, `$name` is a variable.

    >>> read("?c : borders($who, ?c)", parameters={"who": "France"}).query
    <?c : borders(France, ?c)>
    >>> read("PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 3").limit
    3
    """
    from tacit.query.sparql.sparql import is_sparql, parse_sparql  # here, since it makes readings

    text = text.removeprefix("\ufeff")  # with which some editors begin a file
    if not is_sparql(text):
        return Reading(parse(text, parameters))
    for name in parameters or {}:
        raise QueryError(f"SPARQL takes no parameter '{name}': ${name} is a variable there; use the text syntax")
    return parse_sparql(text, graph)
