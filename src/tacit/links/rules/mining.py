"""Mining rules: bodies counted over all facts, and the best rules of each relation kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.fitting.progress import Progress, counting
from tacit.graph.fact_index import Flags, Ints
from tacit.graph.graph import Graph
from tacit.links.rules import closed_rules
from tacit.links.rules.closed_rules import Closed
from tacit.links.rules.constant_rules import Constant, ConstantMiner
from tacit.links.rules.loopless_facts import LooplessFacts
from tacit.links.rules.rule_set import LONGEST, NONE, SAMPLED, RuleSet, confidence_of
from tacit.links.rules.settings import RuleSettings


def mine(
    graph: Graph, settings: RuleSettings | None = None, *, progress: Progress | bool = False
) -> RuleSet:
    """The rules that hold often enough among the training facts of a graph.

    They are sorted by relation, closed ones first, then by falling confidence. The same facts and
    settings give the same rules.
    """
    settings = settings or RuleSettings()
    facts = LooplessFacts.of(graph.index("train"), graph.num_entities)
    if not len(facts.index):
        return RuleSet.of([])
    with counting(progress) as counts:
        closed = best(_closed(facts, settings, counts), settings.rules_per_relation)
        tell = counts("constant rules", facts.num_relations)
        miner = ConstantMiner(facts)
        constant = []
        for relation in range(facts.num_relations):
            constant.append(_constant_set(miner.rules(relation), relation))
            tell(relation + 1)
    return ordered(_joined([closed, *constant]))


def _closed(
    facts: LooplessFacts, settings: RuleSettings, counts: Callable[[str, int], Callable[[int], None]]
) -> RuleSet:
    """All closed rules, for inverse relations, too."""
    found = [_closed_set(closed_rules.single_atoms(facts), 1, facts.num_relations)]
    if settings.length > 1:
        random = np.random.default_rng(settings.seed)
        tell = counts("closed rules", facts.num_relations // 2)
        found.append(
            _closed_set(
                closed_rules.double_atoms(facts, random, tell), 2, facts.num_relations
            )
        )
    return _joined(found)


def _closed_set(rules: Closed, length: int, size: int) -> RuleSet:
    """The rules of forward relations, and of inverse ones after them."""
    count = len(rules.body)
    body = np.full((2 * count, LONGEST), NONE, dtype=np.int32)
    codes = rules.body
    for place in reversed(range(length)):
        codes, atom = np.divmod(codes, size)
        body[:count, place] = atom
        body[count:, length - 1 - place] = atom ^ 1
    nothing = np.full(2 * count, NONE)
    return _rule_set(
        body,
        np.concatenate([rules.relation, rules.relation ^ 1]),
        nothing,
        nothing,
        np.tile(rules.support, 2),
        np.tile(rules.groundings, 2),
        np.tile(rules.sampled, 2),
    )


def _constant_set(rules: Constant, relation: int) -> RuleSet:
    body = np.full((len(rules.body), LONGEST), NONE, dtype=np.int32)
    body[:, 0] = rules.body
    relations = np.full(len(body), relation)
    exact = np.zeros(len(body), dtype=bool)
    return _rule_set(body, relations, *rules[1:], exact)


def _rule_set(
    body: Ints, relation: Ints, end: Ints, tail: Ints, support: Ints, groundings: Ints, sampled: Flags
) -> RuleSet:
    columns = (column.astype(np.int32) for column in (body, relation, end, tail, support, groundings))
    confidence = confidence_of(support, groundings)
    return RuleSet(*columns, confidence, np.where(sampled, SAMPLED, 0).astype(np.uint8))


def _joined(parts: list[RuleSet]) -> RuleSet:
    names = RuleSet.__dataclass_fields__
    return RuleSet(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def ordered(rules: RuleSet) -> RuleSet:
    """The rules by relation, closed ones first, then by falling confidence and support."""
    ties = (rules.tail, rules.end, *rules.body.T[::-1], (rules.body != NONE).sum(axis=1))
    return rules.take(
        np.lexsort((*ties, -rules.support, -rules.confidence, rules.tail != NONE, rules.relation))
    )


def best(rules: RuleSet, count: int) -> RuleSet:
    """So many rules of each relation, at most: the first in order."""
    rules = ordered(rules)
    starts = np.searchsorted(rules.relation, rules.relation)
    return rules.take(np.arange(len(rules)) - starts < count)
