"""Quantifiers for the variables a writer left loose."""

from __future__ import annotations

from tacit.query.formula import And, Exists, Formula, Not, Or, Variable, atoms, exists, rebuilt


def quantified(formula: Formula, variables: frozenset[Variable]) -> Formula:
    """The formula with some of its free variables existential, each at the narrowest place that holds its atoms.

    >>> from tacit.query.formula import Atom, Entity
    >>> t, v = Variable("t"), Variable("v")
    >>> quantified(Atom("r", Entity("a"), t) & ~Atom("q", v, t), frozenset({v}))
    <r(a, ?t) & !(exists ?v . q(?v, ?t))>
    """
    if not variables:
        return formula
    if isinstance(formula, Not | Exists):
        return rebuilt(formula, lambda part: quantified(part, variables))
    here = variables
    if isinstance(formula, And | Or):
        # A variable that a single part speaks of goes inside it; one that several share is bound around them.
        here = frozenset(v for v in variables if sum(v in part.free for part in formula.parts) > 1)
        inner = [quantified(part, (variables - here) & part.free) for part in formula.parts]
        formula = type(formula)(tuple(inner))
    order = [term for atom in atoms(formula) for term in (*atom.terms, atom.relation)]  # in which atoms speak of them
    return exists(sorted(here, key=order.index), formula)
