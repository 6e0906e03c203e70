"""SPARQL queries that are tables: answers to questions, and what the known facts add to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import UnknownName
from tacit.query.formula import Query
from tacit.query.question import Column
from tacit.query.sparql.conditions import Conditions
from tacit.query.sparql.known_graph import KnownGraph
from tacit.query.sparql.lookups import Lookups
from tacit.query.sparql.tables import UNIT, Cell, Table, table_of
from tacit.query.sparql.terms import Term

Order = tuple[tuple[str, bool], ...]  # variables, and whether they go down
ANSWER = " answer"  # the column with the number of the answer that a row comes from


@dataclass(frozen=True)
class CaseQuestion:
    """A question of some alternative, and the labels that VALUES gives other variables.

    Without a query the alternative holds whatever the facts.
    """

    query: Query | None
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class TableQuery:
    """The questions of a query, what is looked up for their answers, and the columns of rows.

    `counting` says that the solutions in the known facts are counted, `likely` that rows of known
    and likely answers alone are listed, however many are asked for.
    """

    text: str
    questions: tuple[CaseQuestion, ...]
    lookups: Lookups = field(repr=False)
    columns: tuple[Column, ...]
    limit: int | None = None
    offset: int = 0
    min_score: float = 0.0
    known: bool | None = None
    by_score: bool = False
    order: Order = ()  # by values, which goes before that by score
    value_filters: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # on one alone
    counting: bool = False
    likely: bool = False

    @property
    def unknown(self) -> tuple[UnknownName, ...]:
        """The IRIs that the graph does not have; those that are looked up only once they are."""
        return self.lookups.labels.missing

    @property
    def names(self) -> tuple[str, ...]:
        """The variables whose values are selected."""
        return tuple(column.name for column in self.columns if column.shows == "value")

    def has_value(self, name: str, value: Term, known: KnownGraph) -> bool:
        """Whether a value of a variable passes the filters on it alone."""
        conditions = Conditions(self.lookups.labels, known, lambda *_: False)
        filters = self.value_filters.get(name, ())
        return all(conditions.holds(each, {name: value}) is True for each in filters)

    def solutions(
        self, answers: Iterable[tuple[CaseQuestion, dict[str, Cell], int]], known: KnownGraph
    ) -> Table:
        """The rows of answers, given by question, values and number, with what facts add."""
        cell = self.lookups.labels.cell_of
        terms = known.terms
        rows = [
            {**{name: cell(label, terms) for name, label in case.values}, **values, ANSWER: number}
            for case, values, number in answers
        ]
        return self.lookups.extend(table_of(rows), known)

    def counts(self, known: KnownGraph) -> list[int]:
        """How many solutions the known facts have, for each column."""
        table = self.lookups.extend(UNIT, known)
        return [_count(table, column) for column in self.columns]


def _count(table: Table, column: Column) -> int:
    variables: Sequence[str] = [column.label]
    if column.label == "*":
        variables = [name for name in table.variables if not name.startswith("_:")]
    rows = table.selected(variables).rows
    bound = [row for row in rows if column.label == "*" or row[0] is not None]
    return len(set(bound) if column.shows == "distinct" else bound)
