"""Explains syntax errors of questions to readers who do not know the grammar."""

from __future__ import annotations

import re
from typing import Any

from lark import UnexpectedCharacters, UnexpectedInput

from tacit.errors import QueryError
from tacit.query import tokens
from tacit.query.text import position_of

_EXAMPLE = "'?c : borders(France, ?c)'"
_STARTS = (
    f"a question starts with the variable it asks for, as in {_EXAMPLE}, or with ':' where the "
    "answer is yes or no, as in ': borders(France, Spain)'"
)
_RULE = "'borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)'"
_EXPECTED = {
    "VARIABLE": "a variable such as ?x",
    "NAME": "a name",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "_AND": "'&'",
    "_IMPLIES": "'=>'",
    "_OR": "'|'",
    "_NOT": "'!'",
    "_EXISTS": "'exists'",
    "COUNT": "'count'",
    "$END": "the end",
}
# tokens that no message lists: a name may be quoted, a relation inverted, a value compared, and
# any question ordered
_IMPLIED = {"STRING", "IRI", "PARAMETER", "INVERSE", "COMPARE", "MINUS", "_ORDER_BY", "DIRECTION"}

_BARE_IRI = re.compile(r"\w://[^\s<>(),\"'“”‘’]*$")


def explain_syntax_error(error: UnexpectedInput, text: str, start: str = "query") -> QueryError:
    """Explains a parser's error about a question or a rule, with its line and column."""
    details: Any = error  # what it carries depends on its class
    at: int = details.pos_in_stream
    if isinstance(error, UnexpectedCharacters):
        word = text[at]
        expected = set(details.allowed or ())
    else:
        word = str(details.token)
        expected = set(details.accepts or details.expected)
        if details.token.type == "$END":
            at = len(text)
            word = ""
    message = _about_rule if start == "rule" else _message
    return QueryError(message(word, expected, text[:at].rstrip()), *position_of(text, at))


def _about_rule(word: str, expected: set[str], before: str) -> str:
    """The error of a rule, where questions have advice of their own for its beginning and end."""
    if word == "=":
        return "unexpected '='; the atoms and what they imply are joined by '=>'"
    if before and (word or "_IMPLIES" not in expected):
        return _message(word, expected, before).replace("the question ends", "the rule ends")
    what = "the rule ends without '=>'" if before else _unexpected(word, "the rule is empty")
    return f"{what}; a rule is written as atoms that imply one, as in {_RULE}"


def _message(word: str, expected: set[str], before: str) -> str:
    unexpected = _unexpected(word, "the question ends")
    if not before:
        return f"{unexpected if word else 'the question is empty'}; {_STARTS}"
    if word in tuple(tokens.OPENING):
        return f"the quoted name that starts with {word} has no end"
    if _BARE_IRI.search(before):
        return f"{unexpected}; a full IRI goes in angle brackets, as in <http://example.org/Paris>"
    if "COMPARE" in expected and "LPAR" in expected:  # what follows a name may be a unit, rarely
        expected = expected - {"NAME"}
    if before[-1] in "<>=≤≥≠" and "NAME" in expected:
        return (
            f"{unexpected}, where a variable such as ?x, a number, a date, a value such as "
            "population(?c) or a name should follow"
        )
    if "COLON" in expected:
        rule = "after the variable it asks for, a question goes on with ':'"
        return f"{unexpected}; {rule}, as in {_EXAMPLE}"
    hint = _hint(word, expected, before)
    return f"{unexpected}, where {_alternatives(expected)} should follow{hint}"


def _unexpected(word: str, end: str) -> str:
    return f"unexpected {_excerpt(word)}" if word else end


def _hint(word: str, expected: set[str], before: str) -> str:
    expected = expected - {"COMPARE", "STRING"}
    inside = expected <= {"COMMA", "RPAR", "LPAR", "INVERSE"}
    if inside and word and word[0] not in ")(,?&|!" and before[-1:] not in tokens.CLOSING:
        return '; names with spaces or punctuation go in quotes, as in "New York"'
    if (expected == {"COMMA"} and word == ")") or ("RPAR" in expected and word == ","):
        return "; a relation takes two arguments, as in borders(France, ?c)"
    if {"LPAR", "INVERSE"} == expected and word in ("", ")", ","):
        return "; a relation takes its arguments in brackets, as in borders(France, ?c)"
    return ""


def _alternatives(expected: set[str]) -> str:
    if {"NAME", "_NOT", "_EXISTS"} <= expected:
        return "an atom such as borders(France, ?c), '!', 'exists' or '('"
    words = [words for name, words in _EXPECTED.items() if name in expected - _IMPLIED]
    if len(words) > 1:
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if not words:
        return "'<', '=' or another comparison" if "COMPARE" in expected else "something else"
    return words[0]


def _excerpt(word: str) -> str:
    word = " ".join(word.split())
    return f"'{word if len(word) <= 30 else word[:27] + '...'}'"
