"""Finds the evidence of predicted atoms: rules and their groundings, or the nearest known facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.engine.answers.evidence import (
    NO_EVIDENCE,
    AtomEvidence,
    Evidence,
    EvidenceFact,
    EvidencePath,
    NamedRule,
    Triple,
)
from tacit.engine.atoms.atoms import Atoms, RememberedAtoms
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.graph.fact_index import FactIndex, Ints
from tacit.graph.graph import Graph
from tacit.links.rules.rule_scorer import Firing, RuleScorer
from tacit.links.rules.rule_set import Rule
from tacit.links.scorer import VectorScorer, shards_of
from tacit.query.rule_words import path_in_words, read_forward

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.engine.parts import EngineParts

RULES = 3  # rules shown of an atom: those that its score is made of
PATHS = 2  # groundings shown of a rule
ANALOGIES = 3
_LOOKED_AT = 16  # groundings of a rule, among which those with facts of their own are shown
_COMPARED = 4096  # facts of a relation that are compared with an atom


def evidence_for(
    graph: Graph,
    rules: RuleScorer,
    head: int,
    relation: int,
    tail: int,
    top: int = RULES,
    paths: int = PATHS,
) -> tuple[Evidence, ...]:
    """The `top` rules that speak for a directed atom, best first, with `paths` groundings each."""
    shown = set[frozenset[Triple]]()
    firings = rules.firings(head, relation, tail, top, max(paths, _LOOKED_AT))
    return tuple(_evidence(graph, firing, paths, shown) for firing in firings)


def _evidence(graph: Graph, firing: Firing, count: int, shown: set[frozenset[Triple]]) -> Evidence:
    """The evidence of a rule, by groundings that share no facts and that no rule before showed.

    Those without any fact of a rule before come first.
    """
    before = set[Triple]().union(*shown)
    grounded = [(path, path_facts(firing.rule, path)) for path in firing.paths]
    fresh = [(path, facts) for path, facts in grounded if frozenset(facts) not in shown]
    fresh.sort(key=lambda each: len(before.intersection(each[1])))
    used = set[Triple]()
    paths = list[EvidencePath]()
    for path, facts in fresh:
        if len(paths) < count and used.isdisjoint(facts):
            used.update(facts)
            shown.add(frozenset(facts))
            named = tuple(EvidenceFact.of(graph, fact) for fact in facts)
            paths.append(EvidencePath(path_in_words(graph, firing.rule, path), named))
    more = firing.total - (len(grounded) - len(fresh)) - len(paths)
    return Evidence(NamedRule.of(graph, firing.rule, firing.id), tuple(paths), more)


def path_facts(rule: Rule, path: Sequence[int]) -> list[Triple]:
    """The forward facts of a rule's body along a path of entities."""
    rule, path = read_forward(rule, path)
    return [
        (end, relation & ~1, start) if relation % 2 else (start, relation, end)
        for relation, start, end in zip(rule.body, path, path[1:], strict=False)
    ]


@dataclass(eq=False)
class EvidenceFinder:
    """Finds the evidence of the atoms of one question, each once."""

    parts: EngineParts
    _found: dict[tuple[int, int, int, bool], AtomEvidence] = field(default_factory=dict)
    _facts: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def of(self, head: int, relation: int, tail: int, denied: bool = False) -> AtomEvidence:
        """The evidence of a directed atom, read as it was scored; a denied one has no analogies."""
        key = head, relation, tail, denied
        if key not in self._found:
            self._found[key] = self._find(*key)
        return self._found[key]

    def of_prediction(self, subject: int, relation: int, obj: int) -> AtomEvidence:
        """The best rule for a fact that is scored from both of its ends, or else analogies."""
        rules = self.parts.rule_scorer
        if rules is not None and self._predicts:
            atoms = (subject, relation, obj), (obj, relation ^ 1, subject)
            found = [
                each for atom in atoms for each in evidence_for(self.parts.graph, rules, *atom, 1)
            ]
            if found:
                return AtomEvidence((max(found, key=lambda each: each.rule.confidence),))
        return replace(self.of(subject, relation, obj), rules=())

    def of_deduction(self, subject: int, relation: int, obj: int, id: int) -> AtomEvidence:
        """How a forward fact follows by a rule that holds without exception."""
        rules = self.parts.rule_scorer
        index = self.parts.index
        if rules is None or index is None:
            return NO_EVIDENCE
        alone = replace(rules, rules=rules.rules.take(np.array([id])), index=index)
        atom = subject, relation, obj
        if (rules.rules[id].relation ^ relation) & 1:
            atom = obj, relation ^ 1, subject
        (firing, *_) = alone.firings(*atom, 1, _LOOKED_AT)
        return AtomEvidence((_evidence(self.parts.graph, firing._replace(id=id), PATHS, set()),))

    @property
    def _predicts(self) -> bool:
        """Whether scores are those of the link predictor and its rules."""
        return self.parts.search.predicts and self.parts.override is None

    def _find(self, head: int, relation: int, tail: int, denied: bool) -> AtomEvidence:
        if not self._predicts:
            return NO_EVIDENCE
        rules = self.parts.rule_scorer
        found: tuple[Evidence, ...] = ()
        share = None
        if rules is not None:
            found = evidence_for(self.parts.graph, rules, head, relation, tail)
            share = self._rule_share(head, relation, tail) if found else 0.0
            # a rule may say of heads what none says of tails
            found = found or evidence_for(self.parts.graph, rules, tail, relation ^ 1, head)
        analogies = () if found or denied else self.analogies(head, relation, tail)
        return AtomEvidence(found, analogies, share)

    def _rule_share(self, head: int, relation: int, tail: int) -> float:
        """How much of an atom's score comes from rules: `λ p` of `(1-λ) c + λ p`."""
        mixture = self.parts.mixture
        if mixture is None:
            return 1.0
        atom = [torch.tensor([i], device=self.parts.scorer.device) for i in (head, relation, tail)]
        rules = mixture.scorer
        chance = float(rules.logits_of(*(i.to(rules.device) for i in atom)).sigmoid())
        share = float(mixture.shares_of(*atom[:2]))
        alone = math.exp(float(self._predictor_alone.pairs(*atom)))
        return share * chance / ((1.0 - share) * alone + share * chance)

    @cached_property
    def _predictor_alone(self) -> Atoms:
        """Scores of the link predictor without rules, facts and adapter."""
        parts = self.parts
        facts = parts.facts or KnownFacts(self._index, parts.scorer.device)
        atoms = RememberedAtoms(parts.atoms)
        atoms.calibration = calibration(parts.settings.calibration, facts).counting(
            facts, atoms.shards
        )
        atoms.facts = None
        atoms.ceiling = 0.0
        return atoms

    @cached_property
    def _index(self) -> FactIndex:
        """The facts that analogies come from."""
        return self.parts.graph.index(*(self.parts.settings.observed or ("train",)))

    def analogies(
        self, head: int, relation: int, tail: int, top: int = ANALOGIES
    ) -> tuple[EvidenceFact, ...]:
        """The known facts of a relation whose ends are most similar to an atom's, by cosine.

        Of a large relation, facts with one of the atom's own ends are compared, and some others.
        """
        scorer = self.parts.scorer
        if not isinstance(scorer, VectorScorer) or shards_of(scorer).world > 1:
            return ()
        if relation % 2:
            head, tail = tail, head
        relation &= ~1
        heads, tails = self._facts_of(relation)
        alike = (heads == head) & (tails == tail)  # where facts are scored as if unknown
        chosen = np.flatnonzero(~alike)
        if len(chosen) > _COMPARED:
            near = ((heads == head) | (tails == tail))[chosen]
            near[:: -(-len(chosen) // _COMPARED)] = True
            chosen = chosen[near][: 2 * _COMPARED]
        if not len(chosen):
            return ()
        closeness = _cosines(scorer, heads[chosen], head) + _cosines(scorer, tails[chosen], tail)
        order = closeness.argsort(descending=True, stable=True)[:top].cpu().numpy()
        triples = ((int(heads[i]), relation, int(tails[i])) for i in chosen[order])
        return tuple(EvidenceFact.of(self.parts.graph, triple) for triple in triples)

    def _facts_of(self, relation: int) -> tuple[Ints, Ints]:
        """The heads and tails of the facts of a relation."""
        if relation not in self._facts:
            heads = self._index.sources.tails(relation, 0).astype(np.int64)
            rows, tails = self._index.neighbours(heads, np.full_like(heads, relation))
            self._facts[relation] = heads[rows], tails.astype(np.int64)
        return self._facts[relation]


def _cosines(scorer: VectorScorer, entities: Ints, entity: int) -> Tensor:
    """The cosine of the vector of each entity with that of one, `[n]`."""
    ids, places = np.unique(entities, return_inverse=True)
    several = scorer.entity_vectors(torch.from_numpy(ids).to(scorer.device)).float()
    (one,) = scorer.entity_vectors(torch.tensor([entity], device=scorer.device)).float()
    cosines = torch.nn.functional.cosine_similarity(several, one[None], dim=1)
    return cosines[torch.from_numpy(places).to(cosines.device)]
