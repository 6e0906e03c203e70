"""Separates a query into what a formula says, which is predicted, and what known facts add.

A part of the outermost braces with nothing but what a formula says belongs to the question, any
other part is looked up in the known facts. Joins may be taken in any order, but for OPTIONAL and
MINUS, which see what stands before them alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count, pairwise
from typing import Any

from tacit.query.formula import Variable
from tacit.query.sparql.cases import bound_variables, visible_variables
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.lookups import check, groups_in
from tacit.query.sparql.source import (
    is_literal,
    is_name,
    is_variable,
    kind,
    triples,
    unwrap,
    variables_in,
    walk_tree,
)

_Variables = set[Variable]


def is_formula(part: Any, labels: TermLabels) -> bool:
    """Whether a part of a query says nothing but what a formula says, or is refused as such."""
    match kind(part):
        case "TriplesBlock":
            return all(is_formula_triple(triple, labels) for triple in triples(part))
        case "GroupGraphPatternSub":
            return all(is_formula(each, labels) for each in part.part or ())
        case "GroupOrUnionGraphPattern":
            return all(is_formula(branch, labels) for branch in part.graph)
        case "MinusGraphPattern":
            return is_formula(part.graph, labels)
        case "OptionalGraphPattern":
            return False
        case "Filter" if id(part) in labels.value_filters:
            return True
        case "Filter":
            groups = groups_in(part.expr)
            return _is_formula_condition(part.expr) and all(is_formula(g, labels) for g in groups)
    return True


def is_formula_triple(triple: list[Any], labels: TermLabels) -> bool:
    """Whether a triple pattern is a formula: known relations, and names in literals."""
    _, path, object_ = triple
    if labels.is_naming(path):
        return is_literal(object_)
    if is_variable(object_) and Variable(str(object_)) in labels.value_variables:
        return True
    return not any(
        is_variable(node)
        or (kind(node) == "PathElt" and node.mod in ("?", "*", "+"))
        or (is_name(node) and (labels.is_naming(node) or labels.attribute(node) is not None))
        for node in walk_tree(path)
    )


def _is_formula_condition(expression: Any) -> bool:
    expression = unwrap(expression)
    name = kind(expression)
    if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
        return all(map(_is_formula_condition, (expression.expr, *expression.other)))
    if name == "UnaryNot":
        return _is_formula_condition(expression.expr)
    if name == "RelationalExpression" and expression.op in ("=", "!=", "IN", "NOT IN"):
        several = expression.other if "IN" in expression.op else [expression.other]
        sides = map(unwrap, (expression.expr, *several))
        return all(kind(side) in ("", "pname", "literal") for side in sides)
    return name in ("Builtin_EXISTS", "Builtin_NOTEXISTS", "Builtin_sameTerm")


@dataclass
class Separation:
    """The parts of the outermost braces: those of the question, and those that are looked up."""

    labels: TermLabels
    question: list[Any] = field(default_factory=list)
    lookups: list[Any] = field(default_factory=list)
    question_variables: _Variables = field(default_factory=set)
    lookup_variables: _Variables = field(default_factory=set)
    # which every solution binds, and which an OPTIONAL or MINUS has seen without a value
    certain: _Variables = field(default_factory=set)
    open: _Variables = field(default_factory=set)

    @classmethod
    def of(cls, parts: Iterable[Any], labels: TermLabels, values: Any = None) -> Separation:
        """The separation of the parts of a group, and VALUES after the query."""
        parts = list(parts)
        separation = cls(labels)
        if all(is_formula(part, labels) for part in parts):
            separation.question = parts
            return separation
        filters = [part for part in parts if kind(part) == "Filter"]
        for part in _split_paths(parts, labels):
            if kind(part) != "Filter":
                separation._add(part)
        for part in filters:
            separation._add_filter(part)
        separation._take_relation(set(variables_in(values)))
        seen = [set(visible_variables(part)) for part in parts]
        for part in separation.lookups:
            others = (names for each, names in zip(parts, seen, strict=True) if each is not part)
            check(part, labels, frozenset[Variable]().union(*others))
        return separation

    def must_follow(self, values: Any) -> bool:
        """Whether VALUES after the query must be joined after what is looked up."""
        variables = set(variables_in(values.var))
        return not variables.isdisjoint(self.open)

    def _add(self, part: Any) -> None:
        variables = set(visible_variables(part))
        formula = is_formula(part, self.labels)
        match kind(part):
            case "OptionalGraphPattern":
                self._look_up(part, variables, opens=True)
            case "MinusGraphPattern":
                variables = set(variables_in(part))
                if formula and not variables & (self.lookup_variables - self.question_variables):
                    self.question.append(part)
                else:
                    self._look_up(part, set(), opens=False)
                    self.open |= variables - self.certain
            case name if formula and not variables & self.open:
                self.question.append(part)
                self.question_variables |= variables
            case name if formula and name != "InlineData":
                variable = min(variables & self.open, key=str)
                raise self.labels.source.of_variable(
                    f"{variable} stands in OPTIONAL or MINUS before a pattern that must match "
                    "binds it; write that pattern first",
                    variable,
                )
            case _:
                self._look_up(part, variables, opens=False)
        self.certain |= bound_variables(part)

    def _look_up(self, part: Any, variables: _Variables, opens: bool) -> None:
        if self.lookups and kind(part) == kind(self.lookups[-1]) == "TriplesBlock":
            part["triples"] = [*self.lookups.pop().triples, *part.triples]  # in any order
        self.lookups.append(part)
        self.lookup_variables |= variables
        if opens:
            self.open |= variables - self.certain

    def _add_filter(self, part: Any) -> None:
        variables = set(variables_in(part))
        beside = variables & (self.lookup_variables - self.question_variables)
        joins = variables & self.question_variables or not (variables or self.question_variables)
        if is_formula(part, self.labels) and not beside and joins:
            self.question.append(part)
        else:
            self.lookups.append(part)

    def _take_relation(self, inline: _Variables) -> None:
        """Asks for the relations between two entities, in a query of nothing else."""
        blocks = [part for part in self.lookups if kind(part) == "TriplesBlock"]
        if self.question or len(blocks) != 1 or len(triples(blocks[0])) != 1:
            return
        ((subject, path, object_),) = triples(blocks[0])
        known = inline | self.open
        is_open = any(is_variable(e) or type(e).__name__ == "BNode" for e in (subject, object_))
        if is_variable(unwrap(path)) and not is_open and known.isdisjoint(variables_in(path)):
            self.lookups.remove(blocks[0])
            self.question.append(blocks[0])
            self.question_variables |= set(variables_in(path))


def _split_paths(parts: list[Any], labels: TermLabels) -> list[Any]:
    """The parts with each block of triples split into formulas and others.

    The steps of a sequence become triples of their own, and a blank node of the block a variable,
    so that a step may be predicted where another is looked up.
    """
    names = {variable.name for variable in labels.source.variables}
    fresh = (name for number in count(1) if (name := f"_b{number}") not in names)
    blanks: dict[str, Any] = {}

    def term(node: Any) -> Any:
        if type(node).__name__ != "BNode":
            return node
        return blanks.setdefault(str(node), _variable(next(fresh)))

    split: list[Any] = []
    for part in parts:
        if kind(part) != "TriplesBlock":
            split.append(part)
            continue
        for s, path, o in triples(part):
            steps = unwrap(path)
            whole = is_formula_triple([s, path, o], labels)
            paths = [path] if whole or kind(steps) != "PathSequence" else list(steps.part)
            ends = [term(s), *(_variable(next(fresh)) for _ in paths[1:]), term(o)]
            for each, (start, end) in zip(paths, pairwise(ends), strict=True):
                split.append(type(part)("TriplesBlock", triples=[[start, each, end]]))
    return split


def _variable(name: str) -> Any:
    return import_module("rdflib.term").Variable(name)
