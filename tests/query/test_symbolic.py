"""Exact answers over all assignments, by hand, and over the official queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import ENTITIES, RELATIONS, queries, symbolic_answers, tables, truth
from tacit.errors import UnknownName
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Variable
from tacit.query.plans import plan as p
from tacit.query.plans import symbolic
from tacit.query.plans.compile import compile_query
from tacit.query.plans.sets import AnswerSets, Sets
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.queries import QuerySet, easy_and_hard, with_answers
from tacit.query.sampling.shapes import DE_MORGAN, SHAPES, Shape
from tacit.query.text import parse

Fact = tuple[int, str, int]


def brute_force(query: Query, facts: set[Fact], size: int) -> list[int]:
    held = truth(query.formula, tables(facts, size), (query.target,))
    return np.flatnonzero(np.broadcast_to(held, size)).tolist()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[set[Fact], int]:
    size = draw(st.integers(len(ENTITIES), 12))
    ends = st.integers(0, size - 1)
    return draw(st.sets(st.tuples(ends, st.sampled_from(RELATIONS), ends), max_size=30)), size


def indexed(facts: set[Fact]) -> FactIndex:
    rows = [(h, 2 * RELATIONS.index(r), t) for h, r, t in facts]
    rows += [(t, r + 1, h) for h, r, t in rows]
    return FactIndex(np.array(rows, dtype=np.int32).reshape(-1, 3), 2 * len(RELATIONS))


def filled(query: Query) -> tuple[p.Plan, np.ndarray, np.ndarray]:
    prepared = compile_query(query, safe=False)
    entities = np.array([[int(name[1:]) for name in prepared.entities]], dtype=np.int32)
    relations = np.array(
        [[2 * RELATIONS.index(name) for name in prepared.relations]], dtype=np.int32
    )
    return prepared.plan, entities, relations


@settings(max_examples=250, deadline=None)
@given(queries(), graphs())
def test_any_formula_over_any_graph(query: Query, graph: tuple[set[Fact], int]) -> None:
    facts, size = graph
    assert answers(*filled(query), indexed(facts), size)[0].tolist() == brute_force(
        query, facts, size
    )


@settings(max_examples=60, deadline=None)
@given(queries(), st.lists(graphs(), min_size=1, max_size=1), st.data())
def test_a_batch_is_its_queries_one_by_one(
    query: Query, graph: list[tuple[set[Fact], int]], data: st.DataObject
) -> None:
    facts, size = graph[0]
    plan = compile_query(query, safe=False).plan
    slots = st.lists(
        st.integers(0, size - 1), min_size=plan.num_entities, max_size=plan.num_entities
    )
    kinds = st.lists(
        st.integers(0, 2 * len(RELATIONS) - 1),
        min_size=plan.num_relations,
        max_size=plan.num_relations,
    )
    rows = data.draw(st.lists(st.tuples(slots, kinds), min_size=2, max_size=6))
    entities = np.array([row[0] for row in rows], dtype=np.int32).reshape(len(rows), -1)
    relations = np.array([row[1] for row in rows], dtype=np.int32)
    together = answers(plan, entities, relations, indexed(facts), size)
    for i in range(len(rows)):
        alone = answers(plan, entities[i : i + 1], relations[i : i + 1], indexed(facts), size)
        assert together[i].tolist() == alone[0].tolist()


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(name: str) -> None:
    random = np.random.default_rng(5)
    facts = {
        (int(h), RELATIONS[r], int(t)) for h, r, t in random.integers(0, [10, 3, 10], (150, 3))
    }
    shape = SHAPES[name]
    index = indexed(facts)
    entities = random.integers(0, 10, (80, shape.num_entities), dtype=np.int32)
    relations = random.integers(0, 3, (80, shape.num_relations), dtype=np.int32) * 2
    found = answers(shape.plan, entities, relations, index, 10)
    assert found.counts.sum() > 40  # the comparison is about something
    for row, (es, rs) in enumerate(zip(entities.tolist(), relations.tolist(), strict=True)):
        text = {f"e{i + 1}": f"e{e}" for i, e in enumerate(es)} | {
            f"r{i + 1}": RELATIONS[r // 2] for i, r in enumerate(rs)
        }
        assert found[row].tolist() == brute_force(renamed(shape.query, text), facts, 10)


def renamed(query: Query, names: dict[str, str]) -> Query:
    def walk(formula: Formula) -> Formula:
        match formula:
            case Atom(relation, subject, object_):
                ends = (
                    Entity(names[e.name]) if isinstance(e, Entity) else e
                    for e in (subject, object_)
                )
                return Atom(names[relation], *ends)
            case And(parts) | Or(parts):
                return type(formula)(tuple(map(walk, parts)))
            case Not(part):
                return Not(walk(part))
            case Exists(variable, part):
                return Exists(variable, walk(part))
        raise AssertionError(formula)

    return Query(query.target, walk(query.formula))


def test_small_portions_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    index = FactIndex(random.integers(0, [50, 6, 50], (2000, 3)), 6)
    entities = random.integers(0, 50, (40, 3))
    relations = random.integers(0, 6, (40, 4))
    roots = [shape.plan.root for shape in SHAPES.values()]
    roots.append(
        p.Project(
            1, p.Complement(p.Row(0, p.Relation(0))), p.Union((p.Relation(1), p.Target(p.Loop(2))))
        )
    )
    roots.append(
        p.Cutset(1, 3, p.Row(0, p.Relation(0)), p.Intersect((p.Row(3, p.Relation(1)), p.Loop(2))))
    )
    plans = [p.Plan(root, 3, 4, 3) for root in roots]
    whole = [answers(plan, entities, relations, index, 50) for plan in plans]
    for name, size in (("BATCH", 7), ("COPIES", 5), ("_FACTS", 9)):
        monkeypatch.setattr(symbolic, name, size)
    for plan, expected in zip(plans, whole, strict=True):
        assert answers(plan, entities, relations, index, 50).to_sets() == expected.to_sets()
        assert expected.counts.any()


@pytest.mark.parametrize("name", DE_MORGAN)
def test_de_morgan_forms_taken_literally_give_the_union(name: str) -> None:
    random = np.random.default_rng(2)
    index = FactIndex(random.integers(0, [50, 6, 50], (600, 3)), 6)
    entities = random.integers(0, 50, (40, 2))
    relations = random.integers(0, 6, (40, 3))
    union = answers(SHAPES[name].plan, entities, relations, index, 50)
    literal = answers(Shape.of_structure(DE_MORGAN[name]).plan, entities, relations, index, 50)
    assert union.to_sets() == literal.to_sets()
    assert union.counts.sum() > 40


# relation 0 from 0 and 4, 2 from 1 and 2
EDGES = [(0, 0, 1), (0, 0, 2), (1, 2, 3), (2, 2, 3), (2, 2, 2), (4, 0, 4)]


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (p.Everything(), [0, 1, 2, 3, 4]),
        (p.Loop(1), [2]),
        # entity 1 is a tail of (0, relation 0)
        (p.At(p.Row(0, p.Relation(0)), 1), [0, 1, 2, 3, 4]),
        (p.At(p.Row(0, p.Relation(1)), 1), []),
        (p.Best(1, p.Loop(0)), [0, 1, 2, 3, 4]),
        (p.Project(1, p.Complement(p.Loop(1)), p.Relation(1)), [3]),  # from anywhere but 2
        (p.Project(1, p.Everything(), p.Complement(p.Relation(0))), [0, 1, 2, 3, 4]),
        (p.Project(1, p.Loop(0), p.Complement(p.Relation(0))), [0, 1, 2, 3]),
        (
            p.Project(
                1, p.Row(0, p.Relation(0)), p.Intersect((p.Relation(1), p.Source(p.Loop(1))))
            ),
            [2, 3],
        ),
        (
            p.Project(
                1, p.Row(0, p.Relation(0)), p.Intersect((p.Relation(1), p.Target(p.Loop(1))))
            ),
            [2],
        ),
        (
            p.Project(
                1, p.Row(0, p.Relation(0)), p.Union((p.Relation(0), p.Relation(1, flip=True)))
            ),
            [2],
        ),
        (p.Cutset(1, 2, p.Row(0, p.Relation(0)), p.Row(2, p.Relation(1))), [2, 3]),
        (p.Cutset(1, 2, p.Everything(), p.Complement(p.Row(2, p.Relation(0)))), [0, 1, 2, 3, 4]),
        (p.Complement(p.Union((p.Loop(0), p.Loop(1), p.Best(1, p.Loop(0))))), []),
    ],
)
def test_nodes_by_hand(root: p.Node, expected: list[int]) -> None:
    plan = p.Plan(root, 2, 2, 3)
    edges = np.array(EDGES + [(t, r + 1, h) for h, r, t in EDGES])
    found = answers(plan, np.array([[0, 1]]), np.array([[0, 2]]), FactIndex(edges, 4), 5)
    assert found[0].tolist() == expected


def test_an_empty_graph_and_no_queries() -> None:
    index = FactIndex(np.empty((0, 3), dtype=np.int32), 2)
    for name in ("2p", "2in", "up"):
        shape = SHAPES[name]
        one = (
            np.zeros((1, shape.num_entities), dtype=np.int32),
            np.zeros((1, shape.num_relations), dtype=np.int32),
        )
        assert answers(shape.plan, *one, index, 3).to_sets() == [set()]
        assert len(answers(shape.plan, one[0][:0], one[1][:0], index, 3)) == 0


def world() -> Graph:
    return Graph.of(
        train=[("a", "likes", "b"), ("a", "likes", "c"), ("b", "fears", "c")],
        valid=[("a", "likes", "d")],
        test=[("b", "fears", "b"), ("a", "likes", "e")],
    )


def test_easy_answers_stay_easy_though_a_fact_rules_them_out() -> None:
    graph = world()
    a = graph.entities.id("a")
    b = graph.entities.id("b")
    likes = graph.relations.id("likes")
    fears = graph.relations.id("fears")
    slots = np.array([[a, b]], dtype=np.int32), np.array([[likes, fears]], dtype=np.int32)
    easy, hard = easy_and_hard(SHAPES["2in"].plan, *slots, graph, "test")
    # b is none any more: it fears itself in the test facts
    assert [graph.entities[i] for i in easy[0]] == ["b", "d"]
    assert [graph.entities[i] for i in hard[0]] == ["e"]
    empty, every = easy_and_hard(SHAPES["2in"].plan, *slots, graph, "train")
    assert (empty.to_sets(), [graph.entities[i] for i in every[0]]) == ([set()], ["b"])
    unanswered = QuerySet(SHAPES["2in"], *slots, AnswerSets.none(1), AnswerSets.none(1))
    assert with_answers(unanswered, graph, "valid").hard[0].tolist() == [graph.entities.id("d")]


def test_one_question() -> None:
    graph = world()
    c = Variable("c")
    question = Query(c, Atom("likes", Entity("a"), c) & ~Atom("fears", Entity("b"), c))
    assert [graph.entities[i] for i in symbolic_answers(question, graph)] == ["d", "e"]
    assert [graph.entities[i] for i in symbolic_answers(question, graph, "train")] == ["b"]
    with pytest.raises(UnknownName, match="did you mean 'likes'"):
        symbolic_answers(Query(c, Atom("like", Entity("a"), c)), graph)


sets_of = st.lists(
    st.tuples(st.booleans(), st.frozensets(st.integers(0, 5))), min_size=1, max_size=5
)


def batch(rows: list[tuple[bool, frozenset[int]]]) -> Sets:
    keys = sorted(6 * i + e for i, (_, row) in enumerate(rows) for e in row)
    return Sets(np.array(keys, dtype=np.int64), np.array([cofinite for cofinite, _ in rows]), 6)


def plain(rows: list[tuple[bool, frozenset[int]]]) -> list[frozenset[int]]:
    return [frozenset(range(6)) - row if cofinite else row for cofinite, row in rows]


def listed(sets: Sets) -> list[frozenset[int]]:
    pairs = [
        (r, e)
        for rows, ids in sets.members()
        for r, e in zip(rows.tolist(), ids.tolist(), strict=True)
    ]
    return [frozenset(e for r, e in pairs if r == row) for row in range(len(sets))]


@given(sets_of, st.data())
def test_finite_and_cofinite_sets(
    rows: list[tuple[bool, frozenset[int]]], data: st.DataObject
) -> None:
    other = data.draw(
        st.lists(sets_of.flatmap(st.sampled_from), min_size=len(rows), max_size=len(rows))
    )
    one = batch(rows)
    two = batch(other)
    a = plain(rows)
    b = plain(other)
    assert listed(one) == a
    assert listed(~one) == [frozenset(range(6)) - x for x in a]
    assert listed(one & two) == [x & y for x, y in zip(a, b, strict=True)]
    assert listed(one | two) == [x | y for x, y in zip(a, b, strict=True)]
    assert one.nonempty().tolist() == [bool(x) for x in a]
    order = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    assert listed(one.take(np.array(order, dtype=np.int64))) == [a[i] for i in order]
    owners = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    )
    unions = [
        frozenset[int]().union(*(x for x, o in zip(a, owners, strict=True) if o == owner))
        for owner in range(3)
    ]
    assert listed(one.union_by(owners, 3)) == unions


class Watched(np.ndarray):
    """An array that may be looked up in, but not gone through."""

    def __array_function__(self, function, types, args, kwargs):  # type: ignore[no-untyped-def]
        if function is np.searchsorted:
            return function(*(np.asarray(argument) for argument in args), **kwargs)
        raise AssertionError(f"{function.__name__} goes through all {len(self)}")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):  # type: ignore[no-untyped-def]
        raise AssertionError(f"{ufunc.__name__} goes through all {len(self)}")

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return np.asarray(self)[place]


@pytest.mark.parametrize(
    "formula",
    [
        "exists ?y . r(e1, ?y) & q(?y, ?x)",
        "r(?x, ?x) & q(?x, e5)",
        "exists ?y . !r(e1, ?y) & q(?y, ?x)",
    ],
)
def test_only_the_first_question_goes_through_all_facts(formula: str) -> None:
    facts = [(i, "r", i if i % 5 == 0 else i + 1) for i in range(20)] + [
        (i, "q", i // 2) for i in range(20)
    ]
    graph = Graph.of([(f"e{h}", relation, f"e{t}") for h, relation, t in facts])
    query = parse(f"?x : {formula}")
    index = graph.index()
    expected = brute_force(query, set(facts), graph.num_entities)
    assert symbolic_answers(query, graph).tolist() == expected
    assert expected
    for name in ("keys", "offsets", "all_tails"):
        setattr(index, name, getattr(index, name).view(Watched))
    assert symbolic_answers(query, graph).tolist() == expected
