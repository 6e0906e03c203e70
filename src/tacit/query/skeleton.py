"""What is left of a question without its names: the same formula over numbered slots."""

from __future__ import annotations

from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Term, Variable


def skeleton(query: Query) -> tuple[Query, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """A query with slots for names, and the names: of entities, relations, and variables (the targets first).

    Every occurrence of an entity and every atom's relation has a slot of its own, from left to right; every quantifier
    has a variable of its own, so that no name is bound twice.

    >>> a, t = Entity("a"), Variable("t")
    >>> shape, *names = skeleton(Query(t, Atom("r", a, t) & Atom("s", t, a)))
    >>> shape, names
    (<?0 : 0(0, ?0) & 1(?0, 1)>, [('a', 'a'), ('r', 's'), ('t',)])
    """
    entities: list[str] = []
    relations: list[str] = []
    variables: list[str] = [target.name for target in query.targets]

    def slot(names: list[str], name: str) -> str:
        names.append(name)
        return str(len(names) - 1)

    def term(old: Term, scope: dict[Variable, Variable]) -> Term:
        return Entity(slot(entities, old.name)) if isinstance(old, Entity) else scope[old]

    def walk(formula: Formula, scope: dict[Variable, Variable]) -> Formula:
        match formula:
            case Atom(relation, subject, object_):
                return Atom(slot(relations, str(relation)), term(subject, scope), term(object_, scope))
            case And(parts) | Or(parts):
                return type(formula)(tuple(walk(part, scope) for part in parts))
            case Not(part):
                return Not(walk(part, scope))
            case Exists(variable, part):
                fresh = Variable(slot(variables, variable.name))
                return Exists(fresh, walk(part, {**scope, variable: fresh}))
        raise TypeError(f"not a formula: {formula!r}")

    scope = {target: Variable(str(number)) for number, target in enumerate(query.targets)}
    shape = Query(scope.values(), walk(query.formula, scope))
    return shape, tuple(entities), tuple(relations), tuple(variables)
