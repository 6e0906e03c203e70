"""Random rules beside random link predictors, and their mixture by its formula."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.engine.atoms.mixture import RuleMixture
from tacit.graph.graph import Graph
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import NONE, Rule, RuleSet
from tacit.links.scorer import Scorer


def random_rules(graph: Graph, seed: int, count: int = 40) -> RuleSet:
    """Closed, constant and existence rules of any confidence."""
    random = np.random.default_rng(seed)
    rules = list[Rule]()
    while len(rules) < count:
        body = tuple(random.integers(graph.num_relations, size=random.integers(1, 4)).tolist())
        head = int(random.integers(graph.num_relations))
        end, tail = random.integers(graph.num_entities, size=2).tolist()
        kind = random.integers(3)
        rules.append(
            Rule(
                body,
                head,
                end if kind == 1 else NONE,
                tail if kind else NONE,
                confidence=float(random.random()),
            )
        )
    return RuleSet.of(rules)


def random_mixture(graph: Graph, seed: int = 0, **numbers: float) -> RuleMixture:
    """A mixture of random rules with random shares."""
    scorer = RuleScorer(random_rules(graph, seed), graph.index("train"), graph.num_entities)
    shares = np.random.default_rng(seed).random(graph.num_relations)
    return RuleMixture(scorer, torch.from_numpy(shares).float(), **numbers)


def mixed_by_hand(graph: Graph, scorer: Scorer, rules: RuleMixture) -> NDArray[np.float64]:
    """The mixed scores of all atoms without known facts, `[R, N, N]`, one at a time."""
    n, directed = graph.num_entities, graph.num_relations
    facts = graph.index("train")
    loopless = [not any(s in facts.tails(s, r & ~1) for s in range(n)) for r in range(directed)]
    highest = 1.0 - 2.0**-10
    out = np.zeros((directed, n, n))
    for relation in range(directed):
        for head in range(n):
            logits = scorer.logits(torch.tensor([head]), torch.tensor([relation]))[0]
            raw = np.exp(logits.detach().double().numpy())
            if loopless[relation]:
                raw[head] = 0.0
            count = max(1, len(facts.tails(head, relation)))
            known = sum(len(facts.tails(head, each)) for each in range(directed))
            share = float(rules.shares[relation])
            if rules.few:
                share += (1.0 - share) * rules.few / (rules.few + known)
            share = min(share, 0.999)
            found = rules.scorer.entries(np.array([head]), np.array([relation]))
            chances = dict(zip(found.tails.tolist(), found.scores.tolist(), strict=True))
            for tail in range(n):
                alone = min(highest, count * raw[tail] / raw.sum())
                chance = chances.get(tail, 0.0) if alone else 0.0
                if chance:
                    odds = rules.scale * np.log(chance / (1.0 - chance)) + rules.shift
                    chance = 1.0 / (1.0 + np.exp(-odds))
                out[relation, head, tail] = min(highest, (1.0 - share) * alone + share * chance)
    return out
