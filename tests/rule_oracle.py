"""Rules by their definition, in plain loops, and random rules over random facts."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.graph.fact_index import FactIndex
from tacit.links.rules.rule_set import NONE, OFF, Rule, RuleSet

FLOOR = -20.0
Triples = NDArray[np.int64]
Paths = list[tuple[int, ...]]


class RuleOracle:
    """The scores of atoms by rules, each looked at by itself."""

    def __init__(self, rules: Sequence[Rule], facts: set[tuple[int, int, int]]) -> None:
        self.rules = rules
        self.facts = facts

    def paths(self, rule: Rule, head: int, tail: int) -> Paths:
        """The paths by which a rule speaks for an atom, in rising order."""
        if rule.tail not in (NONE, tail):
            return []
        constants = {each for each in (rule.end, rule.tail) if each != NONE}
        paths: list[tuple[int, ...]] = [(head,)]
        for relation in rule.body:
            paths = [
                (*path, t) for path in paths for s, p, t in sorted(self.facts)
                if s == path[-1] and p == relation
            ]  # fmt: skip
        out = []
        for path in paths:
            variables = path if rule.end == NONE else path[:-1]
            ends = rule.end != NONE and path[-1] == rule.end
            if rule.end != NONE and not ends:
                continue
            if len(set(variables)) < len(variables) or constants & set(variables):
                continue
            if rule.tail == NONE and path[-1] != tail:
                continue
            out.append(path)
        return out

    def firing(self, head: int, relation: int, tail: int) -> list[tuple[int, Paths]]:
        """The rules that speak for an atom with their paths, best first."""
        found = [
            (place, self.paths(rule, head, tail))
            for place, rule in enumerate(self.rules)
            if rule.relation == relation and not rule.flags & OFF
        ]
        found = [each for each in found if each[1]]
        return sorted(found, key=lambda each: (-self.rules[each[0]].confidence, each[0]))

    def score(self, head: int, relation: int, tail: int) -> float:
        """The probability of an atom; 0 where no rule speaks for it."""
        rest = 1.0
        shares = (1.0, 0.6, 0.36, 0.216, 0.1296, 0.07776, 0.046656, 0.0279936)
        for share, (place, _) in zip(shares, self.firing(head, relation, tail), strict=False):
            rest *= 1.0 - share * float(np.float32(self.rules[place].confidence))
        return min(1.0 - rest, 0.999)

    def logit(self, head: int, relation: int, tail: int) -> float:
        """The log-odds of an atom."""
        score = self.score(head, relation, tail)
        return max(FLOOR, log(score / (1.0 - score))) if score else FLOOR

    def tables(self, num_entities: int, num_relations: int) -> torch.Tensor:
        """The log-odds of all atoms, `[R, N, N]`."""
        every = range(num_entities)
        rows = [[[self.logit(h, r, t) for t in every] for h in every] for r in range(num_relations)]
        return torch.tensor(rows)


def facts_of(index: FactIndex) -> set[tuple[int, int, int]]:
    """The triples of an index."""
    return {
        (int(head), int(relation), int(tail))
        for head, relation in zip(index.heads, index.relations, strict=True)
        for tail in index.tails(int(head), int(relation))
    }


def random_facts(random: np.random.Generator, size: int, relations: int, count: int) -> Triples:
    """Random triples over undirected relations and one hub, in both directions."""
    heads, tails = random.integers(0, size, (2, count))
    tails = np.where(random.random(count) < 0.3, 0, tails)  # a hub
    ids = 2 * random.integers(0, relations, count)
    forward = np.stack([heads, ids, tails], axis=1)
    return np.concatenate([forward, np.stack([tails, ids + 1, heads], axis=1)]).astype(np.int64)


def random_rules(
    random: np.random.Generator, size: int, num_relations: int, count: int
) -> list[Rule]:
    """Random rules of every shape, some switched off, some of one confidence."""
    rules = []
    while len(rules) < count:
        body = tuple(random.integers(0, num_relations, random.integers(1, 4)).tolist())
        relation = int(random.integers(0, num_relations))
        kind = random.integers(0, 3)
        end = int(random.integers(0, size)) if kind == 1 else NONE
        tail = int(random.integers(0, size)) if kind else NONE
        if kind == 1 and random.random() < 0.2:
            tail = end
        confidence = float(random.choice([0.0, 0.25, 0.5, random.random(), 1.0]))
        flags = OFF if random.random() < 0.15 else 0
        rules.append(Rule(body, relation, end, tail, 1, 2, confidence, flags))
    return rules


def rule_set(rules: Sequence[Rule]) -> RuleSet:
    """Rules as a set."""
    return RuleSet.of(list(rules))
