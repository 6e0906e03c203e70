"""Parameters: any label in the place of `$name`, no more and no fewer than the text has."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.engine.engine import Engine
from tacit.errors import QueryError, SettingsError, TacitError, UnknownName
from tacit.graph.graph import Graph
from tacit.query.formula import Atom, Entity, Exists, Query, Variable
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind, parse_question
from tacit.query.text import parse

C = Variable("c")
X = Variable("x")


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text())
def test_any_label_stands_where_its_parameter_does(relation: str, entity: str) -> None:
    query = parse(
        "?c : ($r(?x, $who) | !$r^-1(?c, 'who')) & $r($who, ?x)", {"who": entity, "r": relation}
    )
    who = Entity(entity)
    formula = (Atom(relation, X, who) | ~Atom(relation, Entity("who"), C)) & Atom(relation, who, X)
    assert query == Query(C, Exists(X, formula))
    assert parse(str(query)) == query  # and what is printed asks the same


def test_a_quoted_dollar_is_a_label() -> None:
    assert parse("?c : r('$who', ?c)") == Query(C, Atom("r", Entity("$who"), C))


@pytest.mark.parametrize(
    ("text", "parameters", "says"),
    [
        ("?c : r($who, ?c)", {}, "parameter $who has no value"),
        ("?c : r($who, ?c)", {"whom": "a"}, "parameter $who has no value"),
        ("?c : r($who, ?c)", {"who": "a", "whom": "b"}, "the question has no parameter 'whom'"),
        ("?c : r('$who', ?c)", {"who": "a"}, "the question has no parameter 'who'"),
        ("?c : r($who, ?c)", {"who": 7}, "parameter 'who' is 7; it must be a label, as text"),
        ("$who : r(a, $who)", {"who": "c"}, "a question starts with the variable it asks for"),
        (
            "?c : exists $who . r($who, ?c)",
            {"who": "c"},
            "unexpected '$who', where a variable such as ?x",
        ),
        ("?c : r($, ?c)", {}, "unexpected '$'"),
        ("SELECT $who { $who <tacit:r> ?c }", {"who": "a"}, "SPARQL takes no parameter 'who'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_by_name(
    text: str, parameters: dict[str, str], says: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse_question(text, parameters=parameters)
    assert says in str(caught.value)


def test_a_label_that_the_graph_does_not_have_points_at_no_other_place() -> None:
    graph = Graph.of([("France", "borders", "Spain")])
    with pytest.raises(UnknownName) as caught:
        bind(
            compile_query(
                parse("?c : borders(France, ?c) & borders($France, ?c)", {"France": "Frnace"})
            ),
            graph,
        )
    assert str(caught.value) == "unknown entity 'Frnace'; did you mean 'France'?"
    # and not that of $who
    with pytest.raises(TacitError, match="unknown entity 'who' at column 20"):
        bind(compile_query(parse("?c : borders($who, who)", {"who": "France"}), safe=False), graph)


@pytest.mark.parametrize(
    "name", ["top", "offset", "min_score", "explain", "paths", "new", "query", "question", "self"]
)
def test_a_parameter_by_the_name_of_an_option_is_given_in_a_pair(name: str) -> None:
    engine = Engine.of_facts(Graph.of([("France", "top", "Paris"), ("Spain", "top", "Madrid")]))
    text = f"?c : top(${name}, ?c)"
    pair = text, {name: "France"}
    for answers in (engine.ask(pair), engine.explain(pair), *engine.ask_many([pair])):
        assert answers.entities == ["Paris"]
    assert engine.count(pair).known == 1
    if name in ("query", "question"):
        assert engine.ask(text, **{name: "France"}).entities == ["Paris"]


def test_what_is_no_parameter_says_what_it_is() -> None:
    engine = Engine.of_facts(Graph.of([("France", "r", "Spain")]))
    pair = re.escape(
        "parameter $top has no value, since top is an option of ask; give it in a pair with the "
        "text: ask(("
    )
    with pytest.raises(QueryError, match=pair):
        engine.ask("?c : r($top, ?c)", top="France")  # type: ignore[arg-type]
    for question in ("?c : r(France, ?c)", "SELECT ?c { <tacit:France> <tacit:r> ?c }"):
        with pytest.raises(
            QueryError,
            match=r"k is a setting, of run\.engine\.with_settings\(k=…\), or of tacit\.open",
        ):
            engine.ask(question, k=3)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"parameter 'explain'.* it always gives reasons"):
        engine.explain("?c : r(France, ?c)", explain="x")
    for options in ({"explain": "yes"}, {"new": "yes"}, {"explain": 1}):
        with pytest.raises(SettingsError, match="must be True or False, not"):
            engine.ask("?c : r(France, ?c)", **options)
    with pytest.raises(QueryError, match="a question with parameters is a pair"):
        engine.ask(("?c : r($who, ?c)", {1: "France"}))  # type: ignore[dict-item]
