"""Comparisons as a text writes them, before it is known which variables stand for values.

`?n = population(?c)` makes `?n` a variable of a value, wherever else it stands. A name beside an
operator is a number, a date or a duration, unless it is quoted; `!=` between names and variables of
entities is an inequality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from tacit.errors import QueryError
from tacit.query.comparison import (
    Comparison,
    Difference,
    Operand,
    Ordering,
    Value,
    compared,
    conjoined,
    literal,
)
from tacit.query.formula import And, Exists, Formula, Inequality, Leaf, children, leaves
from tacit.query.formula import map_children as map_parts
from tacit.query.terms import Entity, Term, Variable

SIGNS = {"==": "=", "≠": "!=", "≤": "<=", "≥": ">="}
Values = Mapping[Variable, Value]
Place = tuple[int, int]  # a line and a column


@dataclass(frozen=True)
class Word:
    """A side of a comparison that is a variable, a name or a literal, perhaps with a unit."""

    term: Term
    unit: str = ""
    bare: bool = True  # whether it has no quotes, so that it may be a literal


Side = Word | Value | Difference


@dataclass(frozen=True, repr=False)
class WrittenComparison(Leaf):
    """Sides with an operator between each two: `1900 <= founded(?x) < 1950`."""

    sides: tuple[Side, ...]
    operators: tuple[str, ...]
    ats: tuple[int, ...]  # where in the text the operators are

    def __post_init__(self) -> None:
        self._check_terms("a comparison is about entities and variables, not about")

    @property
    def terms(self) -> tuple[Term, ...]:
        """The entities and variables of all sides."""
        return tuple(term for side in self.sides for term in _terms(side))

    def with_terms(self, terms: Sequence[Term]) -> WrittenComparison:
        """The same comparison of other terms."""
        rest = iter(terms)
        return self.map(lambda part: replace(part, term=next(rest)))

    def map(self, change: Callable[[Word | Value], Word | Value]) -> WrittenComparison:
        """Applies `change` to every word and value, from left to right."""

        def changed(side: Side) -> Side:
            if isinstance(side, Difference):
                return Difference(*map(change, (side.left, side.right)))  # type: ignore[arg-type]
            return change(side)

        return replace(self, sides=tuple(map(changed, self.sides)))

    @property
    def definition(self) -> tuple[Variable, Value] | None:
        """The variable that `?n = population(?c)` makes one of a value; None for any other."""
        match self.sides if self.operators == ("=",) else ():
            case (Word(Variable() as name), Value() as value):
                return name, value
            case (Value() as value, Word(Variable() as name)):
                return name, value
        return None

    def __str__(self) -> str:
        return " ".join(map(str, (*self.terms, *self.operators)))


def resolve_comparisons(
    targets: Sequence[Variable], formula: Formula, place_of: Callable[[int], Place]
) -> tuple[tuple[Variable, ...], Formula, Values]:
    """The targets that stand for entities, the formula by values, and the variables of values.

    `place_of` is the line and column of a character of the text.
    """
    values = _definitions(formula)
    _check_definitions(formula, values)
    defined = set[Variable]()

    def walk(part: Formula) -> Formula:
        if not isinstance(part, WrittenComparison):
            return map_parts(part, walk)
        if (definition := part.definition) is not None:
            name, value = definition
            if values.get(name) == value and name not in defined:
                defined.add(name)
                return Comparison(value, name=name.name if name in targets else "")
        return _resolved(part, values, place_of)

    resolved = walk(formula)
    return tuple(target for target in targets if target not in values), resolved, values


def resolve_order(
    keys: Iterable[tuple[Word | Value, bool]], targets: Sequence[Variable], values: Values
) -> tuple[Ordering, ...]:
    """The order of the answers: by values, by their variables, or by attributes of one target."""
    order = []
    for key, descending in keys:
        if isinstance(key, Word):
            term = key.term
            if isinstance(term, Variable) and term not in values:
                raise QueryError(
                    f"'order by {term}' orders by an entity; order by one of its attributes, as in "
                    f"'order by population({term})'"
                )
            if isinstance(term, Entity) and len(targets) != 1:
                raise QueryError(
                    f"'order by {term}' does not say whose; write 'order by {term}(?x)' with a "
                    "variable that is asked for"
                )
            key = values[term] if isinstance(term, Variable) else Value(term.name, targets[0])
        order.append(Ordering(key, descending))
    return tuple(order)


def _definitions(formula: Formula) -> dict[Variable, Value]:
    """The variables of values, by the first definition that must hold of each."""
    found: dict[Variable, Value] = {}

    def walk(part: Formula) -> None:
        if isinstance(part, WrittenComparison) and part.definition is not None:
            name, value = part.definition
            if not isinstance(value.term, Variable) or value.term in formula.free:
                found.setdefault(name, value)
        elif isinstance(part, And | Exists):
            for each in children(part):
                walk(each)

    walk(formula)
    return found


def _check_definitions(formula: Formula, values: Values) -> None:
    """Refuses variables that stand for a value and for an entity."""
    for leaf in leaves(formula):
        words = () if not isinstance(leaf, WrittenComparison) else leaf.sides
        entities = [each.term for side in words if not isinstance(side, Word) for each in _of(side)]
        for term in entities if words else leaf.terms:
            if isinstance(term, Variable) and term in values:
                raise QueryError(
                    f"{term} stands for a value in '{term} = {values[term]}' and for an entity "
                    "elsewhere; give the value another name"
                )


def _resolved(
    written: WrittenComparison, values: Values, place_of: Callable[[int], Place]
) -> Formula:
    """The formula of a comparison, by the variables of values."""
    sides = written.sides
    words = [each for each in sides if isinstance(each, Word)]
    plain = len(words) == 2 and not any(each.unit or each.term in values for each in words)
    if written.operators == ("!=",) and plain:
        return Inequality(*written.terms)
    for word in words:
        if isinstance(word.term, Variable) and word.term not in values:
            raise _entity_error(word.term, written, place_of)
    try:
        read = [_operand(side, values) for side in sides]
        pairs = zip(pairwise(read), written.operators, strict=True)
        return reduce(conjoined, [compared(left, sign, right) for (left, right), sign in pairs])
    except QueryError as error:
        raise QueryError(str(error), *place_of(written.ats[0])) from None


def _entity_error(
    variable: Variable, written: WrittenComparison, place_of: Callable[[int], Place]
) -> QueryError:
    """The error of a comparison with an entity, which has no value of its own."""
    advice = f"compare a value of it, as in population({variable}) > 1000"
    if written.definition is not None:
        advice = (
            f"{variable} would stand for a value, which it does only beside all other conditions, "
            "outside of 'or', 'not' and 'exists'"
        )
    elif written.operators[0] == "=":
        advice = (
            "write the entity in place of the variable, or '!=' for another one than that; "
            f"values are compared as in population({variable}) = 1000"
        )
    sign = written.operators[0]
    return QueryError(f"unexpected '{sign}'; {advice}", *place_of(written.ats[0]))


def _operand(side: Side, values: Values) -> Operand:
    if not isinstance(side, Word):
        return side
    if isinstance(side.term, Variable):
        return values[side.term]
    if not side.bare:
        raise QueryError(
            f"{side.term} is a name, since it is quoted; a number, a date or a duration has no "
            "quotes"
        )
    return literal(side.term.name, side.unit)


def _of(side: Side) -> tuple[Word | Value, ...]:
    return (side.left, side.right) if isinstance(side, Difference) else (side,)


def _terms(side: Side) -> tuple[Term, ...]:
    return tuple(part.term for part in _of(side))
