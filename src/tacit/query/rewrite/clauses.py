"""Alternatives moved outwards."""

from __future__ import annotations

from itertools import product
from math import prod

from tacit.errors import LimitError
from tacit.query.formula import And, Exists, Formula, Not, Or
from tacit.query.rewrite.negation import negation_normal_form

MAX_CLAUSES = 64

_Clause = tuple[Formula, ...]


def disjunctive_normal_form(formula: Formula, max_clauses: int = MAX_CLAUSES) -> Formula:
    """The formula as alternatives without `|` inside; what stands under `not exists` is a formula of its own.

    The number of clauses is a product over the conjunctions, and checked before any is written.
    """
    return _alternatives(negation_normal_form(formula), max_clauses)


def _alternatives(formula: Formula, limit: int) -> Formula:
    count = _count(formula)
    if count > limit:
        raise LimitError(f"as alternatives the formula has {count:,} clauses; at most {limit:,} are written out")
    clauses = [_conjunction(clause) for clause in _clauses(formula, limit)]
    return Or(tuple(clauses)) if len(clauses) > 1 else clauses[0]


def _count(formula: Formula) -> int:
    match formula:
        case Or(parts):
            return sum(map(_count, parts))
        case And(parts):
            return prod(map(_count, parts))
        case Exists(_, part):
            return _count(part)
    return 1


def _clauses(formula: Formula, limit: int) -> list[_Clause]:
    match formula:
        case Or(parts):
            return [clause for part in parts for clause in _clauses(part, limit)]
        case And(parts):
            chosen = product(*(_clauses(part, limit) for part in parts))
            return [tuple(f for clause in choice for f in clause) for choice in chosen]
        case Exists(variable, part):
            return [(Exists(variable, _conjunction(clause)),) for clause in _clauses(part, limit)]
        case Not(Exists(variable, part)):
            return [(Not(Exists(variable, _alternatives(part, limit))),)]
    return [(formula,)]


def _conjunction(clause: _Clause) -> Formula:
    return clause[0] if len(clause) == 1 else And(clause)
