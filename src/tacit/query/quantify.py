"""Quantifiers for the variables a writer left loose."""

from __future__ import annotations

from tacit.query.formula import And, Atom, Exists, Formula, Not, Or, Variable, atoms, free_variables


def bind_loose(formula: Formula, target: Variable) -> Formula:
    """The formula with every loose variable but the target existential, at the narrowest place that holds its atoms.

    >>> from tacit.query.formula import Entity
    >>> t, v = Variable("t"), Variable("v")
    >>> bind_loose(Atom("r", Entity("a"), t) & ~Atom("q", v, t), t)
    <r(a, ?t) & !(exists ?v . q(?v, ?t))>
    """
    loose = free_variables(formula) - {target}
    return _bound(formula, loose) if loose else formula


def _bound(formula: Formula, loose: frozenset[Variable]) -> Formula:
    """A variable that a single part speaks of goes inside it; one that several share is bound around them."""
    if isinstance(formula, Atom):
        here = loose
    elif isinstance(formula, And | Or):
        free = [free_variables(part) for part in formula.parts]
        here = frozenset(v for v in loose if sum(v in names for names in free) > 1)
        inner = loose - here
        if inner:
            parts = zip(formula.parts, free, strict=True)
            formula = type(formula)(tuple(_bound(p, inner & names) if inner & names else p for p, names in parts))
    elif isinstance(formula, Not):
        return Not(_bound(formula.part, loose))
    elif isinstance(formula, Exists):
        return Exists(formula.variable, _bound(formula.part, loose))
    else:
        raise TypeError(f"not a formula: {formula!r}")
    for variable in sorted(here, key=_order(formula).index, reverse=True):
        formula = Exists(variable, formula)
    return formula


def _order(formula: Formula) -> list[Variable]:
    """Variables in the order in which atoms speak of them."""
    return [term for atom in atoms(formula) for term in atom.terms if isinstance(term, Variable)]
