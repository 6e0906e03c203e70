"""Questions written as SPARQL keep their answers, by definition and another reader."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from formulas import Facts, answers, fact_sets, queries
from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.formula import Atom, Entity, Query, Variable
from tacit.query.question import parse_question
from tacit.query.sparql.writer import to_sparql
from tacit.query.text import parse


def written(query: Query) -> str:
    try:
        return to_sparql(query)
    except QueryError:
        assume(False)
        raise


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(queries(3, 5), fact_sets())
def test_a_question_written_and_read_back_has_the_same_answers(
    query: Query, made: tuple[Facts, tuple[str, ...]]
) -> None:
    facts, entities = made
    try:
        back = parse_question(written(query)).query
    except QueryError as error:
        assume("nested" not in str(error))  # deeper than SPARQL is read
        raise
    assert answers(back, facts, entities) == answers(query, facts, entities)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(queries(3, 5), fact_sets())
def test_another_store_finds_the_same_answers(
    query: Query, made: tuple[Facts, tuple[str, ...]]
) -> None:
    from pyoxigraph import NamedNode, Quad, Store

    facts, entities = made
    text = written(query)
    store = Store()
    store.extend(Quad(*(NamedNode(f"tacit:{name}") for name in fact)) for fact in facts)
    found = {row[0].value.removeprefix("tacit:") for row in store.query(text)}
    assert found == answers(query, facts, entities)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?a, ?b : borders(?a, ?b) & speaks(?b, fr)", {("b", "c"), ("d", "c")}),
        ("?a, ?b, ?c : borders(?a, ?b) & borders(?b, ?c)", {("a", "b", "c")}),
        (": borders(a, ?b) & speaks(?b, fr)", False),
        (": borders(b, ?b) & !speaks(?b, de)", True),
        ("count ?count : borders(?count, ?b)", 3),
        ("count ?b : exists ?a . borders(?a, ?b)", 2),
    ],
)
def test_several_variables_yes_and_no_and_counts_mean_the_same_elsewhere(
    text: str, expected: object
) -> None:
    from pyoxigraph import NamedNode, Quad, QueryBoolean, Store

    store = Store()
    facts = [
        ("a", "borders", "b"),
        ("b", "borders", "c"),
        ("d", "borders", "c"),
        ("c", "speaks", "fr"),
    ]
    store.extend(Quad(*(NamedNode(f"tacit:{name}") for name in fact)) for fact in facts)
    query = parse(text)
    found = store.query(to_sparql(query))
    if isinstance(found, QueryBoolean):
        assert bool(found) is expected
    else:
        rows = {tuple(each.value.removeprefix("tacit:") for each in row) for row in found}
        assert rows == (expected if isinstance(expected, set) else {(str(expected),)})
    assert parse_question(to_sparql(query)).query.same_as(query)


def test_labels_are_written_as_their_graph_makes_iris_of_them() -> None:
    query = parse('?x : "is near"("New York", ?x) & ex:of(ex:a, ?x)')
    text = to_sparql(query, Prefixes({"ex": "http://example.org/"}))
    assert "<tacit:New%20York> <tacit:is%20near> ?x" in text
    assert "<http://example.org/a> <http://example.org/of> ?x" in text
    graph = Graph.of([("New York", "is near", "b"), ("ex:a", "ex:of", "b")])
    assert str(parse_question(to_sparql(query, graph.prefixes), graph).query) == str(query)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("?x : r(a, ?x) & ?x != b", "FILTER (?x != :b)"),
        ("?x : r(a, ?x) & b != ?x", "FILTER (?x != :b)"),
        ("?x : r(a, ?x) & !(?x != b)", "FILTER (!(?x != :b))"),
        ("?x : r(a, ?x) & (?x != b | r(?x, b))", "(?x != :b)"),
        ("?x : r(?y, ?x) & !(?x != b & ?x != ?y)", "FILTER (!((?x != :b) && (?x != ?y)))"),
        ("?x : r(?y, ?x) & !(r(?x, ?z) & ?z != ?y)", "FILTER (?z != ?y)"),
        ("?x, ?y : r(?y, ?x) & ?x != ?y", "FILTER (?x != ?y)"),
    ],
)
def test_inequalities_are_filters(text: str, line: str) -> None:
    written = to_sparql(parse(text))
    assert line in [each.strip() for each in written.splitlines()]
    assert parse_question(written).query.same_as(parse(text))


def test_a_literal_is_compared_as_a_term() -> None:
    """By `!=` one would be compared by its value, and of types that nobody knows nothing is."""
    from pyoxigraph import RdfFormat, Store

    turtle = """@prefix : <http://x.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    :a :r "7"^^xsd:integer, "x"^^:odd, "y"^^:odd, "x", "x"@en, :b ."""
    store = Store()
    store.load(turtle, format=RdfFormat.TURTLE)
    prefixes = Prefixes({"": "http://x.org/", "xsd": "http://www.w3.org/2001/XMLSchema#"})
    labels = ['"7"^^xsd:integer', '"x"^^odd', '"y"^^odd', '"x"', '"x"@en', "b"]
    graph = replace(Graph.of([("a", "r", label) for label in labels]), prefixes=prefixes)
    for label in labels:
        query = Query(
            Variable("x"),
            parse("?x : r(a, ?x)").formula & Variable("x").differs_from(Entity(label)),
        )
        written = to_sparql(query, prefixes)
        assert len(list(store.query(written))) == 5, written  # type: ignore[arg-type]
        assert parse_question(written, graph).query.same_as(query)


def test_what_leaves_a_variable_open_is_refused() -> None:
    with pytest.raises(QueryError, match=r"\?x is open"):
        to_sparql(parse("?x : !borders(?x, France)"))


@pytest.mark.parametrize("label", ["<http://a.b/x>", "http://a.b/x", "x", "a.b/x"])
def test_labels_that_are_iris_with_and_without_brackets_stay_apart(label: str) -> None:
    graph = Graph.of(
        [(other, "r", "y") for other in ("http://a.b/x", "<http://a.b/x>", "x", "a.b/x")]
    )
    query = Query(Variable("y"), Atom("r", Entity(label), Variable("y")))
    assert parse_question(to_sparql(query, graph.prefixes), graph).query == query


@pytest.mark.parametrize("text", ["?c : r(a, ?c)", "PREFIX : <tacit:> SELECT ?c { :a :r ?c }"])
def test_a_file_may_begin_with_the_mark_of_its_encoding(text: str) -> None:
    assert parse_question(f"\ufeff{text}").query == parse("?c : r(a, ?c)")
