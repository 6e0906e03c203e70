"""A written rule with a constant in its head is read from both ends of what it implies."""

from __future__ import annotations

import numpy as np
import pytest

from rule_worlds import implied, random_graph, random_rule, triples_of
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import NONE, OFF, WRITTEN, RuleSet


@pytest.mark.parametrize("seed", range(6))
def test_rows_have_what_the_rules_imply_in_both_directions(seed: int) -> None:
    graph = random_graph(seed, facts=30)
    rng = np.random.default_rng(seed)
    facts = triples_of(graph)
    rules = []
    for number in range(30):
        rule = random_rule(rng, graph)
        flags = (0, WRITTEN, WRITTEN, WRITTEN | OFF)[number % 4]
        rules.append(rule._replace(confidence=float(rng.uniform(0.1, 0.9)), flags=flags))
    expected: dict[tuple[int, int, int], list[float]] = {}
    for rule in rules:
        if rule.off:
            continue
        for x, y in implied(rule, facts, graph.num_entities):
            expected.setdefault((x, rule.relation, y), []).append(rule.confidence)
            if rule.written and rule.tail != NONE:
                expected.setdefault((y, rule.relation ^ 1, x), []).append(rule.confidence)
    scorer = RuleScorer(RuleSet.of(rules), graph.index("train"), graph.num_entities)
    n, r = graph.num_entities, graph.num_relations
    heads, relations = np.tile(np.arange(n), r), np.repeat(np.arange(r), n)
    found = scorer.entries(heads, relations)
    scores = {
        (int(heads[row]), int(relations[row]), int(tail)): float(score)
        for row, tail, score in zip(found.rows, found.tails, found.scores, strict=True)
    }
    assert scores.keys() == expected.keys()
    turned = 0
    for atom, confidences in expected.items():
        rest = 1.0
        for share, confidence in zip(
            (0.6**i for i in range(8)), sorted(confidences)[::-1], strict=False
        ):
            rest *= 1 - share * confidence
        assert scores[atom] == pytest.approx(1 - rest, abs=1e-6)
        firings = scorer.firings(*atom, top=100)
        assert [each.rule.confidence for each in firings] == pytest.approx(
            sorted(confidences)[::-1]
        )
        for firing in firings:
            rule = firing.rule
            turned += rule.relation != atom[1]
            start = atom[0] if rule.relation == atom[1] else atom[2]
            for path in firing.paths:
                assert path[0] == start
                steps = zip(path, rule.body, path[1:], strict=False)
                assert all(step in facts for step in steps)
    assert turned > 3
