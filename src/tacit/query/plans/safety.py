"""Questions that no ranking can answer, refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from tacit.errors import PlanError
from tacit.query.formula import And, Exists, Formula, Not, Or, Query, Variable, children


def check_safe(query: Query, negation: bool = True) -> None:
    """Refuse variables that are unbound and, where `negation`, ones that nothing but a negation speaks of."""
    unbound = query.formula.free.difference(query.targets)
    if unbound:
        names = ", ".join(sorted(map(str, unbound)))
        first = min(unbound, key=str)
        raise PlanError(f"{names} is neither asked for nor bound; write 'exists {first} . ...'")
    if not negation:
        return
    for target in query.targets:
        if target not in query.formula.free:
            raise PlanError(f"the target {target} occurs nowhere in the formula; ask about it in an atom")
        if not _asserted(target, query.formula, bound=False):
            raise PlanError(_reason(target, query.formula))
    for variable, part in _quantified(query.formula):
        if variable in part.free and not _asserted(variable, part, bound=True):
            raise PlanError(_reason(variable, part))


def _quantified(formula: Formula) -> Iterator[tuple[Variable, Formula]]:
    if isinstance(formula, Exists):
        yield formula.variable, formula.part
    for part in children(formula):
        yield from _quantified(part)


def _reason(variable: Variable, formula: Formula) -> str:
    if _affirmed(variable, formula, True):
        return (
            f"one alternative of an 'or' leaves {variable} open, so that every entity would fit it; "
            f"add an atom about {variable} that is not negated to each alternative"
        )
    return (
        f"{variable} occurs only under negation, which says what it is not and never what it is; "
        f"add an atom about {variable} that is not negated"
    )


def _affirmed(variable: Variable, formula: Formula, positive: bool) -> bool:
    """Whether an atom about the variable stands under an even number of negations."""
    if variable not in formula.free:
        return False
    parts = children(formula)
    return any(_affirmed(variable, part, positive ^ isinstance(formula, Not)) for part in parts) if parts else positive


def _asserted(variable: Variable, formula: Formula, bound: bool, positive: bool = True) -> bool:
    """Whether a formula, or its negation, holds only of values of a variable that some atom speaks of.

    Of alternatives each has to say so: one that does not mention the target lets every entity in. For a variable that
    is `bound` such an alternative is none of its business.
    """
    if variable not in formula.free:
        return False
    match formula:
        case Not(part):
            return _asserted(variable, part, bound, not positive)
        case Exists(_, part):
            return _asserted(variable, part, bound, positive)
        case And(parts) | Or(parts):
            if isinstance(formula, And) == positive:
                return any(_asserted(variable, part, bound, positive) for part in parts)
            concerned = [part for part in parts if not bound or variable in part.free]
            return all(_asserted(variable, part, bound, positive) for part in concerned)
    return positive
