"""The SPARQL endpoint, asked by rdflib's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyoxigraph import NamedNode, QueryResultsFormat, RdfFormat, Store
from rdflib import URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore

from served import Running, running
from served_graphs import EUROPE, open_europe
from tacit.engine.engine import Engine
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.scorer import GraphScorer
from tacit.server.answering import Answerer
from tacit.server.jobs import Job, Kind
from tacit.server.settings import Limits, ServerSettings

QUERIES = {
    "PREFIX : <tacit:> SELECT ?c { :France :borders ?c }": "?c : borders(France, ?c)",
    "PREFIX : <tacit:> SELECT ?c { :France :borders ?n . ?n :borders ?c MINUS { ?c :speaks :Polish } } LIMIT 3": (
        "?c : (exists ?n . borders(France, ?n) & borders(?n, ?c)) & !speaks(?c, Polish)"
    ),
    "SELECT ?score { <tacit:New%20York> <tacit:borders> ?score }": '?score : borders("New York", ?score)',
}


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(EUROPE, ServerSettings(workers=1)) as found:
        yield found


def rows(store: SPARQLStore, query: str) -> list[tuple[str, float]]:
    return [(unquote(str(entity)).removeprefix("tacit:"), float(score)) for entity, score in store.query(query)]


@pytest.mark.parametrize("method", ["GET", "POST", "POST_FORM"])
@pytest.mark.parametrize("query", QUERIES)
def test_the_client_gets_what_the_engine_answers(service: Running, query: str, method: str) -> None:
    store = SPARQLStore(service.url + "sparql", method=method)
    answers = rows(store, query)
    expected = open_europe().ask(QUERIES[query], top=3 if "LIMIT" in query else 100)
    assert len(expected) >= 3
    assert [entity for entity, _ in answers] == expected.entities
    assert [score for _, score in answers] == pytest.approx([answer.score for answer in expected])


def test_new_answers_by_a_parameter_of_the_address(service: Running) -> None:
    query, text = next(iter(QUERIES.items()))
    expected = [answer.entity for answer in open_europe().ask(text, top=100) if not answer.known]
    body = {"content": query, "headers": {"content-type": "application/sparql-query"}}
    for response in (
        service.client.get("/sparql", params={"query": query, "new": "true"}),
        service.client.post("/sparql?new=true", **body),
        service.client.post("/sparql?new=true", data={"query": query}),
    ):
        bindings = response.json()["results"]["bindings"]
        assert [unquote(row["c"]["value"]).removeprefix("tacit:") for row in bindings] == expected
    form = service.client.post("/sparql", data={"query": query, "new": "true"})
    assert (form.status_code, "/sparql?new=true" in form.json()["error"]["message"]) == (422, True)


def test_entities_come_back_as_terms_that_can_be_asked_with(service: Running) -> None:
    store = SPARQLStore(service.url + "sparql")
    (first,) = store.query("PREFIX : <tacit:> SELECT ?c { :Portugal :borders ?c } LIMIT 1")
    assert first[0] == URIRef("tacit:Spain")
    again = rows(store, f"SELECT ?l {{ {first[0].n3()} <tacit:speaks> ?l }} LIMIT 1")
    assert again[0][0] == "Spanish"


@pytest.mark.parametrize(
    ("query", "words", "column"),
    [
        ("SELECT ?c { <tacit:France> <tacit:boarders> ?c }", "did you mean 'borders'?", 28),
        ("SELECT ?c WHERE { ?c ?c", "not a SPARQL query", None),
        ("SELECT ?c { <tacit:France> <tacit:borders> ?c OPTIONAL { ?c <tacit:speaks> ?l } }", "OPTIONAL", 47),
        ("", "not a SPARQL query", None),
    ],
)
def test_mistakes_are_refused_with_their_place(service: Running, query: str, words: str, column: int | None) -> None:
    response = service.client.get("/sparql", params={"query": query})
    error = response.json()["error"]
    assert response.status_code == 422
    assert words in error["message"]
    assert column is None or error["column"] == column


def test_a_post_says_how_it_brings_its_query(service: Running) -> None:
    wrong = service.client.post("/sparql", json={"query": "SELECT"})
    assert wrong.status_code == 422
    assert "application/sparql-query" in wrong.json()["error"]["message"]
    missing = service.client.post("/sparql", data={"q": "SELECT"})
    assert "no field 'query'" in missing.json()["error"]["message"]


TURTLE = r"""
@prefix : <http://example.org/> .
@prefix geo: <http://example.org/geo#> .
:Oslo geo:in :Norway, geo:Europe, <urn:isbn:0-395-36341-1>, <http://example.org/geo/> .
<http://example.org/a%20b%2Fc> geo:in <http://example.org/caf%C3%A9>, <http://example.org/café> .
<http://example.org/geo#in> geo:in <http://other.org/x?q=1&r=%C3%BC>, :Norway, geo:Norway, [] .
:Oslo :called "Oslo", "Ошло"@sr, "a \"b\"\n\\c"@en-gb, "x"^^geo:own .
:Oslo :called "7"^^<http://www.w3.org/2001/XMLSchema#integer>, "8.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .
"""


def shown(term: dict[str, str]) -> tuple[str, ...]:
    """A term of SPARQL results; a blank node has no name that lasts."""
    fields = ("type",) if term["type"] == "bnode" else ("type", "value", "datatype", "xml:lang")
    return tuple(term.get(field, "") for field in fields)


def test_terms_of_an_rdf_graph_come_back_as_they_went_in(tmp_path: Path) -> None:
    file = tmp_path / "graph.ttl"
    file.write_text(TURTLE, encoding="utf-8")
    store = Store()
    store.load(path=str(file), format=RdfFormat.TURTLE)
    graph = load(file, literals=True)
    answerer = Answerer(Engine(graph, GraphScorer(graph.index(), graph.num_entities), search="symbolic"), Limits())
    asked = {(quad.subject, quad.predicate) for quad in store if isinstance(quad.subject, NamedNode)}
    assert len(asked) == 4
    for subject, predicate in asked:
        query = f"SELECT ?o {{ {subject} {predicate} ?o }}"
        (reply,) = answerer.replies([Job(Kind.SPARQL, query, top=100)])
        expected = json.loads(store.query(query).serialize(format=QueryResultsFormat.JSON))  # type: ignore[union-attr]
        rows, others = (data["results"]["bindings"] for data in (json.loads(reply.body), expected))
        assert sorted(shown(row["o"]) for row in rows) == sorted(shown(row["o"]) for row in others)
        for iri in [row["o"]["value"] for row in rows if row["o"]["type"] == "uri"]:  # and back
            back = f"SELECT ?s {{ ?s {predicate} <{iri}> }}"
            (reply,) = answerer.replies([Job(Kind.SPARQL, back, top=100)])
            assert subject.value in [row["s"]["value"] for row in json.loads(reply.body)["results"]["bindings"]]


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
    answerer = Answerer(Engine(graph, GraphScorer(graph.index(), graph.num_entities), search="symbolic"), Limits())
    there, back = "SELECT ?o { <tacit:a> <tacit:r> ?o }", f"SELECT ?s {{ ?s <tacit:r> <{value}> }}"
    replies = [json.loads(answerer.replies([Job(Kind.SPARQL, query)])[0].body) for query in (there, back)]
    terms = [reply["results"]["bindings"][0][reply["head"]["vars"][0]] for reply in replies]
    assert terms == [{"type": "uri", "value": value}, {"type": "uri", "value": "tacit:a"}]
