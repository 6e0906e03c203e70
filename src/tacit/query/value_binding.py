"""Binds the comparisons of a query to the attributes of a graph: their names, kinds and units."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from unicodedata import normalize

from tacit.errors import QueryError, UnknownName
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import Graph
from tacit.graph.quantities import Kind, Quantity
from tacit.query.comparison import Bound, Comparison, Ordering, Value
from tacit.query.formula import Formula, Query, leaves, map_children
from tacit.query.question import resolve_name
from tacit.query.terms import Entity, quoted
from tacit.query.text import locate

_DAY = 86_400.0
_LITERALS = {"number": "1000", "date": "1950-06", "duration": "PT2H"}


def bind_values(query: Query, graph: Graph) -> Query:
    """The query with the labels of attributes, and with literals read by their kinds.

    A number that is compared with a date is a year. An unknown attribute, a literal of another kind
    or unit, and a relation in place of an attribute are errors that point at their place.

    >>> from tacit.query.text import parse
    >>> from tacit.graph.attributes import Attributes
    >>> graph = replace(Graph.of([]), attributes=Attributes.of([Attribute("Founded", "date")], []))
    >>> bind_values(parse("?x : 800 <= founded(?x) < 1950-06"), graph)
    <?x : 0800 <= Founded(?x) < 1950-06>
    """
    if not query.order and not any(isinstance(leaf, Comparison) for leaf in leaves(query.formula)):
        return query
    binder = _Binder(graph, query.text, str(query.targets[0]) if query.targets else "?x")
    order = [Ordering(binder.value(each.value), each.descending) for each in query.order]
    return Query(query.targets, binder.formula(query.formula), query.count, query.text, order)


def supposed_attributes(query: Query) -> Attributes:
    """The attributes of a query without a graph, by what they are compared with."""
    comparisons = [leaf for leaf in leaves(query.formula) if isinstance(leaf, Comparison)]
    names = dict.fromkeys(value.attribute for leaf in comparisons for value in leaf.values)
    found = {name: Attribute(name) for name in names}
    for _ in names:  # a kind is handed on from value to value
        for leaf in comparisons:
            own = [bound.quantity for bound in (leaf.low, leaf.high) if bound and not leaf.right]
            sides: list[Quantity | Attribute] = [*own, *(found[v.attribute] for v in leaf.values)]
            kind: Kind = next((side.kind for side in sides if side.kind != "number"), "number")
            unit = next((side.unit for side in sides if side.unit), "")
            found |= {v.attribute: Attribute(v.attribute, kind, unit) for v in leaf.values}
    return Attributes(tuple(found.values()))


def attributes_of(query: Query, graph: Graph) -> tuple[Attribute, ...]:
    """The attributes of a graph that a bound query compares or is ordered by."""
    compared = (leaf.values for leaf in leaves(query.formula) if isinstance(leaf, Comparison))
    ordered = (each.value for each in query.order)
    names = {value.attribute for value in (*chain.from_iterable(compared), *ordered)}
    return tuple(each for each in graph.attributes.listed if each.name in names)


class _Binder:
    def __init__(self, graph: Graph, text: str, target: str) -> None:
        self.graph = graph
        self.text = text
        self.target = target  # for examples

    def formula(self, part: Formula) -> Formula:
        return (
            self.comparison(part)
            if isinstance(part, Comparison)
            else map_children(part, self.formula)
        )

    def value(self, value: Value) -> Value:
        """A value by the label of its attribute."""
        attributes = self.graph.attributes.names
        try:
            i = resolve_name(self.graph, attributes, value.attribute, self.text)
        except UnknownName:
            relation = self.graph.relations.get(value.attribute)
            if relation is None:
                raise
            name = quoted(value.attribute)
            other = self.target if isinstance(value.term, Entity) else "France"
            example = f"{name}({value.term}, {other})"
            raise self._error(
                value, f"{name} is a relation; a relation takes two arguments, as in {example}"
            ) from None
        return replace(value, attribute=attributes[i])

    def comparison(self, comparison: Comparison) -> Comparison:
        """A comparison by the labels of attributes, its literals of their kind."""
        values = [self.value(value) for value in comparison.values]
        kinds = [self.attribute(value) for value in values]
        if len({(kind.kind, kind.unit) for kind in kinds}) > 1:
            kinds_in_words = " and ".join(f"{kind.name} is {_described(kind)}" for kind in kinds)
            raise self._error(
                comparison.left, f"{kinds_in_words}; values are compared with others of their kind"
            )
        low, high = (
            bound and self.bound(comparison.left, kinds, bound)
            for bound in (comparison.low, comparison.high)
        )
        right = values[1] if len(values) > 1 else None
        return replace(comparison, left=values[0], right=right, low=low, high=high)

    def attribute(self, value: Value) -> Attribute:
        """The attribute of a value."""
        attributes = self.graph.attributes
        return attributes.listed[attributes.names.id(value.attribute)]

    def bound(self, value: Value, kinds: list[Attribute], bound: Bound) -> Bound:
        """A bound in the kind and the unit of what it limits."""
        attribute = kinds[0]
        quantity = bound.quantity
        if len(kinds) > 1 and quantity == Quantity(0.0):
            return bound
        read = _difference_of(quantity, attribute) if len(kinds) > 1 else _read(quantity, attribute)
        if read is None:
            what = (
                f"a difference of {attribute.name} is" if len(kinds) > 1 else f"{attribute.name} is"
            )
            kind = "duration" if len(kinds) > 1 and attribute.kind == "date" else attribute.kind
            raise self._error(
                value,
                f"{what} a {kind}, and {quantity} is a {quantity.kind}; write a {kind}, such as "
                f"{_LITERALS[kind]}",
            )
        if quantity.unit and _plain(quantity.unit) != _plain(attribute.unit):
            advice = f"write it in {attribute.unit}" if attribute.unit else "leave the unit out"
            raise self._error(
                value,
                f"{attribute.name} is {_described(attribute)}, not in {quantity.unit}; {advice}",
            )
        return replace(bound, quantity=replace(read, unit=attribute.unit))

    def _error(self, value: Value, message: str) -> QueryError:
        return QueryError(message, *(locate(self.text, "attribute", value.attribute) or ()))


def _read(quantity: Quantity, attribute: Attribute) -> Quantity | None:
    """A literal as a quantity of an attribute's kind; a whole number is a year."""
    if attribute.kind == "date" and quantity.kind == "number" and not quantity.unit:
        year = int(quantity.value)
        sign = "-" * (year < 0)
        return Quantity.parse(f"{sign}{abs(year):04d}", "date") if year == quantity.value else None
    return quantity if quantity.kind == attribute.kind else None


def _difference_of(quantity: Quantity, attribute: Attribute) -> Quantity | None:
    """A literal as a difference of two values; dates differ by days."""
    if attribute.kind == "date":
        is_duration = quantity.kind == "duration"
        return Quantity(quantity.value / _DAY) if is_duration else None
    return quantity if quantity.kind == attribute.kind else None


def _described(attribute: Attribute) -> str:
    """The kind and the unit of an attribute."""
    return f"a {attribute.kind}{f' in {attribute.unit}' if attribute.unit else ''}"


def _plain(unit: str) -> str:
    """A unit without differences of writing: `km²` is `km2`."""
    return normalize("NFKC", unit).replace(" ", "")
