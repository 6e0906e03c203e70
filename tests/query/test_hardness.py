"""How many links an answer is missing: against the definition over all assignments, and by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import RELATIONS, Facts, answers, fact_sets, holds, queries
from tacit.errors import DataError
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
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
    Variable,
)
from tacit.query.plans import symbolic
from tacit.query.plans.compile import compile_query
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.hardness import missing_links, most_links
from tacit.query.sampling.queries import QuerySet, easy_and_hard
from tacit.query.sampling.shapes import SHAPES, Shape

NEVER = 10**6
Where = dict[Variable, str]


def cost(
    formula: Formula, observed: Facts, every: Facts, entities: tuple[str, ...], where: Where
) -> int:
    """The least number of missing facts, by the definition, one assignment after the other."""
    match formula:
        case Atom(relation, subject, object_):
            ends = [
                end.name if isinstance(end, Entity) else where[end] for end in (subject, object_)
            ]
            fact = (ends[0], relation, ends[1])
            return 0 if fact in observed else 1 if fact in every else NEVER
        case Inequality():
            return 0 if holds(formula, every, entities, where) else NEVER
        case And(parts):
            return min(NEVER, sum(cost(part, observed, every, entities, where) for part in parts))
        case Or(parts):
            return min(cost(part, observed, every, entities, where) for part in parts)
        case Not(part):
            return NEVER if holds(part, every, entities, where) else 0
        case Exists(variable, part):
            return min(
                cost(part, observed, every, entities, {**where, variable: e}) for e in entities
            )
    raise AssertionError(formula)


def graph_of(observed: Facts, every: Facts, entities: tuple[str, ...]) -> Graph:
    """Observed facts as training facts, the missing ones as test facts."""
    rows = [
        np.array(
            [
                (entities.index(s), 2 * RELATIONS.index(r), entities.index(o))
                for s, r, o in sorted(facts)
            ],
            np.int32,
        ).reshape(-1, 3)
        for facts in (observed, every - observed)
    ]
    return Graph(Vocabulary(entities), directed(RELATIONS), train=rows[0], test=rows[1])


def query_set_of(query: Query, every: Facts, entities: tuple[str, ...]) -> QuerySet:
    """A query with every answer it has, hard or easy, as a hard one."""
    prepared = compile_query(query, safe=False)
    slots = np.array([[int(name[1:]) for name in prepared.entities]], dtype=np.int32)
    relations = np.array(
        [[2 * RELATIONS.index(name) for name in prepared.relations]], dtype=np.int32
    )
    found = AnswerSets.of([[entities.index(e) for e in answers(query, every, entities)]])
    return QuerySet(Shape("any", query, prepared.plan), slots, relations, AnswerSets.none(1), found)


@settings(max_examples=150, deadline=None)
@given(queries(depth=3, size=6), fact_sets(4), st.integers(0, 2**32 - 1))
def test_any_formula_over_any_graph(
    query: Query, facts: tuple[Facts, tuple[str, ...]], seed: int
) -> None:
    every, entities = facts
    random = np.random.default_rng(seed)
    observed = frozenset(fact for fact in sorted(every) if random.random() < 0.5)
    found = query_set_of(query, every, entities)
    expected = [
        cost(query.formula, observed, every, entities, {query.target: entities[i]})
        for i in found.hard.ids.tolist()
    ]
    assert (
        missing_links(found, graph_of(observed, every, entities), "test", ("train",)).tolist()
        == expected
    )
    assert max(expected, default=0) <= most_links(found.shape.plan.root)


def random_graph(size: int = 9) -> Graph:
    random = np.random.default_rng(3)
    facts = np.unique(random.integers(0, [size, 3, size], (90, 3), dtype=np.int32), axis=0)
    facts[:, 1] *= 2
    parts = np.split(random.permutation(facts), [len(facts) // 2, 2 * len(facts) // 3])
    return Graph(Vocabulary(f"e{i}" for i in range(size)), directed(RELATIONS), *parts)


# The positive atoms of each shape, as (from, relation slot, to), and the denied ones, every
# variable outside a negation bound once: "t" is the target, numbers are entity slots.
ATOMS: dict[str, list[list[tuple[object, int, str]]]] = {
    "1p": [[(0, 0, "t")]],
    "2p": [[(0, 0, "u"), ("u", 1, "t")]],
    "3p": [[(0, 0, "u"), ("u", 1, "v"), ("v", 2, "t")]],
    "2i": [[(0, 0, "t"), (1, 1, "t")]],
    "3i": [[(0, 0, "t"), (1, 1, "t"), (2, 2, "t")]],
    "pi": [[(0, 0, "u"), ("u", 1, "t"), (1, 2, "t")]],
    "ip": [[(0, 0, "u"), (1, 1, "u"), ("u", 2, "t")]],
    "2u": [[(0, 0, "t")], [(1, 1, "t")]],
    "up": [[(0, 0, "u"), ("u", 2, "t")], [(1, 1, "u"), ("u", 2, "t")]],
    "2in": [[(0, 0, "t")]],
    "3in": [[(0, 0, "t"), (1, 1, "t")]],
    "inp": [[(0, 0, "u"), ("u", 2, "t")]],
    "pin": [[(0, 0, "u"), ("u", 1, "t")]],
    "pni": [[(1, 2, "t")]],
}
DENIED: dict[str, list[tuple[object, int, str]]] = {
    "2in": [(1, 1, "t")],
    "3in": [(2, 2, "t")],
    "inp": [(1, 1, "u")],
    "pin": [(1, 2, "t")],
    "pni": [(0, 0, "w"), ("w", 1, "t")],
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_over_all_assignments(name: str) -> None:
    graph = random_graph()
    shape = SHAPES[name]
    random = np.random.default_rng(1)
    known, every = (set(map(tuple, graph.triples(*parts).tolist())) for parts in (("train",), ()))
    entities = random.integers(0, graph.num_entities, (25, shape.num_entities), dtype=np.int32)
    relations = random.integers(0, graph.num_relations, (25, shape.num_relations), dtype=np.int32)
    costs: list[dict[int, int]] = []
    for es, rs in zip(entities.tolist(), relations.tolist(), strict=True):
        costs.append({})
        for values in product(range(graph.num_entities), repeat=3):
            where = {**dict(enumerate(es)), **dict(zip("tuv", values, strict=True))}

            def fact(atom: tuple[object, int, str], where=where, rs=rs) -> tuple[int, int, int]:
                return where[atom[0]], rs[atom[1]], where[atom[2]]

            denied = [
                all(fact(atom, {**where, "w": w}) in every for atom in DENIED.get(name, ()))
                for w in range(graph.num_entities)
            ]
            if name in DENIED and any(denied):
                continue
            for atoms in ATOMS[name]:
                facts = [fact(atom) for atom in atoms]
                if all(each in every for each in facts):
                    links = sum(each not in known for each in facts)
                    costs[-1][values[0]] = min(links, costs[-1].get(values[0], NEVER))
    hard = AnswerSets.of([set(found) for found in costs])
    found = QuerySet(shape, entities, relations, AnswerSets.none(25), hard)
    expected = [
        costs[row][entity]
        for row, entity in zip(hard.rows.tolist(), hard.ids.tolist(), strict=True)
    ]
    assert missing_links(found, graph, "test", ("train",)).tolist() == expected
    assert len(set(expected)) > 1  # the comparison is about something


def test_small_portions_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle = Query(
        T := Variable("t"),
        Exists(
            x := Variable("x"),
            Exists(y := Variable("y"), Atom("r", x, y) & Atom("q", y, T) & Atom("p", T, x)),
        ),
    )
    graph = random_graph()
    every = frozenset((f"e{s}", RELATIONS[r // 2], f"e{t}") for s, r, t in graph.facts().tolist())
    found = query_set_of(cycle, every, tuple(graph.entities))
    whole = missing_links(found, graph)
    assert len(set(whole.tolist())) > 1
    for name, size in (("BATCH", 2), ("COPIES", 3), ("_FACTS", 4)):
        monkeypatch.setattr(symbolic, name, size)
    assert missing_links(found, graph).tolist() == whole.tolist()


def test_what_is_known_decides() -> None:
    """From a: a -r-> b is a training fact, b -q-> c a validation fact, b -q-> d a test fact."""
    graph = Graph.of(
        [("a", "r", "b")],
        valid=[("b", "q", "c")],
        test=[("b", "q", "d"), ("a", "r", "e"), ("e", "q", "f")],
    )
    ids = graph.entities.id
    labels = graph.relations.id
    slots = np.array([[ids("a")]], np.int32), np.array([[labels("r"), labels("q")]], np.int32)
    hard = AnswerSets.of([{ids("c"), ids("d"), ids("f")}])
    paths = QuerySet(SHAPES["2p"], *slots, AnswerSets.none(1), hard)

    def links(split: str, observed: tuple[str, ...] | None = None) -> dict[str, int]:
        found = missing_links(paths, graph, split, observed).tolist()
        return dict(zip([graph.entities[i] for i in hard.ids], found, strict=True))

    assert links("test") == {"c": 0, "d": 1, "f": 2}
    assert links("test", ("train",)) == {"c": 1, "d": 1, "f": 2}
    assert links("test", ()) == {"c": 2, "d": 2, "f": 2}
    with pytest.raises(
        DataError, match="2 of the 3 hard answers of the 2p queries do not follow from the train"
    ):
        links("valid")


def test_a_double_negation_costs_what_it_denies_nothing() -> None:
    graph = Graph.of([("a", "r", "b")], test=[("a", "q", "b")])
    t = Variable("t")
    query = Query(
        t,
        Atom("r", Entity("a"), t) & Not(Atom("r", Entity("a"), t) & Not(Atom("q", Entity("a"), t))),
    )
    prepared = compile_query(query)
    slots = np.zeros((1, len(prepared.entities)), np.int32)
    relations = np.array([[graph.relations.id(name) for name in prepared.relations]], np.int32)
    shape = Shape("nested", query, prepared.plan)
    easy, hard = easy_and_hard(prepared.plan, slots, relations, graph, "test")
    # hard, for a q b alone, which stands in a negation
    assert (easy.to_sets(), hard.to_sets()) == ([set()], [{1}])
    assert missing_links(QuerySet(shape, slots, relations, easy, hard), graph).tolist() == [0]
