"""Random questions for hypothesis, small names for them, and exact answers to any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from random import Random

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from odd_values import ATTRIBUTES, LEVELS
from tacit.graph.fact_index import Ids
from tacit.graph.graph import Graph
from tacit.graph.quantities import Quantity
from tacit.query.comparison import Bound, Comparison, Value
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Term,
    Variable,
    children,
)
from tacit.query.plans import symbolic
from tacit.query.plans.compile import compile_query

TARGET = Variable("t")
VARIABLES = (Variable("x"), Variable("y"), Variable("z"), Variable("w"))
ENTITIES = tuple(f"e{i}" for i in range(3))
RELATIONS = ("r", "q", "p")


def symbolic_answers(query: Query, graph: Graph, *splits: str) -> Ids:
    """The entities that answer a query over splits (default: all), by operations on sets."""
    prepared = compile_query(query)
    entities = np.array([[graph.entities.id(name) for name in prepared.entities]], dtype=np.int32)
    relations = np.array(
        [[graph.relations.id(name) for name in prepared.relations]], dtype=np.int32
    )
    return symbolic.answers(
        prepared.plan, entities, relations, graph.index(*splits), graph.num_entities
    )[0]


@st.composite
def queries(draw: st.DrawFn, depth: int = 4, size: int = 8, values: bool = False) -> Query:
    """A query over up to five variables with any nesting; it may be unsafe, never unbound.

    With `values`, many of its leaves are comparisons.
    """
    formula = draw(_formulas(depth, size, values))
    for variable in draw(st.permutations(sorted(formula.free - {TARGET}, key=str))):
        formula = Exists(variable, formula)
    return Query(TARGET, formula)


@st.composite
def tuple_queries(
    draw: st.DrawFn, count: int, depth: int = 3, size: int = 6, values: bool = False
) -> Query:
    """A query for some of the free variables of a formula; all others are existential."""
    formula = draw(_formulas(depth, size, values).filter(lambda f: len(f.free) >= count))
    free = draw(st.permutations(sorted(formula.free, key=str)))
    for variable in free[count:]:
        formula = Exists(variable, formula)
    return Query(free[:count], formula)


@lru_cache  # building a strategy costs far more than drawing from it
def _formulas(depth: int, size: int, values: bool = False) -> st.SearchStrategy[Formula]:
    terms = st.one_of(
        st.just(TARGET),
        st.sampled_from(VARIABLES),
        st.sampled_from(VARIABLES),
        st.sampled_from(ENTITIES).map(Entity),
    )
    made = st.builds(Atom, st.sampled_from(RELATIONS), terms, terms)
    sides = st.tuples(terms, terms).filter(
        lambda pair: pair[0] != pair[1] or isinstance(pair[0], Entity)
    )
    unequal = sides.map(lambda pair: Inequality(*pair))
    leaves: st.SearchStrategy[Formula] = st.one_of(made, made, made, unequal)
    if values:
        leaves = st.one_of(made, made, comparisons(terms), comparisons(terms), unequal)

    def larger(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        parts = st.lists(inner, min_size=2, max_size=4).map(tuple)
        return st.one_of(
            st.builds(And, parts),
            st.builds(And, parts),
            st.builds(Or, parts),
            st.builds(Not, inner),
            st.builds(Exists, st.sampled_from(VARIABLES), inner),
        )

    return st.recursive(leaves, larger, max_leaves=size).filter(lambda f: _height(f) <= 2 * depth)


def comparisons(terms: st.SearchStrategy[Term]) -> st.SearchStrategy[Comparison]:
    """Comparisons of one value and of two, with bounds at the values that occur or beside them."""
    value = st.builds(Value, st.sampled_from(ATTRIBUTES), terms)
    numbers = st.integers(-2, 2 * LEVELS).map(lambda number: Quantity(number / 2))
    bound = st.one_of(st.none(), st.builds(Bound, numbers, st.booleans()))
    differences = st.one_of(
        st.none(), st.builds(Bound, numbers | st.just(Quantity(0.0)), st.booleans())
    )
    pairs = st.tuples(value, value).filter(lambda pair: pair[0] != pair[1])
    return st.one_of(
        st.builds(Comparison, value, st.none(), bound, bound),
        st.builds(lambda pair, *ends: Comparison(*pair, *ends), pairs, differences, differences),
    )


def _height(formula: Formula) -> int:
    return 1 + max(map(_height, children(formula)), default=0)


Facts = frozenset[tuple[str, str, str]]


def holds(
    formula: Formula, facts: Facts, entities: Sequence[str], where: dict[Variable, str]
) -> bool:
    """Whether a formula is true of a set of facts, by its definition."""
    match formula:
        case Atom(relation, subject, object_):
            ends = [e.name if isinstance(e, Entity) else where[e] for e in (subject, object_)]
            return (ends[0], relation, ends[1]) in facts
        case Inequality(left, right):
            left, right = (e.name if isinstance(e, Entity) else where[e] for e in (left, right))
            return left != right
        case And(parts):
            return all(holds(part, facts, entities, where) for part in parts)
        case Or(parts):
            return any(holds(part, facts, entities, where) for part in parts)
        case Not(part):
            return not holds(part, facts, entities, where)
        case Exists(variable, part):
            return any(holds(part, facts, entities, {**where, variable: e}) for e in entities)
    raise AssertionError(formula)


def tables(facts: Iterable[tuple[int, str, int]], size: int) -> dict[str, NDArray[np.bool_]]:
    """Facts between entities `e0`, `e1`, ... as a table for each relation."""
    made = {relation: np.zeros((size, size), dtype=bool) for relation in RELATIONS}
    for head, relation, tail in facts:
        made[relation][head, tail] = True
    return made


def truth(
    formula: Formula, facts: Mapping[str, NDArray[np.bool_]], scope: tuple[Variable, ...]
) -> NDArray[np.bool_]:
    """The value of all assignments at once, with an axis of each variable in scope or 1."""

    def place(term: Term) -> NDArray[np.int64]:
        if isinstance(term, Entity):
            return np.full([1] * len(scope), int(term.name[1:]))
        # a quantifier may reuse a name
        axis = max(at for at, variable in enumerate(scope) if variable == term)
        return np.arange(len(facts[RELATIONS[0]])).reshape(
            [-1 if at == axis else 1 for at in range(len(scope))]
        )

    match formula:
        case Atom(str() as relation, subject, object_):
            return facts[relation][place(subject), place(object_)]
        case Inequality(left, right):
            return place(left) != place(right)
        case And(parts):
            return reduce(np.logical_and, [truth(part, facts, scope) for part in parts])
        case Or(parts):
            return reduce(np.logical_or, [truth(part, facts, scope) for part in parts])
        case Not(part):
            return ~truth(part, facts, scope)
        case Exists(variable, part):
            return truth(part, facts, (*scope, variable)).any(axis=-1)
    raise AssertionError(formula)


def answers(query: Query, facts: Facts, entities: Sequence[str]) -> set[str]:
    """The entities that make a query hold, by trying each."""
    return {e for e in entities if holds(query.formula, facts, entities, {query.target: e})}


@st.composite
def fact_sets(draw: st.DrawFn, size: int = 5) -> tuple[Facts, tuple[str, ...]]:
    """Random facts over `RELATIONS` and up to `size` entities, and the entities."""
    entities = tuple(f"e{i}" for i in range(draw(st.integers(len(ENTITIES), size))))
    # a draw for each fact would take most of the time
    random = Random(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.1, 0.3, 0.6]))
    facts = {
        (s, r, o) for s in entities for r in RELATIONS for o in entities if random.random() < share
    }
    return frozenset(facts), entities
