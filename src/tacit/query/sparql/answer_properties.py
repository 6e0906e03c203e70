"""What a query says of its answers by `answer:score` and `answer:known`, and filters on that.

`?c answer:score ?score` binds the score of the answer `?c`, `?c answer:known ?known` whether the
known facts imply it. Both belong to a whole solution: their subject is any one of the selected
variables. They stand in the outermost braces, where filters may use them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import QueryError
from tacit.query.formula import Variable
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import (
    conjuncts,
    is_variable,
    kind,
    triples,
    unwrap,
    variables_in,
)

ANSWER = "tacit:answer#"  # the namespace of these properties; an IRI of a label has no # in it
NO_ANSWERS = "the query has no answers whatever the facts"
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
# the lowest `min_score` of a filter, even of one that every answer passes
_LOWEST = math.nextafter(0.0, 1.0)


@dataclass
class AnswerProperties:
    """The variables that hold the score of answers or whether they are known, and filters on them.

    `variables` maps each to `score` or `known`; `subjects` are the variables of answers.
    """

    labels: TermLabels
    variables: dict[Variable, str] = field(default_factory=dict)
    subjects: list[Variable] = field(default_factory=list)
    min_score: float = 0.0
    known: bool | None = None

    def take(self, where: Any, inline: Any) -> None:
        """Moves triples and filters about answers out of the outermost group."""
        parts = []
        for part in where.part or () if where.name == "GroupGraphPatternSub" else ():
            if part.name == "TriplesBlock":
                part["triples"] = [
                    triple for triple in triples(part) if not self._is_answer_triple(triple)
                ]
            if part.name != "TriplesBlock" or part.triples:
                parts.append(part)
        if not self.variables:
            return
        where["part"] = []
        for part in parts:
            if part.name != "Filter" or self.variables.keys().isdisjoint(variables_in(part)):
                where["part"].append(part)
                continue
            for condition in conjuncts(part.expr):
                self._add_filter(condition, part)
        elsewhere = {*variables_in([where, inline]), *self.subjects}
        for variable in filter(elsewhere.__contains__, self.variables):
            raise self.labels.source.of_variable(
                f"{variable} is said of an answer, and can be nothing else", variable
            )

    def of(self, node: Any) -> str:
        """The property of answers that a variable holds, `score` or `known`; or empty."""
        return self.variables.get(Variable(str(node)), "") if is_variable(node) else ""

    def _is_answer_triple(self, triple: list[Any]) -> bool:
        """Whether a triple is about an answer; if so, it is recorded."""
        subject, predicate, object_ = triple
        what = _answer_property(predicate, self.labels)
        if what not in ("score", "known"):
            return False
        source = self.labels.source
        if not is_variable(subject) or not is_variable(object_):
            words = f"answer:{what} is between two variables, as in ?c answer:{what} ?{what}"
            raise source.error(words, rf"[\w-]*:{what}\b")
        variable = Variable(str(object_))
        if any((other == variable) != (shown == what) for other, shown in self.variables.items()):
            raise source.of_variable(
                f"{variable} is not the only variable for what is said of answers", variable
            )
        self.variables[variable] = what
        self.subjects.append(Variable(str(subject)))
        return True

    def _add_filter(self, condition: Any, node: Any) -> None:
        """Records a filter on the score of answers, or on whether they are known."""
        left = condition
        operator = "="
        right = True
        if kind(condition) == "UnaryNot":
            left = unwrap(condition.expr)
            operator = "!="
        elif kind(condition) == "RelationalExpression":
            left = unwrap(condition.expr)
            operator = condition.op
            right = unwrap(condition.other)
            if is_variable(right):
                left, operator, right = right, _MIRRORED.get(operator, operator), left
            right = _value(right)
        match self.of(left), operator, right:
            case "score", ">" | ">=", float():
                least = right if operator == ">=" else math.nextafter(right, math.inf)
                self.min_score = max(self.min_score, least, _LOWEST)
                if least > 1:
                    raise self.labels.source.at(node, f"{NO_ANSWERS}: no score is above 1")
            case "known", "=" | "!=", bool():
                known = right == (operator == "=")
                if self.known not in (None, known):
                    raise QueryError(f"{NO_ANSWERS}: none is both known and predicted")
                self.known = known
            case _:
                raise self.labels.source.at(
                    node,
                    "FILTER on what is said of answers compares a score by > or >= with a number, "
                    "or is ?known or !?known; write each in a FILTER of its own",
                )


def _value(literal: Any) -> Any:
    """The number or truth value of a literal; a number may be negative."""
    if kind(literal) == "UnaryMinus":
        number = _value(literal.expr)
        return -number if isinstance(number, float) else None
    value = None if isinstance(literal, dict) else getattr(literal, "value", None)
    return value if isinstance(value, bool | str | None) else float(value)


def _answer_property(predicate: Any, labels: TermLabels) -> str:
    """What a predicate says of an answer, `score` or `known`; else empty."""
    predicate = unwrap(predicate)
    relation = kind(predicate) in ("", "pname") and not is_variable(predicate)
    iri = labels.iri(predicate) if relation else ""
    return iri.removeprefix(ANSWER) if iri.startswith(ANSWER) else ""


def refuse_answer_property(predicate: Any, labels: TermLabels) -> None:
    """Raises a `QueryError` for a property of answers where it speaks of entities."""
    if column := _answer_property(predicate, labels):
        raise labels.source.error(
            f"answer:{column} says nothing of entities; answer:score and answer:known "
            "speak of answers, in the outermost braces",
            rf"[\w-]*:{re.escape(column)}\b",
        )
