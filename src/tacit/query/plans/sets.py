"""Sets of entities, one per query of a batch: of any size, and as answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from tacit.errors import DataError
from tacit.graph.fact_index import Flags, Ids, Integers, Ints, distinct, spread, within

_BLOCK = 1 << 18  # pairs (query, entity) of a block of members


@dataclass(frozen=True, eq=False)
class Sets:
    """A set of entities per query, as sorted distinct keys `query · N + entity`.

    Where `cofinite`, the keys of a query are the entities its set does *not* hold: complements cost
    nothing, `A & ~B` is a difference, and a full complement is written out only by `members`.

    >>> few = Sets.finite(np.array([1, 2, 5]), num_queries=2, num_entities=4)  # {1, 2} and {1}
    >>> rest = ~Sets.finite(np.array([2]), num_queries=2, num_entities=4)  # {0, 1, 3} and all
    >>> next((few & rest).members())
    (array([0, 1]), array([1, 1]))
    """

    keys: Ints
    cofinite: Flags  # [Q]
    num_entities: int

    @classmethod
    def finite(cls, keys: Ints, num_queries: int, num_entities: int) -> Sets:
        """The sets of the members that the keys say."""
        return cls(keys, np.zeros(num_queries, dtype=bool), num_entities)

    @classmethod
    def none(cls, num_queries: int, num_entities: int) -> Sets:
        """Empty sets."""
        return cls.finite(np.empty(0, dtype=np.int64), num_queries, num_entities)

    @classmethod
    def all_where(cls, mask: Flags, num_entities: int) -> Sets:
        """All entities for the queries of a mask, none for the others."""
        return cls(np.empty(0, dtype=np.int64), mask, num_entities)

    def __len__(self) -> int:
        return len(self.cofinite)

    def __invert__(self) -> Sets:
        return Sets(self.keys, ~self.cofinite, self.num_entities)

    def __and__(self, other: Sets) -> Sets:
        if len(other.keys) < len(self.keys) and not other.cofinite.any():
            self, other = other, self
        mask = within(self.keys, other.keys)
        if other.cofinite.any():
            mask ^= True if other.cofinite.all() else other.cofinite[self.rows]
        # the common case: what one holds and the other does not rule out
        if not self.cofinite.any():
            return Sets(self.keys[mask], self.cofinite, self.num_entities)
        mask = np.where(self.cofinite[self.rows], other.cofinite[self.rows], mask)
        added = other.keys[self.cofinite[other.rows] & ~within(other.keys, self.keys)]
        keys = np.sort(np.concatenate([self.keys[mask], added]))
        return Sets(keys, self.cofinite & other.cofinite, self.num_entities)

    def __or__(self, other: Sets) -> Sets:
        if not self.cofinite.any() and not other.cofinite.any():
            if not len(self.keys) or not len(other.keys):
                return self if len(self.keys) else other
            keys = distinct(np.concatenate([self.keys, other.keys]), len(self) * self.num_entities)
            return Sets(keys, self.cofinite, self.num_entities)
        return ~(~self & ~other)

    @property
    def rows(self) -> Ints:
        """The query of each key."""
        return self.keys // self.num_entities

    def contains(self, rows: Ints, entities: Integers) -> Flags:
        """Whether the set of each query holds an entity."""
        return within(rows * self.num_entities + entities, self.keys) ^ self.cofinite[rows]

    def nonempty(self) -> Flags:
        """Whether each set holds anything."""
        counts = np.bincount(self.rows, minlength=len(self))
        return np.where(self.cofinite, counts < self.num_entities, counts > 0)

    @property
    def size(self) -> int:
        """How many entities all sets hold together, none written out."""
        excluded = int(self.cofinite[self.rows].sum())
        return int(self.cofinite.sum()) * self.num_entities + len(self.keys) - 2 * excluded

    def take(self, rows: Ints) -> Sets:
        """The sets of some queries, in the given order and with repetitions."""
        starts, ends = (
            np.searchsorted(self.keys, row * self.num_entities) for row in (rows, rows + 1)
        )
        # the distance from the keys of a query to those of its place
        shift = (np.arange(len(rows)) - rows) * self.num_entities
        _, at = spread(starts, ends)
        keys = self.keys[at] + np.repeat(shift, ends - starts)
        return Sets(keys, self.cofinite[rows], self.num_entities)

    def union_by(self, rows: Ints, num_queries: int) -> Sets:
        """The union of the sets that belong to one query: set `i` belongs to query `rows[i]`."""
        owner, entities = np.divmod(self.keys, self.num_entities)
        moved = rows[owner] * self.num_entities + entities
        if not self.cofinite.any():
            keys = distinct(moved, num_queries * self.num_entities)
            return Sets.finite(keys, num_queries, self.num_entities)
        # A union with complements lacks what all of them exclude and no plain set has.
        excluded = self.cofinite[owner]
        inside = distinct(moved[~excluded])
        complements = np.bincount(rows[self.cofinite], minlength=num_queries)
        outside, times = np.unique(moved[excluded], return_counts=True)
        outside = outside[times == complements[outside // self.num_entities]]
        outside = outside[~within(outside, inside)]
        inside = inside[complements[inside // self.num_entities] == 0]
        return Sets(np.sort(np.concatenate([inside, outside])), complements > 0, self.num_entities)

    def members(self, block: int = _BLOCK) -> Iterator[tuple[Ints, Ints]]:
        """All `(query, entity)` pairs, in blocks of bounded size."""
        rows, entities = np.divmod(self.keys, self.num_entities)
        if self.cofinite.any():
            finite = ~self.cofinite[rows]
            rows = rows[finite]
            entities = entities[finite]
        for start in range(0, len(rows), block):
            yield rows[start : start + block], entities[start : start + block]
        cofinite = np.flatnonzero(self.cofinite)
        step = max(1, block // self.num_entities)
        for start in range(0, len(cofinite), step):
            few = cofinite[start : start + step]
            keys = (few[:, None] * self.num_entities + np.arange(self.num_entities)).ravel()
            rows, entities = np.divmod(keys[~within(keys, self.keys)], self.num_entities)
            if len(rows):
                yield rows, entities


@dataclass(frozen=True, eq=False)
class AnswerSets:
    """The sorted answers of many queries in one array.

    Those of query `q` are `ids[offsets[q]:offsets[q + 1]]`.

    >>> answers = AnswerSets.of([{5, 2}, set()])
    >>> len(answers), answers[0], answers.counts
    (2, array([2, 5], dtype=int32), array([2, 0]))
    """

    offsets: Ints  # [Q + 1]
    ids: Ids

    @classmethod
    def of(cls, sets: Iterable[Collection[int]]) -> AnswerSets:
        """Builds answer sets from one collection of ids per query."""
        sets = list(sets)
        values = list(chain.from_iterable(sets))
        # Nested lists would be arrays of many dimensions, with more values than memory.
        numbers = all(issubclass(kind, int | np.integer) for kind in set(map(type, values)))
        flat = np.array(values if numbers else [None]) if values else np.empty(0, dtype=np.int64)
        if flat.dtype.kind != "i" or ((flat < 0) | (flat > np.iinfo(np.int32).max)).any():
            raise DataError("answers must be entity ids: whole numbers from 0")
        rows = np.repeat(np.arange(len(sets)), [len(ids) for ids in sets])
        return cls.of_keys(distinct(rows << 32 | flat), len(sets), 1 << 32)

    @classmethod
    def of_keys(cls, keys: Ints, num_queries: int, num_entities: int) -> AnswerSets:
        """Builds answer sets from sorted distinct keys `query · N + entity`."""
        offsets = np.searchsorted(keys, np.arange(num_queries + 1) * num_entities)
        return cls(offsets, (keys % num_entities).astype(np.int32))

    @classmethod
    def of_counts(cls, counts: Integers, ids: Ids) -> AnswerSets:
        """Builds answer sets from all their ids and the number of each query."""
        return cls(np.cumsum(np.append(0, counts)), ids)

    @classmethod
    def none(cls, num_queries: int) -> AnswerSets:
        """Empty answer sets."""
        return cls(np.zeros(num_queries + 1, dtype=np.int64), np.empty(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> Ids:
        at = range(len(self))[query]
        return self.ids[self.offsets[at] : self.offsets[at + 1]]

    @property
    def counts(self) -> Ints:
        """The number of answers of each query."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Ints:
        """The query that each of `ids` answers."""
        return np.repeat(np.arange(len(self)), self.counts)

    def keys(self, num_entities: int) -> Ints:
        """The answers as sorted distinct keys `query · N + entity`."""
        return self.rows * num_entities + self.ids

    def minus(self, other: AnswerSets) -> AnswerSets:
        """The answers that another set lacks."""
        width = int(max(self.ids.max(initial=0), other.ids.max(initial=0))) + 1
        return self.where(~within(self.keys(width), other.keys(width)))

    def where(self, mask: Flags) -> AnswerSets:
        """The answers that a mask over `ids` selects."""
        counts = np.bincount(self.rows[mask], minlength=len(self))
        return AnswerSets.of_counts(counts, self.ids[mask])

    def subset(self, queries: Ints) -> AnswerSets:
        """The answers of some queries, in the given order."""
        _, at = spread(self.offsets[queries], self.offsets[queries + 1])
        return AnswerSets.of_counts(self.counts[queries], self.ids[at])

    def to_sets(self) -> list[set[int]]:
        """One set of ids per query."""
        flat = self.ids.tolist()
        ends = self.offsets.tolist()
        return [set(flat[start:end]) for start, end in pairwise(ends)]
