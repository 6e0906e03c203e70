"""The solutions of a SPARQL pattern as formulas, one per set of bound variables.

A solution binds some of the variables, and alternatives may bind different ones. So a pattern is
a set of *cases*: the variables that a solution binds, those of them with a fixed value (from
`VALUES`), and a formula that holds of exactly those solutions. A variable with a fixed value stays
in the formula until it is projected out: then the value replaces it, and several values are
alternatives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from functools import reduce
from typing import Any, NamedTuple

from tacit.query.comparison import Comparison
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Leaf,
    Not,
    Or,
    Variable,
    children,
)
from tacit.query.plans.scopes import conjunction, quantified, substitute
from tacit.query.sparql.source import kind, variables_in

Domain = frozenset[Variable]
Fixed = frozenset[tuple[Variable, Entity]]
NONE: Domain = frozenset()


class Case(NamedTuple):
    """The variables that some solutions bind, and the values that VALUES gives them."""

    domain: Domain
    fixed: Fixed = frozenset()

    def agrees(self, other: Case) -> bool:
        """Whether no variable has different values in two cases."""
        return len(dict(self.fixed | other.fixed)) == len(self.fixed | other.fixed)


Truth = Formula | bool  # True where nothing need hold
Cases = dict[Case, Truth]
START: Cases = {Case(NONE): True}


def join(left: Cases, right: Cases) -> Cases:
    """The join of two patterns' solutions, which agree on shared variables."""
    return _merge(
        (Case(a.domain | b.domain, a.fixed | b.fixed), and_(f, g))
        for a, f in left.items()
        for b, g in right.items()
        if a.agrees(b)
    )


def union(branches: Iterable[Cases], needed: Domain) -> Cases:
    """The union of solutions, with variables that nothing else mentions projected out."""
    # the values projected out, by cases that differ in nothing else
    rows = defaultdict[tuple[Case, Truth, Domain], list[Fixed]](list)
    for case, formula in (pair for branch in branches for pair in branch.items()):
        fixed = frozenset(pair for pair in case.fixed if pair[0] in needed)
        rows[Case(case.domain & needed, fixed), formula, case.domain].append(case.fixed - fixed)
    projected = []
    for (case, formula, domain), values in rows.items():
        if isinstance(formula, Formula):
            formula = _any_row(formula, values)
            formula = quantified(formula, (domain - needed) & formula.free)
        projected.append((case, formula))
    return _merge(projected)


def any_solution(cases: Cases) -> Truth:
    """The formula that some solution exists."""
    return union([cases], NONE).get(Case(NONE), False)


def _any_row(formula: Formula, rows: list[Fixed]) -> Formula:
    """The disjunction of a formula over rows of values, as small as possible."""
    variables = {variable for row in rows for variable, _ in row}
    if isinstance(formula, And):
        affected = [part for part in formula.parts if part.free & variables]
        if 0 < len(affected) < len(formula.parts):
            others = [part for part in formula.parts if not part.free & variables]
            return And((*others, _any_row(conjunction(affected), rows)))
    parts = [reduce(lambda part, pair: substitute(part, *pair), row, formula) for row in rows]
    return reduce(Formula.__or__, dict.fromkeys(parts))


def _merge(cases: Iterable[tuple[Case, Truth]]) -> Cases:
    """Merges formulas by case."""
    merged: Cases = {}
    for case, formula in cases:
        merged[case] = or_(merged.get(case, False), formula)
    return merged


def and_(left: Truth, right: Truth) -> Truth:
    """The conjunction of two formulas or truth values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is True else left if right is True else False
    # a repeated condition counts once
    return conjunction(list(dict.fromkeys((left & right).parts)))


def or_(left: Truth, right: Truth) -> Truth:
    """The disjunction of two formulas or truth values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is False else left if right is False else True
    return reduce(Formula.__or__, dict.fromkeys((left | right).parts))


def not_(formula: Truth) -> Truth:
    """The negation of a formula or truth value."""
    return not formula if isinstance(formula, bool) else ~formula


def folded(formula: Truth, unknown: Container[tuple[str, str]]) -> Truth:
    """A formula without the atoms that no fact can match, since a graph has not their labels.

    `unknown` holds their kind, `entity` or `relation`, and the label.
    """
    match formula:
        case Atom():
            absent = ("relation", formula.relation) in unknown
            return False if absent or _unknown_terms(formula, unknown) else formula
        case Comparison():
            return False if _unknown_terms(formula, unknown) else formula
        case Inequality(Entity(left), Entity(right)):
            return left != right
        case Inequality():
            return True if _unknown_terms(formula, unknown) else formula
        case And() | Or():
            combine = and_ if isinstance(formula, And) else or_
            return reduce(combine, (folded(part, unknown) for part in children(formula)))
        case Not(part):
            return not_(folded(part, unknown))
        case Exists(variable, part):
            inner = folded(part, unknown)
            return inner if isinstance(inner, bool) else Exists(variable, inner)
    return formula


def _unknown_terms(leaf: Leaf, unknown: Container[tuple[str, str]]) -> bool:
    return any(isinstance(e, Entity) and ("entity", e.name) in unknown for e in leaf.terms)


def visible_variables(node: Any) -> Domain:
    """The variables that a solution may bind, without those only in MINUS or FILTER."""
    match node.name:
        case "TriplesBlock":
            return frozenset(variables_in(node))
        case "InlineData":
            return frozenset(variables_in(node.var))
        case "GroupOrUnionGraphPattern" | "GroupGraphPatternSub":
            return NONE.union(*map(visible_variables, node.graph or node.part or ()))
        case "OptionalGraphPattern":
            return visible_variables(node.graph)
    return NONE


def bound_variables(node: Any) -> Domain:
    """The variables that every solution binds, as far as the patterns tell."""
    match kind(node):
        case "TriplesBlock":
            return frozenset(variables_in(node))
        case "GroupOrUnionGraphPattern":
            return frozenset.intersection(*map(bound_variables, node.graph))
        case "GroupGraphPatternSub":
            return NONE.union(*map(bound_variables, node.part or ()))
    return NONE
