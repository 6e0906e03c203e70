"""Comparisons: the value of an attribute, or the difference of two values, lies in a range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from numbers import Real
from typing import NoReturn

from tacit.errors import QueryError
from tacit.graph.quantities import Quantity
from tacit.query.formula import And, Exists, Formula, Leaf, Not, Query, children, leaves
from tacit.query.terms import Entity, Term, Variable, quoted

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_EXAMPLE = "population(?c) > 1000"


class _Comparable:
    """A left side of comparisons, which Python's operators make."""

    def __lt__(self, other: object) -> Formula:
        return compared(operand(self), "<", operand(other))

    def __le__(self, other: object) -> Formula:
        return compared(operand(self), "<=", operand(other))

    def __gt__(self, other: object) -> Formula:
        return compared(operand(self), ">", operand(other))

    def __ge__(self, other: object) -> Formula:
        return compared(operand(self), ">=", operand(other))

    def equals(self, other: object) -> Formula:
        """The condition that both sides are equal; a date is equal to all within its period."""
        return compared(operand(self), "=", operand(other))

    def differs_from(self, other: object) -> Formula:
        """The condition that both sides are not equal."""
        return compared(operand(self), "!=", operand(other))

    def between(self, low: object, high: object) -> Formula:
        """The condition of a range, both ends included."""
        value = operand(self)
        return conjoined(compared(value, ">=", operand(low)), compared(value, "<=", operand(high)))


@dataclass(frozen=True)
class Value(_Comparable):
    """The value of an attribute of an entity, as comparisons have it.

    `==` compares how two values are written; `equals` makes a comparison.

    >>> c = Variable("c")
    >>> Value("population", c) > 10_000_000, c.value("founded").between("1900", "1949-06")
    (<population(?c) > 10000000>, <1900 <= founded(?c) <= 1949-06>)
    >>> Value("population", c) > Value("population", Entity("France"))
    <population(?c) > population(France)>
    """

    attribute: str
    term: Term

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str):
            raise QueryError(f"an attribute is given by its name, as text, not {self.attribute!r}")
        if not isinstance(self.term, Entity | Variable):
            raise QueryError(f"a value is of Entity(...) or Variable(...), not of {self.term!r}")

    def __sub__(self, other: Value) -> Difference:
        return Difference(self, other)

    def exists(self) -> Comparison:
        """The condition that there is a value."""
        return Comparison(self)

    def named(self, name: str) -> Comparison:
        """The condition that there is a value, which answers show in a column of this name."""
        return Comparison(self, name=Variable(name).name)

    def __str__(self) -> str:
        return f"{quoted(self.attribute)}({self.term})"


@dataclass(frozen=True)
class Difference(_Comparable):
    """The left value less the right one."""

    left: Value
    right: Value

    def __post_init__(self) -> None:
        if not isinstance(self.right, Value):
            raise QueryError(f"a difference is between two values, not of {self.right!r}")

    def __str__(self) -> str:
        return f"{self.left} - {self.right}"


Operand = Value | Difference | Quantity


@dataclass(frozen=True)
class Bound:
    """An end of a range: a quantity, which may be left out of it."""

    quantity: Quantity
    open: bool = False

    def __str__(self) -> str:
        unit = self.quantity.unit
        return f"{self.quantity} {quoted(unit)}" if unit else str(self.quantity)

    def __neg__(self) -> Bound:
        return replace(self, quantity=replace(self.quantity, value=-self.quantity.value))


_TIE = Bound(Quantity(0.0))
_AWAY = Bound(Quantity(0.0), open=True)
_RANGES: dict[str, tuple[Bound | None, Bound | None]] = {  # of a difference
    "<": (None, _AWAY),
    "<=": (None, _TIE),
    ">": (_AWAY, None),
    ">=": (_TIE, None),
    "=": (_TIE, _TIE),
}
_SIGNS = {bounds: sign for sign, bounds in _RANGES.items()}


@dataclass(frozen=True, repr=False)
class Comparison(Leaf):
    """`low <= left <= high`, or of `left - right`; without bounds, that there are such values.

    A value that exists may have a `name`: answers show it in a column of this name. A date stands
    for its whole period.

    >>> founded = Value("founded", Variable("x"))
    >>> Comparison(founded, low=Bound(Quantity.parse("1900", "date")))
    <founded(?x) >= 1900>
    >>> founded.named("year")
    <?year = founded(?x)>
    """

    left: Value
    right: Value | None = None
    low: Bound | None = None
    high: Bound | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.left, Value) or not isinstance(self.right, Value | None):
            raise QueryError(f"a comparison is of Value(...), not of {self.left!r}, {self.right!r}")
        if self.left == self.right:
            raise QueryError(f"'{self.left}' is compared with itself; compare it with another one")
        self._check_terms("a value is of Entity(...) or Variable(...), not of")

    def __bool__(self) -> NoReturn:
        raise QueryError(
            f"'{self}' is true of some entities alone; join comparisons by '&' and '|', and write "
            "a range as value.between(low, high)"
        )

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that are compared."""
        return (self.left,) if self.right is None else (self.left, self.right)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The entities or variables whose values are compared."""
        return tuple(value.term for value in self.values)

    def with_terms(self, terms: Sequence[Term]) -> Comparison:
        """The same comparison of the values of others."""
        values = [replace(v, term=t) for v, t in zip(self.values, terms, strict=True)]
        return replace(self, left=values[0], right=values[1] if self.right else None)

    @property
    def interval(self) -> tuple[float, float]:
        """The closed range `[low, high]`; open ends are the numbers next to them."""
        low = -math.inf
        high = math.inf
        if self.low is not None:
            quantity = self.low.quantity
            low = math.nextafter(quantity.last, math.inf) if self.low.open else quantity.value
        if self.high is not None:
            quantity = self.high.quantity
            high = math.nextafter(quantity.value, -math.inf) if self.high.open else quantity.last
        return low, high

    def joined(self, other: Comparison) -> Comparison:
        """The comparison of the same values with the bounds of both."""
        low = other if other.interval[0] > self.interval[0] else self
        high = other if other.interval[1] < self.interval[1] else self
        return replace(self, low=low.low, high=high.high, name=self.name or other.name)

    def flipped(self) -> Comparison:
        """The same comparison of a difference, as that of the right value less the left one."""
        if self.right is None:
            return self
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return replace(self, left=self.right, right=self.left, low=low, high=high)

    @property
    def sign(self) -> str:
        """The operator between two values; empty where their difference is in another range."""
        return "" if self.right is None else _SIGNS.get((self.low, self.high), "")

    def __str__(self) -> str:
        low = self.low
        high = self.high
        if self.name:
            return f"?{self.name} = {self.left}"
        subject: object = self.left if self.right is None else Difference(*self.values)
        if self.sign:
            return f"{self.left} {self.sign} {self.right}"
        if low is not None and high is not None:
            if low == high and not low.open:
                return f"{subject} = {low}"
            return f"{low} <{'=' * (not low.open)} {subject} <{'=' * (not high.open)} {high}"
        if low is not None:
            return f"{subject} >{'=' * (not low.open)} {low}"
        return str(subject) if high is None else f"{subject} <{'=' * (not high.open)} {high}"


def compared(left: Operand, operator: str, right: Operand) -> Formula:
    """The formula of a comparison by `<`, `<=`, `>`, `>=`, `=` or `!=`.

    >>> print(compared(Quantity(5.0), "<", Value("area", Variable("c"))))
    area(?c) > 5
    """
    if operator == "!=":
        return Not(compared(left, "=", right))
    if isinstance(left, Quantity):
        left, operator, right = right, _FLIPPED[operator], left
    if isinstance(left, Quantity):
        raise QueryError(f"'{right}' and '{left}' are two literals; compare a value: {_EXAMPLE}")
    first, second = (left, None) if isinstance(left, Value) else (left.left, left.right)
    if isinstance(right, Quantity):
        bound = Bound(right, operator in ("<", ">"))
        low = bound if operator[0] in ">=" else None
        return Comparison(first, second, low, None if operator[0] == ">" else bound)
    if second is not None or not isinstance(right, Value):
        raise QueryError(f"'{left}' is compared with '{right}'; compare a difference with a number")
    return Comparison(first, right, *_RANGES[operator])


def conjoined(first: Formula, second: Formula) -> Formula:
    """Both formulas; a lower and an upper bound of the same values are one comparison."""
    if not isinstance(first, Comparison) or not isinstance(second, Comparison):
        return first & second
    # which of two lower bounds is higher may depend on what kind of value they are for
    apart = None in (first.low, second.low) and None in (first.high, second.high)
    return first.joined(second) if apart and first.values == second.values else first & second


def operand(value: object) -> Operand:
    """What Python code compares: a value, or a number, date, duration or text in place of one."""
    if isinstance(value, _Comparable):
        return value  # type: ignore[return-value]
    if isinstance(value, str):
        return literal(value)
    quantity = value if isinstance(value, Quantity) else None
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(value, date | datetime):
        quantity = Quantity.parse(value.isoformat(), "date")
    elif isinstance(value, timedelta):
        quantity = Quantity(value.total_seconds(), "duration")
    elif is_number:
        with suppress(OverflowError):
            quantity = Quantity(float(value))  # type: ignore[arg-type]
    if quantity is None or not math.isfinite(quantity.value):
        raise QueryError(
            f"{value!r} is compared with a value; give a finite number, a date, a timedelta or a "
            "text such as '1950-06' or '12 kg'"
        )
    return quantity


def literal(text: str, unit: str = "") -> Quantity:
    """Reads a number with or without a unit, a date or a duration.

    >>> literal("1_000 km²")
    Quantity(value=1000.0, kind='number', precision='', unit='km²')
    """
    number, _, own_unit = text.strip().partition(" ")
    for written, its_unit in ((text, unit), (number, own_unit.strip() or unit)):
        if (quantity := Quantity.parse(written)) is not None:
            return replace(quantity, unit=its_unit)
    raise QueryError(
        f"'{text:.40}' is no number, date or duration; write one such as 10_000_000, 5e6, 1950-06 "
        "or PT2H"
    )


@dataclass(frozen=True)
class Ordering:
    """The value that answers are ordered by."""

    value: Value
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.value}{' desc' * self.descending}"


def asserted_comparisons(formula: Formula) -> Iterator[Comparison]:
    """Yields the comparisons that must hold, from left to right."""
    if isinstance(formula, Comparison):
        yield formula
    elif isinstance(formula, And | Exists):
        for part in children(formula):
            yield from asserted_comparisons(part)


def value_columns(query: Query) -> dict[str, Value]:
    """The values that answers show by name: value variables, the order, and a lone value.

    >>> c = Variable("c")
    >>> list(value_columns(Query(c, c.value("area").named("n"), order=[Ordering(c.value("age"))])))
    ['?n', 'age(?c)']
    """
    columns = {f"?{name}": value for name, value in query.values.items()}
    formula = query.formula
    if (
        not query.targets
        and isinstance(formula, Comparison)
        and formula == Comparison(formula.left)
    ):
        columns[str(formula.left)] = formula.left
    for each in query.order:
        if each.value not in columns.values():
            columns[str(each.value)] = each.value
    return columns


def value_ranges(query: Query) -> dict[Value, tuple[float, float]]:
    """The range in which a value of each answer must lie, for those that have bounds.

    >>> c = Variable("c")
    >>> value_ranges(Query(c, (c.value("area") > 5) & (c.value("area") <= 9)))
    {Value(attribute='area', term=Variable(name='c')): (5.000000000000001, 9.0)}
    """
    ranges: dict[Value, tuple[float, float]] = {}

    def walk(part: Formula) -> None:
        if isinstance(part, Comparison) and part.right is None:
            low, high = ranges.get(part.left, (-math.inf, math.inf))
            ranges[part.left] = max(low, part.interval[0]), min(high, part.interval[1])
        elif isinstance(part, And) or (
            isinstance(part, Exists) and part.variable not in query.targets
        ):
            for each in children(part):
                walk(each)

    walk(query.formula)
    return ranges


def check_values(query: Query) -> None:
    """Refuses value variables and orders that no answer has a value for."""
    known = frozenset(query.targets)
    named = [leaf for leaf in leaves(query.formula) if isinstance(leaf, Comparison) and leaf.name]
    asserted = list(asserted_comparisons(query.formula))
    taken = [*(target.name for target in query.targets), *(leaf.name for leaf in named)]
    for leaf in named:
        if taken.count(leaf.name) > 1:
            raise QueryError(f"?{leaf.name} stands for two things; give one of them another name")
        if leaf not in asserted:
            raise QueryError(
                f"'{leaf}' stands inside 'or' or 'not'; a value that is asked for stands beside "
                "all other conditions"
            )
        if not leaf.free <= known:
            raise QueryError(
                f"?{leaf.name} is a value of {leaf.left.term}; ask for that as well, as in "
                f"'{leaf.left.term}, ?{leaf.name} : ...'"
            )
    for each in query.order:
        if query.count or query.kind in ("truth", "relations"):
            raise QueryError(f"'order by {each}' orders a list of answers, and there is none here")
        if isinstance(each.value.term, Variable) and each.value.term not in known:
            raise QueryError(
                f"'order by {each}' is by a value of {each.value.term}, which is not asked for; "
                f"order by one of {', '.join(map(str, query.targets))}"
            )
    if query.count and named:
        raise QueryError(f"a count has no column ?{named[0].name}; ask for the values alone")
