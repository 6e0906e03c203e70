"""The expansion of candidates over a scorer whose rows are sparse.

Most tails of a row have the same score, its floor. So `max_k v_k ⊤ s(k, t)` is the best
`v_k ⊤ floor` at every target, raised by the entries of the rows and by known facts alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.distributed.threads import choose_again
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.sparse_rows import SparseRows, SparseScores
from tacit.engine.logic import ZERO, Logic
from tacit.engine.search.block_expansion import by_relation

_ROWS = 2**12  # distinct rows at a time
_ENTRIES = 2**21  # entries of pairs that are combined at a time


@dataclass(frozen=True)
class SparseExpansion:
    """Raises values of targets by the floors of candidates, then by entries of their rows."""

    atoms: Atoms
    logic: Logic
    memory: int  # bytes

    def from_some(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]`, queries side by side."""
        least = self._raise_by_floors(values, ids, relations, out)
        self._raise_by_rows(values, ids, relations, least, out)

    def from_all(self, values: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by every entity; relations are in order, and their rows are shared."""
        everyone = torch.arange(values.shape[1], device=values.device)
        for heads, relation, source, targets in by_relation(values, relations, out):
            along = torch.full((len(source),), relation, device=values.device)
            least = self._raise_by_floors(source, everyone.expand_as(source), along, targets)
            for chunk in heads.split(_ROWS):
                ids = chunk.expand(len(source), -1)
                self._raise_by_rows(source[:, chunk], ids, along, least, targets)

    def _raise_by_floors(
        self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor
    ) -> Tensor:
        """Raise `out[B, N]` by all atoms of candidates `[B, K]`, as if these had no entries.

        The lowest value of a row that was raised is returned, `[B, 1]`.
        """
        worth = self.logic.conjunction(SparseRows(self.atoms).floors(relations), values)
        most, place = worth.max(dim=1, keepdim=True)
        best = ids.gather(1, place)
        others = worth.masked_fill(ids == best, ZERO).amax(dim=1, keepdim=True)
        at_best = torch.maximum(out.gather(1, best), others)  # where the best one would be a loop
        torch.maximum(out, most, out=out)
        constraints = self.atoms.possible
        if constraints is None:
            return most
        loopless = constraints.without_loops[relations][:, None]
        out.scatter_(1, best, torch.where(loopless, at_best, out.gather(1, best)))
        return torch.where(loopless, others, most)

    def _raise_by_rows(
        self, values: Tensor, ids: Tensor, relations: Tensor, least: Tensor, out: Tensor
    ) -> None:
        """Raise `out[B, N]` by the entries of candidates `[B, K]` that may exceed the `least`.

        Every distinct row is computed once.
        """
        atoms = self.atoms
        supremum = values.new_tensor(atoms.supremum)
        telling = ~(self.logic.conjunction(values, supremum) <= least)  # also what is no number
        query, place = telling.nonzero(as_tuple=True)
        n = atoms.num_entities
        keys, row = torch.unique(relations[query] * n + ids[query, place], return_inverse=True)
        order = row.argsort(stable=True)
        rows = SparseRows(atoms)
        sizes = torch.bincount(row // _ROWS, minlength=-(-len(keys) // _ROWS)).tolist()
        for number, pairs in enumerate(order.split(sizes)):
            choose_again()
            first = number * _ROWS
            heads, along = (
                keys[first : first + _ROWS] % n,
                keys[first : first + _ROWS] // n,
            )
            weights = values[query[pairs], place[pairs]]
            for scores in (rows.entries(heads, along), rows.known(heads, along)):
                self._raise(scores, row[pairs] - first, query[pairs], weights, out)

    def _raise(
        self,
        entries: SparseScores,
        rows: Tensor,
        queries: Tensor,
        weights: Tensor,
        out: Tensor,
    ) -> None:
        """Raise `out[B, N]` by entries, sorted by row, of weighted pairs of a query and a row."""
        edges = torch.arange(int(rows.max()) + 2, device=rows.device)
        offsets = torch.searchsorted(entries.rows, edges)
        starts = offsets[rows]
        sizes = offsets[rows + 1] - starts
        totals = sizes.cumsum(0)
        parts = (totals - 1).clamp(min=0) // _ENTRIES
        for pairs in torch.arange(len(rows), device=rows.device).split(
            torch.unique_consecutive(parts, return_counts=True)[1].tolist()
        ):
            pair = pairs.repeat_interleave(sizes[pairs])
            at = torch.arange(len(pair), device=rows.device)
            at += (starts + sizes - totals)[pair] + (totals[pairs[0]] - sizes[pairs[0]])
            worth = self.logic.conjunction(entries.scores[at], weights[pair])
            places = queries[pair] * out.shape[1] + entries.tails[at]
            out.view(-1).scatter_reduce_(0, places, worth, "amax")
