"""The SPARQL endpoint, asked by rdflib's own client."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from rdflib import URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore

from served import Running, running
from served_graphs import EUROPE, open_europe
from tacit.graph.graph import Graph
from tacit.server.settings import ServerSettings
from tacit.server.sparql_results import term

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
    found = rows(store, query)
    expected = open_europe().ask(QUERIES[query], top=len(found))
    assert [entity for entity, _ in found] == expected.entities
    assert [score for _, score in found] == pytest.approx([answer.score for answer in expected])
    assert len(found) == (3 if "LIMIT" in query else 15)


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


def test_the_iris_of_an_rdf_graph_are_kept() -> None:
    graph = Graph.of([("geo:Oslo", "in", "<http://example.org/Norway>")])
    graph = Graph(graph.entities, graph.relations, graph.train, prefixes={"geo": "http://example.org/geo/"})
    assert term("geo:Oslo", graph) == {"type": "uri", "value": "http://example.org/geo/Oslo"}
    assert term("<http://example.org/Norway>", graph) == {"type": "uri", "value": "http://example.org/Norway"}
    assert term("other:x y", graph) == {"type": "uri", "value": "tacit:other%3Ax%20y"}
