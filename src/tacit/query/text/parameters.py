"""Parameters of a text: `$name` in the place of an entity or a relation, which gets its label when one asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tacit.errors import QueryError
from tacit.query.formula import Atom, Entity, Formula, rebuilt


class Parameter(str):
    """The name of a parameter, where the label that it stands for will be."""

    __slots__ = ()


def filled(formula: Formula, values: Mapping[str, str]) -> Formula:
    """The formula with labels for its parameters: each must have one, and each that is given must be used."""
    used: set[str] = set()

    def label(name: str) -> str:
        if not isinstance(name, Parameter):
            return name
        if name not in values:
            raise QueryError(f"parameter ${name} has no value; give it the label it stands for")
        if not isinstance(values[name], str):
            raise QueryError(f"parameter '{name}' is {values[name]!r}; it must be a label, as text")
        used.add(str(name))
        return values[name]

    def walk(old: Formula) -> Formula:
        if not isinstance(old, Atom):
            return rebuilt(old, walk)
        relation = label(old.relation) if isinstance(old.relation, str) else old.relation
        return Atom(relation, *(Entity(label(end.name)) if isinstance(end, Entity) else end for end in old.terms))

    formula = walk(formula)
    check_unused(set(values) - used)
    return formula


def check_unused(names: Iterable[str]) -> None:
    """Refuse parameters that nothing in a question stands for."""
    for name in sorted(names):
        raise QueryError(f"the question has no parameter '{name}'; in the text syntax it would be written ${name}")
