"""A question as nested conditions on one variable, as people build it without a formula.

A condition is a relation to an entity, or to something of which further conditions hold; conditions
are joined by `and` or by `or`, and each can be denied. A question of another form, such as a cycle,
has no outline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tacit.errors import QueryError
from tacit.query.comparison import Comparison
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Variable,
    flat,
)
from tacit.query.plans.scopes import components
from tacit.query.value_text import sign_of
from tacit.query.value_words import range_words


@dataclass(frozen=True)
class Conditions:
    """Conditions on one thing, joined by `and` or `or`, and perhaps negated as a group."""

    join: str  # "and" or "or"
    parts: tuple[Statement | Conditions, ...] = ()
    denied: bool = False


@dataclass(frozen=True)
class Statement:
    """A relation of a thing to an entity, or to something described by conditions.

    Without a relation it says that the thing is the entity. Where values are `compared`, it is an
    attribute of the thing, and what is said of its value.
    """

    relation: str
    other: str | Conditions
    inverse: bool = False  # whether the thing is what the relation points at
    denied: bool = False
    compared: bool = False


_OTHER_KINDS = {
    "tuples": "for several things at once",
    "truth": "whether, not which",
    "count": "how many there are",
    "relations": "for a relation",
}


def outline(query: Query) -> Conditions:
    """The conditions of a question on its target; an error gives the reason for none.

    >>> from tacit.query.text import parse
    >>> (step,) = outline(parse("?c : borders(France, ?c)")).parts
    >>> step == Statement(relation="borders", other="France", inverse=True)
    True
    >>> outline(parse("?c : borders(?c, ?d) & borders(?d, ?e) & borders(?e, ?c)"))
    Traceback (most recent call last):
    tacit.errors.QueryError: ?c and ?d are tied together in more than one way
    """
    if query.kind != "entities":
        raise QueryError(f"it asks {_OTHER_KINDS[query.kind]}")
    return _conditions_on(query.target, [query.formula], frozenset())


def with_statements(group: Conditions, change: Callable[[Statement], Statement]) -> Conditions:
    """Applies `change` to every statement of nested conditions."""

    def changed(part: Statement | Conditions) -> Statement | Conditions:
        if isinstance(part, Conditions):
            return with_statements(part, change)
        other = part.other if isinstance(part.other, str) else with_statements(part.other, change)
        return change(replace(part, other=other))

    return replace(group, parts=tuple(map(changed, group.parts)))


def _conditions_on(
    thing: Variable, formulas: Iterable[Formula], bound: frozenset[Variable]
) -> Conditions:
    """The conditions on a thing from formulas that all hold; `bound` variables are quantified."""
    part = _condition(thing, formulas, bound)
    return part if isinstance(part, Conditions) and not part.denied else Conditions("and", (part,))


def _condition(
    thing: Variable, formulas: Iterable[Formula], bound: frozenset[Variable]
) -> Statement | Conditions:
    parts = _conditions(thing, formulas, bound)
    return parts[0] if len(parts) == 1 else Conditions("and", tuple(parts))


def _conditions(
    thing: Variable, formulas: Iterable[Formula], bound: frozenset[Variable]
) -> list[Statement | Conditions]:
    conditions: list[Statement | Conditions] = []
    for group in _connected(list(formulas), bound):
        links = [part for part in group if thing in part.free]
        common = bound.intersection(frozenset[Variable]().union(*(part.free for part in group)))
        link = (links or group)[0]
        if len(group) == 1 and not isinstance(link, Atom):
            conditions += _formula_conditions(thing, link, common)
        elif isinstance(link, Atom) and 1 in (len(links), len(group)):
            conditions.append(
                _step(thing, link, [part for part in group if part is not link], common)
            )
        else:
            raise _tied_error(thing, min(common, key=str))
    return conditions


def _formula_conditions(
    thing: Variable, formula: Formula, bound: frozenset[Variable]
) -> list[Statement | Conditions]:
    """The conditions on a thing from one formula that is no atom."""
    match formula:
        case Exists(variable, part):
            if variable == thing:
                raise QueryError(f"{thing} stands for two things")
            return _conditions(thing, [part], bound | {variable})
        case And():
            return _conditions(thing, flat(formula, And), bound)
        case Comparison(left, right) if not bound:
            if left.term != thing:
                formula = formula.flipped()
            same = right is None or (left.attribute == right.attribute and _is_plain(formula))
            if formula.left.term != thing or not same or formula.free != {thing}:
                raise QueryError(f"'{formula}' compares more than a value of {thing}")
            return [Statement(formula.left.attribute, range_words(formula), compared=True)]
        case Inequality(left, right) if not bound:
            other = right if left == thing else left
            if thing not in formula.free or not isinstance(other, Entity):
                raise QueryError(f"'{formula}' says nothing of {thing} and an entity")
            return [Statement("", other.name, denied=True)]
        # a thing that alternatives share has another score than one for each
        case Or(parts) if not bound:
            return [Conditions("or", tuple(_condition(thing, [part], bound) for part in parts))]
        case Not(part) if not bound:
            denied = _condition(thing, [part], bound)
            return [
                Conditions("and", (denied,), denied=True)
                if denied.denied
                else replace(denied, denied=True)
            ]
    raise _tied_error(thing, min(bound, key=str))


def _is_plain(comparison: Comparison) -> bool:
    """Whether a comparison of two values has an operator between them."""
    return bool(sign_of(*comparison.interval)) and comparison.terms[0] != comparison.terms[1]


def _step(
    thing: Variable, atom: Atom, others: list[Formula], bound: frozenset[Variable]
) -> Statement:
    if thing not in atom.terms or atom.subject == atom.object:
        raise QueryError(f"'{atom}' does not lead from {thing} to another thing")
    inverse = atom.object == thing
    relation = str(atom.relation)
    other = atom.subject if inverse else atom.object
    if isinstance(other, Entity):
        return Statement(relation, other.name, inverse)
    if other not in bound:
        raise _tied_error(thing, other)
    return Statement(relation, _conditions_on(other, others, bound - {other}), inverse)


def _tied_error(thing: Variable, other: Variable) -> QueryError:
    return QueryError(f"{thing} and {other} are tied together in more than one way")


def _connected(formulas: list[Formula], bound: frozenset[Variable]) -> list[list[Formula]]:
    """Groups formulas that share bound variables, in their order."""
    groups = [[formula] for formula in formulas if not formula.free & bound]
    groups += [
        [formula for formula in formulas if formula.free.intersection(variables)]
        for variables in components(sorted(bound, key=str), formulas)
    ]
    return sorted(filter(None, groups), key=lambda group: formulas.index(group[-1]))
