"""Suggestions to those who ask: completions of names, and example questions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.errors import SettingsError
from tacit.graph.fact_index import Ids, Integers
from tacit.graph.graph import INVERSE, Graph, facts_by
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.quantities import Quantity
from tacit.query.attribute_words import AttributeWords
from tacit.query.formula import Query, quoted
from tacit.query.outline import outline
from tacit.query.question_reader import QuestionReader
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.query.text import parse
from tacit.query.wording import in_words

_CACHED_ENDS = 64  # ends of relations whose entities are kept
_MOST_ENTITIES = 20_000  # at one end that are looked through for what was typed
_SAMPLED = 200  # questions of each shape, of which the best is shown
_MOST_ANSWERS = 12
_LONGEST_NAME = 24  # characters of a name that reads well
_EXAMPLE_SHAPES = ("1p", "2i", "2p", "2in", "2u", "pi")
Matches = list[dict[str, str]]  # label, name and text of each, and the words of a relation


class Completions:
    """Looks the names of a graph up by their beginnings."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._attributes = AttributeWords(graph)
        self._column = lru_cache(_CACHED_ENDS)(self._most_frequent)

    def relations(self, typed: str, limit: int) -> Matches:
        """Relations that complete a prefix; an inverse takes its relation's name."""
        _check(typed, limit)
        words = self.graph.relations
        ids = [i for i in map(words.id, words.complete(typed, 2 * limit)) if i % 2 == 0]
        return [row | {"words": in_words(row["name"])} for row in _rows(words, ids[:limit])]

    def attributes(self, typed: str, limit: int) -> list[dict[str, Any]]:
        """Attributes that complete a prefix."""
        _check(typed, limit)
        found = self.graph.attributes.names.complete(typed, limit) if limit else []
        return [self._attributes.describe(label) for label in found]

    def entities(
        self, typed: str, limit: int, relation: str | None = None, end: str = "object"
    ) -> Matches:
        """Entities that complete a prefix, those at an end of a relation first.

        In place of the relation an attribute may stand: those with values come first.
        """
        _check(typed, limit)
        if end not in ("subject", "object"):
            raise SettingsError(f"end is {end!r}; it must be one of subject, object", "end")
        words = self.graph.entities
        known = None if relation is None else self.graph.relations.get(relation)
        attribute = None if relation is None else self.graph.attributes.names.get(relation)
        first: list[int] = []
        if known is not None:
            first = self._at_end(known, end)
        elif attribute is not None:
            first = np.unique(self.graph.attributes.column(attribute)[0])[:_MOST_ENTITIES].tolist()
        at_end = words.complete(typed, limit, first) if first else []
        ids = dict.fromkeys(map(words.id, (*at_end, *words.complete(typed, limit))))
        return _rows(words, list(ids)[:limit])

    def similar(self, text: str, limit: int) -> Matches:
        """The entities that are spelt most like a text."""
        _check(text, limit)
        words = self.graph.entities
        return _rows(words, map(words.id, words.nearest(text, limit)))

    def _at_end(self, relation: int, end: str) -> list[int]:
        """The entities at an end of a relation's facts, the most frequent first."""
        return self._column(relation & ~1, 0 if (end == "subject") != bool(relation & 1) else 2)

    def _most_frequent(self, relation: int, column: int) -> list[int]:
        ids, counts = np.unique(facts_by(self.graph, relation)[:, column], return_counts=True)
        most: list[int] = ids[np.argsort(-counts, kind="stable")][:_MOST_ENTITIES].tolist()
        return most


def _check(typed: str, limit: int) -> None:
    """Raise a `SettingsError` for a prefix or a limit that is none."""
    if not isinstance(typed, str):
        raise SettingsError(f"typed is {typed!r}; it must be a text", "typed")
    if not isinstance(limit, int) or limit < 0:
        raise SettingsError(f"limit is {limit!r}; it must be a whole number", "limit")


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


def examples(graph: Graph) -> list[dict[str, str]]:
    """One question per shape, and one that compares a value, the same on each call.

    They have some but not many answers. The best has several, relations not shown yet, short names
    and well-connected entities, which people know.
    """
    if not len(graph.train):
        return []
    degrees = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.num_entities)
    used: set[int] = set()  # relations
    shown = []
    reader = QuestionReader(graph)
    for shape in _EXAMPLE_SHAPES:
        sampled = sample(
            graph, SHAPES[shape], "train", _SAMPLED, max_answers=_MOST_ANSWERS, waste=0.95
        ).queries
        ranks = []
        for row in range(len(sampled)):
            entities = sampled.entities[row]
            several = bool(sampled.hard.counts[row] > 1)
            unused = len({*(sampled.relations[row] & ~1)} - used)
            short = all(len(graph.entities[i]) <= _LONGEST_NAME for i in entities)
            ranks.append((several, unused, short, int(degrees[entities].min())))
        if ranks:
            best = ranks.index(max(ranks))
            used.update(sampled.relations[best] & ~1)
            query = _written(shape, graph, sampled.entities[best], sampled.relations[best])
            title = reader.sentence(outline(query))
            shown.append({"query": str(query), "shape": shape, "title": title})
    compared = _comparison_example(graph, degrees)
    if compared is not None:
        title = reader.sentence(outline(compared))
        shown.append({"query": str(compared), "shape": "2ia", "title": title})
    return shown


def _comparison_example(graph: Graph, degrees: Integers) -> Query | None:
    """A question whose answers an attribute's median divides; None where none does."""
    attributes = graph.attributes
    if not len(attributes):
        return None
    attribute = int(np.argmax(np.bincount(attributes.rows["attribute"])))
    listed = attributes.listed[attribute]
    holders, values = attributes.column(attribute)
    median = Quantity(float(np.sort(values)[(len(values) - 1) // 2]), listed.kind, "year")
    literal = f"{median.value:.1g}" if listed.kind == "number" else str(median)
    quantity = Quantity.parse(literal, listed.kind)
    if quantity is None:
        return None
    above = holders[values > quantity.last]
    sampled = sample(
        graph, SHAPES["1p"], "train", _SAMPLED, max_answers=_MOST_ANSWERS, waste=0.95
    ).queries
    ranks = []
    for row in range(len(sampled)):
        (entity,) = sampled.entities[row]
        answers = sampled.hard[row]
        remaining = int(np.isin(answers, above).sum())
        divided = 0 < remaining < int(np.isin(answers, holders).sum())
        short = len(graph.entities[entity]) <= _LONGEST_NAME
        ranks.append((divided, short, remaining, int(degrees[entity])))
    if not ranks or not max(ranks)[0]:
        return None
    best = ranks.index(max(ranks))
    query = _written("1p", graph, sampled.entities[best], sampled.relations[best])
    return parse(f"{query} & {quoted(listed.name)}({query.target}) > {quantity}")


def _written(shape: str, graph: Graph, entities: Ids, relations: Ids) -> Query:
    """The question of a shape with its slots filled."""
    words = {f"e{i}": quoted(graph.entities[e]) for i, e in enumerate(entities, start=1)} | {
        f"r{i}": quoted(graph.relations[r & ~1]) + INVERSE * (r & 1)
        for i, r in enumerate(relations, start=1)
    }
    template = str(SHAPES[shape].query).replace("?t", "?x").replace("?v1", "?y")
    return parse(re.sub(r"\b[er]\d\b", lambda slot: words[slot[0]], template))
