"""The SPARQL endpoint, asked by rdflib's own client and by SPARQLWrapper."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote

import numpy as np
import pytest
from pyoxigraph import (
    QueryResultsFormat,
    parse_query_results,
)
from rdflib import RDF, RDFS, Namespace, URIRef
from rdflib import Graph as RdfGraph
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from SPARQLWrapper import SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

from served import Running
from served_graphs import open_europe
from tables import TableScorer
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.server.settings import Limits
from tacit.server.workers.answering import Answerer
from tacit.server.workers.jobs import Job

PREFIXES = "PREFIX : <tacit:> PREFIX answer: <tacit:answer#> "
QUERIES = {
    "SELECT ?c ?s { :France :borders ?c . ?c answer:score ?s } LIMIT 100": (
        "?c : borders(France, ?c)"
    ),
    "SELECT * { ?c answer:score ?s { :France :borders/:borders ?c MINUS { ?c :speaks :Polish } } } "
    "LIMIT 3": ("?c : (exists ?n . borders(France, ?n) & borders(?n, ?c)) & !speaks(?c, Polish)"),
    "SELECT ?score ?s { <tacit:New%20York> :borders ?score . ?score answer:score ?s } LIMIT 90": (
        '?score : borders("New York", ?score)'
    ),
    "SELECT ?l ?s { VALUES ?c { :France :Spain } ?c :speaks ?l . ?l answer:score ?s } LIMIT 5": (
        "?l : speaks(France, ?l) | speaks(Spain, ?l)"
    ),
}
FORMATS = ["json", "xml", "csv", "tsv"]
NEIGHBOURS = "SELECT ?a ?b ?s ?k { ?a :borders ?b . ?a answer:score ?s ; answer:known ?k } LIMIT 10"


def label(term: object) -> str:
    return unquote(str(term)).removeprefix("tacit:")


def rows(store: SPARQLStore, query: str) -> list[tuple[str, float]]:
    return [(label(entity), float(score)) for entity, score in store.query(PREFIXES + query)]


def wrapped(service: Running, query: str, kind: str) -> Any:
    client = SPARQLWrapper(service.url + "sparql")
    client.setQuery(PREFIXES + query)
    client.setReturnFormat(kind)
    return client.queryAndConvert()


@pytest.mark.parametrize("method", ["GET", "POST", "POST_FORM"])
@pytest.mark.parametrize("query", QUERIES)
def test_the_client_gets_what_the_engine_answers(service: Running, query: str, method: str) -> None:
    answers = rows(SPARQLStore(service.url + "sparql", method=method), query)
    expected = open_europe().ask(QUERIES[query], top=int(query.split()[-1]))
    assert len(expected) >= 3
    assert [entity for entity, _ in answers] == expected.entities
    assert [score for _, score in answers] == pytest.approx([answer.score for answer in expected])


@pytest.mark.parametrize("kind", FORMATS)
def test_tuples_come_alike_in_every_format(service: Running, kind: str) -> None:
    expected = [
        (answer.values["a"], answer.values["b"], pytest.approx(answer.score), answer.known)
        for answer in open_europe().ask("?a, ?b : borders(?a, ?b)", top=10)
    ]
    store = SPARQLStore(service.url + "sparql", returnFormat=kind)
    found = [tuple(map(str, row)) for row in store.query(PREFIXES + NEIGHBOURS)]
    assert [(label(a), label(b), float(s), k == "true") for a, b, s, k in found] == expected
    again = wrapped(service, NEIGHBOURS, kind)
    if kind == "json":
        names = again["head"]["vars"]
        again = [[row[name]["value"] for name in names] for row in again["results"]["bindings"]]
    elif kind == "xml":
        again = [
            [cell.firstChild.firstChild.data for cell in row.getElementsByTagName("binding")]
            for row in again.getElementsByTagName("result")
        ]
    elif kind == "csv":
        names, *again = csv.reader(io.StringIO(again.decode()))
        assert names == ["a", "b", "s", "k"]
    else:
        again = [
            [term.value for term in row]
            for row in parse_query_results(again, QueryResultsFormat.TSV)
        ]
    assert [tuple(row) for row in again] == found


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("query", "holds"),
    [("ASK { :France :borders ?x }", True), ("ASK { :Italy :borders :Poland }", False)],
)
def test_yes_or_no_in_every_format(service: Running, kind: str, query: str, holds: bool) -> None:
    if kind in ("json", "xml"):
        assert (
            SPARQLStore(service.url + "sparql", returnFormat=kind).query(PREFIXES + query).askAnswer
            is holds
        )
        found = wrapped(service, query, kind)
        answer = (
            found["boolean"]
            if kind == "json"
            else found.getElementsByTagName("boolean")[0].firstChild.data
        )
        assert str(answer).lower() == str(holds).lower()
    else:
        assert wrapped(service, query, kind) == str(holds).lower().encode()


def test_counts_relations_and_given_values(service: Running) -> None:
    store = SPARQLStore(service.url + "sparql")
    counts = "SELECT (COUNT(?c) AS ?n) (SUM(?s) AS ?e) { :France :borders ?c . ?c answer:score ?s }"
    ((known, expected),) = store.query(PREFIXES + counts)
    assert known.toPython() == 3  # Spain, Italy, Germany
    assert expected.toPython() == pytest.approx(
        open_europe().count("?c : borders(France, ?c)").expected
    )
    ((relation,),) = store.query(PREFIXES + "SELECT ?r { :France ?r :Spain } LIMIT 1")
    assert relation == URIRef("tacit:borders")
    borders = store.query(
        PREFIXES + "SELECT ?a ?b { ?a :borders ?b } LIMIT 3",
        initBindings={"b": URIRef("tacit:France")},
    )
    assert {tuple(map(label, row)) for row in borders} == {
        (name, "France") for name in ("Spain", "Italy", "Germany")
    }
    named = store.query(
        PREFIXES + "SELECT ?a { ?a :borders :France } LIMIT 2",
        initBindings={"a": URIRef("tacit:Italy")},
    )
    assert [label(row[0]) for row in named] == ["Italy"]


def test_rows_are_ordered_by_score_where_that_is_asked() -> None:
    facts = [("a", "p", "x"), ("b", "q", "y"), ("c", "p", "c"), ("c", "q", "c")]
    graph = Graph.of(facts)
    # of two, one holds more likely than a fact
    likely = np.full((graph.num_entities, graph.num_entities), 0.99)
    likely[
        [graph.entities.id("a"), graph.entities.id("b")],
        [graph.entities.id("y"), graph.entities.id("x")],
    ] = 0.01
    engine = Engine(graph, TableScorer([likely, likely]), calibration="sigmoid", search="exact")
    query = (
        "SELECT ?o ?s ?k { { :a :p ?o } UNION { :b :q ?o } ?o answer:score ?s ; "
        "answer:known ?k } ORDER BY "
    )
    scores: dict[str, list[float]] = {}
    for order in ("DESC(?s)", "DESC(?k) DESC(?s)"):
        (reply,) = Answerer(engine, Limits()).replies(
            [Job("sparql", f"{PREFIXES}{query}{order} LIMIT 9")]
        )
        rows = json.loads(reply.body)["results"]["bindings"]
        known = [row["k"]["value"] == "true" for row in rows]
        scores[order] = [float(row["s"]["value"]) for row in rows]
        assert scores[order] == [
            answer.score for answer in engine.ask(f"{PREFIXES}{query}{order}", top=9)
        ]
    assert known == sorted(known, reverse=True)
    assert scores["DESC(?s)"] == sorted(scores[order], reverse=True) != scores[order]


def test_new_answers_by_a_parameter_of_the_address(service: Running) -> None:
    query = f"{PREFIXES} SELECT ?c {{ :France :borders ?c }} LIMIT 100"
    expected = [
        answer.entity
        for answer in open_europe().ask("?c : borders(France, ?c)", top=100)
        if not answer.known
    ]
    body = {"content": query, "headers": {"content-type": "application/sparql-query"}}
    for response in (
        service.client.get("/sparql", params={"query": query, "new": "true"}),
        service.client.post("/sparql?new=true", **body),
        service.client.post("/sparql?new=true", data={"query": query}),
    ):
        assert [
            label(row["c"]["value"]) for row in response.json()["results"]["bindings"]
        ] == expected
    form = service.client.post("/sparql", data={"query": query, "new": "true"})
    assert (form.status_code, "/sparql?new=" in form.json()["error"]["message"]) == (400, True)


def test_entities_come_back_as_terms_that_can_be_asked_with(service: Running) -> None:
    store = SPARQLStore(service.url + "sparql")
    (first,) = store.query("PREFIX : <tacit:> SELECT ?c { :Portugal :borders ?c } LIMIT 1")
    assert first[0] == URIRef("tacit:Spain")
    again = store.query(f"SELECT ?l {{ {first[0].n3()} <tacit:speaks> ?l }} LIMIT 1")
    assert [label(row[0]) for row in again] == ["Spanish"]


@pytest.mark.parametrize(
    ("query", "words", "column"),
    [
        ("SELECT ?c WHERE { ?c ?c", "not a SPARQL query", None),
        (
            "SELECT ?c { <tacit:France> <tacit:borders> ?c BIND(STR(?c) AS ?l) }",
            "braces, is not supported at column 47; compute values from the results",
            47,
        ),
        (
            "SELECT ?c { <tacit:France> <tacit:borders> ?c } LIMIT 1001",
            "LIMIT is 1001, this service allows",
            None,
        ),
        ("SELECT ?c { <tacit:France> <tacit:borders> ?c } OFFSET 100001", "OFFSET is 100001", None),
    ],
)
def test_clients_show_what_is_wrong_and_where(
    service: Running, query: str, words: str, column: int | None
) -> None:
    response = service.client.get("/sparql", params={"query": query})
    error = response.json()["error"]
    assert response.status_code == 400
    assert words in error["message"]
    assert column is None or error["column"] == column
    client = SPARQLWrapper(service.url + "sparql")
    client.setQuery(query)
    with pytest.raises(QueryBadFormed) as shown:
        client.query()
    assert words.split("'")[0] in str(shown.value)
    with pytest.raises(ValueError, match="something wrong") as hidden:
        SPARQLStore(service.url + "sparql").query(query)
    cause = hidden.value.__context__
    assert isinstance(cause, HTTPError)
    assert words in json.loads(cause.read())["error"]["message"]


QUERY = f"{PREFIXES}SELECT ?c {{ :France :borders ?c }} LIMIT 1"


@pytest.mark.parametrize(
    ("accept", "named", "sent"),
    [
        (None, {}, "application/sparql-results+json"),
        ("*/*", {}, "application/sparql-results+json"),
        ("text/csv, text/tab-separated-values;q=0.9", {}, "text/csv"),
        (
            "application/sparql-results+json;q=0.2, TEXT/Tab-Separated-Values;Q=0.3",
            {},
            "text/tab-separated-values",
        ),
        ("text/*;q=0.8, text/csv;q=0.1", {}, "text/tab-separated-values"),
        ("application/json", {}, "application/json"),
        ("text/html, application/xml;q=0.9, */*;q=0.8", {}, "application/xml"),
        ("image/png, */*;q=0.1", {}, "application/sparql-results+json"),
        ("text/csv", {"format": "xml"}, "application/sparql-results+xml"),
        (
            "text/csv",
            {"output": "application/sparql-results+json"},
            "application/sparql-results+json",
        ),
        ("image/png", {}, None),
        ("text/csv;q=0", {}, None),
        ("text/csv;q=much", {}, None),
        ("*/*", {"format": "png"}, None),
        ("*/*", {"format": "turtle"}, None),  # which only the service description can be
    ],
)
def test_the_format_is_the_one_that_is_wanted_most(
    service: Running, accept: str | None, named: dict[str, str], sent: str | None
) -> None:
    headers = {"accept": accept} if accept else {}
    response = service.client.get("/sparql", params={"query": QUERY} | named, headers=headers)
    if sent is None:
        assert response.status_code == 406
        assert "text/csv" in response.json()["error"]["message"]
    else:
        assert response.headers["content-type"].split(";")[0] == sent
        assert "tacit:Spain" in response.text


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"params": [("query", QUERY), ("query", QUERY)]}, "2 queries"),
        ({"params": {"query": ""}}, "not a SPARQL query"),
        (
            {"params": {"query": QUERY, "default-graph-uri": "http://a.org/"}},
            "'default-graph-uri' is not supported",
        ),
        ({"params": {"query": QUERY, "named-graph-uri": ""}}, "'named-graph-uri' is not supported"),
        (
            {"content": "CLEAR ALL", "headers": {"content-type": "application/sparql-update"}},
            "updates are not supported: nothing can be changed",
        ),
        (
            {"params": {"query": "INSERT DATA { <tacit:a> <tacit:b> <tacit:c> }"}},
            "INSERT is an update",
        ),
        (
            {"data": {"update": "DELETE WHERE { ?s ?p ?o }"}},
            "'update' is not supported: nothing can be changed",
        ),
        ({"data": {"query": [QUERY, QUERY]}}, "2 queries"),
        ({"data": {"query": QUERY}, "params": {"query": QUERY}}, "2 queries"),
        ({"data": {"query": QUERY, "default-graph-uri": "http://a.org/"}}, "there is one graph"),
        ({"data": {"query": QUERY, "run": "other"}}, "/sparql?run="),
        ({"data": {"query": QUERY} | {f"f{i}": "" for i in range(24)}}, "more than 20 fields"),
        ({"data": {"q": "SELECT"}}, "no field 'query'"),
        ({"json": {"query": QUERY}}, "application/sparql-query"),
        (
            {
                "content": b"query=%ff",
                "headers": {"content-type": "application/x-www-form-urlencoded"},
            },
            "not UTF-8",
        ),
        (
            {"content": b"\xff", "headers": {"content-type": "application/sparql-query"}},
            "not UTF-8",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(
    service: Running, sent: dict[str, Any], words: str
) -> None:
    method = "POST" if set(sent) - {"params"} else "GET"
    response = service.client.request(method, "/sparql", **sent)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["text/turtle", "application/n-triples", "application/rdf+xml"])
def test_the_endpoint_describes_itself(service: Running, kind: str) -> None:
    response = service.client.get("/sparql", headers={"accept": kind})
    assert response.headers["content-type"].split(";")[0] == kind
    described = RdfGraph().parse(
        data=response.content, format={"application/n-triples": "nt"}.get(kind, kind)
    )
    service_description = Namespace("http://www.w3.org/ns/sparql-service-description#")
    (node,) = described.subjects(RDF.type, service_description.Service)
    assert described.value(node, service_description.endpoint) == URIRef(service.url + "sparql")
    formats = {
        str(each).rsplit("_", 1)[1]
        for each in described.objects(node, service_description.resultFormat)
    }
    assert formats == {"JSON", "XML", "CSV", "TSV"}
    properties = set(described.objects(node, service_description.propertyFeature))
    assert properties == {URIRef("tacit:answer#score"), URIRef("tacit:answer#known")}
    (language,) = described.objects(node, service_description.supportedLanguage)
    assert language != service_description.SPARQL11Query  # which has more than is read
    assert "Not CONSTRUCT" in str(described.value(language, RDFS.comment))
    assert service.client.get("/sparql", headers={"accept": "text/csv"}).status_code == 406
    assert service.client.get("/sparql").headers["content-type"].startswith("text/turtle")
