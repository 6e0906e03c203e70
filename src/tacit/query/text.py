"""Questions as text: `?c : borders(France, ?c) & !speaks(?c, German)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tacit.errors import QueryError
from tacit.query import tokens
from tacit.query.comparison import Comparison, Difference, Ordering, Value
from tacit.query.formula import (
    MAX_ATOMS,
    And,
    Atom,
    Entity,
    Formula,
    Leaf,
    Not,
    Or,
    Query,
    Term,
    Variable,
    exists,
    leaves,
    map_children,
)
from tacit.query.plans.scopes import quantified
from tacit.query.written_comparisons import (
    SIGNS,
    Word,
    WrittenComparison,
    resolve_comparisons,
    resolve_order,
)

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_CHARACTERS = 20_000
MAX_BRACKETS = 100


def parse(text: str, parameters: Mapping[str, str] | None = None) -> Query:
    """Parses a question in the text syntax; a `QueryError` points at a mistake.

    Before the colon stand the targets: a variable, several, `count` and a variable, or nothing,
    where the answer is yes or no. A variable that is neither a target nor bound is existential, at
    the narrowest place that holds its atoms. A value of an entity, alone, needs no colon.

    >>> parse("?c : borders(France, ?c) and not speaks(?c, German)")
    <?c : borders(France, ?c) & !speaks(?c, German)>
    >>> parse("?t : !(p(a, ?v) & q(?v, ?t)) & r^-1(?t, 'b c')")
    <?t : !(exists ?v . p(a, ?v) & q(?v, ?t)) & r("b c", ?t)>
    >>> parse("?a, ?b : borders(?a, ?b)"), parse(": borders(France, ?b)")
    (<?a, ?b : borders(?a, ?b)>, <: exists ?b . borders(France, ?b)>)
    >>> parse("count ?c : borders(France, ?c)")
    <count ?c : borders(France, ?c)>

    `$name` stands for a label that is given among the `parameters`, whatever characters it has.

    >>> parse("?c : borders($who, ?c)", {"who": 'the "Free" State'})
    <?c : borders("the \\"Free\\" State", ?c)>

    A comparison of values is a condition, too; values are columns of the answers, and order them.

    >>> parse("?c, ?n : in_continent(?c, Asia) & ?n = population(?c) & ?n < 5e6 order by ?n desc")
    <?c, ?n : in_continent(?c, Asia) & ?n = population(?c) & population(?c) < 5000000 order by \
population(?c) desc>
    """
    question = f": {text}" if isinstance(text, str) and is_lone_value(text) else text
    targets, formula, count, keys = _parsed(question, "query")  # as `_Builder.query` returns them
    chains = (leaf for leaf in leaves(formula) if isinstance(leaf, WrittenComparison))
    further = sum(len(chain.operators) - 1 for chain in chains) + len(keys)
    if sum(1 for _ in leaves(formula)) + further > MAX_ATOMS:
        raise QueryError(f"the question has more than {MAX_ATOMS} atoms; ask it in parts")
    if parameters or "$" in text:
        formula, keys = fill_parameters(formula, keys, parameters or {})
    order: tuple[Ordering, ...] = ()
    if keys or any(isinstance(leaf, WrittenComparison) for leaf in leaves(formula)):
        place_of = partial(position_of, question)
        targets, formula, values = resolve_comparisons(targets, formula, place_of)
        order = resolve_order(keys, targets, values)
    formula = quantified(formula, formula.free.difference(targets))
    return Query(targets, formula, count, text, order)


def is_lone_value(text: str) -> bool:
    """Whether a text is the value of one entity, as `population(France)`, and nothing else."""
    return _VALUE.fullmatch(text) is not None


def parse_implication(text: str) -> tuple[list[Atom], Atom]:
    """Parses a rule, `body => head`, whose body are atoms joined by `and`.

    >>> parse_implication("borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)")
    ([<borders(?x, ?z)>, <in_continent(?z, ?y)>], <in_continent(?x, ?y)>)
    """
    body, head = _parsed(text, "rule")  # as `_Builder.rule` returns them
    return body, head


def _parsed(text: object, start: str) -> Any:
    """What the grammar's rule `start` makes of a text."""
    from lark import UnexpectedInput

    from tacit.query.syntax_errors import explain_syntax_error

    if not isinstance(text, str):
        what = "question" if start == "query" else start
        raise QueryError(f"a {what} is a text here, not {type(text).__name__}")
    _check_size(text)
    try:
        parsed: Any = _parser(start).parse(text)
    except UnexpectedInput as error:
        raise explain_syntax_error(error, text, start) from None
    if "\\" in text:
        _check_escapes(text)
    return parsed


def locate(text: str, kind: str, name: str) -> tuple[int, int] | None:
    """The line and column of the first use of a name as an entity, or before brackets.

    >>> locate("?c : borders(France, ?c)", "entity", "France")
    (1, 14)
    """
    for word in _NAME.finditer(text):
        is_entity = _APPLIED.match(text, word.end()) is None
        if is_entity == (kind == "entity") and word[0][0] not in "?$" and _plain(word[0]) == name:
            return position_of(text, word.start())
    return None


def position_of(text: str, at: int) -> tuple[int, int]:
    """The line and column of a character of a text.

    >>> position_of("one\\ntwo", 4)
    (2, 1)
    """
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


_NAME = re.compile(
    f"{tokens.STRING}|{tokens.IRI}|{tokens.VARIABLE}|{tokens.PARAMETER}|{tokens.NAME}", re.DOTALL
)
_CONSTANT = rf"\s*(?:{tokens.STRING}|{tokens.IRI}|{tokens.PARAMETER}|{tokens.NAME})\s*"
_VALUE = re.compile(rf"{_CONSTANT}\({_CONSTANT}\)\s*", re.DOTALL)
_APPLIED = re.compile(rf"\s*(?:{tokens.INVERSE})?\s*\(")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"} | {
    mark: mark for mark in tokens.OPENING + tokens.CLOSING
}


def _plain(word: str) -> str:
    """A name without its quotes and escapes, or that of a parameter."""
    if word[0] == "$":
        return Parameter(word[1:])
    if word[0] not in tokens.OPENING:
        return word
    inside = word[1:-1].strip() if word[0] == "«" else word[1:-1]  # French sets spaces inside
    return _ESCAPE.sub(lambda escape: _character(escape) or "", inside)


def _character(escape: re.Match[str]) -> str | None:
    """The character of an escape; None if it stands for none, as half a surrogate pair does."""
    if escape[3]:
        return _ESCAPED.get(escape[3])
    code = int(escape[1] or escape[2], 16)
    return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else None


def _check_escapes(text: str) -> None:
    for word in _NAME.finditer(text):
        for escape in _ESCAPE.finditer(word[0]) if word[0][0] in tokens.OPENING else ():
            if _character(escape) is None:
                escapes = r"""\\ \" \' \n \t \r \u016b and \U0001F600"""
                problem = f"'{escape[0].strip()}' is no escape; {escapes} are"
                raise QueryError(problem, *position_of(text, word.start() + escape.start()))


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise QueryError(
            f"the question is {len(text):,} characters long; at most {MAX_CHARACTERS:,} are read"
        )
    if text.count("(") <= MAX_BRACKETS:
        return
    depth = 0
    for at, character in enumerate(_QUOTED.sub(lambda q: " " * len(q[0]), text)):
        depth += (character == "(") - (character == ")")
        if depth > MAX_BRACKETS:
            raise QueryError(
                f"brackets are nested deeper than {MAX_BRACKETS} levels", *position_of(text, at)
            )


_QUOTED = re.compile(tokens.UNCLOSED, re.DOTALL)


@lru_cache(maxsize=2)
def _parser(start: str) -> Lark:
    from lark import Lark

    grammar = files("tacit.query").joinpath("grammar.lark").read_text(encoding="utf-8")
    grammar = re.sub(
        "<([A-Z]+)>", lambda word: getattr(tokens, word[1]).replace("/", r"\/"), grammar
    )
    return Lark(grammar, start=start, parser="lalr", transformer=_Builder())


class _Builder:
    """Builds formulas while parsing, by one method per grammar rule."""

    def query(self, parts: list[Any]) -> tuple[tuple[Variable, ...], Formula, bool, list[_Key]]:
        keys = parts.pop() if isinstance(parts[-1], list) else []
        *tokens, formula = parts
        count = bool(tokens) and tokens[0].type == "COUNT"
        return tuple(map(_variable, tokens[count:])), formula, count, keys

    def order(self, keys: list[_Key]) -> list[_Key]:
        return keys

    def key(self, parts: list[Any]) -> _Key:
        side, *direction = parts
        descending = bool(direction) and direction[0].lower().startswith("desc")
        return (side if isinstance(side, Value) else self.word([side])), descending

    def rule(self, parts: list[Any]) -> tuple[list[Atom], Atom]:
        return parts[:-1], parts[-1]

    def disjunction(self, parts: list[Formula]) -> Formula:
        return Or(tuple(parts))

    def conjunction(self, parts: list[Formula]) -> Formula:
        return And(tuple(parts))

    def negation(self, parts: list[Formula]) -> Formula:
        return Not(parts[0])

    def exists(self, parts: list[Any]) -> Formula:
        *tokens, formula = parts
        return exists(list(map(_variable, tokens)), formula)

    def atom(self, tokens: list[Token]) -> Formula:
        relation, subject, object_ = (_term(tokens[i]) for i in (0, -2, -1))
        if len(tokens) == 4:  # the inverse mark stands between the name and the arguments
            subject, object_ = object_, subject
        return Atom(relation.name if isinstance(relation, Entity) else relation, subject, object_)

    def value(self, tokens: list[Token]) -> Value:
        attribute, term = map(_term, tokens)
        if isinstance(attribute, Variable):
            raise QueryError(
                f"'{attribute}({term})' asks for an attribute; name it, as in population({term})",
                tokens[0].line,
                tokens[0].column,
            )
        return Value(attribute.name, term)

    def presence(self, parts: list[Value | Difference]) -> Comparison:
        part = parts[0]
        return Comparison(part) if isinstance(part, Value) else Comparison(part.left, part.right)

    def difference(self, values: list[Value]) -> Difference:
        return Difference(*values)

    def unit(self, tokens: list[Token]) -> str:
        return _plain(tokens[0].value)

    def word(self, parts: list[Any]) -> Word:
        token, *unit = parts
        bare = token.type in ("NAME", "PARAMETER", "VARIABLE")
        return Word(_term(token), unit[0] if unit else "", bare)

    def comparison(self, parts: list[Any]) -> WrittenComparison:
        signs = parts[1::2]
        ats = tuple(sign.start_pos for sign in signs)
        operators = tuple(SIGNS.get(sign.value, sign.value) for sign in signs)
        return WrittenComparison(tuple(parts[::2]), operators, ats)


_Key = tuple[Word | Value, bool]  # what answers are ordered by, and whether from the largest on


def _variable(token: Token) -> Variable:
    return Variable(token.value[1:])


def _term(token: Token) -> Term:
    return _variable(token) if token.type == "VARIABLE" else Entity(_plain(token.value))


class Parameter(str):
    """The name of a parameter, in place of the label that it stands for."""

    __slots__ = ()


def fill_parameters(
    formula: Formula, keys: Sequence[_Key], values: Mapping[str, str]
) -> tuple[Formula, list[_Key]]:
    """Fills the parameters of a formula and an order with labels.

    Each parameter needs a value, and each value must be used.
    """
    used: set[str] = set()

    def label(name: str) -> str:
        if not isinstance(name, Parameter):
            return name
        if name not in values:
            raise QueryError(
                f"parameter ${name} has no value; give it the label it stands for",
                parameter=str(name),
            )
        if not isinstance(values[name], str):
            raise QueryError(f"parameter '{name}' is {values[name]!r}; it must be a label, as text")
        used.add(str(name))
        return values[name]

    def term(part: Term) -> Term:
        return Entity(label(part.name)) if isinstance(part, Entity) else part

    def value(part: Value) -> Value:
        return replace(part, attribute=label(part.attribute))

    def ordering(part: Word | Value) -> Word | Value:
        part = value(part) if isinstance(part, Value) else part
        return replace(part, term=term(part.term))

    def walk(part: Formula) -> Formula:
        if isinstance(part, Comparison):
            part = replace(part, left=value(part.left))
        if isinstance(part, WrittenComparison):
            part = part.map(lambda side: side if isinstance(side, Word) else value(side))
        if isinstance(part, Atom) and isinstance(part.relation, str):
            part = replace(part, relation=label(part.relation))
        if isinstance(part, Leaf):
            return part.with_terms(list(map(term, part.terms)))
        return map_children(part, walk)

    formula = walk(formula)
    keys = [(ordering(part), descending) for part, descending in keys]
    check_unused(set(values) - used)
    return formula, keys


def check_unused(names: Iterable[str]) -> None:
    """Raises a `QueryError` for values of parameters that a question does not have."""
    for name in sorted(names):
        raise QueryError(
            f"the question has no parameter '{name}'; in the text syntax it would be written "
            f"${name}",
            parameter=name,
        )
