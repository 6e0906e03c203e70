"""Questions as people write them: in the text syntax or in SPARQL."""

from __future__ import annotations

from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.sparql import is_sparql, parse_sparql
from tacit.query.text import parse


def read(text: str, graph: Graph | None = None) -> tuple[Query, int | None]:
    """The query that a text or a SPARQL query asks, and the LIMIT of the latter.

    >>> read("?c : borders(France, ?c)")
    (<?c : borders(France, ?c)>, None)
    >>> read("PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 3")
    (<?c : borders(France, ?c)>, 3)
    """
    return parse_sparql(text, graph) if is_sparql(text) else (parse(text), None)
