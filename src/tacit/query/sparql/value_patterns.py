"""Values of attributes in patterns: which of them a formula says.

`?c :population ?p . FILTER(?p > 1000)` is a comparison of a formula where all that is said of `?p`
stands in one group: one pattern that binds it, filters that compare it with literals and other such
values, and in the outermost braces SELECT and ORDER BY. Any other value is looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tacit.graph.attributes import Attribute
from tacit.query.formula import Variable
from tacit.query.sparql.conditions import literal_quantity
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import (
    is_literal,
    is_name,
    is_variable,
    kind,
    last_step,
    triples,
    unwrap,
    variables_in,
    walk_tree,
)
from tacit.query.sparql.value_ranges import DENIED, JOINED

_LISTED = 8  # attributes that a message names
_WRITTEN = {
    "number": "1000",
    "date": '"1950-06-01"^^xsd:date or "1950"^^xsd:gYear',
    "duration": '"PT2H"^^xsd:duration',
}


@dataclass(frozen=True)
class _Pattern:
    """A pattern whose object is a value: its subject, its path, the attribute, and its group."""

    subject: Any
    path: Any
    attribute: Attribute
    group: Any


class ValuePatterns:
    """Finds the patterns of a query that bind values, and which of these a formula says.

    `selected` and `ordered` are what stands in SELECT and ORDER BY; `*` selects all variables.
    """

    def __init__(
        self, tree: Any, labels: TermLabels, selected: Sequence[Any] | None, ordered: Sequence[Any]
    ) -> None:
        self.labels = labels
        self.tree = tree
        self.selected = None if selected is None else _names(selected)
        self.outside = Counter(variables_in_order([*(selected or ()), *ordered]))
        self.patterns: dict[Variable, list[_Pattern]] = {}
        self.entities: dict[Variable, str] = {}  # variables for entities, and what says so
        groups = [node for node in walk_tree(tree.where) if kind(node) == "GroupGraphPatternSub"]
        for group in groups:
            for block in group.part or ():
                for triple in triples(block) if kind(block) == "TriplesBlock" else ():
                    self._add(triple, group)
        for group in groups if self.patterns else ():
            self._split_filters(group)
        self.filters = [
            (group, part) for group in groups for part in group.part or () if kind(part) == "Filter"
        ]
        for _, part in self.filters:
            self._check_literals(part)

    def has(self, node: Any) -> bool:
        """Whether a node is a variable of values."""
        return is_variable(node) and Variable(str(node)) in self.patterns

    @property
    def shown(self) -> frozenset[Variable]:
        """The variables of values that are selected, or that order the answers."""
        if self.selected is None:
            return frozenset(self.patterns)
        return frozenset(self.outside).intersection(self.patterns)

    def filters_of(self, values: frozenset[Variable]) -> frozenset[int]:
        """The filters on some values, by their ids: those beside the patterns that bind them."""
        groups = {variable: self.patterns[variable][0].group for variable in values}
        return frozenset(
            id(part)
            for group, part in self.filters
            if any(groups.get(variable) is group for variable in variables_in(part))
        )

    @property
    def filters_of_one(self) -> dict[str, list[Any]]:
        """The conditions on a single value that answers show, by its variable."""
        found: dict[str, list[Any]] = {}
        for _, part in self.filters:
            variables = {*variables_in(part)}
            if len(variables) == 1 and variables <= self.labels.shown_values:
                found.setdefault(variables.pop().name, []).append(part.expr)
        return found

    def of_formulas(self) -> frozenset[Variable]:
        """The variables whose values are compared by formulas."""
        mentions = Counter(variables_in_order(self.tree))
        found = {
            variable
            for variable, patterns in self.patterns.items()
            if len(patterns) == 1 and self._stands_alone(variable, mentions[variable])
        }
        values = Counter(self._value_key(variable) for variable in found)
        found = {variable for variable in found if values[self._value_key(variable)] == 1}
        while True:
            fitting = {variable for variable in found if self._fits(variable, found)}
            if fitting == found:
                return frozenset(found)
            found = fitting

    def _add(self, triple: Sequence[Any], group: Any) -> None:
        subject, path, object_ = triple
        attribute = self.labels.attribute(last_step(path))
        variable = Variable(str(object_)) if is_variable(object_) else None
        if attribute is not None and variable is not None:
            pattern = _Pattern(subject, path, attribute, group)
            self.patterns.setdefault(variable, []).append(pattern)
        elif variable is not None and (relation := self.labels.own_relation(last_step(path))):
            self.entities.setdefault(variable, f"{relation} is a relation")
        inverse = any(kind(node) == "PathEltOrInverse" for node in walk_tree(path))
        if is_variable(subject) and not inverse:
            self.entities[Variable(str(subject))] = "it is the subject of a pattern"

    def _split_filters(self, group: Any) -> None:
        """Makes a filter of each condition where one is about a value."""
        parts = []
        for part in group.part or ():
            split = kind(part) == "Filter" and not self.patterns.keys().isdisjoint(
                variables_in(part)
            )
            parts += self.labels.source.split_filter(part) if split else [part]
        group["part"] = parts

    def _value_key(self, variable: Variable) -> tuple[object, ...]:
        """What two variables for the same value of the same entity share."""
        (pattern,) = self.patterns[variable]
        if kind(unwrap(pattern.path)) == "PathSequence":
            return (variable,)
        return id(pattern.group), str(pattern.subject), pattern.attribute.name

    def _stands_alone(self, variable: Variable, mentions: int) -> bool:
        """Whether one pattern, filters beside it, SELECT and ORDER BY alone speak of a value."""
        (pattern,) = self.patterns[variable]
        beside = [part for group, part in self.filters if group is pattern.group]
        filtered = Counter(chain.from_iterable(map(variables_in_order, beside)))[variable]
        shown = self.outside[variable]
        if 1 + filtered + shown != mentions or not _is_plain(pattern.path, self.labels):
            return False
        if not shown and self.selected is not None:
            return True
        subject = pattern.subject
        whose = self.selected is None or _names([subject]) <= self.selected
        single = kind(unwrap(pattern.path)) != "PathSequence" and type(subject).__name__ != "BNode"
        return pattern.group is self.tree.where and single and whose

    def _fits(self, variable: Variable, found: set[Variable]) -> bool:
        """Whether filters compare a value with literals and other values of formulas alone.

        Where entities have several values, each filter must be about one of them.
        """
        (pattern,) = self.patterns[variable]
        others = found if self.has_one_value(variable) else {variable}
        return all(
            _is_comparison(part.expr, others, self.labels)
            for group, part in self.filters
            if group is pattern.group and variable in variables_in(part)
        )

    def has_one_value(self, variable: Variable) -> bool:
        """Whether no entity has several values of the attribute that a variable is a value of."""
        attributes = self.labels.attributes
        attribute = self.patterns[variable][0].attribute
        entities, _ = attributes.column(attributes.names.id(attribute.name))
        return bool((entities[1:] != entities[:-1]).all())

    def _check_literals(self, node: Any) -> None:
        """Refuses literals that cannot be compared with the values beside them."""
        entities = self.entities.keys() - self.patterns.keys()
        for expression in walk_tree(node.expr):
            if kind(expression) != "RelationalExpression" or not expression.op:
                continue
            several = expression.other if "IN" in expression.op else [expression.other]
            sides = [unwrap(side) for side in (expression.expr, *several)]
            literals = [side for side in sides if is_literal(side) or kind(side) == "UnaryMinus"]
            for side in filter(is_variable, sides):
                variable = Variable(str(side))
                attributes = [each.attribute for each in self.patterns.get(variable, ())]
                for literal in literals if attributes else ():
                    self._check_literal(node, attributes, literal)
                if expression.op[0] in "<>" and literals and variable in entities:
                    names = ", ".join(each.name for each in self.labels.attributes.listed[:_LISTED])
                    listed = f": {names}" if names else ", had the graph attributes"
                    raise self.labels.source.at(
                        node,
                        f"FILTER compares {variable}, which stands for an entity, since "
                        f"{self.entities[variable]}; its values can be compared{listed}",
                    )

    def _check_literal(self, node: Any, attributes: Sequence[Attribute], literal: Any) -> None:
        quantity = literal_quantity(literal, self.labels)
        fitting = [each for each in attributes if quantity and each.kind == quantity.kind]
        attribute = (fitting or attributes)[0]
        written = _WRITTEN[attribute.kind]
        if quantity is None or not fitting:
            what = "another literal" if quantity is None else f"the {quantity.kind} {quantity}"
            raise self.labels.source.at(
                node,
                f"FILTER compares {attribute.name}, a {attribute.kind}, with {what}; write a "
                f"{attribute.kind}, such as {written}",
            )
        if quantity.unit and quantity.unit != attribute.unit:
            unit = f"in {attribute.unit}" if attribute.unit else "without a unit"
            raise self.labels.source.at(
                node,
                f"{attribute.name} is {unit}, and FILTER compares it with {quantity} "
                f"{quantity.unit}; write the number alone, such as {written}",
            )


def _names(nodes: Sequence[Any]) -> set[Variable]:
    return {Variable(str(node)) for node in nodes if is_variable(node)}


def variables_in_order(tree: Any) -> list[Variable]:
    """Every mention of a variable in a tree."""
    return [Variable(str(node)) for node in walk_tree(tree) if is_variable(node)]


def _is_plain(path: Any, labels: TermLabels) -> bool:
    """Whether a path is an attribute, alone or as the last step after relations."""
    path = unwrap(path)
    *steps, last = path.part if kind(path) == "PathSequence" else [path]
    nodes = [node for step in steps for node in walk_tree(step)]
    return is_name(unwrap(last)) and not any(
        is_variable(node)
        or (kind(node) == "PathElt" and node.mod)
        or kind(node) == "PathNegatedPropertySet"
        or (is_name(node) and (labels.is_naming(node) or labels.attribute(node) is not None))
        for node in nodes
    )


def _is_comparison(expression: Any, values: set[Variable], labels: TermLabels) -> bool:
    """Whether a condition compares values with literals or each other, and nothing else."""
    expression = unwrap(expression)
    name = kind(expression)
    if name in JOINED:
        parts = (expression.expr, *expression.other)
        return all(_is_comparison(part, values, labels) for part in parts)
    if name == "UnaryNot":
        return _is_comparison(expression.expr, values, labels)
    if name != "RelationalExpression" or expression.op not in DENIED:
        return False
    several = expression.other if "IN" in expression.op else [expression.other]
    first, *others = (unwrap(side) for side in (expression.expr, *several))
    if "IN" in expression.op and not all(map(is_literal, others)):
        return False
    variables = [Variable(str(side)) for side in (first, *others) if is_variable(side)]
    rest = [side for side in (first, *others) if not is_variable(side)]
    return (
        bool(variables)
        and values.issuperset(variables)
        and (is_variable(first) or "IN" not in expression.op)
        and all(literal_quantity(side, labels) is not None for side in rest)
    )
