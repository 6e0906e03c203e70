"""SPARQL: what it reads, held against rdflib's own answers, and what it refuses by name."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import Facts, answers, fact_sets
from tacit.errors import QueryError, TacitError, UnknownName
from tacit.graph.graph import Graph
from tacit.query.compile import compile_query
from tacit.query.formula import quoted
from tacit.query.names import bind
from tacit.query.sparql import parse_sparql
from tacit.query.text import parse

rdflib = pytest.importorskip("rdflib")

PREFIX = "PREFIX : <tacit:>\n"

READ = {
    "SELECT ?c WHERE { :France :borders ?c }": "?c : borders(France, ?c)",
    "SELECT ?c { ?n :borders :Brazil . ?c :capital_of ?n }": "?c : borders(?n, Brazil) & capital_of(?c, ?n)",
    "SELECT ?c { { :a :p ?c } UNION { :b :q ?c } }": "?c : p(a, ?c) | q(b, ?c)",
    "SELECT ?c { :a :p ?c FILTER NOT EXISTS { ?c :q ?x } }": "?c : p(a, ?c) & !(exists ?x . q(?c, ?x))",
    "SELECT ?c { :a :p ?c FILTER EXISTS { ?c :q ?x } }": "?c : p(a, ?c) & (exists ?x . q(?c, ?x))",
    "SELECT ?c { :a :p ?c MINUS { ?c :q ?x . ?x :r :b } }": "?c : p(a, ?c) & !(q(?c, ?x) & r(?x, b))",
    "SELECT ?c { :a :p ?c MINUS { ?x :q :b } }": "?c : p(a, ?c)",
    "SELECT DISTINCT ?c { ?c :p [ :q :b ] ; :r :a, :b }": "?c : p(?c, ?x) & q(?x, b) & r(?c, a) & r(?c, b)",
    "SELECT * { ?c a <tacit:New%20York> }": "?c : type(?c, 'New York')",
    "SELECT ?c { ?c <http://ex.org/v#in> 'Rio de Janeiro' }": "?c : in(?c, 'Rio de Janeiro')",
    "SELECT ?c { :a :p ?c . ?c :p ?x FILTER(NOT EXISTS { ?x :q :b } && EXISTS { ?c :q ?y }) }": (
        "?c : p(a, ?c) & p(?c, ?x) & !q(?x, b) & (exists ?y . q(?c, ?y))"
    ),
}


@pytest.mark.parametrize("text", READ)
def test_reads(text: str) -> None:
    query, limit = parse_sparql(PREFIX + text)
    assert query.same_as(parse(READ[text])), query
    assert limit is None


def test_a_variable_inside_not_exists_is_its_own_unless_the_pattern_binds_it() -> None:
    text = "SELECT ?c { { :a :p ?c FILTER NOT EXISTS { ?c :q ?x } } ?c :r ?x }"
    expected = parse("?c : p(a, ?c) & !(exists ?y . q(?c, ?y)) & (exists ?x . r(?c, ?x))")
    assert parse_sparql(PREFIX + text)[0].same_as(expected)


def test_reads_the_limit() -> None:
    assert parse_sparql(PREFIX + "SELECT ?c { :a :p ?c } LIMIT 7")[1] == 7


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("SELECT ?x { ?x :p :a OPTIONAL { ?x :r :s } }", 22, "OPTIONAL"),
        ("SELECT ?x { ?x :p/:q :a }", 18, "property path"),
        ("SELECT ?x { ?x :p* :a }", 18, "property path"),
        ("SELECT ?x { ?x :p :a FILTER(?x != :b) }", 22, "FILTER on values"),
        ("SELECT (COUNT(?x) AS ?n) { ?x :p :a }", 9, "aggregate"),
        ("SELECT ?x { ?x :p :a } GROUP BY ?x", 24, "grouping"),
        ("SELECT ?x ?y { ?x :p ?y }", 1, r"one variable, not for \?x, \?y"),
        ("ASK { ?x :p :a }", 1, "ASK"),
        ("CONSTRUCT { ?x :p :a } WHERE { ?x :p :a }", 1, "CONSTRUCT"),
        ("DESCRIBE :a", 1, "DESCRIBE"),
        ("INSERT DATA { :a :b :c }", 1, "not a SPARQL query: 'INSERT'"),
        ("SELECT ?x { ?x ?p :a }", 16, "variable in place of a relation"),
        ("SELECT ?x { ?x :p :a } ORDER BY ?x", 24, "ORDER BY"),
        ("SELECT ?x { ?x :p :a } OFFSET 2", 24, "OFFSET"),
        ("SELECT ?x { VALUES ?x { :a } ?x :p :b }", 13, "VALUES"),
        ("SELECT ?x { { SELECT ?x { ?x :p :a } } ?x :p :b }", 13, "sub-query"),
        ("SELECT ?x { ?x :p ?y BIND(?y AS ?z) }", 22, "BIND"),
        ("SELECT ?x { GRAPH :g { ?x :p :a } }", 13, "GRAPH"),
        ("SELECT ?x { SERVICE :g { ?x :p :a } }", 13, "SERVICE"),
        ("SELECT ?x FROM :g { ?x :p :a }", 11, "FROM"),
        ("SELECT ?x { ?x :p 'OPTIONAL' OPTIONAL { ?x :r :s } }", 30, "OPTIONAL"),
        ("SELECT ?x { ?x nope:p :a }", 16, "prefix 'nope:' is not declared"),
        ("SELECT ?x { ?x None:p :a }", 16, "prefix 'None:' is not declared"),
        ("SELECT ?x { ?x :p :a } please", 24, "not a SPARQL query: 'please'"),
        ("SELECT ?x { { ?x :p :a } UNION { :b :q ?y } }", None, r"\?x is not bound .* in every alternative"),
        ("SELECT ?x { }", None, r"\?x is not bound"),
    ],
)
def test_refuses_the_rest_by_name_and_place(text: str, column: int | None, words: str) -> None:
    with pytest.raises(QueryError, match=words) as caught:
        parse_sparql(PREFIX + text)
    assert caught.value.column == column
    assert caught.value.line == (2 if column else None)


def test_an_empty_prefix_that_is_not_declared() -> None:
    with pytest.raises(QueryError, match="prefix ':' is not declared; PREFIX : <tacit:> declares it") as caught:
        parse_sparql("SELECT ?x { ?x :p :a }")
    assert caught.value.column == 16


GRAPH = Graph.of([("New York", "part of", "geo:USA"), ("<http://ex.org/a>", "http://ex.org/in", "Rio")])


def bound(text: str) -> tuple[list[int], list[int]]:
    query, _ = parse_sparql(text, GRAPH)
    return bind(compile_query(query), GRAPH)


def test_iris_find_their_labels_in_a_graph() -> None:
    assert bound("SELECT ?x { <tacit:New%20York> <tacit:part%20of> ?x }") == ([0], [0])
    assert bound("PREFIX : <tacit:> SELECT ?x { :New_York :part_of ?x }") == ([0], [0])
    assert bound("PREFIX geo: <http://g.org/> SELECT ?x { ?x <http://any.org/v#part_of> geo:USA }") == ([1], [0])
    assert bound("SELECT ?x { <http://ex.org/a> <http://ex.org/in> ?x }") == ([2], [2])
    assert bound("SELECT ?x { ?x <http://ex.org/in> 'Rio' }") == ([3], [2])
    short = Graph.of([("dbr:Oslo", "dbo:country", "Norway")])
    short = Graph(short.entities, short.relations, short.train, prefixes={"dbr": "http://d/r/", "dbo": "http://d/o/"})
    query, _ = parse_sparql("SELECT ?x { <http://d/r/Oslo> <http://d/o/country> ?x }", short)
    assert str(query) == "?x : dbo:country(dbr:Oslo, ?x)"


def test_an_unknown_iri_is_located() -> None:
    with pytest.raises(UnknownName, match=r"unknown entity 'Rioo' at line 2, column 35; did you mean 'Rio'\?"):
        bound("PREFIX : <tacit:>\nSELECT ?x { ?x <http://ex.org/in> :Rioo }")


PATTERNS = ["?x :r ?y", ":e0 :p ?x", "?y :q :e1", "?x :p ?x", "?z :r ?y", "?x :q ?z"]


@st.composite
def groups(draw: st.DrawFn, depth: int = 2) -> str:
    """A group that binds `?x`, with alternatives and negations inside."""
    parts = ["?x :r ?y" if draw(st.booleans()) else ":e0 :p ?x"]
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["triple", "union", "not", "minus"] if depth else ["triple"]))
        if kind == "triple":
            parts.append(draw(st.sampled_from(PATTERNS)))
        elif kind == "union":
            parts.append(f"{draw(groups(depth - 1))} UNION {draw(groups(depth - 1))}")
        else:
            parts.append(("FILTER NOT EXISTS " if kind == "not" else "MINUS ") + draw(groups(depth - 1)))
    return "{ " + " . ".join(parts).replace(". FILTER", "FILTER").replace(". MINUS", "MINUS") + " }"


@given(groups(), fact_sets())
@settings(max_examples=60, deadline=None)
def test_answers_are_those_of_rdflib(group: str, world: tuple[Facts, tuple[str, ...]]) -> None:
    facts, entities = world
    graph = rdflib.Graph()
    for s, r, o in facts:
        graph.add((rdflib.URIRef(f"tacit:{s}"), rdflib.URIRef(f"tacit:{r}"), rdflib.URIRef(f"tacit:{o}")))
    text = f"{PREFIX} SELECT DISTINCT ?x WHERE {group}"
    expected = {str(row[0]).removeprefix("tacit:") for row in graph.query(text)}
    assert answers(parse_sparql(text)[0], facts, entities) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x " + "{" * 1000 + "?x :p :a" + "}" * 1000,
        "SELECT ?x { ?x :p (" + " :a" * 3000 + ") }",
        "SELECT ?x { ?x :p (" + " :a" * 200 + ") }",
        "SELECT ?x { " + "?x :p :a . " * 1500 + "}",
        "SELECT ?x { ?x :p :a FILTER(" + "!" * 5000 + "1) }",
        "SELECT ?x { ?x :p '" + "a" * 100_000 + "' }",
    ],
)
def test_what_is_too_large_is_refused_at_once(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(QueryError):
        parse_sparql(PREFIX + text)
    assert time.perf_counter() - start < 1


def test_any_text_is_a_query_or_an_error_of_ours() -> None:
    rng = random.Random(4)
    pieces = [
        *"{}()[].;,?:<>'\"\\^*/ \n",
        "SELECT",
        "UNION",
        "MINUS",
        "FILTER",
        "NOT EXISTS",
        ":p",
        "?x",
        "LIMIT",
        "-1",
    ]
    read = 0
    for _ in range(300):
        text = PREFIX + rng.choice(list(READ))
        for _ in range(rng.randrange(1, 4)):
            i = rng.randrange(len(text))
            j = i + rng.randrange(1, 6)
            text = rng.choice([text[:i] + text[j:], text[:i] + rng.choice(pieces) + text[i:], text[:j] + text[i:]])
        try:
            parse_sparql(text)
            read += 1
        except TacitError as error:
            message = str(error)
            if "\n" in message:
                pytest.fail(quoted(message))
    assert read > 10
