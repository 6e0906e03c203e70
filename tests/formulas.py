"""Random questions for hypothesis, and small names to fill them with."""

from __future__ import annotations

from functools import lru_cache

from hypothesis import strategies as st

from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Variable, children, free_variables

TARGET = Variable("t")
VARIABLES = (Variable("x"), Variable("y"), Variable("z"), Variable("w"))
ENTITIES = tuple(f"e{i}" for i in range(3))
RELATIONS = ("r", "q", "p")


@st.composite
def queries(draw: st.DrawFn, depth: int = 4, size: int = 8) -> Query:
    """A query over up to five variables, with any nesting of and, or, not, exists; it may be unsafe, never unbound."""
    formula = draw(_formulas(depth, size))
    for variable in draw(st.permutations(sorted(free_variables(formula) - {TARGET}, key=str))):
        formula = Exists(variable, formula)
    return Query(TARGET, formula)


@lru_cache  # building a strategy costs far more than drawing from it
def _formulas(depth: int, size: int) -> st.SearchStrategy[Formula]:
    terms = st.one_of(
        st.just(TARGET), st.sampled_from(VARIABLES), st.sampled_from(VARIABLES), st.sampled_from(ENTITIES).map(Entity)
    )
    leaves: st.SearchStrategy[Formula] = st.builds(Atom, st.sampled_from(RELATIONS), terms, terms)

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


def _height(formula: Formula) -> int:
    return 1 + max(map(_height, children(formula)), default=0)
