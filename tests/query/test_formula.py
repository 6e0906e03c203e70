"""Formulas as values: operators, equality, free variables, limits and printing."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import queries
from tacit.errors import QueryError
from tacit.query.formula import (
    MAX_DEPTH,
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Variable,
    atoms,
    quoted,
)

A = Entity("a")
T, X, Y = (Variable(name) for name in "txy")
P, Q, R = (Atom(name, A, T) for name in "pqr")


def test_operators_build_flat_formulas() -> None:
    assert And((P, Q, R)) == (P & Q & R)
    assert Or((P, Q, R)) == (P | Q | R)
    assert And((P, Or((Q, R)))) == (P & (Q | R))
    assert Not(P) == ~P
    assert hash(P & Q) == hash(And((P, Q)))
    assert len({P & Q, And((P, Q)), Q & P}) == 2


def test_free_variables_and_atoms() -> None:
    formula = Exists(X, Atom("p", X, Y) & ~Atom("q", X, T)) & Atom("r", X, X)
    assert formula.free == {X, Y, T}
    assert Exists(X, Atom("p", X, X)).free == frozenset()
    assert [atom.relation for atom in atoms(formula)] == ["p", "q", "r"]


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (P & (Q | R), "p(a, ?t) & (q(a, ?t) | r(a, ?t))"),
        (P | (Q & R), "p(a, ?t) | q(a, ?t) & r(a, ?t)"),
        (And((And((P, Q)), R)), "(p(a, ?t) & q(a, ?t)) & r(a, ?t)"),
        (~(P & Q), "!(p(a, ?t) & q(a, ?t))"),
        (~~P, "!!p(a, ?t)"),
        (~Exists(X, Atom("p", X, T)), "!(exists ?x . p(?x, ?t))"),
        (Exists(X, Atom("p", X, T)) & P, "(exists ?x . p(?x, ?t)) & p(a, ?t)"),
        (Exists(X, Exists(Y, Atom("p", X, Y) | P)), "exists ?x . exists ?y . p(?x, ?y) | p(a, ?t)"),
        (Atom("is in", Entity("New York"), T), '"is in"("New York", ?t)'),
    ],
)
def test_prints_with_the_brackets_it_needs(formula: Formula, text: str) -> None:
    assert str(formula) == text
    assert repr(Query(T, formula)) == f"<?t : {text}>"


@pytest.mark.parametrize(
    "name", ["France", "/m/027rn", "+/a/b./c", "concept:x-y", "o'neal", "1990", "Zürich"]
)
def test_plain_names_stay_bare(name: str) -> None:
    assert quoted(name) == name


@pytest.mark.parametrize(
    "name", ["New York", "", "and", "EXISTS", "a.", "a,b", "(x)", "?x", 'say "hi"', "a\nb", ":a"]
)
def test_other_names_are_quoted(name: str) -> None:
    assert quoted(name).startswith('"')
    assert "\n" not in quoted(name)


def renamed(formula: Formula, names: dict[Variable, Variable], rng: random.Random) -> Formula:
    """The same question with other bound names and its parts shuffled."""
    match formula:
        case Atom(relation, subject, object_):
            ends = [names.get(e, e) if isinstance(e, Variable) else e for e in (subject, object_)]
            return Atom(relation, ends[0], ends[1])
        case Inequality():
            sides = [names.get(e, e) if isinstance(e, Variable) else e for e in formula.terms]
            return Inequality(*rng.sample(sides, 2))
        case And(parts) | Or(parts):
            return type(formula)(
                tuple(renamed(p, names, rng) for p in rng.sample(parts, len(parts)))
            )
        case Not(part):
            return Not(renamed(part, names, rng))
        case Exists(variable, part):
            fresh = next(v for n in count() if (v := Variable(f"v{n}")) not in names.values())
            return Exists(fresh, renamed(part, {**names, variable: fresh}, rng))
    raise AssertionError(formula)


@given(queries(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_sameness_ignores_bound_names_and_order(query: Query, rng: random.Random) -> None:
    target = Variable("v0")
    assert query.same_as(Query(target, renamed(query.formula, {query.target: target}, rng)))
    assert not query.same_as(Query(query.target, Not(query.formula)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (P & Q, P | Q),
        (P & P, P & Q),
        (Exists(X, ~Atom("p", X, T)), ~Exists(X, Atom("p", X, T))),
        (Atom("p", X, Y), Atom("p", Y, X)),
        (Atom("p", Entity("?t"), A), Atom("p", T, A)),
        (Exists(X, Exists(Y, Atom("p", X, Y))), Exists(X, Exists(Y, Atom("p", Y, X)))),
        (
            Exists(X, Exists(X, Exists(Y, Atom("p", X, Y)))),
            Exists(X, Exists(X, Exists(Y, Atom("p", X, X)))),
        ),
    ],
)
def test_sameness_tells_apart(one: Formula, other: Formula) -> None:
    assert not one.same_as(other)


def test_sameness_merges_nested_parts() -> None:
    assert And((And((P, Q)), R)).same_as(And((R, And((Q, P)))))


def test_the_text_a_query_came_from_is_no_part_of_it() -> None:
    assert Query(T, P, text="one") == Query(T, P, text="other")
    assert hash(Query(T, P, text="one")) == hash(Query(T, P))
    assert pickle.loads(pickle.dumps(Query(T, P & ~Q))) == Query(T, P & ~Q)


def test_nesting_has_a_limit() -> None:
    formula: Formula = P
    for _ in range(MAX_DEPTH - 1):
        formula = ~formula
    assert str(formula).startswith("!!!")
    assert hash(formula) == hash(pickle.loads(pickle.dumps(formula)))
    with pytest.raises(QueryError, match="nested deeper than 100"):
        _ = ~formula


def test_parts_may_be_a_list() -> None:
    assert And([P, P]) == P & P  # type: ignore[arg-type]
    assert hash(Or([P, P])) == hash(P | P)  # type: ignore[arg-type]


def test_what_is_no_formula_is_refused() -> None:
    with pytest.raises(QueryError, match="'And' joins two formulas or more, not 1"):
        And((P,))
    with pytest.raises(QueryError, match="no name for a variable"):
        Variable("a b")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Atom("r", "a", Variable("x")), "Entity.*not about 'a'"),  # type: ignore[arg-type]
        (lambda: P & "q", "not of 'q'"),  # type: ignore[operator]
        (lambda: Not("q"), "not of 'q'"),  # type: ignore[arg-type]
        (lambda: Exists("x", P), "not 'x'"),  # type: ignore[arg-type]
        (lambda: Entity(42), "label, as text, not by 42"),  # type: ignore[arg-type]
        (lambda: Variable(42), "42 is no name for a variable"),  # type: ignore[arg-type]
        (lambda: Query("x", P), "not Query.'x'"),  # type: ignore[arg-type]
        (lambda: Query(Variable("x"), "r(a, ?x)"), "not Query"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_formula_is_refused_where_it_is_given(
    build: Callable[[], object], words: str
) -> None:
    with pytest.raises(QueryError, match=words):
        build()


def test_a_query_asks_for_any_number_of_variables() -> None:
    both = Atom("p", X, Y)
    assert [Query(targets, both).kind for targets in ((X, Y), X, ())] == [
        "tuples",
        "entities",
        "truth",
    ]
    assert Query(X, both) == Query([X], both) != Query(X, both, count=True)
    assert Query(X, both).target == X
    with pytest.raises(QueryError, match=r"one variable is asked for here, not 2: \?x, \?y : p"):
        _ = Query((X, Y), both).target
    assert Query((X, Y), both).same_as(Query((Y, T), Atom("p", Y, T)))
    assert not Query((X, Y), both).same_as(Query((Y, X), both))
    assert Query(T, Atom(T, A, A)).kind == "relations"
    assert Atom(T, A, A).free == {T}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Query((X, X), Atom("p", X, A)), "must differ"),
        (lambda: Query((X, Y), Atom("p", X, Y), count=True), "a count must be of one variable"),
        (lambda: Query(X, Atom(X, A, Y)), "for one between two entities"),
        (lambda: Query(X, Atom(X, A, A) & Q), "for one between two entities"),
        (lambda: Query(3, P), "a query is Query"),  # type: ignore[arg-type]
        (lambda: Atom(3, A, A), "a label or Variable"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_asked_for_is_refused(build: Callable[[], object], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        build()
