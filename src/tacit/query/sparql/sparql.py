"""Reads questions in SPARQL: the form of a query, its columns, and filters on answers.

`SELECT`, `ASK` and `COUNT` of triple patterns and paths, groups, `UNION`, `MINUS`, `VALUES`,
`FILTER` of `EXISTS` and `NOT EXISTS`, prefixes, `LIMIT` and `OFFSET` are a formula and limits of
its answers; all else that SPARQL has is refused by its name. A query is read from the outside in:
here, in `groups.py` and in `iris.py`, from the tree of `source.py`.

Two predicates of the namespace `tacit:answer#` describe answers: `?c answer:score ?score` binds
the score of the answer `?c`, `?c answer:known ?known` whether the known facts imply it. Both belong
to a whole solution: their subject is any one of the selected variables. They stand in the outermost
braces, where filters may use them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import Formula, Query, Variable, atoms
from tacit.query.plans.scopes import substitute
from tacit.query.question import Column, ParsedQuestion
from tacit.query.sparql.cases import Cases, Truth, join, union
from tacit.query.sparql.groups import Groups, triples, visible_variables
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import (
    SUPPORTED,
    SparqlText,
    is_variable,
    keyword,
    kind,
    parse_source,
    unwrap,
    variables_in,
)

_COUNTS = ("count", "expected")  # what a column shows of all answers together
_AGGREGATE = r"COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT"
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
# the lowest `min_score` of a filter, even of one that every answer passes
_LOWEST = math.nextafter(0.0, 1.0)
_NO_ANSWERS = "the query has no answers whatever the facts"
# A formula, the targets that have one value, and the values that a single target may have.
_MergedValues = tuple[Truth, dict[str, str], tuple[str, ...] | None]


def parse_sparql(text: str, graph: Graph | None = None) -> ParsedQuestion:
    """Parses a SPARQL query; its IRIs become labels as `iris.py` describes.

    >>> text = "SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } }"
    >>> parse_sparql(f"PREFIX : <tacit:> {text}").query
    <?c : borders(France, ?c) & !speaks(?c, German)>
    """
    try:
        source, prologue, tree = parse_source(text)
        return Form(source, tree, TermLabels(source, prologue, graph)).question()
    except RecursionError:
        raise QueryError("the query is nested too deeply, or too long") from None


@dataclass
class Form:
    """A parsed query as a whole."""

    source: SparqlText
    tree: Any
    labels: TermLabels
    # object of an answer triple -> `score` or `known`
    answer_variables: dict[Variable, str] = field(default_factory=dict)
    subjects: list[Variable] = field(default_factory=list)
    min_score: float = 0.0
    known: bool | None = None

    def question(self) -> ParsedQuestion:
        """The parsed query, with its limits and filters on answers."""
        tree = self.tree
        if tree.name not in ("SelectQuery", "AskQuery"):
            raise self.source.unsupported(tree)
        for clause in filter(None, (*(tree.datasetClause or ()), tree.groupby, tree.having)):
            raise self.source.unsupported(clause)
        self._take_answer_triples()
        columns = self._columns()
        targets = self._targets(columns)
        by_score = self._by_score()
        counting = any(column.shows in _COUNTS for column in columns)
        limit, offset = self._page(single=counting or not targets)
        formula, row, among = self._merge_values(self._cases(targets), targets)
        if isinstance(formula, bool):
            raise QueryError("the query holds whatever the facts: there is nothing to score")
        if (row or among) and counting:
            raise self._values_error(targets[:1], "is counted")
        columns = tuple(
            column._replace(label=row.get(column.name, column.label)) for column in columns
        )
        query = self._query(
            [target for target in targets if target.name not in row], formula, counting
        )
        if among and query.kind == "relations":
            raise self._values_error(targets, "stands for a relation")
        return ParsedQuestion(
            query, limit, offset, self.min_score, self.known, among, columns, by_score
        )

    def _query(self, targets: list[Variable], formula: Formula, counting: bool) -> Query:
        try:
            return Query(targets, formula, counting)
        except QueryError as error:
            for atom in atoms(formula):
                if isinstance(atom.relation, Variable):
                    raise self.source.of_variable(str(error), atom.relation) from None
            raise self.source.error(str(error), keyword("SELECT")) from None

    def _columns(self) -> tuple[Column, ...]:
        """The selected columns; `*` selects what a solution may bind."""
        if self.tree.name == "AskQuery":
            return ()
        bindable = visible_variables(self.tree.where).union(
            variables_in(self.tree.valuesClause), self.answer_variables
        )
        selected = self.tree.projection or [
            variable for variable in self.source.variables if variable in bindable
        ]
        columns = []
        for column in selected:
            if not isinstance(column, Variable) and column.expr:
                columns.append(self._aggregate(unwrap(column.expr), str(column.evar)))
            else:
                variable = column if isinstance(column, Variable) else Variable(str(column.var))
                columns.append(Column(variable.name, self.answer_variables.get(variable, "value")))
        if len({column.shows in _COUNTS for column in columns}) > 1:
            raise self.source.error(
                f"a variable beside COUNT is not supported {SUPPORTED}", keyword("SELECT")
            )
        return tuple(dict.fromkeys(columns))

    def _aggregate(self, expression: Any, name: str) -> Column:
        """The column of COUNT of a variable, or of SUM of the scores."""
        of = unwrap(getattr(expression, "vars", None))
        variable = Variable(str(of)) if is_variable(of) else None
        if kind(expression) == "Aggregate_Count" and variable:
            several = visible_variables(self.tree.where) != {variable} or any(
                map(_may_repeat, self.source.nodes)
            )
            # entities are counted, and one may be in several solutions
            if several and not expression.distinct:
                raise self.source.error(
                    f"COUNT({variable}) counts an entity as often as a pattern finds it; write "
                    f"COUNT(DISTINCT {variable})",
                    keyword("COUNT"),
                )
            return Column(name, "count", variable.name)
        if kind(expression) == "Aggregate_Sum" and self._answer_property(of) == "score":
            return Column(name, "expected", self.subjects[0].name)
        aggregate = any(kind(node).startswith("Aggregate_") for node in self.source.nodes)
        words = "an aggregate other than COUNT of a variable" if aggregate else "a computed column"
        raise self.source.error(
            f"{words} is not supported {SUPPORTED}", keyword(_AGGREGATE if aggregate else "AS")
        )

    def _targets(self, columns: tuple[Column, ...]) -> tuple[Variable, ...]:
        """The target variables."""
        values = [column.name for column in columns if column.shows == "value"]
        counted = [column.label for column in columns if column.shows in _COUNTS]
        targets = tuple(map(Variable, dict.fromkeys(values + counted)))
        if (self.tree.name == "SelectQuery" and not targets) or len(set(counted)) > 1:
            raise self.source.error(
                "SELECT asks for no variable of an entity, or for several counts; select up to "
                "three variables, or one COUNT",
                keyword("SELECT"),
            )
        for subject in self.subjects:
            if subject not in targets:
                raise self.source.of_variable(
                    f"what is said of the answer {subject} is of a variable that is not selected; "
                    f"select {subject}",
                    subject,
                )
        if counted and self.tree.valuesClause:
            raise self.source.at(
                self.tree.valuesClause,
                "VALUES after a count is joined with its result; put it inside the braces",
            )
        if counted and (self.min_score or self.known is not None):
            raise self.source.error(
                "FILTER on the score of what is counted is not supported", keyword("FILTER")
            )
        return targets

    def _by_score(self) -> bool:
        """Whether rows are ordered by score alone; any other order is refused.

        By default known answers go first.
        """
        if not self.tree.orderby:
            return False
        order = [
            (condition.order, self._answer_property(unwrap(condition.expr)))
            for condition in self.tree.orderby.condition
        ]
        if order not in ([("DESC", "score")], [("DESC", "known"), ("DESC", "score")]):
            raise self.source.unsupported(self.tree.orderby)
        return len(order) == 1

    def _page(self, single: bool) -> tuple[int | None, int]:
        """LIMIT and OFFSET; a single result has no second page."""
        clause = self.tree.limitoffset
        limit = int(clause.limit) if clause and clause.limit is not None else None
        offset = int(clause.offset or 0) if clause else 0
        if single and (offset or limit == 0):
            raise self.source.unsupported(clause)
        return None if single else limit, offset

    def _cases(self, targets: tuple[Variable, ...]) -> Cases:
        """The solutions of the query, all of which bind the targets."""
        groups = Groups(self.source, self.labels)
        clause = self.tree.valuesClause
        targeted = frozenset(targets)
        inline = frozenset(variables_in(clause.var if clause else ()))
        cases = groups.cases(self.tree.where, None, inline, targeted | inline)
        if clause:
            cases = join(cases, groups.values(clause))
            groups.check(cases)
        cases = {
            case: formula
            for case, formula in union([cases], targeted).items()
            if formula is not False
        }
        if not cases:
            raise QueryError(_NO_ANSWERS)
        groups.check(cases)
        for target in targets:
            unbound = sum(target not in case.domain for case in cases)
            if unbound == len(cases):
                problem = f"{target} is not bound; a pattern that answers must match has to use it"
                raise self.source.of_variable(problem, target)
            if unbound:
                raise self.source.of_variable(f"{target} is not bound in every alternative", target)
        return cases

    def _merge_values(self, cases: Cases, targets: tuple[Variable, ...]) -> _MergedValues:
        """Merges cases that differ only in the values of targets into one formula."""
        formula, *others = dict.fromkeys(cases.values())
        rows = [case.fixed for case in cases]
        if rows == [frozenset()]:
            return formula, {}, None
        bound = tuple(target for target in targets if any(target in dict(row) for row in rows))
        if others or not all(rows):
            raise self._values_error(bound, "is tied to other values, or to one alternative alone")
        if len(targets) == 1:
            return formula, {}, tuple(value.name for row in rows for _, value in row)
        if len(rows) > 1 or len(rows[0]) == len(targets):
            raise self._values_error(
                bound, "is one of several that are selected: give one value, and leave one open"
            )
        for variable, value in rows[0]:
            formula = formula if isinstance(formula, bool) else substitute(formula, variable, value)
        return formula, {variable.name: value.name for variable, value in rows[0]}, None

    def _values_error(self, targets: tuple[Variable, ...], why: str) -> QueryError:
        names = ", ".join(map(str, targets))
        return self.source.error(
            f"VALUES gives {names} values, and it {why}; this is not supported", keyword("VALUES")
        )

    def _take_answer_triples(self) -> None:
        """Moves triples and filters about answers out of the outermost group."""
        where = self.tree.where
        parts = []
        for part in where.part or () if where.name == "GroupGraphPatternSub" else ():
            if part.name == "TriplesBlock":
                part["triples"] = [
                    triple for triple in triples(part) if not self._is_answer_triple(triple)
                ]
            if part.name != "TriplesBlock" or part.triples:
                parts.append(part)
        if not self.answer_variables:
            return
        where["part"] = []
        for part in parts:
            if part.name != "Filter" or self.answer_variables.keys().isdisjoint(variables_in(part)):
                where["part"].append(part)
                continue
            for condition in _conjuncts(part.expr):
                self._add_answer_filter(condition, part)
        variables = {*variables_in([where, self.tree.valuesClause]), *self.subjects}
        for variable in filter(variables.__contains__, self.answer_variables):
            raise self.source.of_variable(
                f"{variable} is said of an answer, and can be nothing else", variable
            )

    def _is_answer_triple(self, triple: list[Any]) -> bool:
        """Whether a triple is about an answer; if so, it is recorded."""
        subject, predicate, object_ = triple
        what = self.labels.answer_property(predicate)
        if what not in ("score", "known"):
            return False
        if not is_variable(subject) or not is_variable(object_):
            words = f"answer:{what} is between two variables, as in ?c answer:{what} ?{what}"
            raise self.source.error(words, rf"[\w-]*:{what}\b")
        variable = Variable(str(object_))
        if any(
            (other == variable) != (shown == what) for other, shown in self.answer_variables.items()
        ):
            raise self.source.of_variable(
                f"{variable} is not the only variable for what is said of answers", variable
            )
        self.answer_variables[variable] = what
        self.subjects.append(Variable(str(subject)))
        return True

    def _answer_property(self, node: Any) -> str:
        """The property of answers that a variable holds, `score` or `known`; or empty."""
        return self.answer_variables.get(Variable(str(node)), "") if is_variable(node) else ""

    def _add_answer_filter(self, condition: Any, node: Any) -> None:
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
        match self._answer_property(left), operator, right:
            case "score", ">" | ">=", float():
                least = right if operator == ">=" else math.nextafter(right, math.inf)
                self.min_score = max(self.min_score, least, _LOWEST)
                if least > 1:
                    raise self.source.at(node, f"{_NO_ANSWERS}: no score is above 1")
            case "known", "=" | "!=", bool():
                known = right == (operator == "=")
                if self.known not in (None, known):
                    raise QueryError(f"{_NO_ANSWERS}: none is both known and predicted")
                self.known = known
            case _:
                raise self.source.at(
                    node,
                    "FILTER on what is said of answers compares a score by > or >= with a number, "
                    "or is ?known or !?known; write each in a FILTER of its own",
                )


def _conjuncts(expression: Any) -> Iterator[Any]:
    expression = unwrap(expression)
    if kind(expression) == "ConditionalAndExpression":
        for part in (expression.expr, *expression.other):
            yield from _conjuncts(part)
    else:
        yield expression


def _value(literal: Any) -> Any:
    """The number or truth value of a literal; a number may be negative."""
    if kind(literal) == "UnaryMinus":
        number = _value(literal.expr)
        return -number if isinstance(number, float) else None
    value = None if isinstance(literal, dict) else getattr(literal, "value", None)
    return value if isinstance(value, bool | str | None) else float(value)


def _may_repeat(node: Any) -> bool:
    """Whether a part of a tree may find a solution more than once."""
    several = ("GroupOrUnionGraphPattern", "PathSequence", "PathAlternative")
    parts = (node.graph or node.part or ()) if kind(node) in several else ()
    return (
        len(parts) > 1
        or kind(node) in ("InlineData", "ValuesClause")
        or type(node).__name__ == "BNode"
    )
