"""Mined rules beside those of plain loops over all bodies and entities, and of SPARQL patterns."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from seeds import seeds
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_set import NONE, PRIOR, Rule
from tacit.links.rules.settings import RuleSettings

Fact = tuple[int, int, int]
Shape = tuple[tuple[int, ...], int, int, int]  # body, relation, end, tail
Counts = dict[Shape, tuple[int, int]]  # support and groundings


def graph_of(facts: set[Fact], entities: int, relations: int) -> Graph:
    """A graph of forward facts by number."""
    return Graph(
        Vocabulary(f"e{i}" for i in range(entities)),
        directed(f"r{i}" for i in range(relations)),
        np.array(sorted(facts), dtype=np.int32).reshape(-1, 3),
    )


def random_graph(seed: int, least: int = 1) -> Graph:
    """A small graph with loops, a symmetric relation, a copied one and one without facts."""
    random = np.random.default_rng(seed)
    entities = int(random.integers(3, 8))
    relations = 4
    facts: set[Fact] = set()
    for _ in range(int(random.integers(least, 22))):
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


def groundings_of(
    body: tuple[int, ...], end: int, tail: int, facts: set[Fact], entities: int
) -> set[tuple[int, int]]:
    """The ends of the head for which a body holds, by trying all entities for all variables."""
    found = set()
    for path in product(range(entities), repeat=len(body) + 1):
        variables = path[:-1] if end != NONE else path
        terms = [*variables, *{end, tail} - {NONE}]
        if len(set(terms)) < len(terms) or (end != NONE and path[-1] != end):
            continue
        if all((path[i], r, path[i + 1]) in facts for i, r in enumerate(body)):
            found.add((path[0], path[-1] if tail == NONE else tail))
    return found


def all_rules(graph: Graph, length: int) -> Counts:
    """Every rule that holds twice or more, by plain loops."""
    facts = both_ways(graph)
    relations, entities = range(graph.num_relations), range(graph.num_entities)
    ends = [((p,), c, d) for p in relations for c in (NONE, *entities) for d in entities]
    ends += [
        (body, NONE, NONE)
        for atoms in range(1, length + 1)
        for body in product(relations, repeat=atoms)
    ]
    found: Counts = {}
    for body, end, tail in ends:
        pairs = groundings_of(body, end, tail, facts, len(entities))
        for relation in relations:
            if (body, end) != ((relation,), tail):  # its own head
                support = sum((x, relation, y) in facts for x, y in pairs)
                found[body, relation, end, tail] = support, len(pairs)
    return {
        shape: counts
        for shape, counts in found.items()
        if counts[0] >= 2 and (shape[2] == NONE or says_more(shape, found))
    }


def says_more(shape: Shape, found: Counts) -> bool:
    """Whether a body with a constant is worth more than the same one with anything there."""
    body, relation, _, tail = shape
    support, groundings = found[shape]
    others, of = found[body, relation, NONE, tail]
    return others < 2 or Fraction(support, groundings + PRIOR) > Fraction(others, of + PRIOR)


def mined(graph: Graph, **settings: Any) -> list[Rule]:
    rules = mine(graph, RuleSettings(**settings))
    return [rules[place] for place in range(len(rules))]


def named(rules: list[Rule]) -> Counts:
    named = {
        (rule.body, rule.relation, rule.end, rule.tail): (rule.support, rule.groundings)
        for rule in rules
    }
    assert len(named) == len(rules)
    return named


@pytest.mark.parametrize("seed", seeds(30))
def test_rules_of_two_atoms_and_with_constants_are_those_of_plain_loops(seed: int) -> None:
    graph = random_graph(seed)
    rules = mined(graph, length=2)
    assert named(rules) == all_rules(graph, 2)
    assert all(rule.exact and not rule.off and not rule.written for rule in rules)
    for rule in rules:
        assert rule.confidence == pytest.approx(rule.support / (rule.groundings + PRIOR))


@pytest.mark.parametrize("seed", seeds(6))
def test_with_time_enough_rules_of_three_atoms_are_all_found(seed: int) -> None:
    graph = random_graph(seed, least=12)
    rules = mined(graph, length=3, rules_per_relation=100_000, seconds=100)
    assert named(rules) == all_rules(graph, 3)
    assert any(len(rule.body) == 3 for rule in rules)
    assert all(rule.exact for rule in rules)


def test_rules_of_every_kind_were_compared() -> None:
    kinds = {
        (len(body), end == NONE, tail == NONE)
        for seed in seeds(30)
        for body, _, end, tail in named(mined(random_graph(seed), length=2))
    }
    assert kinds == {(1, True, True), (2, True, True), (1, False, False), (1, True, False)}
