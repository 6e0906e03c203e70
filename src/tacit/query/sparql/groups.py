"""Group patterns as formulas: SPARQL's algebra written out, by cases (`tacit.query.sparql.cases`)."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

from tacit.errors import QueryError
from tacit.query.formula import MAX_ATOMS, Entity, Formula, Variable, atoms
from tacit.query.sparql.cases import NONE, START, Case, Cases, Domain, Truth, both, either, joined, not_, some, united
from tacit.query.sparql.patterns import Terms, TripleBlock
from tacit.query.sparql.source import SparqlText, inner, kind, mentioned

MAX_GROUPS = 1_000  # read in all: a group inside EXISTS is read once for each case around it
MAX_CASES = 300  # of a group: the rows of VALUES beside each other multiply


class Groups:
    """Turns parsed groups into cases.

    Three sets of variables go down with a group: `outer`, those that an EXISTS around it has given values (None outside
    of any); `around`, those that the patterns it is joined with may bind; and `needed`, those that are spoken of
    elsewhere. All others are quantified as soon as a UNION ends.
    """

    def __init__(self, source: SparqlText, terms: Terms) -> None:
        self.source, self.terms = source, terms
        self.groups = 0

    def cases(self, node: Any, outer: Domain | None, around: Domain, needed: Domain) -> Cases:
        """What stands between braces: the parts are joined in order, then the filters apply to the whole."""
        if node.name != "GroupGraphPatternSub":
            raise self.source.refused(node)
        self.groups += 1
        filters = [part for part in node.part or () if part.name == "Filter"]
        parts = [part for part in node.part or () if part.name != "Filter"]
        mentions = Counter(variable for part in (*parts, *filters) for variable in mentioned(part))
        needed = needed.union(variable for variable, times in mentions.items() if times > 1)
        cases, block = START, 0
        for at, part in enumerate(parts):
            match part.name:
                case "TriplesBlock":
                    block = block if at and parts[at - 1].name == "TriplesBlock" else at
                    cases = joined(cases, self._triples(part, outer or NONE, (id(node), block)))
                case "GroupOrUnionGraphPattern":
                    beside = around.union(*(visible(other) for other in parts if other is not part))
                    branches = [self.cases(branch, outer, beside, needed) for branch in part.graph]
                    cases = joined(cases, united(branches, needed))
                case "MinusGraphPattern":
                    cases = self._minus(cases, self.cases(part.graph, outer, NONE, needed), part, outer)
                case "InlineData":
                    cases = joined(cases, self.values(part, outer or NONE))
                case _:
                    raise self.source.refused(part)
            self.check(cases)
        for part in filters:
            scopes = {case: (outer or NONE) | case.domain for case in cases}
            self._check_scope(part, list(scopes.values()), around)
            conditions = {case: self._condition(part.expr, scope, part) for case, scope in scopes.items()}
            cases = {case: both(cases[case], conditions[case]) for case in cases if conditions[case] is not False}
            self.check(cases)
        return cases

    def values(self, node: Any, outer: Domain = NONE) -> Cases:
        """Inline data: a case for each row, which binds what it does not leave UNDEF."""
        variables = [Variable(str(name)) for name in node.var or ()]
        for variable in variables:
            if variable in outer:
                words = f"VALUES inside EXISTS gives {variable} a value, which it has from outside"
                raise self.source.error(f"{words}; put it beside the pattern that binds it", *self.source.written(node))
        rows = [[row] if isinstance(row, str | dict) else list(row) for row in node.value or ()]
        cases: Cases = {}
        for row in rows:
            if len(row) != len(variables):
                words = f"a row of VALUES has {len(row)} values for {len(variables)} variables"
                raise self.source.error(words, *self.source.written(node))
            pairs = [pair for pair in zip(variables, row, strict=True) if type(pair[1]) is not str]  # which UNDEF is
            fixed = frozenset((variable, Entity(self.terms.labels.entity(term))) for variable, term in pairs)
            cases[Case(frozenset(dict(fixed)), fixed)] = True
        return cases

    def check(self, cases: Cases) -> None:
        """Refuse what grew too large: alternatives that bind different variables are written out one by one."""
        if len(cases) > MAX_CASES:
            raise QueryError(f"VALUES and alternatives have more than {MAX_CASES} combinations; ask in parts")
        said = [formula for formula in set(cases.values()) if isinstance(formula, Formula)]
        if self.groups > MAX_GROUPS or sum(1 for formula in said for _ in atoms(formula)) > MAX_ATOMS:
            raise QueryError(f"the query has more than {MAX_ATOMS} triple patterns, written out; ask it in parts")

    def _check_scope(self, node: Any, scopes: list[Domain], around: Domain) -> None:
        """Refuse a filter on what is bound only around its group: by definition it sees none of it, yet engines do."""
        for variable in sorted(around.intersection(mentioned(node)), key=str):
            if any(variable not in scope for scope in scopes):
                words = f"FILTER speaks of {variable}, which its group does not bind in every alternative"
                advice = "move it out of the braces, or rename the variable"
                raise self.source.error(f"{words}; {advice}", *self.source.written(node))

    def _minus(self, cases: Cases, taken: Cases, node: Any, outer: Domain | None) -> Cases:
        """The solutions that agree with none of those taken away, on the variables that the two share."""
        kept = dict(cases)
        for case in kept:
            for other, formula in taken.items():
                shared = case.domain & other.domain
                if not case.agrees(other):
                    continue
                if loose := [v for v, _ in other.fixed - case.fixed if v in shared]:
                    words = f"VALUES inside MINUS names what {loose[0]} is not, and no formula does"
                    raise self.source.error(f"{words}; leave it out", *self.source.written(node))
                if shared:
                    (excluded,) = united([{other: formula}], shared).values()
                    kept[case] = both(kept[case], not_(excluded))
                elif outer is not None:
                    # Whether the values that EXISTS gives count as shared is not agreed upon: engines differ.
                    raise self.source.error(
                        "MINUS inside EXISTS shares no variable of its own with the pattern before it; "
                        "write FILTER NOT EXISTS",
                        *self.source.written(node),
                    )
        return {case: formula for case, formula in kept.items() if formula is not False}

    def _condition(self, expression: Any, outer: Domain, node: Any) -> Truth:
        """What a filter asks of a solution that binds `outer`: EXISTS and NOT EXISTS, joined by `&&`, `||` and `!`."""
        expression = inner(expression)
        name = kind(expression)
        if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
            parts = [self._condition(part, outer, node) for part in (expression.expr, *expression.other)]
            return reduce(both if "And" in name else either, parts)
        if name == "UnaryNot":
            return not_(self._condition(expression.expr, outer, node))
        if name not in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            raise self.source.refused(node)
        held = some(self.cases(expression.graph, outer, NONE, NONE))
        return held if name == "Builtin_EXISTS" else not_(held)

    def _triples(self, node: Any, outer: Domain, block: TripleBlock) -> Cases:
        """Triple patterns, all of which a solution satisfies."""
        said = dict.fromkeys(self.terms.formula(triple, block) for triple in triples(node))  # a set of patterns
        formula = reduce(Formula.__and__, said)
        return {Case(formula.free - outer): formula}


def triples(node: Any) -> list[list[Any]]:
    """The triples of a block."""
    terms = [term for run in node.triples for term in run]
    return [terms[at : at + 3] for at in range(0, len(terms), 3)]


def visible(node: Any) -> Domain:
    """The variables that a solution of a group, or of a part of one, may bind: what MINUS and FILTER hold aside."""
    match node.name:
        case "TriplesBlock":
            return frozenset(mentioned(node))
        case "InlineData":
            return frozenset(mentioned(node.var))
        case "GroupOrUnionGraphPattern":
            return NONE.union(*map(visible, node.graph))
        case "GroupGraphPatternSub":
            return NONE.union(*map(visible, node.part or ()))
    return NONE
