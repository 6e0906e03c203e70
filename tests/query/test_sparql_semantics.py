"""Answers to random SPARQL queries and formulas, held against those of Oxigraph."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import numpy as np
import pytest

from formulas import symbolic_answers, tables, truth
from tacit.engine.engine import Engine
from tacit.errors import PlanError, QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Term,
    Variable,
)
from tacit.query.question import ParsedQuestion
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.sparql.table_query import TableQuery
from tacit.query.text import parse

pytest.importorskip("rdflib")
oxigraph = pytest.importorskip("pyoxigraph")

PREFIX = "PREFIX : <tacit:>\n"
RELATIONS = "pqr"
NAMED = 3  # entities that questions name; a graph has these and up to three more
TIMES = int(os.environ.get("TACIT_FUZZ", "150"))


Rows = set[tuple[str | None, ...]]


def graphs(rng: Random) -> Iterator[tuple[Graph, Callable[[str], Rows]]]:
    """Small random graphs in which every entity `is` a thing, each with an Oxigraph store."""
    while True:
        entities = [f"e{i}" for i in range(rng.randrange(NAMED, 7))]
        share = rng.choice([0.1, 0.25, 0.5])
        facts = [
            (s, r, o) for s in entities for r in RELATIONS for o in entities if rng.random() < share
        ]
        facts += [
            (e, r, rng.choice(entities)) for e in entities for r in RELATIONS if rng.random() < 0.1
        ]
        facts += [
            (e, rng.choice(RELATIONS), e) for e in entities if not any(e in fact for fact in facts)
        ]
        facts += [
            (entities[0], r, entities[1]) for r in RELATIONS if not any(r in fact for fact in facts)
        ]
        store = oxigraph.Store()
        for fact in [*facts, *((e, "is", "thing") for e in entities)]:
            store.add(oxigraph.Quad(*(oxigraph.NamedNode(f"tacit:{name}") for name in fact)))

        def answered(text: str, store: oxigraph.Store = store) -> Rows:
            found = store.query(text)
            if isinstance(found, oxigraph.QueryBoolean):
                return {()} if found else set()
            return {
                tuple(term and term.value.removeprefix("tacit:") for term in row) for row in found
            }

        for _ in range(5):
            yield Graph.of(dict.fromkeys(facts)), answered


FORMS = [  # and what binds what they ask for
    ("SELECT ?x", ""),
    ("SELECT DISTINCT ?x", ""),
    ("SELECT ?x ?y", "?y :p|^:q [] ."),
    ("ASK", ""),
    ("SELECT (COUNT(DISTINCT ?x) AS ?n)", ""),
    ("SELECT (COUNT(?x) AS ?n)", ""),
]


class Groups:
    """Random group patterns over four variables, three entities and blank nodes."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.blanks = count(1)

    def query(self) -> str:
        first = [
            f"?x {self.path()} {self.term('[]')} .",
            f"{self.term('[]')} {self.path()} ?x .",
            "",
        ]
        form, asserted = self.rng.choices(FORMS, [4, 4, 4, 2, 1, 1])[0]
        begin = " ".join([self.rng.choices(first, [4, 4, 1])[0], asserted])
        group = self.group(self.rng.choice([0, 1, 2, 2, 3]), begin)
        return f"{PREFIX}{form} WHERE {group}{self.values(0) if self.rng.random() < 0.1 else ''}"

    def group(self, depth: int, first: str = "") -> str:
        kinds = [
            self.values,
            *[self.triples] * 4,
            *[self.filter] * 4,
            *[self.minus] * 2,
            *[self.union] * 4,
        ]
        parts = [
            self.rng.choice(kinds if depth else kinds[:5])(depth - 1)
            for _ in range(self.rng.choice([1, 1, 2, 3 if first else 2]))
        ]
        return f"{{ {first} {' '.join(parts) if self.rng.random() > 0.02 else ''} }}"

    def triples(self, _: int) -> str:
        blank = f"_:b{next(self.blanks)}"
        ends = [(self.term(blank), self.term(blank)) for _ in range(self.rng.choice([1, 1, 2]))]
        return " ".join(f"{subject} {self.path()} {object_} ." for subject, object_ in ends)

    def values(self, _: int) -> str:
        variables = self.rng.sample(["?x", "?x", "?y", "?z", "?w"], self.rng.choice([1, 1, 1, 2]))
        rows = [
            [
                self.rng.choices([f":e{self.rng.randrange(NAMED)}", "UNDEF"], [9, 1])[0]
                for _ in variables
            ]
        ]
        rows += [
            [f":e{self.rng.randrange(NAMED)}" for _ in variables]
            for _ in range(self.rng.randrange(3))
        ]
        if len(set(variables)) == 1:
            return f" VALUES {variables[0]} {{ {' '.join(row[0] for row in rows)} }} "
        block = " ".join(f"({' '.join(row)})" for row in rows)
        return f" VALUES ({' '.join(variables)}) {{ {block} }} "

    def union(self, depth: int) -> str:
        return " UNION ".join(self.group(depth) for _ in range(self.rng.choice([1, 2, 2, 3])))

    def minus(self, depth: int) -> str:
        return f"MINUS {self.group(depth)}"

    def filter(self, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.5:
            return f"FILTER {self.exists(depth)}"
        if kind < 0.75:
            return f"FILTER({self.rng.choice(['', '', '!'])}({self.unequal()}))"
        one = self.exists(depth)
        two = self.rng.choice([self.exists(depth), f"({self.unequal()})"])
        return f"FILTER({one} {self.rng.choice(['&&', '||'])} !{two})"

    def unequal(self) -> str:
        one = self.rng.choice(["?x", "?x", "?y", "?z"])
        other = self.rng.choice(["?x", "?y", "?w", f":e{self.rng.randrange(NAMED)}"])
        one, other = self.rng.sample([one, other], 2)
        return self.rng.choice(
            [f"{one} != {other}", f"{one} != {other}", f"!sameTerm({one}, {other})"]
        )

    def exists(self, depth: int) -> str:
        return self.rng.choice(["EXISTS", "NOT EXISTS", "NOT EXISTS"]) + " " + self.group(depth)

    def path(self, depth: int = 2) -> str:
        if not depth or self.rng.random() < 0.8:
            return ":" + self.rng.choice(RELATIONS)
        one = self.path(depth - 1)
        two = self.path(depth - 1)
        return self.rng.choice(
            [f"^({one})", f"^{one}" if one[0] == ":" else one, f"({one}/{two})", f"({one}|{two})"]
        )

    def term(self, blank: str) -> str:
        variable = self.rng.choice(["?x", "?x", "?y", "?y", "?z", "?w"])
        entity = f":e{self.rng.randrange(NAMED)}"
        return self.rng.choices([variable, entity, blank], [16, 4, 1])[0]


def bound(formula: Formula) -> frozenset[Variable]:
    """The variables bound in every solution of a formula; quantified ones must be bound."""
    match formula:
        case And(parts):
            return frozenset[Variable]().union(*map(bound, parts))
        case Or(parts):
            return frozenset.intersection(*map(bound, parts))
        case Exists(variable, part):
            assert variable in bound(part), formula
            return bound(part) - {variable}
        case Not(part):
            bound(part)
            return frozenset()
        case Inequality():
            return frozenset()
    return formula.free


REFUSALS = [
    "is not bound",
    "MINUS inside EXISTS",
    "FILTER speaks of",
    "FILTER compares",
    "more than",
    "VALUES after a count",
    "VALUES inside EXISTS",
]


def rows_of(reading: ParsedQuestion, graph: Graph) -> Rows:
    """The rows that a reading means, from facts alone."""
    query = reading.query
    shown = [column for column in reading.columns if column.shows == "value"]
    facts = (
        (graph.entities[s], graph.relations[r], graph.entities[t]) for s, r, t in graph.facts()
    )
    numbered = ((int(s[1:]), relation, int(t[1:])) for s, relation, t in facts)
    held = truth(query.formula, tables(numbered, graph.num_entities), query.targets)
    rows: Rows = set()
    for ids in np.argwhere(np.broadcast_to(held, (graph.num_entities,) * len(query.targets))):
        binding = {target.name: f"e{i}" for target, i in zip(query.targets, ids, strict=True)}
        if reading.among is None or set(binding.values()) <= set(reading.among):
            rows.add(
                tuple(binding.get(column.name, column.label) for column in shown)
                if shown
                else tuple(binding.values())
            )
    return {(str(len(rows)),)} if query.count else rows


def table_rows(query: TableQuery, graph: Graph) -> Rows:
    """The rows of a query that is no formula, from facts alone."""
    answers = Engine.of_facts(graph).ask(query)
    if answers.kind == "truth":
        return {()} if answers.truth == "yes" else set()
    return {
        tuple((answer.terms or {}).get(name) and answer.values[name] for name in answers.variables)
        for answer in answers
    }


def test_sparql_is_answered_as_oxigraph_answers_it_or_refused() -> None:
    rng = Random(5)
    # it takes its parser long
    tally = Counter[str]()
    times = TIMES * 2 // 3
    for _, (graph, expected) in zip(range(times), graphs(rng), strict=False):
        text = Groups(rng).query()
        try:
            reading = parse_sparql(text, graph)
        except QueryError as error:
            (why,) = [words for words in REFUSALS if words in str(error)]
            tally[why] += 1
            continue
        if isinstance(reading, TableQuery):
            # what two alternatives find is counted twice by the standard, and once by Oxigraph
            if reading.counting and re.search(r"[\w)]\|", text):
                continue
            assert table_rows(reading, graph) == expected(text), (text, graph.triples())
            tally["table"] += 1
            continue
        query = reading.query
        assert bound(query.formula) == set(query.targets) or reading.among is not None
        rows = rows_of(reading, graph)
        assert rows == expected(text), (text, query, graph.triples())
        if query.kind == "entities" and len(reading.columns) == 1 and reading.among is None:
            assert {(graph.entities[i],) for i in symbolic_answers(query, graph)} == rows
        tally["compared"] += 1
        tally["among" if reading.among else query.kind] += 1
        tally["telling"] += (
            0 < len(rows) < graph.num_entities ** len(query.targets) or query.kind == "truth"
        )
    assert tally["compared"] > 0.4 * times
    assert tally["telling"] > 0.4 * tally["compared"]
    assert all(
        tally[kind] > 0.01 * times
        for kind in ("entities", "tuples", "truth", "count", "among", "table")
    ), tally


def formulas(rng: Random, depth: int, scope: list[Variable]) -> Formula:
    """A random formula over some variables; a quantifier may reuse a name."""

    def term() -> Term:
        return rng.choice(scope) if rng.random() < 0.8 else Entity(f"e{rng.randrange(NAMED)}")

    if not depth or rng.random() < 0.1:
        sides = term(), term()
        if rng.random() < 0.2 and (sides[0] != sides[1] or isinstance(sides[0], Entity)):
            return Inequality(*sides)
        return Atom(rng.choice(RELATIONS), *sides)
    kind = rng.choice([And, And, Or, Not, Exists, Exists])
    if kind is Exists:
        variable = Variable(rng.choice("tvwx"))
        inner = [*(v for v in scope if v != variable), variable]
        asserted = Atom(rng.choice(RELATIONS), *rng.sample([variable, rng.choice(inner)], 2))
        return Exists(variable, asserted & formulas(rng, depth - 1, inner))
    parts = [
        formulas(rng, depth - 1, scope) for _ in range(1 if kind is Not else rng.choice([2, 2, 3]))
    ]
    return Not(parts[0]) if kind is Not else kind(tuple(parts))


def pattern(formula: Formula, names: dict[Variable, str], fresh: Iterator[int]) -> str:
    """A group whose solutions are the values of `names` for which a formula holds."""

    def term(end: Term) -> str:
        return names[end] if isinstance(end, Variable) else f":{end.name}"

    match formula:
        case Atom(relation, subject, object_):
            body = f"{term(subject)} :{relation} {term(object_)} ."
        case Inequality(left, right):
            body = f"FILTER({term(left)} != {term(right)})"
        case And(parts):
            body = " ".join(pattern(part, names, fresh) for part in parts)
        case Or(parts):
            body = " UNION ".join(pattern(part, names, fresh) for part in parts)
        case Not(part):
            body = f"FILTER NOT EXISTS {pattern(part, names, fresh)}"
        case Exists(variable, part):
            body = pattern(part, {**names, variable: f"?v{next(fresh)}"}, fresh)
        case _:
            raise AssertionError(formula)
    return "{ " + " ".join(f"{name} :is :thing ." for name in names.values()) + f" {body} }}"


def test_text_is_answered_as_oxigraph_answers_its_translation_or_refused() -> None:
    rng = Random(6)
    tally = Counter[str]()
    target = Variable("t")
    for _, (graph, expected) in zip(range(TIMES), graphs(rng), strict=False):
        asserted = Atom(
            rng.choice(RELATIONS), *rng.sample([target, Entity(f"e{rng.randrange(NAMED)}")], 2)
        )
        formula = formulas(rng, rng.choice([1, 2, 3, 4]), [target])
        text = str(
            Query(target, rng.choice([formula, asserted & formula, Exists(Variable("x"), formula)]))
        )
        query = parse(text)
        assert str(query) == text
        try:
            answers = {graph.entities[i] for i in symbolic_answers(query, graph)}
        except PlanError:
            tally["refused"] += 1
            continue
        sparql = f"{PREFIX}SELECT ?t WHERE {pattern(query.formula, {target: '?t'}, count())}"
        assert {(answer,) for answer in answers} == expected(sparql), (
            text,
            sparql,
            graph.triples(),
        )
        tally["compared"] += 1
        tally["telling"] += 0 < len(answers) < graph.num_entities
    assert tally["compared"] > 0.6 * TIMES
    assert tally["telling"] > 0.3 * tally["compared"]
