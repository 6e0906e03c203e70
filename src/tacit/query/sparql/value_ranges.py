"""The formula of values: what the filters of a group leave of each, as ranges.

A filter on one value leaves ranges of it; `!=` is less or greater, so that an entity with several
values needs one that differs. Filters that hold together are of the same value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, product
from typing import Any

from tacit.errors import QueryError
from tacit.graph.quantities import Quantity
from tacit.query.comparison import Comparison, Value, compared
from tacit.query.formula import Variable
from tacit.query.sparql.cases import Truth, and_, or_
from tacit.query.sparql.conditions import literal_quantity
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import is_variable, kind, unwrap

MAX_ALTERNATIVES = 64  # of the filters of a group, written out
JOINED = ("ConditionalAndExpression", "ConditionalOrExpression")
DENIED = {  # the negation of each operator
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "=", "IN": "NOT IN", "NOT IN": "IN"
}  # fmt: skip
Ranges = tuple[Comparison, ...]  # of one value, apart and in order


def value_formula(
    values: Mapping[Variable, Value],
    filters: Sequence[Any],
    labels: TermLabels,
) -> Truth:
    """The formula that values exist and pass all filters; names those that answers show."""
    whole = _together([_alternatives(each, False, values, labels) for each in filters])
    formula: Truth = False
    for alternative in whole:
        formula = or_(formula, alternative.formula(values, labels.shown_values))
    for variable in sorted(labels.shown_values & values.keys(), key=str):
        formula = and_(values[variable].named(variable.name), formula)
    return formula


@dataclass(frozen=True)
class _Alternative:
    """Ranges of values, and comparisons of two values, that hold together."""

    ranges: Mapping[Variable, Ranges]
    pairs: tuple[Comparison, ...]

    def with_(self, other: _Alternative) -> _Alternative:
        """Both alternatives together."""
        ranges = dict(self.ranges)
        for variable, theirs in other.ranges.items():
            ours = ranges.get(variable)
            ranges[variable] = theirs if ours is None else _common(ours, theirs)
        return _Alternative(ranges, (*self.pairs, *other.pairs))

    def formula(self, values: Mapping[Variable, Value], named: frozenset[Variable]) -> Truth:
        paired = {value for pair in self.pairs for value in pair.values}
        formula: Truth = True
        for variable, value in values.items():
            ranges = self.ranges.get(variable)
            if ranges is not None:
                within: Truth = False
                for part in ranges:
                    within = or_(within, part)
                formula = and_(formula, within)
            elif value not in paired and variable not in named:
                formula = and_(formula, value.exists())
        return reduce(and_, self.pairs, formula)


def _alternatives(
    expression: Any, denied: bool, values: Mapping[Variable, Value], labels: TermLabels
) -> list[_Alternative]:
    """The alternatives of a condition, or of its negation."""
    expression = unwrap(expression)
    name = kind(expression)
    if name == "UnaryNot":
        return _alternatives(expression.expr, not denied, values, labels)
    if name in JOINED:
        parts = [
            _alternatives(part, denied, values, labels)
            for part in (expression.expr, *expression.other)
        ]
        if ("And" in name) != denied:
            return _together(parts)
        return _merged(list(chain.from_iterable(parts)))
    operator = DENIED[expression.op] if denied else expression.op
    left = unwrap(expression.expr)
    if "IN" not in operator:
        return _related(left, operator, unwrap(expression.other), values, labels)
    sign = "=" if operator == "IN" else "!="
    each = [_related(left, sign, unwrap(other), values, labels) for other in expression.other]
    if operator == "IN":
        return _merged(list(chain.from_iterable(each)))
    return _together(each)


def _together(parts: Sequence[list[_Alternative]]) -> list[_Alternative]:
    """The alternatives of conditions that hold together."""
    if math.prod(map(len, parts)) > MAX_ALTERNATIVES:
        raise QueryError(
            f"the filters on values have more than {MAX_ALTERNATIVES} alternatives; ask in parts"
        )
    return [reduce(_Alternative.with_, each, _Alternative({}, ())) for each in product(*parts)]


def _related(
    left: Any, operator: str, right: Any, values: Mapping[Variable, Value], labels: TermLabels
) -> list[_Alternative]:
    """The alternatives of one comparison; `!=` is less or greater."""
    if operator == "!=":
        both = (_related(left, sign, right, values, labels) for sign in "<>")
        return _merged(list(chain.from_iterable(both)))
    if is_variable(left) and left == right:
        return [_Alternative({}, ())] if "=" in operator else []
    sides = [_operand(side, values, labels) for side in (left, right)]
    comparison = compared(sides[0], operator, sides[1])
    assert isinstance(comparison, Comparison)
    if comparison.right is not None:
        return [_Alternative({}, (comparison,))]
    variable = Variable(str(left if is_variable(left) else right))
    return [_Alternative({variable: (comparison,)}, ())]


def _operand(side: Any, values: Mapping[Variable, Value], labels: TermLabels) -> Value | Quantity:
    if is_variable(side):
        return values[Variable(str(side))]
    quantity = literal_quantity(side, labels)
    assert quantity is not None  # `_is_comparison` has seen to it
    return quantity


def _merged(alternatives: list[_Alternative]) -> list[_Alternative]:
    """Alternatives with the ranges of one value alone become one."""
    variables = {variable for each in alternatives for variable in each.ranges}
    if len(variables) != 1 or any(each.pairs or not each.ranges for each in alternatives):
        return alternatives
    (variable,) = variables
    ranges = sorted(
        (part for each in alternatives for part in each.ranges[variable]),
        key=lambda part: part.interval,
    )
    apart: list[Comparison] = []
    for part in ranges:
        if apart and part.interval[0] <= apart[-1].interval[1]:
            longer = part if part.interval[1] > apart[-1].interval[1] else apart[-1]
            apart[-1] = replace(apart[-1], high=longer.high)
        else:
            apart.append(part)
    return [_Alternative({variable: tuple(apart)}, ())]


def _common(ours: Ranges, theirs: Ranges) -> Ranges:
    """What two lists of ranges share."""
    joined = (one.joined(other) for one, other in product(ours, theirs))
    return tuple(part for part in joined if part.interval[0] <= part.interval[1])
