"""Finds the evidence of predicted atoms: rules and their groundings, or the nearest known facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

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
from tacit.engine.logic import at
from tacit.graph.fact_index import FactIndex, Ints
from tacit.graph.graph import Graph
from tacit.graph.qualifiers import in_words
from tacit.links.rules.rule_scorer import Firing, RuleScorer
from tacit.links.rules.rule_set import Rule
from tacit.links.scorer import VectorScorer, shards_of
from tacit.query.rule_words import path_in_words, read_forward

if TYPE_CHECKING:
    from tacit.engine.parts import EngineParts

RULES = 3  # shown of an atom
PATHS = 2  # groundings shown of a rule
ANALOGIES = 3
_ROUNDING = 1e-5  # of a score
_LOOKED_AT = 16  # groundings of a rule, among which those with facts of their own are shown
_FOLLOWED = 1024  # of a deduction, among which are those that do not rest on it
_COMPARED = 4096  # facts of a relation that are compared with any atom
_NEAR = 256  # further ones with an end of the atom


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

    Those without any fact of a rule before come first. A fact and its reverse count as one.
    """
    before = set[Triple]().union(*shown)
    grounded = [(path, _undirected(path_facts(firing.rule, path))) for path in firing.paths]
    fresh = [(path, facts) for path, facts in grounded if facts not in shown]
    fresh.sort(key=lambda each: len(before & each[1]))
    used = set[Triple]()
    paths = list[EvidencePath]()
    for path, facts in fresh:
        if len(paths) < count and used.isdisjoint(facts):
            used.update(facts)
            shown.add(facts)
            named = tuple(EvidenceFact.of(graph, fact) for fact in path_facts(firing.rule, path))
            text = path_in_words(graph, firing.rule, path)
            if len(named) == 1 and named[0].statements:
                text += f" ({in_words(named[0].statements)})"
            paths.append(EvidencePath(text, named))
    more = firing.total - (len(grounded) - len(fresh)) - len(paths)
    rule = NamedRule.of(graph, firing.rule, firing.id)
    return Evidence(rule, tuple(paths), more, not firing.exact)


def _undirected(facts: Iterable[Triple]) -> frozenset[Triple]:
    """Facts without their directions, which a symmetric relation states twice."""
    return frozenset((min(s, o), r, max(s, o)) for s, r, o in facts)


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
    _relations: dict[int, _RelationVectors] = field(default_factory=dict)

    def of(
        self, head: int, relation: int, tail: int, denied: bool = False, score: float | None = None
    ) -> AtomEvidence:
        """The evidence of a directed atom, read as it was scored; a denied one has no analogies.

        Its log-score, where it is at hand, saves scoring its row again.
        """
        key = head, relation, tail, denied
        if key not in self._found:
            self._found[key] = self._find(*key, score)
        return self._found[key]

    def of_prediction(self, subject: int, relation: int, obj: int) -> AtomEvidence:
        """The best rule for a fact that is scored from both of its ends, or else analogies."""
        rules = self.parts.rule_scorer
        if not self._predicts:
            return NO_EVIDENCE
        if rules is not None:
            graph = self.parts.selected
            found = evidence_for(graph, rules, subject, relation, obj, top=1)
            found += evidence_for(graph, rules, obj, relation ^ 1, subject, top=1)
            if found:
                return AtomEvidence((max(found, key=lambda each: each.rule.confidence),))
        share = None if rules is None else 0.0
        return AtomEvidence((), self.analogies(subject, relation, obj), share)

    def of_deduction(self, subject: int, relation: int, obj: int, id: int) -> AtomEvidence:
        """How a forward fact follows by a rule that holds without exception.

        It does so by facts that are known without it.
        """
        rules = self.parts.rule_scorer
        deductions = self.parts.deductions
        if rules is None or deductions is None:
            return NO_EVIDENCE
        alone = replace(rules, rules=rules.rules.take(np.array([id])), index=deductions.index)
        atom = subject, relation, obj
        if (rules.rules[id].relation ^ relation) & 1:
            atom = obj, relation ^ 1, subject
        (firing, *_) = alone.firings(*atom, 1, _FOLLOWED)
        own = deductions.order_of(subject, relation, obj)
        earlier = [
            path
            for path in firing.paths
            if all(deductions.order_of(*fact) < own for fact in path_facts(firing.rule, path))
        ]
        total = firing.total - len(firing.paths) + len(earlier)
        firing = firing._replace(id=id, paths=earlier[:_LOOKED_AT], total=total)
        return AtomEvidence((_evidence(self.parts.selected, firing, PATHS, set()),))

    @property
    def _predicts(self) -> bool:
        """Whether scores are those of the link predictor and its rules."""
        return self.parts.search.predicts and self.parts.override is None

    def _find(
        self, head: int, relation: int, tail: int, denied: bool, score: float | None
    ) -> AtomEvidence:
        if not self._predicts:
            return NO_EVIDENCE
        rules = self.parts.rule_scorer
        found: tuple[Evidence, ...] = ()
        share = None
        if rules is not None:
            found = evidence_for(self.parts.selected, rules, head, relation, tail)
            share = self._rule_share(head, relation, tail, score=score) if found else 0.0
            # a rule may say of heads what none says of tails
            found = found or evidence_for(self.parts.selected, rules, tail, relation ^ 1, head)
        analogies = () if found or denied else self.analogies(head, relation, tail)
        return AtomEvidence(found, analogies, share)

    def _rule_share(self, *atom: int, score: float | None) -> float:
        """How much of an atom's score comes from its rules: `λ p` of `(1-λ) c + λ p`.

        It is all of it where written rules say more than that.
        """
        mixture = self.parts.mixture
        if mixture is None:
            return 1.0
        ids = torch.tensor(atom, device=mixture.scorer.device)[:, None]
        chance = mixture.scorer.logits_of(*ids).double().sigmoid()
        head, relation, tail = ids.to(self.parts.scorer.device)
        share = float(mixture.shares_of(head, relation))
        by_rules = share * float(mixture.chances(chance))
        written = mixture.written
        whole = float(written.logits_of(*ids).double().sigmoid()) if written is not None else 0.0
        if score is not None and self.parts.adapter is None:
            mixed = math.exp(score - self.parts.atoms.ceiling)
            if whole and mixed <= whole * (1.0 + _ROUNDING):
                return 1.0
            return min(1.0, by_rules / mixed) if mixed else 0.0
        rows = self._predictor_alone.rows(head, relation)
        alone = at(self._predictor_alone.shards, rows, torch.zeros_like(tail), tail).exp()
        mixed = (1.0 - share) * float(alone) + by_rules
        return 1.0 if whole > mixed else by_rules / mixed

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
        return self.parts.selected.index(*(self.parts.settings.observed or ("train",)))

    def analogies(
        self, head: int, relation: int, tail: int, top: int = ANALOGIES
    ) -> tuple[EvidenceFact, ...]:
        """The known facts of a relation whose ends are most similar to an atom's, by cosine.

        Of a large relation, some facts are compared, and some with one of the atom's own ends.
        """
        scorer = self.parts.scorer
        if not isinstance(scorer, VectorScorer) or shards_of(scorer).world > 1:
            return ()
        if relation % 2:
            head, tail = tail, head
        relation &= ~1
        if relation not in self._relations:
            self._relations[relation] = _RelationVectors.of(scorer, self._index, relation)
        nearest = self._relations[relation].nearest(head, tail, top)
        return tuple(
            EvidenceFact.of(self.parts.selected, (subject, relation, obj))
            for subject, obj in nearest
        )


@dataclass(frozen=True, eq=False)
class _RelationVectors:
    """The facts of a relation, and the vectors of the ends of some, each of length 1."""

    scorer: VectorScorer
    heads: Ints  # [F] of all facts
    tails: Ints
    compared: Ints  # [C] places of the facts that are compared with any atom
    head_vectors: NDArray[np.float32]  # [C, D]
    tail_vectors: NDArray[np.float32]

    @classmethod
    def of(cls, scorer: VectorScorer, index: FactIndex, relation: int) -> _RelationVectors:
        """The facts of a forward relation."""
        sources = index.sources.tails(relation, 0).astype(np.int64)
        rows, ends = index.neighbours(sources, np.full_like(sources, relation))
        heads, tails = sources[rows], ends.astype(np.int64)
        compared = np.arange(0, len(heads), max(1, -(-len(heads) // _COMPARED)))
        vectors = (_unit_vectors(scorer, each[compared]) for each in (heads, tails))
        return cls(scorer, heads, tails, compared, *vectors)

    def nearest(self, head: int, tail: int, top: int) -> list[tuple[int, int]]:
        """The ends of the facts most similar to an atom, which is not among them."""
        head_vector, tail_vector = _unit_vectors(self.scorer, np.array([head, tail]))
        places = self.compared
        closeness = self.head_vectors @ head_vector + self.tail_vectors @ tail_vector
        if len(places) < len(self.heads):
            near = np.flatnonzero((self.heads == head) | (self.tails == tail))
            near = np.setdiff1d(near[:: max(1, -(-len(near) // _NEAR))], places)
            closeness_near = _unit_vectors(self.scorer, self.heads[near]) @ head_vector
            closeness_near += _unit_vectors(self.scorer, self.tails[near]) @ tail_vector
            places = np.append(places, near)
            closeness = np.append(closeness, closeness_near)
        best = places[np.argsort(-closeness, kind="stable")[: top + 1]]
        ends = [(int(self.heads[place]), int(self.tails[place])) for place in best]
        return [each for each in ends if each != (head, tail)][:top]


def _unit_vectors(scorer: VectorScorer, entities: Ints) -> NDArray[np.float32]:
    """The vectors of entities, each of length 1, `[n] -> [n, D]`."""
    vectors = scorer.entity_vectors(torch.from_numpy(entities).to(scorer.device))
    units = torch.nn.functional.normalize(vectors.detach().float(), dim=1)
    array: NDArray[np.float32] = units.cpu().numpy()
    return array
