"""Completes names as they are typed; entities by how often a relation leads to them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import quoted
from tacit.query.words.wording import in_words

KEPT = 64  # ends of relations whose entities are kept
MOST = 20_000  # entities at one end that are looked through for what was typed
Matches = list[dict[str, str]]  # label, name and text of each, and the words of a relation


class Completions:
    """Looks the names of a graph up by their beginnings."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._column = lru_cache(KEPT)(self._counted)

    def relations(self, typed: str, limit: int) -> Matches:
        """Relations that complete a prefix; an inverse takes its relation's name."""
        words = self.graph.relations
        ids = [i for i in map(words.id, words.complete(typed, 2 * limit)) if i % 2 == 0]
        return [row | {"words": in_words(row["name"])} for row in _rows(words, ids[:limit])]

    def entities(
        self, typed: str, limit: int, relation: str | None = None, end: str = "object"
    ) -> Matches:
        """Entities that complete a prefix, those at an end of a relation first."""
        if end not in ("subject", "object"):
            raise SettingsError(f"end is {end!r}; it must be one of subject, object", "end")
        words = self.graph.entities
        known = None if relation is None else self.graph.relations.get(relation)
        fitting = [] if known is None else words.complete(typed, limit, self._at(known, end))
        ids = dict.fromkeys(map(words.id, (*fitting, *words.complete(typed, limit))))
        return _rows(words, list(ids)[:limit])

    def _at(self, relation: int, end: str) -> list[int]:
        """The entities at an end of a relation's facts, the most frequent first."""
        return self._column(relation & ~1, 0 if (end == "subject") != bool(relation & 1) else 2)

    def _counted(self, relation: int, column: int) -> list[int]:
        ids, counts = np.unique(self.graph.facts_by(relation)[:, column], return_counts=True)
        most: list[int] = ids[np.argsort(-counts, kind="stable")][:MOST].tolist()
        return most


def _rows(words: Vocabulary, ids: Iterable[int]) -> Matches:
    """The label, name and written text of ids; the text is the name where unambiguous."""
    named = [(i, words[i], words.name(i)) for i in ids]
    return [
        {
            "label": label,
            "name": name,
            "text": quoted(name if words.resolve(name) == [i] else label),
        }
        for i, label, name in named
    ]
