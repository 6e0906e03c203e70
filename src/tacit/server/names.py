"""Names that complete what was typed; of entities, those first that a relation is known to lead to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from tacit.graph.forms import spaced
from tacit.graph.graph import Graph
from tacit.graph.index import Ints
from tacit.graph.vocabulary import Vocabulary
from tacit.query.formula import quoted
from tacit.query.wording import in_words

KEPT = 64  # ends of relations whose entities are kept
MOST = 20_000  # entities at one end that are looked through for what was typed


class Names:
    """Looks the names of a graph up by their beginnings."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._ends: OrderedDict[tuple[int, str], Ints] = OrderedDict()

    def relations(self, typed: str, limit: int) -> dict[str, Any]:
        """Relations that complete what was typed; an inverse is written with the relation's own name."""
        words = self.graph.relations
        ids = [i for i in map(words.id, words.complete(typed, 2 * limit)) if i % 2 == 0]
        return {"matches": [row | {"words": in_words(row["name"])} for row in _rows(words, ids[:limit])]}

    def entities(self, typed: str, limit: int, relation: str | None = None, end: str = "object") -> dict[str, Any]:
        """Entities that complete what was typed, those first that facts have at an end of a relation."""
        words, known = self.graph.entities, None if relation is None else self.graph.relations.get(relation)
        fitting = [] if known is None else self._fitting(typed, self._at(known, end))[:limit]
        ids = dict.fromkeys((*fitting, *map(words.id, words.complete(typed, limit))))
        return {"matches": _rows(words, list(ids)[:limit])}

    def _fitting(self, typed: str, ids: Ints) -> list[int]:
        """The entities among some that complete what was typed, ordered as all are; else the most frequent first."""
        words, wanted = self.graph.entities, spaced(typed)
        some: list[int] = ids[:MOST].tolist()
        if not wanted:
            return some
        found: dict[int, tuple[bool, int, str]] = {}
        for i in some:
            for text in (words[i], *words.names.get(words[i], ())):
                form = spaced(text)
                inside = not form.startswith(wanted)
                if not inside or f" {wanted}" in form:
                    found[i] = min(found.get(i, (True, len(text), text)), (inside, len(text), text))
        return sorted(found, key=found.__getitem__)

    def _at(self, relation: int, end: str) -> Ints:
        """The entities at an end of a relation's facts, the most frequent first."""
        key = (relation & ~1, end if not relation & 1 else {"subject": "object", "object": "subject"}[end])
        found = self._ends.get(key)
        if found is None:
            column = 0 if key[1] == "subject" else 2
            parts = [self.graph.split(name) for name in ("train", "valid", "test")]
            seen = np.concatenate([part[part[:, 1] == key[0], column] for part in parts]).astype(np.int64)
            ids, counts = np.unique(seen, return_counts=True)
            found = self._ends[key] = ids[np.argsort(-counts, kind="stable")]
            if len(self._ends) > KEPT:
                self._ends.popitem(last=False)
        return found


def _rows(words: Vocabulary, ids: Iterable[int]) -> list[dict[str, Any]]:
    """Labels by their ids; what a question writes is the name, where no other has it."""
    named = [(i, words[i], words.name(i)) for i in ids]
    return [
        {"label": label, "name": name, "text": quoted(name if words.meant(name) == [i] else label)}
        for i, label, name in named
    ]
