"""A question as nested conditions on one variable, as people build it without a formula.

A condition is a relation to an entity, or to something of which further conditions hold, or a
comparison of a value; conditions are joined by `and` or by `or`, and each can be denied. A question
of another form, such as a cycle, has no outline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tacit.errors import QueryError
from tacit.graph.quantities import Kind, Quantity
from tacit.query.comparison import Bound, Comparison, Value, value_columns
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
    leaves,
)
from tacit.query.plans.scopes import components


@dataclass(frozen=True)
class Conditions:
    """Conditions on one thing, joined by `and` or `or`, and perhaps negated as a group."""

    join: str  # "and" or "or"
    parts: tuple[Part, ...] = ()
    denied: bool = False


@dataclass(frozen=True)
class Statement:
    """A relation of a thing to an entity, or to something described by conditions.

    Without a relation it says that the thing is the entity.
    """

    relation: str
    other: str | Conditions
    inverse: bool = False  # whether the thing is what the relation points at
    denied: bool = False


@dataclass(frozen=True)
class OtherValue:
    """The value that a thing's value is compared with, and whose it is.

    It is an entity's, or, without one, the thing's own, or that of the thing around it.
    """

    attribute: str
    entity: str | None = None
    outer: bool = False


@dataclass(frozen=True)
class ValueCondition:
    """A comparison of a thing's value with one literal, two in a range, or another value.

    Without an operator it says that there is a value.
    """

    attribute: str
    operator: str = ""  # "<", "<=", "=", ">=", ">" or "between"
    literals: tuple[Quantity, ...] = ()
    other: OtherValue | None = None
    denied: bool = False
    kind: Kind = "number"  # as far as it is known


Part = Statement | ValueCondition | Conditions
_OTHER_KINDS = {
    "tuples": "for several things at once",
    "truth": "whether, not which",
    "count": "how many there are",
    "relations": "for a relation",
}


def outline(query: Query) -> Conditions:
    """The conditions of a question on its target; an error gives the reason for none.

    >>> from tacit.query.text import parse
    >>> outline(parse("?c : borders(France, ?c)")).parts
    (Statement(relation='borders', other='France', inverse=True, denied=False),)
    >>> outline(parse("?c : borders(?c, ?d) & borders(?d, ?e) & borders(?e, ?c)"))
    Traceback (most recent call last):
    tacit.errors.QueryError: ?c and ?d are tied together in more than one way
    """
    if query.kind != "entities":
        kind = "for a value" if value_columns(query) else _OTHER_KINDS[query.kind]
        raise QueryError(f"it asks {kind}")
    for value in (*query.values.values(), *(each.value for each in query.order)):
        if value.term != query.target:
            raise QueryError(f"it shows {value}, which is no value of an answer")
    return _Outliner().conditions_on(query.target, [query.formula], frozenset())


def with_statements(
    group: Conditions, change: Callable[[Statement | ValueCondition], Statement | ValueCondition]
) -> Conditions:
    """Applies `change` to every statement and comparison of nested conditions."""

    def changed(part: Part) -> Part:
        if isinstance(part, Conditions):
            return with_statements(part, change)
        if isinstance(part, ValueCondition) or isinstance(part.other, str):
            return change(part)
        return change(replace(part, other=with_statements(part.other, change)))

    return replace(group, parts=tuple(map(changed, group.parts)))


class _Outliner:
    """Collects the conditions on things, from the outermost thing inwards."""

    def __init__(self) -> None:
        self.around: list[Variable] = []  # the things that those in hand are conditions of

    def conditions_on(
        self, thing: Variable, formulas: Iterable[Formula], bound: frozenset[Variable]
    ) -> Conditions:
        """The conditions on a thing from formulas that all hold; `bound` are quantified."""
        part = self.condition(thing, formulas, bound)
        grouped = isinstance(part, Conditions) and not part.denied
        return part if grouped else Conditions("and", (part,))  # type: ignore[return-value]

    def condition(
        self, thing: Variable, formulas: Iterable[Formula], bound: frozenset[Variable]
    ) -> Part:
        """The same as one condition."""
        parts = self.conditions(thing, formulas, bound)
        return parts[0] if len(parts) == 1 else Conditions("and", tuple(parts))

    def conditions(
        self, thing: Variable, formulas: Iterable[Formula], bound: frozenset[Variable]
    ) -> list[Part]:
        """The same as a list."""
        conditions: list[Part] = []
        for group in _connected(list(formulas), bound):
            links = [part for part in group if thing in part.free]
            common = bound.intersection(frozenset[Variable]().union(*(part.free for part in group)))
            if len(links) > 1:  # values are compared where the other thing is described
                links = [part for part in links if _relates(part, thing)] or links
            link = (links or group)[0]
            if len(group) == 1 and not isinstance(link, Atom):
                conditions += self.formula_conditions(thing, link, common)
            elif isinstance(link, Atom) and 1 in (len(links), len(group)):
                others = [part for part in group if part is not link]
                conditions.append(self.step(thing, link, others, common))
            else:
                raise _tied_error(thing, min(common, key=str))
        return conditions

    def formula_conditions(
        self, thing: Variable, formula: Formula, bound: frozenset[Variable]
    ) -> list[Part]:
        """The conditions on a thing from one formula that is no atom."""
        match formula:
            case Exists(variable, part):
                if variable == thing:
                    raise QueryError(f"{thing} stands for two things")
                return self.conditions(thing, [part], bound | {variable})
            case And():
                return self.conditions(thing, flat(formula, And), bound)
            case Inequality(left, right) if not bound:
                other = right if left == thing else left
                if thing not in formula.free or not isinstance(other, Entity):
                    raise QueryError(f"'{formula}' says nothing of {thing} and an entity")
                return [Statement("", other.name, denied=True)]
            case Comparison() if not bound:
                return list(self.value_conditions(thing, formula))
            # a thing that alternatives share has another score than one for each
            case Or(parts) if not bound:
                alternatives = (self.condition(thing, [part], bound) for part in parts)
                return [Conditions("or", tuple(alternatives))]
            case Not(part) if not bound:
                denied = self.condition(thing, [part], bound)
                return [
                    Conditions("and", (denied,), denied=True)
                    if denied.denied
                    else replace(denied, denied=True)
                ]
        raise _tied_error(thing, min(bound, key=str))

    def step(
        self, thing: Variable, atom: Atom, others: list[Formula], bound: frozenset[Variable]
    ) -> Statement:
        """The condition that an atom makes, with what `others` say of its other end."""
        if thing not in atom.terms or atom.subject == atom.object:
            raise QueryError(f"'{atom}' does not lead from {thing} to another thing")
        inverse = atom.object == thing
        relation = str(atom.relation)
        other = atom.subject if inverse else atom.object
        if isinstance(other, Entity):
            return Statement(relation, other.name, inverse)
        if other not in bound:
            raise _tied_error(thing, other)
        self.around.append(thing)
        inner = self.conditions_on(other, others, bound - {other})
        self.around.pop()
        return Statement(relation, inner, inverse)

    def value_conditions(self, thing: Variable, comparison: Comparison) -> Iterable[ValueCondition]:
        """The conditions that a comparison makes; a range with an open end makes two."""
        if comparison.name:  # a column, which is shown
            return
        if comparison.left.term != thing:
            comparison = comparison.flipped()
        value = comparison.left
        if value.term != thing:
            raise QueryError(f"'{comparison}' says nothing of {thing}")
        if comparison.right is not None:
            if not (sign := comparison.sign):
                raise QueryError(f"'{comparison}' is about a difference of values")
            other = self.other_value(thing, comparison.right)
            yield ValueCondition(value.attribute, sign, other=other)
            return
        low, high = comparison.low, comparison.high
        if low is not None and high is not None and not (low.open or high.open):
            both = (low.quantity,) if low == high else (low.quantity, high.quantity)
            yield ValueCondition(value.attribute, "=" if low == high else "between", both)
            return
        for bound, sign in ((low, ">"), (high, "<")):
            if bound is not None:
                yield ValueCondition(value.attribute, _operator(sign, bound), (bound.quantity,))
        if low is high is None:
            yield ValueCondition(value.attribute)

    def other_value(self, thing: Variable, value: Value) -> OtherValue:
        """The value that one of a thing is compared with."""
        if isinstance(value.term, Entity):
            return OtherValue(value.attribute, value.term.name)
        if value.term == thing:
            return OtherValue(value.attribute)
        if self.around[-1:] == [value.term]:
            return OtherValue(value.attribute, outer=True)
        raise _tied_error(thing, value.term)


def _relates(formula: Formula, thing: Variable) -> bool:
    """Whether an atom of a formula speaks of a thing, not its values alone."""
    return any(thing in part.free for part in leaves(formula) if not isinstance(part, Comparison))


def _operator(sign: str, bound: Bound) -> str:
    return sign if bound.open else f"{sign}="


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
