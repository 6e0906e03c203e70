"""Answers to random SPARQL queries and formulas, held against those of Oxigraph."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import pytest

from tacit.errors import PlanError, QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Term, Variable
from tacit.query.sparql import parse_sparql
from tacit.query.symbolic import symbolic_answers
from tacit.query.text import parse

pytest.importorskip("rdflib")
oxigraph = pytest.importorskip("pyoxigraph")

PREFIX = "PREFIX : <tacit:>\n"
RELATIONS = "pqr"
NAMED = 3  # entities that questions name; a graph has these and up to three more
TIMES = int(os.environ.get("TACIT_FUZZ", "300"))


def graphs(rng: Random) -> Iterator[tuple[Graph, Callable[[str], set[str | None]]]]:
    """Small random graphs, each with Oxigraph's way to answer over the same facts; in it every entity `is` a thing."""
    while True:
        entities = [f"e{i}" for i in range(rng.randrange(NAMED, 7))]
        share = rng.choice([0.1, 0.25, 0.5])
        facts = [(s, r, o) for s in entities for r in RELATIONS for o in entities if rng.random() < share]
        facts += [(e, r, rng.choice(entities)) for e in entities for r in RELATIONS if rng.random() < 0.1]
        facts += [(e, rng.choice(RELATIONS), e) for e in entities if not any(e in fact for fact in facts)]
        facts += [(entities[0], r, entities[1]) for r in RELATIONS if not any(r in fact for fact in facts)]
        store = oxigraph.Store()
        for fact in [*facts, *((e, "is", "thing") for e in entities)]:
            store.add(oxigraph.Quad(*(oxigraph.NamedNode(f"tacit:{name}") for name in fact)))

        def answered(text: str, store: oxigraph.Store = store) -> set[str | None]:
            return {row[0] and row[0].value.removeprefix("tacit:") for row in store.query(text)}

        for _ in range(5):
            yield Graph.of(dict.fromkeys(facts)), answered


class Groups:
    """Random group patterns over four variables, three entities and blank nodes."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.blanks = rng, count(1)

    def query(self) -> str:
        first = [f"?x {self.relation()} {self.term('[]')} .", f"{self.term('[]')} {self.relation()} ?x .", ""]
        group = self.group(self.rng.choice([1, 2, 2, 3]), self.rng.choices(first, [4, 4, 1])[0])
        return f"{PREFIX}SELECT {self.rng.choice(['', 'DISTINCT '])}?x WHERE {group}"

    def group(self, depth: int, first: str = "") -> str:
        kinds = [self.triples, self.triples, self.filter, self.filter, self.minus, self.union, self.union]
        parts = [
            self.rng.choice(kinds if depth else kinds[:1])(depth - 1)
            for _ in range(self.rng.choice([1, 1, 2, 3 if first else 2]))
        ]
        return f"{{ {first} {' '.join(parts) if self.rng.random() > 0.02 else ''} }}"

    def triples(self, _: int) -> str:
        blank = f"_:b{next(self.blanks)}"
        ends = [(self.term(blank), self.term(blank)) for _ in range(self.rng.choice([1, 1, 2]))]
        return " ".join(f"{subject} {self.relation()} {object_} ." for subject, object_ in ends)

    def union(self, depth: int) -> str:
        return " UNION ".join(self.group(depth) for _ in range(self.rng.choice([1, 2, 2, 3])))

    def minus(self, depth: int) -> str:
        return f"MINUS {self.group(depth)}"

    def filter(self, depth: int) -> str:
        if self.rng.random() < 0.7:
            return f"FILTER {self.exists(depth)}"
        return f"FILTER({self.exists(depth)} {self.rng.choice(['&&', '||'])} !{self.exists(depth)})"

    def exists(self, depth: int) -> str:
        return self.rng.choice(["EXISTS", "NOT EXISTS", "NOT EXISTS"]) + " " + self.group(depth)

    def relation(self) -> str:
        return ":" + self.rng.choice(RELATIONS)

    def term(self, blank: str) -> str:
        variable, entity = self.rng.choice(["?x", "?x", "?y", "?y", "?z", "?w"]), f":e{self.rng.randrange(NAMED)}"
        return self.rng.choices([variable, entity, blank], [16, 4, 1])[0]


def bound(formula: Formula) -> frozenset[Variable]:
    """The variables that every way to satisfy a formula gives a value; each quantified one must be among them."""
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
    return formula.free


REFUSALS = ["?x is not bound", "MINUS inside EXISTS", "FILTER speaks of", "the query has no answers", "more than"]


def test_sparql_is_answered_as_oxigraph_answers_it_or_refused() -> None:
    rng = Random(5)
    tally = Counter[str]()
    for _, (graph, expected) in zip(range(TIMES), graphs(rng), strict=False):
        text = Groups(rng).query()
        try:
            query = parse_sparql(text, graph).query
        except QueryError as error:
            (why,) = [words for words in REFUSALS if words in str(error)]
            tally[why] += 1
            continue
        assert bound(query.formula) == {query.target}
        answers = {graph.entities[i] for i in symbolic_answers(query, graph)}
        assert answers == expected(text), (text, query, graph.triples())
        tally["compared"] += 1
        tally["telling"] += 0 < len(answers) < graph.num_entities
    assert tally["compared"] > 0.6 * TIMES
    assert tally["telling"] > 0.4 * tally["compared"]


def formulas(rng: Random, depth: int, scope: list[Variable]) -> Formula:
    """A random formula over some variables; a quantifier may reuse a name."""

    def term() -> Term:
        return rng.choice(scope) if rng.random() < 0.8 else Entity(f"e{rng.randrange(NAMED)}")

    if not depth or rng.random() < 0.1:
        return Atom(rng.choice(RELATIONS), term(), term())
    kind = rng.choice([And, And, Or, Not, Exists, Exists])
    if kind is Exists:
        variable = Variable(rng.choice("tvwx"))
        inner = [*(v for v in scope if v != variable), variable]
        asserted = Atom(rng.choice(RELATIONS), *rng.sample([variable, rng.choice(inner)], 2))
        return Exists(variable, asserted & formulas(rng, depth - 1, inner))
    parts = [formulas(rng, depth - 1, scope) for _ in range(1 if kind is Not else rng.choice([2, 2, 3]))]
    return Not(parts[0]) if kind is Not else kind(tuple(parts))


def pattern(formula: Formula, names: dict[Variable, str], fresh: Iterator[int]) -> str:
    """A group whose solutions are the values of the variables of `names` that a formula holds of."""

    def term(end: Term) -> str:
        return names[end] if isinstance(end, Variable) else f":{end.name}"

    match formula:
        case Atom(relation, subject, object_):
            body = f"{term(subject)} :{relation} {term(object_)} ."
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
        asserted = Atom(rng.choice(RELATIONS), *rng.sample([target, Entity(f"e{rng.randrange(NAMED)}")], 2))
        formula = formulas(rng, rng.choice([1, 2, 3, 4]), [target])
        text = str(Query(target, rng.choice([formula, asserted & formula, Exists(Variable("x"), formula)])))
        query = parse(text)
        assert str(query) == text
        try:
            answers = {graph.entities[i] for i in symbolic_answers(query, graph)}
        except PlanError:
            tally["refused"] += 1
            continue
        sparql = f"{PREFIX}SELECT ?t WHERE {pattern(query.formula, {target: '?t'}, count())}"
        assert answers == expected(sparql), (text, sparql, graph.triples())
        tally["compared"] += 1
        tally["telling"] += 0 < len(answers) < graph.num_entities
    assert tally["compared"] > 0.6 * TIMES
    assert tally["telling"] > 0.3 * tally["compared"]
