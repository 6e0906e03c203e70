"""Mined rules beside those of plain loops over all bodies and entities, and of SPARQL patterns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from seeds import seeds
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_set import NONE, PRIOR, Rule
from tacit.links.rules.settings import RuleSettings

Fact = tuple[int, int, int]
# what a rule says, and how often it holds
Counts = dict[tuple[tuple[int, ...], int, int, int], tuple[int, int]]


def graph_of(facts: set[Fact], entities: int, relations: int) -> Graph:
    """A graph of forward facts by number."""
    return Graph(
        Vocabulary(f"e{i}" for i in range(entities)),
        directed(f"r{i}" for i in range(relations)),
        np.array(sorted(facts), dtype=np.int32).reshape(-1, 3),
    )


def random_graph(seed: int) -> Graph:
    """A small graph with loops, a symmetric relation, a copied one and one without facts."""
    random = np.random.default_rng(seed)
    entities = int(random.integers(3, 8))
    relations = 4
    facts: set[Fact] = set()
    for _ in range(int(random.integers(1, 22))):
        head, tail = random.integers(entities, size=2).tolist()
        kind = int(random.integers(3))
        facts.add((head, 2 * kind, tail))
        if kind == 1:
            facts.add((tail, 2, head))
        if kind == 0 and random.random() < 0.7:
            facts.add((head, 4, tail))
    return graph_of(facts, entities, relations)


def both_ways(graph: Graph) -> set[Fact]:
    return {fact for h, r, t in graph.train.tolist() for fact in ((h, r, t), (t, r ^ 1, h))}


def counts_of(
    body: tuple[int, ...], relation: int, end: int, tail: int, facts: set[Fact], entities: int
) -> tuple[int, int]:
    """The support and the groundings of a rule, by trying all entities for all variables."""
    grounded = set()
    for path in product(range(entities), repeat=len(body) + 1):
        variables = path[:-1] if end != NONE else path
        terms = [*variables, *{end, tail} - {NONE}]
        if len(set(terms)) < len(terms) or (end != NONE and path[-1] != end):
            continue
        if all((path[i], r, path[i + 1]) in facts for i, r in enumerate(body)):
            grounded.add((path[0], path[-1] if tail == NONE else tail))
    return sum((x, relation, y) in facts for x, y in grounded), len(grounded)


def all_rules(graph: Graph, length: int) -> Counts:
    """Every rule that holds twice or more, by plain loops."""
    facts = both_ways(graph)
    size, entities = graph.num_relations, graph.num_entities
    shapes = [
        (body, relation, NONE, NONE)
        for atoms in range(1, length + 1)
        for body in product(range(size), repeat=atoms)
        for relation in range(size)
        if body != (relation,)
    ]
    shapes += [
        ((body,), relation, end, tail)
        for body, relation in product(range(size), repeat=2)
        for end, tail in product((NONE, *range(entities)), range(entities))
        if (body, end) != (relation, tail)
    ]
    found = {shape: counts_of(*shape, facts, entities) for shape in shapes}
    return {shape: counts for shape, counts in found.items() if counts[0] >= 2}


def mined(graph: Graph, **settings: int) -> list[Rule]:
    rules = mine(graph, RuleSettings(**settings))
    return [rules[place] for place in range(len(rules))]


def named(rules: list[Rule]) -> Counts:
    named = {
        (rule.body, rule.relation, rule.end, rule.tail): (rule.support, rule.groundings)
        for rule in rules
    }
    assert len(named) == len(rules)
    return named


@pytest.mark.parametrize("seed", seeds(40))
def test_all_rules_of_two_atoms_are_those_of_plain_loops(seed: int) -> None:
    graph = random_graph(seed)
    rules = mined(graph, length=2)
    assert named(rules) == all_rules(graph, 2)
    assert all(rule.exact and not rule.off and not rule.written for rule in rules)
    for rule in rules:
        assert rule.confidence == pytest.approx(rule.support / (rule.groundings + PRIOR))


def test_some_rules_of_every_kind_were_compared() -> None:
    kinds = {
        (len(body), end == NONE, tail == NONE)
        for seed in seeds(40)
        for body, _, end, tail in all_rules(random_graph(seed), 2)
    }
    assert kinds == {(1, True, True), (2, True, True), (1, False, False), (1, True, False)}
