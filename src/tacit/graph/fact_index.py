"""A sorted index of triples: the tails of any (head, relation), for many pairs at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Ints = NDArray[np.int64]
Integers = NDArray[np.integer]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
_MOST = 2**63 - 1
_LOOKUPS = 2**18  # keys of one search, which takes up to a quarter of a second in a large table


def distinct(keys: Ints, below: int | None = None) -> Ints:
    """The distinct keys in order; `below` is an upper bound that none of them reaches.

    A sort is many times faster than `np.unique`'s hashing; if the keys are dense in their range,
    marking them in a table is many times faster again.

    >>> distinct(np.array([3, 1, 3])), distinct(np.array([3, 1, 3]), below=4)
    (array([1, 3]), array([1, 3]))
    """
    if below is not None and 32 * len(keys) > below:
        marks = np.zeros(below, dtype=bool)
        marks[keys] = True
        return np.flatnonzero(marks)
    keys = np.sort(keys)
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys[fresh]


def within(keys: Integers, table: Integers) -> Flags:
    """Whether each key occurs in a sorted table.

    >>> within(np.array([3, 1]), np.array([1, 2]))
    array([False,  True])
    """
    if not len(table):
        return np.zeros(keys.shape, dtype=bool)
    hits: Flags = table[np.minimum(np.searchsorted(table, keys), len(table) - 1)] == keys
    return hits


def _places(table: Ints, keys: Ints) -> Ints:
    """The insertion position of each key in a sorted table.

    It is computed in parts, since Ctrl-C waits for the end of a search.
    """
    if keys.size <= _LOOKUPS:
        return np.searchsorted(table, keys)
    parts = np.split(keys.reshape(-1), range(_LOOKUPS, keys.size, _LOOKUPS))
    return np.concatenate([np.searchsorted(table, part) for part in parts]).reshape(keys.shape)


def paired(high: Ints, low: Integers, size: int) -> Ints:
    """One integer per pair, equal and ordered as the pairs are; `size` exceeds every `low`.

    It is `high · size + low` where that fits into 64 bits; else the rank of `high` among its
    values takes its place, and ranks always fit.

    >>> paired(np.array([2, 0]), np.array([1, 3]), 10)
    array([21,  3])
    >>> paired(np.array([2**62, 7]), np.array([1, 3]), 10)
    array([11,  3])
    """
    if len(high) and int(high.max()) >= _MOST // size:
        high = np.unique(high, return_inverse=True)[1]
    pairs: Ints = high * size
    pairs += low
    return pairs


def spread(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Concatenates spans of positions: the span of each position, and the position.

    >>> spread(np.array([5, 9]), np.array([7, 10]))
    (array([0, 0, 1]), array([5, 6, 9]))
    """
    sizes = ends - starts
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return rows, np.arange(len(rows)) + np.repeat(ends - np.cumsum(sizes), sizes)


class FactIndex:
    """`(head, relation) -> tails` over directed triples, kept as three sorted arrays.

    Keys are `head · R + relation`, which 64 bits hold for all ids of 32; the tails of a key lie
    side by side and are sorted, so that a lookup is a binary search and a membership test is
    another. Duplicate triples are stored once.

    >>> index = FactIndex(np.array([[0, 0, 2], [0, 0, 1], [1, 1, 0]]), num_relations=2)
    >>> index.tails(0, 0), index.tails(2, 1)
    (array([1, 2], dtype=int32), array([], dtype=int32))
    """

    def __init__(self, triples: Integers, num_relations: int) -> None:
        keys = triples[:, 0].astype(np.int64) * num_relations + triples[:, 1]
        width = int(triples[:, 2].max()) + 1 if len(triples) else 1
        if len(keys) and int(keys.max()) >= _MOST // width:
            order = np.lexsort((triples[:, 2], keys))
            keys = keys[order]
            tails = triples[order, 2]
            fresh = np.append(True, (np.diff(keys) != 0) | (np.diff(tails) != 0))
            keys = keys[fresh]
            tails = tails[fresh]
        else:  # one number for each triple, which sorts several times faster
            keys, tails = np.divmod(distinct(keys * width + triples[:, 2]), width)
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        self.keys = keys[starts]  # [P] distinct (head, relation)
        # [P + 1] where the tails of each key start
        self.offsets: Ints = np.append(starts, len(keys)).astype(np.int64)
        self.all_tails: Ids = tails.astype(np.int32)
        self.num_relations = num_relations

    @classmethod
    def of_arrays(cls, keys: Ints, offsets: Ints, tails: Ids, num_relations: int) -> FactIndex:
        """The index over existing arrays, such as those of a file."""
        index = cls.__new__(cls)
        index.keys = keys
        index.offsets = offsets
        index.all_tails = tails
        index.num_relations = num_relations
        return index

    def __len__(self) -> int:
        return len(self.all_tails)

    @property
    def heads(self) -> Ints:
        """The head of each distinct key."""
        return self.keys // self.num_relations

    @property
    def relations(self) -> Ints:
        """The relation of each distinct key."""
        return self.keys % self.num_relations

    @cached_property
    def most_tails(self) -> int:
        """The largest number of tails of a (head, relation)."""
        return int(np.diff(self.offsets).max(initial=0))

    @cached_property
    def loops(self) -> FactIndex:
        """`(relation, 0) -> entities` with an edge to themselves."""
        keys = np.repeat(self.keys, np.diff(self.offsets))
        return self._by_relation(keys[keys // self.num_relations == self.all_tails])

    @cached_property
    def sources(self) -> FactIndex:
        """`(relation, 0) -> entities` the relation leads from."""
        return self._by_relation(self.keys)

    def _by_relation(self, keys: Ints) -> FactIndex:
        heads, relations = np.divmod(keys, self.num_relations)
        return FactIndex(
            np.stack([relations, np.zeros_like(heads), heads], axis=1), num_relations=1
        )

    def tails(self, head: int, relation: int) -> Ids:
        """The sorted tails of one (head, relation)."""
        key = head * self.num_relations + relation
        at = int(np.searchsorted(self.keys, key))
        if at == len(self.keys) or self.keys[at] != key:
            return self.all_tails[:0]
        return self.all_tails[self.offsets[at] : self.offsets[at + 1]]

    def counts(self, heads: Integers, relations: Integers) -> Ints:
        """The number of tails of each (head, relation)."""
        starts, ends = self.spans(heads, relations)
        return ends - starts

    def spans(self, heads: Integers, relations: Integers) -> tuple[Ints, Ints]:
        """Where the tails of each (head, relation) start and end in `all_tails`."""
        pairs = np.asarray(heads, dtype=np.int64) * self.num_relations + relations
        if not len(self.keys):
            zeros = np.zeros(pairs.shape, dtype=np.int64)
            return zeros, zeros
        at = np.minimum(_places(self.keys, pairs), len(self.keys) - 1)
        hits = self.keys[at] == pairs
        return np.where(hits, self.offsets[at], 0), np.where(hits, self.offsets[at + 1], 0)

    def neighbours(self, heads: Integers, relations: Integers) -> tuple[Ints, Ids]:
        """The tails of many pairs: arrays `(row, tail)`, where `row` is the pair's index."""
        rows, at = spread(*self.spans(heads, relations))
        return rows, self.all_tails[at]

    def contains(self, heads: Integers, relations: Integers, tails: Integers) -> Flags:
        """Whether each triple is in the index."""
        low, ends = self.spans(heads, relations)
        if not len(self):
            return low < ends
        high = ends
        # a binary search of all spans at once
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            less = (self.all_tails.take(middle, mode="clip") < tails) & (low < high)
            low = np.where(less, middle + 1, low)
            high = np.where(less, high, middle)
        hits: Flags = (low < ends) & (self.all_tails.take(low, mode="clip") == tails)
        return hits
