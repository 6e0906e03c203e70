"""Answers as SPARQL 1.1 query results in JSON, with the score of each as a second variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.iris import SCHEME
from tacit.query.sparql import parse_sparql

RESULTS = "application/sparql-results+json"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def answered(engine: Engine, text: str, most: int, check: Callable[[Query], None]) -> dict[str, Any]:
    """The results of a SPARQL query: as many as its LIMIT allows, and `most` at most."""
    query, limit = parse_sparql(text, engine.graph)
    check(query)
    target = query.target.name
    score = "score" if target != "score" else "score_"
    wanted = most if limit is None else min(limit, most)
    found = engine.ask(query, wanted) if wanted else ()
    rows = [
        {
            target: term(answer.entity, engine.graph),
            score: {"type": "literal", "datatype": DOUBLE, "value": repr(answer.score)},
        }
        for answer in found
    ]
    return {"head": {"vars": [target, score]}, "results": {"bindings": rows}}


def term(label: str, graph: Graph) -> dict[str, str]:
    """The RDF term of an entity: its own IRI where the graph came from RDF, else the label in the scheme `tacit:`.

    >>> term("New York", Graph.of([("New York", "in", "US")]))
    {'type': 'uri', 'value': 'tacit:New%20York'}
    """
    if graph.prefixes or label.startswith("<"):
        prefix, colon, local = label.partition(":")
        if colon and prefix in graph.prefixes:
            return {"type": "uri", "value": graph.prefixes[prefix] + local}
        if label.startswith("<") and label.endswith(">") and not set(label[1:-1]) & set('<>" {}|\\^`'):
            return {"type": "uri", "value": label[1:-1]}
    return {"type": "uri", "value": SCHEME + quote(label, safe="")}
