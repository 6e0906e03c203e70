"""The facts about one entity, known and predicted, by relation and direction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from tacit.engine.answers.evidence import NO_EVIDENCE, AtomEvidence
from tacit.engine.answers.evidence_finder import EvidenceFinder
from tacit.engine.completion import Completion
from tacit.engine.engine import Engine
from tacit.errors import SettingsError

_AT_ONCE = 64  # relations between two checks of the time, at most
_CHECKS = 20  # of the time, at least, until it is over


class Related(NamedTuple):
    """The other end of a fact: its label, its readable name, and the fact's score in [0, 1].

    A predicted fact may have evidence: the best rule that speaks for it, or analogies.
    """

    entity: str
    name: str
    score: float
    found: AtomEvidence = NO_EVIDENCE

    def to_dict(self) -> dict[str, Any]:
        """The end as plain data for JSON."""
        data = {"entity": self.entity, "name": self.name, "score": self.score}
        return data | self.found.to_dict()


@dataclass(frozen=True)
class Relatives:
    """The facts about an entity by one directed relation: their number, and some of them."""

    relation: str  # a directed label: `speaks^-1` leads from a language to its speakers
    name: str  # of the relation as stored, without its direction
    inverse: bool
    count: int
    facts: tuple[Related, ...]

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain data for JSON."""
        return vars(self) | {"facts": [fact.to_dict() for fact in self.facts]}


@dataclass(frozen=True)
class EntityFacts:
    """Facts about an entity: first those with it as subject, then by relation name.

    `next` names the relation to continue with where time ran out.
    """

    entity: str
    name: str
    known: bool
    relations: tuple[Relatives, ...]
    next: str | None = None

    def page(self, limit: int, offset: int = 0, most: int | None = None) -> EntityFacts:
        """Keep `limit` facts of each relation from `offset` on, `most` in all."""
        room = math.inf if most is None else most
        pages = []
        for each in self.relations:
            facts = each.facts[offset : offset + int(min(limit, room))]
            pages.append(replace(each, facts=facts))
            room -= len(facts)
        return replace(self, relations=tuple(pages))

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain data for JSON."""
        return vars(self) | {"relations": [each.to_dict() for each in self.relations]}


def known_facts(engine: Engine, entity: str, relation: str | None = None) -> EntityFacts:
    """The observed facts about an entity, by one directed relation or all, ends by name."""
    graph = engine.graph
    ends = defaultdict[int, list[tuple[int, float]]](list)
    subject = graph.entities.id(entity)
    score = math.exp(engine.atoms.observed)
    directions = (
        np.arange(graph.num_relations)
        if relation is None
        else np.array([graph.relations.id(relation)])
    )
    index = engine.parts.index
    if index is not None:
        rows, tails = index.neighbours(np.full_like(directions, subject), directions)
        for directed, tail in zip(directions[rows].tolist(), tails.tolist(), strict=True):
            if directed % 2 == 0 or tail != subject:  # a loop is listed once, forward
                ends[directed].append((tail, score))
    return _collect(engine, subject, True, ends)


def predicted_facts(
    engine: Engine,
    entity: str,
    relation: str | None = None,
    *,
    min_score: float = 0.1,
    start: str | None = None,
    seconds: float = math.inf,
) -> EntityFacts:
    """The facts about an entity that the graph most probably lacks, best first.

    They are those of `Completion`, by one directed relation or all. Relations are searched one
    after the other, from `start` on, until `seconds` have passed.
    """
    graph = engine.graph
    relations = graph.relations
    center = graph.entities.id(entity)
    start_time = monotonic()
    relation_id = None if relation is None else relations.id(relation)
    if relation is not None and start is not None:
        raise SettingsError(
            "start goes on with further relations; leave it out where `relation` names one", "start"
        )
    first = 0 if start is None else relations.id(start) & ~1
    pending = range(first, graph.num_relations, 2) if relation_id is None else [relation_id & ~1]
    ends = defaultdict[int, list[tuple[int, float]]](list)
    step = 1
    searched = 0
    while searched < len(pending) and (not searched or monotonic() - start_time < seconds):
        labels = [relations[each] for each in pending[searched : searched + step]]
        step_time = monotonic()
        for fact in Completion(engine, labels, [graph.entities[center]], min_score=min_score):
            directed = relations.id(fact.relation)
            end = graph.entities.id(fact.object)
            if (subject := graph.entities.id(fact.subject)) != center:
                directed ^= 1
                end = subject
            if relation_id in (None, directed):
                ends[directed].append((end, fact.score))
        searched += len(labels)
        quick = monotonic() - step_time < seconds / _CHECKS
        step = min(_AT_ONCE, 2 * step) if quick else max(1, step // 2)
    return replace(
        _collect(engine, center, False, ends),
        next=relations[pending[searched]] if searched < len(pending) else None,
    )


def with_evidence(engine: Engine, facts: EntityFacts) -> EntityFacts:
    """The same predicted facts, each with the best rule that speaks for it, or analogies."""
    finder = EvidenceFinder(engine.parts)
    entities = engine.graph.entities
    center = entities.id(facts.entity)

    def explained(relation: int, fact: Related) -> Related:
        ends = center, entities.id(fact.entity)
        subject, obj = ends[::-1] if relation % 2 else ends
        return fact._replace(found=finder.of_prediction(subject, relation & ~1, obj))

    relations = []
    for each in facts.relations:
        directed = partial(explained, engine.graph.relations.id(each.relation))
        relations.append(replace(each, facts=tuple(map(directed, each.facts))))
    return replace(facts, relations=tuple(relations))


def _collect(
    engine: Engine, center: int, known: bool, ends: Mapping[int, list[tuple[int, float]]]
) -> EntityFacts:
    """Group facts by directed relation; known ones are sorted by name."""
    entities = engine.graph.entities
    relations = engine.graph.relations
    relatives = []
    for directed, rows in ends.items():
        facts = [Related(entities[end], entities.name(end), score) for end, score in rows]
        if known:
            facts.sort(key=lambda fact: (fact.name.casefold(), fact.entity))
        name = relations.name(directed & ~1)
        inverse = bool(directed & 1)
        relatives.append(Relatives(relations[directed], name, inverse, len(facts), tuple(facts)))
    relatives.sort(key=lambda each: (each.inverse, each.name.casefold(), each.relation))
    return EntityFacts(entities[center], entities.name(center), known, tuple(relatives))
