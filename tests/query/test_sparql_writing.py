"""Questions written as SPARQL have the answers they had, by the definition of formulas and by another reader."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from formulas import Facts, answers, fact_sets, queries
from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.formula import Atom, Entity, Query, Variable
from tacit.query.reading import read
from tacit.query.sparql.writer import to_sparql
from tacit.query.text.text import parse


def written(query: Query) -> str:
    try:
        return to_sparql(query)
    except QueryError:
        assume(False)
        raise


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(queries(3, 5), fact_sets())
def test_a_question_written_and_read_back_has_the_same_answers(
    query: Query, made: tuple[Facts, tuple[str, ...]]
) -> None:
    facts, entities = made
    try:
        back = read(written(query)).query
    except QueryError as error:
        assume("nested" not in str(error))  # deeper than SPARQL is read
        raise
    assert answers(back, facts, entities) == answers(query, facts, entities)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(queries(3, 5), fact_sets())
def test_another_store_finds_the_same_answers(query: Query, made: tuple[Facts, tuple[str, ...]]) -> None:
    from pyoxigraph import NamedNode, Quad, Store

    facts, entities = made
    text = written(query)
    store = Store()
    store.extend(Quad(*(NamedNode(f"tacit:{name}") for name in fact)) for fact in facts)
    found = {row[0].value.removeprefix("tacit:") for row in store.query(text)}  # type: ignore[union-attr]
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
def test_several_variables_yes_and_no_and_counts_mean_the_same_elsewhere(text: str, expected: object) -> None:
    from pyoxigraph import NamedNode, Quad, QueryBoolean, Store

    store = Store()
    facts = [("a", "borders", "b"), ("b", "borders", "c"), ("d", "borders", "c"), ("c", "speaks", "fr")]
    store.extend(Quad(*(NamedNode(f"tacit:{name}") for name in fact)) for fact in facts)
    query = parse(text)
    found = store.query(to_sparql(query))
    if isinstance(found, QueryBoolean):
        assert bool(found) is expected
    else:
        rows = {tuple(each.value.removeprefix("tacit:") for each in row) for row in found}  # type: ignore[union-attr]
        assert rows == (expected if isinstance(expected, set) else {(str(expected),)})
    assert read(to_sparql(query)).query.same_as(query)


def test_labels_are_written_as_their_graph_makes_iris_of_them() -> None:
    query = parse('?x : "is near"("New York", ?x) & ex:of(ex:a, ?x)')
    text = to_sparql(query, Prefixes({"ex": "http://example.org/"}))
    assert "<tacit:New%20York> <tacit:is%20near> ?x" in text
    assert "<http://example.org/a> <http://example.org/of> ?x" in text
    graph = Graph.of([("New York", "is near", "b"), ("ex:a", "ex:of", "b")])
    assert str(read(to_sparql(query, graph.prefixes), graph).query) == str(query)


def test_what_leaves_a_variable_open_is_refused() -> None:
    with pytest.raises(QueryError, match=r"\?x is open"):
        to_sparql(parse("?x : !borders(?x, France)"))


@pytest.mark.parametrize("label", ["<http://a.b/x>", "http://a.b/x", "x", "a.b/x"])
def test_labels_that_are_iris_with_and_without_brackets_stay_apart(label: str) -> None:
    graph = Graph.of([(other, "r", "y") for other in ("http://a.b/x", "<http://a.b/x>", "x", "a.b/x")])
    query = Query(Variable("y"), Atom("r", Entity(label), Variable("y")))
    assert read(to_sparql(query, graph.prefixes), graph).query == query


@pytest.mark.parametrize("text", ["?c : r(a, ?c)", "PREFIX : <tacit:> SELECT ?c { :a :r ?c }"])
def test_a_file_may_begin_with_the_mark_of_its_encoding(text: str) -> None:
    assert read(f"\ufeff{text}").query == parse("?c : r(a, ?c)")
