"""How much rules count: graphs in which they are right or wrong, shrinkage, and determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tables import TableScorer
from tacit.adapt import mixing
from tacit.adapt.mixing import (
    FEW,
    SHARES,
    fit_mixture,
    fit_odds,
    held_out_facts,
    share_gains,
    shrunk_shares,
)
from tacit.engine.atoms.mixture import RuleMixture
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import Rule, RuleSet
from tacit.links.scorer import Scorer

SIZE = 60
# q(x, y) holds where p(x, y) does; a wrong rule says it of what r relates
RIGHT = RuleSet.of([Rule((0,), 2, confidence=0.8), Rule((1,), 3, confidence=0.8)])
WRONG = RuleSet.of([Rule((4,), 2, confidence=0.8), Rule((5,), 3, confidence=0.8)])


def made_graph(valid: bool = True) -> Graph:
    """`p` and `q` relate the same pairs, of which some are validation facts of `q`; `r` others."""
    random = np.random.default_rng(0)
    pairs = np.stack([np.arange(SIZE), random.permutation(SIZE)], axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    others = np.stack([np.arange(SIZE), (np.arange(SIZE) + 1) % SIZE], axis=1)

    def facts(relation: int, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.insert(rows, 1, 2 * relation, axis=1).astype(np.int32)

    train = np.concatenate([facts(0, pairs), facts(1, pairs[:30]), facts(2, others)])
    held_out = facts(1, pairs[30:]) if valid else facts(1, pairs[:0])
    return Graph(Vocabulary(f"e{i}" for i in range(SIZE)), directed("pqr"), train, held_out)


def random_scorer() -> Scorer:
    random = np.random.default_rng(1)
    return TableScorer([random.uniform(0.01, 0.99, (SIZE, SIZE)) for _ in range(3)])


def right_scorer(graph: Graph) -> Scorer:
    tables = [np.full((SIZE, SIZE), 0.001) for _ in range(3)]
    for split in ("train", "valid"):
        for head, relation, tail in graph.split(split).tolist():
            tables[relation // 2][head, tail] = 0.999
    return TableScorer(tables)


def scorer_of(graph: Graph, rules: RuleSet) -> RuleScorer:
    return RuleScorer(rules, graph.index("train"), graph.num_entities)


def test_right_rules_beside_a_random_predictor_decide() -> None:
    graph = made_graph()
    mixture = fit_mixture(graph, random_scorer(), scorer_of(graph, RIGHT))
    heads = torch.arange(SIZE)
    # from where on ranks are the same, more would gain nothing
    assert float(mixture.shares_of(heads, torch.full_like(heads, 2)).min()) >= 0.2
    facts = held_out_facts(graph)
    gains = share_gains(graph, random_scorer(), mixture, facts)
    mixed = [
        gains.ranks[place, np.searchsorted(SHARES, float(share) - 1e-6)]
        for place, share in enumerate(
            mixture.shares_of(*torch.from_numpy(facts[:, :2].copy()).unbind(1))
        )
    ]
    assert np.mean(mixed) > 0.95 > 0.3 > gains.ranks[:, 0].mean()


def test_wrong_rules_beside_a_right_predictor_do_not_count() -> None:
    graph = made_graph()
    mixture = fit_mixture(graph, right_scorer(graph), scorer_of(graph, WRONG))
    assert mixture.shares.tolist() == [0.0] * graph.num_relations
    assert mixture.few == 0.0


def test_gains_are_the_ranks_of_the_mixture() -> None:
    graph = made_graph()
    scorer = random_scorer()
    facts = held_out_facts(graph)
    mixture = RuleMixture(scorer_of(graph, RIGHT), torch.zeros(graph.num_relations), 0.0, 0.7, -0.4)
    gains = share_gains(graph, scorer, mixture, facts)
    known = graph.index("train", "valid")
    for place, (head, relation, tail) in enumerate(facts.tolist()):
        logits = scorer.logits(torch.tensor([head]), torch.tensor([relation]))[0].double().numpy()
        raw = np.exp(logits)
        raw[head] = 0.0  # no relation here has a loop
        count = max(1, len(graph.index("train").tails(head, relation)))
        alone = np.minimum(count * raw / raw.sum(), 1.0 - 2.0**-10)
        found = mixture.scorer.entries(np.array([head]), np.array([relation]))
        implied = np.zeros(SIZE)
        odds = np.log(found.scores / (1.0 - found.scores.astype(np.float64)))
        implied[found.tails] = 1.0 / (1.0 + np.exp(0.4 - 0.7 * odds))
        rivals = np.ones(SIZE, dtype=bool)
        rivals[known.tails(head, relation)] = False
        for column, share in enumerate(SHARES):
            score = (1.0 - share) * alone + share * implied
            above = (score[rivals] > score[tail] + 1e-7).sum()
            assert gains.ranks[place, column] == pytest.approx(1.0 / (1.0 + above))


def test_few_facts_move_a_share_little() -> None:
    shares = len(SHARES)
    common = np.tile(np.linspace(0.5, 0.4, shares), (1000, 1))  # the less the better
    odd = np.zeros((3, shares))
    odd[:, -1] = 0.5
    few = np.concatenate([common, odd])
    relations = np.array([0] * 1000 + [1] * 3)
    assert shrunk_shares(relations, few, 2).tolist() == [SHARES[0], SHARES[0]]
    many = np.concatenate([common, np.repeat(odd, 200, axis=0)])
    relations = np.array([0] * 1000 + [1] * 600)
    assert shrunk_shares(relations, many, 3).tolist() == [SHARES[0], SHARES[-1], SHARES[-1]]


def test_odds_are_those_of_the_greatest_likelihood() -> None:
    graph = made_graph()
    random = np.random.default_rng(2)
    rules = RuleSet.of(
        [Rule((r,), 2 + r, confidence=c) for r in (0, 1) for c in (0.8, 0.3)]
        + [Rule((4, 4), 2, confidence=0.5), Rule((5, 5), 3, confidence=float(random.random()))]
    )
    scorer = scorer_of(graph, rules)
    facts = held_out_facts(graph)
    found = fit_odds(graph, scorer, facts)
    chances, truths = list[float](), list[bool]()
    for head, relation in sorted({(h, r) for h, r, _ in facts.tolist()}):
        entries = scorer.entries(np.array([head]), np.array([relation]))
        for tail, score in zip(entries.tails.tolist(), entries.scores.tolist(), strict=True):
            if tail not in graph.index("train").tails(head, relation):
                chances.append(score)
                truths.append(tail in graph.index("valid").tails(head, relation))

    def loss(scale: float, shift: float) -> float:
        total = ((scale - 1.0) ** 2 + shift**2) / 2.0  # which keeps few facts from mattering
        for chance, true in zip(chances, truths, strict=True):
            odds = scale * math.log(chance / (1.0 - chance)) + shift
            total += math.log1p(math.exp(-odds if true else odds))
        return total

    steps = ((0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01))
    assert 0 < sum(truths) < len(truths)
    assert loss(*found) < min(loss(found[0] + a, found[1] + b) for a, b in steps)


def test_the_same_facts_and_seed_give_the_same_mixture() -> None:
    graph = made_graph()
    one, two = (
        fit_mixture(graph, random_scorer(), scorer_of(graph, RIGHT), seed=3) for _ in range(2)
    )
    assert torch.equal(one.shares, two.shares)
    assert (one.few, one.scale, one.shift) == (two.few, two.scale, two.shift)


def test_only_some_facts_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "MOST", 7)
    graph = made_graph()
    facts = held_out_facts(graph)
    assert len(facts) == 7
    assert all(
        tail in graph.index("valid").tails(head, relation)
        for head, relation, tail in facts.tolist()
    )


def test_without_validation_facts_shares_are_usual_ones() -> None:
    graph = made_graph(valid=False)
    mixture = fit_mixture(graph, random_scorer(), scorer_of(graph, RIGHT))
    assert mixture.shares.tolist() == pytest.approx([mixing.USUAL_SHARE] * graph.num_relations)
    assert mixture.few == mixing.USUAL_FEW
    assert mixture.few in FEW
