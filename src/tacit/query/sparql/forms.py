"""What a SPARQL query asks: its form, what it selects, and which of the answers it wants.

What SPARQL has no words for is said by two predicates of the namespace `tacit:answer#`. `?c answer:score ?score` binds
the score of the answer `?c`, `?c answer:known ?known` whether the known facts imply it. Both are of a whole solution:
of several selected variables any one will do as the subject. They stand in the outermost braces, where filters may
speak of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tacit.errors import QueryError
from tacit.query.formula import Formula, Query, Variable, atoms
from tacit.query.plans.elimination import substitute
from tacit.query.reading import Column, Reading
from tacit.query.sparql.cases import Cases, Truth, joined, united
from tacit.query.sparql.groups import Groups, triples, visible
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import SUPPORTED, SparqlText, inner, is_variable, keyword, kind, mentioned

_COUNTS = ("count", "expected")  # what a column shows of all answers together
_AGGREGATE = r"COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT"
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_LOWEST = math.nextafter(0.0, 1.0)  # what no answer is below: a filter that leaves none out has been given, too
_NO_ANSWERS = "the query has no answers whatever the facts"
# A formula, the targets that have one value, and the values that a single target may have.
_Chosen = tuple[Truth, dict[str, str], tuple[str, ...] | None]


class Form:
    """A parsed query as a whole."""

    def __init__(self, source: SparqlText, tree: Any, labels: TermLabels) -> None:
        self.source, self.tree, self.labels = source, tree, labels
        self.told: dict[Variable, str] = {}  # the variable that takes what is said of answers -> `score` or `known`
        self.subjects: list[Variable] = []
        self.min_score = 0.0
        self.known: bool | None = None

    def reading(self) -> Reading:
        """The query, and which of its answers are wanted."""
        tree = self.tree
        if tree.name not in ("SelectQuery", "AskQuery"):
            raise self.source.refused(tree)
        for clause in filter(None, (*(tree.datasetClause or ()), tree.groupby, tree.having)):
            raise self.source.refused(clause)
        self._take_told()
        columns = self._columns()
        targets = self._targets(columns)
        by_score = self._by_score()
        counting = any(column.shows in _COUNTS for column in columns)
        limit, offset = self._page(single=counting or not targets)
        formula, row, among = self._chosen(self._cases(targets), targets)
        if isinstance(formula, bool):
            raise QueryError("the query holds whatever the facts: there is nothing to score")
        if (row or among) and counting:
            raise self._several(targets[:1], "is counted")
        columns = tuple(column._replace(label=row.get(column.name, column.label)) for column in columns)
        query = self._query([target for target in targets if target.name not in row], formula, counting)
        if among and query.kind == "relations":
            raise self._several(targets, "stands for a relation")
        return Reading(query, limit, offset, self.min_score, self.known, among, columns, by_score)

    def _query(self, targets: list[Variable], formula: Formula, counting: bool) -> Query:
        try:
            return Query(targets, formula, counting)
        except QueryError as error:
            for atom in atoms(formula):
                if isinstance(atom.relation, Variable):
                    raise self.source.of_variable(str(error), atom.relation) from None
            raise self.source.error(str(error), keyword("SELECT")) from None

    def _columns(self) -> tuple[Column, ...]:
        """What is selected; `*` selects what a solution may bind."""
        if self.tree.name == "AskQuery":
            return ()
        seen = visible(self.tree.where).union(mentioned(self.tree.valuesClause), self.told)
        selected = self.tree.projection or [variable for variable in self.source.variables if variable in seen]
        columns = []
        for column in selected:
            if not isinstance(column, Variable) and column.expr:
                columns.append(self._aggregate(inner(column.expr), str(column.evar)))
            else:
                variable = column if isinstance(column, Variable) else Variable(str(column.var))
                columns.append(Column(variable.name, self.told.get(variable, "value")))
        if len({column.shows in _COUNTS for column in columns}) > 1:
            raise self.source.error(f"a variable beside COUNT is not supported {SUPPORTED}", keyword("SELECT"))
        return tuple(dict.fromkeys(columns))

    def _aggregate(self, expression: Any, name: str) -> Column:
        """COUNT of a variable, or SUM of the scores: how many answers there are by what is known and predicted."""
        of = inner(getattr(expression, "vars", None))
        variable = Variable(str(of)) if is_variable(of) else None
        if kind(expression) == "Aggregate_Count" and variable:
            several = visible(self.tree.where) != {variable} or any(map(_multiplies, self.source.nodes))
            if several and not expression.distinct:  # entities are counted, and one may be in several solutions
                words = f"COUNT({variable}) counts an entity as often as a pattern finds it"
                raise self.source.error(f"{words}; write COUNT(DISTINCT {variable})", keyword("COUNT"))
            return Column(name, "count", variable.name)
        if kind(expression) == "Aggregate_Sum" and variable and self.told.get(variable) == "score":
            return Column(name, "expected", self.subjects[0].name)
        aggregate = any(kind(node).startswith("Aggregate_") for node in self.source.nodes)
        words = "an aggregate other than COUNT of a variable" if aggregate else "a computed column"
        raise self.source.error(f"{words} is not supported {SUPPORTED}", keyword(_AGGREGATE if aggregate else "AS"))

    def _targets(self, columns: tuple[Column, ...]) -> tuple[Variable, ...]:
        """The variables that are asked for."""
        values = [column.name for column in columns if column.shows == "value"]
        counted = [column.label for column in columns if column.shows in _COUNTS]
        targets = tuple(map(Variable, dict.fromkeys(values + counted)))
        if (self.tree.name == "SelectQuery" and not targets) or len(set(counted)) > 1:
            words = "SELECT asks for no variable of an entity, or for several counts"
            raise self.source.error(words, keyword("SELECT"))
        for subject in self.subjects:
            if subject not in targets:
                words = f"what is said of the answer {subject} is of a variable that is not selected"
                raise self.source.of_variable(words, subject)
        if counted and self.tree.valuesClause:
            words = "VALUES after a count is joined with its result; put it inside the braces"
            raise self.source.at(self.tree.valuesClause, words)
        if counted and (self.min_score or self.known is not None):
            raise self.source.error("FILTER on the score of what is counted is not supported", keyword("FILTER"))
        return targets

    def _by_score(self) -> bool:
        """Whether rows are ordered by score alone; else known ones go first, and any other order is refused."""
        if not self.tree.orderby:
            return False
        given = [(condition.order, self._told_by(inner(condition.expr))) for condition in self.tree.orderby.condition]
        if given not in ([("DESC", "score")], [("DESC", "known"), ("DESC", "score")]):
            raise self.source.refused(self.tree.orderby)
        return len(given) == 1

    def _page(self, single: bool) -> tuple[int | None, int]:
        """LIMIT and OFFSET; a single result has no second page."""
        clause = self.tree.limitoffset
        limit = int(clause.limit) if clause and clause.limit is not None else None
        offset = int(clause.offset or 0) if clause else 0
        if single and (offset or limit == 0):
            raise self.source.refused(clause)
        return None if single else limit, offset

    def _cases(self, targets: tuple[Variable, ...]) -> Cases:
        """The solutions of the query, all of which bind the targets."""
        groups, clause, kept = Groups(self.source, self.labels), self.tree.valuesClause, frozenset(targets)
        given = frozenset(mentioned(clause.var if clause else ()))
        cases = groups.cases(self.tree.where, None, given, kept | given)
        if clause:
            cases = joined(cases, groups.values(clause))
            groups.check(cases)
        cases = {case: formula for case, formula in united([cases], kept).items() if formula is not False}
        if not cases:
            raise QueryError(_NO_ANSWERS)
        groups.check(cases)
        for target in targets:
            if any(target not in case.domain for case in cases):
                raise self.source.of_variable(f"{target} is not bound in every alternative", target)
        return cases

    def _chosen(self, cases: Cases, targets: tuple[Variable, ...]) -> _Chosen:
        """One formula of cases that differ in the values of targets alone."""
        formula, *others = dict.fromkeys(cases.values())
        rows = [case.fixed for case in cases]
        if rows == [frozenset()]:
            return formula, {}, None
        given = tuple(target for target in targets if any(target in dict(row) for row in rows))
        if others or not all(rows):
            raise self._several(given, "is tied to other values, or to one alternative alone")
        if len(targets) == 1:
            return formula, {}, tuple(value.name for row in rows for _, value in row)
        if len(rows) > 1 or len(rows[0]) == len(targets):
            raise self._several(given, "is one of several that are selected: give one value, and leave one open")
        for variable, value in rows[0]:
            formula = formula if isinstance(formula, bool) else substitute(formula, variable, value)
        return formula, {variable.name: value.name for variable, value in rows[0]}, None

    def _several(self, targets: tuple[Variable, ...], why: str) -> QueryError:
        words = f"VALUES gives {', '.join(map(str, targets))} values, and it {why}"
        return self.source.error(f"{words}; this is not supported", keyword("VALUES"))

    def _take_told(self) -> None:
        """Take what is said of answers, and filters on that, out of the outermost group."""
        where, kept = self.tree.where, []
        for part in where.part or () if where.name == "GroupGraphPatternSub" else ():
            if part.name == "TriplesBlock":
                part["triples"] = [triple for triple in triples(part) if not self._tells(triple)]
            if part.name != "TriplesBlock" or part.triples:
                kept.append(part)
        if not self.told:
            return
        taken = self.told.keys()
        for part in [part for part in kept if part.name == "Filter" and taken & mentioned(part).keys()]:
            kept.remove(part)
            for condition in _conjuncts(part.expr):
                self._want(condition, part)
        where["part"] = kept
        for variable in taken & {*mentioned([where, self.tree.valuesClause]), *self.subjects}:
            raise self.source.of_variable(f"{variable} is said of an answer, and can be nothing else", variable)

    def _tells(self, triple: list[Any]) -> bool:
        """Whether a triple says something of an answer, which is kept in mind."""
        subject, predicate, object_ = triple
        what = self.labels.told(predicate)
        if what not in ("score", "known"):
            return False
        if not is_variable(subject) or not is_variable(object_):
            words = f"answer:{what} is between two variables, as in ?c answer:{what} ?{what}"
            raise self.source.error(words, rf"[\w-]*:{what}\b")
        variable = Variable(str(object_))
        others = [other for other, told in self.told.items() if (other == variable) != (told == what)]
        if others:
            raise self.source.of_variable(f"{variable} is not the only variable for what is said of answers", variable)
        self.told[variable] = what
        self.subjects.append(Variable(str(subject)))
        return True

    def _told_by(self, node: Any) -> str:
        """What a variable tells of an answer; nothing of all else."""
        return self.told.get(Variable(str(node)), "") if is_variable(node) else ""

    def _want(self, condition: Any, node: Any) -> None:
        """Ask for the answers that a condition on the score, or on what is known, lets pass."""
        left, operator, right = condition, "=", True
        if kind(condition) == "UnaryNot":
            left, operator = inner(condition.expr), "!="
        elif kind(condition) == "RelationalExpression":
            left, operator, right = inner(condition.expr), condition.op, inner(condition.other)
            if is_variable(right):
                left, operator, right = right, _MIRRORED.get(operator, operator), left
            right = _value(right)
        match self._told_by(left), operator, right:
            case "score", ">" | ">=", float():
                least = right if operator == ">=" else math.nextafter(right, math.inf)
                self.min_score = max(self.min_score, least, _LOWEST)
                if least > 1:
                    raise self.source.at(node, f"{_NO_ANSWERS}: no score is above 1")
            case "known", "=" | "!=", bool():
                wanted = right == (operator == "=")
                if self.known not in (None, wanted):
                    raise QueryError(f"{_NO_ANSWERS}: none is both known and predicted")
                self.known = wanted
            case _:
                words = "FILTER on what is said of answers compares a score by > or >= with a number"
                raise self.source.at(node, f"{words}, or is of ?known or !?known, on its own")


def _conjuncts(expression: Any) -> Iterator[Any]:
    expression = inner(expression)
    if kind(expression) == "ConditionalAndExpression":
        for part in (expression.expr, *expression.other):
            yield from _conjuncts(part)
    else:
        yield expression


def _value(literal: Any) -> Any:
    """The number or truth value that a literal is; a number may be negative."""
    if kind(literal) == "UnaryMinus":
        number = _value(literal.expr)
        return -number if isinstance(number, float) else None
    value = None if isinstance(literal, dict) else getattr(literal, "value", None)
    return value if isinstance(value, bool | str | None) else float(value)


def _multiplies(node: Any) -> bool:
    """Whether a part of a tree may find a solution more than once."""
    several = ("GroupOrUnionGraphPattern", "PathSequence", "PathAlternative")
    parts = (node.graph or node.part or ()) if kind(node) in several else ()
    return len(parts) > 1 or kind(node) in ("InlineData", "ValuesClause") or type(node).__name__ == "BNode"
