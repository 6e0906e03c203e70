"""A cache of sparse rows of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import Ints

Row = tuple[Ints, NDArray[np.float32]]  # tails and scores
_OVERHEAD = 16  # entries that the objects of a row take as much memory as


class RowCache:
    """The rows that were used last, by number; they take up to a number of entries.

    They are in two generations, of which the older is dropped once the younger is full. So threads
    and forked processes share it without a lock. It is pickled empty.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._young: dict[int, Row] = {}
        self._old: dict[int, Row] = {}
        self._used = 0

    def __reduce__(self) -> tuple[type[RowCache], tuple[int]]:
        return RowCache, (self.size,)

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def rows(self, keys: Sequence[int]) -> list[Row | None]:
        """The rows of some numbers, None where one is missing."""
        young = self._young
        old = self._old
        rows = [young.get(key) for key in keys]
        for place, row in enumerate(rows):
            if row is None and (older := old.get(keys[place])) is not None:
                rows[place] = older
                self.add(keys[place], older)
        return rows

    def add(self, key: int, row: Row) -> None:
        """Store a row, unless it is too large; nobody writes to it."""
        taken = len(row[0]) + _OVERHEAD
        if 2 * taken > self.size:
            return
        if 2 * (self._used + taken) > self.size:
            self._old = self._young
            self._young = {}
            self._used = 0
        self._young[key] = row
        self._used += taken
