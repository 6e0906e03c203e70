"""Rules that a person wrote count whole beside a link predictor, whatever the share of rules is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from random_engine import questions
from random_rules import mixed_by_hand, random_rules
from tacit.engine.atoms.mixture import RuleMixture
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import OFF, WRITTEN, RuleSet

SIZE = 13


def graph_of(seed: int) -> Graph:
    random = np.random.default_rng(seed)
    facts = np.unique(random.integers(0, [SIZE, 3, SIZE], (40, 3)), axis=0)
    return Graph.of([(f"e{s}", "rqp"[r], f"e{t}") for s, r, t in facts])


def engine_of(seed: int, share: float, numbers: dict[str, float], **changes: Any) -> Engine:
    """An engine with mined and written rules, one of the latter off."""
    graph = graph_of(seed)
    model = ComplEx(graph.num_entities, graph.num_relations, 4)
    model.reset(1.0, torch.Generator().manual_seed(seed))
    rules = random_rules(graph, seed)
    flags = np.zeros(len(rules), dtype=np.uint8)
    flags[::4] = WRITTEN
    flags[8] |= OFF
    # a written rule of confidence 1 would be a deduction
    confidence = np.minimum(rules.confidence, np.float32(0.97))
    rules = replace(rules, flags=flags, confidence=confidence)
    scorer = RuleScorer(rules, graph.index("train"), graph.num_entities)
    shares = torch.full((graph.num_relations,), share)
    return Engine(graph, model, rules=RuleMixture(scorer, shares, **numbers), **changes)


def by_hand(engine: Engine) -> Any:
    """The mixed scores, none below what the written rules say, `[R, N, N]`."""
    mixture = engine.parts.rules
    assert mixture is not None
    tables = mixed_by_hand(engine.graph, engine.scorer, mixture)
    rules = mixture.scorer.rules
    written = [rules[place] for place in range(len(rules))]
    written = [rule for rule in written if rule.written and not rule.off]
    alone = RuleScorer(RuleSet.of(written), mixture.scorer.index, engine.graph.num_entities)
    for relation in range(engine.graph.num_relations):
        for head in range(engine.graph.num_entities):
            found = alone.entries(np.array([head]), np.array([relation]))
            for tail, score in zip(found.tails.tolist(), found.scores.tolist(), strict=True):
                place = relation, head, tail
                if tables[place]:  # impossible atoms stay so
                    tables[place] = max(tables[place], min(score, 1.0 - 2.0**-10))
    return tables


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("numbers", [{}, {"few": 1.0, "scale": 0.8, "shift": -0.7}])
@pytest.mark.parametrize("seed", range(3))
def test_no_score_is_below_that_of_the_written_rules(
    seed: int, share: float, numbers: dict[str, float]
) -> None:
    engine = engine_of(seed, share, numbers, observed="none")
    n, r = engine.graph.num_entities, engine.graph.num_relations
    heads, relations = torch.arange(n).repeat(r), torch.arange(r).repeat_interleave(n)
    found = engine.atoms.rows(heads, relations).exp().view(r, n, n).double().numpy()
    expected = by_hand(engine)
    assert found == pytest.approx(expected, rel=2e-5, abs=1e-9)
    assert engine.parts.rules is not None
    unlifted = mixed_by_hand(engine.graph, engine.scorer, engine.parts.rules)
    assert (expected > unlifted).sum() > 20
    assert found.max() <= np.exp(engine.atoms.calibration.supremum) + 1e-6


def test_with_written_rules_alone_all_other_scores_are_those_of_the_predictor() -> None:
    engine = engine_of(0, 0.0, {}, observed="none")
    assert engine.parts.rules is not None
    written = engine.parts.rules.written
    assert written is not None
    plain = engine.with_settings(rules=False)
    heads = torch.arange(engine.graph.num_entities)
    relations = torch.zeros_like(heads)
    lifted, before = (each.atoms.rows(heads, relations) for each in (engine, plain))
    entries = written.entries(heads.numpy(), relations.numpy())
    spoken = torch.zeros_like(before, dtype=torch.bool)
    spoken[torch.from_numpy(entries.rows), torch.from_numpy(entries.tails)] = True
    assert 0 < int(spoken.sum()) < spoken.numel()
    assert torch.allclose(lifted[~spoken], before[~spoken])
    assert bool((lifted[spoken] >= before[spoken]).all())


@pytest.mark.parametrize("seed", range(3))
def test_certified_search_finds_what_exact_search_finds(seed: int) -> None:
    exact = engine_of(seed, 0.2, {"scale": 0.9}, search="exact")
    certified = exact.with_settings(search="certified")
    for question in questions(exact, seed, count=2):
        found, expected = (each.ask(question, top=5) for each in (certified, exact))
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in expected], rel=1e-4
        )
