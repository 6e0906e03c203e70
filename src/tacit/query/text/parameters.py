"""Parameters of a text: `$name` in place of an entity or relation label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tacit.errors import QueryError
from tacit.query.formula import Atom, Entity, Formula, Inequality, Term, rebuilt


class Parameter(str):
    """The name of a parameter, in place of the label that it stands for."""

    __slots__ = ()


def filled(formula: Formula, values: Mapping[str, str]) -> Formula:
    """Fills parameters with labels; each needs a value, and each value must be used."""
    used: set[str] = set()

    def label(name: str) -> str:
        if not isinstance(name, Parameter):
            return name
        if name not in values:
            raise QueryError(
                f"parameter ${name} has no value; give it the label it stands for",
                parameter=str(name),
            )
        if not isinstance(values[name], str):
            raise QueryError(f"parameter '{name}' is {values[name]!r}; it must be a label, as text")
        used.add(str(name))
        return values[name]

    def term(old: Term) -> Term:
        return Entity(label(old.name)) if isinstance(old, Entity) else old

    def walk(old: Formula) -> Formula:
        if isinstance(old, Inequality):
            return Inequality(*map(term, old.terms))
        if not isinstance(old, Atom):
            return rebuilt(old, walk)
        relation = label(old.relation) if isinstance(old.relation, str) else old.relation
        return Atom(relation, *map(term, old.terms))

    formula = walk(formula)
    check_unused(set(values) - used)
    return formula


def check_unused(names: Iterable[str]) -> None:
    """Refuses values for parameters that a question does not have."""
    for name in sorted(names):
        problem = (
            f"the question has no parameter '{name}'; "
            f"in the text syntax it would be written ${name}"
        )
        raise QueryError(problem, parameter=name)
