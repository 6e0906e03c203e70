"""Translates SPARQL group patterns to formulas, by cases (`tacit.query.sparql.cases`).

Of paths, `^p` is `p` backwards, `p/q` is `p` to some entity and `q` from there, `p|q` is either;
they nest as they like. No formula says how often `*` and `+` follow a relation: `lookups.py` does.
`!` is refused, since a question names relations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import count, pairwise
from typing import Any

from tacit.errors import QueryError
from tacit.query.comparison import Value
from tacit.query.formula import (
    MAX_ATOMS,
    Atom,
    Entity,
    Formula,
    Inequality,
    Term,
    Variable,
    exists,
    leaves,
)
from tacit.query.sparql.answer_properties import refuse_answer_property
from tacit.query.sparql.cases import (
    NONE,
    START,
    Case,
    Cases,
    Domain,
    Truth,
    and_,
    any_solution,
    join,
    not_,
    or_,
    union,
    visible_variables,
)
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import (
    SparqlText,
    is_literal,
    is_variable,
    kind,
    triples,
    unwrap,
    variables_in,
)
from tacit.query.sparql.value_ranges import value_formula

MAX_GROUPS = 1_000  # read in all: a group inside EXISTS is read once for each case around it
MAX_CASES = 300  # of a group: the rows of VALUES beside each other multiply


class Groups:
    """Translates parsed groups to cases, with fresh variables for blank nodes and paths.

    Three sets of variables belong to a group: `outer`, to which an EXISTS around it gives values
    (None outside of any); `around`, which the patterns it is joined with may bind; and `needed`,
    which occur elsewhere. All others are quantified as soon as a UNION ends.
    """

    def __init__(self, source: SparqlText, labels: TermLabels) -> None:
        self.source = source
        self.labels = labels
        self.groups = 0
        self.names = {variable.name for variable in source.variables}
        # the values that variables stand for, where a formula compares them
        self.values_of: dict[Variable, Value] = {}
        # blank node -> its variable, and the block of triples that it belongs to
        self.blanks: dict[str, tuple[Variable, int]] = {}

    def cases(self, node: Any, outer: Domain | None, around: Domain, needed: Domain) -> Cases:
        """The cases of a group: its parts joined in order, then filtered as a whole."""
        if node.name != "GroupGraphPatternSub":
            raise self.source.unsupported(node)
        self.groups += 1
        filters = [
            part
            for part in node.part or ()
            if part.name == "Filter" and id(part) not in self.labels.value_filters
        ]
        parts = [part for part in node.part or () if part.name != "Filter"]
        mentions = Counter(
            variable for part in (*parts, *filters) for variable in variables_in(part)
        )
        needed = needed.union(variable for variable, times in mentions.items() if times > 1)
        cases = START
        block = 0
        for before, part in pairwise([None, *parts]):
            match part.name:
                case "TriplesBlock":
                    # a filter between triples ends no block
                    block = block if before and before.name == part.name else id(part)
                    cases = join(cases, self._triples(part, outer or NONE, block))
                case "GroupOrUnionGraphPattern":
                    joined_with = around.union(
                        *(visible_variables(other) for other in parts if other is not part)
                    )
                    branches = [
                        self.cases(branch, outer, joined_with, needed) for branch in part.graph
                    ]
                    cases = join(cases, union(branches, needed))
                case "MinusGraphPattern":
                    cases = self._minus(
                        cases, self.cases(part.graph, outer, NONE, needed), part, outer
                    )
                case "InlineData":
                    cases = join(cases, self.values(part, outer or NONE))
                case _:
                    raise self.source.unsupported(part)
            self.check(cases)
        for part in filters:
            cases = self._filter(cases, part, outer or NONE, around)
            self.check(cases)
        return self._with_values(cases, node, parts)

    def _with_values(self, cases: Cases, node: Any, parts: Sequence[Any]) -> Cases:
        """The solutions whose values pass the filters on them."""
        blocks = [part for part in parts if part.name == "TriplesBlock"]
        values = {
            variable: self.values_of[variable]
            for variable in variables_in(blocks)
            if variable in self.labels.value_variables
        }
        if not values:
            return cases
        filters = [
            part.expr
            for part in node.part
            if id(part) in self.labels.value_filters
            and not values.keys().isdisjoint(variables_in(part))
        ]
        formula = value_formula(values, filters, self.labels)
        passed = {case: and_(other, formula) for case, other in cases.items()}
        self.check(passed)
        return {case: formula for case, formula in passed.items() if formula is not False}

    def values(self, node: Any, outer: Domain = NONE) -> Cases:
        """The cases of inline data, one per row, binding what is not UNDEF."""
        variables = [Variable(str(name)) for name in node.var or ()]
        for variable in (variable for variable in variables if variable in outer):
            raise self.source.at(
                node,
                f"VALUES inside EXISTS gives {variable} a value, which it has from outside; put it "
                "beside the pattern that binds it",
            )
        cases: Cases = {}
        for row in node.value or ():
            terms = [row] if isinstance(row, str | dict) else list(row)
            if len(terms) != len(variables):
                raise self.source.at(
                    node, f"a row of VALUES has {len(terms)} values for {len(variables)} variables"
                )
            fixed = frozenset(
                (variable, Entity(self.labels.value(variable.name, term)))
                for variable, term in zip(variables, terms, strict=True)
                if type(term) is not str  # as UNDEF is
            )
            cases[Case(frozenset(dict(fixed)), fixed)] = True
        return cases

    def check(self, cases: Cases) -> None:
        """Raises a `QueryError` for patterns with too many alternatives."""
        if len(cases) > MAX_CASES:
            raise QueryError(
                f"VALUES and alternatives have more than {MAX_CASES} combinations; ask in parts"
            )
        formulas = [formula for formula in set(cases.values()) if isinstance(formula, Formula)]
        num_atoms = sum(1 for formula in formulas for _ in leaves(formula))
        if self.groups > MAX_GROUPS or num_atoms > MAX_ATOMS:
            raise QueryError(
                f"the query has more than {MAX_ATOMS} triple patterns, written out; ask it in parts"
            )

    def _filter(self, cases: Cases, node: Any, outer: Domain, around: Domain) -> Cases:
        """The solutions that pass a filter.

        A filter on a variable that is bound only outside its group is refused: by the standard it
        does not see the value, and yet engines differ.
        """
        for variable in sorted(around.intersection(variables_in(node)), key=str):
            if any(variable not in outer | case.domain for case in cases):
                raise self.source.at(
                    node,
                    f"FILTER speaks of {variable}, which its group does not bind in every "
                    "alternative; move it out of the braces, or rename the variable",
                )
        if given := self._given_values(node.expr):
            variable, entities = given
            if all(variable in case.domain for case in cases):
                return join(cases, _fixed(variable, entities))
        passed = {
            case: and_(formula, self._condition(node.expr, outer | case.domain, node))
            for case, formula in cases.items()
        }
        return {case: formula for case, formula in passed.items() if formula is not False}

    def _given_values(self, expression: Any) -> tuple[Variable, list[Entity]] | None:
        """The variable and values of a condition that one is among the others."""
        expression = unwrap(expression)
        if kind(expression) == "Builtin_sameTerm":
            sides = [unwrap(expression.arg1), unwrap(expression.arg2)]
        elif kind(expression) == "RelationalExpression" and expression.op in ("=", "IN"):
            others = expression.other if expression.op == "IN" else [expression.other]
            sides = [unwrap(expression.expr), *map(unwrap, others)]
            if any(map(is_literal, sides)):
                return None
        else:
            return None
        if expression.op != "IN" and len(sides) == 2 and is_variable(sides[1]):
            sides.reverse()
        first, *rest = sides
        if not is_variable(first) or not all(kind(e) in ("", "pname", "literal") for e in rest):
            return None
        if any(map(is_variable, rest)):
            return None
        return Variable(str(first)), [Entity(self.labels.entity(each)) for each in rest]

    def _minus(self, cases: Cases, subtracted: Cases, node: Any, outer: Domain | None) -> Cases:
        """The solutions that agree with no subtracted one on their shared variables."""
        remaining = dict(cases)
        for case in remaining:
            for other, formula in subtracted.items():
                shared = case.domain & other.domain
                if not case.agrees(other):
                    continue
                if shared:
                    loose = {(v, e) for v, e in other.fixed - case.fixed if v in shared}
                    for variable, value in sorted(loose, key=str):
                        formula = and_(formula, _one_of(variable, [value]))
                    fixed = Case(other.domain, other.fixed - loose)
                    (excluded,) = union([{fixed: formula}], shared).values()
                    remaining[case] = and_(remaining[case], not_(excluded))
                elif outer is not None:
                    # engines differ in whether variables bound outside EXISTS count as shared
                    raise self.source.at(
                        node,
                        "MINUS inside EXISTS shares no variable of its own with the pattern "
                        "before it; write FILTER NOT EXISTS",
                    )
        return {case: formula for case, formula in remaining.items() if formula is not False}

    def _condition(self, expression: Any, outer: Domain, node: Any) -> Truth:
        """The formula of a filter on solutions that bind `outer`.

        It may have `EXISTS`, `NOT EXISTS`, `!=` and `sameTerm`, joined by `&&`, `||` and `!`.
        """
        expression = unwrap(expression)
        name = kind(expression)
        if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
            parts = [
                self._condition(part, outer, node) for part in (expression.expr, *expression.other)
            ]
            return reduce(and_ if "And" in name else or_, parts)
        if name == "UnaryNot":
            denied = unwrap(expression.expr)
            if kind(denied) == "Builtin_sameTerm":
                return self._unequal((denied.arg1, denied.arg2), outer, node)
            return not_(self._condition(denied, outer, node))
        if name == "Builtin_sameTerm":
            return not_(self._unequal((expression.arg1, expression.arg2), outer, node))
        if name == "RelationalExpression" and expression.op in ("=", "!=", "IN", "NOT IN"):
            several = expression.other if "IN" in expression.op else [expression.other]
            left = unwrap(expression.expr)
            denied = "!" * (expression.op in ("!=", "NOT IN"))
            if any(map(is_literal, map(unwrap, (left, *several)))):
                raise self.source.at(
                    node,
                    f"FILTER compares the value of a literal by {expression.op}, and entities are "
                    f"compared as terms; write {denied}sameTerm(…, …)",
                )
            differs = [self._unequal((left, unwrap(each)), outer, node) for each in several]
            all_differ = reduce(and_, differs)
            return all_differ if denied else not_(all_differ)
        if name not in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            raise self.source.unsupported(node)
        solution = any_solution(self.cases(expression.graph, outer, NONE, NONE))
        return solution if name == "Builtin_EXISTS" else not_(solution)

    def _unequal(self, sides: tuple[Any, Any], outer: Domain, node: Any) -> Truth:
        """The inequality of two terms, whose variables must be bound."""
        terms = list[Term]()
        for side in map(unwrap, sides):
            if isinstance(side, dict) and kind(side) not in ("pname", "literal"):
                raise self.source.unsupported(node)
            term = Variable(str(side)) if is_variable(side) else Entity(self.labels.entity(side))
            if isinstance(term, Variable) and term not in outer:
                raise self.source.at(
                    node,
                    f"FILTER compares {term}, which its group does not bind in every alternative; "
                    "bind it by a pattern beside the filter",
                )
            terms.append(term)
        left, right = terms
        if left == right or (isinstance(left, Entity) and isinstance(right, Entity)):
            return left != right
        return Inequality(left, right)

    def _triples(self, node: Any, outer: Domain, block: int) -> Cases:
        """The conjunction of triple patterns; a readable name gives its subject values."""
        formula: Truth = True
        cases = START
        values: Domain = NONE
        for s, path, o in triples(node):
            subject = self._term(s, block)
            if is_variable(o) and (variable := Variable(str(o))) in self.labels.value_variables:
                *steps, last = path.part if kind(path := unwrap(path)) == "PathSequence" else [path]
                values |= {variable, *(term for term in [subject] if isinstance(term, Variable))}
                if steps:
                    end = self._fresh_variable()
                    formula = and_(formula, self._steps(steps, subject, end))
                    subject = end
                attribute = self.labels.attribute(last)
                assert attribute is not None  # `ValuePatterns` has seen to it
                self.values_of[variable] = Value(attribute.name, subject)
                continue
            if not (self.labels.is_naming(path) and is_literal(o)):
                formula = and_(formula, self._path(path, subject, self._term(o, block)))
                continue
            entities = [Entity(label) for label in self.labels.find_named(o)]
            if isinstance(subject, Entity):
                formula = and_(formula, subject in entities)
            elif subject in outer:
                formula = and_(formula, _one_of(subject, entities))
            else:
                cases = join(cases, _fixed(subject, entities))
        free = NONE if isinstance(formula, bool) else formula.free
        return join(cases, {Case((free | values) - outer): formula})

    def _path(self, path: Any, subject: Term, object_: Term) -> Formula:
        """The formula of a relation or path between two terms."""
        path = unwrap(path)
        if is_variable(path):
            return Atom(Variable(str(path)), subject, object_)
        refuse_answer_property(path, self.labels)
        match kind(path):
            case "PathEltOrInverse":
                return self._path(path.part, object_, subject)
            case "PathAlternative":
                return reduce(
                    Formula.__or__,
                    dict.fromkeys(self._path(part, subject, object_) for part in path.part),
                )
            case "PathSequence":
                return self._steps(path.part, subject, object_)
            case "" | "pname":
                return Atom(self.labels.relation(path), subject, object_)
        raise self.source.unsupported_path(path)

    def _steps(self, steps: Sequence[Any], subject: Term, object_: Term) -> Formula:
        """The formula of paths one after the other."""
        between = [self._fresh_variable() for _ in steps[1:]]
        ends = pairwise([subject, *between, object_])
        hops = [self._path(step, *pair) for step, pair in zip(steps, ends, strict=True)]
        return exists(between, reduce(Formula.__and__, hops))

    def _term(self, term: Any, block: int) -> Term:
        """A variable or entity; a blank node is a variable within its block of triples."""
        if is_variable(term):
            return Variable(str(term))
        if type(term).__name__ != "BNode":
            return Entity(self.labels.entity(term))
        if str(term) not in self.blanks:
            self.blanks[str(term)] = self._fresh_variable(), block
        variable, home = self.blanks[str(term)]
        if home != block:
            raise self.source.error(
                f"_:{term} stands in two groups; write a variable such as ?{term}",
                rf"_:{re.escape(term)}",
            )
        return variable

    def _fresh_variable(self) -> Variable:
        """A variable that the query does not have."""
        name = next(f"_{number}" for number in count(1) if f"_{number}" not in self.names)
        self.names.add(name)
        return Variable(name)


def _fixed(variable: Variable, values: Sequence[Entity]) -> Cases:
    """The cases of a variable that has one of some values."""
    return {Case(frozenset([variable]), frozenset([(variable, value)])): True for value in values}


def _one_of(variable: Variable, values: Sequence[Entity]) -> Truth:
    """The formula that a variable has one of some values."""
    differs: list[Truth] = [True, *(Inequality(variable, value) for value in values)]
    return not_(reduce(and_, differs))
