"""Quantifiers moved inwards."""

from __future__ import annotations

from tacit.query.formula import And, Exists, Formula, Not, Or, Variable, free_variables


def narrow_quantifiers(formula: Formula) -> Formula:
    """The formula with every quantifier around only those parts that speak of its variable.

    `exists x . f | g` is `(exists x . f) | (exists x . g)`; of a conjunction, the parts without `x` move out; a
    quantifier that binds nothing goes away.
    """
    match formula:
        case And(parts) | Or(parts):
            return type(formula)(tuple(map(narrow_quantifiers, parts)))
        case Not(part):
            return Not(narrow_quantifiers(part))
        case Exists(variable, part):
            return _narrowed(variable, narrow_quantifiers(part))
    return formula


def _narrowed(variable: Variable, part: Formula) -> Formula:
    """`exists variable . part`, as far in as it goes."""
    if variable not in free_variables(part):
        return part
    match part:
        case Or(parts):
            return Or(tuple(_narrowed(variable, p) for p in parts))
        case And(parts):
            inside = tuple(p for p in parts if variable in free_variables(p))
            outside = tuple(p for p in parts if variable not in free_variables(p))
            inner = _narrowed(variable, inside[0]) if len(inside) == 1 else Exists(variable, And(inside))
            return And((inner, *outside)) if outside else inner
        case Exists(other, deeper):
            # Neighbouring quantifiers commute: the outer one may go further in than the inner one did.
            swapped = _narrowed(variable, deeper)
            if not isinstance(swapped, Exists):
                return _narrowed(other, swapped)
    return Exists(variable, part)
