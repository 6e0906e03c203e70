"""The rows of atoms `p(s, ·)` that an adapter scales and shifts, computed once per batch.

Their values `x` are logits, or the log-odds of calibrated scores: constants, while the link
predictor is frozen. The queries of a batch share many of their rows, and so do batches.
"""

from __future__ import annotations

from collections import Counter
from heapq import nsmallest
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.adapt.calibrated import Adapted
from tacit.distributed.threads import spread
from tacit.engine.atoms.atoms import Atoms
from tacit.graph.fact_index import Ints
from tacit.links.precision import STEADY, product
from tacit.links.scorer import BilinearScorer

_WIDTH = 1024  # columns of a product on a CPU
_ROWS = 512  # and its rows, at most
_CACHED = 2**18  # floats that stay in cache together with what is computed of them
_COMPUTED = 2**12  # rows computed at a time, where none is kept


class SharedRows:
    """A table of the most used rows `x`, by the key `head · R + relation` of their atoms."""

    def __init__(self, atoms: Atoms, adapted: Adapted, memory: int) -> None:
        self.atoms = atoms
        self.adapted = adapted
        self.on_cpu = atoms.device.type == "cpu"
        self.capacity = max(1, memory // (4 * atoms.num_entities))  # rows, at most
        self.table = torch.empty(0, atoms.num_entities, device=atoms.device)
        self._places: dict[int, int] = {}  # of each key
        self._free: list[int] = []
        self._used = Counter[int]()

    def places(self, keys: Ints) -> Tensor:
        """The places of the rows of distinct keys, `[D]`; missing rows are computed."""
        requested = keys.tolist()
        device = self.table.device
        self._used.update(requested)
        missing = [key for key in requested if key not in self._places]
        if missing:
            self._vacate(len(missing), requested)
            places = self._free[: len(missing)]
            self._fill(torch.tensor(missing, device=device), torch.tensor(places, device=device))
            del self._free[: len(missing)]
            self._places.update(zip(missing, places, strict=True))
        return torch.tensor([self._places[key] for key in requested], device=device)

    def block(self, places: Tensor, columns: slice, out: Tensor) -> Tensor:
        """The rows at some places in some columns, `[D, n]`, written into `out`."""
        return torch.index_select(self.table[:, columns], 0, places, out=out)

    def at(self, places: Tensor, tails: Tensor) -> Tensor:
        """`x` of the row at each place at one entity, `[P]`."""
        return self.table[places, tails]

    def _vacate(self, number: int, requested: list[int]) -> None:
        """Free some places, by a larger table or by dropping the least used rows."""
        size = len(self.table)
        short = number - len(self._free)
        larger = max(min(max(size + short, 2 * size), self.capacity), len(requested))
        if short > 0 and larger > size:
            table = torch.empty(larger, self.atoms.num_entities, device=self.table.device)
            table[:size] = self.table
            self.table = table
            self._free += range(size, larger)
        droppable = self._places.keys() - set(requested)
        for key in nsmallest(number - len(self._free), droppable, key=self._used.__getitem__):
            self._free.append(self._places.pop(key))

    def _fill(self, keys: Tensor, places: Tensor) -> None:
        """Compute rows, in pieces by several threads on a CPU, or one after the other on a GPU."""
        heads = keys // self.atoms.scorer.num_relations
        ids = keys % self.atoms.scorer.num_relations
        n = self.atoms.num_entities
        limit = max(1, self.capacity // 8)
        threads = 1
        width = n
        in_cache = limit
        if self.on_cpu:
            limit = _ROWS
            threads = torch.get_num_threads()
            width = _WIDTH
            in_cache = max(1, _CACHED // n)
        size = min(limit, -(-len(keys) // threads))

        def fill(rows: slice) -> None:
            # of a few rows alone, products would differ in their last digits
            number = len(places[rows])
            h, r = (F.pad(each[rows], (0, max(0, STEADY - number))) for each in (heads, ids))
            with torch.no_grad():
                for block in self.atoms.raw.blocks(h, r, width):
                    self.table[:, block.columns].index_copy_(0, places[rows], block.scores[:number])
                if self.adapted.by_odds:
                    for part, h, r in zip(
                        *(each[rows].split(in_cache) for each in (places, heads, ids)), strict=True
                    ):
                        self.table[part] = self.adapted.adaptable(self.table[part], h, r)

        spread(
            fill,
            [slice(start, start + size) for start in range(0, len(keys), size)],
            alone=not self.on_cpu,
        )


class ComputedRows(SharedRows):
    """Rows of logits that a CPU computes in each block, faster than it could fetch them.

    The rows are those of the last call of `places`.
    """

    def __init__(self, atoms: Atoms, adapted: Adapted) -> None:
        super().__init__(atoms, adapted, 0)
        self.capacity = _COMPUTED
        self._scorer = cast(BilinearScorer, atoms.scorer)

    def places(self, keys: Ints) -> Tensor:
        """The numbers of distinct keys, `[D]`."""
        self._heads, self._ids = (
            torch.from_numpy(each) for each in np.divmod(keys, self._scorer.num_relations)
        )
        with torch.no_grad():
            self._queries, self._keys = (
                self._scorer.queries(self._heads, self._ids),
                self._scorer.keys().detach(),
            )
        return torch.arange(len(keys))

    def block(self, places: Tensor, columns: slice, out: Tensor) -> Tensor:
        """The rows in some columns, `[D, n]`, written into `out`."""
        return product(self._queries, self._keys[columns].t(), out=out)

    def at(self, places: Tensor, tails: Tensor) -> Tensor:
        """`x` of each row at one entity, `[P]`."""
        with torch.no_grad():
            return self._scorer.logits_of(self._heads[places], self._ids[places], tails)
