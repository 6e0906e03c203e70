"""The schema of a graph for those who write questions: its relations in words, with their ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tacit.graph.graph import Graph, facts_by
from tacit.graph.statistics import is_symmetric
from tacit.query.attribute_words import AttributeWords
from tacit.query.formula import quoted
from tacit.query.suggestions import Completions
from tacit.query.wording import in_words

_EXAMPLES = 3  # entities at each end
_TYPED = 2000  # entities of an end whose types are counted
_TYPES = 3  # shown of an end
# a relation with one of these names leads to the type of an entity
_TYPE_WORDS = frozenset({"type", "a", "is a", "instance of"})


@dataclass(frozen=True)
class RelationEnd:
    """The entities at one end of a relation's facts."""

    count: int
    examples: tuple[str, ...]  # the most frequent, as a question writes them
    types: tuple[str, ...]  # the most frequent, where the graph has a relation of types


@dataclass(frozen=True)
class RelationSchema:
    """A relation in words, with its domain, range, counts and an example."""

    relation: str  # as a question writes it
    words: str
    facts: int
    subjects: RelationEnd
    objects: RelationEnd
    symmetric: bool
    example: str  # a fact, as a question writes it


class GraphSchema:
    """The relations of a graph, the most frequent first, described as they are asked for."""

    def __init__(self, graph: Graph, names: Completions | None = None) -> None:
        self.graph = graph
        self.names = names or Completions(graph)
        self._attributes = AttributeWords(graph)

    @cached_property
    def counts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The facts of each relation id, in all splits."""
        return np.bincount(self.graph.facts()[:, 1], minlength=self.graph.num_relations)

    @cached_property
    def _ends(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The distinct heads of each directed relation."""
        return np.bincount(self.graph.index().relations, minlength=self.graph.num_relations)

    @cached_property
    def _type_relations(self) -> list[int]:
        """The relations that lead to the type of an entity."""
        names = self.graph.relations
        return [
            r for r in range(0, len(names), 2) if in_words(names.name(r)).lower() in _TYPE_WORDS
        ]

    def matches(self, text: str = "") -> list[int]:
        """The relations whose label, name or words contain a text, the most frequent first."""
        part = text.casefold().strip()
        names = self.graph.relations
        found = [
            r
            for r in range(0, len(names), 2)
            if any(part in form.casefold() for form in self._forms(r))
        ]
        return sorted(found, key=lambda r: (-int(self.counts[r]), r))

    def attributes(self, text: str = "") -> list[dict[str, Any]]:
        """The attributes whose label, name or words contain a text, as plain data for JSON."""
        part = text.casefold().strip()
        rows = (self._attributes.describe(name) for name in self.graph.attributes.names)
        return [
            row
            for row in rows
            if any(part in row[form].casefold() for form in ("label", "name", "words"))
        ]

    def describe(self, relation: int) -> dict[str, Any]:
        """A relation by its id, as plain data for JSON."""
        names = self.graph.relations
        train = self.graph.train[self.graph.train[:, 1] == relation]
        facts = train if len(train) else facts_by(self.graph, relation)
        entities = self.graph.entities
        written = self._written(names, relation)
        example = ""
        if len(facts):
            ends = (self._written(entities, int(facts[0, place])) for place in (0, 2))
            example = f"{written}({', '.join(ends)})"
        return asdict(
            RelationSchema(
                written,
                in_words(names.name(relation)),
                int(self.counts[relation]),
                self._end(relation, "subject"),
                self._end(relation, "object"),
                is_symmetric(self.graph, relation),
                example,
            )
        )

    def _end(self, relation: int, end: str) -> RelationEnd:
        """The entities at an end of a relation."""
        label = self.graph.relations[relation]
        count = int(self._ends[relation | (end == "object")])
        shown = min(_EXAMPLES, count)
        rows = self.names.entities("", shown, label, end) if shown else []
        return RelationEnd(count, tuple(row["text"] for row in rows), self._types(relation, end))

    def _types(self, relation: int, end: str) -> tuple[str, ...]:
        """The most frequent types of the entities at an end of a relation."""
        if not self._type_relations or relation in self._type_relations:
            return ()
        ids = np.unique(facts_by(self.graph, relation)[:, 0 if end == "subject" else 2])[:_TYPED]
        index = self.graph.index()
        tails = (
            index.neighbours(ids, np.full_like(ids, each))[1].tolist()
            for each in self._type_relations
        )
        frequent = Counter(chain.from_iterable(tails)).most_common(_TYPES)
        return tuple(self._written(self.graph.entities, each) for each, _ in frequent)

    def _forms(self, relation: int) -> tuple[str, ...]:
        """The forms in which a text may name a relation."""
        names = self.graph.relations
        name = names.name(relation)
        return names[relation], name, in_words(name)

    @staticmethod
    def _written(names: Any, id: int) -> str:
        """A label or name as a question writes it: the name, if no other has it."""
        name = names.name(id)
        return quoted(name if names.resolve(name) == [id] else names[id])
