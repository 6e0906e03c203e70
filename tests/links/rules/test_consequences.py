"""What bodies hold for, against loops over all assignments, and against pyoxigraph."""

from __future__ import annotations

import numpy as np
import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad, Store

from rule_worlds import implied, random_graph, random_rule, triples_of
from tacit.graph.graph import Graph
from tacit.links.rules import consequences as joins
from tacit.links.rules.consequences import consequences, measured
from tacit.links.rules.rule_set import NONE, Rule


def pairs_of(graph: Graph, rule: Rule) -> list[tuple[int, int]]:
    """All that a rule implies, in the order in which it comes."""
    return [
        (int(head), int(tail))
        for heads, tails in consequences(graph.index("train"), rule)
        for head, tail in zip(heads, tails, strict=True)
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("block", [3, 2**20])
def test_rules_hold_for_what_loops_over_all_assignments_find(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joins, "_PATHS", block)
    monkeypatch.setattr(joins, "_FIRST", 2)
    graph = random_graph(seed)
    facts = triples_of(graph)
    rng = np.random.default_rng(seed)
    counts = []
    for rule in (random_rule(rng, graph) for _ in range(25)):
        expected = implied(rule, facts, graph.num_entities)
        assert pairs_of(graph, rule) == sorted(expected)
        rule = measured(graph.index("train"), rule)
        right = [(x, y) for x, y in expected if (x, rule.relation, y) in facts]
        assert (rule.groundings, rule.support) == (len(expected), len(right))
        assert rule.confidence == pytest.approx(len(right) / (len(expected) + 5))
        assert rule.written
        counts.append(len(expected))
    assert sum(map(bool, counts)) > 8


def pattern(rule: Rule) -> str:
    """A rule's body as a SPARQL query for all that it holds for."""
    nodes = [f"?v{i}" for i in range(len(rule.body) + 1)]
    constants = [f"<e:{each}>" for each in (rule.tail, rule.end) if each != NONE]
    if rule.end != NONE:
        nodes[-1] = f"<e:{rule.end}>"
    steps = [
        f"{b} <r:{r // 2}> {a} ." if r & 1 else f"{a} <r:{r // 2}> {b} ."
        for a, r, b in zip(nodes, rule.body, nodes[1:], strict=False)
    ]
    variables = [node for node in nodes if node[0] == "?"]
    differ = [
        f"FILTER({a} != {b})"
        for place, a in enumerate(variables)
        for b in (*variables[:place], *constants)
    ]
    shown = f"{nodes[0]} {nodes[-1]}" if rule.tail == NONE else nodes[0]
    return f"SELECT DISTINCT {shown} {{ {' '.join(steps + differ)} }}"


@pytest.mark.parametrize("seed", range(4))
def test_a_body_is_a_sparql_pattern(seed: int) -> None:
    graph = random_graph(seed, entities=15, facts=70)
    store = Store()
    for head, relation, tail in graph.train.tolist():
        ends = (NamedNode(f"e:{each}") for each in (head, tail))
        subject, object_ = ends
        store.add(Quad(subject, NamedNode(f"r:{relation // 2}"), object_, DefaultGraph()))
    rng = np.random.default_rng(seed)
    found = 0
    for rule in (random_rule(rng, graph) for _ in range(40)):
        rows = [tuple(int(node.value[2:]) for node in row) for row in store.query(pattern(rule))]
        expected = rows if rule.tail == NONE else [(row[0], rule.tail) for row in rows]
        assert pairs_of(graph, rule) == sorted(expected)
        found += len(rows)
    assert found > 100
