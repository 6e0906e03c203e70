"""One set of entities per query, for a whole batch of queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import Ints, distinct, spread, within

Flags = NDArray[np.bool_]
_BLOCK = 1 << 18  # pairs (query, entity) handed out at a time


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
        """The sets that hold just the keys."""
        return cls(keys, np.zeros(num_queries, dtype=bool), num_entities)

    @classmethod
    def all_where(cls, true: Flags, num_entities: int) -> Sets:
        """All entities for some queries, none for the others."""
        return cls(np.empty(0, dtype=np.int64), true, num_entities)

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

    def contains(self, rows: Ints, entities: NDArray[np.integer]) -> Flags:
        """Whether the set of each query holds an entity."""
        return within(rows * self.num_entities + entities, self.keys) ^ self.cofinite[rows]

    def nonempty(self) -> Flags:
        """Whether each set holds anything."""
        counts = np.bincount(self.rows, minlength=len(self))
        return np.where(self.cofinite, counts < self.num_entities, counts > 0)

    @property
    def size(self) -> int:
        """How many entities all sets hold together, none written out."""
        left_out = int(self.cofinite[self.rows].sum())
        return int(self.cofinite.sum()) * self.num_entities + len(self.keys) - 2 * left_out

    def take(self, rows: Ints) -> Sets:
        """The sets of some queries, in the given order and with repetitions."""
        starts, ends = (
            np.searchsorted(self.keys, row * self.num_entities) for row in (rows, rows + 1)
        )
        # what takes a key from its query to its place
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
        # A union with complements lacks what all of them leave out and no plain set holds.
        left_out = self.cofinite[owner]
        held = distinct(moved[~left_out])
        complements = np.bincount(rows[self.cofinite], minlength=num_queries)
        outside, times = np.unique(moved[left_out], return_counts=True)
        outside = outside[times == complements[outside // self.num_entities]]
        outside = outside[~within(outside, held)]
        held = held[complements[held // self.num_entities] == 0]
        return Sets(np.sort(np.concatenate([held, outside])), complements > 0, self.num_entities)

    def listed(self) -> Ints:
        """The sorted keys of all members, with complements written out."""
        if not self.cofinite.any():
            return self.keys
        parts = [rows * self.num_entities + entities for rows, entities in self.members()]
        return np.sort(np.concatenate([self.keys[:0], *parts]))

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
            everything = (few[:, None] * self.num_entities + np.arange(self.num_entities)).ravel()
            rows, entities = np.divmod(
                everything[~within(everything, self.keys)], self.num_entities
            )
            if len(rows):
                yield rows, entities
