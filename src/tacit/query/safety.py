"""Questions that no ranking can answer, refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from tacit.errors import PlanError
from tacit.query.formula import Atom, Exists, Formula, Not, Query, Variable, children, free_variables


def check_safe(query: Query, negation: bool = True) -> None:
    """Refuse variables that are unbound and, where `negation`, ones that nothing but a negation speaks of."""
    unbound = free_variables(query.formula) - {query.target}
    if unbound:
        names = ", ".join(sorted(map(str, unbound)))
        first = min(unbound, key=str)
        raise PlanError(f"{names} is neither the target nor bound; write 'exists {first} . ...'")
    if not negation:
        return
    if query.target not in free_variables(query.formula):
        raise PlanError(f"the target {query.target} occurs nowhere in the formula; ask about it in an atom")
    for variable, part in [(query.target, query.formula), *_quantified(query.formula)]:
        if variable in free_variables(part) and not _asserted(variable, part, True):
            raise PlanError(
                f"{variable} occurs only under negation, which says what it is not and never what it is; "
                f"add an atom about {variable} that is not negated"
            )


def _quantified(formula: Formula) -> Iterator[tuple[Variable, Formula]]:
    if isinstance(formula, Exists):
        yield formula.variable, formula.part
    for part in children(formula):
        yield from _quantified(part)


def _asserted(variable: Variable, formula: Formula, positive: bool) -> bool:
    """Whether an atom with the variable stands under an even number of negations."""
    if isinstance(formula, Atom):
        return positive and variable in (formula.subject, formula.object)
    if isinstance(formula, Exists) and formula.variable == variable:
        return False
    return any(_asserted(variable, part, positive ^ isinstance(formula, Not)) for part in children(formula))
