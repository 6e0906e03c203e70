"""The rows that an adapter scales and shifts, of atoms `p(s, ·)`: those of a batch are computed once.

Their values `x` are logits, or the log-odds of calibrated scores: constants, while the link predictor is frozen. The
queries of a batch share many of their rows, and so do batches.
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
_CACHED = 2**18  # floats that stay in cache beside what becomes of them
_COMPUTED = 2**12  # rows computed at a time, where none is kept


class SharedRows:
    """A table of rows `x`, each under the key `head · R + relation` of its atoms; those most often used stay."""

    def __init__(self, atoms: Atoms, adapted: Adapted, memory: int) -> None:
        self.atoms, self.adapted = atoms, adapted
        self.on_cpu = atoms.device.type == "cpu"
        self.room = max(1, memory // (4 * atoms.num_entities))  # rows, at most
        self.table = torch.empty(0, atoms.num_entities, device=atoms.device)
        self._places: dict[int, int] = {}  # of each key
        self._free: list[int] = []
        self._used = Counter[int]()

    def places(self, keys: Ints) -> Tensor:
        """Where the rows of distinct keys are in the table, `[D]`; those that are not there yet are computed."""
        wanted, device = keys.tolist(), self.table.device
        self._used.update(wanted)
        missing = [key for key in wanted if key not in self._places]
        if missing:
            self._vacate(len(missing), set(wanted))
            places = self._free[: len(missing)]
            self._fill(torch.tensor(missing, device=device), torch.tensor(places, device=device))
            del self._free[: len(missing)]
            self._places.update(zip(missing, places, strict=True))
        return torch.tensor([self._places[key] for key in wanted], device=device)

    def block(self, places: Tensor, columns: slice, out: Tensor) -> Tensor:
        """The rows at some places in some columns, `[D, n]`, written into `out`."""
        return torch.index_select(self.table[:, columns], 0, places, out=out)

    def at(self, places: Tensor, tails: Tensor) -> Tensor:
        """`x` of the row at each place at one entity, `[P]`."""
        return self.table[places, tails]

    def _vacate(self, number: int, wanted: set[int]) -> None:
        """Free places for so many rows, in a larger table or of rows that are not wanted and were used least."""
        size, short = len(self.table), number - len(self._free)
        larger = max(min(max(size + short, 2 * size), self.room), len(wanted))
        if short > 0 and larger > size:
            table = torch.empty(larger, self.atoms.num_entities, device=self.table.device)
            table[:size] = self.table
            self.table = table
            self._free += range(size, larger)
        unwanted = self._places.keys() - wanted
        for key in nsmallest(number - len(self._free), unwanted, key=self._used.__getitem__):
            self._free.append(self._places.pop(key))

    def _fill(self, keys: Tensor, places: Tensor) -> None:
        """Compute rows, by pieces that threads share on a CPU; on a GPU, where pieces take memory, one by one."""
        heads, ids = keys // self.atoms.scorer.num_relations, keys % self.atoms.scorer.num_relations
        n, at_once, threads = self.atoms.num_entities, max(1, self.room // 8), 1
        width, few = n, at_once
        if self.on_cpu:
            at_once, threads, width, few = _ROWS, torch.get_num_threads(), _WIDTH, max(1, _CACHED // n)
        size = min(at_once, -(-len(keys) // threads))

        def fill(rows: slice) -> None:
            number = len(places[rows])  # of a few rows alone, products would differ in their last digits
            h, r = (F.pad(each[rows], (0, max(0, STEADY - number))) for each in (heads, ids))
            with torch.no_grad():
                for block in self.atoms.products(h, r, width):
                    self.table[:, block.columns].index_copy_(0, places[rows], block.scores[:number])
                if self.adapted.by_odds:
                    for part, h, r in zip(*(each[rows].split(few) for each in (places, heads, ids)), strict=True):
                        self.table[part] = self.adapted.adaptable(self.table[part], h, r)

        spread(fill, [slice(start, start + size) for start in range(0, len(keys), size)], alone=not self.on_cpu)


class ComputedRows(SharedRows):
    """Rows of logits on a CPU, computed anew in each block of columns: that is sooner done than to fetch them.

    The rows are those whose places were asked for last.
    """

    def __init__(self, atoms: Atoms, adapted: Adapted) -> None:
        super().__init__(atoms, adapted, 0)
        self.room = _COMPUTED
        self._scorer = cast(BilinearScorer, atoms.scorer)

    def places(self, keys: Ints) -> Tensor:
        """The numbers of distinct keys, `[D]`."""
        self._heads, self._ids = (torch.from_numpy(each) for each in np.divmod(keys, self._scorer.num_relations))
        with torch.no_grad():
            self._queries, self._keys = self._scorer.queries(self._heads, self._ids), self._scorer.keys().detach()
        return torch.arange(len(keys))

    def block(self, places: Tensor, columns: slice, out: Tensor) -> Tensor:
        """The rows in some columns, `[D, n]`, written into `out`."""
        return product(self._queries, self._keys[columns].t(), out=out)

    def at(self, places: Tensor, tails: Tensor) -> Tensor:
        """`x` of each row at one entity, `[P]`."""
        with torch.no_grad():
            return self._scorer.logits_of(self._heads[places], self._ids[places], tails)
