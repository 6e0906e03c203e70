"""Terms of answers by SPARQL: those of an RDF graph, and labels in the scheme `tacit:`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import (
    BlankNode,
    NamedNode,
    QueryResultsFormat,
    RdfFormat,
    Store,
    parse_query_results,
)
from rdflib import BNode
from rdflib.query import Result

from tacit.engine.engine import Engine
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.scorer import GraphScorer
from tacit.server.settings import Limits
from tacit.server.sparql_results import TSV, XML
from tacit.server.workers.answering import Answerer
from tacit.server.workers.jobs import Job

TURTLE = r"""
@prefix : <http://example.org/> .
@prefix geo: <http://example.org/geo#> .
:Oslo geo:in :Norway, geo:Europe, <urn:isbn:0-395-36341-1>, <http://example.org/geo/> .
<http://example.org/a%20b%2Fc> geo:in <http://example.org/caf%C3%A9>, <http://example.org/café> .
<http://example.org/geo#in> geo:in <http://other.org/x?q=1&r=%C3%BC>, :Norway, geo:Norway, [] .
:Oslo :called "Oslo", "Ошло"@sr, "a \"b\"\n\\c"@en-gb, "x"^^geo:own .
:Oslo :called "7"^^<http://www.w3.org/2001/XMLSchema#integer>,
    "8.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .
"""


def shown(term: dict[str, str]) -> tuple[str, ...]:
    """A term of SPARQL results; a blank node has no name that lasts."""
    fields = ("type",) if term["type"] == "bnode" else ("type", "value", "datatype", "xml:lang")
    return tuple(term.get(field, "") for field in fields)


def values(store: Store, query: str) -> list[tuple[str, str | None]]:
    """Another store's results, freed in their own thread, as no lasting frame holds them."""
    found: Any = store.query(query)
    return [
        (term.value, getattr(term, "language", None))
        for (term,) in found
        if type(term) is not BlankNode
    ]


def test_terms_of_an_rdf_graph_come_back_as_they_went_in(tmp_path: Path) -> None:
    file = tmp_path / "graph.ttl"
    file.write_text(TURTLE, encoding="utf-8")
    store = Store()
    store.load(path=str(file), format=RdfFormat.TURTLE)
    graph = load(file, literals=True)
    answerer = Answerer(
        Engine(graph, GraphScorer(graph.index(), graph.num_entities), search="symbolic"), Limits()
    )
    patterns = {
        (quad.subject, quad.predicate) for quad in store if isinstance(quad.subject, NamedNode)
    }
    assert len(patterns) == 4
    for subject, predicate in patterns:
        query = f"SELECT ?o {{ {subject} {predicate} ?o }}"
        (reply,) = answerer.replies([Job("sparql", f"{query} LIMIT 100")])
        solutions: Any = store.query(query)
        expected = json.loads(solutions.serialize(format=QueryResultsFormat.JSON))
        rows, others = (data["results"]["bindings"] for data in (json.loads(reply.body), expected))
        assert sorted(shown(row["o"]) for row in rows) == sorted(shown(row["o"]) for row in others)
        for kind, parsed in ((XML, QueryResultsFormat.XML), (TSV, QueryResultsFormat.TSV)):
            (reply,) = answerer.replies([Job("sparql", f"{query} LIMIT 100", media_type=kind)])
            ours = Result.parse(io.BytesIO(reply.body), content_type=kind)
            written = values(store, query)
            found = [
                (str(term), getattr(term, "language", None))
                for (term,) in ours
                if type(term) is not BNode
            ]
            assert sorted(found, key=str) == sorted(written, key=str)
            parsed_rows: Any = parse_query_results(reply.body, parsed)
            assert len(list(parsed_rows)) == len(others)
        for iri in [row["o"]["value"] for row in rows if row["o"]["type"] == "uri"]:  # and back
            back = f"SELECT ?s {{ ?s {predicate} <{iri}> }} LIMIT 100"
            (reply,) = answerer.replies([Job("sparql", back)])
            assert subject.value in [
                row["s"]["value"] for row in json.loads(reply.body)["results"]["bindings"]
            ]


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("New York", "tacit:New%20York"),
        ("100% sure: Å#1/2", "tacit:100%25%20sure%3A%20%C3%85%231%2F2"),
        ("<b>bold</b>", "tacit:%3Cb%3Ebold%3C%2Fb%3E"),
        ("_:x", "tacit:_%3Ax"),
        ('"quoted"', "tacit:%22quoted%22"),
        ("other:x y", "tacit:other%3Ax%20y"),
    ],
)
def test_labels_of_other_graphs_come_back_in_the_scheme_tacit(label: str, value: str) -> None:
    graph = Graph.of([("a", "r", label)])
    answerer = Answerer(
        Engine(graph, GraphScorer(graph.index(), graph.num_entities), search="symbolic"), Limits()
    )
    forward = "SELECT ?o { <tacit:a> <tacit:r> ?o }"
    backward = f"SELECT ?s {{ ?s <tacit:r> <{value}> }}"
    replies = [
        json.loads(answerer.replies([Job("sparql", query)])[0].body)
        for query in (forward, backward)
    ]
    terms = [reply["results"]["bindings"][0][reply["head"]["vars"][0]] for reply in replies]
    assert terms == [{"type": "uri", "value": value}, {"type": "uri", "value": "tacit:a"}]
