"""Answers SPARQL queries that are tables: by questions, and by what the known facts add.

A row has the score of the answer that it comes from, and is known where that is. Rows of the facts
alone have score 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from tacit.engine.answers.answers import LIKELY, Answer, Answers
from tacit.engine.answers.execute import execute
from tacit.engine.questions import AskOptions, BoundQuery, bind_parsed
from tacit.errors import LimitError, QueryError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import no_triples
from tacit.query.plans.plan import Complement
from tacit.query.question import ParsedQuestion
from tacit.query.sparql.known_graph import KnownGraph
from tacit.query.sparql.table_query import ANSWER, CaseQuestion, TableQuery
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import Term, quantity_of, quantity_term

if TYPE_CHECKING:
    from tacit.engine.parts import EngineParts

MAX_ANSWERS = 10_000  # to a question of a table
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_FACTS = "the known facts"


class Found(NamedTuple):
    """An answer to a question of a table, with its cells by variable."""

    case: CaseQuestion
    cells: dict[str, Cell]
    score: float
    known: bool


class Row(NamedTuple):
    """A row of a table: the cells of its columns, the score of its answer, and what orders it."""

    cells: tuple[Cell, ...]
    score: float
    known: bool
    order: tuple[Cell, ...] = ()


def answer_table(parts: EngineParts, query: TableQuery, options: AskOptions) -> Answers:
    """Answer a query by rows, best first.

    Without LIMIT or a number of answers, rows of known and likely answers are listed.
    """
    if options.explain:
        raise QueryError(
            "reasons are given for the answers to one formula, and this SPARQL query is a table of "
            "answers and known facts; ask it without reasons, or explain its patterns alone"
        )
    return TableExecution(parts, query, options).answers()


class TableExecution:
    """A query that is a table, with the options of `ask`."""

    def __init__(self, parts: EngineParts, query: TableQuery, options: AskOptions) -> None:
        self.parts = parts
        self.query = query
        self.options = options
        index = parts.index or FactIndex(no_triples(), parts.graph.num_relations)
        self.known = KnownGraph(parts.graph, index, parts.comparisons.known.attributes)
        self.terms = self.known.terms
        self.new = options.new or parts.settings.new or query.known is False
        self.min_score = max(options.min_score, query.min_score)
        self.bound: list[BoundQuery | None] = [
            None
            if case.query is None
            else bind_parsed(ParsedQuestion(case.query, known=query.known), parts.graph)
            for case in query.questions
        ]
        self.certified: bool | None = None

    def answers(self) -> Answers:
        """The rows as answers."""
        if self.query.counting:
            counts = self.query.counts(self.known)
            names = [column.name for column in self.query.columns]
            terms = [Term("literal", str(count), datatype=_INTEGER) for count in counts]
            return self._collect([Row(tuple(terms), 1.0, True)], names, None)
        has_top = isinstance(self.options.top, int) and not self.query.likely
        limited = has_top or self.query.limit is not None
        start, stop = self._span()
        by_score = limited and not self.query.order
        rows = self._best(stop) if by_score else self._listed(self._found(None, likely=True))
        if not self.query.columns:
            best = rows[0] if rows else Row((), 0.0, False)
            return self._collect([best], (), None)
        cut = None if len(rows) <= stop else "LIMIT" if self._ends_by_limit(stop) else "top"
        return self._collect(rows[start:stop], self.query.names, cut or ("likely" * (not limited)))

    def _span(self) -> tuple[int, int]:
        """The first row to list, and the one after the last."""
        query, options = self.query, self.options
        start = query.offset + options.offset
        stop = start + options.top if isinstance(options.top, int) else sys.maxsize
        if query.limit is not None:
            stop = min(stop, query.offset + query.limit)
        return start, stop

    def _ends_by_limit(self, stop: int) -> bool:
        return self.query.limit is not None and stop == self.query.offset + self.query.limit

    def _best(self, stop: int) -> list[Row]:
        """The best rows, at least one more than are listed: of more and more answers."""
        count = max(100, 2 * stop) if self.query.lookups.parts else stop + 1
        while True:
            count = min(count, MAX_ANSWERS)
            found = self._found(count, likely=False)
            rows = self._listed(found)
            per_case = [sum(each.case is case for each in found) for case in self.query.questions]
            if len(rows) > stop or max(per_case, default=0) < count:
                return rows
            if count == MAX_ANSWERS:
                raise LimitError(
                    f"of the {MAX_ANSWERS:,} best answers, {len(rows):,} fit {_FACTS} that the "
                    "query asks for beside them; leave LIMIT out, or add a FILTER on the score"
                )
            count *= 4

    def _found(self, count: int | None, likely: bool) -> list[Found]:
        """The best answers to each question, or the known and likely ones."""
        top = count or MAX_ANSWERS + 1
        likely = likely and not self.min_score
        bound = [replace(each, likely=likely) for each in self.bound if each is not None]
        if likely and bound and not self.parts.search.probabilities:
            raise QueryError(
                f"scores of {self.parts.search.name} are no probabilities, so nothing says where "
                "likely answers end; say how many are wanted, by LIMIT"
            )
        options = AskOptions(top, min_score=self.min_score, new=self.new)
        answered = iter(execute(self.parts, bound, options))
        found: list[Found] = []
        for case, question in zip(self.query.questions, self.bound, strict=True):
            if question is None:
                found += [] if self.new else [Found(case, {}, 1.0, True)]
                continue
            answers = next(answered)
            if count is None and len(answers) > MAX_ANSWERS:
                raise LimitError(
                    f"a pattern has more than {MAX_ANSWERS:,} answers, beside which {_FACTS} are "
                    "looked up; narrow it, or ask in parts, by LIMIT and OFFSET"
                )
            self.certified = answers.certified
            found += [
                Found(case, cells, each.score, each.known)
                for each in answers
                if self._is_listed(each, answers.kind, likely)
                for cells in self._cells(question, each)
            ]
        return found

    def _is_listed(self, answer: Answer, kind: str, likely: bool) -> bool:
        """Whether an answer belongs to a list; those to yes/no questions are not listed before."""
        if kind != "truth":
            return True
        if self.new and answer.known:
            return False
        if likely and not answer.known:
            return answer.score >= LIKELY
        return answer.score >= self.min_score and not (self.query.known and not answer.known)

    def _cells(self, question: BoundQuery, answer: Answer) -> Iterator[dict[str, Cell]]:
        """The rows of an answer: one for each of its known values that the query asks for."""
        cells = {name: self.terms.cell(label) for name, label in answer.values.items()}
        names = tuple(question.query.values)
        for values in product(*(self._values(answer, name) for name in names)):
            yield cells | dict(zip(names, values, strict=True))

    def _values(self, answer: Answer, name: str) -> list[Term]:
        """The known values of a column that pass its filters, or what is predicted."""
        value = answer.quantities[f"?{name}"]
        if value is None:
            return []
        terms = [quantity_term(each) for each in value.known]
        passed = [term for term in terms if self.query.has_value(name, term, self.known)]
        return passed if terms else [quantity_term(value.quantity)]

    def _listed(self, found: Sequence[Found]) -> list[Row]:
        """The distinct rows of answers with what the facts add, best first."""
        numbered = ((each.case, each.cells, at) for at, each in enumerate(found))
        table = self.query.solutions(numbered, self.known)
        best: dict[tuple[Cell, ...], Row] = {}
        names = [name for name, _ in self.query.order]
        width = len(self.query.names)
        for *cells, number in table.selected((*self.query.names, *names, ANSWER)).rows:
            each = found[number] if isinstance(number, int) else None
            if each is None:
                continue
            row = tuple(cells[:width])
            if row not in best or each.score > best[row].score:
                best[row] = Row(row, each.score, each.known, tuple(cells[width:]))
        rows = list(best.values())
        denied = any(each is not None and each.compiled.plan.has(Complement) for each in self.bound)
        by_score = self.query.by_score or denied
        if len(self.query.questions) != 1 or self.query.by_score:
            rows.sort(key=lambda row: (not by_score and not row.known, -row.score))
        for at, (_, down) in reversed([*enumerate(self.query.order)]):
            rows.sort(key=lambda row, at=at: self._rank(row.order[at]), reverse=down)  # type: ignore[misc]
        return rows

    def _rank(self, cell: Cell) -> tuple[int, float, str]:
        """What a cell is ordered by: those without a value first, then other terms, then values."""
        if cell is None:
            return 0, 0.0, ""
        term = self.terms.term(cell)
        quantity = quantity_of(term)
        return (1, 0.0, str(term)) if quantity is None else (2, quantity.value, "")

    def _collect(self, rows: Sequence[Row], names: Sequence[str], cut: str | None) -> Answers:
        """The rows as answers, which have the terms of their cells."""
        query = self.query
        kind = "tuples" if query.columns else "truth"
        if len(names) == 1 and all(row.cells[0] in self.terms.entities for row in rows):
            kind = "entities"
        return Answers(
            " ".join(query.text.split()),
            tuple(self._answer(row, names) for row in rows),
            self.certified,
            self.parts.config | {"new": self.new},
            kind=kind,
            variables=tuple(names),
            cut_by=cut or None,
            offset=0 if kind == "truth" or query.counting else self._span()[0],
            prefixes=self.parts.graph.prefixes,
            unknown=tuple(dict.fromkeys(map(str, query.unknown))),
        )

    def _answer(self, row: Row, names: Sequence[str]) -> Answer:
        values = dict.fromkeys(names, "")
        shown = dict(values)
        terms = dict[str, Term]()
        for name, cell in zip(names, row.cells, strict=True):
            if cell is not None:
                values[name] = self.terms.label(cell) or str(cell)
                shown[name] = self.terms.readable_name(cell)
                terms[name] = self.terms.term(cell)
        entity, i = "", -1
        if len(names) == 1:
            entity = values[names[0]]
            i = cell if isinstance(cell, int) and cell in self.terms.entities else -1
        return Answer(
            entity,
            i,
            row.score,
            math.log(row.score) if row.score else -math.inf,
            row.known,
            name=", ".join(filter(None, shown.values())),
            values=values,
            names=shown,
            terms=terms,
        )
