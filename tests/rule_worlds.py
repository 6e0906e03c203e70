"""Small random graphs and rules, and what the rules imply by plain loops over assignments."""

from __future__ import annotations

from itertools import product

import numpy as np

from tacit.graph.graph import Graph
from tacit.links.rules.rule_set import NONE, Rule

Triple = tuple[int, int, int]


def random_graph(seed: int, entities: int = 7, relations: int = 3, facts: int = 24) -> Graph:
    """A graph of a few entities, with loops among its facts."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"e{rng.integers(entities)}", f"r{rng.integers(relations)}", f"e{rng.integers(entities)}")
        for _ in range(facts)
    ]
    return Graph.of([*rows, *((f"e{i}", "r0", f"e{i}") for i in range(2))], name="random")


def random_rule(rng: np.random.Generator, graph: Graph) -> Rule:
    """A rule of any form, which may hold for nothing."""
    body = tuple(int(each) for each in rng.integers(graph.num_relations, size=rng.integers(1, 4)))
    relation = int(rng.integers(graph.num_relations))
    kind = int(rng.integers(3))
    tail = NONE if kind == 0 else int(rng.integers(graph.num_entities))
    end = int(rng.integers(graph.num_entities)) if kind == 1 else NONE
    return Rule(body, relation, end, tail)


def triples_of(graph: Graph, *splits: str) -> set[Triple]:
    """The directed triples of a graph."""
    return {(int(h), int(r), int(t)) for h, r, t in graph.triples(*splits)}


def implied(rule: Rule, facts: set[Triple], entities: int) -> set[tuple[int, int]]:
    """The pairs that a rule implies: every assignment of distinct entities is tried."""
    constants = {rule.tail, rule.end} - {NONE}
    free = len(rule.body) + (rule.end == NONE)
    pairs = set()
    for values in product(range(entities), repeat=free):
        if len(set(values)) < free or constants & set(values):
            continue
        path = values if rule.end == NONE else (*values, rule.end)
        steps = zip(path, rule.body, path[1:], strict=False)
        if all((a, r, b) in facts for a, r, b in steps):
            pairs.add((path[0], path[-1] if rule.tail == NONE else rule.tail))
    return pairs
