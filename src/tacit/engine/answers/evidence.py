"""Evidence of predicted atoms: the rules that speak for them, or else the nearest known facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tacit.graph.fact_index import FactIndex, Ints
from tacit.graph.graph import Graph
from tacit.links.rules.rule_scorer import Firing, RuleScorer
from tacit.links.rules.rule_set import Rule
from tacit.links.scorer import VectorScorer, shards_of
from tacit.query.rule_words import (
    path_in_words,
    rule_formula,
    rule_in_words,
    statistic_in_words,
)
from tacit.query.wording import fact_in_words

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.engine.parts import EngineParts

RULES = 3  # rules shown of an atom: those that its score is made of
PATHS = 2  # groundings shown of a rule
ANALOGIES = 3
_LOOKED_AT = 16  # groundings of a rule, among which those with facts of their own are shown
_COMPARED = 4096  # facts of a relation that are compared with an atom
_WHOLE = 0.995  # a share of a score that is not worth mentioning

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class EvidenceFact:
    """A known fact by names, and the labels to look it up by."""

    subject: str
    relation: str
    object: str
    subject_label: str
    relation_label: str
    object_label: str

    def __str__(self) -> str:
        return fact_in_words(self.relation, self.subject, self.object)

    @classmethod
    def of(cls, graph: Graph, triple: Triple) -> EvidenceFact:
        """A forward fact by names."""
        s, r, o = triple
        entities = graph.entities
        names = entities.name(s), graph.relations.name(r), entities.name(o)
        return cls(*names, entities[s], graph.relations[r], entities[o])


@dataclass(frozen=True)
class EvidencePath:
    """A grounding of a rule: known facts, and how they read together."""

    text: str
    facts: tuple[EvidenceFact, ...]


@dataclass(frozen=True)
class NamedRule:
    """A rule by names: in words and as a formula, and how often it held."""

    id: int
    words: str
    formula: str
    statistic: str  # the counts in words; empty where nothing was counted
    support: int
    groundings: int
    confidence: float
    exact: bool  # whether the counts are no estimates
    written: bool  # whether a person wrote it

    @classmethod
    def of(cls, graph: Graph, rule: Rule, id: int) -> NamedRule:
        """The rule with an id by the names of a graph."""
        texts = rule_in_words(graph, rule), rule_formula(graph, rule)
        return cls(
            id,
            *texts,
            statistic_in_words(graph, rule),
            rule.support,
            rule.groundings,
            rule.confidence,
            rule.exact,
            rule.written,
        )

    @property
    def hard(self) -> bool:
        """Whether a person wrote that it holds without exception."""
        return self.written and self.confidence >= 1.0


@dataclass(frozen=True)
class Evidence:
    """A rule that speaks for an atom, and the groundings that it rests on here.

    No grounding is shown twice, not even by two rules.
    """

    rule: NamedRule
    paths: tuple[EvidencePath, ...]
    more: int = 0  # groundings beside these

    def lines(self, denied: bool = False) -> list[str]:
        """The evidence as lines of text, one for each grounding; for a `denied` atom or not."""
        rule = self.rule
        facts = self.paths[0].text if self.paths else "the same facts"
        opening = "against it: " if denied else "because " if self.paths else "because of "
        marks = [f"{100 * rule.confidence:.0f} %", f"rule {rule.id}"]
        if rule.hard:
            opening = f"{'against it: ' * denied}follows by rule {rule.id}: "
            marks = []
        marks += ["written by a person"] * rule.written
        counts = f": {rule.statistic}" * bool(rule.statistic)
        lines = [f"{opening}{facts}{counts} ({', '.join(marks)})"]
        lines += [f"  also {path.text}" for path in self.paths[1:]]
        if self.more:
            lines.append(f"  and in {self.more:,} more way{'s' * (self.more > 1)}")
        return lines

    @property
    def text(self) -> str:
        """The rule and its first grounding as one line of text."""
        return self.lines()[0]

    def to_dict(self) -> dict[str, Any]:
        """The evidence as plain data for JSON."""
        paths = [
            {"text": path.text, "facts": [vars(fact) | {} for fact in path.facts]}
            for path in self.paths
        ]
        return {"text": self.text, "rule": vars(self.rule) | {}, "paths": paths, "more": self.more}


@dataclass(frozen=True)
class AtomEvidence:
    """The evidence of an atom by rules, and how much of its score these carry, from 0 to 1.

    Where no rule speaks for it, `analogies` are the most similar known facts of its relation. The
    `share` is None where there are no rules at all.
    """

    rules: tuple[Evidence, ...] = ()
    analogies: tuple[EvidenceFact, ...] = ()
    share: float | None = None

    def lines(self, denied: bool = False) -> Iterator[str]:
        """Yield the evidence as lines of text."""
        for evidence in self.rules:
            yield from evidence.lines(denied)
        if self.rules and self.share is not None and self.share < _WHOLE:
            yield f"rules carry {100 * self.share:.0f} % of the score"
        notes = ["no rule speaks for it"] * (self.share is not None and not self.rules)
        if self.analogies:
            notes.append(f"nearest analogies: {'; '.join(map(str, self.analogies))}")
        if notes:
            yield "; ".join(notes)

    def to_dict(self) -> dict[str, Any]:
        """The parts that are present, as plain data for JSON."""
        data: dict[str, Any] = {}
        if self.share is not None:
            data["evidence"] = [evidence.to_dict() for evidence in self.rules]
            data["rule_share"] = self.share
        if self.analogies:
            data["analogies"] = [vars(fact) | {} for fact in self.analogies]
        return data


NO_EVIDENCE = AtomEvidence()


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
    """The evidence of a rule, by groundings that share no facts and that no rule before showed."""
    used = set[Triple]()
    paths = []
    repeated = 0
    for path in firing.paths:
        facts = path_facts(firing.rule, path)
        if frozenset(facts) in shown:
            repeated += 1
        elif len(paths) < count and used.isdisjoint(facts):
            used.update(facts)
            named = tuple(EvidenceFact.of(graph, fact) for fact in facts)
            paths.append((EvidencePath(path_in_words(graph, firing.rule, path), named), facts))
    shown.update(frozenset(facts) for _, facts in paths)
    return Evidence(
        NamedRule.of(graph, firing.rule, firing.id),
        tuple(path for path, _ in paths),
        firing.total - len(paths) - repeated,
    )


def path_facts(rule: Rule, path: tuple[int, ...]) -> list[Triple]:
    """The forward facts of a rule's body along a path of entities."""
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

    def _find(self, head: int, relation: int, tail: int, denied: bool) -> AtomEvidence:
        if not self.parts.search.predicts or self.parts.override is not None:
            return NO_EVIDENCE
        rules = self.parts.rule_scorer
        found = ()
        share = None
        if rules is not None:
            found = evidence_for(self.parts.graph, rules, head, relation, tail)
            share = self._rule_share(head, relation, tail) if found else 0.0
        analogies = () if found or denied else self.analogies(head, relation, tail)
        return AtomEvidence(found, analogies, share)

    def _rule_share(self, head: int, relation: int, tail: int) -> float:
        """How much of an atom's score comes from rules."""
        return 1.0

    @cached_property
    def _index(self) -> FactIndex:
        """The facts that analogies come from."""
        index = self.parts.index
        return self.parts.graph.index("train") if index is None else index

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
