"""What follows by hard rules, against a closure by loops."""

from __future__ import annotations

import numpy as np
import pytest

from rule_worlds import Triple, implied, random_graph, random_rule, triples_of
from tacit.errors import LimitError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.links.rules.deduction import MOST_ROUNDS, deduce
from tacit.links.rules.rule_set import OFF, WRITTEN, Rule, RuleSet


def hard(rule: Rule, flags: int = 0) -> Rule:
    """A rule as a person writes it who knows no exception."""
    return rule._replace(confidence=1.0, flags=WRITTEN | flags)


def closure(facts: set[Triple], rules: list[Rule], entities: int) -> set[Triple]:
    """Facts with all that follows, by going over all rules until nothing comes."""
    facts = set(facts)
    before = -1
    while len(facts) != before:
        before = len(facts)
        for rule in rules:
            for x, y in implied(rule, facts, entities):
                facts |= {(x, rule.relation, y), (y, rule.relation ^ 1, x)}
    return facts


def triples_in(index: FactIndex) -> set[Triple]:
    """The triples of an index."""
    heads, relations = (
        np.repeat(c, np.diff(index.offsets)) for c in (index.heads, index.relations)
    )
    return set(zip(heads.tolist(), relations.tolist(), index.all_tails.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_deductions_are_the_closure(seed: int) -> None:
    graph = random_graph(seed, entities=6, relations=4, facts=12)
    rng = np.random.default_rng(seed)
    rules = [hard(random_rule(rng, graph)) for _ in range(8)]
    facts = triples_of(graph)
    expected = closure(facts, rules, graph.num_entities)
    deductions = deduce(graph.index("train"), RuleSet.of(rules))
    assert deductions is not None
    assert triples_in(deductions.index) == expected
    assert triples_in(deductions.deduced) == expected - facts
    for head, relation, tail in facts:
        assert deductions.rule_of(head, relation, tail) is None
    for head, relation, tail in expected - facts:
        place = deductions.rule_of(head, relation, tail)
        assert place is not None
        forward, inverse = (head, relation, tail), (tail, relation ^ 1, head)
        of_rule = {(x, rules[place].relation, y) for x, y in
                   implied(rules[place], expected, graph.num_entities)}  # fmt: skip
        assert forward in of_rule or inverse in of_rule


def test_the_closures_of_these_tests_need_several_rounds() -> None:
    added = []
    for seed in range(12):
        graph = random_graph(seed, entities=6, relations=4, facts=12)
        rng = np.random.default_rng(seed)
        rules = [hard(random_rule(rng, graph)) for _ in range(8)]
        facts = triples_of(graph)
        once = set(facts)
        for rule in rules:
            for x, y in implied(rule, facts, graph.num_entities):
                once |= {(x, rule.relation, y), (y, rule.relation ^ 1, x)}
        added.append(len(closure(facts, rules, graph.num_entities)) - len(once))
    assert sum(each > 0 for each in added) >= 4


def test_only_written_rules_of_confidence_one_that_are_on_deduce() -> None:
    graph = Graph.of([("a", "p", "b"), ("b", "q", "a")])
    rule = Rule((0,), 2)
    for other in (
        rule._replace(confidence=0.99, flags=WRITTEN),
        rule._replace(confidence=1.0),
        hard(rule, OFF),
    ):
        assert deduce(graph.index("train"), RuleSet.of([other])) is None
    assert deduce(graph.index("train"), RuleSet.of([hard(rule)])) is not None


def test_too_many_deductions_are_refused_with_the_name_of_the_rule() -> None:
    chain = Graph.of([(f"e{i}", "next", f"e{i + 1}") for i in range(300)])
    rules = RuleSet.of([hard(Rule((0, 0), 0))])  # 300 · 301 / 2 pairs in all, 10 · 300 allowed
    with pytest.raises(
        LimitError, match=r"^after has confidence 1 .* more than 3,000 facts to 300"
    ):
        deduce(chain.index("train"), rules, lambda place: ["after"][place])


def test_long_chains_of_deductions_are_refused() -> None:
    steps = [(f"e{i}", "next", f"e{i + 1}") for i in range(MOST_ROUNDS + 5)]
    chain = Graph.of([*steps, ("e0", "reaches", "e1")])
    rules = RuleSet.of([hard(Rule((2, 0), 2))])
    with pytest.raises(LimitError, match="rule 0 rest on one another more than 1,000 times"):
        deduce(chain.index("train"), rules)
