"""Deduplication: equal rows are valued once, and dominated candidates not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class RowGroups:
    """One row of each group of equal rows, and the place of its group for every row."""

    rows: Tensor  # [n]
    back: Tensor  # [B]

    def lowest(self, values: Tensor) -> Tensor:
        """The lowest value of each group, `[B] -> [n]`."""
        out = values.new_full((len(self.rows),), torch.inf)
        return out.scatter_reduce_(0, self.back, values, "amin")


def group_rows(columns: Sequence[Tensor], size: int, device: torch.device) -> RowGroups | None:
    """Group the rows that are equal in all columns, `[B]` each; None where most differ.

    >>> group_rows([torch.tensor([7, 5, 7, 7])], 4, torch.device("cpu"))
    RowGroups(rows=tensor([1, 3]), back=tensor([1, 0, 1, 1]))
    """
    back = torch.zeros(size, dtype=torch.long, device=device)
    for column in columns:
        if not bool((column == column[:1]).all()):
            numbers = back * (int(column.max()) + 1) + column
            back = torch.unique(numbers, return_inverse=True)[1]
    count = int(back.max()) + 1 if size else 0
    if not count or 2 * count > size:
        return None
    last = torch.zeros(count, dtype=torch.long, device=device)
    last.scatter_reduce_(0, back, torch.arange(size, device=device), "amax")
    return RowGroups(last, back)


def undominated(features: Sequence[Tensor]) -> Tensor | None:
    """The places `[B, m]` of candidates that no other matches or exceeds in each feature.

    Features are `[B, P]` each. Rows with fewer such candidates repeat one of theirs. None for more
    than two features, of which most candidates are needed.

    >>> undominated([torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0, 5.0, 5.0]])])
    tensor([[0, 2]])
    """
    if len(features) > 2:
        return None
    first = features[0]
    second = features[-1]
    values, order = first.sort(dim=1, descending=True, stable=True)
    others = values if first is second else second.gather(1, order)
    before = others.cummax(dim=1).values[:, :-1]
    exceeds = ~(others[:, 1:] <= before)  # also where something is no number
    better = torch.cat([torch.ones_like(order[:, :1]).bool(), exceeds], dim=1)
    most = int(better.sum(dim=1).max())
    places = better.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :most]
    places = torch.where(better.gather(1, places), places, 0)
    return order.gather(1, places)
