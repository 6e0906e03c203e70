"""The known facts, as tensors on the device where scores are computed, and as places in rows of scores."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.graph.fact_index import FactIndex


class KnownFacts:
    """A graph's sorted index on a device: counts and tails of many `(head, relation)` at once.

    On a CPU its tensors are the arrays of the index, which may be those of a file, and take no memory of their own.
    """

    def __init__(self, index: FactIndex, device: torch.device | str = "cpu") -> None:
        self.index = index
        self.num_relations = index.num_relations
        self._keys = torch.from_numpy(index.keys).to(device)
        self._offsets = torch.from_numpy(index.offsets).to(device)
        self._tails = torch.from_numpy(index.all_tails).to(device)  # int32

    def spans(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Where the tails of each pair start, and how many there are."""
        wanted = heads * self.num_relations + relations
        if not len(self._keys):
            return torch.zeros_like(wanted), torch.zeros_like(wanted)
        at = torch.searchsorted(self._keys, wanted).clamp_(max=len(self._keys) - 1)
        starts = self._offsets[at]
        there = self._keys[at] == wanted
        return starts, (self._offsets[at + 1] - starts) * there

    def counts(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The number of known tails of each pair."""
        return self.spans(heads, relations)[1]

    def tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """All known tails of many pairs: `(row, tail)`, where `row` says which pair a tail belongs to."""
        starts, sizes = self.spans(heads, relations)
        ends = sizes.cumsum(0)
        total = int(ends[-1]) if len(ends) else 0
        rows = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes, output_size=total)
        within = torch.arange(total, device=sizes.device) - (ends - sizes)[rows]
        return rows, self._tails[starts[rows] + within].long()

    def contains(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each triple is a known fact."""
        known = self.index.contains(heads.cpu().numpy(), relations.cpu().numpy(), tails.cpu().numpy())
        return torch.from_numpy(known).to(heads.device)


class KnownTails:
    """Places in rows of scores that are overwritten, such as known facts and loops, ready to be cut by columns."""

    def __init__(self, rows: Tensor, tails: Tensor) -> None:
        self.tails, order = tails.sort()
        self.rows = rows[order]

    def lift(self, scores: Tensor, columns: slice | Tensor, value: float) -> None:
        """Overwrite the scores of the facts whose tail is in some columns: a slice, or single ones by rising id."""
        if isinstance(columns, slice):
            rows, tails = self.rows, self.tails
            if columns.start > 0 or (len(tails) and columns.stop <= int(tails[-1])):
                edges = torch.tensor([columns.start, columns.stop], device=tails.device)
                start, stop = torch.searchsorted(tails, edges).tolist()
                rows, tails = rows[start:stop], tails[start:stop]
            scores[rows, tails - columns.start] = value
            return
        places = torch.searchsorted(columns, self.tails).clamp(max=len(columns) - 1)
        there = columns[places] == self.tails if len(columns) else torch.zeros_like(self.tails, dtype=torch.bool)
        scores[self.rows[there], places[there]] = value

    def in_blocks(self, width: int, num_entities: int) -> list[tuple[Tensor, Tensor]]:
        """Rows and places inside the block, for each block of `width` entities."""
        if width >= num_entities:
            return [(self.rows, self.tails)]
        starts = range(0, num_entities, width)
        edges = torch.searchsorted(self.tails, torch.tensor([*starts, num_entities], device=self.tails.device)).tolist()
        spans = zip(edges, edges[1:], starts, strict=False)
        return [(self.rows[first:last], self.tails[first:last] - start) for first, last, start in spans]
