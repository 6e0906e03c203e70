"""The labels of a graph that IRIs in SPARQL stand for."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.engine.engine import Engine
from tacit.errors import UnknownName
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.formula import quoted
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.text import parse

pytest.importorskip("rdflib")

GRAPH = Graph.of(
    [("New York", "part of", "geo:USA"), ("<http://ex.org/a>", "http://ex.org/in", "Rio")]
)


def bound(text: str) -> tuple[list[int], list[int]]:
    return bind(compile_query(parse_sparql(text, GRAPH).query), GRAPH)


def test_iris_find_their_labels_in_a_graph() -> None:
    assert bound("SELECT ?x { <tacit:New%20York> <tacit:part%20of> ?x }") == ([0], [0])
    assert bound("PREFIX : <tacit:> SELECT ?x { :New_York :part_of ?x }") == ([0], [0])
    assert bound(
        "PREFIX geo: <http://g.org/> SELECT ?x { ?x <http://any.org/v#part_of> geo:USA }"
    ) == ([1], [0])
    assert bound("SELECT ?x { <http://ex.org/a> <http://ex.org/in> ?x }") == ([2], [2])
    assert bound("SELECT ?x { ?x <http://ex.org/in> 'Rio' }") == ([3], [2])


def from_rdf(iris: list[str], declared: dict[str, str]) -> Graph:
    """A graph as a file of RDF gives it, in which everything is next to the first."""
    prefixes = Prefixes(declared, iris)
    labels = [prefixes.label(iri) for iri in iris]
    facts = Graph.of([(label, labels[0], labels[0]) for label in dict.fromkeys(labels)])
    return Graph(facts.entities, facts.relations, facts.train, prefixes=prefixes)


SWEDEN = from_rdf(
    ["http://a.org/next", "http://b.org/geo#Sweden", "http://a.org/Oslo"], {"": "http://a.org/"}
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x { <http://b.org/geo#Sweden> <http://a.org/next> ?x }",
        "PREFIX any: <http://b.org/geo#> PREFIX : <http://a.org/> SELECT ?x { any:Sweden :next ?x "
        "}",
        "PREFIX geo: <http://a.org/> PREFIX b: <http://b.org/> SELECT ?x { "
        "<http://b.org/geo#Sweden> geo:next ?x }",
        "BASE <http://b.org/> PREFIX g: <geo#> PREFIX h: <geo#> SELECT ?x { g:Sweden "
        "<//a.org/next> ?x }",
        "SELECT ?x { <tacit:geo%3ASweden> <tacit:next> ?x }",
    ],
)
def test_an_iri_is_what_the_query_declares(text: str) -> None:
    assert str(parse_sparql(text, SWEDEN).query) == "?x : next(geo:Sweden, ?x)"


@pytest.mark.parametrize(
    ("term", "name", "meant"),
    [
        ("geo:Sweden", "http://other.org/Sweden", "http://b.org/geo#Sweden"),
        ("<http://other.org/Sweden>", "http://other.org/Sweden", "http://b.org/geo#Sweden"),
        ("<http://a.org/Sweden>", "http://a.org/Sweden", "http://b.org/geo#Sweden"),
        ("<http://b.org/geo#Oslo>", "http://b.org/geo#Oslo", "http://a.org/Oslo"),
        ("<http://b.org/geo#sweden>", "http://b.org/geo#sweden", "http://b.org/geo#Sweden"),
        ("<http://b.org/geo#Swedne>", "http://b.org/geo#Swedne", "http://b.org/geo#Sweden"),
        ("<Oslo>", "Oslo", "http://a.org/Oslo"),
        ("'Oslo'", '"Oslo"', None),
    ],
)
def test_an_iri_of_another_namespace_is_unknown(term: str, name: str, meant: str | None) -> None:
    text = f"PREFIX geo: <http://other.org/>\nSELECT ?x {{ ?x <http://a.org/next> {term} }}"
    (error,) = parse_sparql(text, SWEDEN).unknown
    assert (error.kind, error.name) == ("entity", name)
    assert (error.line, error.column) == (2, 36)
    assert meant is None or meant in error.suggestions
    assert len(Engine.of_facts(SWEDEN).ask(text)) == 0


IRIS = st.from_regex(
    r"\A(http://a\.org/|urn:|tacit:|ex:|http://b\.org/g#)[A-Za-z0-9%:/#._~é日-]{0,8}\Z"
)


@given(
    st.lists(IRIS, min_size=1, max_size=5, unique=True),
    st.sampled_from([{}, {"": "http://a.org/"}, {"ex": "urn:"}]),
)
@settings(max_examples=60, deadline=None)
def test_every_iri_of_a_graph_from_rdf_reads_as_itself(
    iris: list[str], declared: dict[str, str]
) -> None:
    graph = from_rdf([*iris, "http://a.org/last"], declared)
    for iri in iris:
        query = parse_sparql(f"SELECT ?x {{ <{iri}> <{iris[0]}> ?x }}", graph).query
        assert query.formula.subject.name == graph.prefixes.label(iri)  # type: ignore[attr-defined]


@given(st.text(min_size=1, max_size=8).filter(lambda label: label == label.strip(" ")))
@settings(max_examples=60, deadline=None)
def test_every_label_can_be_named_in_the_scheme_of_tables(label: str) -> None:
    graph = Graph.of([(label, "next", "other")])
    text = f"SELECT ?x {{ <tacit:{quote(label, safe='')}> <tacit:next> ?x }}"
    assert parse_sparql(text, graph).query == parse(f"?x : next({quoted(label)}, ?x)")


def test_names_in_a_query_are_unescaped() -> None:
    graph = Graph.of([("a,b", "in", "ūc")])
    assert parse_sparql(r"PREFIX : <tacit:> SELECT ?x { :a\,b :in ?x }", graph).query == parse(
        "?x : in('a,b', ?x)"
    )
    assert parse_sparql(r"PREFIX : <tacit:> SELECT ?x { ?x :in :\u016bc }", graph).query == parse(
        "?x : in(?x, ūc)"
    )


def test_an_unknown_iri_is_located_and_gives_no_rows() -> None:
    text = "PREFIX : <tacit:>\nSELECT ?x { ?x <http://ex.org/in> :Rioo }"
    answers = Engine.of_facts(GRAPH).ask(text)
    (note,) = answers.unknown
    assert note == "unknown entity 'Rioo' at line 2, column 35; did you mean 'Rio'?"
    assert len(answers) == 0
    assert note in str(answers)
    assert answers.to_dict()["unknown"] == [note]
    with pytest.raises(UnknownName, match="unknown entity 'Rioo'"):
        Engine.of_facts(GRAPH).ask("?x : 'http://ex.org/in'(?x, Rioo)")


def test_what_is_looked_up_is_noted_too() -> None:
    engine = Engine.of_facts(GRAPH)
    looked_up = engine.ask("PREFIX : <tacit:> SELECT ?p ?o { :Rioo ?p ?o OPTIONAL { ?o :inn ?p } }")
    assert len(looked_up) == 0
    assert [note.split(";")[0] for note in looked_up.unknown] == [
        "unknown entity 'Rioo' at column 34"
    ]
    counted = engine.ask("PREFIX : <tacit:> SELECT (COUNT(*) AS ?n) { ?x :partt_of ?y }")
    assert counted[0].values == {"n": "0"}
    assert "did you mean 'part of'?" in counted.unknown[0]
    relation = engine.ask(
        "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
        "SELECT ?n { <http://ex.org/in> rdfs:label ?n }"
    )
    assert [answer.values["n"] for answer in relation] == ["http://ex.org/in"]
    assert relation.unknown == ()
