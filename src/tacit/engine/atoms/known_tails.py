"""Places in rows of scores that are overwritten: known facts, loops, answers that go first."""

from __future__ import annotations

import torch
from torch import Tensor


class KnownTails:
    """The known facts of some rows, ready to be cut by columns."""

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
