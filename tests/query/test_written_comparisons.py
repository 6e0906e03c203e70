"""Comparisons in texts and in Python: what is read, written, bound and refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import TARGET, queries
from tacit.errors import QueryError, TacitError, UnknownName
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import Graph
from tacit.graph.quantities import Quantity
from tacit.query.comparison import Bound, Comparison, Ordering, Value, asserted_comparisons
from tacit.query.formula import Atom, Entity, Formula, Inequality, Not, Query, Variable
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Within, walk
from tacit.query.text import parse
from tacit.query.value_binding import bind_values

C = Variable("c")
population = Value("population", C)
A = Atom("r", Entity("a"), C)
GRAPH = replace(
    Graph.of([("France", "borders", "Spain"), ("1950", "borders", "Spain")]),
    attributes=Attributes.of(
        [
            Attribute("population"),
            Attribute("Surface area", "number", "km²"),
            Attribute("founded", "date"),
            Attribute("died", "date"),
            Attribute("runtime", "duration"),
        ],
        [],
    ),
)


def formula(text: str) -> Formula:
    return parse(f"?c : {text}").formula


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("population(?c) > 10_000_000", population > 10_000_000),
        ("population(?c) >= 5e6", population >= 5e6),
        ("5 < population(?c)", population > 5),
        ("population(?c) ≤ -2.5", population <= -2.5),
        ("population(?c) == 5", population.equals(5)),
        ("population(?c) != 5", Not(Comparison(population, None, *2 * [Bound(Quantity(5.0))]))),
        ("population(?c) ≠ 5", population.differs_from(5)),
        ("1 <= population(?c) <= 5", population.between(1, 5)),
        ("founded(?c) < 1950-06", C.value("founded") < "1950-06"),
        ("founded(?c) > 1999-12-31", C.value("founded") > date(1999, 12, 31)),
        ("runtime(?c) < PT2H", C.value("runtime") < timedelta(hours=2)),
        ("population(?c) > 3 km²", population > "3 km²"),
        ("population(?c) > 3 'sq km'", population > "3 sq km"),
        ("population(?c) > population(France)", population > Entity("France").value("population")),
        ("died(?c) - founded(?c) < P9D", C.value("died") - C.value("founded") < timedelta(9)),
        ("population(?c)", population.exists()),
        ("'in hab'(?c) > 5", C.value("in hab") > 5),
        # an inequality between names and variables of entities stays one
        ("r(a, ?c) & ?c != 1950", A & Inequality(C, Entity("1950"))),
        ("1950(1950, ?c)", Atom("1950", Entity("1950"), C)),
    ],
)
def test_a_text_and_python_make_the_same_formula(text: str, meant: Formula) -> None:
    assert formula(text) == meant
    assert parse(str(parse(f"?c : {text}"))) == parse(f"?c : {text}")


def test_python_refuses_a_chain_of_which_it_would_drop_a_part() -> None:
    with pytest.raises(QueryError, match="between"):
        _ = 1 <= population < 5
    with pytest.raises(QueryError, match="with itself"):
        _ = population > Value("population", C)
    for wrong in (True, None, float("nan"), 10**400, [1], "France"):
        with pytest.raises(QueryError):
            _ = population > wrong
    assert (population > np.float32(2.5)) == (population > 2.5)


@settings(max_examples=200, deadline=None)
@given(queries(values=True))
def test_any_comparison_reads_back_as_it_was_written(query: Query) -> None:
    assert parse(str(query)) == query


ORDERED = st.lists(st.booleans(), max_size=3)


@settings(max_examples=100, deadline=None)
@given(queries(size=3, values=True), ORDERED, st.booleans())
def test_orders_and_variables_of_values_read_back(
    query: Query, orders: list[bool], named: bool
) -> None:
    keys = [Ordering(TARGET.value(f"attribute {i}"), down) for i, down in enumerate(orders)]
    asked: Formula = query.formula & TARGET.value("size").named("n") if named else query.formula
    ordered = Query(TARGET, asked, order=keys)
    assert parse(str(ordered)) == ordered
    assert ordered.values == ({"n": TARGET.value("size")} if named else {})


def test_a_variable_of_a_value_stands_for_it_everywhere() -> None:
    query = parse("?c, ?n : r(a, ?c) & ?n = population(?c) & 5 < ?n & ?n != 7 order by ?n desc")
    assert query.targets == (C,)
    assert query.values == {"n": population}
    assert query.order == (Ordering(population, True),)
    others = A & (population > 5) & population.differs_from(7)
    assert query.same_as(
        Query(C, others & population.named("m"), order=[Ordering(population, True)])
    )
    assert not query.same_as(Query(C, others & population.exists(), order=query.order))
    assert not query.same_as(Query(C, others & population.named("n")))
    alias = parse("?c : r(a, ?c) & ?n = population(?c) & ?n > 5")
    assert alias.values == {}
    assert list(asserted_comparisons(alias.formula)) == [population.exists(), population > 5]


def test_a_value_alone_needs_no_colon() -> None:
    assert parse("population(France)") == parse(": population(France)")
    assert parse("'in hab'($who)", {"who": "New York"}) == parse(": 'in hab'('New York')")
    with pytest.raises(QueryError, match="starts with the variable"):
        parse("population(?c)")


def test_parameters_stand_for_literals_and_entities() -> None:
    given_labels = {"most": "1950-06", "who": "France", "what": "in hab"}
    query = parse("?c : $what(?c) > $what($who) & founded(?c) < $most", given_labels)
    assert str(query) == '?c : "in hab"(?c) > "in hab"(France) & founded(?c) < 1950-06'


def test_parameters_stand_for_attributes_and_entities_of_an_order() -> None:
    text = "?a, ?b : r(?a, ?b) order by $what(?b) desc, age($who)"
    labels = {"what": "in hab", "who": "France"}
    assert parse(text, labels) == parse(
        "?a, ?b : r(?a, ?b) order by 'in hab'(?b) desc, age(France)"
    )
    assert parse("?a : r(?a, b) order by $top", {"top": "age"}) == parse(
        "?a : r(?a, b) order by age"
    )
    with pytest.raises(QueryError, match=r"parameter \$age has no value"):
        parse("?a : r(?a, b) order by $age")


@pytest.mark.parametrize(
    "text",
    [
        "?c : " + " < ".join(f"p(?v{i % 3})" for i in range(66)),
        "?c : r(?c, b) & " + " & ".join(["1 < p(?c) < 2"] * 32),
        "?c : r(?c, b) order by " + ", ".join(["p"] * 64),
    ],
)
def test_chains_and_orders_count_as_what_they_stand_for(text: str) -> None:
    with pytest.raises(QueryError, match="more than 64 atoms"):
        parse(text)


def test_a_long_literal_is_cut_in_its_error() -> None:
    with pytest.raises(QueryError, match=f"^'{'9' * 40}' is no number"):
        parse(f"?c : p(?c) > {'9' * 5000}")


@pytest.mark.parametrize(
    ("several", "one"),
    [
        ("1900 <= p(?c) & p(?c) < 1950", "1900 <= p(?c) < 1950"),
        ("p(?c) > 3 & p(?c) > 5 & p(?c) >= 5", "p(?c) > 5"),
        ("p(?c) <= q(?c) & q(?c) <= p(?c)", "p(?c) = q(?c)"),
        ("p(?c) >= p(b) & p(b) >= p(?c)", "p(?c) = p(b)"),
        (
            "(exists ?x . q(?x, ?c) & p(?c) > 3) & p(?c) < 9",
            "q(?x, ?c) & 3 < p(?c) < 9",
        ),
        ("p(?c) & p(?c) > 3", "p(?c) > 3"),
        ("p(b) > 3 & p(b) < 5", "3 < p(b) < 5"),
    ],
)
def test_the_bounds_of_a_value_are_one_comparison(several: str, one: str) -> None:
    first, second = (compile_query(parse(f"?c : r(a, ?c) & {text}")) for text in (several, one))
    assert first.plan == second.plan
    assert first.entities == second.entities
    alternatives = compile_query(parse("?c : r(a, ?c) & (p(?c) < 3 | p(?c) > 5)")).plan
    assert sum(isinstance(step, Within) for step in walk(alternatives.root)) == 2


def interval(text: str) -> tuple[float, float]:
    bound = bind_values(parse(f"?c : {text}"), GRAPH).formula
    assert isinstance(bound, Comparison)
    return bound.interval


def days(text: str) -> float:
    return float(np.datetime64(text, "D").astype(int))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("founded(?c) < 1950", ["1949-12-31"], ["1950-01-01"]),
        ("founded(?c) <= 1950", ["1950-12-31"], ["1951-01-01"]),
        ("founded(?c) > 1950", ["1951-01-01"], ["1950-12-31"]),
        ("founded(?c) >= 1950", ["1950-01-01"], ["1949-12-31"]),
        ("founded(?c) = 1950", ["1950-01-01", "1950-12-31"], ["1949-12-31", "1951-01-01"]),
        ("founded(?c) = 1950-02", ["1950-02-01", "1950-02-28"], ["1950-01-31", "1950-03-01"]),
        ("800 <= founded(?c) < 801", ["0800-06-01"], ["0799-12-31", "0801-01-01"]),
        ("founded(?c) < -500", ["-0501-12-31"], ["-0500-01-01"]),
    ],
)
def test_a_date_stands_for_its_whole_period(
    text: str, inside: list[str], outside: list[str]
) -> None:
    low, high = interval(text)
    assert all(low <= days(day) <= high for day in inside)
    assert not any(low <= days(day) <= high for day in outside)


def test_names_kinds_and_units_are_those_of_the_graph() -> None:
    low, high = interval("surface_area(?c) > 5 km2")
    assert 5 < low < 5.001
    assert high == np.inf
    assert interval("runtime(?c) = PT90M") == (5400.0, 5400.0)
    assert interval("died(?c) - founded(?c) = P2D") == (2.0, 2.0)
    ordered = bind_values(parse("?c : borders(France, ?c) order by SURFACE_AREA"), GRAPH)
    assert ordered.order == (Ordering(C.value("Surface area")),)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("popluation(?c) > 5", UnknownName, "unknown attribute 'popluation' at column 6; did you"),
        ("borders(?c) > 5", QueryError, "borders is a relation at column 6; .* two arguments"),
        ("population(?c, France)", QueryError, "population is an attribute at column 6"),
        ("population(?c) > 1950-06", QueryError, "population is a number, and 1950-06 is a date"),
        ("founded(?c) > PT2H", QueryError, "founded is a date, .*; write a date, such as 1950-06"),
        ("founded(?c) > 19.5", QueryError, "write a date"),
        ("runtime(?c) > 90", QueryError, "write a duration, such as PT2H"),
        ("surface_area(?c) > 5 m²", QueryError, "in km², not in m² at column 6; write it in km²"),
        ("population(?c) > 5 km²", QueryError, "leave the unit out"),
        ("died(?c) - founded(?c) > 0 km", QueryError, "write a duration"),
        ("died(?c) - founded(?c) > 1970-01-01", QueryError, "and 1970-01-01 is a date"),
        ("founded(?c) > population(?c)", QueryError, "founded is a date and population is a num"),
        ("population(?c) > 'Surface area'(?c)", QueryError, "a number in km²"),
        ("died(?c) - founded(?c) > 5", QueryError, "a difference of died is a duration"),
        ("borders(France, ?c) order by colour", UnknownName, "unknown attribute 'colour'"),
    ],
)
def test_what_does_not_fit_the_graph_is_refused(
    text: str, error: type[TacitError], says: str
) -> None:
    from tacit.engine.questions import bind_question

    with pytest.raises(error, match=says):
        bind_question(f"?c : {text}", GRAPH, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("?c, ?n : r(a, ?c) & (?n = population(?c) | q(a, ?c))", "beside all other conditions"),
        ("?c : !(?n = population(?c)) & ?n > 5", "beside all other conditions"),
        ("?c, ?n : r(?n, ?c) & ?n = population(?c)", "for a value .* and for an entity"),
        ("?n : r(a, ?x) & ?n = population(?x)", "ask for that as well"),
        ("count ?c, ?n : ?n = population(?c)", "a count must be of one|no column"),
        (": r(a, b) order by population(a)", "orders a list"),
        ("?c : r(a, ?c) order by population(?x)", "not asked for"),
        ("?a, ?b : r(?a, ?b) order by population", "does not say whose"),
        ("?c : r(a, ?c) order by ?c", "one of its attributes"),
    ],
)
def test_values_that_no_answer_has_are_refused(text: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        parse(text)


def test_bounds_of_one_side_are_compared_once_their_kind_is_known() -> None:
    """As numbers 1940 would be above the day of 1950-06, as years it is below."""
    low, high = bind_values(parse("?c : 1950-06 > founded(?c) < 1940"), GRAPH).formula.parts
    assert high.interval[1] < low.interval[1]
    plan = compile_query(bind_values(parse("?c : 1950-06 > founded(?c) < 1940"), GRAPH)).plan
    assert plan == compile_query(bind_values(parse("?c : founded(?c) < 1940"), GRAPH)).plan


def test_a_question_is_not_asked_of_a_graph_that_reads_it_otherwise() -> None:
    from tacit.engine.questions import bind_question

    bound = bind_question("?c : founded(?c) < 1950", GRAPH, {})
    other = replace(GRAPH, attributes=Attributes((Attribute("founded", "number"),)))
    assert bind_question(bound, GRAPH, {}) is bound
    with pytest.raises(QueryError, match="prepared on another graph"):
        bind_question(bound, other, {})


def test_a_plan_without_a_graph_supposes_the_kinds_of_its_literals() -> None:
    plan = parse("?c : r(a, ?c) & 1900 <= founded(?c) < 1950-06 & area(?c) > 2 km²").plan()
    assert "?c: 1900 <= founded(?c) < 1950-06" in plan
    assert "?c: area(?c) > 2 km²" in plan
