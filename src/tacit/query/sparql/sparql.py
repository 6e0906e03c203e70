"""Reads questions in SPARQL: the form of a query, its columns, and its pages.

`SELECT`, `ASK` and `COUNT` of triple patterns and paths, groups, `UNION`, `MINUS`, `VALUES`,
`FILTER` of `EXISTS` and `NOT EXISTS`, prefixes, `LIMIT` and `OFFSET` are a formula and limits of
its answers. What no formula says is looked up in the known facts (`lookups.py`): such a query is a
table, of the answers to questions and of what the facts add. All else that SPARQL has is refused by
its name. A query is read from the outside in: here, in `separation.py`, in `groups.py` and in
`iris.py`, from the tree of `source.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.comparison import Ordering
from tacit.query.formula import Formula, Query, Variable, atoms
from tacit.query.plans.scopes import substitute
from tacit.query.question import Column, ParsedQuestion
from tacit.query.sparql.answer_properties import AnswerProperties
from tacit.query.sparql.cases import (
    Case,
    Cases,
    Fixed,
    Truth,
    folded,
    join,
    union,
    visible_variables,
)
from tacit.query.sparql.groups import Groups
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.lookups import Lookups, check
from tacit.query.sparql.other_names import take_other_names
from tacit.query.sparql.separation import Separation
from tacit.query.sparql.source import (
    SUPPORTED,
    SparqlText,
    is_variable,
    keyword,
    kind,
    last_step,
    parse_source,
    triples,
    unwrap,
    variables_in,
)
from tacit.query.sparql.table_query import CaseQuestion, Order, TableQuery
from tacit.query.sparql.value_patterns import ValuePatterns

_SCORE_ORDERS = ([("DESC", "score")], [("DESC", "known"), ("DESC", "score")])
_COUNTS = ("count", "distinct", "expected")  # what a column shows of all answers together
_AGGREGATE = r"COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT"
# A formula, the targets that have one value, and the values that a single target may have.
_MergedValues = tuple[Formula, dict[str, str], tuple[str, ...] | None]
ALL = "*"  # in place of the variable that is counted


def parse_sparql(text: str, graph: Graph | None = None) -> ParsedQuestion | TableQuery:
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

    def __post_init__(self) -> None:
        self.properties = AnswerProperties(self.labels)

    def question(self) -> ParsedQuestion | TableQuery:
        """The parsed query, with its limits and filters on answers."""
        tree = self.tree
        if tree.name not in ("SelectQuery", "AskQuery"):
            raise self.source.unsupported(tree)
        for clause in filter(None, (*(tree.datasetClause or ()), tree.groupby, tree.having)):
            raise self.source.unsupported(clause)
        if tree.where.name != "GroupGraphPatternSub":
            raise self.source.unsupported(tree.where)
        take_other_names(tree, self.source)
        self.properties.take(tree.where, tree.valuesClause)
        self.labels.name_variables = frozenset(
            str(object_)
            for node in self.source.nodes
            if kind(node) == "TriplesBlock"
            for _, path, object_ in triples(node)
            if self.labels.is_naming(last_step(path))
        )
        self._take_values()
        selected = columns = self._columns()
        counting = any(column.shows in _COUNTS for column in columns)
        parts = tuple(tree.where.part or ())
        if counting:
            self._check_count()
            if (of_formula := self._counted_by_formula(selected)) is None:
                return self._counted(selected, parts)
            columns = of_formula
        targets = self._targets(columns)
        by_score, order = self._order()
        limit, offset = self._page(single=counting or not targets)
        separation = Separation.of(parts, self.labels, tree.valuesClause)
        cases = self._cases(targets, separation)
        pages = limit, offset, self.properties.min_score, self.properties.known
        is_table = separation.lookups or self._has_rows_of_values(targets)
        merged = None if is_table else self._merge_values(cases, targets)
        if merged is not None and not ((counting or order) and (merged[1] or merged[2])):
            formula, row, among = merged
            columns = tuple(
                column._replace(label=row.get(column.name, column.label)) for column in columns
            )
            remaining = [target for target in targets if target.name not in row]
            query = self._query(remaining, formula, counting, order)
            return ParsedQuestion(query, *pages, among, columns, by_score, self.labels.missing)
        if counting:
            return self._counted(selected, parts)
        questions = tuple(starmap(self._case_question, cases.items()))
        lookups = Lookups(tuple(separation.lookups), self.labels)
        text = self.source.without_prologue()
        return TableQuery(
            text, questions, lookups, columns, *pages, by_score, order, self.values.filters_of_one
        )

    def _take_values(self) -> None:
        """Notes which variables stand for values, and which of them a formula compares."""
        tree = self.tree
        selected = tree.projection if tree.name == "SelectQuery" else ()
        ordered = [unwrap(each.expr) for each in tree.orderby.condition] if tree.orderby else []
        self.values = ValuePatterns(
            tree,
            self.labels,
            None if selected is None else [column.var for column in selected],
            [each for each in ordered if is_variable(each)],
        )
        values = self.labels.value_variables = self.values.of_formulas()
        self.labels.shown_values = self.values.shown & values
        self.labels.value_filters = self.values.filters_of(values)

    def _has_rows_of_values(self, targets: tuple[Variable, ...]) -> bool:
        """Whether an answer may be several rows, or none: one for each of its values."""
        shown = self.labels.shown_values
        entities = not shown.issuperset(targets)
        return bool(shown) and not (entities and all(map(self.values.has_one_value, shown)))

    def _counted(self, columns: tuple[Column, ...], parts: tuple[Any, ...]) -> TableQuery:
        """The query that counts solutions in the known facts."""
        if any(column.shows == "expected" for column in columns):
            raise self.source.error(
                "SUM of the score is of the answers to one formula; write it beside "
                "COUNT(DISTINCT ...) of one variable of patterns without OPTIONAL, VALUES and the "
                "like",
                keyword("SUM"),
            )
        self.tree.where["part"] = list(parts)
        check(self.tree.where, self.labels)
        self._page(single=True)
        lookups = Lookups(parts, self.labels)
        return TableQuery(self.source.without_prologue(), (), lookups, columns, counting=True)

    def _check_count(self) -> None:
        """Refuses what cannot be said of a count."""
        if clause := self.tree.valuesClause:
            raise self.source.at(
                clause, "VALUES after a count is joined with its result; put it inside the braces"
            )
        if self.properties.min_score or self.properties.known is not None:
            raise self.source.error(
                "FILTER on the score of what is counted is not supported", keyword("FILTER")
            )

    def _counted_by_formula(self, columns: tuple[Column, ...]) -> tuple[Column, ...] | None:
        """The columns of a formula's count; None where solutions are counted, not entities."""
        visible = visible_variables(self.tree.where)
        once = len(visible) == 1 and not any(map(_may_repeat, self.source.nodes))
        name = min(visible, key=str).name if once else ""
        found = set[str]()
        for column in columns:
            if column.shows == "count" and not (once and column.label in (ALL, name)):
                return None
            found.add(name if column.label == ALL else column.label)
        if found == {ALL} or len(found) > 1:
            return None
        (label,) = found
        return tuple(
            Column(column.name, "expected" if column.shows == "expected" else "count", label)
            for column in columns
        )

    def _case_question(self, case: Case, formula: Truth) -> CaseQuestion:
        """The question of an alternative."""
        formula = self._substituted(formula, case.fixed)
        values = tuple(sorted((variable.name, value.name) for variable, value in case.fixed))
        if isinstance(formula, bool):
            return CaseQuestion(None, values)
        remaining = sorted(case.domain - dict(case.fixed).keys(), key=str)
        return CaseQuestion(self._query(remaining, formula, counting=False), values)

    def _substituted(self, formula: Truth, fixed: Fixed) -> Truth:
        for variable, value in sorted(fixed, key=str):
            formula = formula if isinstance(formula, bool) else substitute(formula, variable, value)
        return folded(formula, self.labels.unknown)

    def _query(
        self, bound: list[Variable], formula: Formula, counting: bool, order: Order = ()
    ) -> Query:
        """The query for bound variables, of which those for values are columns of answers."""
        targets = [variable for variable in bound if variable not in self.labels.shown_values]
        by = [Ordering(self.values_of[Variable(name)], down) for name, down in order]
        try:
            return Query(targets, formula, counting, order=by)
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
            variables_in(self.tree.valuesClause), self.properties.variables
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
                columns.append(
                    Column(variable.name, self.properties.variables.get(variable, "value"))
                )
        if len({column.shows in _COUNTS for column in columns}) > 1:
            raise self.source.error(
                f"a variable beside COUNT is not supported {SUPPORTED}", keyword("SELECT")
            )
        return tuple(dict.fromkeys(columns))

    def _aggregate(self, expression: Any, name: str) -> Column:
        """The column of COUNT of a variable or of rows, or of SUM of the scores."""
        of = unwrap(getattr(expression, "vars", None))
        if kind(expression) == "Aggregate_Count" and (is_variable(of) or of == ALL):
            return Column(name, "distinct" if expression.distinct else "count", str(of))
        if kind(expression) == "Aggregate_Sum" and self.properties.of(of) == "score":
            return Column(name, "expected", self.properties.subjects[0].name)
        aggregate = any(kind(node).startswith("Aggregate_") for node in self.source.nodes)
        words = "an aggregate other than COUNT of a variable" if aggregate else "a computed column"
        raise self.source.error(
            f"{words} is not supported {SUPPORTED}", keyword(_AGGREGATE if aggregate else "AS")
        )

    def _targets(self, columns: tuple[Column, ...]) -> tuple[Variable, ...]:
        """The target variables."""
        names = [column.label if column.shows in _COUNTS else column.name for column in columns]
        shown = [
            name
            for name, column in zip(names, columns, strict=True)
            if column.shows in ("value", *_COUNTS)
        ]
        targets = tuple(map(Variable, dict.fromkeys(shown)))
        if self.tree.name == "SelectQuery" and not targets:
            raise self.source.error(
                "SELECT asks for no variable of an entity; select one, or a COUNT",
                keyword("SELECT"),
            )
        for subject in self.properties.subjects:
            if subject not in targets:
                raise self.source.of_variable(
                    f"what is said of the answer {subject} is of a variable that is not selected; "
                    f"select {subject}",
                    subject,
                )
        return targets

    def _order(self) -> tuple[bool, Order]:
        """Whether rows are ordered by score alone, and the values that order them before that.

        Any other order is refused. By default known answers go first.
        """
        if not self.tree.orderby:
            return False, ()
        by_values: list[tuple[str, bool]] = []
        by_answer: list[tuple[str, str]] = []
        for condition in self.tree.orderby.condition:
            expression = unwrap(condition.expr)
            if what := self.properties.of(expression):
                by_answer.append((condition.order, what))
            elif by_answer or not self.values.has(expression):
                raise self.source.unsupported(self.tree.orderby)
            else:
                by_values.append((str(expression), condition.order == "DESC"))
        if by_answer and by_answer not in _SCORE_ORDERS:
            raise self.source.unsupported(self.tree.orderby)
        return len(by_answer) == 1, tuple(by_values)

    def _page(self, single: bool) -> tuple[int | None, int]:
        """LIMIT and OFFSET; a single result has no second page."""
        clause = self.tree.limitoffset
        limit = int(clause.limit) if clause and clause.limit is not None else None
        offset = int(clause.offset or 0) if clause else 0
        if single and (offset or limit == 0):
            raise self.source.unsupported(clause)
        return None if single else limit, offset

    def _cases(self, targets: tuple[Variable, ...], separation: Separation) -> Cases:
        """The solutions of the question's parts, by the targets and looked up variables they bind.

        Facts that no IRI of the graph names are left out.
        """
        where = self.tree.where
        clause = self.tree.valuesClause
        visible = visible_variables(where).union(variables_in(clause.var if clause else ()))
        if clause and separation.must_follow(clause):
            separation.lookups.append(clause)
            clause = None
        where["part"] = separation.question
        groups = Groups(self.source, self.labels)
        self.values_of = groups.values_of
        inline = frozenset(variables_in(clause.var if clause else ()))
        needed = frozenset(targets).union(variables_in(separation.lookups))
        cases = groups.cases(where, None, inline, needed | inline)
        if clause:
            cases = join(cases, groups.values(clause))
            groups.check(cases)
        for target in targets:
            if target not in visible:
                problem = f"{target} is not bound; a pattern that answers must match has to use it"
                raise self.source.of_variable(problem, target)
        cases = {
            case: formula
            for case, formula in union([cases], needed).items()
            if self._substituted(formula, case.fixed) is not False
        }
        groups.check(cases)
        return {case: folded(formula, self.labels.unknown) for case, formula in cases.items()}

    def _merge_values(self, cases: Cases, targets: tuple[Variable, ...]) -> _MergedValues | None:
        """Merges cases that differ only in the values of targets into one formula, if possible."""
        formula, *others = dict.fromkeys(cases.values()) or (False,)
        rows = [case.fixed for case in cases]
        values = [value.name for row in rows for _, value in row]
        if (
            others
            or isinstance(formula, bool)
            or any(case.domain != {*targets} for case in cases)
            or any(("entity", label) in self.labels.unknown for label in values)
        ):
            return None
        if rows == [frozenset()]:
            return formula, {}, None
        is_relation = any(isinstance(atom.relation, Variable) for atom in atoms(formula))
        if not all(rows) or is_relation:
            return None
        if len(targets) == 1:
            return formula, {}, tuple(values)
        if len(rows) > 1 or len(rows[0]) == len(targets):
            return None
        for variable, value in rows[0]:
            formula = substitute(formula, variable, value)
        return formula, {variable.name: value.name for variable, value in rows[0]}, None


def _may_repeat(node: Any) -> bool:
    """Whether a part of a tree may find a solution more than once."""
    several = ("GroupOrUnionGraphPattern", "PathSequence", "PathAlternative")
    parts = (node.graph or node.part or ()) if kind(node) in several else ()
    return (
        len(parts) > 1
        or kind(node) in ("InlineData", "ValuesClause")
        or type(node).__name__ == "BNode"
    )
