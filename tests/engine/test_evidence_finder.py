"""What the evidence of an atom is weighed by: the share of rules, and analogies."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from random_rules import random_mixture
from tacit.engine.answers import evidence_finder
from tacit.engine.answers.evidence import EvidenceFact
from tacit.engine.answers.evidence_finder import EvidenceFinder
from tacit.engine.answers.witnesses import WitnessAtom
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx


def labels_of(fact: EvidenceFact) -> tuple[str, ...]:
    return fact.subject_label, fact.relation_label, fact.object_label


def test_the_share_of_rules_is_that_of_the_mixture() -> None:
    random = np.random.default_rng(0)
    facts = np.unique(random.integers(0, [12, 3, 12], (40, 3)), axis=0)
    graph = Graph.of([(f"e{s}", "rqp"[r], f"e{t}") for s, r, t in facts])
    model = ComplEx(graph.num_entities, graph.num_relations, 4)
    model.reset(1.0, torch.Generator().manual_seed(0))
    mixture = random_mixture(graph, 0, few=1.0, scale=1.3, shift=0.4)
    engine = Engine(graph, model, rules=mixture, loops=True)
    finder = EvidenceFinder(engine.parts)
    index = graph.index("train")
    checked = 0
    for head, relation, tail in product(
        range(graph.num_entities), range(graph.num_relations), range(graph.num_entities)
    ):
        if tail in index.tails(head, relation):
            continue
        found = finder.of(head, relation, tail)
        if not len(mixture.scorer.firings(head, relation, tail)):
            assert found.share == 0.0
            backwards = mixture.scorer.firings(tail, relation ^ 1, head)
            assert [each.rule.id for each in found.rules] == [each.id for each in backwards]
            assert len(found.analogies) == (0 if backwards else 3)
            continue
        logits = model.logits(torch.tensor([head]), torch.tensor([relation]))[0].double()
        raw = logits.detach().softmax(dim=0)[tail]
        alone = min(1 - 2**-10, float(raw) * max(1, len(index.tails(head, relation))))
        degree = sum(len(index.tails(head, each)) for each in range(graph.num_relations))
        share = float(mixture.shares[relation])
        share = min(0.999, share + (1 - share) / (1 + degree))
        entries = mixture.scorer.entries(np.array([head]), np.array([relation]))
        chance = float(entries.scores[entries.tails == tail][0])
        odds = 1.3 * math.log(chance / (1 - chance)) + 0.4
        by_rules = share / (1 + math.exp(-odds))
        expected = by_rules / (by_rules + (1 - share) * alone)
        assert found.share == pytest.approx(expected, rel=1e-4)
        score = engine.atoms.pairs(*(torch.tensor([i]) for i in (head, relation, tail)))
        by_score = EvidenceFinder(engine.parts).of(head, relation, tail, score=float(score))
        assert by_score.share == pytest.approx(expected, rel=2e-3)  # no score exceeds a bound
        assert found.analogies == ()
        checked += 1
    assert checked > 50
    atom = WitnessAtom("a", "r", "b", 0.5, False, found=found)
    assert atom.rule_share == found.share


def test_analogies_are_the_nearest_facts_of_the_relation() -> None:
    random = np.random.default_rng(1)
    facts = np.unique(random.integers(0, [12, 2, 12], (50, 3)), axis=0)
    graph = Graph.of([(f"e{s}", "rq"[r], f"e{t}") for s, r, t in facts])
    model = ComplEx(graph.num_entities, graph.num_relations, 3)
    model.reset(1.0, torch.Generator().manual_seed(1))
    engine = Engine(graph, model, loops=True)
    vectors = model.entity_vectors(torch.arange(graph.num_entities)).detach().double().numpy()

    def cosine(one: int, other: int) -> float:
        a, b = vectors[one], vectors[other]
        return float(a @ b / math.sqrt((a @ a) * (b @ b)))

    for head, relation, tail in product(range(5), range(4), range(5)):
        if tail in graph.index("train").tails(head, relation):
            continue
        subject, obj = (tail, head) if relation % 2 else (head, tail)
        of_relation = [row for row in graph.facts("train").tolist() if row[1] == relation & ~1]
        of_relation.sort(key=lambda row: -(cosine(row[0], subject) + cosine(row[2], obj)))
        found = EvidenceFinder(engine.parts).of(head, relation, tail)
        assert [labels_of(each) for each in found.analogies] == [
            (graph.entities[s], graph.relations[r], graph.entities[o])
            for s, r, o in of_relation[:3]
        ]
        assert found.share is None
        assert EvidenceFinder(engine.parts).of(head, relation, tail, denied=True).analogies == ()


def test_of_a_large_relation_facts_with_an_end_of_the_atom_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evidence_finder, "_COMPARED", 4)
    graph = Graph.of([(f"a{i}", "r", f"b{i % 7}") for i in range(60)] + [("a0", "q", "a1")])
    model = ComplEx(graph.num_entities, graph.num_relations, 3)
    model.reset(1.0, torch.Generator().manual_seed(1))
    entities = graph.entities
    with torch.no_grad():  # a1 is like a50, whose only fact is of b1
        model.entities.weight[entities.id("a50")] = model.entities.weight[entities.id("a0")]
    (atom,) = Engine(graph, model).explain(": r(a0, b1)")[0].witnesses[0].atoms
    assert ("a50", "r", "b1") in map(labels_of, atom.analogies)
