"""Refuses questions that no ranking can answer, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tacit.errors import PlanError
from tacit.query.formula import (
    And,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Variable,
    leaves,
    walk,
)

_Each = Callable[[Iterable[bool]], bool]  # whether all alternatives have to say something, or any


def check_safe(query: Query, negation: bool = True) -> None:
    """Refuses unbound variables and, where `negation`, those that only a negation mentions."""
    unbound = query.formula.free.difference(query.targets)
    if unbound:
        names = ", ".join(sorted(map(str, unbound)))
        first = min(unbound, key=str)
        are = "are" if len(unbound) > 1 else "is"
        raise PlanError(f"{names} {are} neither asked for nor bound; write 'exists {first} . ...'")
    if not negation:
        return
    for target in query.targets:
        if target not in query.formula.free:
            raise PlanError(
                f"the target {target} occurs nowhere in the formula; ask about it in an atom"
            )
        if not _asserted(target, query.formula, bound=False):
            raise PlanError(_reason(target, query.formula))
    for part in (part for part in walk(query.formula) if isinstance(part, Exists)):
        if part.variable in part.part.free and not _asserted(part.variable, part.part, bound=True):
            raise PlanError(_reason(part.variable, part.part))


def _reason(variable: Variable, formula: Formula) -> str:
    if _asserted(variable, formula, bound=True, each=any):
        return (
            f"one alternative of an 'or' leaves {variable} open, so that every entity would fit "
            f"it; add an atom about {variable} that is not negated to each alternative"
        )
    unequal = any(
        isinstance(leaf, Inequality) and variable in leaf.free for leaf in leaves(formula)
    )
    return (
        f"{variable} occurs only under negation{' or in an inequality' * unequal}, which says what "
        f"it is not and never what it is; add an atom about {variable} that is not negated"
    )


def _asserted(
    variable: Variable, formula: Formula, bound: bool, positive: bool = True, each: _Each = all
) -> bool:
    """Whether a formula, or its negation, implies an atom with a variable.

    Of alternatives `each` has to say so: one that does not mention the target lets every entity in.
    For a variable that is `bound` such an alternative is none of its business.
    """
    if variable not in formula.free or isinstance(formula, Inequality):  # which says what it is not
        return False
    match formula:
        case Not(part):
            return _asserted(variable, part, bound, not positive, each)
        case Exists(_, part):
            return _asserted(variable, part, bound, positive, each)
        case And(parts) | Or(parts):
            joined = any if isinstance(formula, And) == positive else each
            concerned = [part for part in parts if not bound or variable in part.free]
            return joined(_asserted(variable, part, bound, positive, each) for part in concerned)
    return positive
