"""Counts, worked out by hand."""

from __future__ import annotations

import json

import pytest

from tacit.graph.graph import Graph
from tacit.graph.statistics import Statistics

GRAPH = Graph.of(
    [
        ("Oslo", "in", "Norway"),
        ("Bergen", "in", "Norway"),
        ("Norway", "contains", "Oslo"),
        ("Norway", "contains", "Bergen"),
        ("Norway", "borders", "Sweden"),
    ],
    [("Sweden", "borders", "Norway")],
    [("Stockholm", "in", "Sweden")],
    name="nordic",
)


def test_counts() -> None:
    statistics = Statistics.of(GRAPH, hubs=2)
    assert (statistics.name, statistics.num_entities, statistics.num_relations) == ("nordic", 5, 3)
    assert statistics.facts == {"train": 5, "valid": 1, "test": 1}
    assert statistics.evaluable == {"train": 5, "valid": 1, "test": 0}
    assert statistics.hubs == (("Norway", 6), ("Sweden", 3))
    # degrees: Oslo 2, Norway 6, Bergen 2, Sweden 3, Stockholm 1
    assert (statistics.degrees["p0"], statistics.degrees["p50"], statistics.degrees["p100"]) == (
        1,
        2,
        6,
    )


def test_relations_come_by_frequency_with_what_is_special_about_them() -> None:
    inside, contains, borders = Statistics.of(GRAPH).relations
    assert (inside.name, contains.name, borders.name) == ("in", "contains", "borders")
    assert inside.facts == {"train": 2, "valid": 0, "test": 1}
    assert (inside.heads, inside.tails) == (3, 2)
    assert (inside.tails_per_head, inside.heads_per_tail) == (1.0, 1.5)
    assert (inside.symmetry, borders.symmetry) == (0.0, 1.0)
    assert [r.symmetric for r in (inside, contains, borders)] == [False, False, True]
    assert inside.repeats == ()  # 2 of 3 facts is less than 0.8
    assert borders.repeats == ()


def test_repeated_relations_name_each_other() -> None:
    graph = Graph.of([("a", "in", "b"), ("b", "has", "a"), ("a", "inside", "b")])
    repeats = {r.name: set(r.repeats) for r in Statistics.of(graph).relations}
    assert repeats == {
        "in": {"has^-1", "inside"},
        "has": {"in^-1", "inside^-1"},
        "inside": {"in", "has^-1"},
    }


def test_to_json_is_plain() -> None:
    statistics = Statistics.of(GRAPH)
    back = json.loads(json.dumps(statistics.to_json()))
    assert back["facts"] == {"train": 5, "valid": 1, "test": 1}
    assert back["relations"][2]["symmetric"] is True
    assert back["hubs"][0] == ["Norway", 6]


def test_an_empty_graph_has_statistics() -> None:
    statistics = Statistics.of(Graph.of([]))
    assert statistics.facts == {"train": 0, "valid": 0, "test": 0}
    assert statistics.hubs == ()
    assert statistics.degrees["p100"] == pytest.approx(0)
