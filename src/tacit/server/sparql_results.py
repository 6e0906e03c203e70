"""Answers as SPARQL 1.1 query results in JSON, with the score of each as a second variable."""

from __future__ import annotations

import re
from typing import Any

from tacit.engine.answers import Answers
from tacit.graph.graph import Graph
from tacit.graph.prefixes import Prefixes
from tacit.graph.terms import iri_of
from tacit.query.formula import Query

RESULTS = "application/sparql-results+json"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def results(graph: Graph, query: Query, answers: Answers) -> dict[str, Any]:
    """Answers as the results of the query they answer."""
    target = query.target.name
    score = "score" if target != "score" else "score_"
    rows = [
        {
            target: term(answer.entity, graph.prefixes),
            score: {"type": "literal", "datatype": DOUBLE, "value": repr(answer.score)},
        }
        for answer in answers
    ]
    return {"head": {"vars": [target, score]}, "results": {"bindings": rows}}


def term(label: str, prefixes: Prefixes) -> dict[str, str]:
    """The RDF term of an entity: its own where the graph came from RDF, else the label in the scheme `tacit:`.

    >>> term("New York", Prefixes({}))
    {'type': 'uri', 'value': 'tacit:New%20York'}
    >>> term("geo:Oslo", Prefixes({"geo": "http://example.org/geo/"}))
    {'type': 'uri', 'value': 'http://example.org/geo/Oslo'}
    """
    if prefixes and label.startswith("_:"):
        return {"type": "bnode", "value": label[2:]}
    if prefixes and label.startswith('"'):
        end = label.rindex('"')
        literal = {"type": "literal", "value": _ESCAPE.sub(_character, label[1:end])}
        if label[end + 1 :].startswith("@"):
            literal["xml:lang"] = label[end + 2 :]
        elif label[end + 1 :]:
            literal["datatype"] = term(label[end + 3 :], prefixes)["value"]
        return literal
    return {"type": "uri", "value": iri_of(label, prefixes)}


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_CONTROLS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def _character(escape: re.Match[str]) -> str:
    """The character an escape of N-Triples stands for."""
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])
