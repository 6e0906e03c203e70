"""Questions as frozen first-order formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Entity:
    """A constant, by its label."""

    name: str

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True)
class Variable:
    """A variable, by its name without the question mark."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


Term = Entity | Variable


class Formula:
    """A formula; `&`, `|` and `~` build larger ones."""

    def __and__(self, other: Formula) -> And:
        return And((*_parts(And, self), *_parts(And, other)))

    def __or__(self, other: Formula) -> Or:
        return Or((*_parts(Or, self), *_parts(Or, other)))

    def __invert__(self) -> Not:
        return Not(self)


@dataclass(frozen=True)
class Atom(Formula):
    """`relation(subject, object)`; an inverse relation is the forward one with its arguments swapped."""

    relation: str
    subject: Term
    object: Term

    def __str__(self) -> str:
        return f"{quoted(self.relation)}({self.subject}, {self.object})"


@dataclass(frozen=True)
class And(Formula):
    """All of the parts hold; there are two or more."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " & ".join(_bracketed(part, And) for part in self.parts)


@dataclass(frozen=True)
class Or(Formula):
    """At least one of the parts holds; there are two or more."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " | ".join(_bracketed(part, Or) for part in self.parts)


@dataclass(frozen=True)
class Not(Formula):
    """The part does not hold."""

    part: Formula

    def __str__(self) -> str:
        return f"!{_bracketed(self.part, Not)}"


@dataclass(frozen=True)
class Exists(Formula):
    """The part holds for some entity in place of the variable."""

    variable: Variable
    part: Formula

    def __str__(self) -> str:
        return f"exists {self.variable} . {self.part}"


@dataclass(frozen=True)
class Query:
    """Which entities, in place of the target variable, make the formula hold?"""

    target: Variable
    formula: Formula

    def __str__(self) -> str:
        return f"{self.target} : {self.formula}"


def _parts(kind: type[And] | type[Or], formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, kind) else (formula,)


def _bracketed(part: Formula, around: type[Formula]) -> str:
    tight = isinstance(part, (Atom, Not)) or (isinstance(part, And) and around is Or)
    return str(part) if tight else f"({part})"


_PLAIN = re.compile(r"[^\W\d]\w*(?:[-.:/]\w+)*")
_WORDS = {"and", "or", "not", "exists"}


def quoted(name: str) -> str:
    """A name as the text syntax reads it back: bare where that is safe, else in double quotes.

    >>> quoted("France"), quoted("New York"), quoted('say "hi"')
    ('France', '"New York"', '"say \\\\"hi\\\\""')
    """
    if _PLAIN.fullmatch(name) and name.lower() not in _WORDS:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def children(formula: Formula) -> tuple[Formula, ...]:
    """The formulas directly inside a formula."""
    if isinstance(formula, And | Or):
        return formula.parts
    if isinstance(formula, Not | Exists):
        return (formula.part,)
    return ()


def atoms(formula: Formula) -> Iterator[Atom]:
    """The atoms of a formula, from left to right."""
    if isinstance(formula, Atom):
        yield formula
    for part in children(formula):
        yield from atoms(part)


def free_variables(formula: Formula) -> frozenset[Variable]:
    """The variables a formula speaks of without binding them."""
    if isinstance(formula, Atom):
        return frozenset(t for t in (formula.subject, formula.object) if isinstance(t, Variable))
    inside = frozenset[Variable]().union(*map(free_variables, children(formula)))
    return inside - {formula.variable} if isinstance(formula, Exists) else inside
