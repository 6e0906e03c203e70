"""Filters on the rows of a table: comparisons of terms, and functions on their text.

A condition is true, false or, where it has no value, None, as SPARQL says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tacit.graph.labels.literal_values import read_literal
from tacit.graph.quantities import Quantity
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.known_graph import KnownGraph
from tacit.query.sparql.source import is_literal, is_name, is_variable, kind, unwrap
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import Term, quantity_of, quantity_term

_KINDS = {"isIRI": "uri", "isURI": "uri", "isBLANK": "bnode", "isLITERAL": "literal"}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": lambda text, part: part in text,
    "STRSTARTS": str.startswith,
    "STRENDS": str.endswith,
}
_TEXTS: dict[str, Callable[[str], str]] = {"LCASE": str.lower, "UCASE": str.upper}
_SETS = ("IN", "NOT IN")
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
_TESTS = {*_KINDS, *_TEXT_TESTS, "BOUND", "LANGMATCHES", "sameTerm"}
_TERMS = {*_TEXTS, "STR", "LANG"}
Binding = Mapping[str, Cell]
Exists = Callable[[Any, Binding], bool]


def is_supported(expression: Any) -> bool:
    """Whether a condition has only comparisons and functions that `Conditions` knows."""
    expression = unwrap(expression)
    name = kind(expression)
    if name == "RelationalExpression":
        several = expression.other if expression.op in _SETS else [expression.other]
        known = expression.op in ("=", "!=", *_SETS, *_ORDERS)
        sides = [unwrap(side) for side in (expression.expr, *several)]
        named = expression.op in _ORDERS and any(map(is_name, sides))
        return known and not named and all(map(_is_operand, sides))
    if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
        return all(map(is_supported, (expression.expr, *expression.other)))
    if name == "UnaryNot":
        return is_supported(expression.expr)
    if name in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
        return True
    return name.removeprefix("Builtin_") in _TESTS and all(map(_is_operand, _arguments(expression)))


def _is_operand(expression: Any) -> bool:
    """Whether an expression stands for a term: one that is written, or a function of one."""
    expression = unwrap(expression)
    name = kind(expression)
    if name == "UnaryMinus":
        return is_literal(unwrap(expression.expr))
    return name in ("", "pname", "literal") or (
        name.removeprefix("Builtin_") in _TERMS and all(map(_is_operand, _arguments(expression)))
    )


def _arguments(expression: Any) -> list[Any]:
    return [expression[name] for name in ("arg", "arg1", "arg2") if name in expression]


def literal_quantity(node: Any, labels: TermLabels) -> Quantity | None:
    """The number, date or duration of a literal; a number may have a minus before it."""
    node = unwrap(node)
    if kind(node) == "UnaryMinus":
        quantity = literal_quantity(node.expr, labels)
        is_number = quantity is not None and quantity.kind == "number"
        return replace(quantity, value=-quantity.value) if quantity and is_number else None
    if not is_literal(node):
        return None
    term = labels.literal_term(node)
    return read_literal(term.value, term.datatype) if term.datatype else None


class _Operand(NamedTuple):
    """A term that is compared; a number, date or duration lasts until `last`.

    A date that the query writes stands for its whole period, a value for its first moment.
    """

    term: Term
    quantity: Quantity | None = None
    last: float = 0.0


def _equal(left: _Operand | None, right: _Operand | None) -> bool | None:
    """Whether two terms are equal; values of one kind are by what they say."""
    if left is None or right is None:
        return None
    if left.term == right.term:
        return True
    if "uri" in (left.term.kind, right.term.kind) or "bnode" in (left.term.kind, right.term.kind):
        return False
    if left.quantity is None and right.quantity is None:
        return False
    less, more = _in_order(left, "<", right), _in_order(left, ">", right)
    return None if less is None or more is None else not less and not more


def _in_order(left: _Operand | None, sign: str, right: _Operand | None) -> bool | None:
    """Whether two values of one kind, or two plain texts, stand in an order."""
    if left is None or right is None:
        return None
    if left.quantity is None or right.quantity is None:
        plain = all(
            each.term.kind == "literal" and not any(each.term[2:]) for each in (left, right)
        )
        return _ORDERS[sign](left.term.value, right.term.value) if plain else None
    units = {left.quantity.unit, right.quantity.unit} - {""}
    if left.quantity.kind != right.quantity.kind or len(units) > 1:
        return None
    match sign:
        case "<":
            return left.last < right.quantity.value
        case ">":
            return left.quantity.value > right.last
        case "<=":
            return left.quantity.value <= right.last
    return left.last >= right.quantity.value


class Conditions:
    """Decides conditions; `exists` says whether a group has a solution that agrees with a row."""

    def __init__(self, labels: TermLabels, known: KnownGraph, exists: Exists) -> None:
        self.labels = labels
        self.known = known
        self.exists = exists

    def holds(self, expression: Any, row: Binding) -> bool | None:
        """Whether a condition holds of a row; None where it has no value."""
        expression = unwrap(expression)
        name = kind(expression)
        if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
            parts = [self.holds(part, row) for part in (expression.expr, *expression.other)]
            decisive = "Or" in name
            return decisive if decisive in parts else None if None in parts else not decisive
        if name == "UnaryNot":
            denied = self.holds(expression.expr, row)
            return None if denied is None else not denied
        if name in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            return self.exists(expression.graph, row) == (name == "Builtin_EXISTS")
        if name == "RelationalExpression":
            return self._compare(expression, row)
        return self._test(name.removeprefix("Builtin_"), _arguments(expression), row)

    def _compare(self, expression: Any, row: Binding) -> bool | None:
        """Comparisons: of terms, and of values by their order."""
        several = expression.other if expression.op in _SETS else [expression.other]
        left = self._operand(expression.expr, row)
        rights = [self._operand(other, row) for other in several]
        if expression.op in _ORDERS:
            return _in_order(left, expression.op, rights[0])
        same = [_equal(left, right) for right in rights]
        found = True if True in same else None if None in same else False
        return found if found is None or expression.op in ("=", "IN") else not found

    def _operand(self, expression: Any, row: Binding) -> _Operand | None:
        """A side of a comparison; None where it has no value."""
        term = self._term(expression, row)
        if term is None:
            return None
        quantity = quantity_of(term)
        if quantity is None:
            return _Operand(term)
        written = not is_variable(unwrap(expression))
        return _Operand(term, quantity, quantity.last if written else quantity.value)

    def _test(self, name: str, arguments: list[Any], row: Binding) -> bool | None:
        """A function with a truth value."""
        if name == "BOUND":
            return str(arguments[0]) in row
        terms = [self._term(each, row) for each in arguments]
        first, *others = terms
        if first is None or None in others:
            return None
        if name == "sameTerm":
            return first == others[0]
        if name in _KINDS:
            return first.kind == _KINDS[name]
        texts = [term.value for term in terms if term is not None and term.kind == "literal"]
        if len(texts) < 2:
            return None
        text, part = texts
        if name == "LANGMATCHES":
            return bool(text) if part == "*" else f"{text}-".lower().startswith(f"{part}-".lower())
        return _TEXT_TESTS[name](text, part) if name in _TEXT_TESTS else None

    def _term(self, expression: Any, row: Binding) -> Term | None:
        """The term that an expression stands for; None where it has no value."""
        expression = unwrap(expression)
        if is_variable(expression):
            cell = row.get(str(expression))
            return None if cell is None else self.known.terms.term(cell)
        name = kind(expression).removeprefix("Builtin_")
        if is_literal(expression):
            return self.labels.literal_term(expression)
        if name in ("", "pname"):
            return self.known.terms.term(self.labels.cell(expression, self.known.terms))
        if name == "UnaryMinus":
            quantity = literal_quantity(expression, self.labels)
            return None if quantity is None else quantity_term(quantity)
        arguments = [self._term(each, row) for each in _arguments(expression)]
        term = arguments[0] if arguments else None
        if term is None or (name != "STR" and term.kind != "literal") or term.kind == "bnode":
            return None
        if name == "LANG":
            return Term("literal", term.language)
        if name in _TEXTS:
            return term._replace(value=_TEXTS[name](term.value))
        return Term("literal", term.value) if name == "STR" else None
