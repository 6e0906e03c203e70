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

_AT_ONCE = 64  # relations whose facts are predicted between two looks at the clock, at most
_LOOKS = 20  # at the clock, at least, while the time lasts


class Related(NamedTuple):
    """What a fact about an entity leads to: its label, its readable name, and the fact's score in [0, 1]."""

    entity: str
    name: str
    score: float


@dataclass(frozen=True)
class Relatives:
    """The facts about an entity by one directed relation: how many there are, and some of them."""

    relation: str  # a directed label: `speaks^-1` leads from a language to who speaks it
    name: str  # of the relation as it is stored, whatever the direction
    inverse: bool
    count: int
    facts: tuple[Related, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        return vars(self) | {"facts": [fact._asdict() for fact in self.facts]}


@dataclass(frozen=True)
class EntityFacts:
    """Facts about an entity, those where it is the subject first, relations by name.

    `next` names the relation to go on with where there was no time for all of them.
    """

    entity: str
    name: str
    known: bool
    relations: tuple[Relatives, ...]
    next: str | None = None

    def page(self, limit: int, offset: int = 0, most: int | None = None) -> EntityFacts:
        """The same with `limit` facts of each relation from the one at `offset` on, and no more than `most` in all."""
        left, cut = math.inf if most is None else most, []
        for each in self.relations:
            cut.append(replace(each, facts=each.facts[offset : offset + int(min(limit, left))]))
            left -= len(cut[-1].facts)
        return replace(self, relations=tuple(cut))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        return vars(self) | {"relations": [each.to_dict() for each in self.relations]}


def known_facts(engine: Engine, entity: str, relation: str | None = None) -> EntityFacts:
    """The facts about an entity that the engine was handed, of one directed relation or of all, ends by name."""
    graph, ends = engine.graph, dict[int, list[tuple[int, float]]]()
    here, score = graph.entities.id(entity), math.exp(engine.atoms.observed)
    ways = np.arange(graph.num_relations) if relation is None else np.array([graph.relations.id(relation)])
    if engine.index is not None:
        rows, tails = engine.index.neighbours(np.full_like(ways, here), ways)
        for way, tail in zip(ways[rows].tolist(), tails.tolist(), strict=True):
            if way % 2 == 0 or tail != here:  # a loop is listed once, forward
                ends.setdefault(way, []).append((tail, score))
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
    """The facts about an entity that the graph is most probably missing, of one directed relation or all, best first.

    They are those of `Completion`. Relations are looked at one after the other, from `start` on; after some `seconds`
    no further ones are.
    """
    graph, here, began = engine.graph, engine.graph.entities.id(entity), monotonic()
    wanted = None if relation is None else graph.relations.id(relation)
    if relation is not None and start is not None:
        raise SettingsError("start goes on with further relations; leave it out where relation names one", "start")
    first = 0 if start is None else graph.relations.id(start) & ~1
    along = range(first, graph.num_relations, 2) if wanted is None else [wanted & ~1]
    ends: dict[int, list[tuple[int, float]]] = {}
    done, many = 0, 1
    while done < len(along) and (not done or monotonic() - began < seconds):
        labels, before = [graph.relations[each] for each in along[done : done + many]], monotonic()
        for fact in Completion(engine, labels, [graph.entities[here]], min_score=min_score):
            way, subject = graph.relations.id(fact.relation), graph.entities.id(fact.subject)
            if subject == here:
                ends.setdefault(way, []).append((graph.entities.id(fact.object), fact.score))
            else:
                ends.setdefault(way ^ 1, []).append((subject, fact.score))
        done += len(labels)
        many = min(_AT_ONCE, 2 * many) if monotonic() - before < seconds / _LOOKS else max(1, many // 2)
    ends = {way: rows for way, rows in ends.items() if wanted in (None, way)}
    return replace(
        _collected(engine, here, False, ends), next=graph.relations[along[done]] if done < len(along) else None
    )


def _collected(engine: Engine, here: int, known: bool, ends: Mapping[int, list[tuple[int, float]]]) -> EntityFacts:
    """Facts by directed relation, each with its other end and its score; known ones by name."""
    entities, relations, relatives = engine.graph.entities, engine.graph.relations, []
    for way, rows in ends.items():
        facts = [Related(entities[end], entities.name(end), score) for end, score in rows]
        if known:
            facts.sort(key=lambda fact: (fact.name.casefold(), fact.entity))
        relatives.append(Relatives(relations[way], relations.name(way & ~1), bool(way & 1), len(facts), tuple(facts)))
    relatives.sort(key=lambda each: (each.inverse, each.name.casefold(), each.relation))
    return EntityFacts(entities[here], entities.name(here), known, tuple(relatives))
