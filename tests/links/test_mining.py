"""Mined rules beside those of plain loops over all bodies and entities, and of SPARQL patterns."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch

from seeds import seeds
from tacit.fitting.progress import Event
from tacit.graph.datasets import load
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.rules import closed_rules, constant_rules, long_rules, loopless_facts
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_set import NONE, PRIOR, SAMPLED, Rule, RuleSet
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


@pytest.fixture(scope="module")
def medium() -> Graph:
    """A graph of 60 entities in which bodies of two atoms have hundreds of paths."""
    random = np.random.default_rng(1)
    drawn = 60 * random.random((2, 500)) ** 1.5
    facts = {
        (int(h), 2 * int(r), int(t))
        for h, r, t in zip(drawn[0], random.integers(3, size=500), drawn[1], strict=True)
    }
    return graph_of(facts, 60, 3)


def equal(one: RuleSet, other: RuleSet) -> bool:
    pairs = zip(one.to_tensors().values(), other.to_tensors().values(), strict=True)
    return all(torch.equal(left, right) for left, right in pairs)


def test_patterns_of_sparql_count_the_same() -> None:
    """A body is a pattern whose variables and constants are told apart by a filter."""
    pyoxigraph = pytest.importorskip("pyoxigraph")
    graph = load("world")
    store = pyoxigraph.Store()
    lines = [f"<e:{h}> <r:{r}> <e:{t}> ." for h, r, t in sorted(both_ways(graph))]
    store.bulk_load("\n".join(lines).encode(), pyoxigraph.RdfFormat.N_TRIPLES)
    rules = mine(graph, RuleSettings(seconds=1))
    lengths = (rules.body != NONE).sum(axis=1)
    kinds = lengths * 4 + (rules.end != NONE) * 2 + (rules.tail != NONE)
    random = np.random.default_rng(0)
    for kind in np.unique(kinds):
        places = np.flatnonzero(kinds == kind)
        for place in random.choice(places, min(12, len(places)), replace=False).tolist():
            rule = rules[place]
            if not rule.exact:
                continue
            terms = [f"?v{i}" for i in range(len(rule.body))]
            terms.append(f"?v{len(rule.body)}" if rule.end == NONE else f"<e:{rule.end}>")
            last = terms[-1] if rule.tail == NONE else f"<e:{rule.tail}>"
            body = " ".join(
                f"{terms[i]} <r:{atom}> {terms[i + 1]} ." for i, atom in enumerate(rule.body)
            )
            apart = " && ".join(f"{a} != {b}" for a, b in combinations({*terms, last}, 2))
            names = "?v0" if rule.tail != NONE else f"?v0 {last}"
            counts = [
                len(list(store.query(f"SELECT DISTINCT {names} {{ {pattern} FILTER({apart}) }}")))
                for pattern in (body, f"{body} ?v0 <r:{rule.relation}> {last} .")
            ]
            assert [rule.groundings, rule.support] == counts, rule
    assert len(np.unique(kinds)) == 5


def test_rules_come_by_relation_with_closed_ones_first_by_falling_confidence() -> None:
    rules = mine(load("world"), RuleSettings(seconds=1))
    places = [
        (rule.relation, rule.tail != NONE, -rule.confidence)
        for rule in map(rules.__getitem__, range(len(rules)))
    ]
    assert places == sorted(places)


def test_the_same_seed_gives_the_same_rules_at_any_speed(
    medium: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = RuleSettings(seconds=0.2, seed=3)
    monkeypatch.setattr(closed_rules, "MOST_PAIRS", 200)
    first = mine(medium, settings)
    assert (first.flags & SAMPLED).any()
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    monkeypatch.setattr(time, "perf_counter", lambda: 1e9)
    assert equal(first, mine(medium, settings))
    assert not equal(first, mine(medium, RuleSettings(seconds=0.2, seed=4)))


def test_joins_in_small_chunks_give_the_same_rules(
    medium: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mine(medium, RuleSettings(length=2))
    monkeypatch.setattr(loopless_facts, "CHUNK", 50)
    assert equal(whole, mine(medium, RuleSettings(length=2)))


def test_the_best_rules_of_a_relation_are_kept(medium: Graph) -> None:
    every = mined(medium, length=2)
    few = mined(medium, length=2, rules_per_relation=3)
    for relation in range(medium.num_relations):
        closed = [rule for rule in every if rule.relation == relation and rule.tail == NONE]
        assert len(closed) > 3
        assert [r for r in few if r.relation == relation and r.tail == NONE] == closed[:3]


def test_the_best_constants_of_a_body_and_of_a_head_are_kept(
    medium: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [rule for rule in mined(medium, length=1) if rule.end != NONE]
    monkeypatch.setattr(constant_rules, "BODIES", 2)
    monkeypatch.setattr(constant_rules, "TAILS", 1)
    few = {rule for rule in mined(medium, length=1) if rule.end != NONE}
    of_head: dict[tuple[int, int], list[Rule]] = {}
    for rule in every:
        of_head.setdefault((rule.relation, rule.tail), []).append(rule)
    assert max(map(len, of_head.values())) > 2
    of_body: dict[tuple[int, ...], list[Rule]] = {}
    for rule in [rule for rules in of_head.values() for rule in rules[:2]]:
        of_body.setdefault((rule.relation, *rule.body, rule.end), []).append(rule)
    assert max(map(len, of_body.values())) > 1
    best = {
        min(rules, key=lambda r: (-r.confidence, -r.support, r.tail)) for rules in of_body.values()
    }
    assert few == best


@pytest.mark.parametrize("bound", ["MOST_PAIRS", "MOST_LOOKUPS"])
def test_estimates_are_flagged_and_near(
    medium: Graph, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    exact = named(mined(medium, length=2))
    monkeypatch.setattr(closed_rules, bound, 600)
    estimates = [rule for rule in mined(medium, length=2) if not rule.exact]
    assert len(estimates) > 20
    assert all(len(rule.body) == 2 and rule.tail == NONE for rule in estimates)
    errors = [
        (rule.support / of[0], rule.groundings / of[1])
        for rule in estimates
        if (of := exact.get((rule.body, rule.relation, NONE, NONE)))
    ]
    supports, groundings = np.array(errors).T
    assert abs(np.median(groundings) - 1) < 0.1
    assert abs(np.median(supports) - 1) < 0.35
    assert (supports == 1).all() == (bound == "MOST_PAIRS")
    others = {shape: of for shape, of in named(mined(medium, length=2)).items() if shape in exact}
    flagged = {(rule.body, rule.relation, NONE, NONE) for rule in estimates}
    assert all(of == exact[shape] for shape, of in others.items() if shape not in flagged)


def test_rules_of_three_atoms_from_some_heads_are_flagged_and_near(
    medium: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"length": 3, "rules_per_relation": 1000, "seconds": 100}
    exact = named(mined(medium, **settings))
    monkeypatch.setattr(long_rules, "MOST_PATHS", 2000)
    estimates = [rule for rule in mined(medium, **settings) if not rule.exact]
    assert len(estimates) > 50
    assert {len(rule.body) for rule in estimates} == {3}
    errors = [
        rule.groundings / of[1]
        for rule in estimates
        if (of := exact.get((rule.body, rule.relation, NONE, NONE)))
    ]
    assert abs(np.median(errors) - 1) < 0.2


def test_entities_of_very_many_facts_count_with_some_of_them(
    medium: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = {shape: of for shape, of in named(mined(medium, length=1)).items() if shape[3] != NONE}
    monkeypatch.setattr(constant_rules, "MOST_FEATURES", 25)
    rules = [rule for rule in mined(medium, length=1) if rule.tail != NONE]
    assert {rule.exact for rule in rules} == {True, False}
    for rule in rules:
        of = exact.get((rule.body, rule.relation, rule.end, rule.tail))
        if of is not None:
            assert rule.groundings == of[1]
            assert rule.support == of[0] if rule.exact else rule.support <= of[0]


def test_a_rule_that_holds_too_seldom_is_left_out() -> None:
    """A rule that holds for 2 of 1,995 pairs is one in a thousand, with the five for all."""
    pairs = [(i, 2000 + i) for i in range(1995)]
    facts = {(h, 0, t) for h, t in pairs} | {(h, 2, t) for h, t in pairs[:2]}
    assert [
        (rule.support, rule.groundings)
        for rule in mined(graph_of(facts, 4000, 2), length=1)
        if rule.tail == NONE and rule.body == (0,)
    ] == [(2, 1995)]
    facts.add((1995, 0, 3995))
    assert not [
        rule
        for rule in mined(graph_of(facts, 4000, 2), length=1)
        if rule.tail == NONE and rule.body == (0,)
    ]


@pytest.mark.parametrize("facts", [set(), {(0, 0, 1)}, {(0, 0, 0), (1, 0, 1), (2, 0, 2)}])
def test_graphs_that_say_too_little_have_no_rules(facts: set[Fact]) -> None:
    rules = mine(graph_of(facts, 3, 2))
    assert len(rules) == 0
    assert equal(rules, RuleSet.of([]))


def test_only_training_facts_are_mined(medium: Graph) -> None:
    held_back = replace(medium, valid=medium.train[:50], test=medium.train[50:90])
    assert equal(mine(medium, RuleSettings(length=2)), mine(held_back, RuleSettings(length=2)))


def test_progress_is_told_of_every_kind() -> None:
    events: list[Event] = []
    mine(load("world"), RuleSettings(seconds=1), progress=events.append)
    ends = {event.where: event.amount for event in events}
    assert list(ends) == ["rules of two atoms", "rules of three atoms", "constant rules"]
    assert ends["rules of two atoms"] == "10 of 10"
    assert ends["constant rules"] == "20 of 20"
