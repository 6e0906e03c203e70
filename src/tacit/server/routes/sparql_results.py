"""Answers as SPARQL 1.1 query results in JSON."""

from __future__ import annotations

import re
from typing import Any

from tacit.engine.answers.answers import LIKELY, Answer, Answers
from tacit.engine.asked import Asked
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.terms import iri_of, is_blank, literal_of
from tacit.query.reading import Column

_TYPES = "http://www.w3.org/2001/XMLSchema#"
DOUBLE = f"{_TYPES}double"


def results(graph: Graph, asked: Asked, answers: Answers) -> dict[str, Any]:
    """Answers as the results of the query they answer: its columns, or whether it holds rather than not."""
    if not asked.columns:
        return {"head": {}, "boolean": answers[0].score >= LIKELY}
    if answers.counted is not None:
        numbers = {"count": ("integer", answers.counted.known), "expected": ("double", answers.counted.expected)}
        rows = [{column.name: _literal(*numbers[column.shows]) for column in asked.columns}]
    else:
        rows = [{column.name: _shown(column, answer, graph) for column in asked.columns} for answer in answers]
    return {"head": {"vars": [column.name for column in asked.columns]}, "results": {"bindings": rows}}


def _shown(column: Column, answer: Answer, graph: Graph) -> dict[str, str]:
    """What a column shows of an answer."""
    match column.shows:
        case "score":
            return _literal("double", answer.score)
        case "known":
            return _literal("boolean", str(answer.known).lower())
    return term(column.label or answer.values[column.name], graph.prefixes)


def _literal(kind: str, value: object) -> dict[str, str]:
    return {"type": "literal", "datatype": _TYPES + kind, "value": str(value)}


def term(label: str, prefixes: Prefixes) -> dict[str, str]:
    """The RDF term of an entity: its own where the graph came from RDF, else the label in the scheme `tacit:`.

    >>> term("New York", Prefixes({}))
    {'type': 'uri', 'value': 'tacit:New%20York'}
    >>> term("geo:Oslo", Prefixes({"geo": "http://example.org/geo/"}))
    {'type': 'uri', 'value': 'http://example.org/geo/Oslo'}
    """
    if is_blank(label, prefixes):
        return {"type": "bnode", "value": label[2:]}
    if literal := literal_of(label, prefixes):
        text, language, datatype = literal
        about = {"xml:lang": language} if language else {"datatype": datatype} if datatype else {}
        return {"type": "literal", "value": _ESCAPE.sub(_character, text), **about}
    return {"type": "uri", "value": iri_of(label, prefixes)}


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_CONTROLS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def _character(escape: re.Match[str]) -> str:
    """The character an escape of N-Triples stands for."""
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])
