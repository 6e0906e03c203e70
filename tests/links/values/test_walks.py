"""What walks find, by a second implementation over dictionaries."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from tacit.graph.graph import Graph
from tacit.links.values.fitting import training_columns
from tacit.links.values.walks import ValueWalks, Walk
from value_graphs import Triples, with_values

Found = dict[tuple[Walk, int], tuple[float, float]]


def random_graph(seed: int) -> Graph:
    draw = np.random.default_rng(seed)
    facts: Triples = [
        (f"e{h}", f"r{r}", f"e{t}") for h, r, t in draw.integers((0, 0, 0), (9, 2, 9), (22, 3))
    ]
    names = sorted({end for fact in facts for end in (fact[0], fact[2])})
    values = {
        attribute: {
            name: (float(draw.integers(10)), "train") for name in names if draw.uniform() < 0.6
        }
        for attribute in ("x", "y")
    }
    return with_values(facts, values)


def by_hand(graph: Graph, target: int) -> Found:
    """The mean and number of values of each walk from each entity, by definition."""
    around = defaultdict(set)
    for head, relation, tail in graph.triples("train").tolist():
        if head != tail:
            around[head].add((relation, tail))
    value: list[dict[int, float]] = [
        dict(zip(*(column.tolist() for column in graph.attributes.column(a)), strict=True))
        for a in range(2)
    ]
    steps: dict[tuple[Walk, int], list[list[float]]] = defaultdict(list)
    for entity in range(graph.num_entities):
        for attribute in range(2):
            if attribute != target and entity in value[attribute]:
                steps[Walk((), attribute), entity].append([value[attribute][entity]])
        for relation, middle in around[entity]:
            for attribute in range(2):
                if middle in value[attribute]:
                    steps[Walk((relation,), attribute), entity].append([value[attribute][middle]])
            beyond = defaultdict(list)
            for second, end in around[middle]:
                if end != entity and end in value[target]:
                    beyond[second].append(value[target][end])
            for second, ends in beyond.items():
                steps[Walk((relation, second), target), entity].append(ends)
    return {
        key: (float(np.mean([np.mean(ends) for ends in each])), float(sum(map(len, each))))
        for key, each in steps.items()
    }


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", [0, 1])
def test_walks_find_what_their_definition_says(seed: int, target: int) -> None:
    graph = random_graph(seed)
    walks = ValueWalks(graph.index("train"), graph.num_entities, training_columns(graph), target)
    rows = walks.rows(np.arange(graph.num_entities))
    found = {
        (walks.walk(code), entity): (mean, count)
        for code, entity, mean, count in zip(
            *(column.tolist() for column in (rows.walks, rows.entities, rows.means, rows.counts)),
            strict=True,
        )
    }
    expected = by_hand(graph, target)
    assert found.keys() == expected.keys()
    for key, pair in expected.items():
        assert found[key] == pytest.approx(pair), key
    assert np.isfinite(rows.spreads).all()


@pytest.mark.parametrize("seed", range(6))
def test_walks_around_an_entity_are_its_walks(seed: int) -> None:
    graph = random_graph(seed)
    arguments = graph.index("train"), graph.num_entities, training_columns(graph), 0
    everywhere = ValueWalks(*arguments)
    for entity in range(graph.num_entities):
        here = np.array([entity])
        all_rows, rows = everywhere.rows(here), ValueWalks(*arguments, around=entity).rows(here)
        for name in ("walks", "means", "counts", "spreads"):
            assert np.allclose(getattr(all_rows, name), getattr(rows, name)), name


def test_no_walk_reads_the_value_it_starts_from() -> None:
    """However a value changes, what its own entity finds stays the same."""
    graph = random_graph(3)
    entities, values = graph.attributes.column(0)
    first = int(entities[0])
    found = []
    for change in (0.0, 1e6):
        columns = training_columns(graph)
        columns[0] = entities, values + change * (entities == first)
        walks = ValueWalks(graph.index("train"), graph.num_entities, columns, 0)
        rows = walks.rows(np.array([first]))
        found.append((rows.walks.tolist(), rows.means.tolist()))
    assert found[0] == found[1]


def test_a_neighbour_that_is_like_its_surroundings_tells_more() -> None:
    """The spread of a hop is how far other entities with the same hop are from its value."""
    facts = [(f"a{i}", "in", "small") for i in range(4)] + [
        (f"b{i}", "in", "wide") for i in range(4)
    ]
    latitude = {f"a{i}": (10.0 + i / 10, "train") for i in range(4)}
    latitude |= {f"b{i}": (20.0 * i, "train") for i in range(4)}
    latitude |= {"small": (10.0, "train"), "wide": (30.0, "train")}
    graph = with_values(facts, {"latitude": latitude})
    walks = ValueWalks(graph.index("train"), graph.num_entities, training_columns(graph), 0)
    code = walks.code(Walk((0,), 0))
    rows = walks.rows(np.arange(graph.num_entities))
    spread = dict(
        zip(rows.entities[rows.walks == code], rows.spreads[rows.walks == code], strict=True)
    )
    # from a0, the others in the same place are 0.1, 0.2 and 0.3 away from its latitude
    assert spread[graph.entities.id("a0")] == pytest.approx(np.sqrt((0.01 + 0.04 + 0.09) / 3))
    # from b0, they are 10, 10 and 30 away
    assert spread[graph.entities.id("b0")] == pytest.approx(np.sqrt((100 + 100 + 900) / 3))
