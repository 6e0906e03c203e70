"""The facts about one entity, known and predicted, by relation and direction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from tacit.engine.answers.completion import Completion
from tacit.engine.engine import Engine
from tacit.errors import SettingsError

_AT_ONCE = 64  # relations between two checks of the time, at most
_CHECKS = 20  # of the time, at least, until it is over


class Related(NamedTuple):
    """The other end of a fact: its label, its readable name, and the fact's score in [0, 1]."""

    entity: str
    name: str
    score: float


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
        return vars(self) | {"facts": [fact._asdict() for fact in self.facts]}


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
        left = math.inf if most is None else most
        cut = []
        for each in self.relations:
            cut.append(replace(each, facts=each.facts[offset : offset + int(min(limit, left))]))
            left -= len(cut[-1].facts)
        return replace(self, relations=tuple(cut))

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain data for JSON."""
        return vars(self) | {"relations": [each.to_dict() for each in self.relations]}


def known_facts(engine: Engine, entity: str, relation: str | None = None) -> EntityFacts:
    """The observed facts about an entity, by one directed relation or all, ends by name."""
    graph = engine.graph
    ends = dict[int, list[tuple[int, float]]]()
    here = graph.entities.id(entity)
    score = math.exp(engine.atoms.observed)
    directions = (
        np.arange(graph.num_relations)
        if relation is None
        else np.array([graph.relations.id(relation)])
    )
    index = engine.parts.index
    if index is not None:
        rows, tails = index.neighbours(np.full_like(directions, here), directions)
        for directed, tail in zip(directions[rows].tolist(), tails.tolist(), strict=True):
            if directed % 2 == 0 or tail != here:  # a loop is listed once, forward
                ends.setdefault(directed, []).append((tail, score))
    return _collected(engine, here, True, ends)


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
    here = engine.graph.entities.id(entity)
    began = monotonic()
    relation_id = None if relation is None else graph.relations.id(relation)
    if relation is not None and start is not None:
        raise SettingsError(
            "start goes on with further relations; leave it out where `relation` names one", "start"
        )
    first = 0 if start is None else graph.relations.id(start) & ~1
    along = range(first, graph.num_relations, 2) if relation_id is None else [relation_id & ~1]
    ends: dict[int, list[tuple[int, float]]] = {}
    done = 0
    many = 1
    while done < len(along) and (not done or monotonic() - began < seconds):
        labels = [graph.relations[each] for each in along[done : done + many]]
        before = monotonic()
        for fact in Completion(engine, labels, [graph.entities[here]], min_score=min_score):
            directed = graph.relations.id(fact.relation)
            subject = graph.entities.id(fact.subject)
            if subject == here:
                ends.setdefault(directed, []).append((graph.entities.id(fact.object), fact.score))
            else:
                ends.setdefault(directed ^ 1, []).append((subject, fact.score))
        done += len(labels)
        many = (
            min(_AT_ONCE, 2 * many)
            if monotonic() - before < seconds / _CHECKS
            else max(1, many // 2)
        )
    ends = {directed: rows for directed, rows in ends.items() if relation_id in (None, directed)}
    return replace(
        _collected(engine, here, False, ends),
        next=graph.relations[along[done]] if done < len(along) else None,
    )


def _collected(
    engine: Engine, here: int, known: bool, ends: Mapping[int, list[tuple[int, float]]]
) -> EntityFacts:
    """Group facts by directed relation; known ones are sorted by name."""
    entities = engine.graph.entities
    relations = engine.graph.relations
    relatives = []
    for directed, rows in ends.items():
        facts = [Related(entities[end], entities.name(end), score) for end, score in rows]
        if known:
            facts.sort(key=lambda fact: (fact.name.casefold(), fact.entity))
        relatives.append(
            Relatives(
                relations[directed],
                relations.name(directed & ~1),
                bool(directed & 1),
                len(facts),
                tuple(facts),
            )
        )
    relatives.sort(key=lambda each: (each.inverse, each.name.casefold(), each.relation))
    return EntityFacts(entities[here], entities.name(here), known, tuple(relatives))
