"""Answers as SPARQL 1.1 query results in JSON, with the score of each as a second variable."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tacit.engine.answers import Answers
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.iris import SCHEME

RESULTS = "application/sparql-results+json"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def results(graph: Graph, query: Query, answers: Answers) -> dict[str, Any]:
    """Answers as the results of the query they answer."""
    target = query.target.name
    score = "score" if target != "score" else "score_"
    rows = [
        {
            target: term(answer.entity, graph),
            score: {"type": "literal", "datatype": DOUBLE, "value": repr(answer.score)},
        }
        for answer in answers
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
