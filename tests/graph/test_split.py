"""Splits that do not give themselves away."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import SettingsError
from tacit.graph.datasets import load
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.split import split
from tacit.graph.statistics import redundancies

Fact = tuple[str, str, str]


def of(rows: list[Fact]) -> Graph:
    return Graph.of(rows)


def parts_of(graph: Graph) -> dict[Fact, str]:
    return {
        (graph.entities[h], graph.relations[r], graph.entities[t]): part
        for part in SPLITS
        for h, r, t in graph.split(part).tolist()
    }


@pytest.fixture
def leaky_graph() -> Graph:
    """Cities in countries, with synonyms and inverses, mutual friends, and other facts."""
    rng = np.random.default_rng(5)
    rows: list[Fact] = []
    for i in range(300):
        city = f"city {i}"
        country = f"country {i % 20}"
        rows += [(city, "in", country), (country, "contains", city), (city, "located in", country)]
        rows.append((city, "twinned with", f"city {(i + 7) % 300}"))
    for a, b in {
        tuple(sorted(pair))
        for pair in rng.integers(0, 300, (500, 2)).tolist()
        if pair[0] != pair[1]
    }:
        rows += [(f"city {a}", "near", f"city {b}"), (f"city {b}", "near", f"city {a}")]
    return of(rows)


def test_no_held_out_fact_can_be_read_off_the_training_facts(leaky_graph: Graph) -> None:
    part = parts_of(split(leaky_graph, seed=3))
    assert part.keys() == parts_of(leaky_graph).keys()
    for head, relation, tail in part:
        mine = part[head, relation, tail]
        if relation == "near":
            assert part[tail, "near", head] == mine
        if relation == "in":
            assert part[tail, "contains", head] == mine
            assert part[head, "located in", tail] == mine


def test_every_entity_and_relation_keeps_a_training_fact(leaky_graph: Graph) -> None:
    for seed in range(5):
        parts = split(leaky_graph, 0.2, 0.2, seed)
        assert set(parts.train[:, [0, 2]].ravel()) == set(range(parts.num_entities))
        assert set(parts.train[:, 1]) == set(range(0, parts.num_relations, 2))
        for name in ("valid", "test"):
            assert len(parts.evaluable(name)) == len(parts.split(name))


def test_the_shares_are_those_asked_for(leaky_graph: Graph) -> None:
    total = len(leaky_graph.train)
    parts = split(leaky_graph, 0.05, 0.15)
    assert len(parts.valid) == pytest.approx(0.05 * total, abs=4)
    assert len(parts.test) == pytest.approx(0.15 * total, abs=4)
    assert len(parts.facts()) == total
    assert parts.notes == ()
    whole = split(leaky_graph, 0, 0)
    assert np.array_equal(whole.train, leaky_graph.train)


def test_a_seed_gives_one_split(leaky_graph: Graph) -> None:
    assert parts_of(split(leaky_graph, seed=1)) == parts_of(split(leaky_graph, seed=1))
    assert parts_of(split(leaky_graph, seed=1)) != parts_of(split(leaky_graph, seed=2))


def test_too_few_spare_facts_are_noted() -> None:
    chain = of([(str(i), "next", str(i + 1)) for i in range(30)])
    parts = split(chain, 0.3, 0.3)
    assert set(parts.train[:, [0, 2]].ravel()) == set(range(31))
    assert parts.notes[0].startswith("valid: ")
    assert "where 9 were asked for" in parts.notes[0]


@pytest.mark.parametrize(
    ("valid", "test"), [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (0.1, 2.0), (0.1, math.nan)]
)
def test_impossible_shares_are_refused(leaky_graph: Graph, valid: float, test: float) -> None:
    with pytest.raises(SettingsError, match="must be shares"):
        split(leaky_graph, valid, test)


def test_an_empty_graph_splits_into_nothing() -> None:
    assert len(split(of([])).facts()) == 0


def test_redundant_relations_are_found(leaky_graph: Graph) -> None:
    named = {
        (leaky_graph.relations[r], leaky_graph.relations[other]): share
        for (r, other), share in redundancies(leaky_graph).items()
    }
    assert named == {
        ("in", "contains^-1"): 1.0,
        ("in", "located in"): 1.0,
        ("contains", "located in^-1"): 1.0,
        ("near", "near^-1"): 1.0,
    }


def test_overlap_is_the_smaller_share_and_counts_every_part() -> None:
    same = [(str(i), "r", str(i + 1)) for i in range(10)]
    graph = Graph.of(same[:6], same[6:], [(h, "s", t) for h, _, t in same[:8]])
    assert redundancies(graph) == {(0, 2): 0.8}
    assert redundancies(replace(graph, test=graph.test[1:])) == {}


def test_relations_that_only_contain_others_are_left_alone() -> None:
    cities = [(f"city {i}", "in", "x") for i in range(10)]
    assert redundancies(of([*cities, ("city 0", "capital of", "x")])) == {}


def test_the_split_of_the_world_gives_nothing_away() -> None:
    world = load("world")
    part = parts_of(world)
    for head, relation, tail in part:
        if relation == "borders":
            assert part[tail, relation, head] == part[head, relation, tail]
    for name in ("valid", "test"):
        assert len(world.evaluable(name)) == len(world.split(name))
