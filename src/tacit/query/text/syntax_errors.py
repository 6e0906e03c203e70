"""What a mistake in the text of a question is called, for someone who does not know the grammar."""

from __future__ import annotations

from typing import Any

from lark import UnexpectedCharacters, UnexpectedInput

from tacit.errors import QueryError
from tacit.query.text.text import place

_EXAMPLE = "'?c : borders(France, ?c)'"
_YES_OR_NO = "': borders(France, Spain)' is answered by yes or no"
_EXPECTED = {
    "VARIABLE": "a variable such as ?x",
    "NAME": "a name",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "_AND": "'&'",
    "_OR": "'|'",
    "_NOT": "'!'",
    "_EXISTS": "'exists'",
    "COUNT": "'count'",
    "$END": "the end",
}
_IMPLIED = {"STRING", "PARAMETER", "INVERSE"}  # goes without saying: a name may be quoted, a relation inverted


def explained(error: UnexpectedInput, text: str) -> QueryError:
    """The mistake behind a parser's complaint, with its line and column."""
    details: Any = error  # what it carries depends on its class
    start: int = details.pos_in_stream
    if isinstance(error, UnexpectedCharacters):
        given, expected = text[start], set(details.allowed or ())
    else:
        given, expected = str(details.token), set(details.accepts or details.expected)
        if details.token.type == "$END":
            start, given = len(text), ""
    return QueryError(_message(given, expected, text[:start].rstrip()), *place(text, start))


def _message(given: str, expected: set[str], before: str) -> str:
    if not before:
        return f"a question starts with the variable it asks for, as in {_EXAMPLE}; {_YES_OR_NO}"
    if given in ('"', "'"):
        return f"the quoted name that starts with {given} has no end"
    if "COLON" in expected:
        return f"after the variable it asks for, a question goes on with ':', as in {_EXAMPLE}"
    shown = "the question ends" if not given else f"unexpected {_short(given)}"
    return f"{shown}, where {_listed(expected)} should follow{_hint(given, expected, before)}"


def _hint(given: str, expected: set[str], before: str) -> str:
    inside = expected <= {"COMMA", "RPAR", "LPAR", "INVERSE"}
    if inside and given and (given[0].isalnum() or given[0] not in ")(,?&|!") and before[-1:] not in ("'", '"'):
        return '; names with spaces or punctuation go in quotes, as in "New York"'
    if (expected == {"COMMA"} and given == ")") or ("RPAR" in expected and given == ","):
        return "; a relation takes two arguments, as in borders(France, ?c)"
    if {"LPAR", "INVERSE"} == expected and given in ("", ")", ","):
        return "; a relation takes its arguments in brackets, as in borders(France, ?c)"
    return ""


def _listed(expected: set[str]) -> str:
    words = [_EXPECTED[name] for name in _EXPECTED if name in expected - _IMPLIED] or ["something else"]
    if {"NAME", "_NOT", "_EXISTS"} <= expected:
        return "an atom such as borders(France, ?c), '!', 'exists' or '('"
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _short(given: str) -> str:
    given = " ".join(given.split())
    return f"'{given if len(given) <= 30 else given[:27] + '...'}'"
