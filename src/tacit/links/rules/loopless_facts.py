"""The facts that rules are mined from, sorted for joins by entity, by relation and by pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.graph.fact_index import FactIndex, Ids, Integers, Ints, distinct

CHUNK = 2**21  # rows of a join at a time, beside those of one entity


@dataclass(frozen=True, eq=False)
class LooplessFacts:
    """Directed facts without loops, which no rule speaks of: its terms are distinct entities."""

    index: FactIndex
    num_entities: int

    @classmethod
    def of(cls, index: FactIndex, num_entities: int) -> LooplessFacts:
        """The facts of an index but for its loops."""
        if len(index.loops):
            heads = np.repeat(index.keys, np.diff(index.offsets))
            triples = np.stack([*np.divmod(heads, index.num_relations), index.all_tails], axis=1)
            index = FactIndex(triples[triples[:, 0] != triples[:, 2]], index.num_relations)
        return cls(index, num_entities)

    @property
    def num_relations(self) -> int:
        """The number of relation ids, inverses included."""
        return self.index.num_relations

    @cached_property
    def keys(self) -> Ints:
        """The place in `index.keys` of each fact's head and relation."""
        return np.repeat(np.arange(len(self.index.keys)), np.diff(self.index.offsets))

    @cached_property
    def starts(self) -> Ints:
        """Where the facts of each entity start in the index, and the end."""
        ends = np.searchsorted(
            self.index.keys, np.arange(self.num_entities + 1) * self.num_relations
        )
        return self.index.offsets[ends]

    @cached_property
    def relations(self) -> Ids:
        """The relation of each fact, in the order of the index."""
        return self.index.relations.astype(np.int32)[self.keys]

    @cached_property
    def _order(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.relations, kind="stable")
        return order, np.searchsorted(self.relations[order], np.arange(self.num_relations + 1))

    def facts_of(self, relation: int) -> Ints:
        """The places of the facts of a relation in the index, by head."""
        order, starts = self._order
        return order[starts[relation] : starts[relation + 1]]

    def heads_of(self, facts: Ints) -> Ints:
        """The heads of some facts."""
        return self.index.keys[self.keys[facts]] // self.num_relations

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs of entities that some fact connects."""
        return Pairs.of(self)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The sorted distinct pairs (x, y) of facts, and the relations from x to y."""

    codes: Ints  # x · N + y
    second: Ids  # y
    offsets: Ints  # where the relations of each pair start, and the end
    relations: Ids
    facts: Ints  # the place in the index of the fact that each relation is of
    starts: Ints  # where the pairs of each entity start, and the end
    reverse: Ints  # the place of (y, x)
    of_fact: Ints  # the pair of each fact

    @classmethod
    def of(cls, facts: LooplessFacts) -> Pairs:
        """The pairs of some facts."""
        count = facts.num_entities
        places = np.arange(len(facts.index))
        codes = facts.heads_of(places) * count + facts.index.all_tails
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        offsets = np.flatnonzero(np.diff(codes, prepend=-1, append=-1)) if len(codes) else places
        offsets = offsets if len(codes) else np.zeros(1, dtype=np.int64)
        unique = codes[offsets[:-1]]
        first, second = np.divmod(unique, count)
        of_fact = np.empty(len(order), dtype=np.int64)
        of_fact[order] = np.repeat(np.arange(len(unique)), np.diff(offsets))
        return cls(
            unique,
            second.astype(np.int32),
            offsets,
            facts.relations[order],
            order,
            np.searchsorted(first, np.arange(count + 1)),
            np.argsort(second * count + first, kind="stable"),
            of_fact,
        )


def chunks(sizes: Integers, most: int = CHUNK) -> Iterator[slice]:
    """Spans of rows of at most so many in total, or of a single row.

    >>> list(chunks(np.array([3, 3, 9, 1]), 6))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


def counted(keys: Ints) -> tuple[Ints, Ints]:
    """The distinct keys in order, and how often each occurs.

    >>> counted(np.array([3, 1, 3]))
    (array([1, 3]), array([1, 2]))
    """
    keys = np.sort(keys)
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    return keys[starts], np.diff(starts, append=len(keys))


def summed(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The distinct keys in order, and the sums of their counts."""
    unique = distinct(keys)
    return unique, np.bincount(
        np.searchsorted(unique, keys), weights=counts, minlength=len(unique)
    ).astype(np.int64)
