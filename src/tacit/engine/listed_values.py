"""The values of one entity, and the entities of one attribute by their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from tacit.engine.answers.answer_values import AnswerValue
from tacit.engine.answers.answers import LIKELY
from tacit.engine.atoms.comparisons import Comparisons
from tacit.engine.engine import Engine
from tacit.engine.entity_values import with_reasons
from tacit.graph.fact_index import Ints
from tacit.graph.labels.vocabulary import Vocabulary

MOST_PREDICTED = 1000  # entities of an attribute whose predicted values are ranked


@dataclass(frozen=True)
class EntityValues:
    """Values of an entity by attribute: first the known ones, each kind by name."""

    entity: str
    name: str
    values: tuple[AnswerValue, ...]
    whole: bool = True  # whether there was time to look at all attributes

    def to_dict(self) -> dict[str, Any]:
        """The values as plain data for JSON."""
        return vars(self) | {"values": [value.to_dict() for value in self.values]}


def list_values(
    engine: Engine, entity: str, attribute: str | None = None, *, seconds: float = math.inf
) -> EntityValues:
    """The values of an entity, known ones, else predicted ones, of one attribute or all.

    Of all attributes those are predicted that the entity probably has, until `seconds` have passed.
    """
    entities = engine.graph.entities
    i = entities.id(entity)
    comparisons = engine.parts.comparisons
    names = comparisons.known.attributes.names
    chosen = list(names) if attribute is None else [names[names.id(attribute)]]
    end = monotonic() + seconds
    found = []
    late = False
    for name in _known_first(comparisons, i, chosen):
        if late := monotonic() > end:
            break
        value = AnswerValue.of(comparisons, name, i)
        if value is not None and (attribute is not None or _is_likely(value)):
            found.append(with_reasons(engine, i, value))
    found.sort(key=lambda value: (not value.known, names.name(names.id(value.attribute.name))))
    return EntityValues(entities[i], entities.name(i), tuple(found), not late)


def _known_first(comparisons: Comparisons, entity: int, names: Sequence[str]) -> list[str]:
    """Attributes, those first of which an entity has known values."""
    rows = comparisons.known.attributes.rows
    known = {
        comparisons.known.attributes.listed[i].name
        for i in set(rows["attribute"][rows["entity"] == entity].tolist())
    }
    return sorted(names, key=lambda name: name not in known)


def _is_likely(value: AnswerValue) -> bool:
    return value.predicted is None or value.predicted.presence >= LIKELY


@dataclass(frozen=True, eq=False)
class RankedEntities:
    """The entities of an attribute by value: those with known values, then predicted ones."""

    comparisons: Comparisons
    entities: Vocabulary
    attribute: str
    known: Ints
    predicted: Ints  # those that probably have a value, at most `MOST_PREDICTED`

    def rows(self, limit: int, offset: int = 0) -> list[dict[str, Any]]:
        """Some of the entities with their values, as plain data for JSON."""
        chosen = np.concatenate([self.known, self.predicted])[offset : offset + limit].tolist()
        values = (AnswerValue.of(self.comparisons, self.attribute, i) for i in chosen)
        return [
            {
                "entity": self.entities[i],
                "name": self.entities.name(i),
                "value": None if value is None else value.to_dict(),
            }
            for i, value in zip(chosen, values, strict=True)
        ]


def rank_entities(engine: Engine, attribute: str, descending: bool = True) -> RankedEntities:
    """The entities of an attribute in the order of their values; equal ones are in that of ids."""
    comparisons = engine.parts.comparisons
    names = comparisons.known.attributes.names
    i = names.id(attribute)
    column = comparisons.known.column(names[i])
    best = column.values
    holders = column.entities
    if len(holders):
        starts = np.flatnonzero(np.r_[True, holders[1:] != holders[:-1]])
        best = (np.maximum if descending else np.minimum).reduceat(column.values, starts)
        holders = holders[starts]
    order = np.argsort(-best if descending else best, kind="stable")
    predicted = _predicted(comparisons, i, names[i], descending)
    return RankedEntities(comparisons, engine.graph.entities, names[i], holders[order], predicted)


def _predicted(comparisons: Comparisons, attribute: int, name: str, descending: bool) -> Ints:
    """The entities that most probably have a value that is not known, by their medians."""
    predictor = comparisons.predictor
    if predictor is None:
        return np.empty(0, dtype=np.int64)
    presence = predictor.probability(attribute, -math.inf, math.inf).cpu().double().numpy()
    presence = np.where(comparisons.known.known(name), 0.0, presence)
    likely = np.flatnonzero(presence >= LIKELY)
    likely = likely[np.argsort(-presence[likely], kind="stable")][:MOST_PREDICTED]
    medians = [(predictor.predicted(attribute, i), i) for i in sorted(likely.tolist())]
    found = [(value.median, i) for value, i in medians if value is not None]
    found.sort(key=lambda pair: -pair[0] if descending else pair[0])
    return np.array([i for _, i in found], dtype=np.int64)
