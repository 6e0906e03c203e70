"""Tables at the SPARQL endpoint, asked by rdflib's SERVICE, its store, and SPARQLWrapper."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from pyoxigraph import QueryResultsFormat, parse_query_results
from rdflib import RDFS, Literal, Namespace, URIRef
from rdflib import Graph as RdfGraph
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from SPARQLWrapper import POST, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

from served import Running
from served_graphs import BORDERS, SPEAKS, open_europe

LOCAL = Namespace("http://local.example/")
TACIT = Namespace("tacit:")
PREFIXES = f"PREFIX : <tacit:> PREFIX rdfs: <{RDFS}> PREFIX answer: <tacit:answer#> "
NEIGHBOURS = {
    name: {b for a, b in (*BORDERS, *((b, a) for a, b in BORDERS)) if a == name}
    for pair in BORDERS
    for name in pair
}
LANGUAGES = dict(SPEAKS)


def bindings(service: Running, query: str, **parameters: str) -> list[dict[str, Any]]:
    client = SPARQLWrapper(service.url + "sparql", returnFormat="json")
    for name, value in parameters.items():
        client.addParameter(name, value)
    client.setQuery(PREFIXES + query)
    reply = client.queryAndConvert()
    return [
        {name: cell["value"] for name, cell in row.items()} for row in reply["results"]["bindings"]
    ]


def test_rdflib_joins_its_own_graph_with_the_service(service: Running) -> None:
    """Its SERVICE sends every local binding in VALUES, of terms that nobody here knows."""
    local = RdfGraph()
    local.bind("", TACIT)
    trips = {"ann": "France", "bob": "Poland", "cy": "Atlantis"}
    for person, country in trips.items():
        local.add((LOCAL[person], LOCAL.visits, TACIT[country]))
        local.add((LOCAL[person], RDFS.label, Literal(person, lang="en")))
    query = f"""
        {PREFIXES} PREFIX l: <{LOCAL}>
        SELECT ?person ?name ?country ?neighbour ?language {{
          ?person l:visits ?country ; rdfs:label ?name .
          SERVICE <{service.url}sparql> {{
            ?country :borders ?neighbour . ?neighbour answer:known ?known FILTER(?known)
            OPTIONAL {{ ?neighbour :speaks ?language }}
          }}
        }}"""
    found = {tuple(map(str, row)) for row in local.query(query)}
    spoken = {name: f"tacit:{LANGUAGES.get(name)}" for name in NEIGHBOURS} | {"Portugal": "None"}
    assert found == {
        (str(LOCAL[person]), person, str(TACIT[country]), str(TACIT[other]), spoken[other])
        for person, country in trips.items()
        for other in NEIGHBOURS.get(country, ())
    }  # fmt: skip
    assert {person for person, *_ in found} == {str(LOCAL.ann), str(LOCAL.bob)}


def test_rdflib_looks_up_names_and_facts(service: Running) -> None:
    local = RdfGraph()
    local.add((LOCAL.ann, LOCAL.speaks, Literal("French")))
    query = f"""
        {PREFIXES} PREFIX l: <{LOCAL}>
        SELECT ?name ?country ?p ?o {{
          ?person l:speaks ?name .
          SERVICE <{service.url}sparql> {{ ?language rdfs:label ?name . ?country :speaks ?language .
            ?country answer:known ?known FILTER(?known) }}
        }}"""
    rows = [(str(row.name), str(row.country)) for row in local.query(query)]
    assert rows == [("French", "tacit:France")]


def test_facts_of_an_entity(service: Running) -> None:
    found = bindings(service, "SELECT ?p ?o { :France ?p ?o }")
    assert {(row["p"], row["o"]) for row in found} == {
        *(("tacit:borders", f"tacit:{other}") for other in NEIGHBOURS["France"]),
        ("tacit:speaks", "tacit:French"),
        (str(RDFS.label), "France"),
    }
    assert {row["s"] for row in bindings(service, "SELECT ?s { ?s ?p :French }")} == {
        "tacit:France"
    }
    assert bindings(service, "SELECT ?p ?o { :Atlantis ?p ?o }") == []
    reached = bindings(service, "SELECT ?c { :Portugal :borders+ ?c }")
    assert {row["c"] for row in reached} >= {f"tacit:{name}" for name in NEIGHBOURS}
    assert bindings(service, "SELECT (COUNT(*) AS ?n) { ?a :speaks ?b }") == [{"n": "5"}]
    store = SPARQLStore(service.url + "sparql")
    row = next(iter(store.query(PREFIXES + "SELECT ?n { :Spain rdfs:label ?n }")))
    assert row[0] == Literal("Spain")
    assert list(store.triples((TACIT.Spain, URIRef("tacit:speaks"), None))) != []


@pytest.mark.parametrize("kind", ["json", "xml", "csv", "tsv"])
def test_unbound_cells_in_every_format(service: Running, kind: str) -> None:
    """Portugal is a country without a language, and its name is text."""
    client = SPARQLWrapper(service.url + "sparql")
    client.setQuery(
        PREFIXES + "SELECT ?c ?l ?n { VALUES ?c { :Portugal } ?c :borders :Spain . "
        "?c rdfs:label ?n OPTIONAL { ?c :speaks ?l } }"
    )
    client.setReturnFormat(kind)
    raw = client.query().response.read()
    if kind == "csv":
        assert list(csv.reader(io.StringIO(raw.decode()))) == [
            ["c", "l", "n"], ["tacit:Portugal", "", "Portugal"]
        ]  # fmt: skip
        return
    read = parse_query_results(raw, getattr(QueryResultsFormat, kind.upper()))
    (row,) = list(read)  # type: ignore[arg-type]
    assert [None if term is None else str(term) for term in row] == [
        "<tacit:Portugal>", None, '"Portugal"'
    ]  # fmt: skip


def test_scores_of_rows_are_those_of_their_answers(service: Running) -> None:
    query = (
        "SELECT ?c ?n ?s ?k { :France :borders ?c . ?c rdfs:label ?n ; answer:score ?s ; "
        "answer:known ?k } LIMIT 8"
    )
    expected = open_europe().ask("?c : borders(France, ?c)", top=8)
    found = bindings(service, query)
    assert [row["n"] for row in found] == expected.entities
    assert [float(row["s"]) for row in found] == pytest.approx([a.score for a in expected])
    assert [row["k"] == "true" for row in found] == [answer.known for answer in expected]
    new = bindings(service, query, new="true")
    assert not {row["c"] for row in new} & {f"tacit:{a.entity}" for a in expected if a.known}


def test_updates_are_refused_by_name(service: Running) -> None:
    client = SPARQLWrapper(service.url + "sparql")
    client.setMethod(POST)
    client.setQuery("INSERT DATA { <tacit:a> <tacit:b> <tacit:c> }")
    with pytest.raises(QueryBadFormed, match="is not supported: nothing can be changed"):
        client.query()
    client = SPARQLWrapper(service.url + "sparql")
    for query, words in {
        "DESCRIBE <tacit:France>": "DESCRIBE is not supported at column 1; SELECT",
        "CONSTRUCT WHERE { ?s ?p ?o }": "CONSTRUCT is not supported",
    }.items():
        client.setQuery(query)
        with pytest.raises(QueryBadFormed, match=words):
            client.query()


def test_more_rows_than_the_service_lists_are_an_error(service: Running) -> None:
    many = service.client.get(
        "/sparql",
        params={"query": f"{PREFIXES} SELECT * {{ ?a ?p ?b . ?c ?q ?d . ?e ?r ?f . ?g ?h ?i }}"},
    )
    assert many.status_code == 400
    assert "more than 100,000 solutions" in many.json()["error"]["message"]
    rows = service.client.get(
        "/sparql", params={"query": f"{PREFIXES} SELECT * {{ ?a ?p ?b . ?c ?q ?d }}"}
    )
    assert rows.status_code == 400
    assert "more than 1,000 answers" in rows.json()["error"]["message"]
    limited = bindings(service, "SELECT * { ?a ?p ?b . ?c ?q ?d } LIMIT 7")
    assert len(limited) == 7
