"""Query graphs mean what their question means, by all assignments of variables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from formulas import ENTITIES, RELATIONS, queries
from tacit.encode.networks.query_graph import FREE, Link, QueryGraph, query_graphs
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Relation
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.shapes import SHAPES
from tacit.query.text import parse
from writings import cycles

SIZE = 3
Facts = set[tuple[int, int, int]]


def facts(seed: int) -> Facts:
    drawn = np.random.default_rng(seed).integers(0, [SIZE, len(RELATIONS), SIZE], (10, 3))
    return {(int(h), int(r), int(t)) for h, r, t in drawn}


def holds(
    graph: QueryGraph, known: Facts, slots: list[int], names: list[int], answer: int, value: int
) -> bool:
    """Whether some values of the variables around a variable make all of its links true."""
    around = [answer]
    links = []
    for term in around:
        for link in graph.links:
            if (
                link.relation is not None
                and term in (link.source, link.target)
                and link not in links
            ):
                links.append(link)
                around += [
                    end for end in (link.source, link.target) if end >= FREE and end not in around
                ]
    denials = [link for link in graph.links if link.relation is None and link.target in around]
    for chosen in product(range(SIZE), repeat=len(around) - 1):
        values = dict(zip(around, (value, *chosen), strict=True))

        def value_of(term: int, values: dict[int, int] = values) -> int:
            return values[term] if term >= FREE else slots[-1 - term]

        def is_true(link: Link, value_of=value_of) -> bool:  # type: ignore[no-untyped-def]
            assert link.relation is not None
            ends = (value_of(link.source), value_of(link.target))
            subject, object_ = ends[::-1] if link.relation.flip else ends
            return (subject, names[link.relation.slot], object_) in known

        if all(is_true(link) != link.negated for link in links) and not any(
            holds(graph, known, slots, names, denial.source, value_of(denial.target))
            for denial in denials
        ):
            return True
    return False


@given(st.one_of(queries(), cycles()), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_graphs_have_the_answers_of_the_question(query: Query, seed: int) -> None:
    prepared = compile_query(query, safe=False)
    try:
        graphs = query_graphs(prepared.plan)
    except PlanError:
        assume(False)
    known = facts(seed)
    slots = [ENTITIES.index(name) for name in prepared.entities]
    names = [RELATIONS.index(name) for name in prepared.relations]
    both = [(h, 2 * r, t) for h, r, t in known] + [(t, 2 * r + 1, h) for h, r, t in known]
    index = FactIndex(np.array(sorted(both)), 2 * len(RELATIONS))
    expected = answers(
        prepared.plan,
        np.array([slots], dtype=np.int64).reshape(1, -1),
        2 * np.array([names]),
        index,
        SIZE,
    )
    found = [
        t
        for t in range(SIZE)
        if any(holds(graph, known, slots, names, FREE, t) for graph in graphs)
    ]
    assert found == sorted(expected[0].tolist())


def signs(name: str) -> list[list[tuple[int, int, int | None, bool]]]:
    return [
        [
            (each.source, each.target, each.relation and each.relation.slot, each.negated)
            for each in graph.links
        ]
        for graph in query_graphs(SHAPES[name].plan)
    ]


def test_the_shapes_of_the_benchmarks() -> None:
    """Entities are -1, -2, -3, the target is 0; each branch of a union is a graph."""
    first = (-1, 0, 0, False)
    second = (-2, 0, 1, False)
    assert signs("1p") == [[first]]
    assert signs("2p") == [[(-1, 1, 0, False), (1, 0, 1, False)]]
    assert signs("3p") == [[(-1, 2, 0, False), (2, 1, 1, False), (1, 0, 2, False)]]
    assert signs("2i") == [[first, second]]
    assert signs("3i") == [[first, second, (-3, 0, 2, False)]]
    assert signs("pi") == [[(-1, 1, 0, False), (1, 0, 1, False), (-2, 0, 2, False)]]
    assert signs("ip") == [[(-1, 1, 0, False), (-2, 1, 1, False), (1, 0, 2, False)]]
    assert signs("2u") == [[first], [second]]
    assert signs("up") == [
        [(-1, 1, 0, False), (1, 0, 2, False)],
        [(-2, 1, 1, False), (1, 0, 2, False)],
    ]
    assert signs("2in") == [[first, (-2, 0, 1, True)]]
    assert signs("3in") == [[first, second, (-3, 0, 2, True)]]
    assert signs("inp") == [[(-1, 1, 0, False), (-2, 1, 1, True), (1, 0, 2, False)]]
    assert signs("pin") == [[(-1, 1, 0, False), (1, 0, 1, False), (-2, 0, 2, True)]]
    assert signs("pni") == [
        [(-1, 1, 0, False), (1, 2, 1, False), (2, 0, None, True), (-2, 0, 2, False)]
    ]


def graph_of(question: str) -> QueryGraph:
    (graph,) = query_graphs(compile_query(parse(question)).plan)
    return graph


def test_cycles_are_cycles_and_parallel_atoms_parallel() -> None:
    triangle = graph_of("?t : r(e, ?x) & q(?x, ?y) & p(?y, ?t) & s(?x, ?t)")
    ends = [sorted((each.source, each.target)) for each in triangle.links if each.source > 0]
    assert sorted(ends) == [[0, 1], [0, 2], [1, 2]]
    assert (triangle.depth, len(triangle.distances)) == (2, 4)
    parallel = graph_of("?t : s(e, ?x) & r(?x, ?t) & !q(?t, ?x)")
    between = [(each.relation, each.negated) for each in parallel.links if each.source > 0]
    assert [negated for _, negated in between] == [False, True]
    assert [relation and relation.flip for relation, _ in between] == [False, True]
    loop = graph_of("?t : r(?t, ?t) & q(e, ?t)")
    assert Link(0, 0, Relation(1)) in loop.links
    assert len(loop.messages_to(0)) == 3  # it says something of either end


@pytest.mark.parametrize(
    ("question", "step"),
    [
        ("?t : r(e, ?t) & q(e, f)", "no answer occurs in"),
        ("?t : r(e, ?t) & s(f, ?t) & q(e, f)", "no answer occurs in"),
        ("?t : r(e, ?t) & exists ?x . q(?x, f)", r"no answer occurs in \(Best\)"),
        ("?t : s(e, ?x) & r(?x, ?t) & !(q(?x, ?t) & p(?x, ?t))", "speaks of two variables"),
        (
            "?t : " + " & ".join(f"(r(e{i}, ?t) | q(f{i}, ?t))" for i in range(30)),
            "more than 16 branches",
        ),
    ],
)
def test_what_no_graph_can_say_is_refused(question: str, step: str) -> None:
    with pytest.raises(PlanError, match=step):
        query_graphs(compile_query(parse(question)).plan)
