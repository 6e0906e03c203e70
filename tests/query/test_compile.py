"""Plans: their values over all assignments, their slots, and refusals."""

from __future__ import annotations

from itertools import combinations
from typing import Any as Whatever

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, NEGATIONS, BruteForce, Interpreter, Values
from formulas import ENTITIES, RELATIONS, queries
from tacit.errors import PlanError
from tacit.query.describe import describe
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Query, Variable
from tacit.query.plans import compile as compiling
from tacit.query.plans import plan as p
from tacit.query.plans.compile import compile_query, compile_template
from tacit.query.text import parse

A, B, C = (Entity(name) for name in ENTITIES)
T, X, Y, Z = (Variable(name) for name in "txyz")


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Values]:
    size = draw(st.integers(len(ENTITIES), 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # some relations hold often, some hardly ever
    powers = [draw(st.sampled_from([0.1, 1, 8])) for _ in RELATIONS]
    return {
        name: random.random((size, size)) ** power
        for name, power in zip(RELATIONS, powers, strict=True)
    }


@st.composite
def knots(draw: st.DrawFn) -> Query:
    """A conjunction of atoms, some negated, over few variables, with many cycles."""
    terms = st.sampled_from([T, X, Y, Z, X, Y, T, A])
    atoms = draw(
        st.lists(st.builds(Atom, st.sampled_from(RELATIONS), terms, terms), min_size=3, max_size=8)
    )
    formula: Formula = And(tuple(~atom if draw(st.integers(0, 4)) == 0 else atom for atom in atoms))
    for variable in draw(st.permutations([X, Y, Z])):
        formula = Exists(variable, formula)
    return Query(T, formula)


@given(
    st.one_of(queries(), knots()),
    tables(),
    st.sampled_from(sorted(LOGICS)),
    st.sampled_from(sorted(NEGATIONS)),
)
@settings(max_examples=300, deadline=None)
def test_a_plan_has_the_value_of_its_formula(
    query: Query, scores: dict[str, Values], logic: str, negation: str
) -> None:
    expected = BruteForce(scores, logic, negation).answers(query)
    found = Interpreter(scores, logic, negation).answers(compile_query(query, safe=False))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def root(formula: Formula) -> p.Node:
    """The plan of a formula as it is written."""
    return compile_template(Query(T, formula)).plan.root


def row(entity: int, relation: int) -> p.Row:
    return p.Row(entity, p.Relation(relation))


def hop(variable: int, source: p.Node, relation: int) -> p.Project:
    return p.Project(variable, source, p.Relation(relation))


def intersect(*parts: Whatever) -> p.Intersect:
    return p.Intersect(parts)


def complement(part: Whatever) -> p.Complement:
    return p.Complement(part)


def path(start: Entity, *relations: str) -> Formula:
    """`start` to the target over existential variables."""
    between = [Variable(f"v{i}") for i in range(len(relations) - 1)]
    ends = [start, *between, T]
    steps = [Atom(r, ends[i], ends[i + 1]) for i, r in enumerate(relations)]
    formula: Formula = steps[0] if len(steps) == 1 else And(tuple(steps))
    for variable in reversed(between):
        formula = Exists(variable, formula)
    return formula


def atom(start: Entity, relation: str, end: Variable = T) -> Atom:
    return Atom(relation, start, end)


SHAPES: dict[str, tuple[Formula, p.Node, str, str]] = {
    "1p": (path(A, "r"), row(0, 0), "e0", "r"),
    "2p": (path(A, "r", "q"), hop(1, row(0, 0), 1), "e0", "r q"),
    "3p": (path(A, "r", "q", "p"), hop(2, hop(1, row(0, 0), 1), 2), "e0", "r q p"),
    "2i": (atom(A, "r") & atom(B, "q"), intersect(row(0, 0), row(1, 1)), "e0 e1", "r q"),
    "3i": (
        atom(A, "r") & atom(B, "q") & atom(C, "p"),
        intersect(row(0, 0), row(1, 1), row(2, 2)),
        "e0 e1 e2",
        "r q p",
    ),
    "pi": (
        path(A, "r", "q") & atom(B, "p"),
        intersect(hop(1, row(0, 0), 1), row(1, 2)),
        "e0 e1",
        "r q p",
    ),
    "ip": (
        Exists(X, atom(A, "r", X) & atom(B, "q", X) & Atom("p", X, T)),
        hop(1, intersect(row(0, 0), row(1, 1)), 2),
        "e0 e1",
        "r q p",
    ),
    "2u": (atom(A, "r") | atom(B, "q"), p.Union((row(0, 0), row(1, 1))), "e0 e1", "r q"),
    "2u-dm": (
        ~(~atom(A, "r") & ~atom(B, "q")),
        complement(intersect(complement(row(0, 0)), complement(row(1, 1)))),
        "e0 e1",
        "r q",
    ),
    "up": (
        Exists(X, (atom(A, "r", X) | atom(B, "q", X)) & Atom("p", X, T)),
        hop(1, p.Union((row(0, 0), row(1, 1))), 2),
        "e0 e1",
        "r q p",
    ),
    "2in": (
        atom(A, "r") & ~atom(B, "q"),
        intersect(row(0, 0), complement(row(1, 1))),
        "e0 e1",
        "r q",
    ),
    "inp": (
        Exists(X, atom(A, "r", X) & ~atom(B, "q", X) & Atom("p", X, T)),
        hop(1, intersect(row(0, 0), complement(row(1, 1))), 2),
        "e0 e1",
        "r q p",
    ),
    "pin": (
        path(A, "r", "q") & ~atom(B, "p"),
        intersect(hop(1, row(0, 0), 1), complement(row(1, 2))),
        "e0 e1",
        "r q p",
    ),
    "pni": (
        ~path(A, "r", "q") & atom(B, "p"),
        intersect(complement(hop(1, row(0, 0), 1)), row(1, 2)),
        "e0 e1",
        "r q p",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_benchmark_shapes_keep_the_order_of_their_tuples(name: str) -> None:
    formula, expected, entities, relations = SHAPES[name]
    prepared = compile_template(Query(T, formula))
    assert prepared.plan.root == expected
    assert prepared.entities == tuple(entities.split())
    assert prepared.relations == tuple(relations.split())


def test_queries_that_differ_only_in_names_share_one_plan() -> None:
    one = compile_query(Query(T, path(A, "r", "q")))
    other = compile_query(
        Query(Variable("s"), Exists(Z, Atom("p", C, Z) & Atom("p", Z, Variable("s"))))
    )
    assert one.plan is other.plan
    assert other.variables == ("s", "z")


def test_an_atom_is_walked_either_way() -> None:
    flipped = p.Relation(0, flip=True)
    assert root(Atom("r", T, A)) == p.Row(0, flipped)
    assert root(Exists(X, Atom("r", T, X) & Atom("q", X, A))) == p.Project(
        1, p.Row(0, p.Relation(1, True)), flipped
    )


def test_parallel_atoms_are_one_edge() -> None:
    formula = Exists(X, atom(A, "r", X) & Atom("q", X, T) & ~Atom("p", T, X))
    edge = intersect(p.Relation(1), complement(p.Relation(2, flip=True)))
    assert root(formula) == p.Project(1, row(0, 0), edge)


def test_a_disjunction_over_a_pair_is_one_edge_with_its_ends_inside() -> None:
    formula = Exists(X, Atom("r", X, T) | atom(A, "q", X) & atom(B, "p", T))
    edge = p.Union((p.Relation(0), intersect(p.Source(row(0, 1)), p.Target(row(1, 2)))))
    assert root(formula) == p.Project(1, p.Everything(), edge)


def test_a_quantifier_leaves_out_the_alternatives_that_do_not_mention_it() -> None:
    formula = Exists(X, (atom(A, "r", X) & Atom("q", X, T)) | atom(B, "p"))
    assert root(formula) == p.Union((hop(1, row(0, 0), 1), row(1, 2)))


def test_loops_ground_atoms_and_closed_parts() -> None:
    assert root(Atom("r", T, T)) == p.Loop(0)
    assert root(atom(A, "r") & Atom("q", B, C)) == intersect(row(0, 0), p.At(row(1, 1), 2))
    assert root(atom(A, "r") & Exists(X, atom(B, "q", X))) == intersect(
        row(0, 0), p.Best(1, row(1, 1))
    )
    assert root(Exists(X, Atom("r", X, T))) == hop(1, p.Everything(), 0)


def test_a_cycle_is_cut_where_it_is_anchored() -> None:
    triangle = Atom("r", X, Y) & Atom("q", Y, T) & Atom("p", X, T) & atom(A, "r", Y)
    rest = p.Project(1, p.Row(1, p.Relation(0, flip=True)), p.Relation(2))
    body = intersect(p.At(row(0, 3), 1), rest, p.Row(1, p.Relation(1)))
    assert root(Exists(X, Exists(Y, triangle))) == p.Cutset(2, 1, row(0, 3), body)


def test_a_cut_without_an_anchor_is_ranked_by_its_neighbours() -> None:
    cycle = atom(A, "r") & Atom("q", T, X) & Atom("p", X, Y) & Atom("r", Y, T)
    back = p.Row(1, p.Relation(1, flip=True))
    rest = p.Project(2, p.Row(1, p.Relation(2)), p.Relation(3))
    expected = p.Cutset(1, 1, hop(0, row(0, 0), 1), intersect(back, rest, row(0, 0)), bounded=False)
    assert root(Exists(X, Exists(Y, cycle))) == expected


def test_an_inner_quantifier_over_two_outer_variables_conditions_on_the_inner_one_of_them() -> None:
    formula = Exists(
        X, atom(A, "r", X) & ~Exists(Y, Atom("q", X, Y) & Atom("p", Y, T)) & Atom("r", X, T)
    )
    inner = complement(p.Project(2, p.Row(1, p.Relation(1)), p.Relation(2)))
    body = intersect(p.At(row(0, 0), 1), inner, p.Row(1, p.Relation(3)))
    assert root(formula) == p.Cutset(1, 1, row(0, 0), body)


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        (Atom("r", A, B), r"the target \?t occurs nowhere"),
        (~Atom("r", A, T), r"\?t occurs only under negation"),
        (atom(A, "r") & Exists(X, ~Atom("q", X, T)), r"\?x occurs only under negation"),
        (atom(A, "r") & ~Exists(X, ~Atom("q", X, T)), r"\?x occurs only under negation"),
        (Atom("r", X, T), r"\?x is neither asked for nor bound"),
        (Exists(T, Atom("r", A, T)), r"the target \?t occurs nowhere"),
    ],
)
def test_questions_without_an_answer_are_refused_with_the_reason(
    formula: Formula, reason: str
) -> None:
    with pytest.raises(PlanError, match=reason):
        compile_query(Query(T, formula))


def test_a_long_chain_is_no_deep_formula() -> None:
    relations = ["r"] * 60
    expected: p.Node = row(0, 0)
    for step in range(1, 60):
        expected = hop(step, expected, step)
    assert root(path(A, *relations)) == expected


def test_too_many_nested_cuts_are_refused() -> None:
    names = [Variable(f"v{i}") for i in range(9)]
    clique: Formula = And(
        tuple(Atom("r", x, y) for i, x in enumerate([*names, T]) for y in [*names, T][i + 1 :])
    )
    for name in names:
        clique = Exists(name, clique)
    with pytest.raises(
        PlanError, match="more than 6 of them would have to be tried inside one another"
    ):
        root(clique)


def test_a_name_bound_twice_is_two_variables() -> None:
    formula = Exists(X, atom(A, "r", X) & Atom("q", X, T)) & Exists(
        X, atom(B, "r", X) & Atom("p", X, T)
    )
    prepared = compile_template(Query(T, formula))
    assert prepared.plan.root == intersect(hop(1, row(0, 0), 1), hop(2, row(1, 2), 3))
    assert prepared.variables == ("t", "x", "x")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # what is tried of ?a, the parts about it say
        ("?a, ?b : p(e, ?a) & q(?a, ?b)", "k + 2 rows"),
        ("?a, ?b : q(?a, ?b)", "N + k rows"),  # nothing does: a row for every ?b
        ("?a, ?b, ?c : p(e, ?a) & q(?b, ?c)", "N + k + 3 rows"),  # ?a says nothing of ?b
        (": p(e, f)", "1 row "),
        ("?r : ?r(e, f)", "1 row "),
    ],
)
def test_what_to_try_first_costs_little_where_it_can(text: str, rows: str) -> None:
    lines = describe(compile_query(parse(text))).splitlines()
    assert lines[-1].startswith(rows), lines
    assert not any("None" in line for line in lines)


def test_a_comparison_of_cuts_refuses_nothing_and_stays_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Variables bound in disjunctions can be cut, each of them one cut above the limit."""
    parts = [
        f"(p(?a{i}, ?a{i + 1}) | (q(?a{i}, ?b{i}) & r(?b{i}, ?x)) | (q(?a{i + 1}, ?c{i}) & "
        f"r(?c{i}, e{i})))"
        for i in range(4)
    ]
    knots = " & ".join([*parts, *(f"r(?a{i}, ?x)" for i in range(5))])
    clique = " & ".join(f"r(?v{i}, ?v{j})" for i, j in combinations(range(8), 2))
    cuts = 0
    cut = compiling._cut

    def counted(*arguments: Whatever) -> p.Cutset:
        nonlocal cuts
        cuts += 1
        return cut(*arguments)

    monkeypatch.setattr(compiling, "_cut", counted)
    for text, variables in ((f"?x : {knots}", 14), (f"?v0 : {clique}", 8)):
        compiling._plan.cache_clear()
        compiling._ordered.cache_clear()
        assert compile_query(parse(text)).plan.num_variables == variables
        assert cuts < 2000  # of tens of thousands of ways to cut
