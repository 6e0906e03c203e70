"""Filters on the rows of a table: comparisons of terms, and functions on their text.

A condition is true, false or, where it has no value, None, as SPARQL says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.known_graph import KnownGraph
from tacit.query.sparql.source import is_value, is_variable, kind, unwrap
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import Term

_KINDS = {"isIRI": "uri", "isURI": "uri", "isBLANK": "bnode", "isLITERAL": "literal"}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": lambda text, part: part in text,
    "STRSTARTS": str.startswith,
    "STRENDS": str.endswith,
}
_TEXTS: dict[str, Callable[[str], str]] = {"LCASE": str.lower, "UCASE": str.upper}
_SETS = ("IN", "NOT IN")
_FUNCTIONS = {
    *_KINDS, *_TEXT_TESTS, *_TEXTS, "BOUND", "STR", "LANG", "LANGMATCHES", "sameTerm"
}  # fmt: skip
Binding = Mapping[str, Cell]
Exists = Callable[[Any, Binding], bool]


def is_supported(expression: Any) -> bool:
    """Whether a condition has only comparisons and functions that `Conditions` knows."""
    expression = unwrap(expression)
    name = kind(expression)
    if name in ("", "pname", "literal"):
        return not is_value(expression) and not (name == "literal" and expression.datatype)
    if name == "RelationalExpression":
        several = expression.other if expression.op in _SETS else [expression.other]
        known = expression.op in ("=", "!=", *_SETS)
        return known and all(map(is_supported, (expression.expr, *several)))
    if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
        return all(map(is_supported, (expression.expr, *expression.other)))
    if name == "UnaryNot":
        return is_supported(expression.expr)
    if name in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
        return True
    return name.removeprefix("Builtin_") in _FUNCTIONS and all(
        map(is_supported, _arguments(expression))
    )


def _arguments(expression: Any) -> list[Any]:
    return [expression[name] for name in ("arg", "arg1", "arg2") if name in expression]


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
        """`=`, `!=`, `IN` and `NOT IN`, which compare terms."""
        several = expression.other if expression.op in _SETS else [expression.other]
        left = self._term(expression.expr, row)
        rights = [self._term(other, row) for other in several]
        if left is None:
            return None
        found = True if left in rights else None if None in rights else False
        return found if found is None or expression.op in ("=", "IN") else not found

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
            return None if cell is None else self.known.term(cell)
        name = kind(expression).removeprefix("Builtin_")
        if name in ("", "pname"):
            return self.known.term(self.labels.cell(expression, self.known))
        if name == "literal":
            return self.labels.literal_term(expression)
        arguments = [self._term(each, row) for each in _arguments(expression)]
        term = arguments[0] if arguments else None
        if term is None or (name != "STR" and term.kind != "literal") or term.kind == "bnode":
            return None
        if name == "LANG":
            return Term("literal", term.language)
        if name in _TEXTS:
            return term._replace(value=_TEXTS[name](term.value))
        return Term("literal", term.value) if name == "STR" else None
