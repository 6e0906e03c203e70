"""What is left of a question without its names: the same formula over numbered slots."""

from __future__ import annotations

from tacit.query.formula import Atom, Entity, Exists, Formula, Query, Term, Variable, rebuilt


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
        if isinstance(formula, Atom):
            ends = term(formula.subject, scope), term(formula.object, scope)
            return Atom(slot(relations, str(formula.relation)), *ends)
        if isinstance(formula, Exists):
            fresh = Variable(slot(variables, formula.variable.name))
            return Exists(fresh, walk(formula.part, {**scope, formula.variable: fresh}))
        return rebuilt(formula, lambda part: walk(part, scope))

    scope = {target: Variable(str(number)) for number, target in enumerate(query.targets)}
    shape = Query(scope.values(), walk(query.formula, scope))
    return shape, tuple(entities), tuple(relations), tuple(variables)
