"""Answers as SPARQL 1.1 query results: in JSON, or in the format that a request gets.

Results are made in JSON; pyoxigraph, which takes solutions from a text alone, writes them as XML
and TSV.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tacit.engine.answers.answers import LIKELY, Answer, Answers
from tacit.engine.questions import BoundQuery
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.question import Column
from tacit.query.sparql.table_query import TableQuery
from tacit.query.sparql.terms import Term, quantity_term, term_of

JSON = "application/sparql-results+json"
XML = "application/sparql-results+xml"
CSV = "text/csv"
TSV = "text/tab-separated-values"
TURTLE = "text/turtle"
N_TRIPLES = "application/n-triples"
RDF_XML = "application/rdf+xml"
RESULTS = {  # media types, the preferred ones first -> pyoxigraph's names of formats
    JSON: "JSON",
    XML: "XML",
    CSV: "CSV",
    TSV: "TSV",
    "application/json": "JSON",
    "application/xml": "XML",
    "text/xml": "XML",
}
DESCRIPTIONS = {TURTLE: "TURTLE", N_TRIPLES: "N_TRIPLES", RDF_XML: "RDF_XML"}
_SHORT = {
    "json": JSON,
    "xml": XML,
    "csv": CSV,
    "tsv": TSV,
    "turtle": TURTLE,
    "ttl": TURTLE,
    "nt": N_TRIPLES,
}
_SHORT |= {"rdf": RDF_XML, "rdf+xml": RDF_XML}


def negotiate(accept: str, named: Iterable[str], available: Sequence[str]) -> str | None:
    """The media type of the reply, by name or else by the Accept header; None if none fits.

    >>> negotiate("text/csv;q=0.5, application/*;q=0.1, */*;q=0", [], list(RESULTS))
    'text/csv'
    >>> negotiate("text/csv", ["xml"], list(RESULTS)), negotiate("image/png", [], list(RESULTS))
    ('application/sparql-results+xml', None)
    """
    names = [name.strip().lower() for name in named]
    if names:
        return next((kind for name in names if (kind := _SHORT.get(name, name)) in available), None)
    ranges = [_range(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    best = max(available, key=lambda kind: _quality(kind, ranges))  # the first of equals
    return best if _quality(best, ranges) > 0 else None


def _range(written: str) -> tuple[str, float]:
    """A media range of an Accept header, and its quality."""
    kind, *parameters = (part.strip().lower() for part in written.split(";"))
    qualities = (part.removeprefix("q=") for part in parameters if part.startswith("q="))
    try:
        return kind, min(1.0, max(0.0, float(next(qualities, "1"))))
    except ValueError:
        return kind, 0.0


def _quality(kind: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The quality of a media type, by the most specific range that matches it."""
    for pattern in (kind, f"{kind.split('/')[0]}/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == pattern]
        if qualities:
            return max(qualities)
    return 0.0


def serialized(results: bytes, media_type: str) -> bytes:
    """Results in JSON as another format has them."""
    if RESULTS[media_type] == "JSON":
        return results
    if RESULTS[media_type] == "CSV" and "results" in (table := json.loads(results)):
        return _csv(table["head"]["vars"], table["results"]["bindings"])
    from pyoxigraph import QueryResultsFormat, parse_query_results

    read = parse_query_results(results, QueryResultsFormat.JSON)
    return read.serialize(format=getattr(QueryResultsFormat, RESULTS[media_type])) or b""


def _csv(names: Sequence[str], rows: Iterable[Mapping[str, Mapping[str, str]]]) -> bytes:
    """Rows of results as CSV: the IRI, text or blank node name of each term."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")  # quotes cells where needed
    table.writerow(names)
    for row in rows:
        table.writerow(_plain(row[name]) if name in row else "" for name in names)
    return text.getvalue().encode("utf-8", "replace")


def _plain(term: Mapping[str, str]) -> str:
    return f"_:{term['value']}" if term["type"] == "bnode" else term["value"]


_TYPES = "http://www.w3.org/2001/XMLSchema#"
DOUBLE = f"{_TYPES}double"


def results(graph: Graph, question: BoundQuery | TableQuery, answers: Answers) -> dict[str, Any]:
    """Answers as SPARQL results: the rows of the columns, or a boolean for ASK."""
    if not question.columns:
        return {"head": {}, "boolean": answers[0].score >= LIKELY}
    if answers.counted is not None:
        numbers = {
            "count": ("integer", answers.counted.known),
            "expected": ("double", answers.counted.expected),
        }
        rows = [{column.name: _literal(*numbers[column.shows]) for column in question.columns}]
    else:
        rows = [
            {
                column.name: cell
                for column in question.columns
                if (cell := _cell(column, answer, graph)) is not None
            }
            for answer in answers
        ]
    return {
        "head": {"vars": [column.name for column in question.columns]},
        "results": {"bindings": rows},
    }


def _cell(column: Column, answer: Answer, graph: Graph) -> dict[str, str] | None:
    """The cell of an answer in a column; None where it binds nothing."""
    match column.shows:
        case "score":
            return _literal("double", answer.score)
        case "known":
            return _literal("boolean", str(answer.known).lower())
    if (name := f"?{column.name}") in answer.quantities:
        value = answer.quantities[name]
        return None if value is None else _as_json(quantity_term(value.quantity))
    if answer.terms is None:
        return term(column.label or answer.values[column.name], graph.prefixes)
    bound = answer.terms.get(column.name)
    return None if bound is None else _as_json(bound)


def _literal(kind: str, value: object) -> dict[str, str]:
    return {"type": "literal", "datatype": _TYPES + kind, "value": str(value)}


def term(label: str, prefixes: Prefixes) -> dict[str, str]:
    """The RDF term of an entity; a label that is no RDF term gets the scheme `tacit:`.

    >>> term("New York", Prefixes({}))
    {'type': 'uri', 'value': 'tacit:New%20York'}
    """
    return _as_json(term_of(label, prefixes))


def _as_json(term: Term) -> dict[str, str]:
    language = {"xml:lang": term.language} if term.language else {}
    datatype = {"datatype": term.datatype} if term.datatype else {}
    return {"type": term.kind, "value": term.value, **(language or datatype)}
