"""Negations moved inwards."""

from __future__ import annotations

from tacit.query.formula import And, Exists, Formula, Not, Or


def negation_normal_form(formula: Formula) -> Formula:
    """The formula with negations only before atoms and quantifiers: `!(f & g)` is `!f | !g`, and `!!f` is `f`."""
    return _pushed(formula, positive=True)


def _pushed(formula: Formula, positive: bool) -> Formula:
    match formula:
        case Not(part):
            return _pushed(part, not positive)
        case And(parts) | Or(parts):
            kind = And if isinstance(formula, And) == positive else Or
            return kind(tuple(_pushed(part, positive) for part in parts))
        case Exists(variable, part):
            formula = Exists(variable, _pushed(part, positive=True))
    return formula if positive else Not(formula)
